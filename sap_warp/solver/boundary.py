"""Stage 1: between the public order of users and Newton and the sap order of the kernels.

Only free and distance joints differ. With r the vector from the body origin O to the centre of mass C:

    velocity   public [v_C, w]     sap [w, v_O]       v_O = v_C - w x r
    force      public [f, tau_C]   sap [tau_O, f]     tau_O = tau_C + r x f

The force map is the inverse transpose of the velocity map, so both orders give the same power. Components are in
the joint's parent frame F, which is the world frame for every free joint with an unrotated ``joint_X_p`` on the
world; Newton defines public *forces* of floating joints in world axes, so these are rotated into F. External body
wrenches become the residual -[tau_O, f] in world axes. r turns with the body: reading uses the pose at the start of
the step, writing the new one.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from ..kernels.launch import solver_kernel
from ..kernels.structs import StructArgument
from ..kernels.types import FP64, TYPES, Types
from ..model import SapControl, SapState
from .kinematics import JointParameters, make_kinematics
from .parts import Part


@wp.func
def public_to_sap_velocity(linear: Any, angular: Any, r: Any):
    """P_v: [v_C, w] -> (w, v_O)."""
    return angular, linear - wp.cross(angular, r)


@wp.func
def sap_to_public_velocity(angular: Any, linear: Any, r: Any):
    """P_v^-1: [w, v_O] -> (v_C, w)."""
    return linear + wp.cross(angular, r), angular


@wp.func
def public_to_sap_force(force: Any, moment: Any, r: Any):
    """P_f: [f, tau_C] -> (tau_O, f)."""
    return moment + wp.cross(r, force), force


@functools.cache
def make_boundary(state: Types) -> SimpleNamespace:
    """Functions that read and write states of one precision; the solver's own fp64 copies hold both exactly."""
    scalar = state.scalar
    K = make_kinematics(FP64)
    vec3, quat = wp.vec3d, wp.quatd
    is_floating, com_offset_in_F, to_quat = K.is_floating, K.com_offset_in_F, K.to_quat

    @wp.func
    def load3(a: wp.array(dtype=wp.float64), i: int):
        return vec3(a[i], a[i + 1], a[i + 2])

    @wp.func
    def store3(a: wp.array(dtype=wp.float64), i: int, v: vec3):
        a[i] = v[0]
        a[i + 1] = v[1]
        a[i + 2] = v[2]

    @wp.func
    def body_rotation(body_q: wp.array(dtype=state.transform), body: int):
        r = wp.transform_get_rotation(body_q[body])
        return wp.normalize(quat(wp.float64(r[0]), wp.float64(r[1]), wp.float64(r[2]), wp.float64(r[3])))

    @wp.func
    def convert_velocity(
        p: wp.ref[JointParameters],
        joint: int,
        joint_q: wp.array(dtype=wp.float64),
        joint_qd: wp.array(dtype=wp.float64),
    ):
        """Public velocity of one floating joint at positions joint_q to sap order, in place."""
        iv = p.joint_qd_start[joint]
        r = com_offset_in_F(p, joint, p.joint_child[joint], joint_q)
        w, v = public_to_sap_velocity(load3(joint_qd, iv), load3(joint_qd, iv + 3), r)
        store3(joint_qd, iv, w)
        store3(joint_qd, iv + 3, v)

    @wp.func
    def convert_force(
        p: wp.ref[JointParameters],
        joint: int,
        joint_q: wp.array(dtype=wp.float64),
        body_q_in: wp.array(dtype=state.transform),
        joint_f: wp.array(dtype=wp.float64),
    ) -> bool:
        """Public force of one floating joint at positions joint_q to sap order, in place; says whether there is any."""
        iv = p.joint_qd_start[joint]
        public_f = load3(joint_f, iv)
        public_m = load3(joint_f, iv + 3)
        size = wp.float64(0.0)
        for i in range(3):
            size += wp.abs(public_f[i]) + wp.abs(public_m[i])
        if size != wp.float64(0.0):
            r = com_offset_in_F(p, joint, p.joint_child[joint], joint_q)
            r_WF = to_quat(wp.transform_get_rotation(p.joint_X_p[joint]))
            if p.joint_parent[joint] >= 0:
                r_WF = body_rotation(body_q_in, p.joint_parent[joint]) * r_WF
            f = wp.quat_rotate_inv(r_WF, public_f)
            m, f = public_to_sap_force(f, wp.quat_rotate_inv(r_WF, public_m), r)
            store3(joint_f, iv, m)
            store3(joint_f, iv + 3, f)
        return size != wp.float64(0.0)

    @wp.func
    def read_wrench(
        p: wp.ref[JointParameters],
        public_force: int,
        body: int,
        wrench: wp.spatial_vectorf,
        body_q_in: wp.array(dtype=state.transform),
    ) -> wp.spatial_vectord:
        """Residual of the external wrench on one body."""
        a = vec3(wp.float64(wrench[0]), wp.float64(wrench[1]), wp.float64(wrench[2]))
        b = vec3(wp.float64(wrench[3]), wp.float64(wrench[4]), wp.float64(wrench[5]))
        if public_force != 0:
            com = p.body_com[body]
            r_W = wp.quat_rotate(
                body_rotation(body_q_in, body), vec3(wp.float64(com[0]), wp.float64(com[1]), wp.float64(com[2]))
            )
            tau_O, f_W = public_to_sap_force(a, b, r_W)
            a = -tau_O
            b = -f_W
        return wp.spatial_vectord(a[0], a[1], a[2], b[0], b[1], b[2])

    @wp.func
    def write_joint_velocity(
        p: wp.ref[JointParameters],
        public_velocity: int,
        joint: int,
        joint_q_in: wp.array(dtype=wp.float64),
        joint_qd_in: wp.array(dtype=wp.float64),
        joint_qd_out: wp.array(dtype=scalar),
    ):
        """One joint's sap velocity at positions joint_q_in, in the order asked for."""
        iv = p.joint_qd_start[joint]
        if public_velocity != 0 and is_floating(p.joint_type[joint]):
            r = com_offset_in_F(p, joint, p.joint_child[joint], joint_q_in)
            v, w = sap_to_public_velocity(load3(joint_qd_in, iv), load3(joint_qd_in, iv + 3), r)
            for i in range(3):
                joint_qd_out[iv + i] = scalar(v[i])
                joint_qd_out[iv + 3 + i] = scalar(w[i])
        else:
            i_end = p.joint_qd_start[joint + 1]
            i = int(iv)
            while i < i_end:
                joint_qd_out[i] = scalar(joint_qd_in[i])
                i += 1

    @wp.func
    def round_velocity(
        p: wp.ref[JointParameters],
        joint: int,
        joint_q_in: wp.array(dtype=wp.float64),
        joint_qd_in: wp.array(dtype=wp.float64),
        joint_qd_out: wp.array(dtype=wp.float64),
    ):
        """A floating joint's sap velocity at positions joint_q_in, public and rounded as a state holds it."""
        iv = p.joint_qd_start[joint]
        r = com_offset_in_F(p, joint, p.joint_child[joint], joint_q_in)
        v, w = sap_to_public_velocity(load3(joint_qd_in, iv), load3(joint_qd_in, iv + 3), r)
        for i in range(3):
            joint_qd_out[iv + i] = wp.float64(scalar(v[i]))
            joint_qd_out[iv + 3 + i] = wp.float64(scalar(w[i]))

    @solver_kernel
    def write_velocity(
        parameters: wp.array(dtype=JointParameters),
        public_velocity: int,
        joint_q_in: wp.array(dtype=wp.float64),
        joint_qd_in: wp.array(dtype=wp.float64),
        joint_qd_out: wp.array(dtype=scalar),
    ):
        write_joint_velocity(parameters[0], public_velocity, wp.tid(), joint_q_in, joint_qd_in, joint_qd_out)

    return SimpleNamespace(
        convert_velocity=convert_velocity,
        convert_force=convert_force,
        read_wrench=read_wrench,
        write_joint_velocity=write_joint_velocity,
        round_velocity=round_velocity,
        write=write_velocity,
    )


