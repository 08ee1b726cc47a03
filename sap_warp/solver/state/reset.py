"""Return chosen worlds of a state to the model's initial state, on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import newton
import warp as wp

from ...core.kernels.launch import kernel
from ...core.kernels.spatial import load_vec3
from ...core.kernels.structs import StructCache, array_struct
from ...core.kernels.template import Constant, Template, Variant, device, device_struct
from ...core.kernels.types import FP32, FP64, TYPES, Bools, Floats
from ...model.joint_types import is_floating
from ...model.model import SapControl, SapState, check_flags
from ..model.layout import Layout
from ..model.links import JointParameters
from ..settings.precisions import state
from .boundary_data import StateArrays
from .conversions import public_to_sap_velocity
from .kinematics import com_offset_fp32

if TYPE_CHECKING:
    from ..solver import SolverSAP

RESET_Q = wp.constant(int(newton.StateFlags.JOINT_Q) | int(newton.StateFlags.BODY_Q))
RESET_QD = wp.constant(int(newton.StateFlags.JOINT_QD) | int(newton.StateFlags.BODY_QD))
RESET_F = wp.constant(int(newton.StateFlags.BODY_F))

COUNTS = ("status", "iterations", "line_iterations", "contact_count", "truncated")
INPUTS = ("joint_f", "target_q", "target_qd", "act")
Outcome = array_struct("Outcome", dict.fromkeys(COUNTS, wp.int32) | {"residual": wp.float64})
"""What the last solve said of each world; see `SolverSAP.outcome`."""
Inputs = array_struct("Inputs", dict.fromkeys(INPUTS, wp.float32))
"""Forces and targets of a control, or of a model."""

scalar = state.scalar
is_fp64 = Template(lambda variant: state.of(variant) is FP64)
load_vec3d = load_vec3.on(number=Constant(FP64))
ModelArrays = StateArrays.on(state=Constant(FP32))


@device_struct
class ResetData:
    """The state that is reset, the model's own, and inputs that are to be healed."""

    layout: Layout
    parameters: JointParameters
    state: StateArrays
    initial: ModelArrays
    outcome: Outcome
    has_inputs: int
    inputs: Inputs
    initial_inputs: Inputs
    ctrl: wp.array(dtype=wp.float32)
    actuator_world: wp.array(dtype=wp.int32)


@wp.func
def is_chosen(entry: int, mask: Bools, masked: int) -> bool:
    """Return True if a world is to be reset: all are without a mask."""
    if masked == 0:
        return True
    if entry >= mask.shape[0]:  # a mask without an entry for global bodies leaves them alone
        return False
    return mask[entry]


@wp.func
def heal(values: Floats, i: int, initial: wp.float32):
    """Return what is not finite to the model's value, or to zero if that is not finite either."""
    if not wp.isfinite(values[i]):
        values[i] = wp.where(wp.isfinite(initial), initial, wp.float32(0.0))


@device
def heal_joint(data: wp.ref[ResetData], joint: int):
    """Heal forces and targets of one joint."""
    for i in range(data.parameters.joint_q_start[joint], data.parameters.joint_q_start[joint + 1]):
        heal(data.inputs.target_q, i, data.initial_inputs.target_q[i])
    for i in range(data.parameters.joint_qd_start[joint], data.parameters.joint_qd_start[joint + 1]):
        heal(data.inputs.joint_f, i, data.initial_inputs.joint_f[i])
        heal(data.inputs.target_qd, i, data.initial_inputs.target_qd[i])
        heal(data.inputs.act, i, data.initial_inputs.act[i])


