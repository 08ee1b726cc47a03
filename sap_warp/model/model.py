"""Runtime data: `SapModel`, `SapState`, `SapControl`, and the views that wrap Newton's objects.

Nothing here copies an array unless the name says so (`state()`, `control()`, `assign`). A view made by one
of the `*_from_newton` functions shares its memory with the Newton object it came from.

Two conventions meet in these objects. ``"public"`` is what users and Newton see, ``"sap"`` is what the solver
kernels read; `sap_warp.solver.state.conversions` holds the formulas. Order flags say which of the two a buffer is in.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, fields
from typing import Any

import newton
import numpy as np
import warp as wp

from ..core.kernels.precision import MAX_TIME_STEP, MIN_TIME_STEP, normalize_precision
from .newton_view import NewtonView

ORDERS = ("public", "sap")
"""Valid values of every order flag."""

TAU_NAMESPACE = "sap"
TAU_ATTRIBUTE = "shape_material_tau"
DOF_LABEL = "dof_label"
TAU_UNSET = -1.0
"""A negative ``tau`` means that the shape has none of its own and takes the solver's ``contact_tau_d``."""
ATTRIBUTES = {TAU_ATTRIBUTE: (newton.Model.AttributeFrequency.SHAPE, TAU_UNSET)}
"""Numbers that Newton's models have no field for, by name: the kind of entity that each belongs to, and its default."""


class _OrderedBuffers:
    """Base of buffers that checks order flags when they are set, so that a typo cannot reach a kernel."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name.endswith("_order") and value not in ORDERS:
            raise ValueError(f"{type(self).__name__}.{name} is {value!r}; valid orders are {ORDERS}.")
        super().__setattr__(name, value)


@dataclass(eq=False)
class SapState(_OrderedBuffers):
    """Positions, velocities and external forces of all worlds at one instant."""

    joint_q: wp.array | None = None
    """Generalized positions [m or rad, quaternions xyzw], shape [joint_coord_count], fp32 or fp64."""

    joint_qd: wp.array | None = None
    """Generalized velocities [m/s or rad/s], shape [joint_dof_count], fp32 or fp64; see `joint_qd_order`."""

    body_q: wp.array | None = None
    """Body poses in world frame [m, quaternion xyzw], shape [body_count], transform in fp32 or fp64."""

    body_qd: wp.array | None = None
    """Body twists [v_C, w] in world frame [m/s, rad/s], shape [body_count], written by the solver."""

    body_f: wp.array | None = None
    """External body wrenches [N, N m] in world frame, shape [body_count]; see `body_f_order`."""

    joint_qd_order: str = "sap"
    """Free and distance joints: ``"public"`` [v_C, w], ``"sap"`` [w, v_O]."""

    body_f_order: str = "sap"
    """``"public"`` [f, tau_C]; ``"sap"`` the solver's residual -[tau_O, f]."""

    def clear_forces(self) -> None:
        """Set the external body wrenches to zero."""
        if self.body_f is not None:
            self.body_f.zero_()

    def assign(self, other: SapState) -> None:
        """Copy all arrays and order flags of ``other`` into this state; dtypes may differ.

        Raises:
            TypeError: ``other`` is no `SapState`.
            ValueError: An array is present in only one of the two states, or its length differs.
        """
        if not isinstance(other, SapState):
            raise TypeError(f"SapState.assign: other is a {type(other).__name__}; expected a SapState.")
        for field in fields(self):
            source, target = getattr(other, field.name), getattr(self, field.name)
            if isinstance(source, str):
                setattr(self, field.name, source)
            elif (source is None) != (target is None):
                missing = "this state" if target is None else "the other state"
                raise ValueError(f"SapState.assign: '{field.name}' is missing in {missing}.")
            elif source is not None:
                _copy_converting(source, target, f"SapState.assign: '{field.name}'")

    @property
    def precision(self) -> str:
        """``"fp64"`` if joint_q is stored in double precision, else ``"fp32"``."""
        return "fp64" if isinstance(self.joint_q, wp.array) and self.joint_q.dtype is wp.float64 else "fp32"

    @property
    def requires_grad(self) -> bool:
        """True if any array of this state records gradients; the solver refuses such a state."""
        return any(
            isinstance(value, wp.array) and value.requires_grad
            for value in (getattr(self, f.name) for f in fields(self))
        )


