// The one identity of the app: it reads its package, keeps the host's state, reads and writes Cosmos DB, and sends
// telemetry. Each role is assigned beside its resource, in that resource's module.

@description('The name of the identity.')
param name string

@description('The region.')
param location string

@description('Tags of every resource.')
param tags object

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {
  name: name
  location: location
  tags: tags
}

@description('Its resource id.')
output id string = identity.id

@description('The id that roles are assigned to.')
output principalId string = identity.properties.principalId

@description('The id that a client names to use this identity.')
output clientId string = identity.properties.clientId
