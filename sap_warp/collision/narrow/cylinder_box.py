# mypy: disable-error-code="valid-type"
"""The normal between a cylinder, or the axis of a capsule, and a box, where a few lines prove that it is the best one.

Their Minkowski difference D, the points x - y with x of the box and y of the cylinder, is convex, and its signed
distance from the origin is the largest separation of the two shapes along any direction: the distance of two planes
across that direction that have one shape on each side. D has flat parts, and one that is bent:

    face   of the box, over the lowest point of the cylinder          normal x_k
    edge   of the box, across the line on the cylinder's side         normal x_k x a / |x_k x a|
    end    of the cylinder, over the highest corner of the box        normal a

    rim    of the cylinder's end, across an edge of the box          normals at right angles to the edge

Where the projection of the origin onto the plane of such a part is a point of D, no direction separates better. If the
shapes are apart, this is all: the closest point of D is unique. If they overlap by d, the projection must be in the
middle of the flat part, at least d from its border. D then has a disc of radius d in that plane, and since it has that
disc 2 d further in as well (the cylinder or the box can be moved through itself so far), it has all points between the
two discs, among them the ball of radius d around the origin: the depth along every direction is at least d. The rim's
part is not flat but a bent strip, so that among its normals the one has to be found whose plane the projection lies in,
and the end, which borders on the strip, has to be as deep at least.

If the shapes are apart, and an edge or corner of the box is closest: the point of the cylinder closest to a point x of
an edge is known in closed form, and x moves along the edge until the offset between them is at right angles to it. With
m the direction of that offset, all of the box lies behind the plane through x but for sum(b_k |m_k| - m_k x_k), which
must vanish.

The proofs depend on the poses alone, not on earlier passes. Poses for which none of them holds are left to GJK and EPA
(`gjk`, `epa`), which take about five times as long.

Everything is in the frame of the box and in double precision.
"""

import warp as wp

from ...model.shapes import CAPSULE
from ..broad.aabb import Shapes
from .barycentric import ONE, ZERO, double, single
from .box_box import largest_axis
from .gjk import APART, DISTANCE_TOLERANCE, NEAR, OVERLAP, OVERLAP_TOLERANCE, UNKNOWN, CorePair

_EDGE_TRIALS = wp.constant(40)
"""Points of an edge that are tested at most."""
_MAX_ITERATIONS = wp.constant(12)
"""Iterations for the direction across a rim."""
_INFINITE = wp.constant(wp.float64(3.0e38))
_PARALLEL = wp.constant(wp.float64(1.0e-12))
"""Sine of the angle between an axis of the box and a line along it, or its square where the two span a plane."""


@wp.struct
class CylinderBox:
    """A cylinder, or an axis with radius zero, and a box, and what is known of the direction between them."""

    axis: wp.vec3d
    center: wp.vec3d  # of the axis [m]
    radius: wp.float64
    half_length: wp.float64  # of the axis [m]
    half_size: wp.vec3d  # of the box [m]
    reach: wp.float64  # largest distance of contacts [m]
    state: int  # `APART`, `NEAR` or `OVERLAP` if a direction is accepted, else `UNKNOWN`
    direction: wp.vec3d  # the accepted direction, from the box to the axis
    distance: wp.float64  # along it, negative for an overlap [m]; the largest one so far if none is accepted
    best_direction: wp.vec3d  # the direction that separates most so far
    point: wp.vec3d  # of the cylinder, closest to the box or deepest in it


@wp.func
def accept_if_optimal(
    query: wp.ref[CylinderBox],
    direction: wp.vec3d,
    distance: wp.float64,
    inset: wp.float64,
    thickness: wp.float64,
    point: wp.vec3d,
) -> None:
    """Accept a candidate direction if it is proved to be optimal.

    Args:
        query: The pair.
        direction: The candidate.
        distance: Separation along it; negative for an overlap [m].
        inset: Distance of the origin's projection from the border of the flat part; negative outside [m].
        thickness: How far a shape can be moved along the direction and still cover the flat part [m].
        point: Point of the cylinder at the projection [m].
    """
    if distance > query.distance:
        query.distance = distance
        query.best_direction = direction
    depth = wp.max(-distance, ZERO)
    if inset >= depth and thickness >= wp.float64(2.0) * depth:
        query.state = wp.where(distance > ZERO, NEAR, OVERLAP)
        query.direction = direction
        query.distance = distance
        query.point = point


