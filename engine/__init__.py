"""A durable workflow engine on Azure Functions and Cosmos DB. These names are for authors and hosts."""

from engine.boundary.client import Client, Status
from engine.boundary.runtime import Runtime
from engine.core.activity_info import ActivityInfo
from engine.core.authoring import activity, compensate, finalizer, workflow
from engine.core.declarations import Activity, Channel, Deferred, Workflow
from engine.core.retry import Retry
from engine.ground.errors import (
    ActivityError,
    ActivityErrorGroup,
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
from engine.ground.settings import Settings
from engine.store.base import Filter
from engine.values.failures import ChildStopped, Failure
from engine.values.outcome import Outcome

__all__ = [
    "Activity",
    "ActivityError",
    "ActivityErrorGroup",
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
