"""Steps of the iteration: where it starts, what is known of a direction, and the way along it.

A step is v <- v + alpha d with the alpha of the line search. At the start some are whole and free (`warm_start`).

Called by all lanes of a block.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.lanes import barrier, is_native, lane, lane_count, make_block_sum, native_twin
from ...core.kernels.packed_rows import make_multiply
from ...core.kernels.spatial import make_spatial
from ...core.kernels.warps import fits_a_warp
from ..objective.contacts import NATIVE_LAW, make_contact_terms, make_row_projections, make_velocities
from ..objective.equations import make_constraint_terms
from ..objective.problem import Precisions, make_problem
from ..objective.small_worlds import make_row_velocities
from ..terms.dof import PARABOLA, make_dof_terms
from .line_search import make_line
from .warm_start import make_hold_contacts, make_start_sliding


@functools.cache
def make_start_at_v0(precisions: Precisions, by_value: bool):
    """``start_at_v0(p, s, hold)``. ``by_value`` is that of `struct_parameter`: a call would need structs in memory."""
    called_twice = wp.func(inline=True) if by_value else wp.func
    dynamics, types = precisions.dynamics, precisions.types
    Problem, Data = make_problem(precisions)
    scalar, vec3, block_sum = types.scalar, types.vec3, make_block_sum(types.vec3)
    multiply, start_rows = make_multiply(dynamics, types), make_constraint_terms(precisions).start_rows
    velocities, row_velocities = make_velocities(precisions), make_row_velocities(precisions)
    body_velocities, relative_velocity = velocities.body_velocities, velocities.relative_velocity
    project_row, start_sliding = make_row_projections(precisions).project_row, make_start_sliding(precisions)

    @wp.func
    def start_rows_at(problem: wp.ref[Problem], data: wp.ref[Data], is_known: bool):
        """Where native code starts the rows, from the velocities of the bodies."""

    @wp.func
    def is_known(problem: wp.ref[Problem]) -> bool:
        """Whether kinematics has found the velocities of bodies at v0: nothing but dofs of the solve moves them."""
        if not is_native() or wp.static(dynamics is not types):
            return False
        return problem.layout.world_prescribed[problem.world] == problem.layout.world_prescribed[problem.world + 1]

    @called_twice
    def start_at_v0(problem: wp.ref[Problem], data: wp.ref[Data], hold: bool) -> bool:
        """Start from the incoming velocity, where A (v - v*) is minus free motion's impulse.

        With ``hold``, contacts that seem to slide begin as they were a step ago; returns whether there are any.
        """
        e = int(problem.first + lane())
        while e < problem.last:
            data.v[e] = scalar(problem.motion.v0[e])
            e += lane_count()
        barrier()
        multiply(
            problem.motion.A, problem.layout.rows, problem.first, problem.last - problem.first, data.v, data.A_v_star
        )
        e = int(problem.first + lane())
        while e < problem.last:
            Av = -scalar(problem.motion.impulse[e])
            data.momentum[e] = Av
            data.A_v_star[e] = data.A_v_star[e] - Av
            e += lane_count()
        is_small = fits_a_warp(problem.last - problem.first)
        if is_small:
            row_velocities(problem, data.v, data.vc)
        elif not is_known(problem):
            body_velocities(problem, data, data.v)
        kept = vec3()
        row = int(problem.row + lane())
        if wp.static(not by_value):
            if is_native():
                start_native(problem, data, is_known(problem))
                row = problem.row_end
        while row < problem.row_end:
            vc = problem.contacts.drift[row]
            if is_small:
                vc += data.vc[row]
            else:
                vc += relative_velocity(problem, data, row)
            data.vc[row] = vc
            data.projection[row] = project_row(problem, row, vc)
            row += lane_count()
        if hold:
            kept[0] = start_sliding(problem, data)
        start_rows(problem, data)
        barrier()
        return block_sum(kept, data.scratch, problem.world)[0] > scalar(0.0)

    call = "auto rows = sap::contact_rows(problem.contacts, data);\n"
    if dynamics is types:
        call += "if (is_known) { rows.Vw = problem.motion.Vw.data; rows.Vv = problem.motion.Vv.data; }\n"
    call += f"sap::start_contacts(rows, problem.row, problem.row_end, {NATIVE_LAW});"
    start_native = native_twin(start_rows_at, call)
    return start_at_v0


@functools.cache
def make_step(precisions: Precisions) -> SimpleNamespace:
    """``aim(p, s, line)`` and ``advance(p, s, line, step, goes_on)``."""
    types, cost = precisions.types, precisions.cost
    Problem, Data = make_problem(precisions)
    scalar, vec3, energy, to_cost = types.scalar, types.vec3, cost.scalar, make_spatial(cost).to_vec3
    along, sum_costs = make_line(precisions), make_block_sum(cost.vec3)
    Line, scratch, folds = along.Line, along.scratch, along.folds
    contacts, rows = make_contact_terms(precisions), make_constraint_terms(precisions)
    aim_contacts, advance_contacts = contacts.aim_contacts, contacts.advance_contacts
    aim_rows, advance_rows = rows.aim_rows, rows.advance_rows
    terms = make_dof_terms(types)
    evaluate_parabola, piece = terms.evaluate_parabola, terms.piece

    @wp.func
    def fold_terms(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]):
        """Split the terms with bounds: those that one parabola describes as far as a search may go, and a list."""
        total = cost.vec3()
        longest = scalar(problem.options.longest)
        data.nonquadratic_count = 0
        i_end = problem.first + data.bounded_count
        i = int(problem.first)
        while i < i_end:
            e = data.bounded[i]
            kind = data.active_terms[e]
            v = data.v[e]
            de = data.dv[e]
            if piece(problem.terms, kind, e, v) == piece(problem.terms, kind, e, v + longest * de):
                value = data.term[e]
                if (kind & PARABOLA) != 0:
                    value -= evaluate_parabola(problem.terms, e, v, problem.h)
                total += to_cost(vec3(value[0], value[1] * de, value[2] * de * de))
            else:
                data.nonquadratic[problem.first + data.nonquadratic_count] = e
                data.nonquadratic_count += 1
            i += 1
        line.b0 = total[0]
        line.b1 = total[1]
        line.b2 = total[2]

    @wp.func
    def aim(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]):
        """What the line search needs to know of the direction s.dv."""
        aim_contacts(problem, data)
        slopes = to_cost(aim_rows(problem, data))
        e = int(problem.first + lane())
        while e < problem.last:
            de = data.dv[e]
            share = vec3(data.momentum[e], data.A_dv[e], data.gradient[e]) * de
            if wp.static(cost is types):
                slopes += to_cost(share)
            if (data.active_terms[e] & PARABOLA) != 0:
                value = evaluate_parabola(problem.terms, e, data.v[e], problem.h)
                more = vec3(value[1], value[2] * de, scalar(0.0)) * de
                if wp.static(cost is types):
                    slopes += to_cost(more)
                else:
                    share += more
            if wp.static(cost is not types):  # one conversion for both
                slopes += to_cost(share)
            e += lane_count()
        if folds(problem):
            fold_terms(problem, data, line)
        slopes = sum_costs(slopes, scratch(data), problem.world)
        line.m1 = slopes[0]
        line.m2 = slopes[1]
        line.slope = slopes[2]

    @wp.func
    def advance(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line], step: energy, goes_on: bool):
        """V <- v + alpha d and all that follows; contact impulses only if the iteration goes on."""
        alpha = scalar(step)
        barrier()  # trial steps read v of others
        e = int(problem.first + lane())
        while e < problem.last:
            data.v[e] = data.v[e] + alpha * data.dv[e]
            data.momentum[e] = data.momentum[e] + alpha * data.A_dv[e]
            e += lane_count()
        advance_contacts(problem, data, alpha, goes_on)
        advance_rows(problem, data, alpha)
        barrier()
        line.m0 = line.m0 + step * (line.m1 + energy(0.5) * step * line.m2)

    return SimpleNamespace(aim=aim, advance=advance)


@functools.cache
def make_free_step(precisions: Precisions) -> SimpleNamespace:
    """``overshoots(p, s, line)`` and ``advance_freely(p, s, hold)``."""
    types, cost = precisions.types, precisions.cost
    Problem, Data = make_problem(precisions)
    scalar, energy, along = types.scalar, cost.scalar, make_line(precisions)
    Line, line_value, advance_rows = along.Line, along.line_value, make_constraint_terms(precisions).advance_rows
    held = make_hold_contacts(precisions)
    any_overshoots, hold_contacts = held.any_overshoots, held.hold_contacts

    @wp.func
    def overshoots(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]) -> bool:
        """Whether the whole of s.dv turns the slip of contacts round, and ends steeper than it began."""
        if any_overshoots(problem, data):
            return line_value(problem, data, line, energy(1.0))[1] > -line.slope
        return False

    @wp.func
    def advance_freely(problem: wp.ref[Problem], data: wp.ref[Data], hold: bool) -> bool:
        """V <- v + d; returns whether contacts are held there because they overshot, see `warm_start`."""
        barrier()
        e = int(problem.first + lane())
        while e < problem.last:
            data.v[e] = data.v[e] + data.dv[e]
            data.momentum[e] = data.momentum[e] + data.A_dv[e]
            e += lane_count()
        holds = hold_contacts(problem, data, hold)
        advance_rows(problem, data, scalar(1.0))
        barrier()
        return holds

    return SimpleNamespace(overshoots=overshoots, advance_freely=advance_freely)
