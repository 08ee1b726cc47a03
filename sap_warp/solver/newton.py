"""Stage 4: the Newton solve of the convex objective, one world per block, from guess to velocity in one kernel.

l(v) = 1/2 (v - v*)^T A (v - v*) + sum over contact rows l_c(vc(v)) + sum over dofs l_k(v_k)
       + sum over bilateral rows l_b(J_b v)

start      v0, and up to three whole steps in which contacts are held that seem to stick     `held_contacts`
iterate    H d = -g,  v <- v + alpha d                  `objective`, `packed_rows`, `line_search`
stop       |D g| <= abs_tol + rel_tol max(|D A v|, |D j|), D = diag(A)^(-1/2), j all impulses of the terms
or |l_new - l_old| <= cost_abs_tol + cost_rel_tol (l_new + l_old)/2

Gradient and Hessian need A (v - v*), which follows from the impulse of free motion, but not v* itself, and finding it
is a tenth of a step. Only the size of the cost depends on it, by the momentum's share at the start, for which there is
a lower bound. A cost criterion that is met with the bound is met in truth; only where it is not, v* is found.
"""

import functools
from typing import Any

import numpy as np
import warp as wp

from ..kernels.lanes import barrier, lane, make_block_sum
from ..kernels.launch import WorldRange, solver_kernel
from ..kernels.packed_rows import make_multiply, make_shifted, make_solve
from ..kernels.scratch import Scratch, make_window, world_starts
from ..kernels.spatial import make_spatial
from ..kernels.structs import StructArgument, allocate_arrays, make_flat, struct_parameter
from ..kernels.types import TYPES, Types
from ..kernels.warps import assume_fits_a_warp, count_lanes, fits_a_warp, lanes_before
from .constraint_terms import make_constraint_terms
from .free_motion import motion_types
from .integrate import integration_mode
from .layout import LayoutSizes
from .line_search import MONOTONE_DECAY, make_line_search
from .objective import make_objective
from .options import LINE_SEARCHES
from .solve_data import SCRATCH, NewtonOptions, make_problem
from .stability import STILL, make_stability
from .status import DIVERGED, FACTORIZATION_FAILED, FREE_MOTION_FAILED, ITERATION_LIMIT, LINE_SEARCH_FAILED, UNSTABLE
from .stiffness import SIZE as STIFFNESS_SIZE
from .terms.dof import FAR_LOWER, FAR_UPPER, LOWER, PARABOLA, TERMS, UPPER, make_dof_terms

LARGEST_SPEED = 1e15
"""A world that moves faster has diverged [m/s or rad/s]; products of such numbers would overflow an fp32 state."""
MAX_REGISTERS = 128
"""Of a lane on CUDA: twice as many worlds run at a time as with all that ptxas likes to take, see docs/cuda.md."""
FREE_STEPS = 3
"""Iterations of a solve that may be free, see `held_contacts`."""
LONG_STEP = 0.5
"""Only a longer step may end the iteration by its gain: a short one changes the cost little however far the minimum."""


