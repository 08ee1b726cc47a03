"""Report when the result of a simulation cannot be right: once per kind of trouble, or each time as an error if strict.

Steps count trouble on the device and never wait. The counts are looked at when the host reads something anyway: after
a step on the CPU, where that is a memory access, and whenever a view, a status or a statistic is read.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...collision.buffers.counts import PEAK, PEAK_DROPPED
from ...core.faq import see
from ...model.contacts import ContactCapacityError, name_worlds
from ...solver import SolveStatus
from .statistics import FAILED, TRUNCATED, UNSTABLE

if TYPE_CHECKING:
    from .shards import Shard

FAILED_FROM = SolveStatus.FREE_MOTION_FAILED
"""Smallest outcome that leaves a world where it was."""


class WorldFailedError(RuntimeError):
    """A world could not take a step, and the simulation is strict."""


@dataclass
class CapacityOptions:
    """Options by which the user can avoid dropped contacts."""

    name: str = "max_rigid_contact"
    """Name of the option for the contacts of a world, as the user knows it."""
    rigid_contact_max: int | None = None
    """Contacts of all worlds together, if given; None follows the contacts per world."""
    strict: bool = False
    """Whether dropped contacts are an error in any case."""


class Health:
    """Watches what the shards of a simulation count."""

    def __init__(self, shards: Sequence[Shard], strict: bool, capacity: CapacityOptions):
        """Begin without any counts."""
        self._shards, self.capacity = shards, capacity
        self.strict = strict
        """Whether worlds that fail are an error."""
        capacity.strict |= strict
        # One entry for each kind of trouble that is still to be told: its index in the totals (where a count that grows
        # is news), how to describe it, the error if strict, and whether it is.
        self._kinds: list[tuple[int, Callable[[], str], type[RuntimeError], bool]] = [
            (FAILED, self._describe_failed, WorldFailedError, strict),
            (TRUNCATED, self._describe_dropped, ContactCapacityError, capacity.strict),
            (UNSTABLE, self._describe_unstable, WorldFailedError, False),
        ]
        self._inner_told = False
        self._seen = self._counts()
        counted = all(shard.counts for shard in shards)
        on_cpu = all(shard.model.device.is_cpu for shard in shards)
        self._totals = [memoryview(shard.counter.totals.numpy()) for shard in shards] if on_cpu and counted else []
        self._watch()

    def restart(self) -> None:
        """Take the present counts as known, because they were set."""
        self._seen = self._counts()
        self._watch()

    def _watch(self) -> None:
        self._watched = [(memory, entry[0]) for memory in self._totals for entry in self._kinds]
        self._expected = [memory[kind] for memory, kind in self._watched]

    def after_step(self) -> None:
        """Check the counters on the CPU, a few memory accesses unless there is news; does nothing on CUDA."""
        found = [memory[kind] for memory, kind in self._watched]
        if found != self._expected:
            self._expected = found
            self.look()

    def look(self) -> None:
        """Report what is new. Waits for the device.

        Raises:
            WorldFailedError: A world could not take a step, and the simulation is strict.
            ContactCapacityError: Contacts were dropped, and the simulation is strict.
        """
        before, self._seen = self._seen, self._counts()
        for entry in list(self._kinds):
            kind, describe, error, strict = entry
            if all(now[kind] == old[kind] or not now[kind] for now, old in zip(self._seen, before, strict=True)):
                continue
            if strict:
                raise error(describe())
            self._kinds.remove(entry)
            self._watch()
            warnings.warn(describe(), RuntimeWarning, stacklevel=4)
        self._look_inside()

    def _look_inside(self) -> None:
        """Report pairs of shapes or triangles that did not fit into the pipelines; their contacts are missing."""
        problems = [text for shard in self._shards for text in shard.pipeline.record.inner_problems()]
        if problems and self.capacity.strict:
            raise ContactCapacityError(" ".join(problems))
        if problems and not self._inner_told:
            self._inner_told = True
            text = f"Contacts are missing. {' '.join(problems)} They are pipeline_options.{see('dropped-contacts')}"
            warnings.warn(text, RuntimeWarning, stacklevel=5)

    def _counts(self) -> list[np.ndarray]:
        """Return the totals of each shard; where steps are not counted, of the last step alone."""
        found = []
        for shard in self._shards:
            totals = shard.counter.totals.numpy().copy()
            if not shard.counts:
                totals[FAILED] = (shard.solver.world_status.numpy() >= FAILED_FROM).sum()
                totals[UNSTABLE] = (shard.solver.world_status.numpy() == SolveStatus.UNSTABLE).sum()
                totals[TRUNCATED] = shard.solver.dropped.read().total
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
            f"What helps: {advice}; sim.reset(sim.diverged) starts them again." + see("world-failed")
        )

    def _describe_unstable(self) -> str:
        status = np.concatenate([shard.solver.world_status.numpy() for shard in self._shards])
        worlds = name_worlds(np.append(status == SolveStatus.UNSTABLE, False))
        integration = self._shards[0].solver.options.position_integration
        other = ' or position_integration="sap_euler", which takes energy away' if integration == "midpoint" else ""
        return (
            f"The energy of worlds grows without work{f', now in {worlds}' if worlds else ''}: the time step is too "
            f"large for how fast they move. What helps: a smaller dt, joints with armature or damping{other}."
            + see("energy-grows")
        )

    def _describe_dropped(self) -> str:
        """Describe which worlds lost contacts since the last report, and what to set, in numbers of all worlds."""
        limit, option = self._shards[0].solver.options.max_rigid_contact, self.capacity
        worlds = sum(shard.world_count for shard in self._shards)
        total, need, buffer_need, lost = 0, limit, 0, []
        for shard in self._shards:
            dropped = shard.solver.dropped.read()
            shard.solver.dropped.clear()
            record, by_bin = (array.numpy() for array in shard.pipeline.record.counters)
            most, total = dropped.most.copy(), total + dropped.total
            if record[PEAK_DROPPED] > 0:
                buffer_need = max(buffer_need, math.ceil(int(record[PEAK]) * worlds / shard.world_count))
                most[: len(by_bin)] += by_bin[: len(most)]
            lost.append(most)
            need = max(need, limit + int((most if option.rigid_contact_max is None else dropped.most).max()))
        advice = []
        if buffer_need and option.rigid_contact_max is not None:
            advice.append(f"rigid_contact_max to {buffer_need} or more (it is {option.rigid_contact_max})")
        elif buffer_need:
            need = max(need, math.ceil(buffer_need / worlds))
        if need > limit:
            advice.append(f"{option.name} to {need} or more (it is {limit})")
        names = name_worlds(np.append(np.concatenate(lost), 0))
        where = f", in {names}" if names else ""
        return (
            f"{total or 'Some'} contacts found no place and were dropped{where}: bodies may sink into each other. "
            f"Set {' and '.join(advice)}.{see('dropped-contacts')}"
        )
