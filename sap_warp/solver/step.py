"""One time step in five calls, and the worlds that go through them together.

    one step     begin, solve, end
    n steps      begin, (solve, continue) n - 1 times, solve, end

with the contacts of the worlds collected before each solve. `SolverSAP.step` and `Simulation.step` are this sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import newton
import warp as wp

from ..core.kernels.launch import WorldRange
from ..model.model import SapControl, SapState
from .model.layout import LayoutSizes

if TYPE_CHECKING:
    from .solver import SolverSAP

CACHE_BYTES = 1 << 19
"""Share of a core's cache that the data of the worlds of a range may take."""
ENTRY_BYTES, DOF_BYTES, BODY_BYTES = 20, 500, 1000
"""About what a step reads and writes for each entry of A, each dof and each body, contacts included."""


class Steps:
    """Steps of a solver with one control and one time step ``dt`` [s]."""

    def __init__(self, solver: SolverSAP, control: SapControl, ctrl: wp.array | None, dt: float):
        """Keep what the steps have in common; ``ctrl`` are MuJoCo's control inputs, None for the model's own."""
        self._solver, self._control, self._ctrl, self._dt = solver, control, ctrl, dt

    def begin(self, state: SapState, worlds: WorldRange) -> None:
        """Read ``state``: coordinates and forces in sap order, poses and motions of the bodies."""
        self._solver.boundary.begin(state, self._control, worlds)

    def collect(self, state: SapState, contacts: newton.Contacts) -> None:
        """Sort ``contacts``, which were found at ``state``, by worlds."""
        self._solver.contact_stage.collect(state, contacts)

    def solve(self, worlds: WorldRange) -> None:
        """Find the velocity at the end of the step from what was read and collected."""
        solver, dt = self._solver, self._dt
        solver.free_motion.compute(solver.boundary, dt, worlds)  # A, impulse of free motion
        solver.contact_stage.compute(solver.boundary, self._control, dt, worlds, self._ctrl)  # rows, weights
        solver.equations.compute(solver.boundary, solver.free_motion, dt, worlds)  # couplings, welds, loops
        solver.tendons.compute(solver.boundary, solver.free_motion, self._ctrl, dt, worlds)  # tendons, actuators
        solver.contact_solve.solve(dt, worlds)  # v = argmin l(v)
        solver.tendons.advance(self._ctrl, dt, worlds)

    def continue_step(self, state: SapState, worlds: WorldRange) -> None:
        """Finish a step and begin the next one; of ``state`` only the poses change."""
        self._solver.boundary.continue_step(state, self._control, self._dt, worlds)

    def end(self, state: SapState, worlds: WorldRange) -> None:
        """Finish a step: fill ``state``."""
        self._solver.boundary.end(state, self._control, self._dt, worlds)


def split_worlds(sizes: LayoutSizes, device: wp.Device) -> tuple[WorldRange, ...]:
    """Return ranges that together are all worlds.

    On the CPU a few worlds go through all stages before the next few begin: what one stage wrote is then still in the
    cache of the core when the next one reads it, however many worlds there are. A GPU takes all worlds at once.
    """
    worlds = sizes.world_count
    total = ENTRY_BYTES * sizes.entry_count + DOF_BYTES * sizes.dof_count + BODY_BYTES * sizes.body_count
    size = max(1, CACHE_BYTES * worlds // max(total, 1)) if device.is_cpu else worlds
    return tuple(WorldRange(first, min(size, worlds - first), sizes.lanes) for first in range(0, worlds, size))
