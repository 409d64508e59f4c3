// The storage account of the Functions host (its package, its keys, the timer's lock) and of the app's large values.

@description('The name of the account: lower-case letters and digits. It must be unique in all of Azure.')
@minLength(3)
@maxLength(24)
param name string

@description('The region.')
param location string

@description('Tags of every resource.')
param tags object

@description('Whether several zones of the region hold copies.')
param zoneRedundant bool

@description('Whether the account is reachable from outside the network.')
param allowPublicAccess bool

@description('The principal that reads and writes the data.')
param principalId string

@description('The workspace for its logs.')
param workspaceId string

// Storage Blob Data Owner: the host keeps its package, its keys and its locks in blobs.
var blobOwnerRole = 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b'
// Storage Queue Data Contributor
var queueContributorRole = '974c5e8b-45b9-4653-ba55-5f855dd0fb88'

resource account 'Microsoft.Storage/storageAccounts@2024-01-01' = {
  name: name
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: {
    name: zoneRedundant ? 'Standard_ZRS' : 'Standard_LRS'
  }
  properties: {
    accessTier: 'Hot'
    allowBlobPublicAccess: false
    allowCrossTenantReplication: false
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    publicNetworkAccess: allowPublicAccess ? 'Enabled' : 'Disabled'
    networkAcls: {
      bypass: 'AzureServices'
      defaultAction: allowPublicAccess ? 'Allow' : 'Deny'
    }
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2024-01-01' = {
  parent: account
  name: 'default'
  properties: {
    deleteRetentionPolicy: {
      enabled: true
      days: 7
    }
  }
}

resource packages 'Microsoft.Storage/storageAccounts/blobServices/containers@2024-01-01' = {
  parent: blobs
  name: 'packages'
  properties: {
    publicAccess: 'None'
  }
}

// For values that are too large for a document. The engine does not use it yet.
resource values 'Microsoft.Storage/storageAccounts/blobServices/containers@2024-01-01' = {
  parent: blobs
  name: 'values'
  properties: {
    publicAccess: 'None'
  }
}

resource queues 'Microsoft.Storage/storageAccounts/queueServices@2024-01-01' = {
  parent: account
  name: 'default'
}

// Hints: executions that one invocation of the app leaves to another.
resource hints 'Microsoft.Storage/storageAccounts/queueServices/queues@2024-01-01' = {
  parent: queues
  name: 'hints'
}

// Hints that failed again and again. The host would make this queue itself.
resource poison 'Microsoft.Storage/storageAccounts/queueServices/queues@2024-01-01' = {
  parent: queues
  name: 'hints-poison'
}

// For work that is handed to the app from outside. The engine does not use it yet.
resource inbox 'Microsoft.Storage/storageAccounts/queueServices/queues@2024-01-01' = {
  parent: queues
  name: 'inbox'
}

resource blobOwner 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: account
  name: guid(account.id, principalId, blobOwnerRole)
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', blobOwnerRole)
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}

resource queueContributor 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: account
  name: guid(account.id, principalId, queueContributorRole)
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', queueContributorRole)
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}

resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  scope: blobs
  name: 'to-workspace'
  properties: {
    workspaceId: workspaceId
    logs: [
      {
        category: 'StorageDelete'
        enabled: true
      }
    ]
    metrics: [
      {
        category: 'Transaction'
        enabled: true
      }
    ]
  }
}

@description('Its resource id.')
output id string = account.id

@description('Its name. The host connects by it.')
output name string = account.name

@description('The address of the container with the app\'s package.')
output packageContainerUrl string = '${account.properties.primaryEndpoints.blob}${packages.name}'
