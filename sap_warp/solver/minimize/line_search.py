"""The line searches: how far to go along a Newton direction d.

phi(alpha) = l(v + alpha d) is convex, phi'(0) < 0. `line_value` gives phi, phi' and phi'' at a trial step from the
contact rows, bounded constraint rows and bounded dof terms alone; all the rest is a parabola known in advance:

    m(alpha) = m0 + alpha m1 + alpha^2/2 m2

One lane on the CPU also counts those bounded dofs to it that keep clear of their bounds on the whole way
(`step.fold_terms`): nearly all do.

All lanes of a block hold the same values and take the same branches.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from ...core.kernels.lanes import is_native, lane, lane_count, make_block_sum, make_scalar_sum, native_twin
from ...core.kernels.spatial import make_spatial
from ...core.kernels.types import Types
from ...core.kernels.warps import first_lane, is_warp, make_from_lane, make_quarter_sum, quarter_bits
from ..objective.equations import make_constraint_terms
from ..objective.problem import Precisions, make_problem
from ..settings.options import LINE_SEARCHES
from ..terms.contact import EPSILON, make_track
from ..terms.dof import make_dof_terms

MONOTONE_DECAY = wp.constant(LINE_SEARCHES.index("monotone_decay"))
ARMIJO_DECAY = wp.constant(LINE_SEARCHES.index("armijo_decay"))
EXACT_ROOT = wp.constant(LINE_SEARCHES.index("exact_root"))
LOOSE_ROOT = wp.constant(LINE_SEARCHES.index("loose_root"))

MONOTONE_ABS_SLACK = 1e-14
MONOTONE_REL_SLACK = 1e-12
SINGLE_REL_SLACK = 2.0**-20
"""The same where the terms are in fp32: eight roundings. Less would ask costs for what they cannot tell, and steps are
halved until chance lets one pass."""
MONOTONE_MIN_STEP = 1e-8
EXACT_MAX_STEP = 1.5
EXACT_TOLERANCE = 1e-8
"""exact_root stops where |phi'| is this fraction of |phi'(0)| ..."""
LOOSE_TOLERANCE = 0.05
"""... and loose_root here: the next direction is a better use of the work than more digits of this step."""


@functools.cache
def make_cost_scratch(types: Types, cost: Types, Data: Any) -> Any:
    """``scratch(s)``: where a block sum in the precision of the cost may work."""
    if cost is types:

        @wp.func
        def scratch(data: wp.ref[Data]) -> wp.array(dtype=cost.vec3):
            return data.scratch

    else:

        @wp.func
        def scratch(data: wp.ref[Data]) -> wp.array(dtype=cost.vec3):
            return data.cost_scratch

    return scratch


@functools.cache
def make_line(precisions: Precisions) -> SimpleNamespace:
    """The cost along a line."""
    types, cost = precisions.types, precisions.cost
    scalar, vec3 = cost.scalar, cost.vec3
    term_scalar = types.scalar
    to_cost = make_spatial(cost).to_vec3
    Problem, Data = make_problem(precisions)
    evaluate_bounded = make_dof_terms(types).evaluate_bounded
    value_along = make_track(types).value_along
    bounded_along = make_constraint_terms(precisions).bounded_along
    block_sum, scratch = make_block_sum(vec3), make_cost_scratch(types, cost, Data)

    @wp.struct
    class Line:
        m0: scalar  # cost of momentum and of whatever else is a parabola, at alpha = 0 [J]
        m1: scalar
        m2: scalar
        b0: scalar  # the same of bounded dofs that are a parabola along this direction; one lane
        b1: scalar
        b2: scalar
        cost: scalar  # phi(0)
        slope: scalar  # phi'(0)

    @wp.struct
    class Step:
        alpha: scalar  # negative if the search failed
        cost: scalar  # phi(alpha)
        iterations: int

    @wp.func
    def folds(problem: wp.ref[Problem]) -> bool:
        """Whether it is worth while to find the dofs that are a parabola: for searches of several trials."""
        return is_native() and problem.options.line_search != MONOTONE_DECAY

    @wp.func
    def change_of_parabola(line: wp.ref[Line], alpha: scalar) -> scalar:
        """What is known in advance of the cost at a step, but m0."""
        if is_native():
            return line.b0 + alpha * (line.m1 + line.b1 + scalar(0.5) * alpha * (line.m2 + line.b2))
        return alpha * (line.m1 + scalar(0.5) * alpha * line.m2)

    @wp.func
    def tried_count(problem: wp.ref[Problem], data: wp.ref[Data]) -> int:
        """Bounded dofs that every trial step has to evaluate."""
        if folds(problem):
            return data.nonquadratic_count
        return data.bounded_count

    @wp.func
    def tried_dof(problem: wp.ref[Problem], data: wp.ref[Data], i: int) -> int:
        if folds(problem):
            return data.nonquadratic[i]
        return data.bounded[i]

    @wp.func
    def rows_along(problem: wp.ref[Problem], data: wp.ref[Data], alpha: scalar, first: int, lanes: int) -> vec3:
        """Cost, slope and curvature of the contact rows of one of ``lanes`` lanes, the one with number ``first``."""
        if is_native():
            return rows_along_native(problem, data, alpha, first, lanes)
        total = vec3()
        row = int(problem.row + first)
        while row < problem.row_end:
            total += to_cost(value_along(data.line_contact[row], term_scalar(alpha)))
            row += lanes
        return total

    along = f"contacts_along<{cost.c_name}, {types.c_name}>"
    call = f"""{cost.c_name} sums[3];
    sap::{along}(data.line_contact.data + problem.row, problem.row_end - problem.row, alpha, {EPSILON!r}, sums);
    return {{sums[0], sums[1], sums[2]}};"""
    rows_along_native = native_twin(rows_along, call, "return {};")

    @wp.func
    def line_value(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line], alpha: scalar) -> vec3:
        """phi, phi' and phi'' at one trial step."""
        total = rows_along(problem, data, alpha, lane(), lane_count())
        i_end = problem.first + tried_count(problem, data)
        i = int(problem.first + lane())
        while i < i_end:
            e = tried_dof(problem, data, i)
            de = data.dv[e]
            value = evaluate_bounded(
                problem.terms, data.active_terms[e], e, data.v[e] + term_scalar(alpha) * de, problem.h
            )
            value[1] = value[1] * de
            value[2] = value[2] * de * de
            total += to_cost(value)
            i += lane_count()
        if problem.bilateral.bounded != 0:
            total += to_cost(bounded_along(problem, data, term_scalar(alpha)))
        total = block_sum(total, scratch(data), problem.world)
        if is_native():
            total += vec3(scalar(0.0), line.b1 + alpha * line.b2, line.b2)
        return total + vec3(line.m0 + change_of_parabola(line, alpha), line.m1 + alpha * line.m2, line.m2)

    @wp.func
    def share_of_cost(problem: wp.ref[Problem], data: wp.ref[Data], alpha: scalar, first: int, lanes: int) -> scalar:
        """What is no parabola at a trial step: the share of one of ``lanes`` lanes, the one with number ``first``."""
        total = rows_along(problem, data, alpha, first, lanes)[0]
        i_end = problem.first + tried_count(problem, data)
        i = int(problem.first + first)
        while i < i_end:
            e = tried_dof(problem, data, i)
            total += scalar(
                evaluate_bounded(
                    problem.terms, data.active_terms[e], e, data.v[e] + term_scalar(alpha) * data.dv[e], problem.h
                )[0]
            )
            i += lanes
        if problem.bilateral.bounded != 0:  # by all lanes of the block
            total += scalar(bounded_along(problem, data, term_scalar(alpha))[0])
        return total

    return SimpleNamespace(
        Problem=Problem,
        Data=Data,
        Line=Line,
        Step=Step,
        scratch=scratch,
        folds=folds,
        change_of_parabola=change_of_parabola,
        line_value=line_value,
        share_of_cost=share_of_cost,
    )


