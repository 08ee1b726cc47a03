"""Stage 4: the Newton solve of the convex objective, one world per block, from guess to velocity in one kernel.

l(v) = 1/2 (v - v*)^T A (v - v*) + sum over contact rows l_c(vc(v)) + sum over dofs l_k(v_k)
       + sum over bilateral rows l_b(J_b v)

iterate    H d = -g,  v <- v + alpha d                  `objective`, `block.make_cholesky`, `line_search`
stop       |D g| <= abs_tol + rel_tol max(|D A v|, |D j|), D = diag(A)^(-1/2), j all impulses of the terms
or |l_new - l_old| <= cost_abs_tol + cost_rel_tol (l_new + l_old)/2

Gradient and Hessian need A (v - v*), which follows from the impulse of free motion, but not v* itself, and finding it
is a tenth of a step. So it is found in the same loop, where a world asks for it: one without any term, whose answer it
is; one whose cost criterion depends on the true size of the cost; one whose result crosses a joint limit that seemed
too far away to take part.
"""

import functools
from typing import Any

import numpy as np
import warp as wp

from ..kernels.lanes import barrier, lane
from ..kernels.launch import solver_kernel
from ..kernels.structs import Scratch, StructArgument, make_flat, make_window
from ..kernels.types import TYPES, Types
from .block import make_cholesky, make_copy
from .layout import Layout, LayoutSizes
from .line_search import EXACT_ROOT, SearchOptions, make_line_search
from .objective import SCRATCH, make_objective, make_solve_data
from .options import LINE_SEARCHES
from .parts import Part
from .status import DIVERGED, FACTORIZATION_FAILED, FREE_MOTION_FAILED, ITERATION_LIMIT, LINE_SEARCH_FAILED
from .stiffness import SIZE as STIFFNESS_SIZE
from .terms.dof import PARABOLA, make_dof_terms
from .watched_limits import make_watched_limits

LARGEST_SPEED = 1e15
"""A world that moves faster has diverged [m/s or rad/s]; products of such numbers would overflow an fp32 state."""


@wp.struct
class NewtonOptions:
    """Limits and tolerances of the iteration."""

    max_iterations: int
    abs_tol: wp.float64
    rel_tol: wp.float64
    cost_abs_tol: wp.float64
    cost_rel_tol: wp.float64
    widest: wp.float64  # dofs of the largest tree


AIM = wp.constant(0)
SEARCH = wp.constant(1)
ASK = wp.constant(2)
CHECK = wp.constant(3)
END = wp.constant(4)
"""What a world does next: find the Newton direction, go along it, find v*, look for limits that it crosses, or stop."""


