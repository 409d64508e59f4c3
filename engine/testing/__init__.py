"""The test kit: what authors need for tests of their workflows. The engine's own tests use it too."""

from engine.store.wrapper import Call, WatchedStore
from engine.testing.clock import ManualClock
from engine.testing.environment import Environment
from engine.testing.replayer import Replayed, export, replay
from engine.testing.survival import survives

__all__ = ["Call", "Environment", "ManualClock", "Replayed", "WatchedStore", "export", "replay", "survives"]
