// The function app on a Flex Consumption plan, and its settings.
//
// On this plan the runtime is set in functionAppConfig. FUNCTIONS_WORKER_RUNTIME, FUNCTIONS_EXTENSION_VERSION,
// WEBSITE_RUN_FROM_PACKAGE, WEBSITE_CONTENT…, SCM_DO_BUILD_DURING_DEPLOYMENT and linuxFxVersion must not be set.

@description('The name of the app. It must be unique in all of Azure.')
param name string

@description('The name of its plan. A Flex Consumption plan holds one app.')
param planName string

@description('The region.')
param location string

@description('Tags of every resource.')
param tags object

@description('The identity of the app.')
param identityId string

@description('The client id of that identity.')
param identityClientId string

@description('The storage account of the host.')
param storageAccountName string

@description('The blob container for its package.')
param packageContainerUrl string

@description('The workspace for its metrics.')
param workspaceId string

@description('The address for telemetry.')
param insightsConnectionString string

@description('The Cosmos DB account.')
param cosmosEndpoint string

@description('The database.')
param databaseName string

@description('The container that holds every execution.')
param containerName string

@description('The prefix of the change feed\'s leases. Two apps on one container need two prefixes.')
param leasePrefix string

@description('The version of Python.')
param pythonVersion string

@description('The memory of an instance, in MB.')
param instanceMemoryMB int

@description('The largest number of instances on demand in each scale group. HTTP may pass it.')
param maximumInstanceCount int

@description('Instances that always wait for the change feed.')
param alwaysReadyFeed int

@description('Instances that always wait for the sweep.')
param alwaysReadySweep int

@description('Instances that always wait for HTTP requests.')
param alwaysReadyHttp int

@description('HTTP requests that one instance takes at a time.')
param httpConcurrency int

@description('RollingUpdate or Recreate.')
param siteUpdateStrategy string

@description('Whether instances are spread over zones.')
param zoneRedundant bool

@description('The subnet that the app joins. Empty: none.')
param subnetId string

@description('Keys that sign the tokens of deferreds, or a Key Vault reference.')
@secure()
param signingKey string

@description('The client id of the app registration that callers sign in to. Empty: callers come with function keys.')
param signInClientId string

@description('The tenant whose users and apps may sign in.')
param signInTenantId string

@description('The address that the routes of the API begin with, as callers reach it. Empty: that of each request.')
param publicUrl string

@description('true: the X-Forwarded headers tell the address that callers asked for.')
param trustForwarded string

@description('Seconds that a claim holds without a heartbeat.')
param leaseSeconds int

@description('Seconds that clocks may be apart.')
param skewSeconds int

@description('Claims without progress before quarantine.')
param maxClaims int

@description('Days for which a finished execution is kept. 0: for ever.')
param retentionDays int

@description('Executions that compute at a time in one process.')
param maxDrives int

@description('Executions that one process holds at a time, whatever they wait for.')
param maxHeld int

@description('Events of a run after which its execution is suspended.')
param maxEvents int

@description('Seconds that the event loop may stand still before a warning.')
param blockedSeconds int

@description('Seconds that the event loop may stand still before its process is ended. 0: never.')
param blockedExitSeconds int

// All HTTP functions scale together; each other function scales alone.
var scaleGroups = [
  {
    name: 'http'
    instances: alwaysReadyHttp
  }
  {
    name: 'function:drive_changes'
    instances: alwaysReadyFeed
  }
  {
    name: 'function:sweep'
    instances: alwaysReadySweep
  }
]

resource plan 'Microsoft.Web/serverfarms@2024-11-01' = {
  name: planName
  location: location
  tags: tags
  kind: 'functionapp'
  sku: {
    name: 'FC1'
    tier: 'FlexConsumption'
  }
  properties: {
    reserved: true
    zoneRedundant: zoneRedundant
  }
}

