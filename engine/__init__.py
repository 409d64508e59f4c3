"""A durable workflow engine on Azure Functions and Cosmos DB. These names are for authors and hosts."""

from engine.activities import ActivityInfo
from engine.authoring import activity, workflow
from engine.client import Client, Status
from engine.definition import Activity, Deferred, Workflow
from engine.errors import (
    ActivityError,
    AlreadyCompleted,
    AlreadyResolved,
    ClientError,
    EncodingError,
    Fault,
    InvalidInput,
    NonDeterminism,
    NotDurable,
    TooLarge,
    UnknownDeferred,
    UnknownExecution,
    UnknownWorkflow,
)
from engine.failures import Failure
from engine.retry import Retry
from engine.runtime import Runtime
from engine.settings import Settings

__all__ = [
    "Activity",
    "ActivityError",
    "ActivityInfo",
    "AlreadyCompleted",
    "AlreadyResolved",
    "Client",
    "ClientError",
    "Deferred",
    "EncodingError",
    "Failure",
    "Fault",
    "InvalidInput",
    "NonDeterminism",
    "NotDurable",
    "Retry",
    "Runtime",
    "Settings",
    "Status",
    "TooLarge",
    "UnknownDeferred",
    "UnknownExecution",
    "UnknownWorkflow",
    "Workflow",
    "activity",
    "workflow",
]
