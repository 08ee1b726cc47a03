"""Return chosen worlds of a state to the model's initial state, on the device."""

import functools
from typing import Any

import newton
import warp as wp

from ..kernels.launch import solver_kernel
from ..kernels.spatial import make_spatial
from ..kernels.structs import StructCache
from ..kernels.types import FP32, FP64, TYPES, Types
from ..model import SapControl, SapState, check_flags
from .boundary import public_to_sap_velocity
from .kinematics import is_floating, make_com_offset
from .layout import Layout
from .links import JointParameters

RESET_Q = wp.constant(int(newton.StateFlags.JOINT_Q) | int(newton.StateFlags.BODY_Q))
RESET_QD = wp.constant(int(newton.StateFlags.JOINT_QD) | int(newton.StateFlags.BODY_QD))
RESET_F = wp.constant(int(newton.StateFlags.BODY_F))


@functools.cache
def make_reset_data(state: Types):
    """Struct of the model's initial state, of the state that is reset, and of what tells them apart."""

    @wp.struct
    class ResetData:
        layout: Layout
        p: JointParameters
        q_in: wp.array(dtype=wp.float32)
        qd_in: wp.array(dtype=wp.float32)
        body_q_in: wp.array(dtype=wp.transformf)
        body_qd_in: wp.array(dtype=wp.spatial_vectorf)
        public_velocity: int
        joint_q: wp.array(dtype=state.scalar)
        joint_qd: wp.array(dtype=state.scalar)
        body_q: wp.array(dtype=state.transform)
        body_qd: wp.array(dtype=wp.spatial_vectorf)
        body_f: wp.array(dtype=wp.spatial_vectorf)
        status: wp.array(dtype=wp.int32)
        iterations: wp.array(dtype=wp.int32)
        line_iterations: wp.array(dtype=wp.int32)
        residual: wp.array(dtype=wp.float64)
        contact_count: wp.array(dtype=wp.int32)
        truncated: wp.array(dtype=wp.int32)
        # inputs that are to be healed, and the model's own
        has_inputs: int
        joint_f: wp.array(dtype=wp.float32)
        joint_f_in: wp.array(dtype=wp.float32)
        target_q: wp.array(dtype=wp.float32)
        target_q_in: wp.array(dtype=wp.float32)
        target_qd: wp.array(dtype=wp.float32)
        target_qd_in: wp.array(dtype=wp.float32)
        act: wp.array(dtype=wp.float32)
        act_in: wp.array(dtype=wp.float32)
        ctrl: wp.array(dtype=wp.float32)
        actuator_world: wp.array(dtype=wp.int32)

    return ResetData


