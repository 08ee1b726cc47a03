# mypy: disable-error-code="valid-type"
"""GJK: the closest points of two convex cores, or a simplex that shows that they overlap (Gilbert, Johnson, Keerthi).

The core of a shape is the shape shrunk by its radius: a sphere's centre, a capsule's axis; cylinders, boxes and hulls
are their own cores. The differences x - y of points of two cores, x of the second and y of the first, are a convex set,
their Minkowski difference. If the origin is outside, the point of the set closest to it gives normal and distance. GJK
finds it as the closest point of a simplex whose vertices are support points of the set, from iteration to iteration the
best one. If the origin is inside, EPA goes on from the last simplex (`epa`).

Everything is in the frame of the first shape and in double precision: support points are known to single precision, but
differences of them are divided by each other here.
"""

import warp as wp

from ...model.shapes import BOX, CYLINDER
from ..broad.aabb import Shapes
from .barycentric import ZERO, Points, barycentric_simplex, double, single
from .hulls.separation import lowest_point
from .hulls.supports import Supports

APART, NEAR, OVERLAP, UNKNOWN = (wp.constant(k) for k in range(4))
OVERLAP_TOLERANCE = wp.constant(wp.float64(1.0e-5))
"""Cores closer than this count as overlapping, so that their normal is that of a face or of two edges [m]."""
_MAX_ITERATIONS = wp.constant(48)
DISTANCE_TOLERANCE = wp.constant(wp.float64(1.0e-9))
"""GJK ends when the upper and the lower bound of the distance differ by this much [m]."""


@wp.struct
class CorePair:
    """Two cores in the frame of the first one, and what was found of them."""

    shape0: int
    shape1: int
    rotation: wp.mat33d  # of the second core, its axes as columns
    translation: wp.vec3d  # its origin [m]
    state: int  # `APART`: beyond reach; `NEAR`; `OVERLAP`; `UNKNOWN`: not found
    normal: wp.vec3d  # from the first to the second core
    distance: wp.float64  # along the normal, negative for an overlap [m]; a lower bound if `APART`
    point: wp.vec3d  # of the first core, closest to the second or deepest in it


@wp.struct
class SupportPoint:
    """A support point of the Minkowski difference, and the point of the first core that it was made of."""

    point: wp.vec3d
    point0: wp.vec3d


@wp.func
def double_quat(q: wp.quatf) -> wp.quatd:
    """Convert a unit quaternion to double precision."""
    return wp.normalize(wp.quatd(wp.float64(q[0]), wp.float64(q[1]), wp.float64(q[2]), wp.float64(q[3])))


@wp.func
def make_core_pair(shapes: wp.ref[Shapes], shape0: int, shape1: int) -> CorePair:
    """Two cores, the second one in the frame of the first."""
    pair = CorePair()
    pair.shape0 = shape0
    pair.shape1 = shape1
    rotation0 = double_quat(wp.transform_get_rotation(shapes.pose[shape0]))
    rotation1 = double_quat(wp.transform_get_rotation(shapes.pose[shape1]))
    offset = double(wp.transform_get_translation(shapes.pose[shape1])) - double(
        wp.transform_get_translation(shapes.pose[shape0])
    )
    pair.rotation = wp.quat_to_matrix(wp.quat_inverse(rotation0) * rotation1)
    pair.translation = wp.quat_rotate_inv(rotation0, offset)
    return pair


@wp.func
def core_support(shapes: wp.ref[Shapes], supports: wp.ref[Supports], shape: int, up: wp.vec3d) -> wp.vec3d:
    """Support point of a core opposite to ``up``, its lowest point; both in the frame of the shape [m]."""
    kind = shapes.kind[shape]
    size = double(shapes.size[shape])
    z = wp.where(up[2] > ZERO, -size[2], size[2])
    if kind == BOX:
        return wp.vec3d(wp.where(up[0] > ZERO, -size[0], size[0]), wp.where(up[1] > ZERO, -size[1], size[1]), z)
    if kind == CYLINDER:  # in double precision: the rim is as exact as the direction is
        across = wp.sqrt(up[0] * up[0] + up[1] * up[1])
        arm = wp.where(across > ZERO, -size[0] / across, ZERO)
        return wp.vec3d(arm * up[0], arm * up[1], wp.where(up[2] > ZERO, -size[1], size[1]))
    return double(lowest_point(shapes, supports, shape, single(up)))


@wp.func
def minkowski_support(
    shapes: wp.ref[Shapes], supports: wp.ref[Supports], pair: wp.ref[CorePair], up: wp.vec3d
) -> SupportPoint:
    """Support point of the Minkowski difference opposite to ``up``."""
    support = SupportPoint()
    support.point0 = core_support(shapes, supports, pair.shape0, -up)
    support.point = (
        pair.rotation * core_support(shapes, supports, pair.shape1, wp.transpose(pair.rotation) * up)
        + pair.translation
        - support.point0
    )
    return support


@wp.func
def find_closest_points(
    shapes: wp.ref[Shapes],
    supports: wp.ref[Supports],
    pair: wp.ref[CorePair],
    reach: wp.float64,
    simplex: Points,
    points0: Points,
) -> int:
    """Find the closest points of two cores by GJK, unless they overlap or are further apart than ``reach`` [m].

    Args:
        shapes: The shapes.
        supports: Support points of hulls.
        pair: The cores; receives state, normal, distance and point.
        reach: Distance beyond which no closest points are needed [m].
        simplex: Receives the vertices that the closest point lies between, or that EPA begins with.
        points0: Receives the points of the first core that the vertices were made of.

    Returns:
        Number of vertices of the simplex.
    """
    pair.state = UNKNOWN
    support = minkowski_support(shapes, supports, pair, pair.translation)
    simplex[0] = support.point
    points0[0] = support.point0
    count = int(1)
    least_distance = wp.float64(3.0e38)
    k = int(0)
    while k < _MAX_ITERATIONS:
        weights = barycentric_simplex(simplex, count)
        if weights[0] < ZERO:
            pair.state = OVERLAP
            return count
        closest = wp.vec3d()
        point = wp.vec3d()
        kept = int(0)
        i = int(0)
        while i < count:
            if weights[i] > ZERO:
                closest += weights[i] * simplex[i]
                point += weights[i] * points0[i]
                simplex[kept] = simplex[i]
                points0[kept] = points0[i]
                kept += 1
            i += 1
        count = kept
        distance = wp.length(closest)
        if distance < OVERLAP_TOLERANCE:
            pair.state = OVERLAP
            return count
        converged = distance >= least_distance
        if not converged:
            least_distance = distance
            pair.normal = closest / distance
            pair.distance = distance
            pair.point = point
            support = minkowski_support(shapes, supports, pair, pair.normal)
            lower_bound = wp.dot(pair.normal, support.point)
            if lower_bound > reach:
                pair.state = APART
                pair.distance = lower_bound
                return count
            converged = distance - lower_bound <= DISTANCE_TOLERANCE
        if converged:
            pair.state = NEAR
            return count
        simplex[count] = support.point
        points0[count] = support.point0
        count += 1
        k += 1
    return count
