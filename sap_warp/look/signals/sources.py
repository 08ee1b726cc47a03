"""Arrays on the device that signals are entries of; some are computed when a sample is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import warp as wp

from ...core.kernels.template import Variant
from ...core.kernels.types import TYPES
from .kernels import energy, penetration, slip, store_force


@dataclass(eq=False)
class Part:
    """A run of entries of a source, for example those of one shard."""

    array: wp.array
    """Flat array of numbers."""
    first: int
    """First entry of the source that the part holds."""


@dataclass(eq=False)
class Source:
    """Arrays from which samples of some signals are read."""

    parts: list[Part]
    """Arrays that hold the entries, one after another."""
    width: int = 1
    """Numbers per entity."""
    refresh: list[Callable[[], None]] = field(default_factory=list)
    """Launches before the arrays are read."""


def as_numbers(array: wp.array) -> tuple[wp.array, int]:
    """Return a Warp array of vectors or poses as numbers in the same memory, and the numbers per entry."""
    scalar = getattr(array.dtype, "_wp_scalar_type_", array.dtype)
    width = wp.types.type_size_in_bytes(array.dtype) // wp.types.type_size_in_bytes(scalar)
    flat = wp.array(
        ptr=array.ptr,
        dtype=scalar,
        shape=(array.size * width,),
        device=array.device,
        copy=False,
        capacity=array.capacity,
    )
    flat._keeps = array
    return flat, width


class SourceCache:
    """Sources of one simulation; each is made once."""

    def __init__(self, sim: Any):
        """Nothing is made yet."""
        self._sim = sim
        self._made: dict[str, Source] = {}

    def get(self, quantity: str, read: Callable[[Any], wp.array] | None = None) -> Source:
        """Return the source of a quantity; ``read`` finds the array of one that each solver has by world."""
        if quantity in ("kinetic_energy", "potential_energy", "energy"):
            return self._energies(quantity)
        if quantity not in self._made:
            makers: dict[str, Callable[[], Source]] = {
                "contact_force": self._contact_force,
                "penetration": lambda: self._of_contacts(_penetration),
                "slip_speed": lambda: self._of_contacts(_slip),
            }
            if quantity in makers:
                self._made[quantity] = makers[quantity]()
            elif read is not None:
                self._made[quantity] = self._by_world(read)
            else:
                array, width = as_numbers(getattr(self._sim, quantity).array)
                self._made[quantity] = Source([Part(array, 0)], width)
        return self._made[quantity]

    def _by_world(self, choose: Callable[[Any], wp.array]) -> Source:
        parts, first = [], 0
        for shard in self._sim.shards:
            parts.append(Part(choose(shard.solver)[: shard.world_count], first))
            first += shard.world_count
        return Source(parts)

    def _energies(self, quantity: str) -> Source:
        """Return the source of kinetic energy, potential energy and their sum, filled by one launch."""
        if "energies" not in self._made:
            sim, model = self._sim, self._sim.model
            out = wp.zeros(3 * sim.world_count, dtype=wp.float64, device=model.device)
            starts = wp.array(sim._names.starts_of("body").astype(np.int32), dtype=wp.int32, device=model.device)
            kernel = energy.of(Variant(number=TYPES[sim.precision]))

            def refresh() -> None:
                state, body = sim.state, (model.body_mass, model.body_inertia, model.body_com)
                inputs = [starts, state.body_q, state.body_qd, *body, model.gravity]
                wp.launch(kernel, sim.world_count, inputs=inputs, outputs=[out], device=model.device)

            self._made["energies"] = Source([Part(out, 0)], 1, [refresh])
            for i, name in enumerate(("kinetic_energy", "potential_energy", "energy")):
                part = out[i * sim.world_count : (i + 1) * sim.world_count]
                self._made[name] = Source([Part(part, 0)], 1, self._made["energies"].refresh)
        return self._made[quantity]

    def _contact_force(self) -> Source:
        """Return the source of the net force on each body, and its magnitude."""
        sim = self._sim
        out = wp.zeros(4 * max(sim.model.body_count, 1), dtype=wp.float32, device=sim.device)
        firsts = np.cumsum([0, *(shard.model.body_count for shard in sim.shards)])
        steps: list[Callable[[], None]] = []

        def make(shard: Any, first: int) -> Callable[[], None]:
            def refresh() -> None:
                wrench = shard.solver.contact_forces().body_wrench
                part = out[4 * first :]
                wp.launch(store_force, wrench.shape[0], inputs=[wrench], outputs=[part], device=sim.device)

            return refresh

        steps = [make(shard, int(first)) for shard, first in zip(sim.shards, firsts[:-1], strict=True)]
        return Source([Part(out, 0)], 4, steps)

    def _of_contacts(self, launch: Callable[[Any, wp.array], Callable[[], None]]) -> Source:
        """Return the source that a kernel fills from the contacts of each world."""
        parts, steps, first = [], [], 0
        for shard in self._sim.shards:
            out = wp.zeros(shard.world_count, dtype=wp.float64, device=self._sim.device)
            steps.append(launch(shard, out))
            parts.append(Part(out, first))
            first += shard.world_count
        return Source(parts, 1, steps)


def _contact_variant(shard: Any) -> Variant:
    return Variant(number=TYPES[shard.solver.options.contact_solve_precision])


def _penetration(shard: Any, out: wp.array) -> Callable[[], None]:
    data = shard.solver.contact_stage.data
    kernel = penetration.of(_contact_variant(shard))

    def refresh() -> None:
        inputs = [int(data.capacity), data.count, data.source, data.phi0]
        wp.launch(kernel, shard.world_count, inputs=inputs, outputs=[out], device=out.device)

    return refresh


def _slip(shard: Any, out: wp.array) -> Callable[[], None]:
    data, velocity = shard.solver.contact_stage.data, shard.solver.contact_solve.data.vc
    kernel = slip.of(_contact_variant(shard))

    def refresh() -> None:
        inputs = [int(data.capacity), data.count, data.source, data.normal, data.vhat, data.mu, velocity]
        wp.launch(kernel, shard.world_count, inputs=inputs, outputs=[out], device=out.device)

    return refresh
