"""Draw the numbers of `Randomize` terms on the device: at once, at resets, and at intervals.

All draws of a reset, with what follows from them (packed masses, bodies that follow their joints), are one captured
graph: the host does not look at worlds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ...core.runtime.cache import with_kernels
from ...core.runtime.capture import capturing, launches, preparing
from ...model.model import check_count
from ...randomization import Every, Randomize, from_description, to_description
from .streams import choose_due, choose_worlds, count_draws
from .terms import Term

if TYPE_CHECKING:
    from ..core import SimulationCore


class Randomizer:
    """The terms of one simulation."""

    def __init__(
        self, sim: SimulationCore, terms: Sequence[Randomize], seed: int, first_world: int, check: bool = True
    ):
        """Prepare the terms; nothing is drawn yet. ``check`` tells that the present values are the nominal ones.

        Raises:
            ValueError: A term cannot be: there is no such view or column, or a number could come that is not possible.
        """
        self._sim = sim
        self.seed, self.first_world = _checked(seed, first_world)
        self.given = tuple(terms)
        taken: dict[str, int] = {}
        self.terms = [Term(sim, term, self.seed, taken, check) for term in terms]
        for made in self.terms:
            made.aim(self.seed, self.first_world)
        device = sim.device
        self.draws = wp.zeros((max(len(terms), 1), sim.world_count), dtype=wp.int32, device=device)
        """How often each term was drawn in each world."""
        rows = {when: [i for i, term in enumerate(terms) if term.when == when] for when in ("start", "reset")}
        self._start = _Batch(self, rows["start"] + rows["reset"])
        self._reset = _Batch(self, rows["reset"])
        self._mask = wp.ones(sim.world_count, dtype=wp.bool, device=device)
        self._due = wp.ones(sim.world_count, dtype=wp.bool, device=device)
        self._everybody = wp.ones(sim.world_count, dtype=wp.bool, device=device)
        self._intervals = [(i, _Batch(self, [i])) for i, term in enumerate(terms) if isinstance(term.when, Every)]
        self._remove: list[Callable[[], None]] = []
        if any(term.what == "ground_mu" for term in terms):
            sim._parameters.owns_ground = True
        self.plan()

    def describe(self) -> dict[str, Any]:
        """Return seed, terms and number of the first world, for checkpoints."""
        return {"seed": self.seed, "terms": to_description(self.given), "first_world": self.first_world}

    @property
    def arrays(self) -> dict[str, wp.array]:
        """Return the stream positions and the nominal values, for checkpoints."""
        nominal = {f"nominal_{i}": term.nominal for i, term in enumerate(self.terms) if len(term.nominal)}
        inertia = {f"inertia_{i}": term.inertia for i, term in enumerate(self.terms) if term.inertia is not None}
        return {"draws": self.draws, **nominal, **inertia}

    def start(self) -> None:
        """Draw all terms that are not drawn at intervals, in all worlds."""
        self._start.run(self._everybody)

    @launches
    def begin_again(self, seed: int, first_world: int) -> None:
        """Restore nominal values and restart the streams, with a seed if given; nothing is drawn yet."""
        self.seed, self.first_world = _checked(seed, first_world)
        for term in self.terms:
            term.aim(self.seed, self.first_world)
            if len(term.nominal):
                term.restore(self._everybody)
        self.draws.zero_()
        self.forget()  # graphs know the streams by value
        for batch in (self._start, *(batch for _, batch in self._intervals)):
            batch.follow(self._everybody)

    def reset(self, mask: wp.array) -> None:
        """Draw what belongs to resets, in chosen worlds; ``mask`` is always the same array."""
        self._reset.run(mask)

    def forget(self) -> None:
        """Drop captured graphs, because arrays that they read may have been replaced."""
        for batch in (self._start, self._reset, *(batch for _, batch in self._intervals)):
            batch.forget()

    def plan(self) -> None:
        """Schedule the steps at which intervals end; called again when the time step changes."""
        self.close()
        for i, batch in self._intervals:
            when: Any = self.given[i].when
            period = max(1, round(when.seconds / self._sim.dt))
            if when.hold is None:
                slots = min(when.phases, period)
                length = round(period / slots)
            else:
                length = max(1, round(when.hold / self._sim.dt))
                slots = max(2, round(period / length))
            call = partial(self._at_interval, i, batch, length, slots)
            self._remove.append(self._sim._schedule.add(call, length))

    def close(self) -> None:
        """Remove the scheduled draws."""
        for remove in self._remove:
            remove()
        self._remove = []

    @launches
    def _at_interval(self, row: int, batch: _Batch, length: int, slots: int, sim: SimulationCore) -> None:
        """Begin the next of the ``slots`` of a period, each ``length`` steps long; some groups of worlds draw in it."""
        term, when, slot = self.terms[row], self.given[row].when, sim.step_count // length % slots
        assert isinstance(when, Every)
        if when.hold is not None and self._choose_due((slot - 1) % slots, slots, when.phases):
            term.restore(self._due)
            batch.follow(self._due)
        if self._choose_due(slot, slots, when.phases):
            inputs = [term.stream, row, self.draws, self._due, self._mask]
            batch.count(self._due)
            wp.launch(choose_worlds, dim=sim.world_count, inputs=inputs, device=sim.device)
            batch.launch(self._mask, counted=True)
        sim._mirrors.refresh()

    def _choose_due(self, slot: int, slots: int, phases: int) -> bool:
        """Mark the worlds that are due in a slot; returns False if there can be none."""
        first, worlds = self.first_world, len(self._due)
        if slot not in {(first + world) % phases * slots // phases for world in range(min(phases, worlds))}:
            return False
        inputs = [slot, slots, phases, first, self._due]
        wp.launch(choose_due, dim=worlds, inputs=inputs, device=self._sim.device)
        return True


class _Batch:
    """Terms that are drawn together."""

    def __init__(self, owner: Randomizer, rows: Sequence[int]):
        self._owner, self._rows = owner, list(rows)
        sim = owner._sim
        self._numbers = wp.array(np.array(rows, np.int32), dtype=wp.int32, device=sim.device)
        self._graph: Any = None
        self._seen = False
        what = {owner.terms[i].given.what for i in rows}
        self._masses = bool(what & {"body_mass", "body_com", "body_inertia"})
        self._sizes = "shape_scale" in what
        self._moves = bool(what & {"joint_q", "joint_qd", "body_com"})

    def forget(self) -> None:
        self._graph, self._seen = None, False

    def run(self, mask: wp.array) -> None:
        """Draw; the first time by launches, which load the kernels, and then by a graph."""
        if not self._rows:
            return
        if self._graph is None and self._seen and self._can_be_captured():
            with preparing(), capturing(), wp.ScopedCapture(self._owner._sim.device) as capture:
                self.launch(mask)
            self._graph = capture.graph
        if self._graph is None:
            with_kernels(partial(self.launch, mask))
            self._seen = True
        else:
            wp.capture_launch(self._graph)

    def _can_be_captured(self) -> bool:
        """Return False if there are bodies without mass, which the host has to find."""
        solvers = [shard.solver for shard in self._owner._sim.shards]
        return not self._masses or all(solver.contact_stage.all_carry for solver in solvers)

    @launches
    def launch(self, mask: wp.array, counted: bool = False) -> None:
        if not counted:
            self.count(mask)
        for i in self._rows:
            self._owner.terms[i].draw(mask, i, self._owner.draws)
        self.follow(mask)

    def count(self, mask: wp.array) -> None:
        inputs = [mask, self._numbers, self._owner.draws]
        wp.launch(count_draws, dim=len(mask), inputs=inputs, device=mask.device)

    def follow(self, mask: wp.array) -> None:
        """Update what depends on the new values."""
        sim = self._owner._sim
        if self._sizes:
            sim._parameters.launch_shapes(mask)
        if self._masses:
            sim._parameters.launch_masses(mask, moved=self._moves)
        elif self._moves:
            for shard in sim.shards:
                part = mask if shard.share is None else mask[shard.share.first : shard.share.last]
                shard.solver.boundary.place(shard.state, shard.control, shard.solver.all_worlds, part)


def _checked(seed: int, first_world: int) -> tuple[int, int]:
    if check_count("seed", seed, 0) >> 64:
        raise ValueError(f"seed is {seed}; it must be below 2**64.")
    if check_count("first_world", first_world, 0) >> 31:
        raise ValueError(f"first_world is {first_world}; it must be below 2**31.")
    return int(seed), int(first_world)


def randomize(
    sim: SimulationCore, terms: Sequence[Randomize | Mapping[str, Any]] | None, seed: int, first_world: int
) -> None:
    """Implement `Simulation.randomize`."""
    if terms is None:
        with sim._team.lock:
            if sim._randomizer is None:
                raise ValueError("terms is None, which is for terms that are there; this simulation has none.")
            sim._randomizer.begin_again(seed, first_world)
            sim._randomizer.start()
            sim._mirrors.refresh()
        return
    if isinstance(terms, (Randomize, Mapping)):
        raise TypeError("terms is one term; pass a list of them.")
    read = [term if isinstance(term, Randomize) else from_description([term])[0] for term in terms]
    with sim._team.lock:
        made = Randomizer(sim, read, seed, first_world)
        if sim._randomizer is not None:
            sim._randomizer.close()
        sim._randomizer = made if read else None
        made.start()
        sim._mirrors.refresh()


def restore(sim: SimulationCore, described: Mapping[str, Any] | None, arrays: Mapping[str, np.ndarray]) -> None:
    """Continue with the terms and streams of a checkpoint, or with none."""
    present = sim._randomizer
    if described is None:
        if present is not None:
            present.close()
        sim._randomizer = None
        return
    if present is None or present.describe() != described:
        if present is not None:
            present.close()
        terms, first_world = from_description(described["terms"]), described.get("first_world", 0)
        sim._randomizer = Randomizer(sim, terms, described["seed"], first_world, check=False)
    assert sim._randomizer is not None
    for name, array in sim._randomizer.arrays.items():
        array.assign(arrays[f"random/{name}"])
