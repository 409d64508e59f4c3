// Where logs and metrics go: a Log Analytics workspace, and Application Insights on it, which accepts telemetry
// from Entra identities only.

@description('The name of the Log Analytics workspace.')
param workspaceName string

@description('The name of the Application Insights component.')
param componentName string

@description('The region.')
param location string

@description('Tags of every resource.')
param tags object

@description('Days that logs are kept.')
param retentionDays int

@description('The principal that may send telemetry.')
param principalId string

// Monitoring Metrics Publisher
var publisherRole = '3913510d-42f4-4e42-8a64-420c390055eb'

resource workspace 'Microsoft.OperationalInsights/workspaces@2023-09-01' = {
  name: workspaceName
  location: location
  tags: tags
  properties: {
    sku: {
      name: 'PerGB2018'
    }
    retentionInDays: retentionDays
    features: {
      disableLocalAuth: true
    }
  }
}

resource component 'Microsoft.Insights/components@2020-02-02' = {
  name: componentName
  location: location
  tags: tags
  kind: 'web'
  properties: {
    Application_Type: 'web'
    WorkspaceResourceId: workspace.id
    DisableLocalAuth: true
  }
}

resource publisher 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: component
  name: guid(component.id, principalId, publisherRole)
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', publisherRole)
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}

@description('The workspace, for diagnostic settings.')
output workspaceId string = workspace.id

@description('The component, for alerts.')
output componentId string = component.id

@description('The address for telemetry. It is no secret: the component accepts telemetry from identities only.')
output connectionString string = component.properties.ConnectionString
