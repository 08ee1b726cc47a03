"""The warm start: how contacts begin the Newton iteration, by the law that held for them a step ago.

A contact sticks at slip velocities below mu gamma_n R_t, 1e-4 m/s or so; slower than that friction is stiff, faster
it has no stiffness along the slip at all. Newton's method, coming from sliding, shoots past rest, and a line search
ends there once for each contact that comes to rest: in a fall that would be most of the iterations.

So the first `WARM_START_STEPS` iterations may be warm-start steps: whole steps without a search, in which chosen
contacts do not follow their law where they are. Two kinds of contacts are chosen:

    as before      While bodies turn, one step changes the slip velocity J v of the same v by more than what sticks: at
                   v0 a contact that stuck looks as if it slid, and one that slid, as if it slid another way. With a
                   the relative acceleration of the two points if no dof accelerates, its slip was u = (J v0 - h a)_t.
                   It begins in stiction, however large the impulse that this takes, if turning is most of the
                   explanation, |u| < EXPLAINED |(J v0)_t|, and friction could stop the rest easily, |u| < STUCK w mu
                   gamma_n; or, if the iteration goes on to the criterion of optimality, if it sticks at u. In the
                   stiction mode "displacement" all others have the impulse and the stiffness of sliding at u, the
                   impulse changed by the stiffness on the way from u to J v0.
    overshoots     A step would turn its slip round, and the cost ends steeper than it began. It sticks in the next.

Wherever they lead, Newton's method goes on from there with the cost as it is, and the line search. The minimizer is
one; only the way to it is shorter. All that is known of the step before is found in the state.

Called by all lanes of a block.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import barrier, block_sum, lane, lane_count
from ...core.kernels.packed_rows import multiply
from ...core.kernels.template import device
from ..objective.contacts import CALLED_TWICE, project_contact, project_sticking_contact
from ..objective.equations import advance as advance_equations
from ..objective.families import start
from ..objective.line import line_value
from ..objective.problem import Data, Line, Problem
from ..settings.precisions import cost, dynamics, solve
from ..state.kinematics import point_acceleration
from ..terms.contact import SLIDING, STICTION
from .lazy_free_velocity import CostBound, momentum_gain

scalar, vec3, energy = solve.scalar, solve.vec3, cost.scalar
sum_vectors, multiply_A = block_sum.on(dtype=vec3), multiply.on(matrix=dynamics, vector=solve)

WARM_START_STEPS = 3
"""Iterations of a solve that may be warm-start steps."""
EXPLAINED = 0.5
"""Share of a contact's slip velocity that turning may leave unexplained [-]."""
STUCK = 0.02
"""Slip velocity up to which a contact may begin in stiction, relative to w mu gamma_n, what friction could stop;"""
STUCK_ELSE_PREDICTED = 10.0
"""where all others begin as they slid, relative to mu gamma_n R_t, which sticks [-]."""


@device
def stuck_before(problem: wp.ref[Problem], data: wp.ref[Data], row: int, slip: vec3, u: vec3, mode: int) -> bool:
    """Return True if a contact with this slip velocity, which was u, begins in stiction; ``mode`` is that at u."""
    if mode == STICTION and problem.options.is_tight != 0:
        return True
    reach = scalar(wp.static(STUCK)) * problem.contacts.weight[row]
    if problem.options.is_predicted != 0:
        reach = scalar(wp.static(STUCK_ELSE_PREDICTED)) * problem.contacts.Rt[row]
    reach *= problem.contacts.mu[row] * wp.dot(problem.contacts.normal[row], data.projection[row].gamma)
    share = scalar(wp.static(EXPLAINED * EXPLAINED))
    return wp.dot(u, u) < wp.min(reach * reach, share * wp.dot(slip, slip))


@device
def start_contact_as_before(problem: wp.ref[Problem], data: wp.ref[Data], row: int) -> scalar:
    """Let a contact begin as it was a step ago; returns 1 if it does not follow its law then, else 0."""
    n = problem.contacts.normal[row]
    a = point_acceleration(problem.motion, problem.contacts.body_b[row], problem.contacts.r_b[row])
    a -= point_acceleration(problem.motion, problem.contacts.body_a[row], problem.contacts.r_a[row])
    turned = (a - n * wp.dot(n, a)) * problem.h
    vc = data.vc[row]
    slip = vc - n * wp.dot(n, vc)
    before = project_contact(problem, row, vc - turned)
    if stuck_before(problem, data, row, slip, slip - turned, before.mode):
        before = project_sticking_contact(problem, row, vc)
    elif before.mode == SLIDING and problem.options.is_predicted != 0:
        along = wp.dot(before.t, turned)
        before.gamma -= (turned - before.t * along) * before.across
        before.gamma -= before.s * (before.along_s * problem.contacts.mu[row] * along)
    else:
        return scalar(0.0)
    data.projection[row] = before
    return scalar(1.0)


