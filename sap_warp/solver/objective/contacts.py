"""Contacts as terms of the objective: velocities J v, impulses, stiffness, and the law along a direction.

J is not stored (`bodies`). The functions of this file are those of every family of terms, see `families`.

Called by all lanes of a block.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import barrier, is_native, lane, lane_count, native_twin, uses
from ...core.kernels.packed_rows import add_rows, shifted, store_force
from ...core.kernels.spatial import to_vec3
from ...core.kernels.structs import by_value
from ...core.kernels.template import Template, device
from ...core.kernels.warps import add_rows_in_warp, fits_a_warp
from ..settings.precisions import cost, dynamics, linear, solve
from ..terms.contact import (
    EPSILON,
    SLIDING,
    STICTION,
    Projection,
    line_contact_at,
    project,
    project_sticking,
    value_along,
)
from .bodies import accumulate, body_velocities, column_v, column_w, relative_velocity
from .problem import Data, Problem
from .small_worlds import column_force, contact_impulse, row_velocities
from .stiffness import Blocks, add_contact, multiply_stiffness

scalar, vec3, energy, energy3 = solve.scalar, solve.vec3, cost.scalar, cost.vec3
linear_scalar = linear.scalar
to_cost, to_linear = to_vec3.on(number=cost), to_vec3.on(number=linear)
store_column, add_columns = store_force.on(matrix=linear, vector=dynamics), add_rows.on(matrix=linear, vector=dynamics)
add_columns_in_warp = add_rows_in_warp.on(matrix=linear, vector=dynamics)
shifted_H = shifted.on(matrix=linear)
uses_contact8, uses_stiffness = uses("contact8"), uses("stiffness")

NATIVE_CONTACTS = "sap::contact_rows(problem.contacts, data), problem.row, problem.row_end"
"""Arguments of functions in `contact8.h`: the contacts of a world."""
NATIVE_LAW = f"{EPSILON!r}, {int(STICTION)}, {int(SLIDING)}"
"""Arguments of such functions: softening of the norm, and numbers of the modes."""
CALLED_TWICE = Template(lambda variant: True if variant["by_value"] else None)
"""How functions are inlined that a solve calls at two places: on CUDA a call would need the structs in memory."""


@device
def project_contact(problem: wp.ref[Problem], row: int, vc: vec3) -> Projection:
    """Impulse, cost and curvature of a contact at relative velocity vc."""
    return project(
        vc,
        problem.contacts.normal[row],
        problem.contacts.vhat[row],
        problem.contacts.mu[row],
        problem.contacts.Rt[row],
        problem.contacts.Rn[row],
    )


@device
def project_sticking_contact(problem: wp.ref[Problem], row: int, vc: vec3) -> Projection:
    """Impulse, cost and curvature of a contact that has to stick."""
    return project_sticking(
        vc,
        problem.contacts.normal[row],
        problem.contacts.vhat[row],
        problem.contacts.Rt[row],
        problem.contacts.Rn[row],
    )


@device
def has_terms(problem: wp.ref[Problem], data: wp.ref[Data], found: int) -> int:
    """Return 1 if the world has contacts, else ``found``."""
    return wp.where(problem.row < problem.row_end, 1, found)


@device
def has_body_velocities(problem: wp.ref[Problem]) -> bool:
    """Return True if kinematics has found the velocities of bodies at v0: nothing but dofs of the solve moves them."""
    if not uses_contact8() or wp.static(dynamics is not solve):
        return False
    return problem.layout.world_kinematic[problem.world] == problem.layout.world_kinematic[problem.world + 1]


@device
def start_at_bodies(problem: wp.ref[Problem], data: wp.ref[Data], is_known: bool):
    """Give `start_native` its parameters: native code starts the contacts from the velocities of the bodies."""


def _start_call(variant: object) -> str:
    call = "auto rows = sap::contact_rows(problem.contacts, data);\n"
    if dynamics.of(variant) is solve.of(variant):
        call += "if (is_known) { rows.Vw = problem.motion.Vw.data; rows.Vv = problem.motion.Vv.data; }\n"
    return call + f"sap::start_contacts(rows, problem.row, problem.row_end, {NATIVE_LAW});"


start_native = native_twin(start_at_bodies, Template(_start_call))


@device(inline=CALLED_TWICE)
def start(problem: wp.ref[Problem], data: wp.ref[Data]):
    """Find the relative velocities at data.v, which is v0, and what the contacts do there."""
    is_small = fits_a_warp(problem.last - problem.first)
    if is_small:
        row_velocities(problem, data.v, data.vc)
    elif not has_body_velocities(problem):
        body_velocities(problem, data, data.v)
    row = int(problem.row + lane())
    if wp.static(not by_value):
        if uses_contact8():
            start_native(problem, data, has_body_velocities(problem))
            row = problem.row_end
    while row < problem.row_end:
        vc = problem.contacts.drift[row]
        if is_small:
            vc += data.vc[row]
        else:
            vc += relative_velocity(problem, data, row)
        data.vc[row] = vc
        data.projection[row] = project_contact(problem, row, vc)
        row += lane_count()


@device
def add_cost(problem: wp.ref[Problem], data: wp.ref[Data], total: energy3) -> energy3:
    """Add a lane's share of the cost, which is no parabola, to the second entry."""
    row = int(problem.row + lane())
    while row < problem.row_end:
        total[1] += energy(data.projection[row].cost)
        row += lane_count()
    return total


