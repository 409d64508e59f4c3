"""Statuses, sub-statuses and the JSON body of an error, in the shape that the service gives them.

An error body is `{"code": ..., "message": ...}` whose message is a line with a JSON object of the texts and a
line with the activity id. The texts are those of the service where they are publicly known (the recorded
exchanges of a hosted account in the public repository xo/dbimp, docs/COSMOS.md, and the error pages of
https://learn.microsoft.com/rest/api/cosmos-db/http-status-codes-for-cosmosdb).
"""

import json
from typing import Any

CODES = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "RequestTimeout",
    409: "Conflict",
    410: "Gone",
    412: "PreconditionFailed",
    413: "RequestEntityTooLarge",
    429: "TooManyRequests",
    449: "RetryWith",
    500: "InternalServerError",
    503: "ServiceUnavailable",
}

PARTITION_KEY_MISMATCH = 1001
READ_SESSION_NOT_AVAILABLE = 1002  # with 404
PARTITION_KEY_RANGE_GONE = 1002  # with 410
OWNER_NOT_FOUND = 1003
CROSS_PARTITION_QUERY_NOT_SERVABLE = 1004
COLLECTION_RID_MISMATCH = 1024
THROTTLED = 3200


class CosmosError(Exception):
    """A request that is refused: a status, a sub-status and a text."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        substatus: int = 0,
        headers: dict[str, str] | None = None,
        extra: dict[str, Any] | None = None,
        detail: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.substatus = substatus
        self.headers = headers or {}
        self.extra = extra or {}
        self.detail = detail
        self.charge: float | None = None

    def body(self, activity_id: str) -> dict[str, Any]:
        """The JSON body of the answer."""
        texts = {"errors": self.detail} if self.detail else {"Errors": [self.message]}
        message = f"Message: {json.dumps(texts, separators=(',', ':'))}\r\nActivityId: {activity_id}"
        return {"code": CODES.get(self.status, str(self.status)), "message": message, **self.extra}


def bad_request(message: str, substatus: int = 0) -> CosmosError:
    return CosmosError(400, message, substatus=substatus)


def not_modelled(what: str) -> CosmosError:
    """Something that the service may do and the double does not: refused, never half done."""
    return CosmosError(400, f"The double does not model {what}.")


def item_not_found() -> CosmosError:
    return CosmosError(404, "Entity with the specified id does not exist in the system.")


def owner_not_found() -> CosmosError:
    return CosmosError(
        404,
        "Resource Not Found. Learn more: https://aka.ms/cosmosdb-tsg-not-found",
        substatus=OWNER_NOT_FOUND,
    )


def conflict() -> CosmosError:
    return CosmosError(409, "Entity with the specified id already exists in the system.")


def precondition_failed() -> CosmosError:
    text = "Operation cannot be performed because one of the specified precondition is not met."
    return CosmosError(412, text)


def too_large() -> CosmosError:
    return CosmosError(413, "Request size is too large")


def range_gone(range_id: str) -> CosmosError:
    return CosmosError(
        410,
        f"The requested resource is no longer available at the server: partition key range {range_id}.",
        substatus=PARTITION_KEY_RANGE_GONE,
    )


def session_not_available() -> CosmosError:
    return CosmosError(
        404,
        "The read session is not available for the input session token.",
        substatus=READ_SESSION_NOT_AVAILABLE,
    )


def throttled() -> CosmosError:
    return CosmosError(
        429,
        "Request rate is large. More Request Units may be needed, so no changes were made. "
        "Please retry this request later. Learn more: http://aka.ms/cosmosdb-error-429",
        substatus=THROTTLED,
    )
