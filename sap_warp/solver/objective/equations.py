"""The equations as terms of the objective: loop closures, couplings, tendons and actuators that act on several dofs.

An equation has a slack vhat - J v, and the cost of a bounded term (`terms/bounded.py`). Equations without bounds are a
parabola along any direction; those with bounds are evaluated at every trial step.

Called by all lanes of a block. Equations may share dofs, so they take turns and the lanes share the entries of one.
The functions of this file are those of every family of terms, see `families`.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.spatial import to_vec3
from ...core.kernels.template import device
from ..equations.data import Equations
from ..settings.precisions import cost, linear, solve
from ..terms.bounded import UNBOUNDED, bounded
from .problem import Data, Problem

scalar, vec3, linear_scalar = solve.scalar, solve.vec3, linear.scalar
energy, energy3, to_cost = cost.scalar, cost.vec3, to_vec3.on(number=cost)


@device
def equation_count(problem: wp.ref[Problem]) -> int:
    """How many equations the world has."""
    return problem.bilateral.world_row[problem.world + 1] - problem.bilateral.world_row[problem.world]


@device
def has_terms(problem: wp.ref[Problem], data: wp.ref[Data], found: int) -> int:
    """Return 1 if the world has equations, else ``found``."""
    return wp.where(equation_count(problem) > 0, 1, found)


@device
def rate(equations: wp.ref[Equations], row: int, v: wp.array[scalar]) -> scalar:
    """J v of one equation."""
    total = scalar(0.0)
    i_end = equations.row_entry[row + 1]
    i = int(equations.row_entry[row])
    while i < i_end:
        total += equations.J[i] * v[equations.entry_dof[i]]
        i += 1
    return total


@device
def term_of(equations: wp.ref[Equations], row: int, slack: scalar) -> vec3:
    """Cost, impulse and curvature of one equation."""
    return bounded(slack, equations.R[row], equations.low[row], equations.high[row])


@device
def has_bounds(equations: wp.ref[Equations], row: int) -> bool:
    """Return True if the impulse of an equation is bounded."""
    most = scalar(wp.static(UNBOUNDED))
    return equations.low[row] > -most or equations.high[row] < most


@device
def start(problem: wp.ref[Problem], data: wp.ref[Data]):
    """Find the slack of all equations at data.v."""
    for row in range(
        problem.bilateral.world_row[problem.world] + lane(),
        problem.bilateral.world_row[problem.world + 1],
        lane_count(),
    ):
        data.slack[row] = problem.bilateral.vhat[row] - rate(problem.bilateral, row, data.v)


@device
def add_cost(problem: wp.ref[Problem], data: wp.ref[Data], total: energy3) -> energy3:
    """Add a lane's share of the cost: first that of the equations without bounds, second that of those with bounds."""
    if equation_count(problem) == 0:
        return total
    share = vec3()
    for row in range(
        problem.bilateral.world_row[problem.world] + lane(),
        problem.bilateral.world_row[problem.world + 1],
        lane_count(),
    ):
        if problem.bilateral.R[row] > scalar(0.0):
            value = term_of(problem.bilateral, row, data.slack[row])[0]
            if has_bounds(problem.bilateral, row):
                share[1] += value
            else:
                share[0] += value
    return total + to_cost(share)


@device
def prepare_direction(problem: wp.ref[Problem], data: wp.ref[Data], slopes: energy3) -> energy3:
    """Find the change of the slack along data.dv; add a lane's share of slope and curvature without bounds."""
    share = vec3()
    for row in range(
        problem.bilateral.world_row[problem.world] + lane(),
        problem.bilateral.world_row[problem.world + 1],
        lane_count(),
    ):
        change = -rate(problem.bilateral, row, data.dv)
        data.dslack[row] = change
        if problem.bilateral.R[row] > scalar(0.0) and not has_bounds(problem.bilateral, row):
            term = term_of(problem.bilateral, row, data.slack[row])
            share += vec3(term[1] * change, term[2] * change * change, scalar(0.0))
    return slopes + to_cost(share)


