"""Core of every simulation: states, control, views, stepping, resets and their outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self, Unpack

import newton
import numpy as np
import warp as wp

from ..core.kernels.precision import normalize_precision
from ..core.notes import Note, show_notes
from ..core.runtime.cache import with_kernels
from ..core.runtime.capture import launches
from ..judge.advice import advise
from ..model.model import SapControl, SapModel, SapState, check_bool, check_count, check_flags, check_time_step
from ..solver import SolverSAP
from ..solver.settings.keywords import SimulationOptions
from .checkpoint.fingerprint import array_digests
from .checkpoint.keyframes import find_keyframe, set_inputs
from .parameters import Parameters, ParameterViews
from .random.randomizer import Randomizer
from .resets import Resets
from .run.health import FAILED_FROM, CapacityOptions, Health
from .run.memory import count_bytes
from .run.schedule import ControlSequence, Schedule
from .run.shards import Shard, Team, check_threads, copy_control, copy_state, make_shards
from .run.split import model_arrays, world_starts
from .run.statistics import StepStatistics
from .run.streams import in_order
from .views.named_views import NamedViews
from .views.names import ModelNames


class SimulationCore(NamedViews, ParameterViews):
    """States, control, contacts, pipeline, solver and captured graphs; `Simulation` adds the public API."""

    state: SapState
    """The current state of all worlds, public order."""
    control: SapControl
    """Inputs of all worlds, public order."""
    _origin: Mapping[str, Any] | None = None
    """Origin of the model, for `load`; None if the user made it."""
    _randomizer: Randomizer | None = None
    keyframes: Mapping[str, Any] = {}
    """Named states of the scene's assets, for `reset`."""
    read_visuals: Callable[[], Any] | None = None
    """Reads visual shapes that the scene leaves out; see `sap_warp.look.visuals`."""

    def __init__(
        self,
        model: SapModel | newton.Model,
        *,
        dt: float,
        precision: str = "fp32",
        threads: int = 1,
        state: SapState | None = None,
        control: SapControl | newton.Control | None = None,
        control_sequence: ControlSequence | None = None,
        statistics: bool = True,
        strict: bool = False,
        pipeline_options: Mapping[str, Any] | None = None,
        name: str = "",
        notes: bool = True,
        **options: Unpack[SimulationOptions],
    ):
        """Allocate everything. Kernels are compiled by `prepare` or by the first step.

        Args:
            model: What to simulate.
            dt: Time step [s].
            precision: Of the state, ``"fp32"`` or ``"fp64"``.
            threads: Shares of the worlds that run beside each other on the CPU. The results do not depend on it. On
                CUDA all worlds run together anyway: a note says so.
            state: Where to start; None is the model's initial state. It is copied. Bodies that are not where the
                joints say, here or in the model, are placed.
            control: Inputs to start with, for example ``model.control()``; None takes the model's. It is copied, inputs
                of MuJoCo's actuators into the model, where `ctrl` has them.
            control_sequence: Writes the inputs at its own pace.
            statistics: Whether steps are counted, which costs one small kernel.
            strict: Whether a result that cannot be right is an error instead of a warning, once for each kind: worlds
                that could not take a step, contacts that found no place (for these ``strict_capacity`` is enough). It
                is raised after the step on the CPU, on CUDA when something is read.
            pipeline_options: Further options of `SapCollisionPipeline`, for example ``broad_phase``.
            name: Shown by `repr` and in reports.
            notes: Whether to look for what is probably not meant, and print it.
            **options: Options of `SolverSAP`, for example ``contact_preset_variant`` or ``max_rigid_contact``, contacts
                that one world can hold (None is the solver's default); and ``rigid_contact_max``, contacts that the
                collision pipeline can hold over all worlds (None is ``max_rigid_contact`` times the number of worlds,
                on CUDA up to twice that if all contacts fit then; with several threads each has its share).

        Raises:
            ThreadsError: The worlds cannot be split over so many threads.
            ValueError: An option has no valid value, or memory is too small for so many contacts.
        """
        self.sap_model = model if isinstance(model, SapModel) else SapModel(model)
        if not isinstance(name, str):
            raise TypeError(f"name is {name!r}; it must be a string.")
        self.name = name
        self._dt = check_time_step(dt)
        self.precision = normalize_precision(precision, "precision")
        self.threads, idle = check_threads(threads, self.sap_model.device)
        solver_options: dict[str, Any] = dict(options)
        rigid_contact_max = solver_options.pop("rigid_contact_max", None)
        if rigid_contact_max is not None:
            rigid_contact_max = check_count("rigid_contact_max", rigid_contact_max, 1)
        if not isinstance(pipeline_options or {}, Mapping):
            raise TypeError(f"pipeline_options is {pipeline_options!r}; it must be a mapping of option to value.")
        if solver_options.get("max_rigid_contact", 0) is None:
            del solver_options["max_rigid_contact"]
        self._given: dict[str, Any] = {
            "solver_options": dict(solver_options),
            "pipeline_options": dict(pipeline_options or {}),
            "rigid_contact_max": rigid_contact_max,
            "statistics": check_bool("statistics", statistics),
        }
        self.preset: str = solver_options.get("contact_preset_variant", "approx32")
        """What the solver's options started from."""
        self.state = copy_state(self.sap_model, self.precision, state)
        self.control = copy_control(self.sap_model, control)
        self._schedule = Schedule(control_sequence)
        self._starts = world_starts(self.model)
        self._names = ModelNames(self.model)
        self._arrays = model_arrays(self.model)
        self._began = array_digests(self.model)
        self._strict = check_bool("strict", strict)
        self._make_shards()
        self._steps, self._on_cpu = 0, self.device.is_cpu
        self._ready = self._closed = False
        self._resets = Resets(self.shards, self.state, self._starts)
        self._make_views()
        self._parameters = Parameters(self)
        self.notes: list[Note] = [*idle, *advise(self.model, solver_options)] if check_bool("notes", notes) else idle
        """Advice about model or scene."""
        show_notes(self.notes if notes else ())

    # What it consists of.

    @property
    def model(self) -> newton.Model:
        """The Newton model of all worlds."""
        return self.sap_model.newton_model

    @property
    def device(self) -> Any:
        """Device of the arrays."""
        return self.model.device

    @property
    def world_count(self) -> int:
        """Number of worlds."""
        return sum(shard.world_count for shard in self.shards)

    @property
    def solver(self) -> SolverSAP:
        """The solver, or with several shards the one in each of them."""
        return self._only("solver")

    @property
    def pipeline(self) -> Any:
        """The collision pipeline, or with several shards the one in each of them."""
        return self._only("pipeline")

    @property
    def contacts(self) -> Any:
        """The contacts at the start of the last step, or with several shards the buffer in each of them."""
        return self._only("contacts")

    @property
    def max_rigid_contact(self) -> int:
        """Contacts that one world can hold."""
        return self.shards[0].solver.options.max_rigid_contact

    @property
    def rigid_contact_max(self) -> int:
        """Contacts that the collision pipelines can hold, over all worlds."""
        return sum(shard.pipeline.rigid_contact_max for shard in self.shards)

    @property
    def byte_count(self) -> int:
        """Memory of all arrays of model, states, contacts, pipelines and solvers [bytes]."""
        return count_bytes([self.sap_model, self.state, self.control, self.shards, self._parameters.arrays])

    # Time.

    @property
    def dt(self) -> float:
        """Time step [s]. Setting it captures the graphs anew before the next step."""
        return self._dt

    @dt.setter
    def dt(self, value: float) -> None:
        value = check_time_step(value)
        with self._team.lock:
            self._time0, self._steps0 = self.time, self._steps
            self._dt = value
            self._forget_graphs()
            if self._randomizer is not None:
                self._randomizer.plan()

    _time0, _steps0 = 0.0, 0
    _observed: Any = None

    @property
    def time(self) -> float:
        """Time advanced since construction or the last reset of all worlds [s]."""
        return self._time0 + (self._steps - self._steps0) * self._dt

    @property
    def step_count(self) -> int:
        """Steps taken since construction or the last reset of all worlds."""
        return self._steps

    def prepare(self) -> None:
        """Compile kernels that are not in the kernel cache and capture the graphs; steps do it when it is needed."""
        with self._team.lock:
            if self._closed:
                raise RuntimeError("The simulation is closed.")
            if self._team.torn:
                raise RuntimeError(
                    "An interruption left the worlds at different steps. Call reset() to start all of them again."
                )
            for shard in self.shards:
                if shard.run is None:
                    with_kernels(partial(shard.capture, self._dt))
            self._ready = True

    def step(self, n: int = 1) -> None:
        """Advance all worlds by ``n`` steps; on CUDA this does not wait for the device.

        Callbacks run between steps. A world that diverges keeps its last good state and leaves the others alone; see
        `status`. An exception that comes in between, Ctrl-C for example, leaves all worlds at the same step, some steps
        back, and `step_count` says which.

        Raises:
            RuntimeError: It was called by a callback, or the simulation is closed.
        """
        if type(n) is not int or n < 0:
            n = check_count("n", n, 0)
        with self._team.lock:
            if self._team.busy:
                raise RuntimeError("step() was called by a callback of step().")
            try:
                self._team.busy = True
                while True:
                    if not self._ready:
                        self.prepare()
                    if n <= 0:
                        break
                    n -= self._advance(n)
            finally:
                self._team.busy = False
        if self._mirrors:
            self._follow()
        self._health.after_step()

    def _advance(self, most: int) -> int:
        """Take steps up to the next event, run it, and return how many were taken."""
        schedule, start = self._schedule, self._steps
        count = schedule.begin(self, most) if schedule.active else most
        observed = self._observed
        if observed is not None and count > 1 and observed.needs_last_step:
            count, observed = count - 1, None  # the last one is taken alone, and nobody looks before it
        if observed is not None:
            observed.before()
        try:
            if self._on_cpu:
                self._team.run(count)
            else:
                with in_order(self.device):
                    self._team.run(count)
            self._steps = start + count
        except BaseException as error:
            self._ready = False
            try:
                self._steps = start + self._team.settle(start, count)
                self._ready = True
            except Exception as reason:
                error.add_note(f"The worlds are at different steps; call reset() to start again. {reason}")
            raise
        if observed is not None:
            observed.after()
        if schedule.active:
            if self._mirrors:
                self._follow()
            schedule.call(self)
        return count

    def synchronize(self) -> None:
        """Wait until all steps are done."""
        wp.synchronize_device(self.device)

    def add_callback(self, function: Callable[[Self], None], every: int = 1) -> Callable[[], None]:
        """Call ``function(sim)`` whenever `step_count` is a multiple of ``every``, after the step.

        It may change views, ``dt`` and the model, reset worlds, add and take away callbacks; what it raises ends
        `step`. It may not call `step`.

        Returns:
            A function that takes the callback away again.
        """
        return self._schedule.add(function, every)

    # Change.

    def reset(
        self, world_mask: Any = None, joint_q: Any = None, joint_qd: Any = None, keyframe: str | None = None
    ) -> None:
        """Return worlds to the model's initial state, or put them into another one.

        Args:
            world_mask: Which worlds, booleans of shape (worlds,): NumPy, Warp or a list. None is all of them, and
                sets the clock back too.
            joint_q: Positions to start from, of the flat shape, (worlds, coords), or (coords,) for all alike; only
                rows of chosen worlds are read. Body poses follow.
            joint_qd: Velocities to start from, likewise.
            keyframe: One of the `keyframes`, for what is not given, and for targets and inputs of actuators.

        Raises:
            TypeError: An argument is of the wrong kind.
            ValueError: There is no such keyframe, or an array has another shape.
        """
        key = None if keyframe is None else find_keyframe(self, keyframe)
        if world_mask is None:  # with a mask on CUDA nobody waits
            self._health.look()
        with self._team.lock:
            if world_mask is None:
                self._reset_all()
            if key is not None:
                joint_q = key.joint_q if joint_q is None else joint_q
                joint_qd = key.joint_qd if joint_qd is None else joint_qd
            if world_mask is not None or joint_q is not None or joint_qd is not None:
                self._resets.reset(world_mask, joint_q, joint_qd)
            if key is not None:
                set_inputs(self, world_mask, key)
                self._resets.set_activations(key.act, world_mask)
            if self._randomizer is not None:
                self._randomizer.reset(self._resets.read_mask(world_mask))
            self._mirrors.refresh()

    @launches
    def _reset_all(self) -> None:
        for shard in self.shards:
            shard.solver.reset(shard.state, control=shard.control)
        self._steps = self._steps0 = 0
        self._time0, self._team.torn = 0.0, False
        self._schedule.restart()

    def update_bodies(self, world_mask: Any = None) -> None:
        """Make body poses and twists follow joint positions and velocities that were written into NumPy's view of them.

        What is assigned through `joint_q` and `joint_qd` they follow by themselves.
        """
        with self._team.lock:
            self._resets.place(world_mask)
            self._mirrors.refresh()

    def clear_forces(self) -> None:
        """Set the external wrenches to zero."""
        self.state.clear_forces()
        self._mirrors.refresh()

    def change_solver(self, **options: Unpack[SimulationOptions]) -> None:
        """Change options of the solver, for example ``contact_preset_variant``; the other ones stay as given.

        State, inputs, clock and callbacks stay; statistics start again. Views that were taken before stay valid. What
        was captured is captured anew by the next step.

        Raises:
            ValueError: An option has no valid value, and nothing has changed.
        """
        with self._team.lock:
            if self._team.busy:
                raise RuntimeError("change_solver() was called by a callback of step().")
            before, given, team, capacity = self.shards, self._given, self._team, self._health.capacity
            if "rigid_contact_max" in options:
                raise ValueError("rigid_contact_max is the pipeline's; it stays as it was given.")
            self._given = given | {"solver_options": given["solver_options"] | dict(options)}
            try:
                self._make_shards()
            except BaseException:
                self._given = given
                raise
            team.close()
            for old, new in zip(before, self.shards, strict=True):
                for name in ("time", "frame"):
                    wp.copy(getattr(new.solver.boundary, name), getattr(old.solver.boundary, name))
            self.preset = self._given["solver_options"].get("contact_preset_variant", self.preset)
            self._health.capacity.name = capacity.name
            self._resets = Resets(self.shards, self.state, self._starts)
            self._forget_graphs()
            self._parameters.renew()

    def notify_model_changed(self, flags: newton.ModelFlags | int = newton.ModelFlags.ALL) -> None:
        """Take over masses, inertias, joint frames or axes changed in the model, and arrays replaced by others.

        Gravity, gains, limits, armature, damping, joint friction and shape materials are read afresh by every call of
        `step` and need no call as long as they are written in place.

        Raises:
            ValueError: An array was replaced by one of another shape, dtype or device.
            UnsupportedModelError: The change leads to a model that the solver does not simulate.
        """
        check_flags(flags)
        for name, kind in model_arrays(self.model).items():
            if kind != self._arrays.get(name, kind):
                raise ValueError(f"model.{name} was replaced: it is {kind}, and was {self._arrays[name]}.")
        with self._team.lock:
            for shard in self.shards:
                if shard.share is not None:
                    shard.share.refresh()
                shard.solver.notify_model_changed(flags)
            self._forget_graphs()
            self._view_model()
            self._parameters.renew()

    # Outcome.

    @property
    def status(self) -> np.ndarray:
        """`SolveStatus` of each world in the last step."""
        self._health.look()
        return np.concatenate([shard.solver.world_status.numpy() for shard in self.shards])

    @property
    def diverged(self) -> np.ndarray:
        """True for worlds that could not take the last step and kept their state, shape (worlds,)."""
        return self.status >= FAILED_FROM

    @property
    def iterations(self) -> np.ndarray:
        """Newton iterations of each world in the last step."""
        return np.concatenate([shard.solver.iterations for shard in self.shards])

    @property
    def contact_counts(self) -> np.ndarray:
        """Contacts of each world in the last step."""
        self._health.look()
        return np.concatenate([shard.solver.contact_stage.contact_count.numpy() for shard in self.shards])

    def base_heights(self) -> np.ndarray:
        """Height of the first body of each world [m], shape (worlds,)."""
        return self.body_q.flat()[self.body_q.offsets[:-1], 2]

    # Life.

    def close(self) -> None:
        """Stop the threads; the views stay readable. A second call does nothing."""
        self._closed, self._ready = True, False
        self._team.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        dofs = np.diff(self.joint_qd.offsets)
        size = f"{dofs[0]} dofs" if self.joint_qd.is_uniform else f"{dofs.min()} to {dofs.max()} dofs"
        worlds, threads = self.world_count, self.threads
        return (
            f"<Simulation {self.name or 'of a model'}: {worlds} world{'s' * (worlds > 1)} of {size} on {self.device}, "
            f"{threads} thread{'s' * (threads > 1)}, dt {1e3 * self.dt:g} ms, at {self.time:g} s>"
        )

    # Construction.

    def _make_shards(self) -> None:
        """Make solvers, pipelines and what watches them, with the options that were given."""
        solver_options, pipeline_options, rigid_contact_max, _ = parts = tuple(self._given.values())
        whole = (self.sap_model, self.state, self.control, self._starts)
        self.shards: tuple[Shard, ...] = with_kernels(partial(make_shards, whole, self.threads, parts))
        self._team = Team(self.shards)
        strict_capacity = any(given.get("strict_capacity") for given in (solver_options, pipeline_options))
        capacity = CapacityOptions(rigid_contact_max=rigid_contact_max, strict=bool(strict_capacity))
        self._health = Health(self.shards, self._strict, capacity)
        self.statistics = StepStatistics([shard.counter for shard in self.shards], self._health.look)
        """Iterations, contacts and truncation over all steps since construction or ``clear``."""

    # Details.

    def _only(self, name: str) -> Any:
        if len(self.shards) > 1:
            raise AttributeError(
                f"There is no single {name}: this simulation has {len(self.shards)} shards with one each. "
                f"Use [shard.{name} for shard in sim.shards]."
            )
        return getattr(self.shards[0], name)

    def _forget_graphs(self) -> None:
        self._ready = False
        self._resets.forget()
        if self._randomizer is not None:
            self._randomizer.forget()
        for shard in self.shards:
            shard.run = None

    def _follow(self) -> None:
        """Update host arrays that are in use; on CUDA this waits for the device, so problems are reported too."""
        if self._mirrors.refresh() and not self.device.is_cpu:
            self._health.look()