@wp.struct
class Coordinates:
    """A state in sap order, fp64, Newton's joint and body numbering."""

    q: wp.array(dtype=wp.float64)
    v: wp.array(dtype=wp.float64)
    f: wp.array(dtype=wp.float64)
    body_f: wp.array(dtype=wp.spatial_vectord)
    # by world: for which kind of state these are the coordinates of known kinematics, 0 for none
    known: wp.array(dtype=wp.int32)


def make_coordinates(model: Any, worlds: int, forces: bool) -> StructArgument:
    """Allocate the coordinates of ``model``, on request without forces."""
    counts = {"q": model.joint_coord_count, "v": model.joint_dof_count, "known": worlds}
    if forces:
        counts |= {"f": model.joint_dof_count, "body_f": model.body_count}
    coordinates: Any = Coordinates()
    for name, count in counts.items():
        dtype = coordinates._cls.vars[name].type.dtype
        setattr(coordinates, name, wp.zeros(count, dtype=dtype, device=model.device))
    return StructArgument(coordinates, model.device)


class SapBoundary:
    """The solver's own copies of a state and a control in sap order, Newton's joint and body numbering, fp64."""

    def __init__(self, model: Any, passage: Any):
        """Take the buffers that ``passage`` fills."""
        self.model = model
        self.passage = passage
        coordinates = passage.coordinates.struct
        self.joint_q = coordinates.q
        self.joint_qd = coordinates.v
        """Velocities, free and distance joints [w, v_O] in F [rad/s, m/s]."""
        self.joint_f = coordinates.f
        """Generalized forces, free and distance joints [tau_O, f] in F [N m, N]."""
        self.body_f = coordinates.body_f
        """Residual -[tau_O, f] of the external wrenches, world axes [N m, N]."""

    @property
    def parameters(self) -> StructArgument:
        """Newton's joint and body arrays."""
        return self.passage.parameters

    def read(self, state: SapState, control: SapControl, part: Part | None = None, place: bool = True) -> None:
        """Fill the buffers from ``state`` and ``control``, converting what is in public order.

        With ``place`` this also does the forward kinematics of the state, into the data of the free motion.
        """
        self.passage.enter(state, control, part or self.passage.all_worlds, place)

    def write_velocity(self, joint_q: wp.array, joint_qd: wp.array, state: SapState) -> None:
        """Convert sap velocities at positions ``joint_q`` (both fp64) into ``state.joint_qd`` in the state's order."""
        wp.launch(
            make_boundary(TYPES[state.precision]).write,
            dim=self.model.joint_count,
            inputs=[self.parameters.array, int(state.joint_qd_order == "public"), joint_q, joint_qd],
            outputs=[state.joint_qd],
            device=self.model.device,
        )
