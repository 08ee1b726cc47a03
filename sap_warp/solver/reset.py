"""Return chosen worlds of a state to the model's initial state, on the device."""

import functools
from typing import Any

import newton
import warp as wp

from ..kernels.launch import solver_kernel
from ..kernels.types import TYPES, Types
from ..model import SapState
from .kinematics import JointParameters
from .layout import Layout

RESET_Q = wp.constant(int(newton.StateFlags.JOINT_Q) | int(newton.StateFlags.BODY_Q))
RESET_QD = wp.constant(int(newton.StateFlags.JOINT_QD) | int(newton.StateFlags.BODY_QD))
RESET_F = wp.constant(int(newton.StateFlags.BODY_F))


@functools.cache
def make_reset_kernel(state: Types):
    """One thread per body: its pose, twist and force, and its joint's coordinates."""
    scalar = state.scalar

    @solver_kernel
    def reset(
        layout: Layout,
        p: JointParameters,
        mask: wp.array(dtype=wp.bool),
        masked: int,
        flags: int,
        q_in: wp.array(dtype=wp.float32),
        public_v_in: wp.array(dtype=wp.float32),
        sap_v_in: wp.array(dtype=wp.float64),
        public_velocity: int,
        pose_in: wp.array(dtype=wp.transformf),
        twist_in: wp.array(dtype=wp.spatial_vectorf),
        joint_q: wp.array(dtype=scalar),
        joint_qd: wp.array(dtype=scalar),
        body_q: wp.array(dtype=state.transform),
        body_qd: wp.array(dtype=wp.spatial_vectorf),
        body_f: wp.array(dtype=wp.spatial_vectorf),
        status: wp.array(dtype=wp.int32),
    ):
        b = wp.tid()
        world = layout.body_world[b]
        if masked != 0:
            entry = layout.body_mask[b]
            if entry >= mask.shape[0]:  # a mask without an entry for global bodies leaves them alone
                return
            if not mask[entry]:
                return
        joint = layout.body_joint[b]
        body = layout.body_newton[b]
        if (flags & RESET_Q) != 0:
            for i in range(p.joint_q_start[joint], p.joint_q_start[joint + 1]):
                joint_q[i] = scalar(q_in[i])
            x = wp.transform_get_translation(pose_in[body])
            r = wp.transform_get_rotation(pose_in[body])
            body_q[body] = state.transform(
                state.vec3(scalar(x[0]), scalar(x[1]), scalar(x[2])),
                wp.normalize(state.quat(scalar(r[0]), scalar(r[1]), scalar(r[2]), scalar(r[3]))),
            )
        if (flags & RESET_QD) != 0:
            for i in range(p.joint_qd_start[joint], p.joint_qd_start[joint + 1]):
                joint_qd[i] = scalar(sap_v_in[i])
                if public_velocity != 0:
                    joint_qd[i] = scalar(public_v_in[i])
            body_qd[body] = twist_in[body]
        if (flags & RESET_F) != 0:
            body_f[body] = wp.spatial_vectorf()
        status[world] = 0

    return reset


class SapReset:
    """Resets worlds to what the model's arrays say now; allocates nothing after construction, so it can be captured."""

    def __init__(self, solver: Any):
        """View the model's initial state."""
        self._solver = solver
        model = solver.model
        self._initial = SapState(
            joint_q=model.joint_q,
            joint_qd=model.joint_qd,
            body_q=model.body_q,
            body_qd=model.body_qd,
            body_f=wp.zeros_like(model.body_qd, requires_grad=False),
            joint_qd_order="public",
            body_f_order="public",
        )
        self._no_mask = wp.empty(0, dtype=wp.bool, device=model.device)

    def reset(self, state: SapState, world_mask: wp.array | None, flags: Any) -> None:
        """See `SolverSAP.reset`."""
        solver, model = self._solver, self._solver.model
        _check_mask(world_mask, solver.sizes.world_count, model.device)
        # the boundary's buffers are free between steps; they receive the initial velocity in sap order
        solver.boundary.read(self._initial, solver.model_control, place=False)
        wp.launch(
            make_reset_kernel(TYPES[state.precision]),
            dim=solver.sizes.body_count,
            inputs=[
                solver.layout,
                solver.boundary.parameters.struct,
                self._no_mask if world_mask is None else world_mask,
                int(world_mask is not None),
                int(RESET_Q | RESET_QD | RESET_F if flags is None else flags),
                model.joint_q,
                model.joint_qd,
                solver.boundary.joint_qd,
                int(state.joint_qd_order == "public"),
                model.body_q,
                model.body_qd,
            ],
            outputs=[state.joint_q, state.joint_qd, state.body_q, state.body_qd, state.body_f, solver.world_status],
            device=model.device,
        )
        chosen = int(RESET_Q | RESET_QD | RESET_F if flags is None else flags)
        solver.loop_joints.hand_on(
            solver.boundary, state, world_mask, bool(chosen & int(RESET_Q)), bool(chosen & int(RESET_QD))
        )


def _check_mask(world_mask: wp.array | None, worlds: int, device: Any) -> None:
    if world_mask is None:
        return
    if not isinstance(world_mask, wp.array) or world_mask.dtype is not wp.bool:
        raise TypeError("world_mask must be a Warp array of dtype bool.")
    if world_mask.shape not in ((worlds,), (worlds + 1,)):
        raise ValueError(f"world_mask has shape {world_mask.shape}; expected ({worlds},) or ({worlds + 1},).")
    if world_mask.device != wp.get_device(device):
        raise ValueError(f"world_mask is on '{world_mask.device}'; the model is on '{device}'.")
