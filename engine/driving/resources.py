"""What a drive needs of the process that it runs in."""

from __future__ import annotations

import concurrent.futures
import random
from dataclasses import dataclass

from engine.core.registry import Registry
from engine.ground.clock import Clock
from engine.ground.settings import Settings
from engine.store.base import Store


@dataclass(frozen=True)
class Resources:
    """The process: its store, the registry of its app, its clock and settings, its threads for sync activities, its
    random numbers for retry delays."""

    store: Store
    registry: Registry
    clock: Clock
    settings: Settings
    threads: concurrent.futures.Executor
    rng: random.Random