@device
def gather_impulses(problem: wp.ref[Problem], data: wp.ref[Data]):
    """Sum the wrenches of subtrees, for `add_impulse`."""
    if not fits_a_warp(problem.last - problem.first):
        accumulate(problem, data, False)


@device
def add_impulse(problem: wp.ref[Problem], data: wp.ref[Data], e: int, impulse: scalar) -> scalar:
    """Add the generalized impulse of all contacts on dof e."""
    total = impulse
    if fits_a_warp(problem.last - problem.first):
        total += contact_impulse(problem, data, e)
    elif problem.contacts.body_active[problem.layout.dof_body[e]] != 0:
        b = problem.layout.dof_body[e]
        total += wp.dot(column_w(problem, e), data.fw[b]) + wp.dot(column_v(problem, e), data.fv[b])
    return total


@device
def couples(problem: wp.ref[Problem], data: wp.ref[Data], found: int) -> int:
    """Return 1 if two moving bodies touch at the velocity at hand, which couples their chains, else ``found``."""
    row = int(problem.row)
    while row < problem.row_end:
        if problem.contacts.body_a[row] >= 0 and problem.contacts.body_b[row] >= 0 and data.projection[row].mode != 0:
            return 1
        row += 1
    return found


@device
def tree_rows(problem: wp.ref[Problem], data: wp.ref[Data]) -> wp.array(dtype=linear_scalar):
    """data.H with the addresses of A's rows."""
    return shifted_H(data.H, problem.layout.world_hessian[problem.world] - problem.layout.world_entry[problem.world])


@device
def start_hessian(problem: wp.ref[Problem], data: wp.ref[Data]):
    """Set the entries of data.H that A has to A and the contact stiffness of subtrees."""
    count = problem.last - problem.first
    Sw = problem.motion.Sw
    Sv = problem.motion.Sv
    if fits_a_warp(count):
        F = column_force(problem, data)
        H_first = problem.contacts.hessian.first
        H_entry = problem.contacts.hessian.entry
        first = problem.layout.rows.first
        entry = problem.layout.rows.entry
        add_columns_in_warp(
            data.H, H_first, H_entry, problem.motion.A, first, entry, problem.first, count, Sw, Sv, F.w, F.u
        )
        return
    accumulate(problem, data, True)
    e = int(problem.first + lane())
    while e < problem.last:
        b = problem.layout.dof_body[e]
        e_end = e + 1
        if is_native():  # all dofs of a body at once
            e_end = problem.layout.body_dof[b] + problem.layout.body_dof_count[b]
        if problem.contacts.body_active[b] != 0:
            multiply_stiffness(
                data.K,
                b,
                e,
                e_end,
                problem.motion.Sw,
                problem.motion.Sv,
                data.column_force,
                problem.first,
                count,
            )
            e = e_end - 1 + lane_count()
        else:
            store_column(data.column_force, problem.first, count, e, linear.vec3(), linear.vec3())
            e += lane_count()
    barrier()
    if wp.static(not by_value):  # else a second call, which NVRTC would not inline
        if is_native() and data.widened[problem.world] == 0:
            H = tree_rows(problem, data)
            add_columns(
                H,
                problem.layout.rows,
                problem.motion.A,
                problem.layout.rows,
                problem.first,
                count,
                Sw,
                Sv,
                data.column_force,
                1,
            )
            return
    add_columns(
        data.H,
        problem.contacts.hessian,
        problem.motion.A,
        problem.layout.rows,
        problem.first,
        count,
        Sw,
        Sv,
        data.column_force,
        1,
    )


@device
def add_couplings(problem: wp.ref[Problem], data: wp.ref[Data]):
    """Subtract X_a^T G X_b between the chains of two touching moving bodies; contacts of one pair are summed."""
    if uses_stiffness():
        add_couplings_native(problem, data)
        return
    row = int(problem.row)
    while row < problem.row_end:
        a = problem.contacts.body_a[row]
        b = problem.contacts.body_b[row]
        if a >= 0 and b >= 0:
            K = Blocks()
            same = bool(True)
            while same:
                if data.projection[row].mode != 0:
                    n = problem.contacts.normal[row]
                    add_contact(K, data.projection[row], n, problem.contacts.r_a[row], problem.contacts.r_b[row])
                row += 1
                same = bool(False)
                if row < problem.row_end:
                    same = problem.contacts.body_a[row] == a and problem.contacts.body_b[row] == b
            j = problem.layout.body_chain[b]
            while j >= 0:
                Sw = to_linear(problem.motion.Sw[j])
                Sv = to_linear(problem.motion.Sv[j])
                Fw = K.ww * Sw + K.wv * Sv
                Fv = K.vw * Sw + K.vv * Sv
                i = problem.layout.body_chain[a]
                turn = int(0)
                while i >= 0:
                    if turn % lane_count() == lane():
                        value = wp.dot(to_linear(problem.motion.Sw[i]), Fw) + wp.dot(
                            to_linear(problem.motion.Sv[i]), Fv
                        )
                        apart = problem.contacts.dof_position[i] - problem.contacts.dof_position[j]
                        if apart >= 0:
                            k = problem.contacts.hessian.entry[i] + i - problem.contacts.hessian.first[i] - apart
                            data.H[k] = data.H[k] - value
                        if apart <= 0:
                            k = problem.contacts.hessian.entry[j] + j - problem.contacts.hessian.first[j] + apart
                            data.H[k] = data.H[k] - value
                    turn += 1
                    i = problem.layout.dof_parent[i]
                barrier()
                j = problem.layout.dof_parent[j]
        else:
            row += 1


