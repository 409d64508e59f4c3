// For trying things out: everything is paid for by use, and nothing runs when nothing happens.
using 'main.bicep'

param environmentName = 'dev'
param location = 'westeurope'
param signingKey = readEnvironmentVariable('ENGINE_SIGNING_KEY', '')