@device
def along(problem: wp.ref[Problem], data: wp.ref[Data], alpha: scalar) -> vec3:
    """A lane's share of cost, slope and curvature in alpha of the equations with bounds."""
    total = vec3()
    for row in range(
        problem.bilateral.world_row[problem.world] + lane(),
        problem.bilateral.world_row[problem.world + 1],
        lane_count(),
    ):
        if problem.bilateral.R[row] > scalar(0.0) and has_bounds(problem.bilateral, row):
            change = data.dslack[row]
            term = term_of(problem.bilateral, row, data.slack[row] + alpha * change)
            total += vec3(term[0], term[1] * change, term[2] * change * change)
    return total


@device
def add_along(problem: wp.ref[Problem], data: wp.ref[Data], alpha: energy, total: energy3) -> energy3:
    """Add a lane's share of what is no parabola at a trial step: cost, slope and curvature."""
    if problem.bilateral.bounded == 0:
        return total
    return total + to_cost(along(problem, data, scalar(alpha)))


@device
def add_cost_along(
    problem: wp.ref[Problem], data: wp.ref[Data], alpha: energy, first: int, lanes: int, total: energy
) -> energy:
    """Add a lane's share of the cost of `add_along`; here all lanes of the block share the equations."""
    if problem.bilateral.bounded == 0:
        return total
    return total + energy(along(problem, data, scalar(alpha))[0])


@device
def advance(problem: wp.ref[Problem], data: wp.ref[Data], alpha: scalar, renew: bool):
    """Move the slack by alpha along the direction."""
    for row in range(
        problem.bilateral.world_row[problem.world] + lane(),
        problem.bilateral.world_row[problem.world + 1],
        lane_count(),
    ):
        data.slack[row] = data.slack[row] + alpha * data.dslack[row]


@device
def gather_impulses(problem: wp.ref[Problem], data: wp.ref[Data]):
    """Set data.impulse to J^T gamma of all equations, if there are any."""
    if equation_count(problem) == 0:
        return
    e = int(problem.first + lane())
    while e < problem.last:
        data.impulse[e] = scalar(0.0)
        e += lane_count()
    barrier()
    row_end = problem.bilateral.world_row[problem.world + 1]
    row = int(problem.bilateral.world_row[problem.world])
    while row < row_end:
        if problem.bilateral.R[row] > scalar(0.0):
            gamma = term_of(problem.bilateral, row, data.slack[row])[1]
            i_end = problem.bilateral.row_entry[row + 1]
            i = int(problem.bilateral.row_entry[row] + lane())
            while i < i_end:
                e = problem.bilateral.entry_dof[i]
                data.impulse[e] = data.impulse[e] + problem.bilateral.J[i] * gamma
                i += lane_count()
        barrier()
        row += 1


@device
def couples(problem: wp.ref[Problem], data: wp.ref[Data], found: int) -> int:
    """Return 1 if an equation may couple dofs that are not above one another, else ``found``."""
    if equation_count(problem) > 0:
        return 1
    return found


@device
def add_couplings(problem: wp.ref[Problem], data: wp.ref[Data]):
    """Add J^T J / R of all equations to data.H."""
    row_end = problem.bilateral.world_row[problem.world + 1]
    row = int(problem.bilateral.world_row[problem.world])
    while row < row_end:
        if problem.bilateral.R[row] > scalar(0.0):
            weight = term_of(problem.bilateral, row, data.slack[row])[2]
            start = problem.bilateral.row_entry[row]
            i_end = problem.bilateral.row_entry[row + 1]
            i = int(start + lane())
            while i < i_end:
                e = problem.bilateral.entry_dof[i]
                address = problem.contacts.hessian.entry[e] - problem.contacts.hessian.first[e]
                j = int(start)
                while j <= i:
                    a = address + problem.bilateral.entry_dof[j]
                    data.H[a] = data.H[a] + linear_scalar(weight * problem.bilateral.J[i] * problem.bilateral.J[j])
                    j += 1
                i += lane_count()
        barrier()
        row += 1
