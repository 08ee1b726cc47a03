"""From velocities of dofs to those of bodies and contacts, and back from contact impulses to wrenches of subtrees.

No Jacobian is stored. v gives velocities to bodies, from the root to the leaves, and J v of a contact is the difference
of two points; J^T gamma is found by summing wrenches from the leaves to the root. Worlds that fit a warp have another
way (`small_worlds`).

Called by all lanes of a block.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.spatial import to_vec3
from ...core.kernels.template import device
from ..settings.precisions import solve
from .problem import Data, Problem
from .stiffness import add_child_stiffness, gather_stiffness

scalar, vec3 = solve.scalar, solve.vec3
to_solve = to_vec3.on(number=solve)


@device
def column_w(problem: wp.ref[Problem], e: int) -> vec3:
    """Angular part of the motion column of dof e: the spatial velocity for v_e = 1."""
    return to_solve(problem.motion.Sw[e])


@device
def column_v(problem: wp.ref[Problem], e: int) -> vec3:
    """Linear part of the motion column of dof e, at the reference point of its tree."""
    return to_solve(problem.motion.Sv[e])


@device
def body_velocities(problem: wp.ref[Problem], data: wp.ref[Data], v: wp.array(dtype=scalar)):
    """Find the spatial velocities at v of all bodies that contacts ask for, from the root down."""
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


@device
def relative_velocity(problem: wp.ref[Problem], data: wp.ref[Data], row: int) -> vec3:
    """J v of one contact, from the velocities of its bodies."""
    value = vec3()
    b = problem.contacts.body_b[row]
    if b >= 0:
        value = data.Vv[b] + wp.cross(data.Vw[b], problem.contacts.r_b[row])
    a = problem.contacts.body_a[row]
    if a >= 0:
        value -= data.Vv[a] + wp.cross(data.Vw[a], problem.contacts.r_a[row])
    return value


@device
def gather_wrench(problem: wp.ref[Problem], data: wp.ref[Data], b: int):
    """Sum the wrenches that the contacts of one body exert on it, about the reference point of its tree."""
    fw = vec3()
    fv = vec3()
    i = problem.contacts.body_start[b]
    i_end = i + problem.contacts.body_count[b]
    while i < i_end:
        side = problem.contacts.body_row[i] & 1
        row = problem.contacts.body_row[i] >> 1
        if data.projection[row].mode != 0:
            gamma = data.projection[row].gamma * scalar(2 * side - 1)
            fw += wp.cross(wp.where(side == 1, problem.contacts.r_b[row], problem.contacts.r_a[row]), gamma)
            fv += gamma
        i += 1
    data.fw[b] = fw
    data.fv[b] = fv


@device
def accumulate(problem: wp.ref[Problem], data: wp.ref[Data], stiff: bool):
    """Sum wrenches, or with ``stiff`` stiffnesses, over all subtrees, from the leaves to the root."""
    first_level = problem.layout.world_level[problem.world]
    last_level = problem.layout.world_level[problem.world + 1]
    up_end = last_level - first_level
    up = int(0)
    while up < up_end:
        level = last_level - 1 - up
        i_end = problem.layout.level_start[level + 1]
        i = int(problem.layout.level_start[level] + lane())
        while i < i_end:
            b = problem.layout.level_body[i]
            if problem.contacts.body_active[b] != 0:
                child = problem.layout.body_child[b]
                if stiff:
                    gather_stiffness(
                        data.K,
                        b,
                        problem.contacts.body_row,
                        problem.contacts.body_start[b],
                        problem.contacts.body_count[b],
                        data.projection,
                        problem.contacts.normal,
                        problem.contacts.r_a,
                        problem.contacts.r_b,
                    )
                    while child >= 0:
                        if problem.contacts.body_active[child] != 0:
                            add_child_stiffness(data.K, b, child)
                        child = problem.layout.body_sibling[child]
                else:
                    gather_wrench(problem, data, b)
                    while child >= 0:
                        if problem.contacts.body_active[child] != 0:
                            data.fw[b] = data.fw[b] + data.fw[child]
                            data.fv[b] = data.fv[b] + data.fv[child]
                        child = problem.layout.body_sibling[child]
            i += lane_count()
        barrier()
        up += 1