@dataclass(eq=False)
class SapControl(_OrderedBuffers):
    """Inputs of a step: direct joint forces, drive targets and feed-forward efforts."""

    joint_f: wp.array | None = None
    """Generalized forces [N or N m], shape [joint_dof_count]; see `joint_f_order`."""

    joint_target_pos: wp.array | None = None
    """Drive position targets [m or rad], laid out like joint_q (Newton's coordinate layout)."""

    joint_target_vel: wp.array | None = None
    """Drive velocity targets [m/s or rad/s], shape [joint_dof_count]."""

    joint_act: wp.array | None = None
    """Feed-forward drive efforts [N or N m], shape [joint_dof_count]; limited together with the drive."""

    joint_f_order: str = "sap"
    """Free and distance joints: ``"public"`` [f, tau_C] in world frame, ``"sap"`` [tau_O, f]."""

    def clear(self) -> None:
        """Set direct joint forces, drive targets and feed-forward efforts to zero.

        A quaternion target of all zeros stands for the identity rotation.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, wp.array):
                value.zero_()

    @property
    def joint_target_q(self) -> wp.array | None:
        """Newton's name of `joint_target_pos`."""
        return self.joint_target_pos

    @joint_target_q.setter
    def joint_target_q(self, value: wp.array | None) -> None:
        self.joint_target_pos = value

    @property
    def joint_target_qd(self) -> wp.array | None:
        """Newton's name of `joint_target_vel`."""
        return self.joint_target_vel

    @joint_target_qd.setter
    def joint_target_qd(self, value: wp.array | None) -> None:
        self.joint_target_vel = value


class SapModel(NewtonView):
    """The articulated model of all worlds: a Newton model plus what SAP needs and Newton has no field for.

    Every attribute that is not defined here is Newton's own (``sap_model.joint_armature`` *is*
    ``model.joint_armature``), so a change made through either object is seen by both.
    """

    _wrapped = "newton_model"

    newton_model: newton.Model
    """The wrapped model."""

    def __init__(self, model: newton.Model):
        """Wrap ``model``.

        Raises:
            TypeError: ``model`` is not a Newton model.
            ValueError: The model has no joint dofs.
        """
        if not isinstance(model, newton.Model):
            raise TypeError(f"SapModel wraps a newton.Model, got {type(model).__name__}.")
        if model.joint_dof_count == 0:
            raise ValueError(
                "The model has no joint degrees of freedom (joint_dof_count is 0). SAP solves for joint velocities: "
                "add a body with a free joint, or at least one revolute, prismatic, ball or d6 joint."
            )
        self.newton_model = model
        _ensure_attributes(model)

    @property
    def shape_material_tau(self) -> wp.array:
        """Dissipation time of each shape [s], shape [shape_count]; negative where the shape has none of its own."""
        return getattr(getattr(self.newton_model, TAU_NAMESPACE), TAU_ATTRIBUTE)

    def state(self, precision: str = "fp32") -> SapState:
        """Clone the model's initial state into new public-order buffers.

        Args:
            precision: ``"fp64"`` stores joint_q, joint_qd and body_q in double precision.
        """
        model = self.newton_model
        if normalize_precision(precision, "precision") == "fp64":
            pose = transforms_to_fp64(model.body_q)
            q, qd = (wp.array(a.numpy(), dtype=wp.float64, device=a.device) for a in (model.joint_q, model.joint_qd))
        else:
            q, qd, pose = (wp.clone(a, requires_grad=False) for a in (model.joint_q, model.joint_qd, model.body_q))
        return SapState(
            joint_q=q,
            joint_qd=qd,
            body_q=pose,
            body_qd=wp.clone(model.body_qd, requires_grad=False),
            body_f=wp.zeros_like(model.body_qd, requires_grad=False),
            joint_qd_order="public",
            body_f_order="public",
        )

    def control(self) -> SapControl:
        """Clone the model's initial control into new public-order buffers."""
        model = self.newton_model
        return SapControl(
            joint_f=wp.clone(model.joint_f, requires_grad=False),
            joint_target_pos=wp.clone(model.joint_target_q, requires_grad=False),
            joint_target_vel=wp.clone(model.joint_target_qd, requires_grad=False),
            joint_act=wp.clone(model.joint_act, requires_grad=False),
            joint_f_order="public",
        )


def sap_model_from_newton(model: newton.Model) -> SapModel:
    """View a Newton model as a `SapModel`; no array is copied."""
    return SapModel(model)


def sap_state_from_newton(state: newton.State) -> SapState:
    """View a Newton state as a `SapState` in public order; no array is copied."""
    if not isinstance(state, newton.State):
        raise TypeError(f"sap_state_from_newton takes a newton.State, got {type(state).__name__}.")
    return SapState(
        joint_q=state.joint_q,
        joint_qd=state.joint_qd,
        body_q=state.body_q,
        body_qd=state.body_qd,
        body_f=state.body_f,
        joint_qd_order="public",
        body_f_order="public",
    )


