"""What goes wrong in a world, and how often: drawn from its seed.

A request may be refused (429, 449, 503: nothing happened), lose its answer (it happened, and the store sends it again),
be late on its way there or back, or be the one in which its process dies or freezes, before or after its effect. Reads
come from replicas that lag. Processes die, freeze past their lease, stop in good order, and are replaced by newer code.
The feed drops, doubles, delays and reorders what it delivers. Clocks are off by up to five seconds.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

Way = Literal["there", "back"]


Favoured = Literal["", "steps", "long steps", "values", "children"]
"""What a world's programs do most."""

THEMES: dict[str, dict[str, Any]] = {
    "lagging": {"workers": 2, "lag": 1.0, "forgetful": 1.0, "pages": 3, "hurry": 1.0, "favours": "values"},
    "frozen": {
        "workers": 3,
        "skew": 5.0,
        "freezes": 0.1,
        "freezes_every": 30.0,
        "favours": "long steps",
        "seconds": 240.0,
    },
    "dying": {"workers": 2, "dies": 0.1, "lost": 0.05, "doubled": 0.2, "favours": "steps"},
    "deadly": {"workers": 2, "dies": 0.4, "favours": "steps", "seconds": 400.0},
    "bereft": {"workers": 2, "dies": 0.1, "favours": "children"},
    "lossy": {"workers": 2, "lost": 0.2, "late": 0.1, "refused": 0.1},
    "hurried": {"workers": 2, "hurry": 1.0, "favours": "values"},
    "driven": {"workers": 3, "lost": 0.2, "dies": 0.05, "starts_here": 0.9, "starts_again": 0.5},
    "retried": {"workers": 2, "lost": 0.05, "dies": 0.05, "retries": 0.7, "favours": "steps"},
}
"""Worlds in which one kind of fault is frequent."""
ASKED_FOR = ("driven", "retried")
"""The themes that no seed draws."""


@dataclass(frozen=True)
class Plan:
    """What becomes of one request. Times in seconds."""

    there: float
    back: float
    refused: bool = False
    lost: bool = False
    dies: Way | None = None
    freezes: Way | None = None

    @property
    def name(self) -> str:
        """The fault, for the trace."""
        faults = [
            "refused" if self.refused else "",
            "answer lost" if self.lost else "",
            f"dies on the way {self.dies}" if self.dies else "",
            f"freezes on the way {self.freezes}" if self.freezes else "",
            "late" if max(self.there, self.back) > 1 else "",
        ]
        return ", ".join(filter(None, faults))


@dataclass
class Faults:
    """The profile of a world. Probabilities are for each request or delivery; `…_every` are mean times in seconds,
    0 for never."""

    rng: random.Random
    calm: bool = True
    workers: int = 1
    skew: float = 0.0
    refused: float = 0.0
    lost: float = 0.0
    late: float = 0.0
    dies: float = 0.0
    freezes: float = 0.0
    lag: float = 0.0
    forgetful: float = 0.0
    """How often a load reads without its session: its token was lost, as when a partition splits."""
    pages: int = 1
    storms_every: float = 0.0
    deaths_every: float = 0.0
    freezes_every: float = 0.0
    stops_every: float = 0.0
    dropped: float = 0.0
    doubled: float = 0.0
    old: float = 0.0
    slow_feed: float = 0.0
    sweeps_skipped: float = 0.0
    storm: bool = False
    hurry: float = 0.5
    """How likely the outside does everything to an execution at once, in the time of a few requests."""
    starts_here: float = 0.0
    """How likely a start is driven by the worker that takes it, and so created as claimed."""
    starts_again: float = 0.0
    """How likely two clients start the same at once."""
    retries: float = 0.0
    """How likely each of several retries of an execution is."""
    favours: Favoured = ""
    seconds: float = 0.0
    """How long the outside does things; 0 is for the plot to choose."""
    newer: float = 0.3
    """How likely a rolling deployment is under way from the beginning."""

    @classmethod
    def drawn(cls, rng: random.Random, starts: random.Random, theme: str | None = None) -> Faults:
        """The faults of a seed: much of one kind (see `THEMES`), a little of many kinds, or none. `starts`: the chance
        of how executions are started."""
        own = {} if theme else starts.choice([{}, THEMES["driven"]])
        here = {name: likely for name, likely in own.items() if name.startswith("starts_")}
        theme = theme or rng.choice(["none", *["many"] * 4, *(name for name in THEMES if name not in ASKED_FOR)])
        faults = cls(rng, workers=rng.randint(1, 3), pages=rng.choice([1, 1, 3]), **here)
        if theme in THEMES:
            return replace(faults, calm=False, **THEMES[theme])
        if theme == "none":
            return faults
        faults.calm = False
        faults.skew = rng.choice([0.0, 1.0, 5.0])
        for name, choices in {
            "refused": (0.0, 0.0, 0.02, 0.1),
            "lost": (0.0, 0.02, 0.1),
            "late": (0.0, 0.0, 0.02, 0.1),
            "dies": (0.0, 0.0, 0.02, 0.1),
            "freezes": (0.0, 0.0, 0.02, 0.1),
            "lag": (0.0, 0.3, 1.0),
            "forgetful": (0.0, 0.0, 0.5),
            "storms_every": (0.0, 0.0, 60.0),
            "deaths_every": (0.0, 20.0, 60.0),
            "freezes_every": (0.0, 20.0, 60.0),
            "stops_every": (0.0, 0.0, 40.0),
            "dropped": (0.0, 0.2, 1.0),
            "doubled": (0.0, 0.2),
            "old": (0.0, 0.3),
            "slow_feed": (0.0, 0.2),
            "sweeps_skipped": (0.0, 0.3),
        }.items():
            setattr(faults, name, rng.choice(choices))
        return faults

    def stop(self) -> None:
        """From here on nothing goes wrong. What is out of order stays so: clocks that are off, old pages on their
        way."""
        for field in fields(self):
            if field.name not in ("rng", "calm", "workers", "skew", "pages"):
                setattr(self, field.name, field.default)

    def plan(self, mortal: bool) -> Plan:
        """What becomes of the next request. `mortal`: its process may die of it."""
        rng = self.rng
        there, back = (rng.choice((0.0, 0.001, 0.004, 0.02)) for _ in range(2))
        if self.calm:
            return Plan(there, back)
        if self.storm and rng.random() < 0.8:
            return Plan(there, back, refused=True)
        if rng.random() < self.late:
            delay = rng.choice((0.5, 3.0, 15.0))
            there, back = (there + delay, back) if rng.random() < 0.5 else (there, back + delay)
        way: Way = "there" if rng.random() < 0.5 else "back"
        draw = rng.random()
        for name in ("refused", "lost"):
            if (draw := draw - getattr(self, name)) < 0:
                return Plan(there, back + rng.choice((0.0, 0.0, 2.0)), **{name: True})  # type: ignore[arg-type]
        for name in ("dies", "freezes"):
            if mortal and (draw := draw - getattr(self, name)) < 0:
                return Plan(there, back, **{name: way})  # type: ignore[arg-type]
        return Plan(there, back)

    def freeze_time(self) -> float:
        """How long a process stands still: less than a heartbeat, less than a lease, or more."""
        return self.rng.choice((1.0, 12.0, 45.0, 80.0, 80.0))
