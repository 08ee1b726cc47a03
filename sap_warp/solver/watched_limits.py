"""Joint limits that were too far away to take part when v* was not known yet.

A limit takes part where its gap is at most 2 h max(|v0|, |v*|). Beyond 2 h |v0| that depends on v*, but it only matters
if the result crosses the limit: the term of a limit that is not crossed is zero, and so are its derivatives. So such
limits are watched, and join in when the minimum without them has crossed one.

    crossed    v < vhat = -gap/(h + kd/ke),   that is   v (h ke + kd) + gap ke < 0
"""

import functools
from types import SimpleNamespace

import warp as wp

from ..kernels.lanes import barrier, lane
from ..kernels.types import Types
from .free_motion import make_free_motion_data
from .layout import Layout
from .terms.dof import LIMIT, NO_GAP, PARABOLA, make_dof_terms
from .terms.drive import NEAR_RIGID
from .terms.limit import NO_LIMIT, make_limit_term


@functools.cache
def make_watched_limits(dynamics: Types, types: Types, pose: Types) -> SimpleNamespace:
    """Device functions ``crosses_limits`` and ``add_limits``, called by all lanes of a block."""
    FreeMotion = make_free_motion_data(pose, dynamics)
    dof_terms = make_dof_terms(types)
    Terms, Watch = dof_terms.DofTerms, dof_terms.Watch
    position_limit = make_limit_term(types).position_limit
    scalar, vec3 = types.scalar, types.vec3

    @wp.func
    def crosses(gap: scalar, ke: scalar, rate: scalar, v: scalar) -> bool:
        return v * rate + gap * ke < scalar(0.0)

    @wp.func
    def crosses_limits(t: wp.ref[Terms], v: wp.array(dtype=scalar), first: int, last: int) -> scalar:
        """A lane's share of the number of dofs that cross a watched limit."""
        count = scalar(0.0)
        e = int(first + lane())
        while e < last:
            watch = t.watch[e]
            rise = v[e] * watch[3]
            if rise + watch[0] * watch[2] < scalar(0.0) or watch[1] * watch[2] - rise < scalar(0.0):
                count += scalar(1.0)
            e += wp.block_dim()
        return count

    @wp.func
    def add_limits(
        layout: wp.ref[Layout],
        d: wp.ref[FreeMotion],
        t: wp.ref[Terms],
        v: wp.array(dtype=scalar),
        world: int,
        h: scalar,
    ) -> vec3:
        """Let watched limits take part that v crosses and v0 or v* might; a lane's share of their number and cost."""
        first = layout.world_dof[world]
        last = layout.world_dof[world + 1]
        added = vec3()
        e = int(first + lane())
        while e < last:
            watch = t.watch[e]
            reach = scalar(2.0) * h * wp.max(wp.abs(scalar(d.v0[e])), wp.abs(scalar(d.v_star[e])))
            reach = wp.min(reach, scalar(wp.static(0.5 * NO_GAP)))  # a bound joins in once, however fast the dof is
            at_lower = watch[0] <= reach and crosses(watch[0], watch[2], watch[3], v[e])
            at_upper = watch[1] <= reach and crosses(watch[1], watch[2], watch[3], -v[e])
            if at_lower or at_upper:
                none = scalar(wp.static(NO_LIMIT))
                lower = none
                upper = none
                near_rigid = scalar(wp.static(NEAR_RIGID)) * scalar(d.inverse_diagonal[e])
                R = wp.max(near_rigid, scalar(1.0) / (h * watch[3]))
                if (t.kind[e] & LIMIT) == 0:
                    t.kind[e] = t.kind[e] | LIMIT
                    t.limit_lower[e] = none
                    t.limit_upper[e] = none
                    t.limit_R[e] = R
                if at_lower:
                    lower = -watch[0] * watch[2] / watch[3]
                    t.limit_lower[e] = lower
                if at_upper:
                    upper = -watch[1] * watch[2] / watch[3]
                    t.limit_upper[e] = upper
                added += vec3(scalar(1.0), position_limit(v[e], lower, upper, R)[0], scalar(0.0))
                gone = scalar(wp.static(NO_GAP))
                t.watch[e] = Watch(
                    wp.where(at_lower, gone, watch[0]), wp.where(at_upper, gone, watch[1]), watch[2], watch[3]
                )
            e += wp.block_dim()
        barrier()
        if lane() == 0:
            list_bounded(t, world, first, last)
        barrier()
        return added

    @wp.func
    def list_bounded(t: wp.ref[Terms], world: int, first: int, last: int):
        """Pack the dofs that have terms with bounds, and count those that have any."""
        count = int(0)
        total = int(0)
        e = int(first)
        while e < last:
            if t.kind[e] != 0:
                total += 1
                if t.kind[e] != PARABOLA:
                    t.list[first + count] = e
                    count += 1
            e += 1
        t.total[world] = total
        t.count[world] = count

    return SimpleNamespace(crosses_limits=crosses_limits, add_limits=add_limits)