def sap_control_from_newton(control: newton.Control) -> SapControl:
    """View a Newton control as a `SapControl` in public order; no array is copied."""
    if not isinstance(control, newton.Control):
        raise TypeError(f"sap_control_from_newton takes a newton.Control, got {type(control).__name__}.")
    return SapControl(
        joint_f=control.joint_f,
        joint_target_pos=control.joint_target_q,
        joint_target_vel=control.joint_target_qd,
        joint_act=control.joint_act,
        joint_f_order="public",
    )


def register_tau(builder: newton.ModelBuilder) -> None:
    """Let what is added to ``builder`` have `ATTRIBUTES`, such as shapes their own dissipation time.

    Set it with ``custom_attributes={"sap:shape_material_tau": 0.02}`` when adding a shape [s]; it survives replication.
    Registering twice is harmless.
    """
    for name, (frequency, default) in ATTRIBUTES.items():
        builder.add_custom_attribute(
            newton.ModelBuilder.CustomAttribute(
                name=name,
                namespace=TAU_NAMESPACE,
                dtype=wp.float32,
                frequency=frequency,
                assignment=newton.Model.AttributeAssignment.MODEL,
                default=default,
            )
        )


def register_dof_labels(builder: newton.ModelBuilder) -> dict[int, str]:
    """Let dofs of ``builder`` have names of their own, where a joint was made of several; returns them by dof."""
    name = f"{TAU_NAMESPACE}:{DOF_LABEL}"
    if name not in builder.custom_attributes:
        builder.add_custom_attribute(
            newton.ModelBuilder.CustomAttribute(
                name=DOF_LABEL,
                namespace=TAU_NAMESPACE,
                dtype=str,
                frequency=newton.Model.AttributeFrequency.JOINT_DOF,
                assignment=newton.Model.AttributeAssignment.MODEL,
                default="",
            )
        )
    attribute: Any = builder.custom_attributes[name]
    if attribute.values is None:
        attribute.values = {}
    return attribute.values


def dof_labels(model: newton.Model) -> list[str]:
    """Return names that dofs have of their own, empty where they have none."""
    return list(getattr(getattr(model, TAU_NAMESPACE, None), DOF_LABEL, None) or [""] * model.joint_dof_count)


def check_array(
    owner: str, name: str, array: wp.array | None, dtypes: tuple[Any, ...], length: int, device: Any
) -> None:
    """Raise unless ``array`` is what the solver expects.

    Raises:
        TypeError: No Warp array, or one of another dtype.
        ValueError: Wrong length, wrong device, gaps between the entries, or it records gradients.
    """
    label = f"{owner}.{name}"
    if not isinstance(array, wp.array):
        found = "None" if array is None else type(array).__name__
        raise TypeError(f"{label} is {found}; expected a Warp array of length {length}.")
    if array.dtype not in dtypes:
        wanted = " or ".join(wp.types.type_repr(d) for d in dtypes)
        raise TypeError(f"{label} has dtype {wp.types.type_repr(array.dtype)}; expected {wanted}.")
    if array.shape != (length,):
        raise ValueError(f"{label} has shape {array.shape}; expected ({length},).")
    if array.device != wp.get_device(device):
        raise ValueError(f"{label} is on device '{array.device}'; the model is on '{device}'.")
    if not array.is_contiguous:
        raise ValueError(f"{label} is a view with gaps (strides {array.strides}); pass a contiguous array.")
    if array.requires_grad:
        raise ValueError(f"{label} requires gradients; the SAP solver does not support gradient states.")


def check_time_step(dt: Any, name: str = "dt") -> float:
    """Return a time step [s] as a float.

    Raises:
        TypeError: ``dt`` is no real number.
        ValueError: It is not within `MIN_TIME_STEP` and `MAX_TIME_STEP`.
    """
    if isinstance(dt, bool) or not isinstance(dt, numbers.Real):
        raise TypeError(f"{name} is {dt!r}; it must be a number of seconds.")
    value = float(dt)
    if not math.isfinite(value) or value <= 0.0:
        raise ValueError(f"{name} is {value!r}; it must be a positive, finite number of seconds.")
    if not MIN_TIME_STEP <= value <= MAX_TIME_STEP:
        raise ValueError(f"{name} is {value!r}; a time step is {MIN_TIME_STEP:g} to {MAX_TIME_STEP:g} s.")
    return value