@device
def reset_joint(data: wp.ref[ResetData], joint: int, flags: int, new_q: wp.array[scalar], new_qd: wp.array[scalar]):
    """Set coordinates to those of the model, or to those that were given, which are in the order of the state."""
    if (flags & RESET_Q) != 0:
        for i in range(data.parameters.joint_q_start[joint], data.parameters.joint_q_start[joint + 1]):
            if new_q.shape[0] > 0:
                data.state.joint_q[i] = new_q[i]
            else:
                data.state.joint_q[i] = scalar(data.initial.joint_q[i])
    if (flags & RESET_QD) != 0:
        iv = data.parameters.joint_qd_start[joint]
        if new_qd.shape[0] > 0:
            for i in range(iv, data.parameters.joint_qd_start[joint + 1]):
                data.state.joint_qd[i] = new_qd[i]
        elif data.state.public_velocity == 0 and is_floating(data.parameters.joint_type[joint]):
            r = com_offset_fp32(data.parameters, joint, data.initial.joint_q)
            w, v = public_to_sap_velocity(
                load_vec3d(data.initial.joint_qd, iv), load_vec3d(data.initial.joint_qd, iv + 3), r
            )
            for i in range(3):
                data.state.joint_qd[iv + i] = scalar(w[i])
                data.state.joint_qd[iv + 3 + i] = scalar(v[i])
        else:
            for i in range(iv, data.parameters.joint_qd_start[joint + 1]):
                data.state.joint_qd[i] = scalar(data.initial.joint_qd[i])


@device
def reset_body(data: wp.ref[ResetData], b: int, flags: int):
    """Set pose and twist of one body to those of the model, and its force to zero.

    What the last solve said of a world is forgotten by one of its bodies.
    """
    body = data.layout.body_newton[b]
    if (flags & RESET_Q) != 0:
        x = wp.transform_get_translation(data.initial.body_q[body])
        r = wp.transform_get_rotation(data.initial.body_q[body])
        q = state.quat(scalar(r[0]), scalar(r[1]), scalar(r[2]), scalar(r[3]))
        if wp.static(is_fp64):  # as `SapModel.state` does it, in this order
            q = q / wp.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
        data.state.body_q[body] = state.transform(state.vec3(scalar(x[0]), scalar(x[1]), scalar(x[2])), q)
    if (flags & RESET_QD) != 0:
        data.state.body_qd[body] = data.initial.body_qd[body]
    if (flags & RESET_F) != 0:
        data.state.body_f[body] = wp.spatial_vectorf()
    world = data.layout.body_world[b]
    before = wp.max(b - 1, 0)
    if b == 0 or data.layout.body_world[before] != world or data.layout.body_mask[before] != data.layout.body_mask[b]:
        data.outcome.status[world] = 0
        data.outcome.iterations[world] = 0
        data.outcome.line_iterations[world] = 0
        data.outcome.residual[world] = wp.float64(0.0)
        data.outcome.contact_count[world] = 0
        data.outcome.truncated[world] = 0


@kernel
def reset(
    data: wp.array[ResetData],
    mask: Bools,
    masked: int,
    flags: int,
    bodies: int,
    joints: int,
    new_q: wp.array[scalar],
    new_qd: wp.array[scalar],
):
    """Reset pose, twist and force of a body, coordinates and inputs of a joint, by one thread per body and joint.

    Values of the model are copied, not repaired: a world that was reset has the bits of a new one.
    """
    i = wp.tid()
    if i < bodies:
        if is_chosen(data[0].layout.body_mask[i], mask, masked):
            reset_body(data[0], i, flags)
    if i < joints:
        child = data[0].layout.newton_body[data[0].parameters.joint_child[i]]
        if is_chosen(data[0].layout.body_mask[child], mask, masked):
            reset_joint(data[0], i, flags, new_q, new_qd)
            if data[0].has_inputs != 0:
                heal_joint(data[0], i)
    if i < data[0].ctrl.shape[0]:
        world = data[0].actuator_world[i]
        if masked == 0 or (world >= 0 and is_chosen(world, mask, masked)):
            heal(data[0].ctrl, i, wp.float32(0.0))


