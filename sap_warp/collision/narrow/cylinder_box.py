# mypy: disable-error-code="valid-type"
"""The direction between a cylinder, or the axis of a capsule, and a box, where there is a proof that it is the one.

The points x - y, x of the box and y of the other one, are a convex set D, and its signed distance from the origin is
the largest of all directions' distances between two planes that have one shape on each side. D has flat parts:

    face   of the box, over the lowest point of the cylinder          normal x_k
    edge   of the box, across the line on the cylinder's side         normal x_k x a / |x_k x a|
    end    of the cylinder, over the highest corner of the box        normal a

    rim    of the cylinder's end, across an edge of the box          normals at right angles to the edge

Where the foot of the origin on such a plane is a point of D, no direction separates better: apart, the nearest point is
one only. Overlapping by d it must be in the middle of the flat part, d from its border. D then has a disc of radius d
in that plane, and since it has the disc 2 d further in as well (the cylinder or the box can be moved through itself so
far), all points between the two, among them the ball of radius d around the origin: every direction out is at least
that long. The rim's part is not flat but a bent strip, so that of its normals the one has to be found on which the foot
lies, and the end, which borders on it, has to be as deep at least.

Apart, and nearest in an edge or corner of the box: the point of the cylinder that is nearest to a point x of an edge is
known, and x moves along the edge until the way between them is at right angles to it. With m the direction of that way
all of the box lies before the plane through x but for sum(b_k |m_k| - m_k x_k), which must vanish.

These proofs ask for nothing that was seen before. What they do not hold for is left to `gjk` and
`epa`, which need about five times as long.

Everything is in the frame of the box and in double precision.
"""

import warp as wp

from ..broad.aabb import CAPSULE, Shapes
from .barycentric import ONE, ZERO, double, single
from .box_box import largest_axis
from .gjk import APART, NEAR, OVERLAP, SETTLED, SKIN, UNKNOWN, CorePair

_TRIALS = wp.constant(40)
"""Points of an edge that are tried."""
_TURNS = wp.constant(12)
"""Improvements of a direction that is found by repetition."""
_NEVER = wp.constant(wp.float64(3.0e38))
_PARALLEL = wp.constant(wp.float64(1.0e-12))
"""Sine of the angle between an axis of the box and a line along it, or its square where the two span a plane."""


@wp.struct
class AxisBox:
    """A cylinder with its axis, or an axis without radius, and a box, and what is known of them."""

    axis: wp.vec3d
    middle: wp.vec3d  # of the axis [m]
    radius: wp.float64
    half: wp.float64  # length of the axis [m]
    size: wp.vec3d  # half sizes of the box [m]
    reach: wp.float64  # how far apart contacts may be [m]
    state: int  # `APART`, `NEAR` or `OVERLAP` if a direction is known, else `UNKNOWN`
    out: wp.vec3d  # the direction, from the box to the axis
    distance: wp.float64  # along it; negative if they overlap [m]; the largest one so far if none is known
    best: wp.vec3d  # the direction that separates best so far
    point: wp.vec3d  # of the cylinder, nearest to the box or deepest in it


@wp.func
def settle(
    q: wp.ref[AxisBox], out: wp.vec3d, distance: wp.float64, room: wp.float64, thick: wp.float64, point: wp.vec3d
) -> None:
    """Take a direction if it is proved to be the one.

    Args:
        q: Of which pair.
        out: The direction.
        distance: Along it [m].
        room: From the foot of the origin to the border of the flat part; negative if it is beside it [m].
        thick: How far a shape can be moved along the direction and still lie on what it covers now [m].
        point: Of the cylinder, at the foot [m].
    """
    if distance > q.distance:
        q.distance = distance
        q.best = out
    deep = wp.max(-distance, ZERO)
    if room >= deep and thick >= wp.float64(2.0) * deep:
        q.state = wp.where(distance > ZERO, NEAR, OVERLAP)
        q.out = out
        q.distance = distance
        q.point = point