@device
def start_as_before(problem: wp.ref[Problem], data: wp.ref[Data]) -> scalar:
    """Let contacts that slide at v0 begin as they were a step ago; returns how many of a lane's do."""
    started = scalar(0.0)
    row = int(problem.row + lane())
    while row < problem.row_end:
        if data.projection[row].mode == SLIDING and problem.contacts.mu[row] > scalar(0.0):
            started += start_contact_as_before(problem, data, row)
        row += lane_count()
    return started


@device
def reverses_slip(problem: wp.ref[Problem], data: wp.ref[Data], row: int) -> bool:
    """Return True if the whole step along data.dv turns the slip of a sliding contact round."""
    slides = data.projection[row].mode == SLIDING and problem.contacts.mu[row] > scalar(0.0)
    return slides and wp.dot(data.projection[row].t, data.vc[row] + data.dvc[row]) > scalar(0.0)


@device
def any_reverses_slip(problem: wp.ref[Problem], data: wp.ref[Data]) -> bool:
    """Return True if the whole step turns the slip of any contact round."""
    count = vec3()
    row = int(problem.row + lane())
    while row < problem.row_end:
        if reverses_slip(problem, data, row):
            count[0] += scalar(1.0)
        row += lane_count()
    return sum_vectors(count, data.scratch, problem.world)[0] > scalar(0.0)


@device
def hold_contacts(problem: wp.ref[Problem], data: wp.ref[Data], hold: bool) -> bool:
    """Move the contacts the whole way; with ``hold``, those whose slip turned round stick. Returns True if any do."""
    kept = vec3()
    row = int(problem.row + lane())
    while row < problem.row_end:
        vc = data.vc[row] + data.dvc[row]
        at = project_contact(problem, row, vc)
        if hold and at.mode == SLIDING:
            if reverses_slip(problem, data, row):
                at = project_sticking_contact(problem, row, vc)
                kept[0] += scalar(1.0)
        data.vc[row] = vc
        data.projection[row] = at
        row += lane_count()
    return sum_vectors(kept, data.scratch, problem.world)[0] > scalar(0.0)


@device(inline=CALLED_TWICE)
def start_at_v0(problem: wp.ref[Problem], data: wp.ref[Data], as_before: bool) -> bool:
    """Start from the incoming velocity, where A (v - v*) is minus free motion's impulse.

    With ``as_before``, contacts that seem to slide begin as they were a step ago; returns True if there are any.
    """
    e = int(problem.first + lane())
    while e < problem.last:
        data.v[e] = scalar(problem.motion.v0[e])
        e += lane_count()
    barrier()
    multiply_A(
        problem.motion.A, problem.layout.rows, problem.first, problem.last - problem.first, data.v, data.A_v_star
    )
    e = int(problem.first + lane())
    while e < problem.last:
        Av = -scalar(problem.motion.impulse[e])
        data.momentum[e] = Av
        data.A_v_star[e] = data.A_v_star[e] - Av
        e += lane_count()
    start(problem, data)
    kept = vec3()
    if as_before:
        kept[0] = start_as_before(problem, data)
    barrier()
    return sum_vectors(kept, data.scratch, problem.world)[0] > scalar(0.0)


@device
def overshoots(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]) -> bool:
    """Return True if the whole of data.dv turns the slip of contacts round, and ends steeper than it began."""
    if any_reverses_slip(problem, data):
        return line_value(problem, data, line, energy(1.0))[1] > -line.slope
    return False


@device
def warm_start_step(problem: wp.ref[Problem], data: wp.ref[Data], bound: wp.ref[CostBound], hold: bool) -> bool:
    """Go to v + d. With ``hold``, contacts whose slip turned round stick there; returns True if there are any."""
    bound.moved += momentum_gain(problem, data)
    barrier()
    e = int(problem.first + lane())
    while e < problem.last:
        data.v[e] = data.v[e] + data.dv[e]
        data.momentum[e] = data.momentum[e] + data.A_dv[e]
        e += lane_count()
    holds = hold_contacts(problem, data, hold)
    advance_equations(problem, data, scalar(1.0), False)
    barrier()
    return holds
