"""Constraint rows inside the Newton iteration: slack, impulse, stiffness, and the cost along a direction.

Rows without bounds are a parabola along any direction; those with bounds are evaluated at every trial step.

Called by all lanes of a block. Rows may share dofs, so they take turns and the lanes share the entries of one.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ..equations.data import make_constraint_data
from ..terms.bounded import UNBOUNDED, make_bounded_term
from .problem import Precisions, make_problem


@functools.cache
def make_row_terms(precisions: Precisions) -> SimpleNamespace:
    """Device functions about one row."""
    types = precisions.types
    Problem, Rows = make_problem(precisions)[0], make_constraint_data(types)
    bounded, scalar, vec3 = make_bounded_term(types), types.scalar, types.vec3

    @wp.func
    def row_count(problem: wp.ref[Problem]) -> int:
        return problem.bilateral.world_row[problem.world + 1] - problem.bilateral.world_row[problem.world]

    @wp.func
    def rate(k: wp.ref[Rows], row: int, v: wp.array[scalar]) -> scalar:
        """J v of one row."""
        total = scalar(0.0)
        i_end = k.row_entry[row + 1]
        i = int(k.row_entry[row])
        while i < i_end:
            total += k.J[i] * v[k.entry_dof[i]]
            i += 1
        return total

    @wp.func
    def row_term(k: wp.ref[Rows], row: int, slack: scalar) -> vec3:
        """Cost, impulse and curvature of one row."""
        return bounded(slack, k.R[row], k.low[row], k.high[row])

    @wp.func
    def has_bounds(k: wp.ref[Rows], row: int) -> bool:
        most = scalar(wp.static(UNBOUNDED))
        return k.low[row] > -most or k.high[row] < most

    return SimpleNamespace(row_count=row_count, rate=rate, row_term=row_term, has_bounds=has_bounds)


@functools.cache
def make_constraint_terms(precisions: Precisions) -> SimpleNamespace:
    """Device functions about the rows of a world."""
    types, linear = precisions.types, precisions.linear
    Problem, Data = make_problem(precisions)
    scalar, vec3, lscalar = types.scalar, types.vec3, linear.scalar

    terms = make_row_terms(precisions)
    row_count, rate, row_term, has_bounds = terms.row_count, terms.rate, terms.row_term, terms.has_bounds

    @wp.func
    def start_rows(problem: wp.ref[Problem], data: wp.ref[Data]):
        """Slack of all rows at s.v."""
        for row in range(
            problem.bilateral.world_row[problem.world] + lane(),
            problem.bilateral.world_row[problem.world + 1],
            lane_count(),
        ):
            data.slack[row] = problem.bilateral.vhat[row] - rate(problem.bilateral, row, data.v)

    @wp.func
    def rows_cost(problem: wp.ref[Problem], data: wp.ref[Data]) -> vec3:
        """A lane's share of the cost of the rows without bounds, and of those with bounds."""
        cost = vec3()
        for row in range(
            problem.bilateral.world_row[problem.world] + lane(),
            problem.bilateral.world_row[problem.world + 1],
            lane_count(),
        ):
            if problem.bilateral.R[row] > scalar(0.0):
                value = row_term(problem.bilateral, row, data.slack[row])[0]
                if has_bounds(problem.bilateral, row):
                    cost[1] += value
                else:
                    cost[0] += value
        return cost

    @wp.func
    def aim_rows(problem: wp.ref[Problem], data: wp.ref[Data]) -> vec3:
        """Change of the slack along s.dv; returns a lane's share of slope and curvature of rows without bounds."""
        total = vec3()
        for row in range(
            problem.bilateral.world_row[problem.world] + lane(),
            problem.bilateral.world_row[problem.world + 1],
            lane_count(),
        ):
            change = -rate(problem.bilateral, row, data.dv)
            data.dslack[row] = change
            if problem.bilateral.R[row] > scalar(0.0) and not has_bounds(problem.bilateral, row):
                term = row_term(problem.bilateral, row, data.slack[row])
                total += vec3(term[1] * change, term[2] * change * change, scalar(0.0))
        return total

    @wp.func
    def bounded_along(problem: wp.ref[Problem], data: wp.ref[Data], alpha: scalar) -> vec3:
        """A lane's share of cost, slope and curvature in alpha of the rows with bounds."""
        total = vec3()
        for row in range(
            problem.bilateral.world_row[problem.world] + lane(),
            problem.bilateral.world_row[problem.world + 1],
            lane_count(),
        ):
            if problem.bilateral.R[row] > scalar(0.0) and has_bounds(problem.bilateral, row):
                change = data.dslack[row]
                term = row_term(problem.bilateral, row, data.slack[row] + alpha * change)
                total += vec3(term[0], term[1] * change, term[2] * change * change)
        return total

    @wp.func
    def advance_rows(problem: wp.ref[Problem], data: wp.ref[Data], alpha: scalar):
        for row in range(
            problem.bilateral.world_row[problem.world] + lane(),
            problem.bilateral.world_row[problem.world + 1],
            lane_count(),
        ):
            data.slack[row] = data.slack[row] + alpha * data.dslack[row]

    @wp.func
    def add_impulses(problem: wp.ref[Problem], data: wp.ref[Data]):
        """Set s.impulse to J^T gamma of all rows."""
        e = int(problem.first + lane())
        while e < problem.last:
            data.impulse[e] = scalar(0.0)
            e += lane_count()
        barrier()
        row_end = problem.bilateral.world_row[problem.world + 1]
        row = int(problem.bilateral.world_row[problem.world])
        while row < row_end:
            if problem.bilateral.R[row] > scalar(0.0):
                gamma = row_term(problem.bilateral, row, data.slack[row])[1]
                i_end = problem.bilateral.row_entry[row + 1]
                i = int(problem.bilateral.row_entry[row] + lane())
                while i < i_end:
                    e = problem.bilateral.entry_dof[i]
                    data.impulse[e] = data.impulse[e] + problem.bilateral.J[i] * gamma
                    i += lane_count()
            barrier()
            row += 1

    @wp.func
    def add_stiffness(problem: wp.ref[Problem], data: wp.ref[Data]):
        """Add J^T J / R of all rows to s.H."""
        row_end = problem.bilateral.world_row[problem.world + 1]
        row = int(problem.bilateral.world_row[problem.world])
        while row < row_end:
            if problem.bilateral.R[row] > scalar(0.0):
                weight = row_term(problem.bilateral, row, data.slack[row])[2]
                start = problem.bilateral.row_entry[row]
                i_end = problem.bilateral.row_entry[row + 1]
                i = int(start + lane())
                while i < i_end:
                    e = problem.bilateral.entry_dof[i]
                    address = problem.contacts.hessian.entry[e] - problem.contacts.hessian.first[e]
                    j = int(start)
                    while j <= i:
                        a = address + problem.bilateral.entry_dof[j]
                        data.H[a] = data.H[a] + lscalar(weight * problem.bilateral.J[i] * problem.bilateral.J[j])
                        j += 1
                    i += lane_count()
            barrier()
            row += 1

    return SimpleNamespace(
        row_count=row_count,
        start_rows=start_rows,
        rows_cost=rows_cost,
        aim_rows=aim_rows,
        bounded_along=bounded_along,
        advance_rows=advance_rows,
        row_term=row_term,
        add_impulses=add_impulses,
        add_stiffness=add_stiffness,
    )
