"""Forces of the last step over all shards of a simulation, as views by world and name."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from ...core.runtime.capture import launches


class ForceSensors:
    """Joint and contact forces of a simulation; arrays are made once and overwritten at each call."""

    def __init__(self, sim: Any):
        """Store the simulation; nothing is allocated yet."""
        self._sim = sim
        self._joint: SimpleNamespace | None = None
        self._contact: Any = None

    @launches
    def joint_forces(self) -> Any:
        """Implement `Simulation.joint_forces`."""
        sim = self._sim
        found = [shard.solver.joint_forces(shard.control) for shard in sim.shards]
        if self._joint is None:
            names = [field.name for field in fields(found[0])]
            self._joint = SimpleNamespace(**{name: self._view(name, wp.float32, "dof") for name in names})
        for name, view in vars(self._joint).items():
            _gather([getattr(forces, name) for forces in found], view.array)
        return self._joint

    @launches
    def contact_forces(self) -> Any:
        """Implement `Simulation.contact_forces`."""
        found = [shard.solver.contact_forces().body_wrench for shard in self._sim.shards]
        if self._contact is None:
            self._contact = self._view("contact_forces", wp.spatial_vectorf, "body")
        _gather(found, self._contact.array)
        return self._contact

    def _view(self, name: str, dtype: Any, kind: str) -> Any:
        count = int(self._sim._names.starts_of(kind)[-1])
        return self._sim.make_view(name, wp.zeros(count, dtype=dtype, device=self._sim.device), kind)


def _gather(parts: list[wp.array], whole: wp.array) -> None:
    """Concatenate arrays of shards; worlds are split in order."""
    first = 0
    for part in parts:
        count = min(part.shape[0], whole.shape[0] - first)
        wp.copy(whole, part, dest_offset=first, count=count)
        first += count


def shard_shapes(sim: Any) -> list[np.ndarray]:
    """Return the index in the whole model of each shape of each shard."""
    everything = np.arange(sim.model.shape_count)
    return [everything if shard.share is None else shard.share.shapes for shard in sim.shards]
