"""Contact rows inside the Newton iteration: velocities J v, impulses, and the law along a direction.

J is not stored: v gives velocities to bodies, and a row is the difference of two (`contact.stage`). Worlds that fit
a warp have another way (`small_worlds`).

Called by all lanes of a block.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.lanes import barrier, is_native, lane, lane_count, native_twin
from ...core.kernels.spatial import make_spatial
from ...core.kernels.warps import fits_a_warp
from ..terms.contact import EPSILON, SLIDING, STICTION, make_projection, make_track
from .problem import Precisions, make_problem
from .small_worlds import make_row_velocities

NATIVE_ROWS = "sap::contact_rows(problem.contacts, data), problem.row, problem.row_end"
"""Arguments of functions in `contact8.h`: the rows of a world."""


NATIVE_LAW = f"{EPSILON!r}, {int(STICTION)}, {int(SLIDING)}"
"""Arguments of such functions: softening of the norm, and numbers of the modes."""


@functools.cache
def make_row_projections(precisions: Precisions) -> SimpleNamespace:
    """``project_row(p, row, vc)`` and ``hold_row(p, row, vc)``: the law of one contact row."""
    Problem, vec3 = make_problem(precisions)[0], precisions.types.vec3
    term = make_projection(precisions.types)
    Projection, project, held = term.Projection, term.project, term.held

    @wp.func
    def project_row(problem: wp.ref[Problem], row: int, vc: vec3) -> Projection:
        """Impulse, cost and curvature of a contact row at relative velocity vc."""
        return project(
            vc,
            problem.contacts.normal[row],
            problem.contacts.vhat[row],
            problem.contacts.mu[row],
            problem.contacts.Rt[row],
            problem.contacts.Rn[row],
        )

    @wp.func
    def hold_row(problem: wp.ref[Problem], row: int, vc: vec3) -> Projection:
        """The same of a row that has to stick."""
        return held(
            vc,
            problem.contacts.normal[row],
            problem.contacts.vhat[row],
            problem.contacts.Rt[row],
            problem.contacts.Rn[row],
        )

    return SimpleNamespace(project_row=project_row, hold_row=hold_row)


@functools.cache
def make_motion_columns(precisions: Precisions) -> SimpleNamespace:
    """``column_w(p, e)`` and ``column_v(p, e)``: spatial velocity for v_e = 1."""
    Problem, vec3, to_vec3 = make_problem(precisions)[0], precisions.types.vec3, make_spatial(precisions.types).to_vec3

    @wp.func
    def column_w(problem: wp.ref[Problem], e: int) -> vec3:
        return to_vec3(problem.motion.Sw[e])

    @wp.func
    def column_v(problem: wp.ref[Problem], e: int) -> vec3:
        return to_vec3(problem.motion.Sv[e])

    return SimpleNamespace(column_w=column_w, column_v=column_v)


@functools.cache
def make_velocities(precisions: Precisions) -> SimpleNamespace:
    """Device functions from v to bodies and rows."""
    Problem, Data = make_problem(precisions)
    scalar, vec3, columns = precisions.types.scalar, precisions.types.vec3, make_motion_columns(precisions)
    column_w, column_v = columns.column_w, columns.column_v

    @wp.func
    def body_velocities(problem: wp.ref[Problem], data: wp.ref[Data], v: wp.array(dtype=scalar)):
        """Spatial velocities at v of all bodies that rows ask for, from the root down."""
        level_end = problem.layout.world_level[problem.world + 1]
        level = int(problem.layout.world_level[problem.world])
        while level < level_end:
            i_end = problem.layout.level_start[level + 1]
            i = int(problem.layout.level_start[level] + lane())
            while i < i_end:
                b = problem.layout.level_body[i]
                if problem.contacts.body_active[b] != 0:
                    w = vec3()
                    u = vec3()
                    parent = problem.layout.body_parent[b]
                    if parent >= 0:
                        w = data.Vw[parent]
                        u = data.Vv[parent]
                    e = problem.layout.body_dof[b]
                    e_end = e + problem.layout.body_dof_count[b]
                    while e < e_end:
                        w += column_w(problem, e) * v[e]
                        u += column_v(problem, e) * v[e]
                        e += 1
                    data.Vw[b] = w
                    data.Vv[b] = u
                i += lane_count()
            barrier()
            level += 1

    @wp.func
    def relative_velocity(problem: wp.ref[Problem], data: wp.ref[Data], row: int) -> vec3:
        """J v of one row, from the velocities of its bodies."""
        value = vec3()
        b = problem.contacts.body_b[row]
        if b >= 0:
            value = data.Vv[b] + wp.cross(data.Vw[b], problem.contacts.r_b[row])
        a = problem.contacts.body_a[row]
        if a >= 0:
            value -= data.Vv[a] + wp.cross(data.Vw[a], problem.contacts.r_a[row])
        return value

    return SimpleNamespace(body_velocities=body_velocities, relative_velocity=relative_velocity)


@functools.cache
def make_contact_terms(precisions: Precisions) -> SimpleNamespace:
    """Device functions about all rows of a world."""
    Problem, Data = make_problem(precisions)
    velocities, row_velocities = make_velocities(precisions), make_row_velocities(precisions)
    body_velocities, relative_velocity = velocities.body_velocities, velocities.relative_velocity
    scalar, track, project_row = (
        precisions.types.scalar,
        make_track(precisions.types).track,
        make_row_projections(precisions).project_row,
    )

    @wp.func
    def aim_contacts(problem: wp.ref[Problem], data: wp.ref[Data]):
        """What the rows need to know of the direction s.dv."""
        is_small = fits_a_warp(problem.last - problem.first)
        if is_small:
            row_velocities(problem, data.dv, data.dvc)
        else:
            body_velocities(problem, data, data.dv)
        if is_native():
            aim_native(problem, data)
            return
        row = int(problem.row + lane())
        while row < problem.row_end:
            if not is_small:
                data.dvc[row] = relative_velocity(problem, data, row)
            dvc = data.dvc[row]
            c = track(
                data.vc[row],
                dvc,
                problem.contacts.normal[row],
                problem.contacts.vhat[row],
                problem.contacts.mu[row],
                problem.contacts.Rt[row],
                problem.contacts.Rn[row],
            )
            data.line_contact[row] = c
            row += lane_count()

    @wp.func
    def advance_contacts(problem: wp.ref[Problem], data: wp.ref[Data], alpha: scalar, renew: bool):
        """Move the rows along their direction, and if asked to, see what they do there."""
        if is_native():
            advance_native(problem, data, alpha, renew)
            return
        row = int(problem.row + lane())
        while row < problem.row_end:
            vc = data.vc[row] + data.dvc[row] * alpha
            data.vc[row] = vc
            if renew:
                data.projection[row] = project_row(problem, row, vc)
            row += lane_count()

    aim_native = native_twin(aim_contacts, f"sap::aim_contacts({NATIVE_ROWS});")
    call = f"sap::advance_contacts({NATIVE_ROWS}, alpha, renew, {NATIVE_LAW});"
    advance_native = native_twin(advance_contacts, call)
    return SimpleNamespace(aim_contacts=aim_contacts, advance_contacts=advance_contacts)
