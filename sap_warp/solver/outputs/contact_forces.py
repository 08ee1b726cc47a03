"""Contact forces of the last step, on request: per contact, per body, and as Newton's CONTACT_F observable.

The impulse of a contact follows from its relative velocity at the end of the solve, so nothing needs to be recorded
during the step; asking for forces costs one launch.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import newton
import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.launch import WorldRange, kernel
from ...core.kernels.spatial import to_vec3
from ...core.kernels.structs import StructCache
from ...core.kernels.template import Constant, device
from ...core.kernels.types import FP32
from ...model.model import SapModel
from ..objective.contacts import project_contact
from ..objective.problem import Data, Problem
from ..settings.precisions import pose, solve

if TYPE_CHECKING:
    from ..minimize.solve import SapContactSolve

scalar, vec3 = solve.scalar, solve.vec3
to_solve, to_vec3f, to_pose = (to_vec3.on(number=types) for types in (solve, Constant(FP32), pose))


@dataclass(frozen=True)
class ContactForces:
    """Forces of the last step. Entries of contacts that took no part are zero."""

    force: wp.array
    """Force on shape 1 by shape 0 [N], world axes, aligned with the contact buffer, vec3."""
    impulse: wp.array
    """`force` times the time step [N s]."""
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


@device
def centre_of_mass(problem: wp.ref[Problem], out: wp.ref[ForceArrays], b: int) -> vec3:
    """Return the centre of mass of body b relative to the reference point of its tree."""
    com = out.body_com[problem.layout.body_newton[b]]
    return to_solve(problem.motion.p[b] + wp.quat_rotate(problem.motion.r[b], to_pose(com)))


@device
def to_spatial(force: vec3, moment: vec3) -> wp.spatial_vectorf:
    """Return a wrench in Newton's order, in fp32."""
    f = to_vec3f(force)
    m = to_vec3f(moment)
    return wp.spatial_vectorf(f[0], f[1], f[2], m[0], m[1], m[2])


@device
def contact_force(problem: wp.ref[Problem], data: wp.ref[Data], row: int) -> vec3:
    """Return the force of one contact on its second body."""
    return project_contact(problem, row, data.vc[row]).gamma / problem.h


@device
def store_contact(problem: wp.ref[Problem], data: wp.ref[Data], out: wp.ref[ForceArrays], row: int):
    """Write force, impulse and CONTACT_F of one contact."""
    i = problem.contacts.source[row]
    f = contact_force(problem, data, row)
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
    pivot = -to_solve(o)  # the world origin
    if body >= 0:
        b = problem.layout.newton_body[body]
        pivot = centre_of_mass(problem, out, b) + to_solve(problem.motion.origin[problem.layout.body_root[b]] - o)
    out.spatial_force[i] = to_spatial(-f, -wp.cross(problem.contacts.r_a[row] - pivot, f))


@device
def store_body(problem: wp.ref[Problem], data: wp.ref[Data], out: wp.ref[ForceArrays], b: int):
    """Write the net contact wrench of one body."""
    com = centre_of_mass(problem, out, b)
    force = vec3()
    moment = vec3()
    for k in range(problem.contacts.body_start[b], problem.contacts.body_start[b] + problem.contacts.body_count[b]):
        row = problem.contacts.body_row[k] // 2
        if problem.contacts.source[row] >= 0:  # distance joints are no contacts
            f = contact_force(problem, data, row)
            arm = problem.contacts.r_b[row]
            if problem.contacts.body_row[k] % 2 == 0:
                f = -f
                arm = problem.contacts.r_a[row]
            force += f
            moment += wp.cross(arm - com, f)
    out.body_wrench[problem.layout.body_newton[b]] = to_spatial(force, moment)


@kernel
def contact_forces(
    first_world: int,
    problem_in: wp.array[Problem],
    data_in: wp.array[Data],
    arrays: wp.array[ForceArrays],
    dt: wp.float64,
):
    """Write the forces of all contacts and the wrenches of all bodies, one block per world."""
    world = first_world + wp.tid() // lane_count()
    problem = problem_in[0]
    data = data_in[0]
    out = arrays[0]
    problem.h = scalar(dt)
    base = world * problem.contacts.capacity
    for row in range(base + lane(), base + problem.contacts.count[world], lane_count()):
        if problem.contacts.source[row] >= 0:
            store_contact(problem, data, out, row)
    for b in range(problem.layout.world_body[world] + lane(), problem.layout.world_body[world + 1], lane_count()):
        store_body(problem, data, out, b)


class SapContactForces:
    """Computes `ContactForces`; the buffers are made when forces are first asked for."""

    def __init__(self, model: SapModel, contact_solve: SapContactSolve):
        """Nothing is allocated yet."""
        self._model, self._solve = model, contact_solve
        self._forces: ContactForces | None = None
        self._arrays = StructCache(model.device)

    def compute(self, contacts: newton.Contacts, dt: float, worlds: WorldRange) -> ContactForces:
        """Return the forces of the last step, which used ``contacts`` and ``dt``."""
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
        launched = contact_forces.of(self._solve.variant)
        worlds.launch(launched, *self._solve.arguments, argument, dt, device=model.device)
        return forces