_PATTERN = (
    "problem.contacts.hessian.first.data, problem.contacts.hessian.entry.data, problem.contacts.dof_position.data"
)
_DOFS = "problem.layout.body_chain.data, problem.layout.dof_parent.data, problem.motion.Sw.data, problem.motion.Sv.data"
_CONTACTS = "problem.row, problem.row_end, problem.contacts.body_a.data, problem.contacts.body_b.data, "
_CONTACTS += "data.projection.data, problem.contacts.normal.data, problem.contacts.r_a.data, problem.contacts.r_b.data"
add_couplings_native = native_twin(
    add_couplings, f"sap::couple_pairs(data.H.data, {_PATTERN}, {_DOFS}, {_CONTACTS}, {int(SLIDING)});"
)


@device
def prepare_direction(problem: wp.ref[Problem], data: wp.ref[Data], slopes: energy3) -> energy3:
    """Find how the relative velocities change along data.dv; the law along the line needs no more (`add_along`)."""
    find_line_contacts(problem, data)
    return slopes


@device
def find_line_contacts(problem: wp.ref[Problem], data: wp.ref[Data]):
    """Set data.dvc and data.line_contact of all contacts."""
    is_small = fits_a_warp(problem.last - problem.first)
    if is_small:
        row_velocities(problem, data.dv, data.dvc)
    else:
        body_velocities(problem, data, data.dv)
    if uses_contact8():
        find_line_contacts_native(problem, data)
        return
    row = int(problem.row + lane())
    while row < problem.row_end:
        if not is_small:
            data.dvc[row] = relative_velocity(problem, data, row)
        dvc = data.dvc[row]
        contact = line_contact_at(
            data.vc[row],
            dvc,
            problem.contacts.normal[row],
            problem.contacts.vhat[row],
            problem.contacts.mu[row],
            problem.contacts.Rt[row],
            problem.contacts.Rn[row],
        )
        data.line_contact[row] = contact
        row += lane_count()


find_line_contacts_native = native_twin(find_line_contacts, f"sap::aim_contacts({NATIVE_CONTACTS});")


@device
def along(problem: wp.ref[Problem], data: wp.ref[Data], alpha: energy, first: int, lanes: int) -> energy3:
    """Cost, slope and curvature at a trial step of the contacts of one of ``lanes`` lanes, number ``first``."""
    if uses_contact8():
        return along_native(problem, data, alpha, first, lanes)
    total = energy3()
    row = int(problem.row + first)
    while row < problem.row_end:
        total += to_cost(value_along(data.line_contact[row], scalar(alpha)))
        row += lanes
    return total


along_native = native_twin(
    along,
    f"""$cost sums[3];
    sap::contacts_along<$cost, $solve>(
        data.line_contact.data + problem.row, problem.row_end - problem.row, alpha, {EPSILON!r}, sums);
    return {{sums[0], sums[1], sums[2]}};""",
    "return {};",
)


@device
def add_along(problem: wp.ref[Problem], data: wp.ref[Data], alpha: energy, total: energy3) -> energy3:
    """Add a lane's share of cost, slope and curvature at a trial step."""
    return total + along(problem, data, alpha, lane(), lane_count())


@device
def add_cost_along(
    problem: wp.ref[Problem], data: wp.ref[Data], alpha: energy, first: int, lanes: int, total: energy
) -> energy:
    """Add the cost at a trial step of the contacts of one of ``lanes`` lanes, that with number ``first``."""
    return total + along(problem, data, alpha, first, lanes)[0]


@device
def advance(problem: wp.ref[Problem], data: wp.ref[Data], alpha: scalar, renew: bool):
    """Move the contacts by alpha along the direction, and with ``renew`` see what they do there."""
    if uses_contact8():
        advance_native(problem, data, alpha, renew)
        return
    row = int(problem.row + lane())
    while row < problem.row_end:
        vc = data.vc[row] + data.dvc[row] * alpha
        data.vc[row] = vc
        if renew:
            data.projection[row] = project_contact(problem, row, vc)
        row += lane_count()


advance_native = native_twin(advance, f"sap::advance_contacts({NATIVE_CONTACTS}, alpha, renew, {NATIVE_LAW});")
