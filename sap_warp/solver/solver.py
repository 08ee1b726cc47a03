"""`SolverSAP`: one time step of every world."""

from __future__ import annotations

from typing import Any, Unpack

import newton
import numpy as np
import warp as wp
from newton.solvers import SolverBase

from ..core.kernels.lanes import IN_A_WARP
from ..core.kernels.launch import WorldRange, lanes_for
from ..core.kernels.template import Variant
from ..core.kernels.types import TYPES
from ..core.runtime.capture import launches
from ..core.runtime.memory_budget import WORLD_BYTES, check_memory_budget
from ..model.contacts import SapContacts
from ..model.model import (
    SapControl,
    SapModel,
    SapState,
    check_array,
    check_bool,
    check_control,
    check_flags,
    check_state,
    check_time_step,
    register_tau,
    sap_model_from_newton,
)
from .contact.binning import bin_contacts
from .contact.dropped import DroppedContacts
from .dynamics.free_motion import SapFreeMotion
from .minimize.solve import SapContactSolve
from .minimize.stability import forget_energy
from .model.layout import build_layout
from .model.links import Links, joint_parameters
from .model.topology import kinematic_bodies
from .model_warnings import warn_if_long, warn_if_undamped
from .outputs.acceleration import BodyAcceleration
from .outputs.contact_forces import ContactForces, SapContactForces
from .outputs.joint_forces import JointForces, SapJointForces
from .outputs.parent_force import ParentForce
from .prepare.equations import SapEquations
from .prepare.stage import SapContactStage
from .settings.keywords import SolverOptions
from .settings.options import SapOptions, expand_options
from .settings.status import SolveStatus
from .state.reset import SapReset, reset
from .state.stage import SapBoundary
from .step import Steps, split_worlds
from .support import check_model
from .tendons.stage import SapTendons


