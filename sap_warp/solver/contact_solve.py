"""Stage 4: the Newton solve of the convex objective, one world per block, from guess to velocity in one kernel.

    l(v) = 1/2 (v - v*)^T A (v - v*) + sum over contact rows l_c(vc(v)) + sum over dofs l_k(v_k)

    gradient   g = A (v - v*) - J^T gamma + dof terms       wrenches gamma summed over each dof's subtree
    Hessian    H = A + J^T G J + dof terms                  6x6 blocks X^T G X summed over subtrees, leaves to root,
                                                            and one 6x6 block per pair of touching moving bodies
    stop       |D g| <= abs_tol + rel_tol max(|D A v|, |D j|), D = diag(A)^(-1/2), j all impulses of the terms
               or |l_new - l_old| <= cost_abs_tol + cost_rel_tol (l_new + l_old)/2

H lies in packed rows (`layout`), widened where contacts couple trees; its factorization is `block.make_cholesky`.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from ..precision import TYPES, Types
from .block import barrier, lane, make_add_column, make_block_sum, make_cholesky, make_copy, make_multiply
from .contact_data import make_contact_data
from .free_motion import make_free_motion_data
from .layout import Layout, LayoutSizes
from .line_search import SearchOptions, make_line_search
from .options import LINE_SEARCHES
from .status import CONVERGED, DIVERGED, FACTORIZATION_FAILED, ITERATION_LIMIT, LINE_SEARCH_FAILED
from .terms.contact import make_contact_term
from .terms.dof import make_dof_terms


@wp.struct
class NewtonOptions:
    """Limits and tolerances of the iteration."""

    max_iterations: int
    abs_tol: wp.float64
    rel_tol: wp.float64
    cost_abs_tol: wp.float64
    cost_rel_tol: wp.float64


@functools.cache
def make_solve_data(types: Types, linear: Types):
    """Struct of the solve's own buffers."""
    scalar, vec3, mat33 = types.scalar, types.vec3, types.mat33

    @wp.struct
    class SolveData:
        # by dof, solver order
        v: wp.array(dtype=scalar)
        p: wp.array(dtype=scalar)  # A (v - v*)
        A_v_star: wp.array(dtype=scalar)
        gradient: wp.array(dtype=scalar)
        impulse: wp.array(dtype=scalar)  # generalized impulse of all terms
        dv: wp.array(dtype=scalar)
        A_dv: wp.array(dtype=scalar)
        direction: wp.array(dtype=linear.scalar)
        # Hessian rows
        H: wp.array(dtype=linear.scalar)
        # by body, solver order
        Vw: wp.array(dtype=vec3)
        Vv: wp.array(dtype=vec3)
        fw: wp.array(dtype=vec3)
        fv: wp.array(dtype=vec3)
        K_ww: wp.array(dtype=mat33)  # 6x6 contact stiffness of the subtree: angular, mixed and linear blocks
        K_wv: wp.array(dtype=mat33)
        K_vv: wp.array(dtype=mat33)
        scratch: wp.array(dtype=vec3)  # one entry per lane of each world

    return SolveData


