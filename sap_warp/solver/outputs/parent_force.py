"""The wrench that each body gets through the joint above it, on request: Newton's BODY_PARENT_F.

Newton and Euler from the leaves to the roots, at the poses and velocities of the start of the step and with the
accelerations that the step gave to the dofs: what moves a subtree and is neither gravity, external force nor contact
comes through its joint. All wrenches of a tree are taken about its reference point o, so that they simply add up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.launch import WorldRange, kernel
from ...core.kernels.spatial import rotation_matrix, to_quat, to_vec3
from ...core.kernels.structs import StructCache, array_struct
from ...core.kernels.template import Constant, device
from ...core.kernels.types import FP64
from ..model.motion_data import MotionStage

if TYPE_CHECKING:
    from ..solver import SolverSAP

rotation_matrixd, to_vec3d, to_quatd = (
    function.on(number=Constant(FP64)) for function in (rotation_matrix, to_vec3, to_quat)
)

ParentForceArrays = array_struct(
    "ParentForceArrays",
    {"gravity": wp.vec3f, "v1": wp.float64, "body_f": wp.spatial_vectord, "contact": wp.spatial_vectorf}
    | {"moment": wp.vec3d, "force": wp.vec3d, "wrench": wp.spatial_vectorf},
)
"""What the kernel reads beside the stage (v1 is the velocity after the step, by Newton's dof), its scratch, and what it
writes."""


@device
def own_wrench(
    stage: wp.ref[MotionStage], arrays: wp.ref[ParentForceArrays], b: int, gravity: wp.vec3d, inv_h: wp.float64
):
    """Return what one body needs from outside, without what is known to act on it: moment about o, and force.

    The third result is its centre of mass relative to o.
    """
    link = stage.links[b]
    R = rotation_matrixd(to_quatd(stage.motion.r[b]))
    p = to_vec3d(stage.motion.p[b])
    c = p + R * to_vec3d(link.com)
    m = wp.float64(link.mass)
    inertia = R * wp.mat33d(link.inertia) * wp.transpose(R)
    Vw = to_vec3d(stage.motion.Vw[b])
    Vv = to_vec3d(stage.motion.Vv[b])
    aw = to_vec3d(stage.motion.aw[b])
    av = to_vec3d(stage.motion.av[b])
    e = stage.layout.body_chain[b]
    while e >= 0:
        qdd = (arrays.v1[stage.layout.dof_newton[e]] - stage.motion.v0[e]) * inv_h
        aw += to_vec3d(stage.motion.Sw[e]) * qdd
        av += to_vec3d(stage.motion.Sv[e]) * qdd
        e = stage.layout.dof_parent[e]
    # of the centre of mass
    v = Vv + wp.cross(Vw, c)
    a = av + wp.cross(aw, c) + wp.cross(Vw, v)
    residual = arrays.body_f[link.body]  # minus the external wrench at the body's origin, moment first
    wrench = arrays.contact[link.body]
    force = m * (a - gravity) + wp.vec3d(residual[3], residual[4], residual[5])
    touch = wp.vec3d(wp.float64(wrench[0]), wp.float64(wrench[1]), wp.float64(wrench[2]))
    moment = inertia * aw + wp.cross(Vw, inertia * Vw) + wp.cross(c, m * (a - gravity))
    moment += wp.vec3d(residual[0], residual[1], residual[2])
    moment += wp.cross(p, wp.vec3d(residual[3], residual[4], residual[5]))
    moment -= wp.vec3d(wp.float64(wrench[3]), wp.float64(wrench[4]), wp.float64(wrench[5])) + wp.cross(c, touch)
    return moment, force - touch, c


@kernel
def parent_forces(
    first_world: int, stage_in: wp.array[MotionStage], arrays_in: wp.array[ParentForceArrays], dt: wp.float64
):
    """Write the wrench of each body, one block per world, in fp64 whatever the precisions of free motion are."""
    world = first_world + wp.tid() // lane_count()
    stage = stage_in[0]
    arrays = arrays_in[0]
    g = to_vec3d(arrays.gravity[stage.layout.world_gravity[world]])
    levels = stage.layout.world_level[world + 1] - stage.layout.world_level[world]
    for up in range(levels):
        level = stage.layout.world_level[world + 1] - 1 - up
        for i in range(stage.layout.level_start[level] + lane(), stage.layout.level_start[level + 1], lane_count()):
            b = stage.layout.level_body[i]
            n, f, c = own_wrench(stage, arrays, b, g, wp.float64(1.0) / dt)
            child = stage.layout.body_child[b]
            while child >= 0:
                n += arrays.moment[child]
                f += arrays.force[child]
                child = stage.layout.body_sibling[child]
            arrays.moment[b] = n
            arrays.force[b] = f
            n -= wp.cross(c, f)  # about the centre of mass
            arrays.wrench[stage.links[b].body] = wp.spatial_vectorf(
                wp.float32(f[0]),
                wp.float32(f[1]),
                wp.float32(f[2]),
                wp.float32(n[0]),
                wp.float32(n[1]),
                wp.float32(n[2]),
            )
        barrier()


class ParentForce:
    """Computes the wrenches; the buffers are made when they are first asked for."""

    def __init__(self, solver: SolverSAP):
        """Nothing is allocated yet."""
        self._solver = solver
        self._buffers: list[wp.array] = []
        self._nothing: wp.array | None = None
        self._arrays = StructCache(solver.model.device)

    def compute(self, out: wp.array, contact: wp.array | None, dt: float, worlds: WorldRange) -> None:
        """Fill ``out`` by Newton's body: force [N] and moment [N m] about the centre of mass, world axes.

        Args:
            out: What to fill.
            contact: Net contact wrench on each body, as `ContactForces.body_wrench`; None is none.
            dt: Of the last step [s].
            worlds: Which worlds.
        """
        solver = self._solver
        model, motion = solver.sap_model, solver.free_motion
        device = model.device
        if not self._buffers:
            self._buffers = [wp.zeros(solver.sizes.body_count, dtype=wp.vec3d, device=device) for _ in range(2)]
            self._nothing = wp.zeros(model.body_count, dtype=wp.spatial_vectorf, device=device)
        v1 = solver.contact_solve.data.velocity
        found = self._nothing if contact is None else contact
        moment, force = self._buffers
        arrays = {"gravity": model.gravity, "v1": v1, "body_f": solver.boundary.body_f, "contact": found}
        arrays |= {"moment": moment, "force": force, "wrench": out}
        argument = self._arrays.get(arrays, ParentForceArrays)
        worlds.launch(parent_forces.of(motion.variant), motion.stage, argument, dt, device=device)
