"""One seed, from its beginning to its end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tests.verification.simulation.outside import Outside
from tests.verification.simulation.platform import Platform
from tests.verification.simulation.programs import Task, Writer
from tests.verification.simulation.settle import Settling
from tests.verification.simulation.world import World


@dataclass(frozen=True)
class Run:
    """How a seed went. `violation` is None if every invariant held."""

    world: World
    violation: BaseException | None
    theme: str | None = None

    def report(self) -> str:
        """The trace, and what was violated."""
        theme = f" of {self.theme}" if self.theme else ""
        said = f"seed {self.world.seed}{theme}: {self.violation or 'every invariant held'}"
        return "\n".join([*self.world.trace, said])


def simulate(seed: int | str, theme: str | None = None) -> Run:
    """Play a seed. The same seed is the same run, to the last line of its trace. `theme`: the kind of faults, instead
    of the seed's own."""
    world = World(seed, theme)
    try:
        world.run(lambda: _play(world))
    except Exception as violation:  # whatever went wrong belongs to this seed
        return Run(world, violation, theme)
    return Run(world, None, theme)


async def _play(world: World) -> None:
    rng = world.random("plot")
    writer = Writer(rng, world.faults.favours)
    plots: list[tuple[str, Task]] = [
        (writer.workflow(), writer.task(rng.choice((1, 2, 3, 5, 8)))) for _ in range(rng.choice((1, 1, 2, 3)))
    ]
    for name, task in plots:
        world.note("", f"plot {name}", task)
    platform, outside = Platform(world), Outside(world)
    platform.start()
    seconds = world.faults.seconds or rng.choice((20.0, 60.0, 120.0))
    players = [world.loop.spawn(world.outside, outside.play(name, task, seconds)) for name, task in plots]
    await asyncio.gather(*players)
    await Settling(world, platform, outside).settle()