@wp.func
def try_face(q: wp.ref[AxisBox], k: int, i: int, j: int) -> None:
    """The face of the box across its axis k."""
    side = wp.where(q.middle[k] > ZERO, ONE, -ONE)
    rise = side * q.axis[k]
    aside = wp.sqrt(q.axis[i] * q.axis[i] + q.axis[j] * q.axis[j])
    distance = side * q.middle[k] - q.size[k] - q.radius * aside - q.half * wp.abs(rise)
    if distance > q.reach:
        q.state = APART
        q.distance = distance
        return
    along = wp.where(rise > ZERO, -q.half, q.half)
    down = wp.where(aside > _PARALLEL, q.radius / aside, ZERO)  # else any point of the end is as good
    # the lowest point is middle + along a - down (x_k side - rise a)
    x = q.middle[i] + (along + down * rise) * q.axis[i]
    y = q.middle[j] + (along + down * rise) * q.axis[j]
    out = wp.vec3d()
    out[k] = side
    point = wp.vec3d()
    point[i] = x
    point[j] = y
    point[k] = q.middle[k] + along * q.axis[k] - side * q.radius * aside
    room = wp.min(q.size[i] - wp.abs(x), q.size[j] - wp.abs(y))
    settle(q, out, distance, room, wp.float64(2.0) * q.size[k], point)


@wp.func
def try_edge(q: wp.ref[AxisBox], k: int, i: int, j: int) -> None:
    """An edge of the box along its axis k, across the line on the side of the cylinder."""
    square = q.axis[i] * q.axis[i] + q.axis[j] * q.axis[j]
    if square < _PARALLEL:
        return
    sine = wp.sqrt(square)
    u = -q.axis[j] / sine
    v = q.axis[i] / sine
    distance = u * q.middle[i] + v * q.middle[j]
    if distance < ZERO:
        u = -u
        v = -v
        distance = -distance
    distance -= q.size[i] * wp.abs(u) + q.size[j] * wp.abs(v) + q.radius
    if distance > q.reach:
        q.state = APART
        q.distance = distance
        return
    x = wp.where(u > ZERO, q.size[i], -q.size[i]) - q.middle[i]
    y = wp.where(v > ZERO, q.size[j], -q.size[j]) - q.middle[j]
    along = (x * q.axis[i] + y * q.axis[j]) / square  # from the middle of the axis to where they cross
    z = q.middle[k] + along * q.axis[k]
    out = wp.vec3d()
    out[i] = u
    out[j] = v
    room = sine * wp.min(q.size[k] - wp.abs(z), q.half - wp.abs(along))
    settle(q, out, distance, room, wp.float64(2.0) * q.radius, q.middle + along * q.axis - q.radius * out)


@wp.func
def try_end(q: wp.ref[AxisBox]) -> None:
    """An end of the cylinder."""
    height = wp.dot(q.axis, q.middle)
    side = wp.where(height > ZERO, ONE, -ONE)
    out = side * q.axis
    distance = wp.abs(height) - q.half - wp.dot(q.size, wp.vec3d(wp.abs(out[0]), wp.abs(out[1]), wp.abs(out[2])))
    if distance > q.reach:
        q.state = APART
        q.distance = distance
        return
    corner = wp.vec3d(
        wp.where(out[0] > ZERO, q.size[0], -q.size[0]),
        wp.where(out[1] > ZERO, q.size[1], -q.size[1]),
        wp.where(out[2] > ZERO, q.size[2], -q.size[2]),
    )
    arm = corner - q.middle
    arm -= wp.dot(arm, out) * out
    point = q.middle - q.half * out + arm
    settle(q, out, distance, q.radius - wp.length(arm), wp.float64(2.0) * q.half, point)