@functools.cache
def make_solve_functions(dynamics: Types, types: Types, linear: Types, pose: Types):
    """Parts of the Newton iteration; each is called by all lanes of a block."""
    scalar, vec3, mat33 = types.scalar, types.vec3, types.mat33
    lscalar = linear.scalar
    FreeMotion = make_free_motion_data(pose, dynamics)
    Contacts = make_contact_data(types)
    Solve = make_solve_data(types, linear)
    dof_terms = make_dof_terms(types)
    Terms, evaluate = dof_terms.DofTerms, dof_terms.evaluate
    term = make_contact_term(types)
    project, curvature = term.project, term.curvature
    multiply = make_multiply(dynamics, types)
    add_column, copy = make_add_column(linear, dynamics, types), make_copy(linear, dynamics)
    block_sum = make_block_sum(vec3)

    @wp.func
    def column_w(d: wp.ref[FreeMotion], e: int) -> vec3:
        s = d.Sw[e]
        return vec3(scalar(s[0]), scalar(s[1]), scalar(s[2]))

    @wp.func
    def column_v(d: wp.ref[FreeMotion], e: int) -> vec3:
        s = d.Sv[e]
        return vec3(scalar(s[0]), scalar(s[1]), scalar(s[2]))

    @wp.func
    def diagonal(layout: wp.ref[Layout], d: wp.ref[FreeMotion], e: int) -> scalar:
        return scalar(d.A[layout.dof_entry[e] + e - layout.dof_first[e]])

    @wp.func
    def skew(a: vec3) -> mat33:
        z = scalar(0.0)
        return mat33(z, -a[2], a[1], a[2], z, -a[0], -a[1], a[0], z)

    @wp.func
    def relative_velocities(
        layout: wp.ref[Layout],
        d: wp.ref[FreeMotion],
        c: wp.ref[Contacts],
        s: wp.ref[Solve],
        world: int,
        v: wp.array(dtype=scalar),
        out: wp.array(dtype=vec3),
    ):
        """J v for all rows: body velocities from the root down, then the two points of each row."""
        for level in range(layout.world_level[world], layout.world_level[world + 1]):
            for i in range(layout.level_start[level] + lane(), layout.level_start[level + 1], wp.block_dim()):
                b = layout.level_body[i]
                if c.body_active[b] != 0:
                    w = vec3()
                    u = vec3()
                    parent = layout.body_parent[b]
                    if parent >= 0:
                        w = s.Vw[parent]
                        u = s.Vv[parent]
                    first = layout.body_dof[b]
                    for e in range(first, first + layout.body_dof_count[b]):
                        w += column_w(d, e) * v[e]
                        u += column_v(d, e) * v[e]
                    s.Vw[b] = w
                    s.Vv[b] = u
            barrier()
        base = world * c.capacity
        for row in range(base + lane(), base + c.count[world], wp.block_dim()):
            value = vec3()
            b = c.body_b[row]
            if b >= 0:
                value += s.Vv[b] + wp.cross(s.Vw[b], c.r_b[row])
            a = c.body_a[row]
            if a >= 0:
                value -= s.Vv[a] + wp.cross(s.Vw[a], c.r_a[row])
            out[row] = value
        barrier()

    @wp.func
    def start_at(layout: wp.ref[Layout], d: wp.ref[FreeMotion], c: wp.ref[Contacts], s: wp.ref[Solve], world: int):
        """Everything that follows from s.v."""
        first = layout.world_dof[world]
        last = layout.world_dof[world + 1]
        base = world * c.capacity
        for row in range(base + lane(), base + c.count[world], wp.block_dim()):
            c.dvc[row] = vec3()
        # the guess is v0, where A (v - v*) is minus free motion's impulse
        multiply(d.A, layout.dof_first, layout.dof_entry, layout.dof_above, layout.dof_above_start, first, last - first, s.v, s.A_v_star)
        for e in range(first + lane(), last, wp.block_dim()):
            s.p[e] = -scalar(d.impulse[e])
            s.A_v_star[e] = s.A_v_star[e] - s.p[e]
            s.dv[e] = scalar(0.0)
        relative_velocities(layout, d, c, s, world, s.v, c.vc)

    @wp.func
    def gather_wrench(c: wp.ref[Contacts], s: wp.ref[Solve], b: int):
        """Wrench that the rows of one body exert on it, about its tree's reference point."""
        fw = vec3()
        fv = vec3()
        for i in range(c.body_start[b], c.body_start[b] + c.body_count[b]):
            row = c.body_row[i] // 2
            r = project(c.vc[row], c.normal[row], c.vhat[row], c.mu[row], c.Rt[row], c.Rn[row])
            if r.mode != 0:
                if c.body_row[i] % 2 == 1:
                    fw += wp.cross(c.r_b[row], r.gamma)
                    fv += r.gamma
                else:
                    fw -= wp.cross(c.r_a[row], r.gamma)
                    fv -= r.gamma
        s.fw[b] = fw
        s.fv[b] = fv

    @wp.func
    def gather_stiffness(c: wp.ref[Contacts], s: wp.ref[Solve], b: int):
        """6x6 stiffness X^T G X of the rows of one body, about its tree's reference point."""
        K_ww = mat33()
        K_wv = mat33()
        K_vv = mat33()
        for i in range(c.body_start[b], c.body_start[b] + c.body_count[b]):
            row = c.body_row[i] // 2
            n = c.normal[row]
            r = project(c.vc[row], n, c.vhat[row], c.mu[row], c.Rt[row], c.Rn[row])
            if r.mode != 0:
                arm = c.r_a[row]
                if c.body_row[i] % 2 == 1:
                    arm = c.r_b[row]
                G = curvature(r, n, c.Rt[row], c.Rn[row])
                X = skew(arm)
                XG = X * G
                K_vv += G
                K_wv += XG
                K_ww -= XG * X
        s.K_ww[b] = K_ww
        s.K_wv[b] = K_wv
        s.K_vv[b] = K_vv

    @wp.func
    def accumulate(layout: wp.ref[Layout], c: wp.ref[Contacts], s: wp.ref[Solve], world: int, stiffness: bool):
        """Wrenches, or stiffnesses, of all subtrees, leaves to root."""
        first_level = layout.world_level[world]
        last_level = layout.world_level[world + 1]
        for up in range(last_level - first_level):
            level = last_level - 1 - up
            for i in range(layout.level_start[level] + lane(), layout.level_start[level + 1], wp.block_dim()):
                b = layout.level_body[i]
                if c.body_active[b] != 0:
                    child = layout.body_child[b]
                    if stiffness:
                        gather_stiffness(c, s, b)
                        while child >= 0:
                            if c.body_active[child] != 0:
                                s.K_ww[b] = s.K_ww[b] + s.K_ww[child]
                                s.K_wv[b] = s.K_wv[b] + s.K_wv[child]
                                s.K_vv[b] = s.K_vv[b] + s.K_vv[child]
                            child = layout.body_sibling[child]
                    else:
                        gather_wrench(c, s, b)
                        while child >= 0:
                            if c.body_active[child] != 0:
                                s.fw[b] = s.fw[b] + s.fw[child]
                                s.fv[b] = s.fv[b] + s.fv[child]
                            child = layout.body_sibling[child]
            barrier()

    @wp.func
    def gradient(layout: wp.ref[Layout], d: wp.ref[FreeMotion], c: wp.ref[Contacts], t: wp.ref[Terms], s: wp.ref[Solve], world: int, h: scalar) -> vec3:
        """Fill s.gradient; returns the squared norms |D g|^2, |D A v|^2, |D j|^2."""
        first = layout.world_dof[world]
        last = layout.world_dof[world + 1]
        accumulate(layout, c, s, world, False)
        norms = vec3()
        for e in range(first + lane(), last, wp.block_dim()):
            b = layout.dof_body[e]
            j = scalar(0.0)
            if c.body_active[b] != 0:
                j = wp.dot(column_w(d, e), s.fw[b]) + wp.dot(column_v(d, e), s.fv[b])
            if t.kind[e] != 0:
                j -= evaluate(t, e, s.v[e], h)[1]
            g = s.p[e] - j
            s.gradient[e] = g
            s.impulse[e] = j
            Av = s.p[e] + s.A_v_star[e]
            norms += vec3(g * g, Av * Av, j * j) / diagonal(layout, d, e)
        return block_sum(norms, s.scratch, world)

    @wp.func
    def couple_pairs(layout: wp.ref[Layout], d: wp.ref[FreeMotion], c: wp.ref[Contacts], s: wp.ref[Solve], world: int):
        """Subtract X_a^T G X_b between the chains of two touching moving bodies; neighbouring rows of one pair are summed."""
        base = world * c.capacity
        last = base + c.count[world]
        row = base
        while row < last:
            a = c.body_a[row]
            b = c.body_b[row]
            if a >= 0 and b >= 0:
                P_ww = mat33()
                P_wv = mat33()
                P_vw = mat33()
                P_vv = mat33()
                same = bool(True)
                while same:
                    n = c.normal[row]
                    r = project(c.vc[row], n, c.vhat[row], c.mu[row], c.Rt[row], c.Rn[row])
                    if r.mode != 0:
                        G = curvature(r, n, c.Rt[row], c.Rn[row])
                        X_a = skew(c.r_a[row])
                        X_b = skew(c.r_b[row])
                        P_vv += G
                        P_wv += X_a * G
                        P_vw -= G * X_b
                        P_ww -= X_a * G * X_b
                    row += 1
                    same = bool(False)
                    if row < last:
                        same = c.body_a[row] == a and c.body_b[row] == b
                j = layout.body_chain[b]
                while j >= 0:
                    Fw = P_ww * column_w(d, j) + P_wv * column_v(d, j)
                    Fv = P_vw * column_w(d, j) + P_vv * column_v(d, j)
                    i = layout.body_chain[a]
                    turn = int(0)
                    while i >= 0:
                        if turn % wp.block_dim() == lane():
                            value = lscalar(wp.dot(column_w(d, i), Fw) + wp.dot(column_v(d, i), Fv))
                            if i >= j:
                                k = c.hessian_entry[i] + j - c.hessian_first[i]
                                s.H[k] = s.H[k] - value
                            if j >= i:
                                k = c.hessian_entry[j] + i - c.hessian_first[j]
                                s.H[k] = s.H[k] - value
                        turn += 1
                        i = layout.dof_parent[i]
                    barrier()
                    j = layout.dof_parent[j]
            else:
                row += 1

    @wp.func
    def hessian(layout: wp.ref[Layout], d: wp.ref[FreeMotion], c: wp.ref[Contacts], t: wp.ref[Terms], s: wp.ref[Solve], world: int, h: scalar):
        """Fill s.H."""
        first = layout.world_dof[world]
        last = layout.world_dof[world + 1]
        coupled = c.coupled[world]
        accumulate(layout, c, s, world, True)
        if coupled == 0:  # the rows of H are the rows of A
            start = layout.world_entry[world]
            copy(d.A, start, s.H, layout.world_hessian[world], layout.world_entry[world + 1] - start)
        else:
            for e in range(first + lane(), last, wp.block_dim()):
                target = c.hessian_entry[e]
                width = layout.dof_first[e] - c.hessian_first[e]
                for k in range(width):
                    s.H[target + k] = lscalar(0.0)
                for k in range(e - layout.dof_first[e] + 1):
                    s.H[target + width + k] = lscalar(d.A[layout.dof_entry[e] + k])
        barrier()
        for e in range(first + lane(), last, wp.block_dim()):
            b = layout.dof_body[e]
            if c.body_active[b] != 0:
                w = column_w(d, e)
                u = column_v(d, e)
                Fw = s.K_ww[b] * w + s.K_wv[b] * u
                Fv = wp.transpose(s.K_wv[b]) * w + s.K_vv[b] * u
                add_column(s.H, c.hessian_first, c.hessian_entry, layout.dof_above, layout.dof_above_start, e, d.Sw, d.Sv, Fw, Fv, 1)
            if t.kind[e] != 0:
                k = c.hessian_entry[e] + e - c.hessian_first[e]
                s.H[k] = s.H[k] + lscalar(evaluate(t, e, s.v[e], h)[2])
        barrier()
        if coupled != 0:
            couple_pairs(layout, d, c, s, world)

    return SimpleNamespace(
        FreeMotion=FreeMotion,
        Contacts=Contacts,
        Terms=Terms,
        Solve=Solve,
        start_at=start_at,
        relative_velocities=relative_velocities,
        gradient=gradient,
        hessian=hessian,
        multiply=multiply,
        block_sum=block_sum,
    )