def check_count(name: str, value: Any, least: int) -> int:
    """Return a whole number of at least ``least`` as an int.

    Raises:
        ValueError: It is anything else.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} is {value!r}; it must be a whole number of at least {least}.")
    return int(value)


def check_flags(flags: Any, kind: str = "newton.ModelFlags") -> int:
    """Return flags of Newton as an int.

    Raises:
        TypeError: They are no flags.
    """
    if isinstance(flags, bool) or not isinstance(flags, numbers.Integral):
        raise TypeError(f"flags is {flags!r}; it must be of {kind}.")
    return int(flags)


def check_bool(name: str, value: Any) -> bool:
    """Return ``value``, which is True or False.

    Raises:
        TypeError: It is anything else.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {value!r}; it must be True or False.")
    return bool(value)


def check_state(name: str, state: Any, model: newton.Model) -> SapState:
    """Return ``state``, a `SapState` or a `newton.State` of ``model``, as a `SapState`.

    Raises:
        TypeError: It is neither, or an array is missing or of another dtype.
        ValueError: An array has another length or device, or gaps.
    """
    if isinstance(state, newton.State):
        state = sap_state_from_newton(state)
    elif not isinstance(state, SapState):
        raise TypeError(f"{name} is a {type(state).__name__}; expected a SapState or a newton.State.")
    fp64 = state.precision == "fp64"
    scalar, pose = ((wp.float64,), (wp.transformd,)) if fp64 else ((wp.float32,), (wp.transformf,))
    device, twist = model.device, (wp.spatial_vectorf,)
    check_array(name, "joint_q", state.joint_q, scalar, model.joint_coord_count, device)
    check_array(name, "joint_qd", state.joint_qd, scalar, model.joint_dof_count, device)
    check_array(name, "body_q", state.body_q, pose, model.body_count, device)
    check_array(name, "body_qd", state.body_qd, twist, model.body_count, device)
    check_array(name, "body_f", state.body_f, twist, model.body_count, device)
    return state


def check_control(control: Any, model: newton.Model) -> SapControl:
    """Return ``control``, a `SapControl` or a `newton.Control` of ``model``, as a `SapControl`.

    Raises:
        TypeError: It is neither, or an array is missing or of another dtype.
        ValueError: An array has another length or device, or gaps.
    """
    if isinstance(control, newton.Control):
        control = sap_control_from_newton(control)
    elif not isinstance(control, SapControl):
        raise TypeError(f"control is a {type(control).__name__}; expected a SapControl, a newton.Control or None.")
    device, fp32 = model.device, (wp.float32,)
    check_array("control", "joint_f", control.joint_f, fp32, model.joint_dof_count, device)
    check_array("control", "joint_target_pos", control.joint_target_pos, fp32, model.joint_coord_count, device)
    check_array("control", "joint_target_vel", control.joint_target_vel, fp32, model.joint_dof_count, device)
    check_array("control", "joint_act", control.joint_act, fp32, model.joint_dof_count, device)
    return control


def _ensure_attributes(model: newton.Model) -> None:
    """Attach defaults to a model whose builder did not register `ATTRIBUTES`."""
    for name, (frequency, default) in ATTRIBUTES.items():
        if not hasattr(getattr(model, TAU_NAMESPACE, None), name):
            count = getattr(model, f"{frequency.name.lower()}_count")
            model.add_attribute(
                name,
                wp.full(count, default, dtype=wp.float32, device=model.device),
                frequency,
                assignment=newton.Model.AttributeAssignment.MODEL,
                namespace=TAU_NAMESPACE,
            )


def transforms_to_fp64(poses: wp.array) -> wp.array:
    """Return a double-precision copy of poses, with rotations normalized to fp64 round-off.

    Squares of fp32 numbers are exact in fp64, so the order of the sum decides every bit: that of `solver.reset`.
    """
    values = poses.numpy().astype(np.float64).reshape(-1, 7)
    x, y, z, w = values[:, 3:].T
    values[:, 3:] /= np.sqrt(x * x + y * y + z * z + w * w)[:, None]
    return wp.array(values, dtype=wp.transformd, device=poses.device)


def _copy_converting(source: wp.array, target: wp.array, label: str) -> None:
    if source.shape != target.shape:
        raise ValueError(f"{label} has shape {source.shape} in the other state and {target.shape} in this one.")
    if source.dtype is target.dtype:
        wp.copy(target, source)
    else:
        target.assign(source.numpy())
