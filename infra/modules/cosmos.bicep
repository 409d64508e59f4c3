// Cosmos DB: the only state. The account accepts Entra identities only. The app's identity may read and write the data
// of this one database. It can't change databases, containers or throughput.

@description('The name of the account. It must be unique in all of Azure.')
param name string

@description('The region.')
param location string

@description('Tags of every resource.')
param tags object

@description('The database.')
param databaseName string

@description('The container that holds every execution.')
param containerName string

@description('serverless or autoscale.')
param capacity string

@description('The ceiling of autoscale, in RU/s.')
param maxThroughput int

@description('How far back a backup can be restored.')
param backupTier string

@description('Whether the region\'s zones hold copies.')
param zoneRedundant bool

@description('Whether the account is reachable from outside the network.')
param allowPublicAccess bool

@description('The principal that may read and write the data.')
param principalId string

@description('The workspace for its logs.')
param workspaceId string

var isServerless = capacity == 'serverless'
// Cosmos DB Built-in Data Contributor: a role of the account's own data plane, not of Azure.
var dataContributorRole = '00000000-0000-0000-0000-000000000002'

resource account 'Microsoft.DocumentDB/databaseAccounts@2024-11-15' = {
  name: name
  location: location
  tags: tags
  kind: 'GlobalDocumentDB'
  properties: {
    databaseAccountOfferType: 'Standard'
    disableLocalAuth: true
    disableKeyBasedMetadataWriteAccess: true
    minimalTlsVersion: 'Tls12'
    publicNetworkAccess: allowPublicAccess ? 'Enabled' : 'Disabled'
    consistencyPolicy: {
      defaultConsistencyLevel: 'Session'
    }
    locations: [
      {
        locationName: location
        failoverPriority: 0
        isZoneRedundant: zoneRedundant
      }
    ]
    capabilities: isServerless
      ? [
          {
            name: 'EnableServerless'
          }
        ]
      : []
    backupPolicy: {
      type: 'Continuous'
      continuousModeProperties: {
        tier: backupTier
      }
    }
  }
}

resource database 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases@2024-11-15' = {
  parent: account
  name: databaseName
  properties: {
    resource: {
      id: databaseName
    }
  }
}

// Partition key, TTL and index are those of engine/store/cosmos/schema.py: a test compares them.
resource executions 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2024-11-15' = {
  parent: database
  name: containerName
  properties: {
    resource: {
      id: containerName
      partitionKey: {
        paths: [
          '/executionId'
        ]
        kind: 'Hash'
        version: 2
      }
      defaultTtl: -1
      indexingPolicy: {
        indexingMode: 'consistent'
        automatic: true
        includedPaths: [
          {
            path: '/dueAt/?'
          }
          {
            path: '/createdAt/?'
          }
          {
            path: '/status/?'
          }
          {
            path: '/workflow/?'
          }
          {
            path: '/outcome/?'
          }
        ]
        excludedPaths: [
          {
            path: '/*'
          }
        ]
      }
    }
    options: isServerless
      ? {}
      : {
          autoscaleSettings: {
            maxThroughput: maxThroughput
          }
        }
  }
}

// The change feed's leases. The trigger can't create this container itself: an identity of the data plane may not.
resource leases 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2024-11-15' = {
  parent: database
  name: 'leases'
  properties: {
    resource: {
      id: 'leases'
      partitionKey: {
        paths: [
          '/id'
        ]
        kind: 'Hash'
        version: 2
      }
      defaultTtl: -1
    }
    options: isServerless
      ? {}
      : {
          autoscaleSettings: {
            maxThroughput: 1000
          }
        }
  }
}

resource dataContributor 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2024-11-15' = {
  parent: account
  name: guid(account.id, databaseName, principalId, dataContributorRole)
  properties: {
    roleDefinitionId: '${account.id}/sqlRoleDefinitions/${dataContributorRole}'
    principalId: principalId
    scope: '${account.id}/dbs/${database.name}'
  }
}

resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  scope: account
  name: 'to-workspace'
  properties: {
    workspaceId: workspaceId
    logAnalyticsDestinationType: 'Dedicated'
    logs: [
      {
        category: 'ControlPlaneRequests'
        enabled: true
      }
      {
        category: 'PartitionKeyStatistics'
        enabled: true
      }
      {
        category: 'PartitionKeyRUConsumption'
        enabled: true
      }
    ]
    metrics: [
      {
        category: 'Requests'
        enabled: true
      }
    ]
  }
}

@description('Its resource id.')
output id string = account.id

@description('The address for clients.')
output endpoint string = account.properties.documentEndpoint
