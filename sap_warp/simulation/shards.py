"""Shards: shares of the worlds, each with its own model, pipeline, solver and captured graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import fields
from itertools import pairwise
from typing import Any

import newton
import numpy as np
import warp as wp

from ..collision import SapCollisionPipeline
from ..model import SapControl, SapModel, SapState
from ..solver import SolverSAP
from .split import ThreadsError, WorldShare
from .sprint import MOST_STEPS, Sprint, make_sprint
from .statistics import StepCounter

RUN_STEPS = 16
"""Steps of the longest graph on the CPU ..."""
RUN_WORLD_STEPS = 64
"""... which are fewer with several worlds, where starting a graph matters less ..."""
SPRINT_RUN_WORLDS = 16
"""... but not if they sprint: most worlds for which all steps of a sprint are in one graph."""


class Shard:
    """Some of the worlds, and all that is needed to advance them.

    The two states are buffers: a step goes from one to the other, and every `replay` ends in the first, with the
    second one step behind. External forces are one array for both.

    Where it can, a replay of many steps is a sprint (see `sprint`) and one step back to the first buffer.
    """

    def __init__(
        self,
        share: WorldShare | None,
        model: SapModel,
        states: tuple[SapState, SapState],
        control: SapControl,
        solver_options: Mapping[str, Any],
        pipeline_options: Mapping[str, Any],
        rigid_contact_max: int | None,
        count: bool,
    ):
        """Allocate everything; nothing is compiled yet.

        Args:
            share: What the worlds were cut from; None if they are the whole model.
            model: Of these worlds.
            states: Two buffers.
            control: Inputs.
            solver_options: Of `SolverSAP`.
            pipeline_options: Of `SapCollisionPipeline`.
            rigid_contact_max: Contacts of all these worlds; None is ``max_rigid_contact`` times their number.
            count: Whether steps are counted.
        """
        self.share, self.model, self.states, self.control = share, model, states, control
        self.solver = SolverSAP(model, **solver_options)
        self.world_count: int = self.solver.sizes.world_count
        capacity = rigid_contact_max or self.solver.options.max_rigid_contact * self.world_count
        self.pipeline = SapCollisionPipeline(model, rigid_contact_max=capacity, **pipeline_options)
        self.contacts = self.pipeline.contacts()
        self.counter = StepCounter(self.solver)
        self.count = count
        self._compiled = False
        self._run_steps = run_steps(self.world_count) if model.device.is_cpu else 2
        self._run: Any = None
        self._pair: Any = None
        self._single: tuple[Any, ...] = ()
        self._back: Any = None
        self._sprint: Sprint | None = None

    @property
    def is_captured(self) -> bool:
        """Whether `replay` has something to replay."""
        return bool(self._single)

    @property
    def sprints(self) -> bool:
        """Whether a few worlds at a time take the steps of a replay; known after `capture`."""
        return self._sprint is not None

    def launch(self, source: int, dt: float) -> None:
        """Launch one step from buffer ``source`` to the other one: collision, solver, counting."""
        now, after = self.states[source], self.states[1 - source]
        self.pipeline.collide(now, self.contacts)
        self.solver.step(now, after, self.control, self.contacts, dt)
        if self.count:
            self.counter.record(self.contacts)

    def launch_single(self, dt: float) -> None:
        """Launch one step that ends in the first buffer: copy back, then step forth."""
        self._launch_copy()
        self.launch(1, dt)

    def _launch_copy(self) -> None:
        for field in _copied_fields(self.states[0]):
            wp.copy(getattr(self.states[1], field), getattr(self.states[0], field))

    def capture(self, dt: float) -> None:
        """Compile what is not in the kernel cache and record the graphs; the states come out as they went in."""
        kept = self._memory()
        saved = [wp.clone(array) for array in kept]
        self._sprint = make_sprint(self, dt)
        self._compile(dt)
        self.launch(0, dt)  # whatever is made on first use must exist before the capture
        self.launch_single(dt)
        if self._sprint is not None:
            self._sprint.launch(2, parts=1)
        for state in self.states:
            self.solver.reset(state)
        for target, source in zip(kept, saved, strict=True):
            wp.copy(target, source)
        if self._sprint is not None:
            self._run_steps = RUN_STEPS if self.world_count <= SPRINT_RUN_WORLDS else 2
        # Fewer graphs for many worlds, where it takes long to record one and starting one more costs nothing. A step
        # of all worlds comes last: the solver remembers the contacts of the last step that was launched.
        few = self._run_steps > 2
        if self._sprint is not None:
            self._sprint.capture()
        if few:
            self._run = self._capture(lambda: self._launch_run(dt))
        if few or self._sprint is None:
            self._pair = self._capture(lambda: self._launch_pairs(1, dt))
            self._single = (self._capture(lambda: self.launch_single(dt)),)
        if self._sprint is not None:
            self._back = self._capture(lambda: self.launch(1, dt))
            self._single = self._single or (self._capture(self._launch_copy), self._back)

    def _capture(self, launch: Callable[[], None]) -> Any:
        """Record what ``launch`` launches."""
        with wp.ScopedCapture(self.model.device) as capture:
            launch()
        return capture.graph

    def _launch_pairs(self, pairs: int, dt: float) -> None:
        """Launch ``pairs`` times two steps, forth and back between the buffers."""
        for _ in range(pairs):
            self.launch(0, dt)
            self.launch(1, dt)

    def _launch_run(self, dt: float) -> None:
        """Launch the steps of the longest graph."""
        if self._sprint is None:
            self._launch_pairs(self._run_steps // 2, dt)
        else:
            self._sprint.launch(self._run_steps - 1)
            self.launch(1, dt)

    def _compile(self, dt: float) -> None:
        """Compile the kernels of collision detection and of the solver beside each other, with nothing to collide."""
        if self._compiled or not self.model.device.is_cpu:  # for CUDA the driver's context belongs to this thread
            return
        nothing = self.pipeline.contacts()
        with ThreadPoolExecutor(1) as helper:
            colliding = helper.submit(self.pipeline.collide, self.states[0], self.contacts)
            self.solver.step(self.states[0], self.states[1], self.control, nothing, dt)
            colliding.result()
        self._compiled = True

    def _memory(self) -> list[wp.array]:
        """All that a step changes and a capture must not."""
        counter, clock = self.counter, self.solver.integrate
        arrays = [getattr(state, f.name) for state in self.states for f in fields(state)]
        counts = [counter.iterations, counter.trials, counter.totals, counter.maxima, clock.time, clock.frame]
        return [array for array in arrays if isinstance(array, wp.array)] + counts

    def forget_graphs(self) -> None:
        """Capture anew before the next replay: something that is recorded by value has changed."""
        self._run = self._pair = self._back = self._sprint = None
        self._single = ()

    def replay(self, steps: int) -> None:
        """Take ``steps`` steps; does not wait for the device."""
        launch = wp.capture_launch
        run, pair, sprint, rest = self._run, self._pair, self._sprint, steps
        if run is not None:
            runs, rest = divmod(steps, self._run_steps)
            for _ in range(runs):
                launch(run)
        while rest > 1:
            if sprint is not None and (rest > 2 or pair is None):
                together = min(rest, MOST_STEPS)
                sprint.replay(together - 1)
                launch(self._back)
            else:
                together = 2
                launch(pair)
            rest -= together
        if rest:
            for graph in self._single:
                launch(graph)


def run_steps(world_count: int) -> int:
    """Steps of the longest graph, an even number.

    Starting a graph from Python costs about as much as a launch of it, so a single small world gains a tenth from
    starting it once for many steps.
    """
    return max(2, min(RUN_STEPS, RUN_WORLD_STEPS // world_count // 2 * 2))


def _copied_fields(state: SapState) -> list[str]:
    """Arrays that a step writes; the external forces belong to both buffers."""
    return [f.name for f in fields(state) if isinstance(getattr(state, f.name), wp.array) and f.name != "body_f"]


def plan_shares(model: newton.Model, threads: int, worlds_per_shard: int | None) -> list[tuple[int, int]]:
    """First and last world (exclusive) of each shard, as even as possible, equally many for each thread.

    Raises:
        ThreadsError: Several threads or shards on CUDA, or more threads than worlds.
    """
    worlds = int(model.world_count) if (model.body_world.numpy() >= 0).all() else 1
    if not model.device.is_cpu and (threads > 1 or worlds_per_shard is not None):
        raise ThreadsError(f"Threads and shards are for the CPU; on {model.device} all worlds run together.")
    if threads > worlds:
        raise ThreadsError(f"threads is {threads}, but there are only {worlds} worlds to share out.")
    each = 1 if worlds_per_shard is None else math.ceil(worlds / (threads * worlds_per_shard))
    bounds = np.linspace(0, worlds, min(threads * each, worlds) + 1).round().astype(int)
    return [(int(a), int(b)) for a, b in pairwise(bounds)]


def slice_buffers(buffers: Any, bounds: Mapping[str, slice]) -> Any:
    """A state or control whose arrays are slices of those in ``buffers``; order flags are kept."""
    values = {f.name: getattr(buffers, f.name) for f in fields(buffers)}
    return type(buffers)(**{n: v[bounds[n]] if isinstance(v, wp.array) else v for n, v in values.items()})


class Team:
    """Runs one function on every shard: the calling thread takes the first share of them, helpers the others.

    Warp's launches and replays release Python's lock, so the threads really run beside each other.
    """

    def __init__(self, shards: Sequence[Shard], threads: int):
        """Start the helpers."""
        self._groups = [list(group) for group in np.array_split(np.array(shards, dtype=object), threads)]
        self._helpers = ThreadPoolExecutor(threads - 1, "sap-warp-shard") if threads > 1 else None

    def run(self, function: Callable[[Shard], None]) -> None:
        """Call ``function`` for all shards and wait for all of them; the first exception is raised then."""
        first, *others = self._groups
        if others and self._helpers is None:
            raise RuntimeError("The simulation is closed.")
        if not others:  # most often; a few microseconds less than waiting for nobody
            _run_all(function, first)
            return
        waiting = [self._helpers.submit(_run_all, function, group) for group in others] if self._helpers else []
        try:
            _run_all(function, first)
        finally:
            wait(waiting)
        for future in waiting:
            future.result()

    def close(self) -> None:
        """Stop the helpers."""
        if self._helpers is not None:
            self._helpers.shutdown()
            self._helpers = None


def _run_all(function: Callable[[Shard], None], shards: list[Shard]) -> None:
    for shard in shards:
        function(shard)