@functools.cache
def make_monotone_decay(precisions: Precisions):
    """``monotone_decay(p, s, line) -> Step``."""
    types, cost = precisions.types, precisions.cost
    scalar = cost.scalar
    rel_slack = SINGLE_REL_SLACK if types.scalar is wp.float32 else MONOTONE_REL_SLACK
    F = make_line(precisions)
    Problem, Data, Line, Step, scratch = F.Problem, F.Data, F.Line, F.Step, F.scratch
    share_of_cost, change_of_parabola = F.share_of_cost, F.change_of_parabola
    quarter_sum, from_lane, step_from = make_quarter_sum(scalar), make_from_lane(scalar), make_from_lane(wp.float32)
    scalar_sum = make_scalar_sum(cost)

    @wp.func
    def decay_in_quarters(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line], bound: scalar) -> Step:
        """`monotone_decay` by one warp, of which each quarter of the lanes tries another step at the same time.

        Where there are more rows than a quarter has lanes, all lanes try the whole step first: it is most often the
        last one.
        """
        step = Step()
        step.alpha = scalar(-1.0)
        alpha = wp.float32(1.0)  # powers of two: exact, and fp32 is faster
        has_quarters = problem.bilateral.bounded == 0
        bits = int(quarter_bits() + 2)  # of the number of a lane among those that try the same step
        if has_quarters and wp.max(problem.row_end - problem.row, data.bounded_count) <= 1 << quarter_bits():
            bits = quarter_bits()
        while step.iterations < problem.options.line_iterations and alpha >= wp.float32(wp.static(MONOTONE_MIN_STEP)):
            quarter = lane() >> bits
            mine = alpha * wp.float32(wp.where((quarter & 1) != 0, 0.5, 1.0) * wp.where((quarter & 2) != 0, 0.25, 1.0))
            lanes = 1 << bits
            share = share_of_cost(problem, data, scalar(mine), lane() & (lanes - 1), lanes)
            cost = quarter_sum(share, bits > quarter_bits()) + line.m0 + change_of_parabola(line, scalar(mine))
            is_tried = step.iterations + quarter < problem.options.line_iterations
            is_tried = is_tried and mine >= wp.float32(wp.static(MONOTONE_MIN_STEP))
            winner = first_lane(is_tried and cost <= bound)
            if winner >= 0:
                step.iterations += (winner >> bits) + 1
                step.alpha = scalar(step_from(mine, winner))
                step.cost = from_lane(cost, winner)
                break
            untried = first_lane(not is_tried)
            step.iterations += wp.where(untried >= 0, untried, lane_count()) >> bits
            alpha *= wp.where(bits > quarter_bits(), wp.float32(0.5), wp.float32(0.0625))
            if has_quarters:
                bits = quarter_bits()
        return step

    @wp.func
    def monotone_decay(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]) -> Step:
        """Halve until the cost does not grow."""
        step = Step()
        step.alpha = scalar(-1.0)
        alpha = scalar(1.0)
        bound = line.cost + scalar(wp.static(MONOTONE_ABS_SLACK)) + scalar(wp.static(rel_slack)) * wp.abs(line.cost)
        if is_warp():
            return decay_in_quarters(problem, data, line, bound)
        while step.iterations < problem.options.line_iterations and alpha >= scalar(wp.static(MONOTONE_MIN_STEP)):
            step.iterations += 1
            share = share_of_cost(problem, data, alpha, lane(), lane_count())
            cost = scalar_sum(share, scratch(data), problem.world) + line.m0 + change_of_parabola(line, alpha)
            if cost <= bound:
                step.alpha = alpha
                step.cost = cost
                break
            alpha *= scalar(0.5)
        return step

    return monotone_decay


