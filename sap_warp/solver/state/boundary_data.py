"""Structs at both ends of a step: the caller's state, the solver's copy of it, and where its bodies are placed."""

from __future__ import annotations

import warp as wp

from ...core.kernels.scratch import ScratchShare
from ...core.kernels.template import device_struct
from ..model.layout import Layout
from ..model.links import JointParameters, PoseLink
from ..model.motion_data import MotionData
from ..settings.precisions import pose, state


@wp.struct
class Coordinates:
    """A state in sap order, fp64, Newton's joint and body numbering."""

    q: wp.array(dtype=wp.float64)
    v: wp.array(dtype=wp.float64)  # free and distance joints [w, v_O] in F [rad/s, m/s]
    f: wp.array(dtype=wp.float64)  # generalized forces, free and distance joints [tau_O, f] in F [N m, N]
    body_f: wp.array(dtype=wp.spatial_vectord)  # residual -[tau_O, f] of the external wrenches, world axes [N m, N]


@wp.struct
class FloatingChildMotion:
    """Pose of a floating child at the start of a step, and its motion in the world; see `floating_children`."""

    x: wp.vec3d  # origin [m]
    r: wp.quatd  # R_WB
    w_mean: wp.vec3d  # angular velocity that turns it during the step [rad/s]
    v_mean: wp.vec3d  # velocity that moves its origin during the step [m/s]
    w: wp.vec3d  # both after the step, at the pose of its start
    v: wp.vec3d


@device_struct
class StateArrays:
    """A state and a control as the caller has them."""

    joint_q: wp.array(dtype=state.scalar)
    joint_qd: wp.array(dtype=state.scalar)
    body_q: wp.array(dtype=state.transform)
    body_qd: wp.array(dtype=wp.spatial_vectorf)
    body_f: wp.array(dtype=wp.spatial_vectorf)
    joint_f: wp.array(dtype=wp.float32)
    public_velocity: int  # 1 if joint_qd is in public order, 0 if in sap order
    public_joint_force: int
    public_body_force: int


@device_struct
class BoundaryData:
    """The solver's side: where a state is read to, and where its bodies are placed."""

    layout: Layout
    joints: JointParameters
    links: wp.array(dtype=PoseLink)
    axis: wp.array(dtype=pose.vec3)
    coordinates: Coordinates
    motion: MotionData
    floating_children: wp.array(dtype=FloatingChildMotion)
    share: ScratchShare  # of the kinematics in motion, if worlds share them
    integration: int
    status: wp.array(dtype=wp.int32)  # outcome of the solve, by world
    v_new: wp.array(dtype=wp.float64)  # what it found, Newton's dofs, sap order
    energy_watch: wp.array(dtype=wp.int32)  # set to 0 for a world whose state is not the one that the last step left
    time: wp.array(dtype=wp.float64)
    frame: wp.array(dtype=wp.int64)
