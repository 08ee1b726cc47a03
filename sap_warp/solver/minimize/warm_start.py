"""How contacts begin the Newton iteration: by the law that held for them a step ago, found in the state alone.

A contact sticks at slip velocities below mu gamma_n R_t, 1e-4 m/s or so; slower than that friction is stiff, faster
it has no stiffness along the slip at all. Newton's method, coming from sliding, shoots past rest, and a line search
ends there once for each contact that comes to rest: of the iterations of a falling humanoid that was most.

So the first `newton.FREE_STEPS` iterations may be free: whole steps without a search, in which chosen contacts do not
follow their law where they are. Two kinds of contacts are:

    as before      While bodies turn, one step changes the slip velocity J v of the same v by more than what sticks: at
                   v0 a contact that stuck looks as if it slid, and one that slid, as if it slid another way. With a
                   the relative acceleration of the two points if no dof accelerates, its slip was u = (J v0 - h a)_t.
                   It is *held*, in stiction however large the impulse that it takes, if turning is most of the
                   explanation, |u| < EXPLAINED |(J v0)_t|, and friction could stop the rest easily, |u| < HELD w mu
                   gamma_n; or, if the iteration goes on to the criterion of optimality, if it sticks at u. In the
                   stiction mode "displacement" all others have the impulse and the stiffness of sliding at u, the
                   impulse changed by the stiffness on the way from u to J v0.
    overshoots     A step would turn its slip round, and the cost ends steeper than it began. It is held in the next.

Wherever they lead, Newton's method goes on from there with the cost as it is, and the line search. The minimizer is
one; only the way to it is shorter. Nothing is remembered from step to step.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.lanes import lane, lane_count, make_block_sum
from ..objective.contacts import make_row_projections
from ..objective.problem import Precisions, make_problem
from ..state.kinematics import make_point_acceleration
from ..terms.contact import SLIDING, STICTION

EXPLAINED = 0.5
"""Share of a contact's slip velocity that turning may leave unexplained [-]."""
HELD = 0.02
"""Slip velocity up to which a contact may be held, relative to what friction could stop alone, w mu gamma_n ..."""
HELD_ELSE_PREDICTED = 10.0
"""... and where all others begin as they slid, relative to what sticks, mu gamma_n R_t [-]."""


@functools.cache
def make_start_sliding(precisions: Precisions):
    """``start_sliding(p, s)``: let rows that slide at v0 begin as they were before; returns how many a lane has."""
    types = precisions.types
    scalar, vec3 = types.scalar, types.vec3
    Problem, Data = make_problem(precisions)
    point_acceleration = make_point_acceleration(precisions.pose, precisions.dynamics, types)
    rows = make_row_projections(precisions)
    project_row, hold_row = rows.project_row, rows.hold_row

    @wp.func
    def is_held(problem: wp.ref[Problem], data: wp.ref[Data], row: int, slip: vec3, u: vec3, mode: int) -> bool:
        """Whether a row with this slip velocity, which was u, is held; ``mode`` is the one at u."""
        if mode == STICTION and problem.options.is_tight != 0:
            return True
        reach = scalar(wp.static(HELD)) * problem.contacts.weight[row]
        if problem.options.is_predicted != 0:
            reach = scalar(wp.static(HELD_ELSE_PREDICTED)) * problem.contacts.Rt[row]
        reach *= problem.contacts.mu[row] * wp.dot(problem.contacts.normal[row], data.projection[row].gamma)
        share = scalar(wp.static(EXPLAINED * EXPLAINED))
        return wp.dot(u, u) < wp.min(reach * reach, share * wp.dot(slip, slip))

    @wp.func
    def start_as_before(problem: wp.ref[Problem], data: wp.ref[Data], row: int) -> scalar:
        """Returns 1 if the row does not follow its law now, else 0."""
        n = problem.contacts.normal[row]
        a = point_acceleration(problem.motion, problem.contacts.body_b[row], problem.contacts.r_b[row])
        a -= point_acceleration(problem.motion, problem.contacts.body_a[row], problem.contacts.r_a[row])
        turned = (a - n * wp.dot(n, a)) * problem.h
        vc = data.vc[row]
        slip = vc - n * wp.dot(n, vc)
        before = project_row(problem, row, vc - turned)
        if is_held(problem, data, row, slip, slip - turned, before.mode):
            before = hold_row(problem, row, vc)
        elif before.mode == SLIDING and problem.options.is_predicted != 0:
            along = wp.dot(before.t, turned)
            before.gamma -= (turned - before.t * along) * before.across
            before.gamma -= before.s * (before.along_s * problem.contacts.mu[row] * along)
        else:
            return scalar(0.0)
        data.projection[row] = before
        return scalar(1.0)

    @wp.func
    def start_sliding(problem: wp.ref[Problem], data: wp.ref[Data]) -> scalar:
        started = scalar(0.0)
        row = int(problem.row + lane())
        while row < problem.row_end:
            if data.projection[row].mode == SLIDING and problem.contacts.mu[row] > scalar(0.0):
                started += start_as_before(problem, data, row)
            row += lane_count()
        return started

    return start_sliding


@functools.cache
def make_hold_contacts(precisions: Precisions) -> SimpleNamespace:
    """Device functions about rows that overshoot."""
    types = precisions.types
    Problem, Data = make_problem(precisions)
    scalar, vec3, block_sum = types.scalar, types.vec3, make_block_sum(types.vec3)
    rows = make_row_projections(precisions)
    project_row, hold_row = rows.project_row, rows.hold_row

    @wp.func
    def overshoots(problem: wp.ref[Problem], data: wp.ref[Data], row: int) -> bool:
        """Whether the whole step along s.dv turns the slip of a sliding contact round."""
        slides = data.projection[row].mode == SLIDING and problem.contacts.mu[row] > scalar(0.0)
        return slides and wp.dot(data.projection[row].t, data.vc[row] + data.dvc[row]) > scalar(0.0)

    @wp.func
    def any_overshoots(problem: wp.ref[Problem], data: wp.ref[Data]) -> bool:
        count = vec3()
        row = int(problem.row + lane())
        while row < problem.row_end:
            if overshoots(problem, data, row):
                count[0] += scalar(1.0)
            row += lane_count()
        return block_sum(count, data.scratch, problem.world)[0] > scalar(0.0)

    @wp.func
    def hold_contacts(problem: wp.ref[Problem], data: wp.ref[Data], hold: bool) -> bool:
        """Move the rows the whole way; with ``hold``, contacts that overshoot stick. Returns whether there are any."""
        kept = vec3()
        row = int(problem.row + lane())
        while row < problem.row_end:
            vc = data.vc[row] + data.dvc[row]
            at = project_row(problem, row, vc)
            if hold and at.mode == SLIDING:
                if overshoots(problem, data, row):
                    at = hold_row(problem, row, vc)
                    kept[0] += scalar(1.0)
            data.vc[row] = vc
            data.projection[row] = at
            row += lane_count()
        return block_sum(kept, data.scratch, problem.world)[0] > scalar(0.0)

    return SimpleNamespace(any_overshoots=any_overshoots, hold_contacts=hold_contacts)