@wp.func
def candidate_face(query: wp.ref[CylinderBox], k: int, i: int, j: int) -> None:
    """Test the face of the box across its axis k."""
    side = wp.where(query.center[k] > ZERO, ONE, -ONE)
    rise = side * query.axis[k]
    across = wp.sqrt(query.axis[i] * query.axis[i] + query.axis[j] * query.axis[j])
    distance = side * query.center[k] - query.half_size[k] - query.radius * across - query.half_length * wp.abs(rise)
    if distance > query.reach:
        query.state = APART
        query.distance = distance
        return
    along = wp.where(rise > ZERO, -query.half_length, query.half_length)
    down = wp.where(across > _PARALLEL, query.radius / across, ZERO)  # else every point of the end is a lowest one
    # the lowest point is center + along a - down (x_k side - rise a)
    x = query.center[i] + (along + down * rise) * query.axis[i]
    y = query.center[j] + (along + down * rise) * query.axis[j]
    direction = wp.vec3d()
    direction[k] = side
    point = wp.vec3d()
    point[i] = x
    point[j] = y
    point[k] = query.center[k] + along * query.axis[k] - side * query.radius * across
    inset = wp.min(query.half_size[i] - wp.abs(x), query.half_size[j] - wp.abs(y))
    accept_if_optimal(query, direction, distance, inset, wp.float64(2.0) * query.half_size[k], point)


@wp.func
def candidate_edge(query: wp.ref[CylinderBox], k: int, i: int, j: int) -> None:
    """Test an edge of the box along its axis k, across the line on the side of the cylinder."""
    square = query.axis[i] * query.axis[i] + query.axis[j] * query.axis[j]
    if square < _PARALLEL:
        return
    sine = wp.sqrt(square)
    u = -query.axis[j] / sine
    v = query.axis[i] / sine
    distance = u * query.center[i] + v * query.center[j]
    if distance < ZERO:
        u = -u
        v = -v
        distance = -distance
    distance -= query.half_size[i] * wp.abs(u) + query.half_size[j] * wp.abs(v) + query.radius
    if distance > query.reach:
        query.state = APART
        query.distance = distance
        return
    x = wp.where(u > ZERO, query.half_size[i], -query.half_size[i]) - query.center[i]
    y = wp.where(v > ZERO, query.half_size[j], -query.half_size[j]) - query.center[j]
    along = (x * query.axis[i] + y * query.axis[j]) / square  # from the centre of the axis to where they cross
    z = query.center[k] + along * query.axis[k]
    direction = wp.vec3d()
    direction[i] = u
    direction[j] = v
    inset = sine * wp.min(query.half_size[k] - wp.abs(z), query.half_length - wp.abs(along))
    accept_if_optimal(
        query,
        direction,
        distance,
        inset,
        wp.float64(2.0) * query.radius,
        query.center + along * query.axis - query.radius * direction,
    )


@wp.func
def candidate_end(query: wp.ref[CylinderBox]) -> None:
    """Test an end of the cylinder."""
    height = wp.dot(query.axis, query.center)
    side = wp.where(height > ZERO, ONE, -ONE)
    direction = side * query.axis
    distance = (
        wp.abs(height)
        - query.half_length
        - wp.dot(query.half_size, wp.vec3d(wp.abs(direction[0]), wp.abs(direction[1]), wp.abs(direction[2])))
    )
    if distance > query.reach:
        query.state = APART
        query.distance = distance
        return
    corner = wp.vec3d(
        wp.where(direction[0] > ZERO, query.half_size[0], -query.half_size[0]),
        wp.where(direction[1] > ZERO, query.half_size[1], -query.half_size[1]),
        wp.where(direction[2] > ZERO, query.half_size[2], -query.half_size[2]),
    )
    arm = corner - query.center
    arm -= wp.dot(arm, direction) * direction
    point = query.center - query.half_length * direction + arm
    accept_if_optimal(
        query, direction, distance, query.radius - wp.length(arm), wp.float64(2.0) * query.half_length, point
    )


