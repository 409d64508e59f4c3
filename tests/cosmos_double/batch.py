"""Transactional batches: one POST with a JSON array of operations on one partition key value.

https://learn.microsoft.com/azure/cosmos-db/transactional-batch: at most 100 operations and 2 MB, all or nothing.
A batch that fails answers 207; the operation that failed has its own status, all others have 424, those before
it included. The whole request gets a 4xx only when it can't be read as a batch at all.
"""

from typing import Any

from . import charges
from .errors import CosmosError, bad_request, not_modelled
from .items import Condition, Outcome, Transaction
from .rules import PartitionKey
from .state import Container

MAX_OPERATIONS = 100
FAILED_DEPENDENCY = 424
_MEMBERS = {
    "Create": {"resourceBody"},
    "Read": {"id"},
    "Replace": {"id", "resourceBody"},
    "Patch": {"id", "resourceBody"},
    "Delete": {"id"},
}


class BatchResult:
    """The answer to a batch: 200 and committed, or 207 and nothing done."""

    def __init__(self, results: list[dict[str, Any]], charge: float, substatus: int, failed: bool) -> None:
        self.results = results
        self.charge = charge
        self.substatus = substatus
        self.status = 207 if failed else 200


def run(container: Container, key: PartitionKey, operations: Any, *, minimal: bool) -> BatchResult:
    """Run all operations in one transaction. `minimal` leaves the bodies of written items out of the answer."""
    if not isinstance(operations, list):
        raise bad_request("One of the specified inputs is invalid: a batch is an array of operations.")
    if not operations:
        raise bad_request("Batch request has no operations.")
    if len(operations) > MAX_OPERATIONS:
        raise bad_request(
            "Batch request has more operations than what is supported. "
            f"The batch has {len(operations)} operations; the maximum is {MAX_OPERATIONS}."
        )
    for operation in operations:
        _check(operation)
    transaction = Transaction(container, key)
    outcomes: list[Outcome] = []
    for position, operation in enumerate(operations):
        try:
            outcome = _step(transaction, operation)
        except CosmosError as error:
            return _failed(len(operations), position, error, outcomes)
        outcomes.append(outcome)
    transaction.commit()
    pairs = zip(operations, outcomes, strict=True)
    results = [_result(op["operationType"], outcome, minimal) for op, outcome in pairs]
    return BatchResult(results, round(sum(o.charge for o in outcomes), 2), 0, failed=False)


def is_atomic(headers: Any) -> None:
    """Refuse the bulk form of a batch, which isn't a transaction."""
    if str(headers.get("x-ms-cosmos-batch-atomic", "")).lower() != "true":
        raise not_modelled("batches that are not atomic")
    if str(headers.get("x-ms-cosmos-batch-continue-on-error", "")).lower() == "true":
        raise not_modelled("batches that continue on an error")


def _check(operation: Any) -> None:
    kind = operation.get("operationType") if isinstance(operation, dict) else None
    if kind not in _MEMBERS:
        raise bad_request(f"One of the specified inputs is invalid: the batch operation {kind!r}.")
    missing = _MEMBERS[kind] - set(operation)
    unknown = set(operation) - _MEMBERS[kind] - {"operationType", "ifMatch", "id"}
    if missing or unknown:
        raise bad_request(f"The batch operation {kind} lacks {sorted(missing)} or has {sorted(unknown)}.")


def _step(transaction: Transaction, operation: dict[str, Any]) -> Outcome:
    condition = Condition(operation.get("ifMatch"))
    match operation["operationType"]:
        case "Create":
            return transaction.create(operation["resourceBody"])
        case "Read":
            return transaction.read(operation["id"])
        case "Replace":
            return transaction.replace(operation["id"], operation["resourceBody"], condition)
        case "Patch":
            return transaction.patch(operation["id"], operation["resourceBody"], condition)
        case _:
            return transaction.delete(operation["id"], condition)


def _result(kind: str, outcome: Outcome, minimal: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"statusCode": outcome.status, "requestCharge": outcome.charge}
    if outcome.etag is not None:
        result["eTag"] = outcome.etag
    if outcome.document is not None and not (minimal and kind != "Read"):
        result["resourceBody"] = dict(outcome.document.body)
    return result


def _failed(count: int, position: int, error: CosmosError, done: list[Outcome]) -> BatchResult:
    results: list[dict[str, Any]] = [
        {"statusCode": FAILED_DEPENDENCY, "subStatusCode": 0, "requestCharge": 0.0} for _ in range(count)
    ]
    results[position] = {
        "statusCode": error.status,
        "subStatusCode": error.substatus,
        "requestCharge": charges.REFUSED,
        "message": error.message,
    }
    charge = round(sum(o.charge for o in done) + charges.REFUSED, 2)
    return BatchResult(results, charge, error.substatus, failed=True)