@functools.cache
def make_armijo_decay(precisions: Precisions):
    """``armijo_decay(p, s, line) -> Step``."""
    scalar, F = precisions.cost.scalar, make_line(precisions)
    Problem, Data, Line, Step, line_value = F.Problem, F.Data, F.Line, F.Step, F.line_value

    @wp.func
    def armijo_decay(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]) -> Step:
        """Scan 1/rho, 1, rho, ... for the first turn of the cost that satisfies Armijo's condition."""
        step = Step()
        step.alpha = scalar(-1.0)
        if -line.slope <= scalar(problem.options.slop) * wp.abs(line.cost):
            # What is left to gain is below the slop: no cost can tell steps apart, and the over-relaxed step would
            # overshoot by the same fraction again and again. Slopes still can: leave it to exact_root.
            return step
        rho = scalar(problem.options.rho)
        alpha = scalar(1.0) / rho
        value = line_value(problem, data, line, alpha)
        step.iterations = 1
        slop = scalar(problem.options.slop) * wp.max(
            scalar(1e-30), scalar(0.5) * (wp.abs(value[0]) + wp.abs(line.cost))
        )
        if value[1] <= slop:
            step.alpha = alpha
            step.cost = value[0]
            return step
        previous = value[0]
        previous_ok = previous <= line.cost + scalar(problem.options.armijo_c) * alpha * line.slope
        while step.iterations < problem.options.line_iterations:
            alpha *= rho
            step.iterations += 1
            cost = line_value(problem, data, line, alpha)[0]
            # near the minimum the decrease asked for drowns in round-off: allow for it
            ok = cost <= line.cost + scalar(problem.options.armijo_c) * alpha * line.slope + slop
            # A smaller step no longer helps: the minimum lies between this candidate and the one before.
            if previous - cost <= slop:
                if previous_ok and previous <= cost:
                    step.alpha = alpha / rho
                    step.cost = previous
                    return step
                if ok:
                    step.alpha = alpha
                    step.cost = cost
                    return step
            previous = cost
            previous_ok = ok
        if previous_ok:
            step.alpha = alpha
            step.cost = previous
        return step

    return armijo_decay


