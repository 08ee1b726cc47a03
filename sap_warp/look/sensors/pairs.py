"""Contact forces between chosen bodies or shapes, by world, on the device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import warp as wp

from ...core.runtime.capture import launches
from .forces import shard_shapes
from .kernels import add_pair_forces


class ContactPairs:
    """Forces on some bodies or shapes by others in the last step; see `Simulation.contact_pairs`."""

    def __init__(self, sim: Any, on: str | Iterable[str], by: str | Iterable[str] | None, kind: str):
        """Look up names.

        Raises:
            UnknownNameError: Something has no match.
            ValueError: ``kind`` is not known, or worlds differ.
        """
        if kind not in ("body", "shape"):
            raise ValueError(f"kind is {kind!r}; it must be 'body' or 'shape'.")
        self._sim, self._kind = sim, kind
        rows, self.on = self._table(on)
        columns, self.by = self._table(by)
        """Names of the rows and columns; the ground and other shapes of no body or world are ``"world"``."""
        model, device = sim.model, sim.device
        world = model.shape_world.numpy()
        self._tables = []
        for shapes in shard_shapes(sim):
            chosen = (world[shapes], rows[shapes], columns[shapes])
            self._tables.append([wp.array(x.astype(np.int32), dtype=wp.int32, device=device) for x in chosen])
        shape = (sim.world_count, len(self.on), len(self.by))
        self.force: wp.array = wp.zeros(shape, dtype=wp.vec3f, device=device)
        """Force on each row by each column [N], world axes, vec3 of shape (worlds, on, by); filled by `update`."""
        self.count: wp.array = wp.zeros(shape, dtype=wp.int32, device=device)
        """Contacts between them."""

    def _table(self, patterns: Any) -> tuple[np.ndarray, tuple[str, ...]]:
        """Return the index of each shape of the model among the chosen ones, -1 if not chosen, and their names."""
        sim, model = self._sim, self._sim.model
        shape_body, shape_world = model.shape_body.numpy(), model.shape_world.numpy()
        if patterns is None:
            return np.zeros(model.shape_count, int), ("*",)
        table = np.full(model.shape_count, -1)
        wanted = [patterns] if isinstance(patterns, str) else list(patterns)
        names: list[str] = []
        if "world" in wanted:
            wanted = [pattern for pattern in wanted if pattern != "world"]
            table[(shape_world < 0) if self._kind == "shape" else (shape_body < 0)] = 0
            names.append("world")
        if wanted:
            found = sim._names.find(self._kind, wanted)
            starts = sim._names.starts_of(self._kind)[:-1]
            for column, name in zip(found.indices, found.names, strict=True):
                chosen = starts + int(column)
                shapes = chosen if self._kind == "shape" else np.flatnonzero(np.isin(shape_body, chosen))
                table[shapes] = len(names)
                names.append(name)
        return table, tuple(names)

    @launches
    def update(self) -> wp.array:
        """Compute `force` and `count` of the last step, and return `force`."""
        self.force.zero_()
        self.count.zero_()
        for shard, tables in zip(self._sim.shards, self._tables, strict=True):
            forces = shard.solver.contact_forces().force
            contacts = getattr(shard.contacts, "newton_contacts", shard.contacts)
            inputs = [
                contacts.rigid_contact_count,
                contacts.rigid_contact_shape0,
                contacts.rigid_contact_shape1,
                forces,
            ]
            outputs = [self.force, self.count]
            device = self._sim.device
            wp.launch(add_pair_forces, forces.shape[0], inputs=[*inputs, *tables], outputs=outputs, device=device)
        return self.force
