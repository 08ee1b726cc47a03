"""Contact rows and dofs of worlds with at most 32 dofs, by one warp (`kernels/warps`).

Trees are not walked level by level here. A velocity is a sum over the dofs above, found in ever longer jumps along the
chains; what rows do to a dof is a sum over all rows, of which the lane of the dof takes those below it. The rows that
act on a dof are those of its subtree: their body's chain begins in row e of A's pattern.

All lanes of the warp call these functions.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.spatial import to_vec3
from ...core.kernels.template import Constant, device, device_struct
from ...core.kernels.warps import any_lane, from_lane
from ..model.layout import moves
from ..settings.precisions import linear, solve
from ..terms.contact import SLIDING
from .problem import Data, Problem

scalar, vec3, linear_scalar, linear_vec3 = solve.scalar, solve.vec3, linear.scalar, linear.vec3
to_solve, to_linear = to_vec3.on(number=solve), to_vec3.on(number=linear)
index_from = from_lane.on(dtype=Constant(int))
vector_from, linear_from = from_lane.on(dtype=vec3), from_lane.on(dtype=linear_vec3)


@device_struct
class Twist:
    """Spatial velocity."""

    w: vec3
    u: vec3  # at the reference point of the tree


@device
def chain_velocity(problem: wp.ref[Problem], v: wp.array(dtype=scalar)) -> Twist:
    """Spatial velocity at v below the dof of this lane."""
    sum = Twist()
    above = int(-1)
    e = problem.first + lane()
    if e < problem.last:
        sum.w = to_solve(problem.motion.Sw[e]) * v[e]
        sum.u = to_solve(problem.motion.Sv[e]) * v[e]
        above = wp.max(problem.layout.dof_parent[e] - problem.first, -1)
    while any_lane(above >= 0):  # the sum is of 1, 2, 4, ... dofs, and the next ones begin above them
        source = wp.max(above, 0)
        w = vector_from(sum.w, source)
        u = vector_from(sum.u, source)
        next = index_from(above, source)
        if above >= 0:
            sum.w += w
            sum.u += u
            above = next
    return sum


@device
def side_velocity(problem: wp.ref[Problem], chain: wp.ref[Twist], body: int, arm: vec3) -> vec3:
    """Velocity of a body's point, of a body per lane."""
    source = int(-1)
    if body >= 0:
        source = wp.max(problem.layout.body_chain[body] - problem.first, -1)
    w = vector_from(chain.w, wp.max(source, 0))
    u = vector_from(chain.u, wp.max(source, 0))
    if source < 0:
        return vec3()
    return u + wp.cross(w, arm)


@device
def row_velocities(problem: wp.ref[Problem], v: wp.array(dtype=scalar), out: wp.array(dtype=vec3)):
    """J v of all rows; a row is written by the lane that reads it in strided loops."""
    chain = chain_velocity(problem, v)
    base = int(problem.row)
    while base < problem.row_end:
        row = base + lane()
        a = int(-1)
        b = int(-1)
        r_a = vec3()
        r_b = vec3()
        if row < problem.row_end:
            a = problem.contacts.body_a[row]
            b = problem.contacts.body_b[row]
            r_a = problem.contacts.r_a[row]
            r_b = problem.contacts.r_b[row]
        value = side_velocity(problem, chain, b, r_b)
        if any_lane(a >= 0):
            value -= side_velocity(problem, chain, a, r_a)
        if row < problem.row_end:
            out[row] = value
        base += lane_count()


@device
def contact_impulse(problem: wp.ref[Problem], data: wp.ref[Data], e: int) -> scalar:
    """Generalized impulse of all contact rows on dof e."""
    Sw = to_solve(problem.motion.Sw[e])
    Sv = to_solve(problem.motion.Sv[e])
    total = scalar(0.0)
    row = int(problem.row)
    while row < problem.row_end:
        J = vec3()
        if moves(problem.layout, e, problem.contacts.body_b[row]):
            J = Sv + wp.cross(Sw, problem.contacts.r_b[row])
        if moves(problem.layout, e, problem.contacts.body_a[row]):
            J -= Sv + wp.cross(Sw, problem.contacts.r_a[row])
        total += wp.dot(J, data.projection[row].gamma)
        row += 1
    return total