@functools.cache
def make_solve_kernel(dynamics: Types, types: Types, linear: Types, pose: Types):
    """The kernel of the stage."""
    F = make_objective(dynamics, types, linear, pose)
    FreeMotion, Contacts, Terms, Solve = F.FreeMotion, F.Contacts, F.Terms, F.Solve
    start_at, gradient, hessian = F.start_at, F.gradient, F.hessian
    aim_at, advance_contacts = F.aim_at, F.advance_contacts
    dof_terms = make_dof_terms(types)
    evaluate_parabola, evaluate_bounded = dof_terms.evaluate_parabola, dof_terms.evaluate_bounded
    multiply, block_sum = F.multiply, F.block_sum
    Rows, row_count, start_rows = F.rows.Rows, F.rows.row_count, F.rows.start_rows
    aim_rows, advance_rows = F.rows.aim_rows, F.rows.advance_rows
    limits = make_watched_limits(dynamics, types, pose)
    crosses_limits, add_limits = limits.crosses_limits, limits.add_limits
    line_search = make_line_search(types, linear)
    Line, search, is_flat = line_search.Line, line_search.search, line_search.is_flat
    cholesky = make_cholesky(linear)
    factor, solve, copy = cholesky.factor, cholesky.solve, make_copy(linear, dynamics)
    scalar, vec3, lscalar, dscalar = types.scalar, types.vec3, linear.scalar, dynamics.scalar
    flat_layout, flat_motion, flat_contacts = make_flat(Layout), make_flat(FreeMotion), make_flat(Contacts)
    flat_terms, flat_constraints, flat_solve = make_flat(Terms), make_flat(Rows), make_flat(Solve)
    window = make_window(Solve, SCRATCH)

    @wp.func
    def start_cost(
        d: wp.ref[FreeMotion],
        c: wp.ref[Contacts],
        t: wp.ref[Terms],
        s: wp.ref[Solve],
        world: int,
        first: int,
        last: int,
        h: scalar,
        known: int,
    ):
        """A lane's share of the cost at the guess v0: what is a parabola along any direction, and the rest.

        The momentum's share is part of the first if v* is known. If not, the second result is for
        `least_momentum_cost`.
        """
        total = vec3()
        size = vec3()
        e = int(first + lane())
        while e < last:
            if known != 0:
                total[0] += scalar(0.5) * s.p[e] * (s.v[e] - scalar(d.v_star[e]))
            else:
                x = s.p[e] * s.p[e] * scalar(d.inverse_diagonal[e])
                size += vec3(x, x * x, scalar(0.0))
            kind = t.kind[e]
            if (kind & PARABOLA) != 0:
                total[0] += evaluate_parabola(t, e, s.v[e], h)[0]
            if (kind & ~PARABOLA) != 0:
                total[1] += evaluate_bounded(t, e, s.v[e], h)[0]
            e += wp.block_dim()
        base = world * c.capacity
        row_end = base + c.count[world]
        row = int(base + lane())
        while row < row_end:
            total[1] += s.projection[row].cost
            row += wp.block_dim()
        return total, size

    @wp.func
    def least_momentum_cost(size: vec3, widest: scalar) -> scalar:
        """Lower bound of 1/2 p^T A^-1 p, the momentum's cost, from the sums of x = p^2/A_ee and of x^2.

        Half the largest x is one, and the mean of all x, each weighted with itself, is not larger. Half the sum of all
        x over the number of dofs of a tree is another: scaled to a diagonal of ones, A has no larger entries than that.
        """
        if size[0] <= scalar(0.0):
            return scalar(0.0)
        return scalar(0.5) * wp.max(size[0] / widest, size[1] / size[0])

    @wp.func
    def is_enough(o: wp.ref[NewtonOptions], gain: scalar, cost: scalar) -> bool:
        """The cost criterion, after a step that lowered the cost by ``gain`` to ``cost``."""
        mean = scalar(0.5) * (wp.abs(cost) + wp.abs(cost + gain))
        return wp.abs(gain) < scalar(o.cost_abs_tol) + scalar(o.cost_rel_tol) * mean

    # the Hessian's room for A, by A's own addresses: its rows are not widened by contacts
    @wp.func_native("s.A_factor = s.H; s.A_factor.data += shift;")
    def overlay(s: wp.ref[Solve], shift: int): ...

    @wp.func
    def find_v_star(
        layout: wp.ref[Layout], d: wp.ref[FreeMotion], s: wp.ref[Solve], world: int, first: int, last: int
    ) -> int:
        """Solve A x = impulse for s.direction; 0 if A is not positive definite."""
        entry = layout.world_entry[world]
        copy(d.A, entry, s.A_factor, entry, layout.world_entry[world + 1] - entry)
        e = int(first + lane())
        while e < last:
            s.direction[e] = lscalar(d.impulse[e])
            e += wp.block_dim()
        barrier()
        ok = factor(
            s.A_factor,
            layout.dof_first,
            layout.dof_entry,
            layout.dof_above,
            layout.dof_above_start,
            first,
            last - first,
            0,
        )
        if ok != 0:
            solve(
                s.A_factor,
                layout.dof_first,
                layout.dof_entry,
                layout.dof_above,
                layout.dof_above_start,
                first,
                last - first,
                0,
                s.direction,
            )
        return ok

    @wp.func
    def solve_world(
        world: int,
        layout_in: wp.array(dtype=Layout),
        motion_in: wp.array(dtype=FreeMotion),
        contacts_in: wp.array(dtype=Contacts),
        terms_in: wp.array(dtype=Terms),
        constraints_in: wp.array(dtype=Rows),
        o: wp.ref[NewtonOptions],
        search_options: wp.ref[SearchOptions],
        dt: wp.float64,
        buffers_in: wp.array(dtype=Solve),
        status: wp.array(dtype=wp.int32),
        iterations_out: wp.array(dtype=wp.int32),
        line_iterations_out: wp.array(dtype=wp.int32),
        residual_out: wp.array(dtype=wp.float64),
        v_out: wp.array(dtype=wp.float64),
    ):
        layout = layout_in[0]
        d = motion_in[0]
        c = contacts_in[0]
        t = terms_in[0]
        k = constraints_in[0]
        s = buffers_in[0]
        flat_layout(layout)
        flat_motion(d)
        flat_contacts(c)
        flat_terms(t)
        flat_constraints(k)
        window(
            s,
            s.shared * layout.world_body[world],
            s.shared * layout.world_dof[world],
            s.shared * world * c.capacity,
            s.shared * layout.world_hessian[world],
        )
        overlay(s, layout.world_hessian[world] - layout.world_entry[world])
        flat_solve(s)
        first = layout.world_dof[world]
        last = layout.world_dof[world + 1]
        count = last - first
        h = scalar(dt)
        state = status[world]
        iterations = int(0)
        trials = int(0)
        residual = scalar(0.0)
        free = int(0)
        if c.count[world] == 0 and t.total[world] == 0 and row_count(k, world) == 0:
            free = 1
        known = int(d.solved)  # whether v* is there

        e = int(first + lane())
        while e < last:
            v = scalar(d.v0[e])
            if free != 0 and known != 0 and state == 0:
                v = scalar(d.v_star[e])
            s.v[e] = v
            e += wp.block_dim()
        barrier()
        line = Line()
        line.world = world
        line.first_dof = first
        line.h = h
        rows_cost = scalar(0.0)
        task = int(AIM)
        if state != 0 or (free != 0 and known != 0):
            task = END
        elif free != 0:
            task = ASK
        else:
            start_at(layout, d, c, s, world)
            rows_cost = start_rows(k, world, s.v)
        counted = int(0)  # whether line.cost is there
        asked_by = int(CHECK)  # what goes on when v* is found
        least = scalar(0.0)  # what stands for the momentum's cost at v0 as long as it is not known
        gain = scalar(0.0)  # by which the last step lowered the cost
        while task != END:
            factored = int(0)
            if task == AIM:
                norms = gradient(layout, d, c, t, k, s, world, h)
                scale = wp.sqrt(wp.max(norms[1], norms[2]))
                size = wp.sqrt(norms[0])
                residual = size / wp.max(scale, scalar(1e-30))
                if not wp.isfinite(size):  # whatever is not finite of the state or of a force gets here by the impulse
                    state = DIVERGED
                    task = END
                elif size <= scalar(o.abs_tol) + scalar(o.rel_tol) * scale:
                    task = CHECK
                elif iterations >= o.max_iterations:
                    state = ITERATION_LIMIT
                    task = END
                else:
                    if counted == 0:  # a start that is optimal needs no cost
                        # momentum, bilateral rows and terms without bounds are one parabola along any direction
                        counted = 1
                        start, momentum = start_cost(d, c, t, s, world, first, last, h, known)
                        start = block_sum(start, s.scratch, world)
                        if known == 0:
                            momentum = block_sum(momentum, s.scratch, world)
                            least = least_momentum_cost(momentum, scalar(o.widest))
                        line.m0 = start[0] + rows_cost + least
                        line.cost = line.m0 + start[1]
                    hessian(layout, d, c, t, k, s, world, h)
                    coupled = c.coupled[world]
                    factored = factor(
                        s.H,
                        c.hessian_first,
                        c.hessian_entry,
                        layout.dof_above,
                        layout.dof_above_start,
                        first,
                        count,
                        coupled,
                    )
                    if factored != 0:
                        solve(
                            s.H,
                            c.hessian_first,
                            c.hessian_entry,
                            layout.dof_above,
                            layout.dof_above_start,
                            first,
                            count,
                            coupled,
                            s.direction,
                        )
                    elif known == 0:  # it may be A's fault
                        asked_by = END
                        task = ASK
                    else:
                        state = FACTORIZATION_FAILED
                        task = END
            elif task == ASK:
                factored = find_v_star(layout, d, s, world, first, last)
                if factored == 0:
                    state = FREE_MOTION_FAILED
                    task = END
            if factored != 0 and task == AIM:
                e = int(first + lane())
                while e < last:
                    s.dv[e] = scalar(s.direction[e])
                    e += wp.block_dim()
                barrier()
                multiply(
                    d.A,
                    layout.dof_first,
                    layout.dof_entry,
                    layout.dof_above,
                    layout.dof_above_start,
                    first,
                    count,
                    s.dv,
                    s.A_dv,
                )
                aim_at(layout, d, c, s, world)
                slopes = aim_rows(k, world, s.dv)
                e = int(first + lane())
                while e < last:
                    de = s.dv[e]
                    slopes += vec3(s.p[e], s.A_dv[e], s.gradient[e]) * de
                    if (t.kind[e] & PARABOLA) != 0:
                        value = evaluate_parabola(t, e, s.v[e], h)
                        slopes += vec3(value[1], value[2] * de, scalar(0.0)) * de
                    e += wp.block_dim()
                slopes = block_sum(slopes, s.scratch, world)
                line.m1 = slopes[0]
                line.m2 = slopes[1]
                line.slope = slopes[2]
                task = SEARCH
                if known == 0 and search_options.variant == EXACT_ROOT and o.cost_rel_tol > wp.float64(0.0):
                    if not is_flat(line, search_options):  # with the true cost it may be
                        asked_by = SEARCH
                        task = ASK
            elif factored != 0:  # v* is found
                known = 1
                found = vec3()
                e = int(first + lane())
                while e < last:
                    v_star = d.v0[e] + wp.float64(s.direction[e])
                    d.v_star[e] = dscalar(v_star)
                    found[0] += scalar(0.5) * scalar(d.impulse[e]) * scalar(s.direction[e])
                    if free != 0:
                        s.v[e] = scalar(v_star)
                    e += wp.block_dim()
                found = block_sum(found, s.scratch, world)
                barrier()
                if counted != 0:
                    line.m0 = line.m0 + (found[0] - least)
                    line.cost = line.cost + (found[0] - least)
                    least = scalar(0.0)
                task = asked_by
                if asked_by == AIM and is_enough(o, gain, line.cost):
                    task = CHECK
                elif asked_by == END:
                    state = FACTORIZATION_FAILED
            if task == SEARCH:
                alpha = scalar(-1.0)
                if line.slope < scalar(0.0):
                    step = search(line, c, t, s, search_options)
                    trials += step.iterations
                    if wp.isfinite(step.cost):
                        alpha = step.alpha
                        gain = line.cost - step.cost
                        line.cost = step.cost
                if alpha <= scalar(0.0):
                    state = LINE_SEARCH_FAILED
                    task = END
                else:
                    task = AIM
                    # a short step changes the cost little however far the minimum is: it proves nothing
                    if alpha > scalar(0.5):
                        if is_enough(o, gain, line.cost):
                            task = CHECK
                        elif known == 0 and o.cost_rel_tol > wp.float64(0.0):  # with the true cost it may be enough
                            asked_by = AIM
                            task = ASK
                    e = int(first + lane())
                    while e < last:
                        s.v[e] = s.v[e] + alpha * s.dv[e]
                        s.p[e] = s.p[e] + alpha * s.A_dv[e]
                        e += wp.block_dim()
                    advance_contacts(c, s, world, alpha, task != CHECK)
                    advance_rows(k, world, alpha)
                    barrier()
                    line.m0 = line.m0 + alpha * (line.m1 + scalar(0.5) * alpha * line.m2)
                    iterations += 1
            if task == CHECK:
                task = END
                if d.solved == 0:
                    crossed = vec3(crosses_limits(t, s.v, first, last), scalar(0.0), scalar(0.0))
                    crossed = block_sum(crossed, s.scratch, world)
                    if crossed[0] > scalar(0.0) and known == 0:
                        asked_by = CHECK
                        task = ASK
                    elif crossed[0] > scalar(0.0):
                        added = add_limits(layout, d, t, s.v, world, h)
                        added = block_sum(added, s.scratch, world)
                        if added[0] > scalar(0.0):
                            task = AIM
                            if free != 0:
                                free = 0
                                e = int(first + lane())
                                while e < last:
                                    s.v[e] = scalar(d.v0[e])
                                    e += wp.block_dim()
                                barrier()
                                start_at(layout, d, c, s, world)
                            else:
                                line.cost = line.cost + added[1]
                                advance_contacts(c, s, world, scalar(0.0), True)
                                barrier()
        e_end = layout.world_prescribed[world + 1]
        e = int(layout.world_prescribed[world] + lane())
        while e < e_end:
            v_out[layout.dof_newton[e]] = d.v0[e]
            e += wp.block_dim()
        large = vec3()
        e = int(first + lane())
        while e < last:
            v_out[layout.dof_newton[e]] = wp.float64(s.v[e])
            if not (wp.abs(s.v[e]) <= scalar(wp.static(LARGEST_SPEED))):
                large[0] += scalar(1.0)
            e += wp.block_dim()
        large = block_sum(large, s.scratch, world)
        if large[0] > scalar(0.0) and state < FREE_MOTION_FAILED:
            state = DIVERGED
        if lane() == 0:
            status[world] = state
            iterations_out[world] = iterations
            line_iterations_out[world] = trials
            residual_out[world] = wp.float64(residual)

    @solver_kernel
    def newton_solve(
        first_world: int,
        layout: wp.array(dtype=Layout),
        d: wp.array(dtype=FreeMotion),
        c: wp.array(dtype=Contacts),
        t: wp.array(dtype=Terms),
        k: wp.array(dtype=Rows),
        o: wp.array(dtype=NewtonOptions),
        search_options: wp.array(dtype=SearchOptions),
        dt: wp.float64,
        s: wp.array(dtype=Solve),
        status: wp.array(dtype=wp.int32),
        iterations_out: wp.array(dtype=wp.int32),
        line_iterations_out: wp.array(dtype=wp.int32),
        residual_out: wp.array(dtype=wp.float64),
        v_out: wp.array(dtype=wp.float64),
    ):
        solve_world(
            first_world + wp.tid() // wp.block_dim(),
            layout,
            d,
            c,
            t,
            k,
            o[0],
            search_options[0],
            dt,
            s,
            status,
            iterations_out,
            line_iterations_out,
            residual_out,
            v_out,
        )

    return newton_solve


