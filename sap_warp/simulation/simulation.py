"""`Simulation`: scene, states, control, contacts, pipeline, solver and captured graphs as one object."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any

import newton
import numpy as np
import warp as wp

from ..advice import advise
from ..kernels.cache import with_kernels
from ..kernels.capture import launches
from ..kernels.types import normalize_precision
from ..model import (
    SapControl,
    SapModel,
    SapState,
    check_bool,
    check_count,
    check_flags,
    check_time_step,
)
from ..notes import Note, show_notes
from ..scene_files import find_scene_file
from ..solver import SolverSAP
from .compile import compile_ahead
from .health import FAILED_FROM, CapacityOptions, Health
from .keyframes import find_keyframe, set_inputs
from .memory import count_bytes
from .schedule import ControlSequence, Schedule
from .shards import Shard, Team, copy_control, copy_state, make_shards
from .split import model_arrays, world_starts
from .statistics import StepStatistics
from .views import WorldView, as_mask


class Simulation:
    """Worlds that can be advanced, looked at, changed and reset.

    Example:
        ::

            sim = Simulation.from_scene("humanoid", num_worlds=64, threads=2)
            sim.step(400)
            q = sim.joint_q.numpy()  # (64, 28); on the CPU it shows every later step, too
            sim.reset(world_mask=q[:, 2] < 0.3)

    Steps are replayed from captured graphs that hold collision and solver. The state is advanced in place, so views
    stay valid. External forces and control stay as they are until they are changed.
    """

    state: SapState
    """The current state of all worlds, public order."""
    control: SapControl
    """Inputs of all worlds, public order."""
    joint_q: WorldView
    """Generalized positions [m or rad, quaternions xyzw], shape (worlds, coords)."""
    joint_qd: WorldView
    """Generalized velocities [m/s or rad/s], free joints [v_C, w], shape (worlds, dofs)."""
    body_q: WorldView
    """Body poses in world frame [m, quaternion xyzw], shape (worlds, bodies, 7). A result; change joint_q instead."""
    body_qd: WorldView
    """Body twists [v_C, w] in world frame [m/s, rad/s], shape (worlds, bodies, 6). A result."""
    body_f: WorldView
    """External wrenches [f, tau_C] in world frame [N, N m], shape (worlds, bodies, 6); act until they are changed."""
    joint_f: WorldView
    """Generalized forces [N or N m], shape (worlds, dofs)."""
    joint_target_q: WorldView
    """Drive position targets [m or rad], shape (worlds, coords)."""
    joint_target_qd: WorldView
    """Drive velocity targets [m/s or rad/s], shape (worlds, dofs)."""
    joint_act: WorldView
    """Feed-forward drive efforts [N or N m], shape (worlds, dofs)."""
    gravity: WorldView
    """Gravitational acceleration of each world [m/s^2], shape (worlds, 1, 3); belongs to the model."""
    keyframes: Mapping[str, Any] = {}
    """Named states of the scene's assets, for `reset`."""

    def __init__(
        self,
        model: SapModel | newton.Model,
        *,
        dt: float,
        max_rigid_contact: int | None = None,
        rigid_contact_max: int | None = None,
        precision: str = "fp32",
        threads: int = 1,
        state: SapState | None = None,
        control: SapControl | None = None,
        control_sequence: ControlSequence | None = None,
        statistics: bool = True,
        strict: bool = False,
        pipeline_options: Mapping[str, Any] | None = None,
        name: str = "",
        notes: bool = True,
        **solver_options: Any,
    ):
        """Allocate everything. Kernels are compiled by `prepare` or by the first step.

        Args:
            model: What to simulate.
            dt: Time step [s].
            max_rigid_contact: Contacts that one world can hold; None is the solver's default.
            rigid_contact_max: Contacts that the collision pipeline can hold over all worlds; None is
                ``max_rigid_contact`` times the number of worlds. With several threads each has its share.
            precision: Of the state, ``"fp32"`` or ``"fp64"``.
            threads: Shares of the worlds that run beside each other on the CPU. The results do not depend on it.
            state: Where to start; None is the model's initial state. It is copied. Bodies that are not where the
                joints say, here or in the model, are placed.
            control: Inputs to start with; None takes the model's. It is copied.
            control_sequence: Writes the inputs at its own pace.
            statistics: Whether steps are counted, which costs one small kernel.
            strict: Whether a result that cannot be right is an error instead of a warning, once for each kind: worlds
                that could not take a step, contacts that found no place (for these ``strict_capacity`` is enough). It
                is raised after the step on the CPU, on CUDA when something is read.
            pipeline_options: Further options of `SapCollisionPipeline`, for example ``broad_phase``.
            name: Shown by `repr` and in reports.
            notes: Whether to look for what is probably not meant, and print it.
            **solver_options: Options of `SolverSAP`, for example ``contact_preset_variant``.

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
        self.threads = check_count("threads", threads, 1)
        if rigid_contact_max is not None:
            rigid_contact_max = check_count("rigid_contact_max", rigid_contact_max, 1)
        if not isinstance(pipeline_options or {}, Mapping):
            raise TypeError(f"pipeline_options is {pipeline_options!r}; it must be a mapping of option to value.")
        if max_rigid_contact is not None:
            solver_options["max_rigid_contact"] = max_rigid_contact
        self.preset: str = solver_options.get("contact_preset_variant", "approx32")
        """What the solver's options started from."""
        self.state = copy_state(self.sap_model, self.precision, state)
        self.control = copy_control(self.sap_model, control)
        self._schedule = Schedule(control_sequence)
        self._starts = world_starts(self.model)
        self._arrays = model_arrays(self.model)
        counted, strict = check_bool("statistics", statistics), check_bool("strict", strict)
        whole = (self.sap_model, self.state, self.control, self._starts)
        options = (solver_options, pipeline_options or {}, rigid_contact_max, counted)
        self.shards: tuple[Shard, ...] = with_kernels(partial(make_shards, whole, self.threads, options))
        self._team = Team(self.shards)
        strict_capacity = any((given or {}).get("strict_capacity") for given in (solver_options, pipeline_options))
        capacity = CapacityOptions(rigid_contact_max=rigid_contact_max, strict=bool(strict_capacity))
        self._health = Health(self.shards, strict, capacity)
        self.statistics = StepStatistics([shard.counter for shard in self.shards], self._health.look)
        """Iterations, contacts and truncation over all steps since construction or ``clear``."""
        self._steps = 0
        self._ready = self._closed = False
        self._make_views()
        self.notes: list[Note] = advise(self.model, solver_options) if check_bool("notes", notes) else []
        """Advice about model or scene."""
        show_notes(self.notes)

    @classmethod
    def from_scene(
        cls,
        scene: str | os.PathLike[str] | Mapping[str, Any],
        *,
        num_worlds: int | None = None,
        device: Any = None,
        dt: float | None = None,
        threads: int = 1,
        strict: bool = False,
        precision: str = "fp32",
        max_rigid_contact: int | None = None,
        statistics: bool = True,
        confine: bool | None = None,
        **solver_options: Any,
    ) -> Simulation:
        """Build a scene and make it ready to run.

        Args:
            scene: The path of a scene file, the name of a shipped scene, or the content of a file.
            num_worlds: Copies; None takes the scene's.
            device: Warp device; None is Warp's default.
            dt: Time step [s]; None takes the scene's.
            threads: See the constructor.
            strict: Whether features of a scene file that are not supported are an error; and see the constructor.
            precision: See the constructor.
            max_rigid_contact: Contacts that one world can hold; None takes the scene's.
            statistics: See the constructor.
            confine: Whether files outside of the folder of the scene are refused; see `load_sap_scene`.
            **solver_options: Win over the scene's own.

        Raises:
            UnknownSceneError: It is neither a file nor the name of a shipped scene.
            SapSceneError: The scene cannot be loaded.
        """
        from ..scene import load_sap_scene

        source = find_scene_file(scene) if isinstance(scene, (str, os.PathLike)) else scene
        options: dict[str, Any] = {"device": device, "num_worlds": num_worlds, "strict": check_bool("strict", strict)}
        options |= {"confine": confine, "when_built": partial(compile_ahead, device=device, **solver_options)}
        loaded = with_kernels(partial(load_sap_scene, source, **options))
        common: dict[str, Any] = {"threads": threads, "precision": precision, "statistics": statistics}
        common |= {"strict": strict, "max_rigid_contact": max_rigid_contact}
        return cls.from_loaded(loaded, dt=dt, **common, **solver_options)

    @classmethod
    def from_loaded(
        cls,
        loaded: Any,
        *,
        dt: float | None = None,
        max_rigid_contact: int | None = None,
        notes: bool = True,
        **options: Any,
    ) -> Simulation:
        """Make a scene that was loaded before ready to run; see `from_scene` for the options, which win."""
        from ..scene import SapLoadedScene

        if not isinstance(loaded, SapLoadedScene):
            raise TypeError(f"loaded is a {type(loaded).__name__}; expected what load_sap_scene returns.")
        own: dict[str, Any] = {
            "max_rigid_contact": loaded.max_rigid_contact,
            **(loaded.solver_options or {}),
            "state": loaded.sap_state,
            "control": loaded.sap_control,
            "control_sequence": loaded.control_sequence,
            "name": loaded.name,
            "dt": loaded.dt,
            "notes": False,
        }
        given = {"dt": dt, "max_rigid_contact": max_rigid_contact}
        sim = cls(
            loaded.sap_model, **own | options | {name: value for name, value in given.items() if value is not None}
        )
        sim.notes = list(loaded.notes)  # which know their places
        show_notes(sim.notes if notes else ())
        if max_rigid_contact is None and loaded.max_rigid_contact:
            sim._health.capacity.name = "simulation.max_rigid_contact"
        sim.keyframes = loaded.keyframes
        return sim

    # What it consists of.

    @property
    def model(self) -> newton.Model:
        """The Newton model of all worlds."""
        return self.sap_model.newton_model

    @property
    def device(self) -> Any:
        """Where it runs."""
        return self.model.device

    @property
    def world_count(self) -> int:
        """Number of worlds."""
        return sum(shard.world_count for shard in self.shards)

    @property
    def solver(self) -> SolverSAP:
        """The solver; with several shards there is one in each of them."""
        return self._only("solver")

    @property
    def pipeline(self) -> Any:
        """The collision pipeline; with several shards there is one in each of them."""
        return self._only("pipeline")

    @property
    def contacts(self) -> Any:
        """The contacts at the start of the last step; with several shards there is a buffer in each of them."""
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
        return count_bytes([self.sap_model, self.state, self.control, self.shards])

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

    _time0, _steps0 = 0.0, 0

    @property
    def time(self) -> float:
        """Time advanced since construction or the last reset of all worlds [s]."""
        return self._time0 + (self._steps - self._steps0) * self._dt

    @property
    def step_count(self) -> int:
        """Steps taken since construction or the last reset of all worlds."""
        return self._steps

    def prepare(self) -> None:
        """Compile what is not in the kernel cache and capture the graphs; a step does it when it is needed."""
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
        self._health.after_step()

    def _advance(self, most: int) -> int:
        """Take steps up to the next event, and let it happen; returns how many."""
        schedule, start = self._schedule, self._steps
        count = schedule.begin(self, most) if schedule.active else most
        try:
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
        if schedule.active:
            schedule.call(self)
        return count

    def synchronize(self) -> None:
        """Wait until all steps are done."""
        wp.synchronize_device(self.device)

    def add_callback(self, function: Callable[[Simulation], None], every: int = 1) -> Callable[[], None]:
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
            self._reset(None if world_mask is None else self._as_mask(world_mask), joint_q, joint_qd, key)

    @launches
    def _reset(self, mask: wp.array | None, joint_q: Any, joint_qd: Any, key: Any) -> None:
        for shard in self.shards:
            part = None if mask is None else self._part_of_mask(mask, shard)
            shard.solver.reset(shard.state, part, control=shard.control)
        if key is not None:
            joint_q = key.joint_q if joint_q is None else joint_q
            joint_qd = key.joint_qd if joint_qd is None else joint_qd
        if joint_q is not None or joint_qd is not None:
            chosen = self._all_worlds() if mask is None else mask
            self._place(chosen, joint_q, joint_qd)
            if key is not None:
                set_inputs(self, chosen, key)
        if mask is None:
            self._steps = self._steps0 = 0
            self._time0, self._team.torn = 0.0, False
            self._schedule.restart()

    def update_bodies(self, world_mask: Any = None) -> None:
        """Make body poses and twists follow joint positions and velocities that were changed through the views."""
        with self._team.lock:
            self._update_bodies(self._all_worlds() if world_mask is None else self._as_mask(world_mask))

    def clear_forces(self) -> None:
        """Set the external wrenches to zero."""
        self.state.clear_forces()

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
            self.gravity = WorldView("gravity", self.model.gravity, self._starts["world"], self._health.look)

    # Outcome.

    @property
    def status(self) -> np.ndarray:
        """`SolveStatus` of each world in the last step."""
        self._health.look()
        return np.concatenate([shard.solver.world_status.numpy() for shard in self.shards])

    @property
    def diverged(self) -> np.ndarray:
        """Which worlds could not take the last step and kept their state, shape (worlds,)."""
        return self.status >= FAILED_FROM

    @property
    def iterations(self) -> np.ndarray:
        """Newton iterations of each world in the last step."""
        return np.concatenate([shard.solver.iterations for shard in self.shards])

    @property
    def contact_counts(self) -> np.ndarray:
        """Contacts of each world in the last step."""
        self._health.look()
        return np.concatenate([shard.solver.contact_jacobian.contact_count.numpy() for shard in self.shards])

    def base_heights(self) -> np.ndarray:
        """Height of the first body of each world [m], shape (worlds,)."""
        return self.body_q.flat()[self.body_q.offsets[:-1], 2]

    # Life.

    def close(self) -> None:
        """Stop the threads; the views stay readable. Nothing happens the second time."""
        self._closed, self._ready = True, False
        self._team.close()

    def __enter__(self) -> Simulation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

    def _make_views(self) -> None:
        state: Any = self.state
        control: Any = self.control
        sources = {
            "joint_q": (state.joint_q, "coord"),
            "joint_qd": (state.joint_qd, "dof"),
            "body_q": (state.body_q, "body"),
            "body_qd": (state.body_qd, "body"),
            "body_f": (state.body_f, "body"),
            "joint_f": (control.joint_f, "dof"),
            "joint_target_q": (control.joint_target_pos, "coord"),
            "joint_target_qd": (control.joint_target_vel, "dof"),
            "joint_act": (control.joint_act, "dof"),
            "gravity": (self.model.gravity, "world"),
        }
        for name, (array, kind) in sources.items():
            setattr(self, name, WorldView(name, array, self._starts[kind], self._health.look))

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
        for shard in self.shards:
            shard.run = None

    def _as_mask(self, given: Any) -> wp.array:
        return as_mask(given, self.world_count, self.device)

    def _all_worlds(self) -> wp.array:
        return self._as_mask(np.ones(self.world_count, bool))

    def _part_of_mask(self, mask: wp.array, shard: Shard) -> wp.array:
        return mask if shard.share is None else mask[shard.share.first : shard.share.last]

    def _place(self, mask: wp.array, joint_q: Any, joint_qd: Any) -> None:
        """Give chosen worlds new coordinates."""
        for view, values in ((self.joint_q, joint_q), (self.joint_qd, joint_qd)):
            if values is not None:
                view.assign(values, mask)
        self._update_bodies(mask)

    @launches
    def _update_bodies(self, mask: wp.array) -> None:
        """Forward kinematics of chosen worlds."""
        for shard in self.shards:
            solver = shard.solver
            solver.boundary.place(shard.state, shard.control, solver.all_worlds, self._part_of_mask(mask, shard))