@functools.cache
def make_solve_kernel(dynamics: Types, types: Types, linear: Types, pose: Types):
    """The kernel of the stage."""
    F = make_solve_functions(dynamics, types, linear, pose)
    FreeMotion, Contacts, Terms, Solve = F.FreeMotion, F.Contacts, F.Terms, F.Solve
    start_at, relative_velocities, gradient, hessian = F.start_at, F.relative_velocities, F.gradient, F.hessian
    multiply, block_sum = F.multiply, F.block_sum
    line_search = make_line_search(types)
    Line, line_value, search = line_search.Line, line_search.line_value, line_search.search
    cholesky = make_cholesky(linear)
    factor, solve = cholesky.factor, cholesky.solve
    scalar, vec3, lscalar = types.scalar, types.vec3, linear.scalar

    @wp.kernel(module="unique", enable_backward=False)
    def newton_solve(
        layout: Layout,
        d: FreeMotion,
        c: Contacts,
        t: Terms,
        o: NewtonOptions,
        search_options: SearchOptions,
        dt: wp.float64,
        s: Solve,
        status: wp.array(dtype=wp.int32),
        iterations_out: wp.array(dtype=wp.int32),
        line_iterations_out: wp.array(dtype=wp.int32),
        residual_out: wp.array(dtype=wp.float64),
        v_out: wp.array(dtype=wp.float64),
    ):
        world = wp.tid() // wp.block_dim()
        first = layout.world_dof[world]
        last = layout.world_dof[world + 1]
        count = last - first
        h = scalar(dt)
        state = status[world]
        iterations = int(0)
        trials = int(0)
        residual = scalar(0.0)
        free = c.count[world] == 0 and t.count[world] == 0

        finite = scalar(0.0)
        for e in range(first + lane(), last, wp.block_dim()):
            s.v[e] = scalar(d.v0[e])
            if free and state == 0:
                s.v[e] = scalar(d.v_star[e])
            if not wp.isfinite(d.v_star[e]) or not wp.isfinite(d.v0[e]):
                finite += scalar(1.0)
        finite = block_sum(vec3(finite, scalar(0.0), scalar(0.0)), s.scratch, world)[0]
        barrier()
        if finite > scalar(0.0):
            state = DIVERGED
        if state == 0 and not free:
            start_at(layout, d, c, s, world)
            line = Line()
            line.world = world
            line.first_dof = first
            line.h = h
            line.v = s.v
            line.dv = s.dv
            line.scratch = s.scratch
            momentum = vec3()
            for e in range(first + lane(), last, wp.block_dim()):
                momentum[0] += scalar(0.5) * s.p[e] * (s.v[e] - scalar(d.v_star[e]))
            momentum = block_sum(momentum, s.scratch, world)
            line.m0 = momentum[0]
            line.cost = line_value(line, c, t, scalar(0.0), 0)[0]
            running = bool(True)
            while running:
                norms = gradient(layout, d, c, t, s, world, h)
                scale = wp.sqrt(wp.max(norms[1], norms[2]))
                size = wp.sqrt(norms[0])
                residual = size / wp.max(scale, scalar(1e-30))
                if size <= scalar(o.abs_tol) + scalar(o.rel_tol) * scale:
                    break
                if not wp.isfinite(size):
                    state = DIVERGED
                    break
                if iterations >= o.max_iterations:
                    state = ITERATION_LIMIT
                    break
                hessian(layout, d, c, t, s, world, h)
                coupled = c.coupled[world]
                if factor(s.H, c.hessian_first, c.hessian_entry, layout.dof_above, layout.dof_above_start, first, count, coupled) == 0:
                    state = FACTORIZATION_FAILED
                    break
                for e in range(first + lane(), last, wp.block_dim()):
                    s.direction[e] = lscalar(-s.gradient[e])
                barrier()
                solve(
                    s.H, c.hessian_first, c.hessian_entry, layout.dof_above, layout.dof_above_start, first, count, coupled, s.direction
                )
                for e in range(first + lane(), last, wp.block_dim()):
                    s.dv[e] = scalar(s.direction[e])
                barrier()
                multiply(
                    d.A, layout.dof_first, layout.dof_entry, layout.dof_above, layout.dof_above_start, first, count, s.dv, s.A_dv
                )
                relative_velocities(layout, d, c, s, world, s.dv, c.dvc)
                slopes = vec3()
                for e in range(first + lane(), last, wp.block_dim()):
                    slopes += vec3(s.p[e], s.A_dv[e], s.gradient[e]) * s.dv[e]
                slopes = block_sum(slopes, s.scratch, world)
                line.m1 = slopes[0]
                line.m2 = slopes[1]
                line.slope = slopes[2]
                if not (line.slope < scalar(0.0)):
                    state = LINE_SEARCH_FAILED
                    break
                step = search(line, c, t, search_options)
                trials += step.iterations
                if step.alpha <= scalar(0.0) or not wp.isfinite(step.cost):
                    state = LINE_SEARCH_FAILED
                    break
                alpha = step.alpha
                for e in range(first + lane(), last, wp.block_dim()):
                    s.v[e] = s.v[e] + alpha * s.dv[e]
                    s.p[e] = s.p[e] + alpha * s.A_dv[e]
                base = world * c.capacity
                for row in range(base + lane(), base + c.count[world], wp.block_dim()):
                    c.vc[row] = c.vc[row] + c.dvc[row] * alpha
                barrier()
                line.m0 = line.m0 + alpha * (line.m1 + scalar(0.5) * alpha * line.m2)
                iterations += 1
                change = wp.abs(step.cost - line.cost)
                mean = scalar(0.5) * (wp.abs(step.cost) + wp.abs(line.cost))
                line.cost = step.cost
                if change <= scalar(o.cost_abs_tol) + scalar(o.cost_rel_tol) * mean:
                    running = bool(False)
        for e in range(first + lane(), last, wp.block_dim()):
            v_out[layout.dof_newton[e]] = wp.float64(s.v[e])
        if lane() == 0:
            status[world] = state
            iterations_out[world] = iterations
            line_iterations_out[world] = trials
            residual_out[world] = wp.float64(residual)

    return newton_solve


