// One environment of the app, from nothing: a resource group with an identity, storage, monitoring, Cosmos DB, the
// function app and its alerts. There is no key and no connection string: every connection uses the identity.
//
//   az deployment sub create --location westeurope --template-file infra/main.bicep --parameters infra/main.dev.bicepparam
targetScope = 'subscription'

@description('The environment (dev, prod, …). Its name is part of the resource group\'s name, and the prefix of the change feed\'s leases.')
@minLength(1)
@maxLength(16)
param environmentName string

@description('The region of all resources. It needs Flex Consumption: az functionapp list-flexconsumption-locations.')
param location string

@description('The resource group. It is created if it doesn\'t exist.')
param resourceGroupName string = 'rg-workflows-${environmentName}'

@description('The version of Python that the app runs on.')
@allowed([
  '3.12'
  '3.13'
])
param pythonVersion string = '3.13'

@description('The memory of an instance, in MB. With 2048 it has a core of its own.')
@allowed([
  512
  2048
  4096
])
param instanceMemoryMB int = 2048

@description('The largest number of instances on demand in each scale group: HTTP, the feed, the sweep. The platform was seen to pass it for HTTP: it is no limit for what a flood of requests can cost.')
@minValue(1)
@maxValue(1000)
param maximumInstanceCount int = 40

@description('Instances that always wait for the change feed. With 0 the app scales to zero, and an execution may wait for the next sweep.')
@minValue(0)
@maxValue(20)
param alwaysReadyFeed int = 0

@description('Instances that always wait for the sweep. With 0 the platform has to wake an instance for each sweep, and was seen to stop doing so after a deployment.')
@minValue(0)
@maxValue(20)
param alwaysReadySweep int = 0

@description('Instances that always wait for HTTP requests. With 0 the first request after a pause waits for an instance to start.')
@minValue(0)
@maxValue(20)
param alwaysReadyHttp int = 0

@description('HTTP requests that one instance takes at a time. Requests mostly wait for I/O, so the number may be far above the platform\'s default.')
@minValue(1)
@maxValue(1000)
param httpConcurrency int = 32

@description('How a deployment replaces instances. RollingUpdate lets invocations end; Recreate cuts them off.')
@allowed([
  'RollingUpdate'
  'Recreate'
])
param siteUpdateStrategy string = 'RollingUpdate'

@description('Whether Cosmos DB charges for each request (serverless, one region) or for provisioned autoscale throughput.')
@allowed([
  'serverless'
  'autoscale'
])
param cosmosCapacity string = 'serverless'

@description('The ceiling of autoscale, in RU/s. Throughput scales down to a tenth of it. Serverless ignores it.')
@minValue(1000)
param cosmosMaxThroughput int = 1000

@description('How far back a backup can be restored.')
@allowed([
  'Continuous7Days'
  'Continuous30Days'
])
param backupTier string = 'Continuous7Days'

@description('The name of the Cosmos DB account, if a restored account takes the place of the one that this template names.')
param cosmosAccountName string = ''

@description('The prefix of the change feed\'s leases. With a new prefix the feed starts from the beginning. A restore needs a new prefix.')
param leasePrefix string = '${environmentName}-'

@description('Whether all resources are spread over the region\'s zones. In most regions Cosmos DB needs autoscale for that.')
param zoneRedundant bool = false

@description('Whether storage and Cosmos DB are reachable through private endpoints only, and the app joins a network.')
param privateNetworking bool = false

@description('Days that logs are kept.')
@minValue(30)
@maxValue(730)
param logRetentionDays int = 30

@description('The address that gets alerts by mail. Empty: alerts are raised, and nobody gets a mail.')
param alertEmail string = ''

@description('Keys that sign the tokens of deferreds, separated by commas: the first signs, all verify. Each has 32 characters or more. A Key Vault reference does too. Empty: the app neither gives nor takes tokens.')
@secure()
param signingKey string = ''

@description('The client id of the Entra app registration that callers sign in to, with the roles of infra/roles.json. Empty: callers come with function keys.')
param signInClientId string = ''

@description('The tenant whose users and apps may sign in.')
param signInTenantId string = tenant().tenantId

@description('The address that the routes of the API begin with, as callers reach it: https://orders.example.com/api. For an app behind a gateway or with a name of its own. Empty: the address of each request.')
param publicUrl string = ''

@description('true: the X-Forwarded headers tell the address that callers asked for. Only for an app that nobody reaches but through a gateway that sets them. Empty: they mean nothing.')
@allowed(['', 'true'])
param trustForwarded string = ''

@description('Seconds that a claim of an execution holds without a heartbeat.')
@minValue(1)
param leaseSeconds int = 30

@description('Seconds that the clocks of two instances may be apart.')
@minValue(0)
param skewSeconds int = 5

@description('Claims of an execution in a row without progress, after which it is quarantined.')
@minValue(1)
param maxClaims int = 5

@description('Days for which a finished execution is kept, unless its workflow says otherwise. 0: for ever.')
@minValue(0)
@maxValue(36500)
param retentionDays int = 30

@description('Executions that compute at a time in one process.')
param maxDrives int = 64

@description('Executions that one process holds at a time, whatever they wait for.')
param maxHeld int = 2000

@description('Events of a run after which its execution is suspended, unless it is interrupted.')
@minValue(100)
param maxEvents int = 50000

@description('Seconds that an instance\'s event loop may stand still before a warning names the code that blocks it. 0: nobody looks.')
@minValue(0)
param blockedSeconds int = 10

@description('Seconds that the event loop may stand still before its process is ended. 0: never.')
@minValue(0)
param blockedExitSeconds int = 300

var token = toLower(uniqueString(subscription().id, environmentName, location))
var tags = {
  'azd-env-name': environmentName
}
var databaseName = 'workflows'
var containerName = 'executions'

