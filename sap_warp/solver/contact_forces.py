"""Contact forces of the last step, on request: per contact, per body, and as Newton's CONTACT_F observable.

The impulse of a row follows from its relative velocity at the end of the solve, so nothing needs to be recorded during
the step; asking for forces costs one launch.
"""

import functools
from dataclasses import dataclass
from typing import Any

import warp as wp

from ..kernels.lanes import barrier, lane
from ..kernels.launch import solver_kernel
from ..kernels.types import Types
from .contact_data import make_contact_data
from .free_motion import make_free_motion_data
from .layout import Layout
from .terms.contact import make_contact_term


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


@functools.cache
def make_contact_force_kernel(pose: Types, dynamics: Types, types: Types):
    """The kernel: one block per world."""
    FreeMotion = make_free_motion_data(pose, dynamics)
    Contacts = make_contact_data(types)
    project = make_contact_term(types).project
    scalar, vec3 = types.scalar, types.vec3

    @wp.func
    def centre_of_mass(
        layout: wp.ref[Layout], d: wp.ref[FreeMotion], body_com: wp.array(dtype=wp.vec3f), b: int
    ) -> vec3:
        """Relative to the reference point of the body's tree."""
        com = body_com[layout.body_newton[b]]
        r = wp.quat_rotate(d.r[b], pose.vec3(pose.scalar(com[0]), pose.scalar(com[1]), pose.scalar(com[2])))
        p = d.p[b] + r
        return vec3(scalar(p[0]), scalar(p[1]), scalar(p[2]))

    @wp.func
    def to_spatial(f: vec3, m: vec3) -> wp.spatial_vectorf:
        result = wp.spatial_vectorf()
        for i in range(3):
            result[i] = wp.float32(f[i])
            result[i + 3] = wp.float32(m[i])
        return result

    @wp.func
    def row_force(c: wp.ref[Contacts], row: int, inv_dt: scalar) -> vec3:
        r = project(c.vc[row], c.normal[row], c.vhat[row], c.mu[row], c.Rt[row], c.Rn[row])
        return r.gamma * inv_dt

    @wp.func
    def store_contact(
        layout: wp.ref[Layout],
        d: wp.ref[FreeMotion],
        c: wp.ref[Contacts],
        body_com: wp.array(dtype=wp.vec3f),
        shape0: wp.array(dtype=wp.int32),
        shape_body: wp.array(dtype=wp.int32),
        row: int,
        dt: scalar,
        force_out: wp.array(dtype=wp.vec3f),
        impulse_out: wp.array(dtype=wp.vec3f),
        spatial_out: wp.array(dtype=wp.spatial_vectorf),
    ):
        i = c.source[row]
        f = row_force(c, row, scalar(1.0) / dt)
        force_out[i] = wp.vec3f(wp.float32(f[0]), wp.float32(f[1]), wp.float32(f[2]))
        impulse_out[i] = wp.vec3f(wp.float32(f[0] * dt), wp.float32(f[1] * dt), wp.float32(f[2] * dt))
        # an immobile side is measured about its partner's reference point
        moving = c.body_a[row]
        if moving < 0:
            moving = c.body_b[row]
        o = d.origin[layout.body_root[moving]]
        shape = shape0[i]
        body = int(-1)
        if shape >= 0:
            body = shape_body[shape]
        pivot = -vec3(scalar(o[0]), scalar(o[1]), scalar(o[2]))  # the world origin
        if body >= 0:
            b = layout.newton_body[body]
            shift = d.origin[layout.body_root[b]] - o
            pivot = centre_of_mass(layout, d, body_com, b) + vec3(scalar(shift[0]), scalar(shift[1]), scalar(shift[2]))
        spatial_out[i] = to_spatial(-f, -wp.cross(c.r_a[row] - pivot, f))

    @wp.func
    def store_body(
        layout: wp.ref[Layout],
        d: wp.ref[FreeMotion],
        c: wp.ref[Contacts],
        body_com: wp.array(dtype=wp.vec3f),
        b: int,
        inv_dt: scalar,
        wrench_out: wp.array(dtype=wp.spatial_vectorf),
    ):
        com = centre_of_mass(layout, d, body_com, b)
        force = vec3()
        moment = vec3()
        for k in range(c.body_start[b], c.body_start[b] + c.body_count[b]):
            row = c.body_row[k] // 2
            if c.source[row] >= 0:  # distance joints are no contacts
                f = row_force(c, row, inv_dt)
                arm = c.r_b[row]
                if c.body_row[k] % 2 == 0:
                    f = -f
                    arm = c.r_a[row]
                force += f
                moment += wp.cross(arm - com, f)
        wrench_out[layout.body_newton[b]] = to_spatial(force, moment)

    @solver_kernel
    def contact_forces(
        layout: wp.array(dtype=Layout),
        d: wp.array(dtype=FreeMotion),
        c: wp.array(dtype=Contacts),
        body_com: wp.array(dtype=wp.vec3f),
        shape0: wp.array(dtype=wp.int32),
        shape_body: wp.array(dtype=wp.int32),
        dt: wp.float64,
        force_out: wp.array(dtype=wp.vec3f),
        impulse_out: wp.array(dtype=wp.vec3f),
        spatial_out: wp.array(dtype=wp.spatial_vectorf),
        wrench_out: wp.array(dtype=wp.spatial_vectorf),
    ):
        world = wp.tid() // wp.block_dim()
        h = scalar(dt)
        base = world * c[0].capacity
        for row in range(base + lane(), base + c[0].count[world], wp.block_dim()):
            if c[0].source[row] >= 0:
                store_contact(
                    layout[0],
                    d[0],
                    c[0],
                    body_com,
                    shape0,
                    shape_body,
                    row,
                    h,
                    force_out,
                    impulse_out,
                    spatial_out,
                )
        for b in range(layout[0].world_body[world] + lane(), layout[0].world_body[world + 1], wp.block_dim()):
            store_body(layout[0], d[0], c[0], body_com, b, scalar(1.0) / h, wrench_out)
        barrier()

    return contact_forces