class SapContactSolve:
    """Owns the buffers of the solve and the per-world statistics of the last step."""

    def __init__(
        self, model: Any, layout: Any, sizes: LayoutSizes, options: Any, free_motion: Any, contact_jacobian: Any,
        block_dim: int,
    ):
        """Allocate everything once; ``block_dim`` lanes share a world."""
        self.model, self.layout, self.sizes = model, layout, sizes
        self.free_motion, self.contact_jacobian = free_motion, contact_jacobian
        self.types = TYPES[options.contact_solve_precision]
        linear = TYPES[options.contact_linear_solve_precision]
        device = model.device
        self.data: Any = make_solve_data(self.types, linear)()
        counts = {"H": sizes.hessian_count, "scratch": sizes.world_count * block_dim}
        counts |= dict.fromkeys(("Vw", "Vv", "fw", "fv", "K_ww", "K_wv", "K_vv"), sizes.body_count)
        for name, variable in self.data._cls.vars.items():
            count = counts.get(name, sizes.dof_count)
            setattr(self.data, name, wp.zeros(count, dtype=variable.type.dtype, device=device))
        worlds = sizes.world_count
        self.iterations = wp.zeros(worlds, dtype=wp.int32, device=device)
        self.line_search_iterations = wp.zeros(worlds, dtype=wp.int32, device=device)
        self.residual = wp.zeros(worlds, dtype=wp.float64, device=device)
        self.velocity = wp.zeros(model.joint_dof_count, dtype=wp.float64, device=device)
        """The minimizer, sap order, Newton's dof numbering."""
        self._newton_options, self._search_options = _iteration_options(options)
        self._kernel = make_solve_kernel(free_motion.types, self.types, linear, free_motion.pose_types)

    def solve(self, dt: float, status: wp.array, block_dim: int) -> None:
        """Minimize the objective of every world; ``status`` is read from free motion and completed."""
        wp.launch(
            self._kernel,
            dim=self.sizes.world_count * block_dim,
            inputs=[
                self.layout,
                self.free_motion.data,
                self.contact_jacobian.data,
                self.contact_jacobian.terms,
                self._newton_options,
                self._search_options,
                dt,
            ],
            outputs=[
                self.data,
                status,
                self.iterations,
                self.line_search_iterations,
                self.residual,
                self.velocity,
            ],
            block_dim=block_dim,
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