@functools.cache
def make_solve_kernel(
    dynamics: Types,
    types: Types,
    linear: Types,
    pose: Types,
    cost: Types,
    by_value: bool,
    all_fit: bool = False,
    line_search: int | None = None,
):
    """The kernel of the stage; functions are called by all lanes of a block.

    Precisions are those of `make_problem` and `make_line_search`, ``by_value`` that of `struct_parameter`. With
    ``all_fit`` the kernel is for small worlds only, as `warps.fits_a_warp` means it, with ``line_search`` for one of
    `LINE_SEARCHES`, by its number: on CUDA each leaves a third of the code and of the spilled registers out.
    """
    structs = make_problem(dynamics, types, linear, pose)
    Problem, Data, Terms = structs.Problem, structs.Data, structs.Terms
    F = make_objective(dynamics, types, linear, pose, by_value)
    start_at_v0, gradient, hessian, newton_direction = F.start_at_v0, F.gradient, F.hessian, F.newton_direction
    aim_contacts, advance_contacts = F.aim_contacts, F.advance_contacts
    any_overshoots, hold_contacts = F.any_overshoots, F.hold_contacts
    rows = make_constraint_terms(dynamics, types, linear, pose)
    row_count, rows_cost, aim_rows, advance_rows = rows.row_count, rows.rows_cost, rows.aim_rows, rows.advance_rows
    dof_terms = make_dof_terms(types)
    evaluate_parabola, evaluate_bounded = dof_terms.evaluate_parabola, dof_terms.evaluate_bounded
    along = make_line_search(dynamics, types, linear, pose, cost)
    Line, scratch, search, line_value = along.Line, along.scratch, along.search, along.line_value
    energy, costs, to_cost = cost.scalar, cost.vec3, make_spatial(cost).to_vec3
    sum_costs = make_block_sum(costs)
    has_excess_energy = make_stability(dynamics, types, linear, pose)
    multiply, solve, shifted = make_multiply(dynamics, types), make_solve(linear), make_shifted(linear)
    scalar, vec3, lscalar = types.scalar, types.vec3, linear.scalar
    block_sum = make_block_sum(vec3)
    flat_problem, flat_data, window = make_flat(Problem), make_flat(Data), make_window(Data, SCRATCH)
    problem_type, read_problem = struct_parameter(Problem, by_value)
    data_type, read_data = struct_parameter(Data, by_value)

    @wp.struct
    class Outcome:
        status: int
        iterations: int
        trials: int
        residual: scalar

    @wp.struct
    class Cost:
        """What is known of the momentum's cost 1/2 p^T A^-1 p where costs are first counted."""

        is_counted: int
        is_known: int
        momentum: energy  # or, as long as it is not known, a lower bound
        moved: energy  # how much more it is than at v0

    @wp.func
    def find_v_star(p: wp.ref[Problem], s: wp.ref[Data]) -> energy:
        """Solve A x = impulse for s.direction = v* - v0; returns 1/2 x^T A x, or -1 if A is not positive definite.

        A takes the room of the Hessian, in its own rows: they are not widened by contacts.
        """
        shift = p.layout.world_hessian[p.world] - p.layout.world_entry[p.world]
        i_end = p.layout.world_entry[p.world + 1]
        i = int(p.layout.world_entry[p.world] + lane())
        while i < i_end:
            s.H[i + shift] = lscalar(p.motion.A[i])
            i += wp.block_dim()
        e = int(p.first + lane())
        while e < p.last:
            s.direction[e] = lscalar(p.motion.impulse[e])
            e += wp.block_dim()
        barrier()
        A = shifted(s.H, shift)
        if solve(A, p.layout.rows, p.first, p.last - p.first, 0, s.direction) == 0:
            return energy(-1.0)
        total = costs()
        e = int(p.first + lane())
        while e < p.last:
            total[0] += energy(scalar(0.5) * scalar(p.motion.impulse[e]) * scalar(s.direction[e]))
            e += wp.block_dim()
        return sum_costs(total, scratch(s), p.world)[0]

    @wp.func
    def is_optimal(p: wp.ref[Problem], s: wp.ref[Data], r: wp.ref[Outcome]) -> bool:
        """The optimality criterion at s.v; DIVERGED if the gradient is not finite."""
        norms = gradient(p, s)
        size = wp.sqrt(norms[0])
        scale = wp.sqrt(wp.max(norms[1], norms[2]))
        r.residual = size / wp.max(scale, scalar(1e-30))
        if not wp.isfinite(size):  # whatever is not finite of the state or of a force gets here by the impulse
            r.status = DIVERGED
        return size <= scalar(p.options.abs_tol) + scalar(p.options.rel_tol) * scale

    @wp.func
    def cost_at_start(p: wp.ref[Problem], s: wp.ref[Data], line: wp.ref[Line], known: wp.ref[Cost]):
        """The cost where it is first counted: what is a parabola along any direction, and the rest.

        Of the momentum's cost 1/2 p^T A^-1 p two lower bounds follow from x = p^2/A_ee. Half the largest x is one, and
        the mean of all x, each weighted with itself, is not larger. Half the sum of all x over the number of dofs of a
        tree is another: scaled to a diagonal of ones, A has no larger eigenvalue than that.
        """
        known.is_counted = 1
        total = costs()
        size = costs()
        e = int(p.first + lane())
        while e < p.last:
            if known.is_known != 0:
                total[2] += energy(scalar(0.5) * s.p[e] * (s.v[e] - scalar(p.motion.v_star[e])))
            else:
                x = s.p[e] * s.p[e] * scalar(p.motion.inverse_diagonal[e])
                size += costs(energy(x), energy(x) * energy(x), energy(0.0))
            kind = s.kind[e]
            if (kind & PARABOLA) != 0:
                total[0] += energy(evaluate_parabola(p.terms, e, s.v[e], p.h)[0])
            if (kind & ~PARABOLA) != 0:
                total[1] += energy(evaluate_bounded(p.terms, kind, e, s.v[e], p.h)[0])
            e += wp.block_dim()
        row = int(p.row + lane())
        while row < p.row_end:
            total[1] += energy(s.projection[row].cost)
            row += wp.block_dim()
        if row_count(p) > 0:
            total += to_cost(rows_cost(p, s))
        total = sum_costs(total, scratch(s), p.world)
        known.momentum = total[2]
        if known.is_known == 0:
            size = sum_costs(size, scratch(s), p.world)
            if size[0] > energy(0.0):
                known.momentum = energy(0.5) * wp.max(size[0] / energy(p.options.widest), size[1] / size[0])
        line.m0 = total[0] + known.momentum
        line.cost = line.m0 + total[1]

    @wp.func
    def know_cost(p: wp.ref[Problem], s: wp.ref[Data], line: wp.ref[Line], known: wp.ref[Cost]):
        """Replace the lower bound in the cost by the truth."""
        if known.is_known == 0:
            true_cost = find_v_star(p, s)
            if true_cost >= energy(0.0):  # else the Hessian will show what is wrong with A
                true_cost += known.moved
                line.m0 = line.m0 + (true_cost - known.momentum)
                line.cost = line.cost + (true_cost - known.momentum)
            known.is_known = 1

    @wp.func
    def aim(p: wp.ref[Problem], s: wp.ref[Data], line: wp.ref[Line]):
        """What the line search needs to know of the direction s.dv."""
        aim_contacts(p, s)
        slopes = to_cost(aim_rows(p, s))
        e = int(p.first + lane())
        while e < p.last:
            de = s.dv[e]
            share = vec3(s.p[e], s.A_dv[e], s.gradient[e]) * de
            if wp.static(cost is types):
                slopes += to_cost(share)
            if (s.kind[e] & PARABOLA) != 0:
                value = evaluate_parabola(p.terms, e, s.v[e], p.h)
                more = vec3(value[1], value[2] * de, scalar(0.0)) * de
                if wp.static(cost is types):
                    slopes += to_cost(more)
                else:
                    share += more
            if wp.static(cost is not types):  # one conversion for both
                slopes += to_cost(share)
            e += wp.block_dim()
        slopes = sum_costs(slopes, scratch(s), p.world)
        line.m1 = slopes[0]
        line.m2 = slopes[1]
        line.slope = slopes[2]

    @wp.func
    def advance(p: wp.ref[Problem], s: wp.ref[Data], line: wp.ref[Line], step: energy, goes_on: bool):
        """V <- v + alpha d and all that follows; contact impulses only if the iteration goes on."""
        alpha = scalar(step)
        barrier()  # trial steps read v of others
        e = int(p.first + lane())
        while e < p.last:
            s.v[e] = s.v[e] + alpha * s.dv[e]
            s.p[e] = s.p[e] + alpha * s.A_dv[e]
            e += wp.block_dim()
        advance_contacts(p, s, alpha, goes_on)
        advance_rows(p, s, alpha)
        barrier()
        line.m0 = line.m0 + step * (line.m1 + energy(0.5) * step * line.m2)

    @wp.func
    def overshoots(p: wp.ref[Problem], s: wp.ref[Data], line: wp.ref[Line]) -> bool:
        """Whether the whole of s.dv turns the slip of contacts round, and ends steeper than it began."""
        if any_overshoots(p, s):
            return line_value(p, s, line, energy(1.0))[1] > -line.slope
        return False

    @wp.func
    def momentum_gain(p: wp.ref[Problem], s: wp.ref[Data]) -> energy:
        """Change of the momentum's cost along the whole of s.dv."""
        total = costs()
        e = int(p.first + lane())
        while e < p.last:
            total[0] += energy(s.dv[e] * (s.p[e] + scalar(0.5) * s.A_dv[e]))
            e += wp.block_dim()
        return sum_costs(total, scratch(s), p.world)[0]

    @wp.func
    def advance_freely(p: wp.ref[Problem], s: wp.ref[Data], hold: bool) -> bool:
        """V <- v + d; returns whether contacts are held there because they overshot, see `held_contacts`."""
        barrier()
        e = int(p.first + lane())
        while e < p.last:
            s.v[e] = s.v[e] + s.dv[e]
            s.p[e] = s.p[e] + s.A_dv[e]
            e += wp.block_dim()
        holds = hold_contacts(p, s, hold)
        advance_rows(p, s, scalar(1.0))
        barrier()
        return holds

    @wp.func
    def is_enough(p: wp.ref[Problem], gain: energy, cost: energy) -> bool:
        """The cost criterion, after a step that lowered the cost by ``gain`` to ``cost``."""
        mean = energy(0.5) * (wp.abs(cost) + wp.abs(cost + gain))
        return wp.abs(gain) < energy(p.options.cost_abs_tol) + energy(p.options.cost_rel_tol) * mean

    @wp.func
    def is_settled(
        p: wp.ref[Problem], s: wp.ref[Data], line: wp.ref[Line], known: wp.ref[Cost], alpha: energy, gain: energy
    ) -> bool:
        """Whether a step that lowered the cost by ``gain`` to line.cost is the last one."""
        if alpha <= energy(wp.static(LONG_STEP)):
            return False
        if not is_enough(p, gain, line.cost) and p.options.cost_rel_tol > wp.float64(0.0):
            know_cost(p, s, line, known)
        return is_enough(p, gain, line.cost)

    @wp.func
    def move_freely(p: wp.ref[Problem], s: wp.ref[Data]) -> int:
        """v* is the answer of a world without any term; returns its status."""
        status = int(0)
        keep_velocity(p, s)
        multiply(p.motion.A, p.layout.rows, p.first, p.last - p.first, s.v, s.A_v_star)
        if p.motion.solved == 0:
            if find_v_star(p, s) < energy(0.0):
                status = FREE_MOTION_FAILED
        e = int(p.first + lane())
        while e < p.last:
            s.A_v_star[e] = s.A_v_star[e] + scalar(p.motion.impulse[e])
            s.p[e] = scalar(0.0)
            v = scalar(p.motion.v0[e])
            if p.motion.solved != 0:
                v = scalar(p.motion.v_star[e])
            elif status == 0:
                v = scalar(p.motion.v0[e] + wp.float64(s.direction[e]))
            s.v[e] = v
            e += wp.block_dim()
        barrier()
        return status

    @wp.func
    def is_free(p: wp.ref[Problem], s: wp.ref[Data]) -> bool:
        """Whether a world has no term at all."""
        return p.row == p.row_end and s.term_count == 0 and row_count(p) == 0

    @wp.func
    def list_terms_in_warp(p: wp.ref[Problem], s: wp.ref[Data]):
        """`list_terms` where each dof has a lane."""
        e = p.first + lane()
        kind = int(0)
        if e < p.last:
            kind = s.kind[e]
        is_bounded = kind != 0 and kind != PARABOLA
        s.term_count = count_lanes(kind != 0)
        s.bounded_count = count_lanes(is_bounded)
        place = p.first + lanes_before(is_bounded)
        if is_bounded:
            s.bounded[place] = e
        barrier()

    @wp.func
    def list_terms(p: wp.ref[Problem], s: wp.ref[Data]):
        """Pack the dofs that have terms with bounds, and count those that have any."""
        if fits_a_warp(p.last - p.first):
            list_terms_in_warp(p, s)
            return
        barrier()
        s.term_count = 0
        s.bounded_count = 0
        e = int(p.first)
        while e < p.last:  # every lane counts, one writes
            kind = s.kind[e]
            if kind != 0:
                s.term_count += 1
                if kind != PARABOLA:
                    if lane() == 0:
                        s.bounded[p.first + s.bounded_count] = e
                    s.bounded_count += 1
            e += 1
        barrier()

    @wp.func
    def choose_terms(p: wp.ref[Problem], s: wp.ref[Data]):
        """The terms that take part; bounds that only v* might reach are left out."""
        e = int(p.first + lane())
        while e < p.last:
            s.kind[e] = p.terms.kind[e] & TERMS
            e += wp.block_dim()
        list_terms(p, s)

    @wp.func
    def is_crossed(t: wp.ref[Terms], kind: int, active: int, e: int, v: scalar) -> bool:
        """Whether v crosses a far bound of dof e that takes no part yet."""
        if (kind & (FAR_LOWER | FAR_UPPER)) == 0:
            return False
        lower = (kind & FAR_LOWER) != 0 and (active & LOWER) == 0 and v < t.limit_lower[e]
        return lower or ((kind & FAR_UPPER) != 0 and (active & UPPER) == 0 and -v < t.limit_upper[e])

    @wp.func
    def admit_limits(p: wp.ref[Problem], s: wp.ref[Data]) -> bool:
        """If the result crosses a far bound: let those take part that v* reaches; whether there are any."""
        crossed = vec3()
        e = int(p.first + lane())
        while e < p.last:
            if is_crossed(p.terms, p.terms.kind[e], s.kind[e], e, s.v[e]):
                crossed[0] += scalar(1.0)
            e += wp.block_dim()
        crossed = block_sum(crossed, s.scratch, p.world)
        if crossed[0] == scalar(0.0):
            return False
        admitted = vec3()
        if find_v_star(p, s) >= energy(0.0):
            e = int(p.first + lane())
            while e < p.last:
                kind = p.terms.kind[e]
                speed = p.terms.limit_reach[e] * wp.abs(scalar(p.motion.v0[e] + wp.float64(s.direction[e])))
                near = wp.where((kind & FAR_LOWER) != 0 and -p.terms.limit_lower[e] <= speed, LOWER, 0)
                near = near | wp.where((kind & FAR_UPPER) != 0 and -p.terms.limit_upper[e] <= speed, UPPER, 0)
                if (near & ~s.kind[e]) != 0:
                    s.kind[e] = s.kind[e] | near
                    admitted[0] += scalar(1.0)
                e += wp.block_dim()
            list_terms(p, s)
        return block_sum(admitted, s.scratch, p.world)[0] > scalar(0.0)

    @wp.func
    def choose_world(p: wp.ref[Problem], s: wp.ref[Data], world: int, dt: wp.float64):
        """Point everything to one world."""
        p.world = world
        p.first = p.layout.world_dof[world]
        p.last = p.layout.world_dof[world + 1]
        p.row = world * p.contacts.capacity
        p.row_end = p.row + p.contacts.count[world]
        p.h = scalar(dt)
        starts = world_starts(s.slot, p.layout.world_body[world], p.first, p.row, p.layout.world_hessian[world])
        window(s, starts)

    @wp.func
    def write_velocity(p: wp.ref[Problem], s: wp.ref[Data]) -> vec3:
        """The result in Newton's order; returns the sum of all speeds first."""
        e = int(p.layout.world_prescribed[p.world] + lane())
        e_end = p.layout.world_prescribed[p.world + 1]
        while e < e_end:
            s.velocity[p.layout.dof_newton[e]] = p.motion.v0[e]
            e += wp.block_dim()
        speed = scalar(0.0)
        e = int(p.first + lane())
        while e < p.last:
            v = s.v[e]
            s.velocity[p.layout.dof_newton[e]] = wp.float64(v)
            speed += wp.abs(v)
            e += wp.block_dim()
        return block_sum(vec3(speed, scalar(0.0), scalar(0.0)), s.scratch, p.world)

    @wp.func
    def keep_velocity(p: wp.ref[Problem], s: wp.ref[Data]):
        """What free motion cannot make sense of keeps its state."""
        e = int(p.first + lane())
        while e < p.last:
            s.v[e] = scalar(p.motion.v0[e])
            e += wp.block_dim()
        barrier()

    @wp.func
    def store_outcome(p: wp.ref[Problem], s: wp.ref[Data], r: wp.ref[Outcome]):
        speed = write_velocity(p, s)[0]
        if not (speed <= scalar(wp.static(LARGEST_SPEED))) and r.status < FREE_MOTION_FAILED:
            r.status = DIVERGED
        if speed > scalar(wp.static(STILL)) and r.status < FREE_MOTION_FAILED:
            if has_excess_energy(p, s) and r.status == 0:
                r.status = UNSTABLE
        elif lane() == 0:
            p.motion.watched[p.world] = 0
        if lane() == 0:
            s.status[p.world] = r.status
            s.iterations[p.world] = r.iterations
            s.line_iterations[p.world] = r.trials
            s.residual[p.world] = wp.float64(r.residual)

    @wp.func
    def solve_world(world: int, problem: problem_type, data: data_type, dt: wp.float64):
        """Newton's method. Problem and data are local: functions that are inlined find them in registers."""
        p = read_problem(problem)
        s = read_data(data)
        choose_world(p, s, world, dt)
        if wp.static(all_fit):
            assume_fits_a_warp(p.last - p.first)
        if wp.static(line_search is not None):
            p.options.line_search = wp.static(line_search)
        flat_problem(p)
        flat_data(s)
        r = Outcome()
        r.status = p.motion.status[world]
        going = r.status == 0
        if going:
            choose_terms(p, s)
        else:
            keep_velocity(p, s)
        while going:
            if is_free(p, s):
                r.status = move_freely(p, s)
            else:
                line = Line()
                known = Cost()
                known.is_known = p.motion.solved
                free_steps = wp.min(wp.static(FREE_STEPS), p.options.max_iterations - 1)
                # while contacts are held, gradient and Hessian are not those of the cost
                holds = start_at_v0(p, s, r.iterations < free_steps)
                while not is_optimal(p, s, r) or holds:
                    if r.status == DIVERGED:
                        break
                    if r.iterations >= p.options.max_iterations:
                        r.status = ITERATION_LIMIT
                        break
                    hessian(p, s)
                    if newton_direction(p, s) == 0:
                        if holds:  # see whether it is for that
                            holds = start_at_v0(p, s, False)
                            known.moved = energy(0.0)
                            continue
                        r.status = FACTORIZATION_FAILED
                        break
                    aim(p, s, line)
                    if known.is_counted == 0:
                        if holds or (r.iterations < free_steps and overshoots(p, s, line)):
                            known.moved += momentum_gain(p, s)
                            r.iterations += 1
                            holds = advance_freely(p, s, r.iterations < free_steps)
                            continue
                        cost_at_start(p, s, line, known)
                    if p.options.line_search != MONOTONE_DECAY and p.options.cost_rel_tol > wp.float64(0.0):
                        know_cost(p, s, line, known)  # these compare with the size of the cost
                    step = search(p, s, line)
                    r.trials += step.iterations
                    if not (step.alpha > energy(0.0)) or not wp.isfinite(step.cost):
                        r.status = LINE_SEARCH_FAILED
                        break
                    gain = line.cost - step.cost
                    line.cost = step.cost
                    settled = is_settled(p, s, line, known, step.alpha, gain)
                    advance(p, s, line, step.alpha, not settled)
                    r.iterations += 1
                    if settled:
                        break
                if r.status == FACTORIZATION_FAILED and known.is_known == 0:  # it may be A's fault
                    if find_v_star(p, s) < energy(0.0):
                        r.status = FREE_MOTION_FAILED
            going = r.status == 0 and p.motion.solved == 0
            if going:
                going = admit_limits(p, s)
        store_outcome(p, s, r)

    def newton_solve(first_world: int, problem: problem_type, data: data_type, dt: wp.float64):
        solve_world(first_world + wp.tid() // wp.block_dim(), problem, data, dt)

    return solver_kernel(newton_solve, MAX_REGISTERS if by_value else None)


def solve_types(options: Any) -> tuple[Types, Types, Types, Types]:
    """The precisions of `make_problem`: all that the kernel depends on."""
    motion, pose = motion_types(options)
    return motion, TYPES[options.contact_solve_precision], TYPES[options.contact_linear_solve_precision], pose


def cost_types(options: Any) -> Types:
    """The precision of costs, as `make_line_search` takes it."""
    return TYPES[options.cost_precision]


class SapContactSolve:
    """Owns the buffers of the solve and the per-world statistics of the last step."""

    def __init__(
        self,
        model: Any,
        layout: Any,
        sizes: LayoutSizes,
        options: Any,
        contact_jacobian: Any,
        constraints: Any,
        lanes: int,
    ):
        """Allocate everything once; ``lanes`` share a world."""
        self.model = model
        self.precisions = solve_types(options)
        self.types = self.precisions[1]
        self.integration = integration_mode(options)
        motion = contact_jacobian.free_motion
        structs = make_problem(*self.precisions)
        self.problem: Any = structs.Problem()
        self.problem.layout, self.problem.motion, self.problem.options = layout, motion.data, _options(options, layout)
        self.problem.contacts, self.problem.terms = contact_jacobian.data, contact_jacobian.terms
        self.problem.bilateral = constraints.data
        self.data: Any = structs.Data()
        scratch = Scratch(layout, sizes, model.device, contact_jacobian.capacity)
        allocate_arrays(self.data, self._counts(scratch, sizes, constraints, lanes), 0, model.device)
        self.data.slot, self._max_blocks = scratch.slot, scratch.max_blocks
        self.status, self.residual = self.data.status, self.data.residual
        self.iterations, self.line_search_iterations = self.data.iterations, self.data.line_iterations
        self.velocity = self.data.velocity
        """The minimizer, sap order, Newton's dof numbering."""
        self._kept = [StructArgument(struct, model.device) for struct in (self.problem, self.data)]
        self.arguments = [argument.array for argument in self._kept]
        """Problem and data, for kernels."""
        on_cuda = not model.device.is_cpu
        all_fit = on_cuda and layout.has_chains == 0
        search = self.problem.options.line_search if on_cuda else None
        self.kernel = make_solve_kernel(*self.precisions, cost_types(options), on_cuda, all_fit, search)

    def _counts(self, scratch: Scratch, sizes: LayoutSizes, constraints: Any, lanes: int) -> Any:
        """Entries of all arrays of `data`."""
        entries = {
            "body": scratch.body_count,
            "48 * body": STIFFNESS_SIZE * scratch.body_count,
            "dof": scratch.dof_count,
            "6 * dof": 6 * scratch.dof_count,
            "row": scratch.row_count,
            "hessian": scratch.hessian_count,
        }
        counts = {name: entries[first] for name, first in SCRATCH}
        counts |= dict.fromkeys(("v", "gradient", "dv"), sizes.dof_count)
        counts |= {"vc": scratch.slot.row * sizes.world_count, "slack": constraints.count, "dslack": constraints.count}
        counts |= dict.fromkeys(("status", "iterations", "line_iterations", "residual", "energy"), sizes.world_count)
        # lanes of one warp add by shuffles, and one lane has nothing to add
        sums = 0 if lanes == 1 or (lanes == 32 and not self.model.device.is_cpu) else sizes.world_count * lanes
        return counts | {"scratch": sums, "cost_scratch": sums, "velocity": self.model.joint_dof_count}

    def solve(self, dt: float, worlds: WorldRange) -> None:
        """Minimize the objective of ``worlds``. What was prepared does not change: a second time gives the same."""
        problem, data = (kept.best for kept in self._kept)
        worlds.launch(self.kernel, problem, data, dt, device=self.model.device, max_blocks=self._max_blocks)


def _options(options: Any, layout: Any) -> Any:
    result: Any = NewtonOptions()
    result.max_iterations = options.max_iterations
    result.abs_tol, result.rel_tol = options.optimality_abs_tol, options.optimality_rel_tol
    result.cost_abs_tol, result.cost_rel_tol = options.cost_tolerances
    result.line_search = LINE_SEARCHES.index(options.line_search_variant)
    result.line_iterations = options.line_search_iterations
    result.armijo_c, result.rho, result.slop = options.armijo_c, options.rho, options.line_search_slop
    first = layout.rows.first.numpy()
    result.widest = float((np.arange(len(first)) - first).max(initial=0) + 1)
    return result
