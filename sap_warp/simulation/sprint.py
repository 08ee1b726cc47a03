"""Many steps of a few worlds before the next few begin.

A call for many steps need not take all worlds through a step before the next one: nobody looks at them in between, and
worlds do not meet. A few of them, a part of `SolverSAP`, stay in the cache of the core from step to step. What is only
there for others to see - coordinates and twists of the state, the buffer with the contacts of all worlds - is not
written between these steps.

A sprint leaves the second buffer of a shard as a step from the first one would; a step of all worlds back to the first
buffer has to follow. So whoever looks finds what plain steps would have left, to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import warp as wp

from ..collision.ground_ranges import GroundRanges
from ..solver.part_steps import PartSteps
from ..solver.parts import Part

if TYPE_CHECKING:
    from .shards import Shard

MOST_STEPS = GroundRanges.passes
"""Of one sprint."""


class _Graphs(NamedTuple):
    """Of one part: its first step up to the new velocities, each further step, and what makes a state of the last."""

    first: Any
    further: Any
    last: Any


class Sprint:
    """Steps of a shard's worlds, part by part."""

    def __init__(self, shard: Shard, found: GroundRanges, dt: float):
        """Nothing is launched or captured yet; see `make_sprint`."""
        self._shard, self._found = shard, found
        self._parts = shard.solver.parts
        self._steps = PartSteps(shard.solver, shard.states, shard.control, dt)
        self._graphs: list[_Graphs] = []

    def launch(self, steps: int, parts: int | None = None) -> None:
        """Take ``steps`` steps from the first buffer to the second one, all worlds or those of the first ``parts``."""
        for i, part in enumerate(self._parts[:parts]):
            self._launch_first(i, part)
            for _ in range(steps - 1):
                self._launch_further(i, part)
            self._steps.leave(part)
        self._found.note()

    def capture(self) -> None:
        """Record the graphs of all parts."""
        for i, part in enumerate(self._parts):
            first = self._record(lambda i=i, part=part: self._launch_first(i, part))
            further = self._record(lambda i=i, part=part: self._launch_further(i, part))
            last = self._record(lambda part=part: self._steps.leave(part))
            self._graphs.append(_Graphs(first, further, last))
        self._note = self._record(lambda: self._found.note())

    def replay(self, steps: int) -> None:
        """Take ``steps`` steps from the first buffer to the second one; at most `MOST_STEPS`."""
        launch = wp.capture_launch
        for first, further, last in self._graphs:
            launch(first)
            for _ in range(steps - 1):
                launch(further)
            launch(last)
        launch(self._note)

    def _launch_first(self, i: int, part: Part) -> None:
        self._find(i, 0, True)
        self._steps.enter(part)
        self._solve(part, 0)

    def _launch_further(self, i: int, part: Part) -> None:
        self._steps.stay(part)
        self._find(i, 1, False)
        self._solve(part, 1)

    def _find(self, i: int, source: int, is_first: bool) -> None:
        self._found.find(i, self._shard.states[source], is_first)

    def _solve(self, part: Part, source: int) -> None:
        shard = self._shard
        self._steps.solve(part, self._found.buffer, shard.states[source])
        if shard.count:
            shard.counter.record(self._found.buffer, part)

    def _record(self, launch: Any) -> Any:
        with wp.ScopedCapture(self._shard.model.device) as capture:
            launch()
        return capture.graph


def make_sprint(shard: Shard, dt: float) -> Sprint | None:
    """The sprint of a shard, if it would give the results of plain steps; else None."""
    solver, model = shard.solver, shard.model.newton_model
    if not PartSteps.suit(solver, shard.states[0]):
        return None
    world = np.maximum(model.body_world.numpy(), 0)
    if (np.diff(world) < 0).any():
        return None
    bounds = np.array([part.first for part in solver.parts] + [solver.sizes.world_count])
    found = shard.pipeline.split(bounds, world)
    return None if found is None else Sprint(shard, found, dt)
