"""A durable workflow engine on Azure Functions and Cosmos DB. These names are for authors and hosts."""

from engine.activities import ActivityInfo
from engine.authoring import activity, compensate, finalizer, workflow
from engine.children import ChildStopped
from engine.client import Client, Status
from engine.definition import Activity, Channel, Deferred, Workflow
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
from engine.steps import Outcome
from engine.store.base import Filter

__all__ = [
    "Activity",
    "ActivityError",
    "ActivityInfo",
    "AlreadyCompleted",
    "AlreadyResolved",
    "Channel",
    "ChildStopped",
    "Client",
    "ClientError",
    "Deferred",
    "EncodingError",
    "Failure",
    "Fault",
    "Filter",
    "InvalidInput",
    "NonDeterminism",
    "NotDurable",
    "Outcome",
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
    "compensate",
    "finalizer",
    "workflow",
]