@wp.func
def try_rim(q: wp.ref[AxisBox], k: int, i: int, j: int) -> None:
    """The rim of an end of the cylinder, over an edge of the box along its axis k.

    The face across axis i looks most at the end; of its two edges along k the one on the side of the end is taken.
    Across the edge the end is an ellipse with the half axes R and e = R |out_k|, and the edge a point w of the plane.
    With t the slope of the direction there, that separates best which solves
    w_0 - w_1 t + t (R^2 - e^2) / sqrt(R^2 t^2 + e^2) = 0.
    """
    side = wp.where(wp.dot(q.axis, q.middle) > ZERO, ONE, -ONE)
    out = side * q.axis
    center = q.middle - q.half * out
    along = out[k]
    square = ONE - along * along
    if square < wp.float64(0.5):
        return
    edge = wp.vec3d()  # its middle
    edge[i] = wp.where(out[i] > ZERO, q.size[i], -q.size[i])
    edge[j] = wp.where(center[j] > ZERO, q.size[j], -q.size[j])
    up = wp.vec3d(out)  # across the edge, most along the axis
    up[k] = ZERO
    up /= wp.sqrt(square)
    right = wp.vec3d()  # across both
    right[i] = up[j]
    right[j] = -up[i]
    arm = edge - center
    w0 = wp.dot(arm, right)
    w1 = wp.dot(arm, up)
    flat = q.radius * wp.abs(along)
    slope = ZERO
    change = ONE
    g = ZERO
    rest = ONE
    turn = int(0)
    while turn < _TURNS and change > _PARALLEL:
        g = (w0 - w1 * slope) / (q.radius * square)
        rest = ONE - g * g
        if rest <= ZERO:
            return
        next = -g * wp.abs(along) / wp.sqrt(rest)
        change = wp.abs(next - slope)
        slope = next
        turn += 1
    if change > _PARALLEL:
        return
    steep = ONE / wp.sqrt(ONE + slope * slope)
    normal = steep * (up + slope * right)
    if normal[i] * edge[i] < ZERO or normal[j] * edge[j] < ZERO:  # another edge of the box is nearer
        return
    width = wp.sqrt(q.radius * q.radius * slope * slope + flat * flat)
    distance = -steep * (w0 * slope + w1 + width)
    if distance > q.reach:
        q.state = APART
        q.distance = distance
        return
    forward = -along * out  # in the end, across `right`
    forward[k] += ONE
    ahead = wp.where(along > ZERO, q.radius, -q.radius) * wp.sqrt(rest / square)
    point = center + q.radius * g * right + ahead * forward
    corner = wp.vec3d(edge)
    corner[k] = wp.where(along > ZERO, q.size[k], -q.size[k])
    if wp.dot(center - corner, out) > distance:  # the end itself is nearer
        return
    near = wp.vec3d(edge)  # the point of the edge that is nearest to the axis
    near[k] = wp.clamp((center[k] + along * wp.dot(arm, out)) / square, -q.size[k], q.size[k])
    away = near - center
    away -= wp.dot(away, out) * out
    room = wp.min(q.size[k] - wp.abs(point[k]), q.radius - wp.length(away))
    settle(q, normal, distance, room, wp.float64(2.0) * q.half, point)


@wp.func
def nearest_point(q: wp.ref[AxisBox], x: wp.vec3d) -> wp.vec3d:
    """The point of the cylinder that is nearest to x."""
    arm = x - q.middle
    height = wp.dot(arm, q.axis)
    arm -= height * q.axis
    length = wp.length(arm)
    kept = wp.where(length > q.radius, q.radius / length, ONE)
    return q.middle + wp.clamp(height, -q.half, q.half) * q.axis + kept * arm


@wp.func
def try_point(q: wp.ref[AxisBox], x: wp.vec3d, k: int) -> wp.float64:
    """See whether x is the point of the box that is nearest; returns how far the cylinder's is along axis k [m]."""
    point = nearest_point(q, x)
    way = point - x
    length = wp.length(way)
    if length > SKIN:
        beyond = ZERO
        for i in range(3):
            beyond += q.size[i] * wp.abs(way[i]) - way[i] * x[i]
        if beyond <= SETTLED * length:
            q.state = wp.where(length > q.reach, APART, NEAR)
            q.out = way / length
            q.distance = length
            q.point = point
    return way[k]


@wp.func
def rim_crossings(q: wp.ref[AxisBox], x: wp.vec3d, k: int) -> wp.vec2d:
    """Coordinates along axis k at which the line through x enters and leaves the cylinder, seen along its axis [m].

    Both are nan or infinite if it does neither. The way to the cylinder has a kink there.
    """
    arm = x - q.middle
    arm[k] = -q.middle[k]
    arm -= wp.dot(arm, q.axis) * q.axis
    square = ONE - q.axis[k] * q.axis[k]
    root = wp.sqrt(arm[k] * arm[k] - square * (wp.dot(arm, arm) - q.radius * q.radius))
    return wp.vec2d((-arm[k] - root) / square, (-arm[k] + root) / square)