class SapContactSolve:
    """Owns the buffers of the solve and the per-world statistics of the last step."""

    def __init__(
        self,
        model: Any,
        layout: StructArgument,
        sizes: LayoutSizes,
        options: Any,
        free_motion: Any,
        contact_jacobian: Any,
        constraints: Any,
        block_dim: int,
    ):
        """Allocate everything once; ``block_dim`` lanes share a world."""
        self.model, self.layout, self.sizes = model, layout.struct, sizes
        self.layout_argument = layout.array
        self.free_motion, self.contact_jacobian, self.constraints = free_motion, contact_jacobian, constraints
        self.types = TYPES[options.contact_solve_precision]
        linear = TYPES[options.contact_linear_solve_precision]
        device = model.device
        self.data: Any = make_solve_data(self.types, linear)()
        scratch = Scratch(self.layout, sizes, device)
        room = {"body": scratch.body_count, "48 * body": STIFFNESS_SIZE * scratch.body_count}
        room |= {"dof": scratch.dof_count, "6 * dof": 6 * scratch.dof_count}
        room["row"] = contact_jacobian.capacity * (1 if scratch.shared else sizes.world_count)
        room["hessian"] = scratch.dof_count * (scratch.dof_count + 1) // 2 if scratch.shared else sizes.hessian_count
        counts = {"scratch": sizes.world_count * block_dim}
        counts |= {name: room[first] for name, first in SCRATCH}
        for name, variable in self.data._cls.vars.items():
            if isinstance(variable.type, wp.array) and name != "A_factor":
                count = counts.get(name, sizes.dof_count)
                setattr(self.data, name, wp.zeros(count, dtype=variable.type.dtype, device=device))
        self.data.shared = scratch.shared
        worlds = sizes.world_count
        self.iterations = wp.zeros(worlds, dtype=wp.int32, device=device)
        self.line_search_iterations = wp.zeros(worlds, dtype=wp.int32, device=device)
        self.residual = wp.zeros(worlds, dtype=wp.float64, device=device)
        self.velocity = wp.zeros(model.joint_dof_count, dtype=wp.float64, device=device)
        """The minimizer, sap order, Newton's dof numbering."""
        self._argument = StructArgument(self.data, device)
        newton_options, search_options = _iteration_options(options)
        first = self.layout.dof_first.numpy()
        newton_options.widest = float((np.arange(len(first)) - first).max(initial=0) + 1)
        self._newton_options = StructArgument(newton_options, device)
        self._search_options = StructArgument(search_options, device)
        self._kernel = make_solve_kernel(free_motion.types, self.types, linear, free_motion.pose_types)

    def solve(self, dt: float, status: wp.array, part: Part) -> None:
        """Minimize the objective of the worlds of a part; ``status`` is read from free motion and completed."""
        wp.launch(
            self._kernel,
            dim=part.threads,
            inputs=[
                part.first,
                self.layout_argument,
                self.free_motion.argument,
                self.contact_jacobian.argument,
                self.contact_jacobian.terms_argument,
                self.constraints.argument,
                self._newton_options.array,
                self._search_options.array,
                dt,
            ],
            outputs=[
                self._argument.array,
                status,
                self.iterations,
                self.line_search_iterations,
                self.residual,
                self.velocity,
            ],
            block_dim=part.lanes,
            device=self.model.device,
        )


def _iteration_options(options: Any) -> tuple[Any, Any]:
    cost_abs, cost_rel = options.cost_tolerances
    newton_options: Any = NewtonOptions()
    newton_options.max_iterations = options.max_iterations
    newton_options.abs_tol = options.optimality_abs_tol
    newton_options.rel_tol = options.optimality_rel_tol
    newton_options.cost_abs_tol = cost_abs
    newton_options.cost_rel_tol = cost_rel
    search: Any = SearchOptions()
    search.variant = LINE_SEARCHES.index(options.line_search_variant)
    search.max_iterations = options.line_search_iterations
    search.armijo_c = options.armijo_c
    search.rho = options.rho
    search.slop = options.line_search_slop
    search.cost_abs_tol = cost_abs
    search.cost_rel_tol = cost_rel
    return newton_options, search