@functools.cache
def make_root_searches(precisions: Precisions) -> SimpleNamespace:
    """``loose_root(p, s, line) -> Step`` and ``exact_root``."""
    scalar, F = precisions.cost.scalar, make_line(precisions)
    Problem, Data, Line, Step, line_value = F.Problem, F.Data, F.Line, F.Step, F.line_value

    @wp.func
    def is_flat(problem: wp.ref[Problem], line: wp.ref[Line]) -> bool:
        """Whether what the slope promises is below the cost tolerance."""
        return -line.slope <= scalar(problem.options.cost_abs_tol) + scalar(problem.options.cost_rel_tol) * wp.abs(
            line.cost
        )

    @wp.func
    def loose_root(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]) -> Step:
        """The full step, unless it overshoots; else a root of phi' to a digit or two."""
        step = Step()
        step.alpha = scalar(-1.0)
        lower = scalar(0.0)
        upper = scalar(1.0)
        alpha = scalar(1.0)
        width = scalar(2.0)
        enough = scalar(wp.static(LOOSE_TOLERANCE)) * wp.abs(line.slope)
        while step.iterations < problem.options.line_iterations:
            step.iterations += 1
            value = line_value(problem, data, line, alpha)
            if wp.abs(value[1]) <= enough or (value[1] < scalar(0.0) and alpha >= upper):
                step.alpha = alpha
                step.cost = value[0]
                return step
            lower = wp.where(value[1] < scalar(0.0), alpha, lower)
            upper = wp.where(value[1] < scalar(0.0), upper, alpha)
            trial = alpha - value[1] / value[2]
            if not (trial > lower and trial < upper) or wp.abs(trial - alpha) > scalar(0.5) * width:
                trial = scalar(0.5) * (lower + upper)
            width = wp.abs(trial - alpha)
            alpha = trial
        return step

    @wp.func
    def exact_root(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]) -> Step:
        """Root of phi' on [0, 1.5] by Newton's method, safeguarded by bisection."""
        step = Step()
        step.alpha = scalar(1.0)
        if is_flat(problem, line):
            step.iterations = 1
            step.cost = line_value(problem, data, line, scalar(1.0))[0]
            return step
        upper = scalar(wp.static(EXACT_MAX_STEP))
        value = line_value(problem, data, line, upper)
        step.iterations = 1
        if value[1] <= scalar(0.0):
            step.alpha = upper
            step.cost = value[0]
            return step
        lower = scalar(0.0)
        alpha = wp.clamp(-line.slope / value[2], lower, upper)
        width = upper - lower
        step.alpha = scalar(-1.0)
        while step.iterations < problem.options.line_iterations:
            step.iterations += 1
            value = line_value(problem, data, line, alpha)
            if wp.abs(value[1]) <= scalar(wp.static(EXACT_TOLERANCE)) * wp.abs(line.slope):
                step.alpha = alpha
                step.cost = value[0]
                return step
            lower = wp.where(value[1] < scalar(0.0), alpha, lower)
            upper = wp.where(value[1] < scalar(0.0), upper, alpha)
            move = -value[1] / value[2]
            trial = alpha + move
            # bisect where Newton's method leaves the bracket, is not finite, or gains less than bisection would
            if not (trial > lower and trial < upper) or wp.abs(scalar(2.0) * move) > width:
                trial = scalar(0.5) * (lower + upper)
            width = wp.abs(trial - alpha)
            if trial == alpha or upper - lower <= scalar(wp.static(EXACT_TOLERANCE)) * upper:
                step.alpha = trial
                step.cost = line_value(problem, data, line, trial)[0]
                return step
            alpha = trial
        return step

    return SimpleNamespace(loose_root=loose_root, exact_root=exact_root)


@functools.cache
def make_line_search(precisions: Precisions):
    """``search(p, s, line) -> Step`` by the variant of the options."""
    scalar, F = precisions.cost.scalar, make_line(precisions)
    Problem, Data, Line, Step = F.Problem, F.Data, F.Line, F.Step
    monotone_decay, armijo_decay = make_monotone_decay(precisions), make_armijo_decay(precisions)
    roots = make_root_searches(precisions)
    loose_root, exact_root = roots.loose_root, roots.exact_root

    @wp.func
    def search(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]) -> Step:
        """Step length by the chosen variant."""
        if problem.options.line_search == MONOTONE_DECAY:
            return monotone_decay(problem, data, line)
        if problem.options.line_search == LOOSE_ROOT:
            return loose_root(problem, data, line)
        trials = int(0)
        if problem.options.line_search == ARMIJO_DECAY:
            step = armijo_decay(problem, data, line)
            if step.alpha > scalar(0.0):
                return step
            trials = step.iterations  # near the minimum, or a slip-stick transition below the end of the scan
        root = exact_root(problem, data, line)
        root.iterations = root.iterations + trials
        return root

    return search
