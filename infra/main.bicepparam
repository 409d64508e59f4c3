// For azd, which keeps these values in its environment: azd env set COSMOS_CAPACITY autoscale, and so on.
using 'main.bicep'

param environmentName = readEnvironmentVariable('AZURE_ENV_NAME', 'dev')
param location = readEnvironmentVariable('AZURE_LOCATION', 'westeurope')
param cosmosCapacity = readEnvironmentVariable('COSMOS_CAPACITY', 'serverless')
param alwaysReadyFeed = int(readEnvironmentVariable('ALWAYS_READY_FEED', '0'))
param alwaysReadySweep = int(readEnvironmentVariable('ALWAYS_READY_SWEEP', '0'))
param alwaysReadyHttp = int(readEnvironmentVariable('ALWAYS_READY_HTTP', '0'))
param zoneRedundant = bool(readEnvironmentVariable('ZONE_REDUNDANT', 'false'))
param privateNetworking = bool(readEnvironmentVariable('PRIVATE_NETWORKING', 'false'))
param alertEmail = readEnvironmentVariable('ALERT_EMAIL', '')
param signingKey = readEnvironmentVariable('ENGINE_SIGNING_KEY', '')
param signInClientId = readEnvironmentVariable('SIGN_IN_CLIENT_ID', '')
