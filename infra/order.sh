#!/usr/bin/env bash
# Runs one order through a deployed app, from its start to its receipt.
#
#   infra/order.sh GROUP APP URL [AUDIENCE]
#   infra/order.sh                             for the environment that azd has chosen
#
# The script asks az for the app's key, and shows the key to nobody. With an audience, callers sign in: the script asks
# for a token of whoever has signed in to az, who needs the role operator.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# = 0 ]; then
    set -- "$(azd env get-value AZURE_RESOURCE_GROUP)" "$(azd env get-value AZURE_FUNCTION_APP_NAME)" \
        "$(azd env get-value API_URL)" "$(azd env get-value API_AUDIENCE)"
fi
group=${1:?} app=${2:?} url=${3:?} audience=${4:-}

if [ -n "$audience" ]; then
    ACCESS_TOKEN=$(az account get-access-token --resource "$audience" --query accessToken --output tsv)
    export ACCESS_TOKEN
    exec python3 infra/smoke.py "$url"
fi

# A new app has no keys until its host has started. The host starts when the roles of its identity are in effect.
for try in 1 2 3 4 5 6 7 8 9 10; do
    FUNCTION_KEY=$(az functionapp keys list --resource-group "$group" --name "$app" --query functionKeys.default \
        --output tsv) && [ -n "$FUNCTION_KEY" ] && break
    [ "$try" != 10 ] || { echo "app $app gives no key" >&2; exit 1; }
    sleep "${PAUSE:-15}"
done
export FUNCTION_KEY
exec python3 infra/smoke.py "$url"
