"""What a drive needs of the process that it runs in."""

from __future__ import annotations

import concurrent.futures
import random
from dataclasses import dataclass

from engine.ground.clock import Clock
from engine.ground.settings import Settings
from engine.store.base import Store


@dataclass(frozen=True)
class Resources:
    """The process: its store, its clock, its threads for sync activities, its chance for the delays of retries."""

    store: Store
    clock: Clock
    settings: Settings
    threads: concurrent.futures.Executor
    chance: random.Random