class SapContactForces:
    """Computes `ContactForces`; the buffers are made when forces are first asked for."""

    def __init__(self, solver: Any):
        """Nothing is allocated yet."""
        self._solver = solver
        self._forces: ContactForces | None = None

    def compute(self, contacts: Any, dt: float) -> ContactForces:
        """Forces of the last step, which used ``contacts`` and ``dt``."""
        solver = self._solver
        model, motion, rows = solver.model, solver.free_motion, solver.contact_jacobian
        count = contacts.rigid_contact_shape0.shape[0]
        rows_total = count + contacts.soft_contact_max
        if self._forces is None or self._forces.force.shape[0] != count:
            device = model.device
            self._forces = ContactForces(
                wp.zeros(count, dtype=wp.vec3f, device=device),
                wp.zeros(count, dtype=wp.vec3f, device=device),
                wp.zeros(rows_total, dtype=wp.spatial_vectorf, device=device),
                wp.zeros(model.body_count, dtype=wp.spatial_vectorf, device=device),
            )
        forces = self._forces
        for array in (forces.force, forces.impulse, forces.spatial_force):
            array.zero_()
        wp.launch(
            make_contact_force_kernel(motion.pose_types, motion.types, rows.types),
            dim=solver.sizes.world_count * solver.block_dim,
            inputs=[
                rows.layout_argument,
                motion.argument,
                rows.argument,
                model.body_com,
                contacts.rigid_contact_shape0,
                model.shape_body,
                dt,
            ],
            outputs=[forces.force, forces.impulse, forces.spatial_force, forces.body_wrench],
            block_dim=solver.block_dim,
            device=model.device,
        )
        return forces
