"""Says when a simulation's result cannot be right: once for each kind of trouble, or by an error each time if strict.

Steps count trouble on the device and never wait. The counts are looked at when the host reads something anyway: after
a step on the CPU, where that is a memory access, and whenever a view, a status or a statistic is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..contacts import name_worlds
from ..solver import SolveStatus
from .statistics import FAILED

if TYPE_CHECKING:
    from .shards import Shard

FAILED_FROM = SolveStatus.FREE_MOTION_FAILED
"""Outcomes from here on leave a world where it was."""


class WorldFailedError(RuntimeError):
    """A world could not take a step, and the simulation is strict."""


class Health:
    """Watches what the shards of a simulation count."""

    def __init__(self, shards: Sequence[Shard], strict: bool):
        """Nothing has happened yet."""
        self._shards, self._strict = shards, strict
        # One entry for each kind of trouble: its place in the totals (where a count that grows is news), how to
        # describe it, and the error if strict.
        self._kinds: list[tuple[int, Callable[[], str], type[RuntimeError]]] = [
            (FAILED, self._describe_failed, WorldFailedError),
        ]
        self._warned: set[int] = set()
        self._seen = self._counts()
        counted = all(shard.counts for shard in shards)
        on_cpu = all(shard.model.device.is_cpu for shard in shards)
        totals = [memoryview(shard.counter.totals.numpy()) for shard in shards] if on_cpu and counted else []
        self._watched = [(memory, kind) for memory in totals for kind, _, _ in self._kinds]
        self._expected = [0] * len(self._watched)

    def after_step(self) -> None:
        """What a step may afford on the CPU: a few memory accesses unless there is news. Nothing on CUDA."""
        found = [memory[kind] for memory, kind in self._watched]
        if found != self._expected:
            self._expected = found
            self.look()

    def look(self) -> None:
        """Report what is new. Waits for the device.

        Raises:
            WorldFailedError: A world could not take a step, and the simulation is strict.
        """
        before, self._seen = self._seen, self._counts()
        for kind, describe, error in self._kinds:
            if all(now[kind] == old[kind] or not now[kind] for now, old in zip(self._seen, before, strict=True)):
                continue
            if self._strict:
                raise error(describe())
            if kind not in self._warned:
                self._warned.add(kind)
                warnings.warn(describe(), RuntimeWarning, stacklevel=4)

    def _counts(self) -> list[np.ndarray]:
        """Totals of each shard; where steps are not counted, of the last step alone."""
        found = []
        for shard in self._shards:
            totals = shard.counter.totals.numpy().copy()
            if not shard.counts:
                totals[FAILED] = (shard.solver.world_status.numpy() >= FAILED_FROM).sum()
            found.append(totals)
        return found

    def _describe_failed(self) -> str:
        status = np.concatenate([shard.solver.world_status.numpy() for shard in self._shards])
        options = self._shards[0].solver.options
        parts = []
        for outcome in (SolveStatus.FREE_MOTION_FAILED, SolveStatus.DIVERGED):
            worlds = name_worlds(np.append(status == outcome, False))
            if worlds:
                parts.append(f"{outcome.name} in {worlds}")
        advice = "give finite inputs, a smaller dt, or joints some armature or damping"
        if (status == SolveStatus.FREE_MOTION_FAILED).any() and options.free_motion_solve_precision == "fp32":
            advice = 'set free_motion_solve_precision="fp64" (it is "fp32")'
        return (
            f"Worlds could not take a step and keep the state they came in with: {', '.join(parts) or 'some of them'}. "
            f"What helps: {advice}; sim.reset(sim.diverged) starts them again."
        )