resource group 'Microsoft.Resources/resourceGroups@2024-11-01' = {
  name: resourceGroupName
  location: location
  tags: tags
}

module identity 'modules/identity.bicep' = {
  scope: group
  name: 'identity'
  params: {
    name: 'id-${token}'
    location: location
    tags: tags
  }
}

module monitoring 'modules/monitoring.bicep' = {
  scope: group
  name: 'monitoring'
  params: {
    workspaceName: 'log-${token}'
    componentName: 'appi-${token}'
    location: location
    tags: tags
    retentionDays: logRetentionDays
    principalId: identity.outputs.principalId
  }
}

module network 'modules/network.bicep' = if (privateNetworking) {
  scope: group
  name: 'network'
  params: {
    name: 'vnet-${token}'
    location: location
    tags: tags
  }
}

module storage 'modules/storage.bicep' = {
  scope: group
  name: 'storage'
  params: {
    name: 'st${token}'
    location: location
    tags: tags
    zoneRedundant: zoneRedundant
    allowPublicAccess: !privateNetworking
    principalId: identity.outputs.principalId
    workspaceId: monitoring.outputs.workspaceId
  }
}

module cosmos 'modules/cosmos.bicep' = {
  scope: group
  name: 'cosmos'
  params: {
    name: empty(cosmosAccountName) ? 'cosmos-${token}' : cosmosAccountName
    location: location
    tags: tags
    databaseName: databaseName
    containerName: containerName
    capacity: cosmosCapacity
    maxThroughput: cosmosMaxThroughput
    backupTier: backupTier
    zoneRedundant: zoneRedundant
    allowPublicAccess: !privateNetworking
    principalId: identity.outputs.principalId
    workspaceId: monitoring.outputs.workspaceId
  }
}

module blobEndpoint 'modules/private-endpoint.bicep' = if (privateNetworking) {
  scope: group
  name: 'private-endpoint-blob'
  params: {
    name: 'pe-blob-${token}'
    location: location
    tags: tags
    targetId: storage.outputs.id
    subresource: 'blob'
    subnetId: network!.outputs.endpointSubnetId
    zoneId: network!.outputs.blobZoneId
  }
}

module queueEndpoint 'modules/private-endpoint.bicep' = if (privateNetworking) {
  scope: group
  name: 'private-endpoint-queue'
  params: {
    name: 'pe-queue-${token}'
    location: location
    tags: tags
    targetId: storage.outputs.id
    subresource: 'queue'
    subnetId: network!.outputs.endpointSubnetId
    zoneId: network!.outputs.queueZoneId
  }
}

module cosmosEndpoint 'modules/private-endpoint.bicep' = if (privateNetworking) {
  scope: group
  name: 'private-endpoint-cosmos'
  params: {
    name: 'pe-cosmos-${token}'
    location: location
    tags: tags
    targetId: cosmos.outputs.id
    subresource: 'Sql'
    subnetId: network!.outputs.endpointSubnetId
    zoneId: network!.outputs.cosmosZoneId
  }
}

module functionApp 'modules/function-app.bicep' = {
  scope: group
  name: 'function-app'
  // The app starts as soon as it exists. Its connections have to be reachable by then.
  dependsOn: [
    blobEndpoint
    queueEndpoint
    cosmosEndpoint
  ]
  params: {
    name: 'func-${token}'
    planName: 'plan-${token}'
    location: location
    tags: tags
    identityId: identity.outputs.id
    identityClientId: identity.outputs.clientId
    storageAccountName: storage.outputs.name
    packageContainerUrl: storage.outputs.packageContainerUrl
    workspaceId: monitoring.outputs.workspaceId
    insightsConnectionString: monitoring.outputs.connectionString
    cosmosEndpoint: cosmos.outputs.endpoint
    databaseName: databaseName
    containerName: containerName
    leasePrefix: leasePrefix
    pythonVersion: pythonVersion
    instanceMemoryMB: instanceMemoryMB
    maximumInstanceCount: maximumInstanceCount
    alwaysReadyFeed: alwaysReadyFeed
    alwaysReadySweep: alwaysReadySweep
    alwaysReadyHttp: alwaysReadyHttp
    httpConcurrency: httpConcurrency
    siteUpdateStrategy: siteUpdateStrategy
    zoneRedundant: zoneRedundant
    subnetId: privateNetworking ? network!.outputs.appSubnetId : ''
    signingKey: signingKey
    signInClientId: signInClientId
    signInTenantId: signInTenantId
    publicUrl: publicUrl
    trustForwarded: trustForwarded
    leaseSeconds: leaseSeconds
    skewSeconds: skewSeconds
    maxClaims: maxClaims
    retentionDays: retentionDays
    maxDrives: maxDrives
    maxHeld: maxHeld
    maxEvents: maxEvents
    blockedSeconds: blockedSeconds
    blockedExitSeconds: blockedExitSeconds
  }
}

module alerts 'modules/alerts.bicep' = {
  scope: group
  name: 'alerts'
  params: {
    prefix: 'workflows-${environmentName}'
    location: location
    tags: tags
    email: alertEmail
    insightsId: monitoring.outputs.componentId
    cosmosId: cosmos.outputs.id
  }
}

// azd keeps these as values of its environment.
output AZURE_LOCATION string = location
output AZURE_RESOURCE_GROUP string = group.name
output AZURE_FUNCTION_APP_NAME string = functionApp.outputs.name
output API_URL string = functionApp.outputs.url
output API_AUDIENCE string = empty(signInClientId) ? '' : 'api://${signInClientId}'
output COSMOS_ENDPOINT string = cosmos.outputs.endpoint
output COSMOS_DATABASE string = databaseName
output COSMOS_CONTAINER string = containerName
