"""Shards: shares of the worlds, each with its own model, pipeline, solver and captured graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import fields
from functools import partial
from itertools import pairwise
from typing import Any

import newton
import numpy as np
import warp as wp

from ..collision import SapCollisionPipeline
from ..kernels.launch import WorldRange
from ..model import SapControl, SapModel, SapState
from ..solver import SolverSAP
from .compile import compile_beside
from .run import Run
from .split import ThreadsError, WorldShare
from .statistics import StepCounter


class Shard:
    """Some of the worlds, and all that is needed to advance them."""

    def __init__(
        self,
        share: WorldShare | None,
        model: SapModel,
        state: SapState,
        control: SapControl,
        solver_options: Mapping[str, Any],
        pipeline_options: Mapping[str, Any],
        rigid_contact_max: int | None,
        counts: bool,
    ):
        """Allocate everything; nothing is compiled yet.

        Args:
            share: What the worlds were cut from; None if they are the whole model.
            model: Of these worlds.
            state: Advanced in place.
            control: Inputs.
            solver_options: Of `SolverSAP`.
            pipeline_options: Of `SapCollisionPipeline`.
            rigid_contact_max: Contacts of all these worlds; None is ``max_rigid_contact`` times their number.
            counts: Whether steps are counted.
        """
        self.share, self.model, self.state, self.control = share, model, state, control
        self.solver = SolverSAP(model, **solver_options)
        self.world_count: int = self.solver.sizes.world_count
        capacity = rigid_contact_max or self.solver.options.max_rigid_contact * self.world_count
        self.pipeline = SapCollisionPipeline(model, rigid_contact_max=capacity, **pipeline_options)
        self.contacts = self.pipeline.contacts()
        self.counter = StepCounter(self.solver)
        self.counts = counts
        self.dt = 0.0
        self.run: Run | None = None
        """The captured steps; None before `capture`."""
        self._compiled = False

    def capture(self, dt: float) -> None:
        """Compile what is not in the kernel cache and record the graphs; the state comes out as it went in."""
        self.dt = dt
        kept = self._memory()
        saved = [wp.clone(array) for array in kept]
        run = Run(self, dt)
        self._compile()
        run.launch(2)  # whatever is made on first use must exist before the capture
        self.solver.reset(self.state)
        self.pipeline.clear_statistics()
        for target, source in zip(kept, saved, strict=True):
            wp.copy(target, source)
        run.capture()
        self.run = run

    def count(self, contacts: Any, worlds: WorldRange) -> None:
        """Count a step of ``worlds`` that was just launched."""
        if self.counts:
            self.counter.record(contacts, worlds)

    def _compile(self) -> None:
        """Compile the kernels beside each other, on as many cores as there are."""
        device = self.model.device
        if self._compiled or not device.is_cpu:  # for CUDA the driver's context belongs to this thread
            return
        collide = partial(self.pipeline.collide, self.state, self.contacts)
        compile_beside(self.solver.kernels(self.state), [collide], device, self.solver.block_dim)
        self._compiled = True

    def _memory(self) -> list[wp.array]:
        """All that a step changes and a capture must not."""
        counter, clock = self.counter, self.solver.boundary
        arrays = [getattr(self.state, f.name) for f in fields(self.state)]
        counts = [counter.iterations, counter.trials, counter.totals, counter.maxima, clock.time, clock.frame]
        return [array for array in arrays if isinstance(array, wp.array)] + counts


def plan_shares(model: newton.Model, threads: int) -> list[tuple[int, int]]:
    """First and last world (exclusive) of each thread's shard, as even as possible.

    Raises:
        ThreadsError: Several threads on CUDA, or more threads than worlds.
    """
    worlds = int(model.world_count) if (model.body_world.numpy() >= 0).all() else 1
    if not model.device.is_cpu and threads > 1:
        raise ThreadsError(f"Threads are for the CPU; on {model.device} all worlds run together.")
    if threads > worlds:
        raise ThreadsError(f"threads is {threads}, but there are only {worlds} worlds to share out.")
    bounds = np.linspace(0, worlds, threads + 1).round().astype(int)
    return [(int(a), int(b)) for a, b in pairwise(bounds)]


def slice_buffers(buffers: Any, bounds: Mapping[str, slice]) -> Any:
    """A state or control whose arrays are slices of those in ``buffers``; order flags are kept."""
    values = {f.name: getattr(buffers, f.name) for f in fields(buffers)}
    return type(buffers)(**{n: v[bounds[n]] if isinstance(v, wp.array) else v for n, v in values.items()})


class Team:
    """Runs one function on every shard: the calling thread takes the first one, a helper each of the others.

    Warp's launches and replays release Python's lock, so the threads really run beside each other.
    """

    def __init__(self, shards: Sequence[Shard]):
        """Start the helpers."""
        self._shards = list(shards)
        helpers = len(shards) - 1
        self._helpers = ThreadPoolExecutor(helpers, "sap-warp-shard") if helpers else None

    def run(self, function: Callable[[Shard], None]) -> None:
        """Call ``function`` for all shards and wait for all of them; the first exception is raised then."""
        first, *others = self._shards
        if not others:  # most often; a few microseconds less than waiting for nobody
            function(first)
            return
        if self._helpers is None:
            raise RuntimeError("The simulation is closed.")
        waiting = [self._helpers.submit(function, shard) for shard in others]
        try:
            function(first)
        finally:
            wait(waiting)
        for future in waiting:
            future.result()

    def close(self) -> None:
        """Stop the helpers."""
        if self._helpers is not None:
            self._helpers.shutdown()
            self._helpers = None