@device_struct
class Wrench:
    """What acts on a dof's subtree, about the reference point of the tree."""

    w: linear_vec3
    u: linear_vec3


@device_struct
class Stiffness:
    """The symmetric matrix G of the row of this lane, and the row of lane 0."""

    base: int
    diagonal: linear_vec3
    mixed: linear_vec3  # yz, xz, xy


@device
def add_side(
    problem: wp.ref[Problem],
    sum: wp.ref[Wrench],
    Sw: linear_vec3,
    Sv: linear_vec3,
    bodies: int,
    arms: linear_vec3,
    G: wp.ref[Stiffness],
):
    """Add one side of up to 32 rows, one row per lane, to the force of this lane's dof."""
    e = problem.first + lane()
    low = int(0)
    if e < problem.last:
        low = problem.layout.rows.first[e]
    chain = int(-1)
    if bodies >= 0:
        chain = problem.layout.body_chain[bodies]
    k = int(0)
    k_end = wp.min(problem.row_end - G.base, lane_count())
    while k < k_end:
        below = index_from(chain, k)
        arm = linear_from(arms, k)
        along = linear_from(G.diagonal, k)
        across = linear_from(G.mixed, k)
        if below >= low and below <= e:
            u = Sv + wp.cross(Sw, arm)
            f = linear_vec3(
                along[0] * u[0] + across[2] * u[1] + across[1] * u[2],
                across[2] * u[0] + along[1] * u[1] + across[0] * u[2],
                across[1] * u[0] + across[0] * u[1] + along[2] * u[2],
            )
            sum.w += wp.cross(arm, f)
            sum.u += f
        k += 1


@device
def add_direction(G: wp.ref[Stiffness], u: linear_vec3, k: linear_scalar):
    """Add the stiffness k along u to G."""
    ku = u * k
    G.diagonal += wp.cw_mul(ku, u)
    G.mixed += linear_vec3(ku[1] * u[2], ku[0] * u[2], ku[0] * u[1])


@device
def column_force(problem: wp.ref[Problem], data: wp.ref[Data]) -> Wrench:
    """Contact stiffness of the subtree of this lane's dof times its motion column."""
    sum = Wrench()
    Sw = linear_vec3()
    Sv = linear_vec3()
    e = problem.first + lane()
    if e < problem.last:
        Sw = to_linear(problem.motion.Sw[e])
        Sv = to_linear(problem.motion.Sv[e])
    base = int(problem.row)
    while base < problem.row_end:
        row = base + lane()
        G = Stiffness()
        G.base = base
        a = int(-1)
        b = int(-1)
        r_a = linear_vec3()
        r_b = linear_vec3()
        if row < problem.row_end:
            a = problem.contacts.body_a[row]
            b = problem.contacts.body_b[row]
            r_a = to_linear(problem.contacts.r_a[row])
            r_b = to_linear(problem.contacts.r_b[row])
            if data.projection[row].mode != 0:
                k = linear_scalar(data.projection[row].across)
                G.diagonal = linear_vec3(k, k, k)
                add_direction(G, to_linear(problem.contacts.normal[row]), linear_scalar(data.projection[row].along_n))
                if data.projection[row].mode == SLIDING:
                    add_direction(G, to_linear(data.projection[row].t), -k)
                    add_direction(G, to_linear(data.projection[row].s), linear_scalar(data.projection[row].along_s))
        if any_lane(b >= 0):
            add_side(problem, sum, Sw, Sv, b, r_b, G)
        if any_lane(a >= 0):
            add_side(problem, sum, Sw, Sv, a, r_a, G)
        base += lane_count()
    return sum