@wp.func
def candidate_rim(query: wp.ref[CylinderBox], k: int, i: int, j: int) -> None:
    """Test the rim of an end of the cylinder, over an edge of the box along its axis k.

    The face across axis i looks most at the end; of its two edges along k the one on the side of the end is taken.
    Across the edge the end is an ellipse with the half axes R and e = R |out_k|, and the edge a point w of the plane.
    With t the slope of the direction there, that direction separates best which solves
    w_0 - w_1 t + t (R^2 - e^2) / sqrt(R^2 t^2 + e^2) = 0.
    """
    side = wp.where(wp.dot(query.axis, query.center) > ZERO, ONE, -ONE)
    outwards = side * query.axis
    center = query.center - query.half_length * outwards
    along = outwards[k]
    square = ONE - along * along
    if square < wp.float64(0.5):
        return
    edge = wp.vec3d()  # its middle
    edge[i] = wp.where(outwards[i] > ZERO, query.half_size[i], -query.half_size[i])
    edge[j] = wp.where(center[j] > ZERO, query.half_size[j], -query.half_size[j])
    up = wp.vec3d(outwards)  # across the edge, most nearly along the axis
    up[k] = ZERO
    up /= wp.sqrt(square)
    right = wp.vec3d()  # across both
    right[i] = up[j]
    right[j] = -up[i]
    arm = edge - center
    w0 = wp.dot(arm, right)
    w1 = wp.dot(arm, up)
    minor = query.radius * wp.abs(along)
    slope = ZERO
    change = ONE
    g = ZERO
    cosine_sq = ONE
    iteration = int(0)
    while iteration < _MAX_ITERATIONS and change > _PARALLEL:
        g = (w0 - w1 * slope) / (query.radius * square)
        cosine_sq = ONE - g * g
        if cosine_sq <= ZERO:
            return
        next = -g * wp.abs(along) / wp.sqrt(cosine_sq)
        change = wp.abs(next - slope)
        slope = next
        iteration += 1
    if change > _PARALLEL:
        return
    steep = ONE / wp.sqrt(ONE + slope * slope)
    normal = steep * (up + slope * right)
    if normal[i] * edge[i] < ZERO or normal[j] * edge[j] < ZERO:  # another edge of the box is closer
        return
    width = wp.sqrt(query.radius * query.radius * slope * slope + minor * minor)
    distance = -steep * (w0 * slope + w1 + width)
    if distance > query.reach:
        query.state = APART
        query.distance = distance
        return
    forward = -along * outwards  # in the end, across `right`
    forward[k] += ONE
    ahead = wp.where(along > ZERO, query.radius, -query.radius) * wp.sqrt(cosine_sq / square)
    point = center + query.radius * g * right + ahead * forward
    corner = wp.vec3d(edge)
    corner[k] = wp.where(along > ZERO, query.half_size[k], -query.half_size[k])
    if wp.dot(center - corner, outwards) > distance:  # the end itself is closer
        return
    closest = wp.vec3d(edge)  # the point of the edge that is closest to the axis
    closest[k] = wp.clamp((center[k] + along * wp.dot(arm, outwards)) / square, -query.half_size[k], query.half_size[k])
    away = closest - center
    away -= wp.dot(away, outwards) * outwards
    inset = wp.min(query.half_size[k] - wp.abs(point[k]), query.radius - wp.length(away))
    accept_if_optimal(query, normal, distance, inset, wp.float64(2.0) * query.half_length, point)


@wp.func
def closest_point(query: wp.ref[CylinderBox], x: wp.vec3d) -> wp.vec3d:
    """The point of the cylinder that is closest to x."""
    arm = x - query.center
    height = wp.dot(arm, query.axis)
    arm -= height * query.axis
    length = wp.length(arm)
    share = wp.where(length > query.radius, query.radius / length, ONE)
    return query.center + wp.clamp(height, -query.half_length, query.half_length) * query.axis + share * arm


@wp.func
def candidate_point(query: wp.ref[CylinderBox], x: wp.vec3d, k: int) -> wp.float64:
    """Test the point x of the box, which is closest to the cylinder if the cylinder's point closest to it proves that.

    Returns the offset between the two points along axis k [m].
    """
    point = closest_point(query, x)
    offset = point - x
    distance = wp.length(offset)
    if distance > OVERLAP_TOLERANCE:
        beyond = ZERO
        for i in range(3):
            beyond += query.half_size[i] * wp.abs(offset[i]) - offset[i] * x[i]
        if beyond <= DISTANCE_TOLERANCE * distance:
            query.state = wp.where(distance > query.reach, APART, NEAR)
            query.direction = offset / distance
            query.distance = distance
            query.point = point
    return offset[k]


@wp.func
def rim_crossings(query: wp.ref[CylinderBox], x: wp.vec3d, k: int) -> wp.vec2d:
    """Coordinates along axis k at which the line through x enters and leaves the cylinder, seen along its axis [m].

    Both are NaN or infinite if it does neither. The distance from the cylinder has a kink there.
    """
    arm = x - query.center
    arm[k] = -query.center[k]
    arm -= wp.dot(arm, query.axis) * query.axis
    square = ONE - query.axis[k] * query.axis[k]
    root = wp.sqrt(arm[k] * arm[k] - square * (wp.dot(arm, arm) - query.radius * query.radius))
    return wp.vec2d((-arm[k] - root) / square, (-arm[k] + root) / square)


