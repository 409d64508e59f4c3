"""The Authorization header: the HMAC of the account's key.

https://learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources gives the string to sign:
verb, resource type, resource link and date, in lower case except the link.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import unquote

from .errors import CosmosError, bad_request


def check(
    headers: Mapping[str, str],
    *,
    method: str,
    resource_type: str,
    resource_link: str,
    key: str,
) -> None:
    """Refuse a request that is not signed, or signed for something else."""
    if "x-ms-version" not in headers:
        raise bad_request("Required Header x-ms-version is missing.")
    raw = headers.get("Authorization")
    if not raw:
        raise CosmosError(401, "Required Header authorization is missing. Ensure a valid token is passed.")
    token = dict(part.partition("=")[::2] for part in unquote(raw).split("&"))
    if token.get("type") != "master" or token.get("ver") != "1.0":
        raise CosmosError(401, "The format of value of the Authorization header is not accepted.")
    payload = string_to_sign(method, resource_type, resource_link, headers)
    if not hmac.compare_digest(token.get("sig", ""), sign(payload, key)):
        raise CosmosError(
            401,
            "The input authorization token can't serve the request. The wrong key is being used or the "
            "expected payload is not built as per the protocol. Server used the following payload to sign: "
            f"{payload!r}",
        )


def string_to_sign(method: str, resource_type: str, link: str, headers: Mapping[str, str]) -> str:
    date = headers.get("x-ms-date", "").lower()
    http_date = "" if date else headers.get("date", "").lower()
    if not date and not http_date:
        raise CosmosError(401, "One of the headers x-ms-date and Date is required.")
    return f"{method.lower()}\n{resource_type.lower()}\n{link}\n{date}\n{http_date}\n"


def sign(payload: str, key: str) -> str:
    digest = hmac.new(base64.b64decode(key), payload.encode("utf-8"), hashlib.sha256).digest()
    return base64.b64encode(digest).decode("ascii")
