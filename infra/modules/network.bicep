// The network of an environment that is closed to the outside: a subnet for the app, one for private endpoints, and
// the private zones in which their names resolve.

@description('The name of the network.')
param name string

@description('The region.')
param location string

@description('Tags of every resource.')
param tags object

@description('Its addresses.')
param addressPrefix string = '10.40.0.0/16'

@description('The app\'s addresses: one for each instance, so a /24 is good for about 250.')
param appPrefix string = '10.40.0.0/24'

@description('The addresses of the private endpoints.')
param endpointPrefix string = '10.40.1.0/24'

var blobZoneName = 'privatelink.blob.${environment().suffixes.storage}'
var queueZoneName = 'privatelink.queue.${environment().suffixes.storage}'
var cosmosZoneName = 'privatelink.documents.azure.com'

resource network 'Microsoft.Network/virtualNetworks@2024-05-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    addressSpace: {
      addressPrefixes: [
        addressPrefix
      ]
    }
    subnets: [
      {
        name: 'app'
        properties: {
          addressPrefix: appPrefix
          delegations: [
            {
              name: 'flex'
              properties: {
                serviceName: 'Microsoft.App/environments'
              }
            }
          ]
        }
      }
      {
        name: 'endpoints'
        properties: {
          addressPrefix: endpointPrefix
          privateEndpointNetworkPolicies: 'Disabled'
        }
      }
    ]
  }
}

resource appSubnet 'Microsoft.Network/virtualNetworks/subnets@2024-05-01' existing = {
  parent: network
  name: 'app'
}

resource endpointSubnet 'Microsoft.Network/virtualNetworks/subnets@2024-05-01' existing = {
  parent: network
  name: 'endpoints'
}

resource blobZone 'Microsoft.Network/privateDnsZones@2020-06-01' = {
  name: blobZoneName
  location: 'global'
  tags: tags
}

resource queueZone 'Microsoft.Network/privateDnsZones@2020-06-01' = {
  name: queueZoneName
  location: 'global'
  tags: tags
}

resource cosmosZone 'Microsoft.Network/privateDnsZones@2020-06-01' = {
  name: cosmosZoneName
  location: 'global'
  tags: tags
}

resource blobLink 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2020-06-01' = {
  parent: blobZone
  name: 'to-${name}'
  location: 'global'
  properties: {
    registrationEnabled: false
    virtualNetwork: {
      id: network.id
    }
  }
}

resource queueLink 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2020-06-01' = {
  parent: queueZone
  name: 'to-${name}'
  location: 'global'
  properties: {
    registrationEnabled: false
    virtualNetwork: {
      id: network.id
    }
  }
}

resource cosmosLink 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2020-06-01' = {
  parent: cosmosZone
  name: 'to-${name}'
  location: 'global'
  properties: {
    registrationEnabled: false
    virtualNetwork: {
      id: network.id
    }
  }
}

@description('The subnet that the app joins.')
output appSubnetId string = appSubnet.id

@description('The subnet of private endpoints.')
output endpointSubnetId string = endpointSubnet.id

@description('The zone of blob names.')
output blobZoneId string = blobZone.id

@description('The zone of queue names.')
output queueZoneId string = queueZone.id

@description('The zone of Cosmos DB names.')
output cosmosZoneId string = cosmosZone.id
