// For trials: everything is paid by use, and nothing runs while nothing happens.
using 'main.bicep'

param environmentName = 'dev'
param location = 'westeurope'
param signingKey = readEnvironmentVariable('ENGINE_SIGNING_KEY', '')
param signInClientId = readEnvironmentVariable('SIGN_IN_CLIENT_ID', '')
