// For production: the feed always has an instance, a backup of any second of 30 days, nothing open but the API itself.
using 'main.bicep'

param environmentName = 'prod'
param location = 'westeurope'
param cosmosCapacity = 'autoscale'
param cosmosMaxThroughput = 4000
param backupTier = 'Continuous30Days'
// Set zoneRedundant to true where the region has zones: it can't be changed later, and makes two instances of this one.
param alwaysReadyFeed = 1
param maximumInstanceCount = 100
param privateNetworking = true
param logRetentionDays = 90
param alertEmail = readEnvironmentVariable('ALERT_EMAIL', '')
param signingKey = readEnvironmentVariable('ENGINE_SIGNING_KEY', '')