@wp.func
def search_edge(query: wp.ref[CylinderBox], x: wp.vec3d, k: int) -> wp.float64:
    """Search the edge along axis k that goes through x for its closest point; returns the coordinate of that point [m].

    The offset to the cylinder decreases along the edge, so its sign tells on which side the closest point is.
    """
    point = wp.vec3d(x)
    lower = -query.half_size[k]
    upper = query.half_size[k]
    point[k] = lower
    below = candidate_point(query, point, k)
    if below <= ZERO or query.state != UNKNOWN:
        return lower
    point[k] = upper
    above = candidate_point(query, point, k)
    if above >= ZERO or query.state != UNKNOWN:
        return upper
    crossings = rim_crossings(query, x, k)
    widest = upper - lower
    moved = int(0)  # which end was moved last
    trial = int(0)
    while query.state == UNKNOWN and trial < _EDGE_TRIALS:
        t = wp.where(trial == 0, crossings[0], crossings[1])
        if trial > 1:
            # regula falsi with halved values (Illinois), and bisection if that is slow, since there may be other kinks
            t = (lower * above - upper * below) / (above - below)
            if trial % 3 == 1:
                if upper - lower > wp.float64(0.25) * widest:
                    t = wp.float64(0.5) * (lower + upper)
                widest = upper - lower
        if t > lower and t < upper:
            point[k] = t
            value = candidate_point(query, point, k)
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
            trial = _EDGE_TRIALS
        trial += 1
    return point[k]


@wp.func
def search_box_edges(query: wp.ref[CylinderBox]) -> None:
    """Search edges and corners of that face of the box that looks most along the best direction so far."""
    best = query.best_direction
    k = int(largest_axis(single(best)))
    i = (k + 1) % 3
    j = (k + 2) % 3
    if wp.abs(best[j]) > wp.abs(best[i]):
        i = (k + 2) % 3
        j = (k + 1) % 3
    x = wp.vec3d()
    x[k] = wp.where(best[k] > ZERO, query.half_size[k], -query.half_size[k])
    x[i] = wp.where(best[i] > ZERO, query.half_size[i], -query.half_size[i])
    turn = int(0)
    while query.state == UNKNOWN and turn < 3:  # along j, along i from the end that was closer, and along j again
        x[j] = search_edge(query, x, j)
        x[j] = wp.where(x[j] > ZERO, query.half_size[j], -query.half_size[j])
        k = i
        i = j
        j = k
        turn += 1


@wp.func
def search_flat_parts(query: wp.ref[CylinderBox]) -> None:
    """Test the candidates among the parts of the Minkowski difference, one after another."""
    candidate_face(query, 0, 1, 2)
    if query.state == UNKNOWN:
        candidate_face(query, 1, 2, 0)
    if query.state == UNKNOWN:
        candidate_face(query, 2, 0, 1)
    if query.state == UNKNOWN:
        candidate_edge(query, 0, 1, 2)
    if query.state == UNKNOWN:
        candidate_edge(query, 1, 2, 0)
    if query.state == UNKNOWN:
        candidate_edge(query, 2, 0, 1)
    if query.state == UNKNOWN and query.radius > ZERO:
        candidate_end(query)
        i = largest_axis(single(query.axis))
        if query.state == UNKNOWN:
            candidate_rim(query, (i + 1) % 3, i, (i + 2) % 3)
        if query.state == UNKNOWN:
            candidate_rim(query, (i + 2) % 3, i, (i + 1) % 3)


@wp.func
def find_optimal_direction(shapes: wp.ref[Shapes], pair: wp.ref[CorePair], reach: wp.float64) -> bool:
    """Find normal, distance and contact point of a cylinder or capsule and a box.

    Returns False, and leaves the pair as it is, if no direction is proved to be optimal.
    """
    query = CylinderBox()
    size = double(shapes.size[pair.shape0])
    query.radius = wp.where(shapes.kind[pair.shape0] == CAPSULE, ZERO, size[0])
    query.half_length = size[1]
    query.half_size = double(shapes.size[pair.shape1])
    query.axis = pair.rotation[2]
    query.center = -(wp.transpose(pair.rotation) * pair.translation)
    query.reach = reach
    query.state = UNKNOWN
    query.distance = -_INFINITE
    search_flat_parts(query)
    if query.state == UNKNOWN and query.distance > ZERO:
        search_box_edges(query)
    if query.state == UNKNOWN:
        return False
    pair.state = query.state
    pair.distance = query.distance
    pair.normal = -(pair.rotation * query.direction)
    pair.point = pair.rotation * query.point + pair.translation
    return True