@functools.cache
def make_reset_kernel(state: Types):
    """One thread per body, joint and actuator: pose, twist and force of the body, coordinates and inputs of the joint.

    Values of the model are copied, not repaired: a world that was reset has the bits of a new one.
    """
    Data = make_reset_data(state)
    scalar = state.scalar
    com_offset = make_com_offset(FP32)
    load3 = make_spatial(FP64).load_vec3

    @wp.func
    def is_chosen(entry: int, mask: wp.array(dtype=wp.bool), masked: int) -> bool:
        if masked == 0:
            return True
        if entry >= mask.shape[0]:  # a mask without an entry for global bodies leaves them alone
            return False
        return mask[entry]

    @wp.func
    def heal(values: wp.array(dtype=wp.float32), i: int, initial: wp.float32):
        """What is not finite returns to the model's value; nothing finite can be made of that either: zero."""
        if not wp.isfinite(values[i]):
            values[i] = wp.where(wp.isfinite(initial), initial, wp.float32(0.0))

    @wp.func
    def heal_joint(d: wp.ref[Data], joint: int):
        for i in range(d.p.joint_q_start[joint], d.p.joint_q_start[joint + 1]):
            heal(d.target_q, i, d.target_q_in[i])
        for i in range(d.p.joint_qd_start[joint], d.p.joint_qd_start[joint + 1]):
            heal(d.joint_f, i, d.joint_f_in[i])
            heal(d.target_qd, i, d.target_qd_in[i])
            heal(d.act, i, d.act_in[i])

    @wp.func
    def reset_joint(
        d: wp.ref[Data],
        joint: int,
        flags: int,
        new_q: wp.array(dtype=state.scalar),
        new_qd: wp.array(dtype=state.scalar),
    ):
        """Coordinates of the model, or those that were given, which are in the order of the state."""
        if (flags & RESET_Q) != 0:
            for i in range(d.p.joint_q_start[joint], d.p.joint_q_start[joint + 1]):
                if new_q.shape[0] > 0:
                    d.joint_q[i] = new_q[i]
                else:
                    d.joint_q[i] = scalar(d.q_in[i])
        if (flags & RESET_QD) != 0:
            iv = d.p.joint_qd_start[joint]
            if new_qd.shape[0] > 0:
                for i in range(iv, d.p.joint_qd_start[joint + 1]):
                    d.joint_qd[i] = new_qd[i]
            elif d.public_velocity == 0 and is_floating(d.p.joint_type[joint]):
                r = com_offset(d.p, joint, d.q_in)
                w, v = public_to_sap_velocity(load3(d.qd_in, iv), load3(d.qd_in, iv + 3), r)
                for i in range(3):
                    d.joint_qd[iv + i] = scalar(w[i])
                    d.joint_qd[iv + 3 + i] = scalar(v[i])
            else:
                for i in range(iv, d.p.joint_qd_start[joint + 1]):
                    d.joint_qd[i] = scalar(d.qd_in[i])

    @wp.func
    def reset_body(d: wp.ref[Data], b: int, flags: int):
        body = d.layout.body_newton[b]
        if (flags & RESET_Q) != 0:
            x = wp.transform_get_translation(d.body_q_in[body])
            r = wp.transform_get_rotation(d.body_q_in[body])
            q = state.quat(scalar(r[0]), scalar(r[1]), scalar(r[2]), scalar(r[3]))
            if wp.static(state is FP64):  # as `SapModel.state` does it, in this order
                q = q / wp.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
            d.body_q[body] = state.transform(state.vec3(scalar(x[0]), scalar(x[1]), scalar(x[2])), q)
        if (flags & RESET_QD) != 0:
            d.body_qd[body] = d.body_qd_in[body]
        if (flags & RESET_F) != 0:
            d.body_f[body] = wp.spatial_vectorf()
        world = d.layout.body_world[b]
        before = wp.max(b - 1, 0)
        if b == 0 or d.layout.body_world[before] != world or d.layout.body_mask[before] != d.layout.body_mask[b]:
            d.status[world] = 0  # by one of its bodies
            d.iterations[world] = 0
            d.line_iterations[world] = 0
            d.residual[world] = wp.float64(0.0)
            d.contact_count[world] = 0
            d.truncated[world] = 0

    @solver_kernel
    def reset(
        data: wp.array(dtype=Data),
        mask: wp.array(dtype=wp.bool),
        masked: int,
        flags: int,
        bodies: int,
        joints: int,
        new_q: wp.array(dtype=state.scalar),
        new_qd: wp.array(dtype=state.scalar),
    ):
        i = wp.tid()
        if i < bodies:
            if is_chosen(data[0].layout.body_mask[i], mask, masked):
                reset_body(data[0], i, flags)
        if i < joints:
            child = data[0].layout.newton_body[data[0].p.joint_child[i]]
            if is_chosen(data[0].layout.body_mask[child], mask, masked):
                reset_joint(data[0], i, flags, new_q, new_qd)
                if data[0].has_inputs != 0:
                    heal_joint(data[0], i)
        if i < data[0].ctrl.shape[0]:
            world = data[0].actuator_world[i]
            if masked == 0 or (world >= 0 and is_chosen(world, mask, masked)):
                heal(data[0].ctrl, i, wp.float32(0.0))

    return reset


class SapReset:
    """Resets worlds to what the model's arrays say now; allocates nothing for a state it knows."""

    def __init__(self, solver: Any):
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
            make_reset_kernel(TYPES[state.precision]),
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
        arrays = {name: getattr(state, name) for name in names} | solver.outcome
        arrays |= {"q_in": model.joint_q, "qd_in": model.joint_qd}
        arrays |= {"body_q_in": model.body_q, "body_qd_in": model.body_qd}
        if control is not None:
            arrays |= {"joint_f": control.joint_f, "joint_f_in": model.joint_f}
            arrays |= {"target_q": control.joint_target_pos, "target_q_in": model.joint_target_q}
            arrays |= {"target_qd": control.joint_target_vel, "target_qd_in": model.joint_target_qd}
            arrays |= {"act": control.joint_act, "act_in": model.joint_act}
        if ctrl is not None:
            arrays |= {"ctrl": ctrl, "actuator_world": model.mujoco.actuator_world}

        def make() -> Any:
            data: Any = make_reset_data(TYPES[state.precision])()
            data.layout, data.p = solver.layout, solver.boundary.parameters
            data.public_velocity = int(state.joint_qd_order == "public")
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
