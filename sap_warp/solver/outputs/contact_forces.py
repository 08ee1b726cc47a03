"""Contact forces of the last step, on request: per contact, per body, and as Newton's CONTACT_F observable.

The impulse of a row follows from its relative velocity at the end of the solve, so nothing needs to be recorded during
the step; asking for forces costs one launch.
"""

import functools
from dataclasses import dataclass, fields
from typing import Any

import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.launch import WorldRange, solver_kernel
from ...core.kernels.spatial import make_spatial
from ...core.kernels.structs import StructCache
from ...core.kernels.types import FP32
from ..objective.contacts import make_row_projections
from ..objective.problem import Precisions, make_problem


@dataclass(frozen=True)
class ContactForces:
    """Forces of the last step. Entries of contacts that took no part are zero."""

    force: wp.array
    """Force on shape 1 by shape 0 [N], world axes, aligned with the contact buffer, vec3."""
    impulse: wp.array
    """The same times the time step [N s]."""
    spatial_force: wp.array
    """Force [N] on the body of shape 0 by that of shape 1 and its moment [N m] about that body's centre of mass, or
    about the world origin for a shape without a body; world axes. This is Newton's CONTACT_F."""
    body_wrench: wp.array
    """Net contact force [N] on each moving body and its moment [N m] about the centre of mass, world axes, by Newton's
    body index."""


@wp.struct
class ForceArrays:
    """What the kernel reads beside the problem, and what it writes."""

    body_com: wp.array(dtype=wp.vec3f)
    shape0: wp.array(dtype=wp.int32)  # of the contact buffer
    shape_body: wp.array(dtype=wp.int32)
    force: wp.array(dtype=wp.vec3f)
    impulse: wp.array(dtype=wp.vec3f)
    spatial_force: wp.array(dtype=wp.spatial_vectorf)
    body_wrench: wp.array(dtype=wp.spatial_vectorf)


@functools.cache
def make_contact_force_kernel(precisions: Precisions):
    """The kernel: one block per world."""
    types, pose = precisions.types, precisions.pose
    Problem, Data = make_problem(precisions)
    project_row = make_row_projections(precisions).project_row
    scalar, vec3, F = types.scalar, types.vec3, wp.float64
    to_vec3, to_vec3f, to_pose = (make_spatial(t).to_vec3 for t in (types, FP32, pose))

    @wp.func
    def centre_of_mass(problem: wp.ref[Problem], out: wp.ref[ForceArrays], b: int) -> vec3:
        """Relative to the reference point of the body's tree."""
        com = out.body_com[problem.layout.body_newton[b]]
        return to_vec3(problem.motion.p[b] + wp.quat_rotate(problem.motion.r[b], to_pose(com)))

    @wp.func
    def to_spatial(f: vec3, m: vec3) -> wp.spatial_vectorf:
        a = to_vec3f(f)
        b = to_vec3f(m)
        return wp.spatial_vectorf(a[0], a[1], a[2], b[0], b[1], b[2])

    @wp.func
    def row_force(problem: wp.ref[Problem], data: wp.ref[Data], row: int) -> vec3:
        return project_row(problem, row, data.vc[row]).gamma / problem.h

    @wp.func
    def store_contact(problem: wp.ref[Problem], data: wp.ref[Data], out: wp.ref[ForceArrays], row: int):
        i = problem.contacts.source[row]
        f = row_force(problem, data, row)
        out.force[i] = to_vec3f(f)
        out.impulse[i] = to_vec3f(f * problem.h)
        # an immobile side is measured about its partner's reference point
        moving = problem.contacts.body_a[row]
        if moving < 0:
            moving = problem.contacts.body_b[row]
        o = problem.motion.origin[problem.layout.body_root[moving]]
        shape = out.shape0[i]
        body = int(-1)
        if shape >= 0:
            body = out.shape_body[shape]
        pivot = -to_vec3(o)  # the world origin
        if body >= 0:
            b = problem.layout.newton_body[body]
            pivot = centre_of_mass(problem, out, b) + to_vec3(problem.motion.origin[problem.layout.body_root[b]] - o)
        out.spatial_force[i] = to_spatial(-f, -wp.cross(problem.contacts.r_a[row] - pivot, f))

    @wp.func
    def store_body(problem: wp.ref[Problem], data: wp.ref[Data], out: wp.ref[ForceArrays], b: int):
        com = centre_of_mass(problem, out, b)
        force = vec3()
        moment = vec3()
        for k in range(problem.contacts.body_start[b], problem.contacts.body_start[b] + problem.contacts.body_count[b]):
            row = problem.contacts.body_row[k] // 2
            if problem.contacts.source[row] >= 0:  # distance joints are no contacts
                f = row_force(problem, data, row)
                arm = problem.contacts.r_b[row]
                if problem.contacts.body_row[k] % 2 == 0:
                    f = -f
                    arm = problem.contacts.r_a[row]
                force += f
                moment += wp.cross(arm - com, f)
        out.body_wrench[problem.layout.body_newton[b]] = to_spatial(force, moment)

    @solver_kernel
    def contact_forces(
        first_world: int, problem: wp.array[Problem], data: wp.array[Data], arrays: wp.array[ForceArrays], dt: F
    ):
        world = first_world + wp.tid() // lane_count()
        p = problem[0]
        s = data[0]
        out = arrays[0]
        p.h = scalar(dt)
        base = world * p.contacts.capacity
        for row in range(base + lane(), base + p.contacts.count[world], lane_count()):
            if p.contacts.source[row] >= 0:
                store_contact(p, s, out, row)
        for b in range(p.layout.world_body[world] + lane(), p.layout.world_body[world + 1], lane_count()):
            store_body(p, s, out, b)

    return contact_forces


class SapContactForces:
    """Computes `ContactForces`; the buffers are made when forces are first asked for."""

    def __init__(self, model: Any, contact_solve: Any):
        """Nothing is allocated yet."""
        self._model, self._solve = model, contact_solve
        self._forces: ContactForces | None = None
        self._arrays = StructCache(model.device)

    def compute(self, contacts: Any, dt: float, worlds: WorldRange) -> ContactForces:
        """Forces of the last step, which used ``contacts`` and ``dt``."""
        model = self._model
        count = contacts.rigid_contact_shape0.shape[0]
        sizes = {"force": count, "impulse": count, "spatial_force": count + contacts.soft_contact_max}
        if self._forces is None or self._forces.force.shape[0] != count:
            struct: Any = ForceArrays()
            names = [field.name for field in fields(ContactForces)]
            dtypes = {name: struct._cls.vars[name].type.dtype for name in names}
            sizes["body_wrench"] = model.body_count
            made = {name: wp.zeros(sizes[name], dtype=dtypes[name], device=model.device) for name in names}
            self._forces = ContactForces(**made)
        forces = self._forces
        for array in (forces.force, forces.impulse, forces.spatial_force):
            array.zero_()
        arrays = {field.name: getattr(forces, field.name) for field in fields(forces)}
        arrays |= {"body_com": model.body_com, "shape_body": model.shape_body}
        argument = self._arrays.get(arrays | {"shape0": contacts.rigid_contact_shape0}, ForceArrays)
        kernel = make_contact_force_kernel(self._solve.precisions)
        worlds.launch(kernel, *self._solve.arguments, argument, dt, device=model.device)
        return forces
