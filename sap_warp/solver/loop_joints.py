"""Coordinates of joints that close loops: they are no unknowns, and keep what the state says.

The bodies decide where such a joint is; `newton.eval_ik` derives its coordinates from them.
"""

import functools
from typing import Any

import numpy as np
import warp as wp

from ..kernels.launch import solver_kernel
from ..kernels.types import TYPES, Types
from .boundary import make_boundary
from .kinematics import JointParameters
from .layout import Layout
from .topology import tree_joints


@functools.cache
def make_pass_kernel(state: Types):
    """Kernel that hands joint_q and joint_qd of the listed joints on to a state, one thread per joint."""
    scalar = state.scalar
    write_joint_velocity = make_boundary(state).write_joint_velocity

    @wp.func
    def pass_joint(
        layout: wp.ref[Layout],
        p: wp.ref[JointParameters],
        joint: int,
        mask: wp.array(dtype=wp.bool),
        masked: int,
        positions: int,
        velocities: int,
        public_velocity: int,
        q_in: wp.array(dtype=wp.float64),
        v_in: wp.array(dtype=wp.float64),
        joint_q_out: wp.array(dtype=scalar),
        joint_qd_out: wp.array(dtype=scalar),
    ):
        if masked != 0:
            entry = layout.body_mask[layout.newton_body[p.joint_child[joint]]]
            if entry >= mask.shape[0]:
                return
            if not mask[entry]:
                return
        if positions != 0:
            for i in range(p.joint_q_start[joint], p.joint_q_start[joint + 1]):
                joint_q_out[i] = scalar(q_in[i])
        if velocities != 0:
            write_joint_velocity(p, public_velocity, joint, q_in, v_in, joint_qd_out)

    @solver_kernel
    def pass_joints(
        layout: wp.array(dtype=Layout),
        p: wp.array(dtype=JointParameters),
        joints: wp.array(dtype=wp.int32),
        mask: wp.array(dtype=wp.bool),
        masked: int,
        positions: int,
        velocities: int,
        public_velocity: int,
        q_in: wp.array(dtype=wp.float64),
        v_in: wp.array(dtype=wp.float64),
        joint_q_out: wp.array(dtype=scalar),
        joint_qd_out: wp.array(dtype=scalar),
    ):
        joint = joints[wp.tid()]
        pass_joint(
            layout[0],
            p[0],
            joint,
            mask,
            masked,
            positions,
            velocities,
            public_velocity,
            q_in,
            v_in,
            joint_q_out,
            joint_qd_out,
        )

    return pass_joints


class LoopJoints:
    """The joints of a model that close loops. Launches nothing if there are none."""

    def __init__(self, model: Any, layout_argument: wp.array):
        """List them."""
        self._layout, self._device = layout_argument, model.device
        joints = np.flatnonzero(~tree_joints(model.newton_model)).astype(np.int32)
        self.count = len(joints)
        self._joints = wp.array(joints, dtype=wp.int32, device=model.device)
        self._no_mask = wp.empty(0, dtype=wp.bool, device=model.device)

    def hand_on(
        self,
        boundary: Any,
        state: Any,
        mask: wp.array | None = None,
        positions: bool = True,
        velocities: bool = True,
    ) -> None:
        """Copy their coordinates from ``boundary`` to ``state``, where ``mask`` allows it."""
        if self.count:
            wp.launch(
                make_pass_kernel(TYPES[state.precision]),
                dim=self.count,
                inputs=[
                    self._layout,
                    boundary.parameters.array,
                    self._joints,
                    self._no_mask if mask is None else mask,
                    int(mask is not None),
                    int(positions),
                    int(velocities),
                    int(state.joint_qd_order == "public"),
                    boundary.joint_q,
                    boundary.joint_qd,
                ],
                outputs=[state.joint_q, state.joint_qd],
                device=self._device,
            )
