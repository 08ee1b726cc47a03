"""Contacts that are taken to stick while the Newton iteration begins, found in the state alone.

A contact sticks at slip velocities below mu gamma_n R_t, 1e-4 m/s or so; slower than that friction is stiff, faster
it has no stiffness along the slip at all. Newton's method, coming from sliding, shoots past rest, and a line search
ends there once for each contact that comes to rest: of the iterations of a falling humanoid that was most.

So the first `newton.FREE_STEPS` iterations may be free: whole steps without a search, with chosen contacts *held*, in
stiction however large the impulse that it takes. Two kinds of contacts are:

    stuck before   While bodies turn, one step changes the slip velocity J v of the same v by more than what sticks: at
                   v0 a contact that stuck looks as if it slid. With a the relative acceleration of the two points if
                   no dof accelerates, its slip was u = (J v0 - h a)_t. It is held if that is most of the explanation,
                   |u| < EXPLAINED |(J v0)_t|, and friction could stop the rest easily, |u| < HELD w mu gamma_n.
    overshoots     A step would turn its slip round, and the cost ends steeper than it began. It is held in the next.

Wherever they lead, Newton's method goes on from there with the cost as it is, and the line search. The minimizer is
one; only the way to it is shorter. Nothing is remembered from step to step.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ..kernels.lanes import is_native, lane, lane_count, make_block_sum, native_twin
from .contact_terms import make_row_projections
from .kinematics import make_point_acceleration
from .solve_data import Precisions, make_problem
from .terms.contact import SLIDING, make_projection

EXPLAINED = 0.5
"""Share of a contact's slip velocity that turning may leave unexplained [-]."""
HELD = 0.02
"""Share of the slip velocity that friction could stop alone, w mu gamma_n, up to which a contact stuck [-]."""


@functools.cache
def make_was_held(precisions: Precisions):
    """``was_held(p, row, vc, at)``: whether a row that slides at v0 stuck before; ``at`` is its projection there."""
    dynamics, types, pose = precisions.dynamics, precisions.types, precisions.pose
    scalar, vec3 = types.scalar, types.vec3
    Problem, Projection = make_problem(precisions)[0], make_projection(types).Projection
    point_acceleration = make_point_acceleration(pose, dynamics, types)

    @wp.func
    def was_held(p: wp.ref[Problem], row: int, vc: vec3, at: wp.ref[Projection]) -> bool:
        if at.mode != SLIDING:
            return False
        n = p.contacts.normal[row]
        a = point_acceleration(p.motion, p.contacts.body_b[row], p.contacts.r_b[row])
        a -= point_acceleration(p.motion, p.contacts.body_a[row], p.contacts.r_a[row])
        u = vc - a * p.h
        u -= n * wp.dot(n, u)
        slip = vc - n * wp.dot(n, vc)
        reach = scalar(wp.static(HELD)) * p.contacts.weight[row] * p.contacts.mu[row] * wp.dot(n, at.gamma)
        share = scalar(wp.static(EXPLAINED * EXPLAINED))
        return wp.dot(u, u) < wp.min(reach * reach, share * wp.dot(slip, slip))

    return was_held


@functools.cache
def make_hold_contacts(precisions: Precisions) -> SimpleNamespace:
    """Device functions about rows that overshoot."""
    types = precisions.types
    Problem, Data = make_problem(precisions)
    scalar, vec3, block_sum = types.scalar, types.vec3, make_block_sum(types.vec3)
    rows = make_row_projections(precisions)
    project_row, hold_row = rows.project_row, rows.hold_row

    @wp.func
    def slip_after(p: wp.ref[Problem], s: wp.ref[Data], row: int) -> scalar:
        """Slip velocity before the whole step along s.dv, times that after it."""
        if is_native():
            return slip_after_native(p, s, row)
        return s.track[row].vv + s.track[row].vd

    # tracks lie in groups of eight rows there, number by number (`contact8.h`)
    at = "int k = row - p.row; const auto* r = &s.track.data[row - (k & 7)].vn + (k & 7);"
    slip_after_native = native_twin(slip_after, f"{at} return r[2 * 8] + r[3 * 8];", "return 0;")

    @wp.func
    def overshoots(p: wp.ref[Problem], s: wp.ref[Data], row: int) -> bool:
        """Whether the whole step along s.dv turns the slip of a sliding contact round."""
        slides = s.projection[row].mode == SLIDING and p.contacts.mu[row] > scalar(0.0)
        return slides and slip_after(p, s, row) < scalar(0.0)

    @wp.func
    def any_overshoots(p: wp.ref[Problem], s: wp.ref[Data]) -> bool:
        count = vec3()
        row = int(p.row + lane())
        while row < p.row_end:
            if overshoots(p, s, row):
                count[0] += scalar(1.0)
            row += lane_count()
        return block_sum(count, s.scratch, p.world)[0] > scalar(0.0)

    @wp.func
    def hold_contacts(p: wp.ref[Problem], s: wp.ref[Data], hold: bool) -> bool:
        """Move the rows the whole way; with ``hold``, contacts that overshoot stick. Returns whether there are any."""
        kept = vec3()
        row = int(p.row + lane())
        while row < p.row_end:
            vc = s.vc[row] + s.dvc[row]
            s.vc[row] = vc
            at = project_row(p, row, vc)
            if hold and at.mode == SLIDING:
                if overshoots(p, s, row):
                    at = hold_row(p, row, vc)
                    kept[0] += scalar(1.0)
            s.projection[row] = at
            row += lane_count()
        return block_sum(kept, s.scratch, p.world)[0] > scalar(0.0)

    return SimpleNamespace(any_overshoots=any_overshoots, hold_contacts=hold_contacts)
