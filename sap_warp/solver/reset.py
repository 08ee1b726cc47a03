"""Return chosen worlds of a state to the model's initial state, on the device."""

import functools
from typing import Any

import newton
import warp as wp

from ..model import SapState
from ..precision import TYPES, Types
from .kernel import solver_kernel
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
        q_in: wp.array(dtype=wp.float64),
        v_in: wp.array(dtype=wp.float64),
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
            if not mask[world]:
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
                joint_qd[i] = scalar(v_in[i])
            body_qd[body] = twist_in[body]
        if (flags & RESET_F) != 0:
            body_f[body] = wp.spatial_vectorf()
        status[world] = 0

    return reset


def reset_worlds(solver: Any, state: SapState, world_mask: wp.array | None, flags: Any) -> None:
    """See `SolverSAP.reset`."""
    model = solver.model
    worlds = solver.sizes.world_count
    if world_mask is not None:
        if not isinstance(world_mask, wp.array) or world_mask.dtype is not wp.bool:
            raise TypeError("world_mask must be a Warp array of dtype bool.")
        if world_mask.shape not in ((worlds,), (worlds + 1,)):
            raise ValueError(f"world_mask has shape {world_mask.shape}; expected ({worlds},) or ({worlds + 1},).")
        if world_mask.device != model.device:
            raise ValueError(f"world_mask is on '{world_mask.device}'; the model is on '{model.device}'.")
    everything = RESET_Q | RESET_QD | RESET_F
    initial = solver.sap_model.state("fp64")
    # the initial velocity in the order of the state that is reset
    velocity = initial.joint_qd
    if state.joint_qd_order == "sap":
        solver.boundary.read(initial, solver.sap_model.control())
        velocity = wp.clone(solver.boundary.joint_qd)
    wp.launch(
        make_reset_kernel(TYPES[state.precision]),
        dim=solver.sizes.body_count,
        inputs=[
            solver.layout,
            solver.boundary.parameters.struct,
            world_mask if world_mask is not None else wp.empty(0, dtype=wp.bool, device=model.device),
            int(world_mask is not None),
            int(everything if flags is None else flags),
            initial.joint_q,
            velocity,
            model.body_q,
            model.body_qd,
        ],
        outputs=[state.joint_q, state.joint_qd, state.body_q, state.body_qd, state.body_f, solver._status],
        device=model.device,
    )
