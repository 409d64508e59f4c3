"""What a drive needs from its process."""

from __future__ import annotations

import random
from dataclasses import dataclass

from engine.core.registry import Registry
from engine.driving.lifespan import Lifespan
from engine.driving.limits import LimitDesks
from engine.driving.threads import Threads
from engine.ground.clock import Clock
from engine.ground.settings import Settings
from engine.store.base import Store


@dataclass(frozen=True)
class Resources:
    """The store, the app's registry, the clock, the settings, the threads for sync activities, the random numbers for
    retry delays, what the app has opened for its activities, and the limits
    of activities."""

    store: Store
    registry: Registry
    clock: Clock
    settings: Settings
    threads: Threads
    rng: random.Random
    lifespan: Lifespan
    limits: LimitDesks