class SapReset:
    """Resets worlds to what the model's arrays say now; allocates nothing for a state it knows."""

    def __init__(self, solver: SolverSAP):
        """View the model's initial state."""
        self._solver = solver
        self._no_mask = wp.empty(0, dtype=wp.bool, device=solver.model.device)
        self._none = {
            name: wp.empty(0, dtype=types.scalar, device=solver.model.device) for name, types in TYPES.items()
        }
        self._data = StructCache(solver.model.device)

    def reset(
        self,
        state: SapState,
        world_mask: wp.array | None,
        flags: Any,
        control: SapControl | None = None,
        coordinates: tuple[wp.array | None, wp.array | None] = (None, None),
    ) -> None:
        """See `SolverSAP.reset`; ``coordinates`` are joint_q and joint_qd to take instead of the model's.

        They have the length, dtype and order of those of ``state``. Bodies do not follow them.
        """
        solver, model = self._solver, self._solver.model
        _check_mask(world_mask, solver.sizes.world_count, model.device)
        bodies, joints = solver.sizes.body_count, model.joint_count
        ctrl = self._ctrl(control)
        wp.launch(
            reset.of(Variant(state=TYPES[state.precision])),
            dim=max(bodies, joints, 0 if ctrl is None else len(ctrl)),
            inputs=[
                self._argument(state, control, ctrl),
                self._no_mask if world_mask is None else world_mask,
                int(world_mask is not None),
                int(RESET_Q | RESET_QD | RESET_F) if flags is None else check_flags(flags, "newton.StateFlags"),
                bodies,
                joints,
                *(self._none[state.precision] if given is None else given for given in coordinates),
            ],
            device=model.device,
        )

    def _ctrl(self, control: SapControl | None) -> wp.array | None:
        """The model's own inputs of MuJoCo's actuators, which a `SapControl` leaves in force."""
        acts = control is not None and self._solver.has_actuators
        return self._solver.model.mujoco.ctrl if acts else None

    def _argument(self, state: SapState, control: SapControl | None, ctrl: wp.array | None) -> wp.array:
        solver, model = self._solver, self._solver.model
        names = ("joint_q", "joint_qd", "body_q", "body_qd", "body_f")
        arrays = {f"state.{name}": getattr(state, name) for name in names}
        arrays |= {f"initial.{name}": getattr(model, name) for name in names[:4]}
        arrays |= {f"outcome.{name}": array for name, array in solver.outcome.items()}
        if control is not None:
            given = (control.joint_f, control.joint_target_pos, control.joint_target_vel, control.joint_act)
            own = (model.joint_f, model.joint_target_q, model.joint_target_qd, model.joint_act)
            for name, values, initial in zip(INPUTS, given, own, strict=True):
                arrays |= {f"inputs.{name}": values, f"initial_inputs.{name}": initial}
        if ctrl is not None:
            arrays |= {"ctrl": ctrl, "actuator_world": model.mujoco.actuator_world}

        def make() -> Any:
            data: Any = ResetData.of(Variant(state=TYPES[state.precision]))()
            data.layout, data.parameters = solver.layout, solver.boundary.parameters
            data.state.public_velocity = int(state.joint_qd_order == "public")
            data.has_inputs = int(control is not None)
            return data

        return self._data.get(arrays, make, state.joint_qd_order)


def _check_mask(world_mask: wp.array | None, worlds: int, device: Any) -> None:
    if world_mask is None:
        return
    if not isinstance(world_mask, wp.array) or world_mask.dtype is not wp.bool:
        raise TypeError("world_mask must be a Warp array of dtype bool.")
    if world_mask.shape not in ((worlds,), (worlds + 1,)):
        raise ValueError(f"world_mask has shape {world_mask.shape}; expected ({worlds},) or ({worlds + 1},).")
    if world_mask.device != wp.get_device(device):
        raise ValueError(f"world_mask is on '{world_mask.device}'; the model is on '{device}'.")