resource app 'Microsoft.Web/sites@2024-11-01' = {
  name: name
  location: location
  tags: union(tags, {
    'azd-service-name': 'api'
  })
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identityId}': {}
    }
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    publicNetworkAccess: 'Enabled'
    keyVaultReferenceIdentity: identityId
    virtualNetworkSubnetId: empty(subnetId) ? null : subnetId
    functionAppConfig: {
      deployment: {
        storage: {
          type: 'blobContainer'
          value: packageContainerUrl
          authentication: {
            type: 'UserAssignedIdentity'
            userAssignedIdentityResourceId: identityId
          }
        }
      }
      runtime: {
        name: 'python'
        version: pythonVersion
      }
      scaleAndConcurrency: {
        instanceMemoryMB: instanceMemoryMB
        maximumInstanceCount: maximumInstanceCount
        alwaysReady: [
          for group in filter(scaleGroups, group => group.instances > 0): {
            name: group.name
            // With several zones, the platform asks for at least two.
            instanceCount: zoneRedundant ? max(group.instances, 2) : group.instances
          }
        ]
        triggers: {
          http: {
            perInstanceConcurrency: httpConcurrency
          }
        }
      }
      // Documented for this version, and not in the types that are published for it.
      #disable-next-line BCP037
      siteUpdateStrategy: {
        type: siteUpdateStrategy
      }
    }
    siteConfig: {
      minTlsVersion: '1.2'
      scmMinTlsVersion: '1.2'
      ftpsState: 'Disabled'
    }
  }
}

// Callers sign in before the app sees them. Tokens of deferreds are keys of their own: their route asks for nothing.
resource signIn 'Microsoft.Web/sites/config@2024-11-01' = if (!empty(signInClientId)) {
  parent: app
  name: 'authsettingsV2'
  properties: {
    platform: {
      enabled: true
      runtimeVersion: '~1'
    }
    globalValidation: {
      requireAuthentication: true
      unauthenticatedClientAction: 'Return401'
      excludedPaths: [
        '/api/deferreds/'
        '/api/deferreds/*'
        '/api/ui'
        '/api/ui/*'
      ]
    }
    identityProviders: {
      azureActiveDirectory: {
        enabled: true
        registration: {
          clientId: signInClientId
          openIdIssuer: '${environment().authentication.loginEndpoint}${signInTenantId}/v2.0'
        }
        validation: {
          allowedAudiences: [
            signInClientId
            'api://${signInClientId}'
          ]
        }
      }
    }
    httpSettings: {
      requireHttps: true
    }
    login: {
      tokenStore: {
        enabled: false
      }
    }
  }
}

resource settings 'Microsoft.Web/sites/config@2024-11-01' = {
  parent: app
  name: 'appsettings'
  // The app must not trust the header that names a caller before the platform owns it.
  dependsOn: [
    signIn
  ]
  properties: {
    // The host's storage, as the identity.
    AzureWebJobsStorage__accountName: storageAccountName
    AzureWebJobsStorage__credential: 'managedidentity'
    AzureWebJobsStorage__clientId: identityClientId
    // Telemetry, as the identity.
    APPLICATIONINSIGHTS_CONNECTION_STRING: insightsConnectionString
    APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${identityClientId};Authorization=AAD'
    // Cosmos DB, as the identity: for the trigger, and for the engine's store.
    COSMOS__accountEndpoint: cosmosEndpoint
    COSMOS__credential: 'managedidentity'
    COSMOS__clientId: identityClientId
    COSMOS_DATABASE: databaseName
    COSMOS_CONTAINER: containerName
    COSMOS_LEASE_PREFIX: leasePrefix
    // The engine.
    ENGINE_LEASE_SECONDS: string(leaseSeconds)
    ENGINE_SKEW_SECONDS: string(skewSeconds)
    ENGINE_MAX_CLAIMS: string(maxClaims)
    ENGINE_RETENTION_DAYS: string(retentionDays)
    ENGINE_MAX_DRIVES: string(maxDrives)
    ENGINE_MAX_HELD: string(maxHeld)
    ENGINE_MAX_EVENTS: string(maxEvents)
    ENGINE_BLOCKED_SECONDS: string(blockedSeconds)
    ENGINE_BLOCKED_EXIT_SECONDS: string(blockedExitSeconds)
    ENGINE_SIGNING_KEY: signingKey
    ENGINE_SIGN_IN: empty(signInClientId) ? '' : 'entra'
    ENGINE_PUBLIC_URL: publicUrl
    ENGINE_TRUST_FORWARDED: trustForwarded
  }
}

// Deployments come with an Entra identity: no passwords for publishing.
resource scmPassword 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-11-01' = {
  parent: app
  name: 'scm'
  properties: {
    allow: false
  }
}

resource ftpPassword 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-11-01' = {
  parent: app
  name: 'ftp'
  properties: {
    allow: false
  }
}

// Logs go to Application Insights; the platform's metrics come with this.
resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  scope: app
  name: 'to-workspace'
  properties: {
    workspaceId: workspaceId
    metrics: [
      {
        category: 'AllMetrics'
        enabled: true
      }
    ]
  }
}

@description('Its name.')
output name string = app.name

@description('The address of its HTTP functions.')
output url string = 'https://${app.properties.defaultHostName}/api'
