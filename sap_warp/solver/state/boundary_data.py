"""Structs at both ends of a step: the caller's state, the solver's copy of it, and where its bodies are placed."""

import functools

import warp as wp

from ...core.kernels.scratch import Slot
from ...core.kernels.types import Types
from ..model.layout import Layout
from ..model.links import JointParameters, make_link
from ..model.motion_data import make_motion_data


@wp.struct
class Coordinates:
    """A state in sap order, fp64, Newton's joint and body numbering."""

    q: wp.array(dtype=wp.float64)
    v: wp.array(dtype=wp.float64)  # free and distance joints [w, v_O] in F [rad/s, m/s]
    f: wp.array(dtype=wp.float64)  # generalized forces, free and distance joints [tau_O, f] in F [N m, N]
    body_f: wp.array(dtype=wp.spatial_vectord)  # residual -[tau_O, f] of the external wrenches, world axes [N m, N]


@wp.struct
class CarriedMotion:
    """Pose of one carried body at the start of a step and its motion in the world; see `floating_children`."""

    x: wp.vec3d  # origin [m]
    r: wp.quatd  # R_WB
    w_mean: wp.vec3d  # angular velocity that turns it during the step [rad/s]
    v_mean: wp.vec3d  # velocity of its origin likewise [m/s]
    w: wp.vec3d  # both after the step, at the pose of its start
    v: wp.vec3d


@functools.cache
def make_state_arrays(state: Types):
    """Struct of a state and a control as the caller has them."""

    @wp.struct
    class StateArrays:
        joint_q: wp.array(dtype=state.scalar)
        joint_qd: wp.array(dtype=state.scalar)
        body_q: wp.array(dtype=state.transform)
        body_qd: wp.array(dtype=wp.spatial_vectorf)
        body_f: wp.array(dtype=wp.spatial_vectorf)
        joint_f: wp.array(dtype=wp.float32)
        public_velocity: int  # whether they are in public order
        public_joint_force: int
        public_body_force: int

    return StateArrays


@functools.cache
def make_boundary_data(pose: Types, types: Types):
    """Struct of the solver's side: where a state is read to, and where its bodies are placed."""
    Data, Link = make_motion_data(pose, types), make_link(pose)

    @wp.struct
    class BoundaryData:
        layout: Layout
        joints: JointParameters
        links: wp.array(dtype=Link)
        axis: wp.array(dtype=pose.vec3)
        c: Coordinates
        d: Data
        carried: wp.array(dtype=CarriedMotion)  # by carried body
        slot: Slot  # of the kinematics of d, if worlds share them
        integration: int
        status: wp.array(dtype=wp.int32)  # outcome of the solve, by world
        v_new: wp.array(dtype=wp.float64)  # what it found, Newton's dofs, sap order
        watched: wp.array(dtype=wp.int32)  # to be 0 for a world whose state is not the one that the last step left
        time: wp.array(dtype=wp.float64)
        frame: wp.array(dtype=wp.int64)

    return BoundaryData
