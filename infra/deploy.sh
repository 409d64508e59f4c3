#!/usr/bin/env bash
# Deploys the infrastructure of an environment, and prints its group, app, URL and audience as lines NAME=VALUE.
#
#   infra/deploy.sh [ENVIRONMENT]    prod, unless named; LOCATION is the region
#
# In a GitHub job the lines become outputs of the step.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=${1:-prod}
outputs=$(az deployment sub create --name "workflows-$environment-$(date +%Y%m%d%H%M%S)" --location "$LOCATION" \
    --template-file infra/main.bicep --parameters "infra/main.$environment.bicepparam" --parameters location="$LOCATION" \
    --query properties.outputs --output json)
python3 - "${GITHUB_OUTPUT:-/dev/stdout}" "$outputs" <<'PYTHON'
import json
import sys

outputs = {name.upper(): output["value"] for name, output in json.loads(sys.argv[2]).items()}
with open(sys.argv[1], "a", encoding="utf-8") as file:
    file.write(f"group={outputs['AZURE_RESOURCE_GROUP']}\n")
    file.write(f"app={outputs['AZURE_FUNCTION_APP_NAME']}\n")
    file.write(f"url={outputs['API_URL']}\n")
    file.write(f"audience={outputs['API_AUDIENCE']}\n")
PYTHON