@wp.func
def search_edge(q: wp.ref[AxisBox], x: wp.vec3d, k: int) -> wp.float64:
    """Look for the nearest point on the edge along axis k that goes through x; returns its coordinate there [m].

    The way to the cylinder falls along the edge, so its sign tells on which side the point is.
    """
    at = wp.vec3d(x)
    lower = -q.size[k]
    upper = q.size[k]
    at[k] = lower
    below = try_point(q, at, k)
    if below <= ZERO or q.state != UNKNOWN:
        return lower
    at[k] = upper
    above = try_point(q, at, k)
    if above >= ZERO or q.state != UNKNOWN:
        return upper
    crossings = rim_crossings(q, x, k)
    widest = upper - lower
    moved = int(0)  # which end did so last
    trial = int(0)
    while q.state == UNKNOWN and trial < _TRIALS:
        t = wp.where(trial == 0, crossings[0], crossings[1])
        if trial > 1:
            # a secant; an end that stays counts half, and at times the middle is tried, since there may be other kinks
            t = (lower * above - upper * below) / (above - below)
            if trial % 3 == 1:
                if upper - lower > wp.float64(0.25) * widest:
                    t = wp.float64(0.5) * (lower + upper)
                widest = upper - lower
        if t > lower and t < upper:
            at[k] = t
            value = try_point(q, at, k)
            if value > ZERO:
                lower = t
                below = value
                above *= wp.where(moved > 0 and trial > 2, wp.float64(0.5), ONE)
                moved = 1
            else:
                upper = t
                above = value
                below *= wp.where(moved < 0 and trial > 2, wp.float64(0.5), ONE)
                moved = -1
        elif trial > 1:
            trial = _TRIALS
        trial += 1
    return at[k]


@wp.func
def try_edges(q: wp.ref[AxisBox]) -> None:
    """Edges and corners of the face of the box that looks most along the direction that separates best."""
    best = q.best
    k = int(largest_axis(single(best)))
    i = (k + 1) % 3
    j = (k + 2) % 3
    if wp.abs(best[j]) > wp.abs(best[i]):
        i = (k + 2) % 3
        j = (k + 1) % 3
    x = wp.vec3d()
    x[k] = wp.where(best[k] > ZERO, q.size[k], -q.size[k])
    x[i] = wp.where(best[i] > ZERO, q.size[i], -q.size[i])
    turn = int(0)
    while q.state == UNKNOWN and turn < 3:  # along j, along i from the end that was nearer, and along j again
        x[j] = search_edge(q, x, j)
        x[j] = wp.where(x[j] > ZERO, q.size[j], -q.size[j])
        k = i
        i = j
        j = k
        turn += 1


@wp.func
def find_flat_part(q: wp.ref[AxisBox]) -> None:
    """Try the flat parts one after another."""
    try_face(q, 0, 1, 2)
    if q.state == UNKNOWN:
        try_face(q, 1, 2, 0)
    if q.state == UNKNOWN:
        try_face(q, 2, 0, 1)
    if q.state == UNKNOWN:
        try_edge(q, 0, 1, 2)
    if q.state == UNKNOWN:
        try_edge(q, 1, 2, 0)
    if q.state == UNKNOWN:
        try_edge(q, 2, 0, 1)
    if q.state == UNKNOWN and q.radius > ZERO:
        try_end(q)
        i = largest_axis(single(q.axis))
        if q.state == UNKNOWN:
            try_rim(q, (i + 1) % 3, i, (i + 2) % 3)
        if q.state == UNKNOWN:
            try_rim(q, (i + 2) % 3, i, (i + 1) % 3)


@wp.func
def find_proved(s: wp.ref[Shapes], pair: wp.ref[CorePair], reach: wp.float64) -> bool:
    """Direction, distance and nearest point of a cylinder or capsule and a box; False if there is no proof of any."""
    q = AxisBox()
    size = double(s.size[pair.shape0])
    q.radius = wp.where(s.kind[pair.shape0] == CAPSULE, ZERO, size[0])
    q.half = size[1]
    q.size = double(s.size[pair.shape1])
    q.axis = pair.turn[2]
    q.middle = -(wp.transpose(pair.turn) * pair.place)
    q.reach = reach
    q.state = UNKNOWN
    q.distance = -_NEVER
    find_flat_part(q)
    if q.state == UNKNOWN and q.distance > ZERO:
        try_edges(q)
    if q.state == UNKNOWN:
        return False
    pair.state = q.state
    pair.distance = q.distance
    pair.normal = -(pair.turn * q.out)
    pair.point = pair.turn * q.point + pair.place
    return True
