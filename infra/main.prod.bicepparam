// For production: the feed and the sweep always have an instance, any second of 30 days can be restored, and only the API is public.
using 'main.bicep'

param environmentName = 'prod'
param location = 'westeurope'
param cosmosCapacity = 'autoscale'
param cosmosMaxThroughput = 4000
param backupTier = 'Continuous30Days'
// Set zoneRedundant to true where the region has zones. It can't be changed later, and doubles the instances that wait.
param alwaysReadyFeed = 1
param alwaysReadySweep = 1
param maximumInstanceCount = 100
param privateNetworking = true
param logRetentionDays = 90
param alertEmail = readEnvironmentVariable('ALERT_EMAIL', '')
param signingKey = readEnvironmentVariable('ENGINE_SIGNING_KEY', '')
param signInClientId = readEnvironmentVariable('SIGN_IN_CLIENT_ID', '')
