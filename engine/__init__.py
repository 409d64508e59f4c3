"""A durable workflow engine on Azure Functions and Cosmos DB. These names are for authors and hosts."""

from engine.boundary.callers import Caller
from engine.boundary.client import Client
from engine.boundary.handle import Handle
from engine.boundary.health import Health
from engine.boundary.runtime import Runtime
from engine.boundary.status import Page, Status
from engine.core.activity import Activity, SyncActivity
from engine.core.activity_info import ActivityInfo
from engine.core.authoring import activity, compensate, finalizer, restart, workflow
from engine.core.declarations import Channel, Deferred, Peer, Schedule, Workflow
from engine.core.inline_step import step
from engine.core.plans import Plan, PlanChange
from engine.core.retry import Retry
from engine.core.schedules import plan_changes, schedule
from engine.ground.errors import (
    ActivityError,
    ActivityErrorGroup,
    AlreadyEnded,
    AlreadyResolved,
    AlreadySent,
    AlreadyStarted,
    ClientError,
    EncodingError,
    ExecutionStopped,
    Fault,
    InvalidInput,
    LaterEngine,
    NonDeterminism,
    NotDurable,
    NotEnded,
    NotForked,
    NotReopened,
    RetryAfter,
    StoreError,
    TooLarge,
    UnknownDeferred,
    UnknownExecution,
    UnknownWorkflow,
    UnreadableExecution,
)
from engine.ground.settings import Settings
from engine.store.base import Filter
from engine.values.error_records import ErrorRecord
from engine.values.failures import ChildStopped, CircularWait, Failure
from engine.values.limits import Limit
from engine.values.outcome import Outcome

__all__ = [
    "Activity",
    "ActivityError",
    "ActivityErrorGroup",
    "ActivityInfo",
    "AlreadyEnded",
    "AlreadyResolved",
    "AlreadySent",
    "AlreadyStarted",
    "Caller",
    "Channel",
    "ChildStopped",
    "CircularWait",
    "Client",
    "ClientError",
    "Deferred",
    "EncodingError",
    "ErrorRecord",
    "ExecutionStopped",
    "Failure",
    "Fault",
    "Filter",
    "Handle",
    "Health",
    "InvalidInput",
    "LaterEngine",
    "Limit",
    "NonDeterminism",
    "NotDurable",
    "NotEnded",
    "NotForked",
    "NotReopened",
    "Outcome",
    "Page",
    "Peer",
    "Plan",
    "PlanChange",
    "Retry",
    "RetryAfter",
    "Runtime",
    "Schedule",
    "Settings",
    "Status",
    "StoreError",
    "SyncActivity",
    "TooLarge",
    "UnknownDeferred",
    "UnknownExecution",
    "UnknownWorkflow",
    "UnreadableExecution",
    "Workflow",
    "activity",
    "compensate",
    "finalizer",
    "plan_changes",
    "restart",
    "schedule",
    "step",
    "workflow",
]
