// A private endpoint of one service, and its name in the private zone.

@description('The name of the endpoint.')
param name string

@description('The region.')
param location string

@description('Tags of every resource.')
param tags object

@description('The resource that the endpoint leads to.')
param targetId string

@description('The part of that resource: blob, queue, Sql.')
param subresource string

@description('The subnet of the endpoint.')
param subnetId string

@description('The private DNS zone of its name.')
param zoneId string

resource endpoint 'Microsoft.Network/privateEndpoints@2024-05-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    subnet: {
      id: subnetId
    }
    privateLinkServiceConnections: [
      {
        name: name
        properties: {
          privateLinkServiceId: targetId
          groupIds: [
            subresource
          ]
        }
      }
    ]
  }
}

resource zones 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2024-05-01' = {
  parent: endpoint
  name: 'default'
  properties: {
    privateDnsZoneConfigs: [
      {
        name: 'zone'
        properties: {
          privateDnsZoneId: zoneId
        }
      }
    ]
  }
}