class SolverSAP(SolverBase):
    """Advances articulated worlds by the SAP convex formulation of compliant frictional contact.

    Example:
        ```python
        solver = SolverSAP(model, contact_preset_variant="drake", line_search_variant="armijo_decay")
        pipeline.collide(state_0, contacts)
        solver.step(state_0, state_1, control, contacts, dt)
        ```
    """

    SUPPORTED_OBSERVABLES = frozenset(
        {
            SolverBase.ObservableKind.CONTACT_F,
            SolverBase.ObservableKind.BODY_QDD,
            SolverBase.ObservableKind.BODY_PARENT_F,
        }
    )
    supports_collision_pipeline = True

    def __init__(
        self,
        model: SapModel | newton.Model,
        *,
        contact_preset_variant: str = "approx32",
        block_dim: int | None = None,
        strict_capacity: bool = False,
        collision_pipeline: Any = None,
        collision_frequency: Any = None,
        collision_frequency_type: Any = None,
        **options: Unpack[SolverOptions],
    ):
        """Prepare all buffers; a step allocates nothing.

        Args:
            model: What to simulate.
            contact_preset_variant: ``"approx32"``, ``"approx64"`` or ``"drake"``, or ``"robot"``, which is ours.
            block_dim: Lanes that share one world. Default 1 on the CPU, where more than one needs
                ``wp.config.enable_cpu_blocks``; on CUDA 32, or 64 if a world has more than 64 dofs. There 8 or 16,
                the default for many worlds of so few dofs, let several worlds share a warp.
            strict_capacity: Raise `ContactCapacityError` when a statistic is read after steps that dropped contacts,
                instead of warning once.
            collision_pipeline: A `newton.CollisionPipeline` that the solver runs itself, at the start of each step,
                into ``solver.contacts``; `step` then takes None for contacts. Without one, the caller detects them.
            collision_frequency: Newton's numbers for scheduling detection between iterations; none of them acts here.
            collision_frequency_type: Newton's schedule, see `set_collision_frequency`.
            **options: Any field of `SapOptions`; wins over the preset.

        Raises:
            UnsupportedModelError: The model has features that the solver does not simulate.
            ValueError: An option has no valid value, the model has no joint dofs, or memory is too small for so many
                contacts.
            TypeError: An option does not exist.
        """
        self.sap_model = model if isinstance(model, SapModel) else sap_model_from_newton(model)
        self.options: SapOptions = expand_options(contact_preset_variant, **options)
        check_model(self.sap_model.newton_model)
        if collision_pipeline is not None and not hasattr(collision_pipeline, "collide"):
            kind = type(collision_pipeline).__name__
            raise TypeError(f"collision_pipeline is a {kind}; expected a newton.CollisionPipeline or None.")
        super().__init__(
            self.sap_model.newton_model,
            collision_pipeline=collision_pipeline,
            collision_frequency=collision_frequency,
            collision_frequency_type=collision_frequency_type,
        )
        self._block_dim = self._check_block_dim(block_dim)
        self._strict_capacity = check_bool("strict_capacity", strict_capacity)
        warn_if_undamped(self.sap_model.shape_material_tau.numpy(), self.options)
        self._build()
        warn_if_long(self.model, self.layout, self.sizes, self.options)

    def _build(self) -> None:
        """Make the tables and stages for what the model contains now."""
        model, options, lanes = self.sap_model, self.options, self._block_dim
        self._prescribed = kinematic_bodies(self.model)
        self.layout, self.sizes = build_layout(self.model, lanes)
        bytes_each = self.sizes.world_count * WORLD_BYTES
        check_memory_budget("max_rigid_contact", options.max_rigid_contact, bytes_each, self.model.device)
        self.tendons = self.lengths = SapTendons(model, self.layout, self.sizes, options)
        """Tendons and actuators that are not drives of joints; `lengths` is an alias."""
        self.equations = self.constraints = SapEquations(model, self.layout, self.sizes, options, self.tendons)
        shared = (model, self.layout, self.sizes)
        parameters = joint_parameters(self.sap_model)
        self.links = Links(*shared, options)
        self.free_motion = SapFreeMotion(*shared, self.links, options)
        self.contact_stage = SapContactStage(*shared, parameters, self.links, options, self.free_motion)
        self.contact_solve = SapContactSolve(*shared, options, self.contact_stage, self.equations)
        self.boundary = SapBoundary(*shared, parameters, self.links, self.free_motion, self.contact_solve)
        found = {
            n: getattr(self.contact_solve.data, n) for n in ("status", "iterations", "line_iterations", "residual")
        }
        rows = self.contact_stage
        self.outcome = found | {"contact_count": rows.contact_count, "truncated": rows.truncated_count}
        """What is known of each world's last step, on the device; zero after a reset."""
        motion, result = self.free_motion.data, self.contact_solve.data
        self.memory = {"q": self.boundary.joint_q, "velocity": result.velocity, "energy": result.energy}
        """What the next step compares its state with, to judge the energy of a world (`stability`)."""
        self.memory |= {"watched": motion.energy_watch, "moment": motion.energy_moment, "fall": motion.energy_fall}
        if self.tendons.actuation.has_dynamics:
            self.memory["activation"] = self.tendons.actuation.act
        self.all_worlds = WorldRange(0, self.sizes.world_count, lanes)
        self.ranges = split_worlds(self.sizes, self.model.device)
        """The worlds that a step takes at a time."""
        self._model_control = self._view_model_control()
        self._reset = SapReset(self)
        self._contact_forces = SapContactForces(model, self.contact_solve)
        self._joint_forces = SapJointForces(self)
        self._parent_force = ParentForce(self)
        self.dropped = DroppedContacts(self.contact_stage, options.max_rigid_contact, self._strict_capacity)
        """Contacts that found no place since the last report."""
        self._last_contacts: newton.Contacts | None = None
        self._last_dt = 0.0
        self.tendons.measure(self)

    @launches
    def step(
        self,
        state_in: SapState | newton.State,
        state_out: SapState | newton.State,
        control: SapControl | newton.Control | None,
        contacts: Any,
        dt: float,
        *,
        observables: Any = None,
    ) -> None:
        """Advance all worlds by ``dt`` [s] from ``state_in`` to ``state_out``, which may be the same object.

        Args:
            state_in: State at the start of the step; its external forces act during the step.
            state_out: Receives positions, velocities, body poses and twists.
            control: Forces and targets; None takes the model's own.
            contacts: What the collision pipeline found at ``state_in``; None is no contact, or leaves it to the
                solver's own pipeline.
            dt: Time step.
            observables: Arrays from `observables()`; CONTACT_F, BODY_QDD and BODY_PARENT_F are offered.

        Raises:
            ValueError: ``dt`` is not a positive finite number, or an array has the wrong size or device.
            TypeError: An argument is of the wrong type.
        """
        dt = check_time_step(dt)
        found = self._contacts(self._resolve_step_contacts(contacts))
        self.validate_observables(observables, found)
        source, target = self._state(state_in, "state_in"), self._state(state_out, "state_out")
        inputs, ctrl = self._control(control), self._ctrl(control)
        acceleration = BodyAcceleration(observables, source, state_out)
        if self._resolved_collision_frequency_type(self.CollisionSlot.RIGID) == self.CollisionFrequencyType.PRE_INIT:
            self._run_rigid_collision(state_in, dt)
        steps = Steps(self, inputs, ctrl, dt)
        steps.collect(source, found)
        for worlds in self.ranges:
            steps.begin(source, worlds)
            steps.solve(worlds)
            steps.end(target, worlds)
        acceleration.finish(target, dt)
        self.remember(found, dt)
        if observables is not None and observables.contact_f is not None:
            wp.copy(observables.contact_f, self.contact_forces().spatial_force)
        if observables is not None and observables.body_parent_f is not None:
            self.parent_forces(observables.body_parent_f)

    @launches
    def parent_forces(self, out: wp.array) -> None:
        """Write the wrench that each body got through its joint in the last step to ``out``: Newton's BODY_PARENT_F.

        Raises:
            ValueError: Constraints tie bodies together: which part of a wrench goes through them is not known.
            RuntimeError: There was no step yet.
        """
        if self.equations.count:
            raise ValueError("BODY_PARENT_F is not offered for models with loop closures, welds or couplings.")
        if not self._last_dt:
            raise RuntimeError("parent_forces() needs a step; call step() first.")
        contact = None if self._last_contacts is None else self.contact_forces().body_wrench
        self._parent_force.compute(out, contact, self._last_dt, self.all_worlds)

    def kernels(self, state: SapState) -> list[Any]:
        """What a step of ``state`` launches, the heaviest first: for those who compile in advance."""
        precision = TYPES[state.precision]
        stages = [self.contact_solve.kernel, self.contact_stage.kernel, *self.boundary.kernels(state)]
        return [
            *stages,
            self.free_motion.kernel,
            bin_contacts.of(Variant(state=precision)),
            reset.of(Variant(state=precision)),
        ]

    def remember(self, contacts: Any, dt: float) -> None:
        """Let `contact_forces` and `update_contacts` speak of a step with these contacts."""
        self._last_contacts, self._last_dt = self._contacts(contacts), dt

    def steps(self, control: SapControl | newton.Control | None, dt: float) -> Steps:
        """The parts of steps of ``dt`` [s], for those who take many of some worlds; see `step`."""
        return Steps(self, self._control(control), self._ctrl(control), check_time_step(dt))

    def set_collision_frequency(self, *, collision_frequency: Any = None, collision_frequency_type: Any = None) -> None:
        """Change when the solver's own collision pipeline runs: once at the start of a step, or not at all.

        The contacts of a step are those of its start, and one convex problem is solved for them: there is nothing that
        detection after that, or between iterations, could change.

        Args:
            collision_frequency: Newton's numbers for ITERATIONS; checked and kept, without an effect.
            collision_frequency_type: NONE, PRE_INIT or AUTO (PRE_INIT if the solver has a pipeline) for RIGID; NONE or
                AUTO for SOFT_SELF_CONTACT.

        Raises:
            ValueError: Any other schedule.
        """
        kinds = self.CollisionFrequencyType
        allowed = {
            self.CollisionSlot.RIGID: (kinds.NONE, kinds.PRE_INIT, kinds.AUTO),
            self.CollisionSlot.SOFT_SELF_CONTACT: (kinds.NONE, kinds.AUTO),
        }
        for slot, kind in (collision_frequency_type or {}).items():
            choices = allowed[self.CollisionSlot(slot)]
            if kinds(kind) not in choices:
                names = ", ".join(choice.name for choice in choices)
                raise ValueError(
                    f"collision_frequency_type[{self.CollisionSlot(slot).name}] is {kinds(kind).name}; "
                    f"SolverSAP offers {names}."
                )
        super().set_collision_frequency(
            collision_frequency=collision_frequency, collision_frequency_type=collision_frequency_type
        )

    @launches
    def compute_free_motion(self, state: Any, control: Any, dt: float) -> SapFreeMotion:
        """Run the first two stages alone: A and v* at ``state``, for inspection. No state changes."""
        self.boundary.begin(self._state(state, "state"), self._control(control), self.all_worlds)
        self.free_motion.compute(self.boundary, check_time_step(dt), self.all_worlds)
        return self.free_motion

    @property
    def contact_jacobian(self) -> SapContactStage:
        """`contact_stage` by the name that it has in the specification."""
        return self.contact_stage

    @launches
    def compute_contacts(self, state: Any, control: Any, contacts: Any, dt: float) -> SapContactStage:
        """Run the first three stages alone: contact rows and dof terms at ``state``, for inspection."""
        found = self._contacts(contacts)
        self.compute_free_motion(state, control, dt)
        inputs, ctrl = self._control(control), self._ctrl(control)
        self.contact_stage.collect(self._state(state, "state"), found)
        self.contact_stage.compute(self.boundary, inputs, check_time_step(dt), self.all_worlds, ctrl)
        return self.contact_stage

    @launches
    def contact_forces(self) -> ContactForces:
        """Contact forces of the last step, computed now: per contact, per body, and spatial as Newton defines them.

        The arrays are overwritten by the next call. Call it after a step with contacts; inside a captured graph it
        becomes part of the graph.

        Raises:
            RuntimeError: The last step had no contact buffer, or there was no step yet.
        """
        if self._last_contacts is None:
            raise RuntimeError("contact_forces() needs a step that was given contacts; call step() with them first.")
        return self._contact_forces.compute(self._last_contacts, self._last_dt, self.all_worlds)

    @launches
    def joint_forces(self, control: SapControl | newton.Control | None = None) -> JointForces:
        """What acted on each degree of freedom in the last step, computed now: drive, actuator, limit, friction, ...

        The arrays are overwritten by the next call. ``control`` is what the last step was given.

        Raises:
            RuntimeError: There was no step yet.
        """
        if not self._last_dt:
            raise RuntimeError("joint_forces() needs a step; call step() first.")
        inputs = (self._control(control), self._ctrl(control))
        return self._joint_forces.compute(*inputs, self._last_dt, self.all_worlds)

    def observables(self, kinds: Any, *, contacts: Any = None, requires_grad: bool | None = None) -> Any:
        """Arrays that `step` fills, as Newton defines them; ``contacts`` are a pipeline's of ours or of Newton."""
        return super().observables(kinds, contacts=self._contacts(contacts), requires_grad=requires_grad)

    def update_contacts(self, contacts: Any, state: Any = None) -> None:
        """Write the last step's forces into ``contacts``: ``rigid_contact_force`` (on shape 1) and, if made, ``force``.

        Args:
            contacts: The buffer that the last step used.
            state: Not needed.
        """
        found: Any = self._last_contacts
        if found is None or self._contacts(contacts) is not found:
            raise ValueError("update_contacts() takes the contacts that the last step was given.")
        forces = self.contact_forces()
        wp.copy(found.rigid_contact_force, forces.force)
        if found.force is not None:
            wp.copy(found.force, forces.spatial_force)

    @launches
    def reset(
        self,
        state: SapState | newton.State,
        world_mask: wp.array | None = None,
        flags: Any = None,
        *,
        control: SapControl | newton.Control | None = None,
    ) -> None:
        """Return worlds of ``state`` to the model's initial state, in place.

        Args:
            state: State to change.
            world_mask: Boolean array of shape (world_count + 1,), the last entry for global entities, as Newton
                defines it, or of shape (world_count,). None resets all worlds and sets the clock to zero.
            flags: `newton.StateFlags` that select what is reset; None resets everything.
            control: Inputs to look at: entries of these worlds that are not finite return to the model's values.
        """
        inputs = None if control is None else self._control(control)
        self._reset.reset(self._state(state, "state"), world_mask, flags, inputs)
        self.tendons.actuation.reset(world_mask)
        if world_mask is None:
            self.boundary.time.zero_()
            self.boundary.frame.zero_()

    @launches
    def reset_to(
        self,
        state: SapState,
        control: SapControl,
        world_mask: wp.array,
        joint_q: wp.array | None = None,
        joint_qd: wp.array | None = None,
    ) -> None:
        """Reset worlds to coordinates, with their bodies; can be captured, and is the same for other masks then.

        Args:
            state: State to change.
            control: As for `reset`.
            world_mask: Boolean array of shape (world_count,).
            joint_q: Positions, of the length, dtype and order of the state's; None is the model's.
            joint_qd: Velocities, likewise. If neither is given, bodies get the model's poses, too.
        """
        self._reset.reset(state, world_mask, None, control, (joint_q, joint_qd))
        if joint_q is not None or joint_qd is not None:
            self.boundary.place(state, control, self.all_worlds, world_mask)

    @launches
    def notify_model_changed(self, flags: newton.ModelFlags | int) -> None:
        """Take over what has changed in the model.

        Joint frames, axes, masses and inertias are packed at construction: change them, then call this. Gravity,
        armature, damping, gains, limits, friction and shape materials are read afresh by every step, and need this
        call only if the array itself was replaced by another one. Frames, coefficients and enable flags of
        constraints are packed like joint frames. Making a body kinematic or dynamic, or adding a constraint, changes
        the unknowns: the solver is built anew then, and graphs that were captured before must be captured again.

        Raises:
            UnsupportedModelError: The change leads to a model that the solver does not simulate.
            TypeError: ``flags`` is no flag.
        """
        check_flags(flags)
        check_model(self.model)
        if not np.array_equal(self._prescribed, kinematic_bodies(self.model)) or not self.equations.refresh():
            time, frame = self.boundary.time, self.boundary.frame
            self._build()
            self.boundary.time, self.boundary.frame = time, frame
            return
        parameters = joint_parameters(self.sap_model)
        self.free_motion.data.energy_watch.zero_()
        self.links.refresh()
        for forces in self.free_motion.extra_forces:
            forces.refresh()
        self.boundary.refresh(parameters)
        self.contact_stage.refresh(parameters)
        self._model_control = self._view_model_control()
        self._reset = SapReset(self)
        self.tendons.measure(self)

    @launches
    def refresh_masses(self, mask: wp.array) -> None:
        """Take over masses, centres of mass and inertias that changed in the worlds of ``mask``; on the device.

        As `notify_model_changed` does, but captured graphs stay valid. Bodies must keep a mass, or stay without one.

        Args:
            mask: Booleans of shape (worlds,).
        """
        self.links.refresh(mask)
        self.contact_stage.refresh_masses(mask)
        wp.launch(
            forget_energy, dim=len(mask), inputs=[mask, self.free_motion.data.energy_watch], device=self.model.device
        )

    @classmethod
    def register_custom_attributes(cls, builder: newton.ModelBuilder) -> None:
        """Register ``sap:shape_material_tau``, the dissipation time of a shape [s], on ``builder``."""
        register_tau(builder)

    @property
    def world_status(self) -> wp.array:
        """`SolveStatus` of each world, on the device."""
        return self.contact_solve.status

    @property
    def model_control(self) -> SapControl:
        """The control that a step without one uses: the model's own arrays."""
        return self._model_control

    @property
    def block_dim(self) -> int:
        """Lanes that share one world."""
        return self._block_dim

    # Statistics of the last step. Reading one waits for the device; a step never does.

    @property
    def last_contact_count(self) -> int:
        """Contacts that took part, over all worlds."""
        self.dropped.check()
        return int(self.contact_stage.contact_count.numpy().sum())

    @property
    def last_truncated_contact_count(self) -> int:
        """Contacts that found no place in their world or in the pipeline's buffer, over all worlds.

        The first time it is not zero there is a warning, or with ``strict_capacity`` an exception each time, that
        names the worlds and the number to set. Reading the other statistics does the same.
        """
        return self.dropped.check()

    @property
    def last_solve_iterations(self) -> int:
        """Newton iterations of the world that needed most."""
        return int(self.contact_solve.iterations.numpy().max())

    @property
    def last_line_search_iterations(self) -> int:
        """Line search trials, over all worlds and iterations."""
        return int(self.contact_solve.line_search_iterations.numpy().sum())

    @property
    def last_converged(self) -> bool:
        """Whether every world met a stopping criterion, and none is unstable."""
        self.dropped.check()
        return bool((self.world_status.numpy() == SolveStatus.CONVERGED).all())

    @property
    def iterations(self) -> np.ndarray:
        """Newton iterations of each world."""
        return self.contact_solve.iterations.numpy()

    @property
    def residual(self) -> np.ndarray:
        """Optimality ratio |D g| / max(|D A v|, |D j|) of each world where it was last evaluated.

        A world that stopped by the cost criterion took one more step after that.
        """
        return self.contact_solve.residual.numpy()

    @property
    def status(self) -> np.ndarray:
        """`SolveStatus` of each world."""
        self.dropped.check()
        return self.world_status.numpy()

    @property
    def sim_time(self) -> float:
        """Time advanced since construction or the last full reset [s]; counts replayed graphs too."""
        return float(self.boundary.time.numpy()[0])

    @property
    def frame_id(self) -> int:
        """Steps taken since construction or the last full reset."""
        return int(self.boundary.frame.numpy()[0])

    def _state(self, state: Any, name: str) -> SapState:
        return check_state(name, state, self.model)

    def _view_model_control(self) -> SapControl:
        """The control that a step without one uses: the model's own arrays."""
        model = self.model
        return SapControl(model.joint_f, model.joint_target_q, model.joint_target_qd, model.joint_act, "public")

    def _control(self, control: Any) -> SapControl:
        return self._model_control if control is None else check_control(control, self.model)

    def _ctrl(self, control: Any) -> Any:
        """MuJoCo's control inputs of a Newton control, if the model has actuators that read them."""
        if not self.has_actuators or not isinstance(control, newton.Control):
            return None
        ctrl = control.mujoco.ctrl
        count = self.model.mujoco.ctrl.shape[0]
        check_array("control", "mujoco.ctrl", ctrl, (wp.float32,), count, self.model.device)
        return ctrl

    @property
    def has_actuators(self) -> bool:
        """Whether the model has actuators that read ``mujoco.ctrl``."""
        return bool(self.contact_stage.motors.count or self.tendons.actuation.total)

    def checked(self, state: Any) -> SapState:
        """A state as the stages take it."""
        return self._state(state, "state")

    def _contacts(self, contacts: Any) -> Any:
        if isinstance(contacts, SapContacts):
            contacts = contacts.newton_contacts
        if contacts is None or isinstance(contacts, newton.Contacts):
            if contacts is not None and contacts.device != self.model.device:
                raise ValueError(f"contacts are on '{contacts.device}'; the model is on '{self.model.device}'.")
            return contacts
        raise TypeError(f"contacts is a {type(contacts).__name__}; expected SapContacts, newton.Contacts or None.")

    def _check_block_dim(self, block_dim: int | None) -> int:
        on_cpu = self.model.device.is_cpu
        if block_dim is None:
            if on_cpu:
                return 1
            dofs = np.diff(self.model.joint_dof_world_start.numpy(), prepend=0).max()  # those of no world come first
            return lanes_for(int(dofs), self.model.world_count, self.model.device)
        if isinstance(block_dim, bool) or not isinstance(block_dim, int) or not 1 <= block_dim <= 1024:
            raise ValueError(f"block_dim is {block_dim!r}; it must be a whole number from 1 to 1024.")
        if on_cpu and block_dim > 1 and not wp.config.enable_cpu_blocks:
            raise ValueError(
                f"block_dim is {block_dim}, but CPU blocks have one lane unless wp.config.enable_cpu_blocks is True."
            )
        if not on_cpu and block_dim in IN_A_WARP.values():
            raise ValueError(
                f"block_dim is {block_dim}, which on CUDA is the size of a block of several worlds; take 64 or 128."
            )
        return block_dim
