"""Shards: parts of the worlds, each with its own model, pipeline, solver and captured graphs."""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import fields
from functools import partial
from itertools import pairwise
from typing import Any

import newton
import numpy as np
import warp as wp

from ...collision import SapCollisionPipeline, sap_estimate_rigid_contact_max
from ...core.faq import see
from ...core.kernels.lanes import block_size
from ...core.kernels.launch import WorldRange
from ...core.notes import Note, name_some
from ...core.runtime.capture import capturing, preparing
from ...core.runtime.memory_budget import BUFFER_BYTES, WORLD_BYTES, check_memory_budget
from ...model.model import (
    SapControl,
    SapModel,
    SapState,
    check_array,
    check_control,
    check_count,
    check_state,
    transforms_to_fp64,
)
from ...solver import SolverSAP
from ...solver.model.initial_poses import place_unplaced
from ...solver.model.topology import shared_trees
from ...solver.support import UnsupportedModelError
from .compile import compile_beside
from .run import Run
from .split import ThreadsError, WorldShare
from .statistics import StepCounter


class Shard:
    """Some of the worlds, and everything needed to advance them."""

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
            rigid_contact_max: Contacts of all these worlds; None is `default_capacity`.
            counts: Whether steps are counted.
        """
        self.share, self.model, self.state, self.control = share, model, state, control
        self.solver = SolverSAP(model, **solver_options)
        self.world_count: int = self.solver.sizes.world_count
        capacity = rigid_contact_max
        if capacity is None:
            capacity = default_capacity(model, self.solver.options.max_rigid_contact * self.world_count)
        self.pipeline = SapCollisionPipeline(model, rigid_contact_max=capacity, **pipeline_options)
        self.contacts = self.pipeline.contacts()
        self.counter = StepCounter(self.solver)
        self.counts = counts
        self.dt = 0.0
        self.run: Run | None = None
        """The captured steps; None before `capture`."""
        self._compiled = False

    def capture(self, dt: float) -> None:
        """Compile kernels that are not in the kernel cache and record the graphs; the state stays as it is."""
        self.dt = dt
        with preparing():
            run = Run(self, dt)
            kept = self._memory()
            saved = [wp.clone(array) for array in kept]
            self._compile()
            with capturing():
                try:
                    run.launch(2)  # whatever is made on first use must exist before the capture
                    self.solver.reset(self.state)
                finally:
                    for target, source in zip(kept, saved, strict=True):
                        wp.copy(target, source)
                run.capture()
        self.run = run

    def count(self, contacts: Any, worlds: WorldRange) -> None:
        """Count a step of ``worlds`` that was just launched."""
        if self.counts:
            self.counter.record(contacts, worlds)

    def _compile(self) -> None:
        """Compile the kernels in parallel, on as many cores as there are."""
        device = self.model.device
        if self._compiled or not device.is_cpu:  # for CUDA the driver's context belongs to this thread
            return
        collide = partial(self.pipeline.collide, self.state, self.contacts)
        threads = block_size(self.solver.block_dim, device)
        compile_beside(self.solver.kernels(self.state), [collide], device, threads)
        self._compiled = True

    def _memory(self) -> list[wp.array]:
        """Return the arrays that a step changes and a capture must not."""
        counter, clock = self.counter, self.solver.boundary
        arrays = [getattr(self.state, f.name) for f in fields(self.state)]
        counts = [counter.iterations, counter.trials, counter.totals, counter.maxima, clock.time, clock.frame]
        dropped = [*self.solver.dropped.counters, *self.pipeline.record.counters]
        outcome = [*self.solver.outcome.values(), *self.solver.memory.values(), *dropped]
        return [*(array for array in arrays if isinstance(array, wp.array)), *counts, *outcome]


def default_capacity(model: SapModel, most: int) -> int:
    """Return the contacts that the pipeline holds by default, for solvers that take up to ``most``.

    On CUDA a buffer that cannot overflow saves the larger one that contacts are selected from, and two launches in
    each step: as long as it takes no more memory than the two, it is as large as the estimate.
    """
    if model.device.is_cpu:
        return most
    estimate = sap_estimate_rigid_contact_max(model)
    return estimate if most < estimate <= 2 * most else most


def check_memory(model: newton.Model, max_rigid_contact: Any, rigid_contact_max: Any) -> None:
    """Refuse contact counts, both as given by the user, if the buffers of all shards together do not fit into memory.

    Raises:
        ValueError: They do not fit.
    """
    if type(max_rigid_contact) is int:  # solver and pipeline say what is wrong with others
        buffer = BUFFER_BYTES if rigid_contact_max is None else 0
        unit = max(1, int(model.world_count)) * (WORLD_BYTES + buffer)
        check_memory_budget("max_rigid_contact", max_rigid_contact, unit, model.device)
    if type(rigid_contact_max) is int:
        check_memory_budget("rigid_contact_max", rigid_contact_max, BUFFER_BYTES, model.device)


def check_threads(threads: Any, device: Any) -> tuple[int, list[Note]]:
    """Return the number of threads on ``device``, and a note if more were asked for than make sense.

    Raises:
        ValueError: It is no count.
    """
    count = check_count("threads", threads, 1)
    if count == 1 or device.is_cpu:
        return count, []
    text = f"threads is {count}; it is for the CPU. On {device} all worlds run together, and nothing changes."
    return 1, [Note("threads", text)]


def plan_shares(model: newton.Model, threads: int) -> list[tuple[int, int]]:
    """Return first and last world (exclusive) of each thread's shard, as even as possible.

    Raises:
        ThreadsError: There are more threads than worlds.
        UnsupportedModelError: Moving bodies belong to all worlds, so that no world is complete without them.
    """
    shared = np.flatnonzero(shared_trees(model))
    if len(shared):
        raise UnsupportedModelError(
            "Simulation gives every world its own bodies and cannot hold moving bodies of all worlds (world -1): "
            f"{name_some(model.body_label, shared)}. Step the model with SolverSAP itself, or put them into each world."
        )
    worlds = int(model.world_count) if (model.body_world.numpy() >= 0).all() else 1
    if threads > worlds:
        found = "is only 1 world" if worlds == 1 else f"are only {worlds} worlds"
        text = f"threads is {threads}, but there {found} to share out; ask for more worlds or fewer threads."
        raise ThreadsError(text + see("too-many-threads"))
    bounds = np.linspace(0, worlds, threads + 1).round().astype(int)
    return [(int(a), int(b)) for a, b in pairwise(bounds)]


def copy_state(model: SapModel, precision: str, given: Any) -> SapState:
    """Return a state of ``model`` in public order, with the values of ``given`` if any, and consistent body poses.

    Raises:
        TypeError: ``given`` is no state.
        ValueError: It is one of another model, or in sap order.
    """
    place_unplaced(model.newton_model)  # if its builder did no forward kinematics
    state = model.state(precision)
    if given is not None:
        given = check_state("state", given, model.newton_model)
        if given.joint_qd_order != "public" or given.body_f_order != "public":
            raise ValueError("state is in sap order; Simulation takes public order.")
        state.assign(given)
        if state.precision != given.precision == "fp32":  # as `SapModel.state` and a reset have them
            wp.copy(state.body_q, transforms_to_fp64(given.body_q))
        place_unplaced(model.newton_model, state)
    return state


def copy_control(model: SapModel, given: Any) -> SapControl:
    """Return a control of ``model`` in public order, with the values of ``given``; actuator inputs go to the model."""
    control = model.control()
    if given is not None:
        ctrl = getattr(getattr(given, "mujoco", None), "ctrl", None)
        if ctrl is not None:
            target = model.newton_model.mujoco.ctrl
            check_array("control", "mujoco.ctrl", ctrl, (wp.float32,), len(target), model.device)
            wp.copy(target, ctrl)
        given = check_control(given, model.newton_model)
        if given.joint_f_order != "public":
            raise ValueError("control is in sap order; Simulation takes public order.")
        for name in ("joint_f", "joint_target_pos", "joint_target_vel", "joint_act"):
            wp.copy(getattr(control, name), getattr(given, name))
    return control


_Options = tuple[Mapping[str, Any], Mapping[str, Any], int | None, bool]


def make_shards(
    whole: tuple[SapModel, SapState, SapControl, Mapping[str, np.ndarray]], threads: int, options: _Options
) -> tuple[Shard, ...]:
    """Make one shard for each of ``threads`` threads.

    Args:
        whole: Model, state, control and world starts of all worlds.
        threads: How many.
        options: The last arguments of `Shard`; contacts are those of all worlds.

    Raises:
        ThreadsError: The worlds cannot be split over so many threads.
        ValueError: Memory is too small for so many contacts.
    """
    model, state, control, starts = whole
    check_memory(model.newton_model, options[0].get("max_rigid_contact"), options[2])
    plan = plan_shares(model.newton_model, threads)
    if len(plan) == 1:
        return (Shard(None, model, state, control, *options),)
    for_solver, for_pipeline, rigid_contact_max, counts = options
    shards = []
    for first, last in plan:
        share = WorldShare(model.newton_model, first, last)
        capacity = rigid_contact_max
        if capacity is not None:
            capacity = math.ceil(capacity * (last - first) / int(model.newton_model.world_count))
        bounds = {kind: slice(int(start[first]), int(start[last])) for kind, start in starts.items()}
        q, u = slice_buffers(state, bounds), slice_buffers(control, bounds)
        shards.append(Shard(share, SapModel(share.model), q, u, for_solver, for_pipeline, capacity, counts))
    return tuple(shards)


_KINDS = {"joint_q": "coord", "joint_target_pos": "coord", "body_q": "body", "body_qd": "body", "body_f": "body"}
"""Kind of entity of the entries of a buffer; other buffers have an entry per dof."""


def slice_buffers(buffers: Any, bounds: Mapping[str, slice]) -> Any:
    """Return a state or control whose arrays are slices of those in ``buffers``; order flags are kept."""
    values = {f.name: getattr(buffers, f.name) for f in fields(buffers)}
    cut = {n: v[bounds[_KINDS.get(n, "dof")]] for n, v in values.items() if isinstance(v, wp.array)}
    return type(buffers)(**values | cut)


_teams: weakref.WeakSet[Team] = weakref.WeakSet()


class Team:
    """Lets all shards take equal steps: the calling thread the first shard, one helper thread each of the others.

    Warp's replays release Python's lock, so the threads really run beside each other.
    """

    def __init__(self, shards: Sequence[Shard]):
        """Start the helpers."""
        self._first, *self._others = shards
        self.busy = self.torn = False
        self._start()
        _teams.add(self)

    def _start(self) -> None:
        """Start the helpers; called again in a forked process, which has no other threads."""
        self.lock = threading.RLock()
        """Whoever uses one simulation from several threads waits here."""
        self.torn = self.torn or self.busy
        """Whether shards are at different steps; a step that was under way in another thread at a fork is lost."""
        self.busy = False
        """Whether steps are being taken."""
        self._waiting: list[Future[None]] = []
        self._helpers = ThreadPoolExecutor(len(self._others), "sap-warp-shard") if self._others else None

    def run(self, steps: int) -> None:
        """Let all shards take ``steps`` steps and wait for them; then the first exception is raised."""
        if not self._others:  # most often; a few microseconds less than waiting for nobody
            self._first.run.replay(steps)  # type: ignore[union-attr]
            return
        if self._helpers is None:
            raise RuntimeError("The simulation is closed.")
        self._waiting = [self._helpers.submit(shard.run.replay, steps) for shard in self._others]  # type: ignore[union-attr]
        self._first.run.replay(steps)  # type: ignore[union-attr]
        wait(self._waiting)
        for future in self._waiting:
            future.result()

    def settle(self, start: int, steps: int) -> int:
        """Bring all shards to the first step that all can reach, after `run` was interrupted.

        Returns:
            How many of the steps are taken.
        """
        self.torn = True
        shards = [self._first, *self._others]
        runs = [shard.run for shard in shards if shard.run is not None]
        for run in runs:
            run.stopped = True
        while not all(future.done() for future in self._waiting):
            with suppress(KeyboardInterrupt):  # helpers end within a step; until then nothing can be put in order
                wait(self._waiting)
        taken = [run.settle(start, steps) for run in runs]
        for run, count in zip(runs, taken, strict=True):
            run.replay(max(taken) - count)
        self.torn = False
        return max(taken)

    def close(self) -> None:
        """Stop the helpers."""
        if self._helpers is not None:
            self._helpers.shutdown()
            self._helpers = None


def _start_after_fork() -> None:
    for team in _teams:
        team._start()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_after_fork)
