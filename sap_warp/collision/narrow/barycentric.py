# mypy: disable-error-code="valid-type"
"""Barycentric coordinates of the point of a simplex that is nearest to the origin, in double precision."""

from typing import TypeAlias

import warp as wp

_TINY = wp.constant(wp.float64(1.0e-30))
ZERO, ONE = wp.constant(wp.float64(0.0)), wp.constant(wp.float64(1.0))
Points: TypeAlias = wp.array[wp.vec3d]
"""The vertices of a simplex in the Minkowski difference of two shapes, or the points of the first shape that they were
made of [m]."""


@wp.func
def double(v: wp.vec3f) -> wp.vec3d:
    """Convert a vector to double precision."""
    return wp.vec3d(wp.float64(v[0]), wp.float64(v[1]), wp.float64(v[2]))


@wp.func
def single(v: wp.vec3d) -> wp.vec3f:
    """Convert a vector to single precision."""
    return wp.vec3f(wp.float32(v[0]), wp.float32(v[1]), wp.float32(v[2]))


@wp.func
def barycentric_segment(p: wp.vec3d, q: wp.vec3d) -> wp.vec3d:
    """Barycentric coordinates of the point of the segment pq that is nearest to the origin; the third one is zero."""
    edge = q - p
    t = wp.clamp(-wp.dot(p, edge) / wp.max(wp.dot(edge, edge), _TINY), ZERO, ONE)
    return wp.vec3d(ONE - t, t, ZERO)


@wp.func
def barycentric_triangle(p: wp.vec3d, q: wp.vec3d, r: wp.vec3d) -> wp.vec3d:
    """Barycentric coordinates of the point of the triangle pqr that is nearest to the origin."""
    normal = wp.cross(q - p, r - p)
    area = wp.dot(normal, normal)
    weights = wp.vec3d(wp.dot(normal, wp.cross(q, r)), wp.dot(normal, wp.cross(r, p)), wp.dot(normal, wp.cross(p, q)))
    if area > _TINY and wp.min(weights) >= ZERO:
        return weights / (weights[0] + weights[1] + weights[2])
    on_pq = barycentric_segment(p, q)
    on_qr = barycentric_segment(q, r)
    on_rp = barycentric_segment(r, p)
    a = wp.length_sq(on_pq[0] * p + on_pq[1] * q)
    b = wp.length_sq(on_qr[0] * q + on_qr[1] * r)
    c = wp.length_sq(on_rp[0] * r + on_rp[1] * p)
    if a <= b and a <= c:
        return on_pq
    if b <= c:
        return wp.vec3d(ZERO, on_qr[0], on_qr[1])
    return wp.vec3d(on_rp[1], ZERO, on_rp[0])


@wp.func
def barycentric_tetrahedron(simplex: Points) -> wp.vec4d:
    """Barycentric coordinates of the point of a tetrahedron that is nearest to the origin.

    The first one is -1 if the origin is inside.
    """
    nearest = wp.vec4d(-ONE, ZERO, ZERO, ZERO)
    nearest_sq = wp.float64(3.0e38)
    for k in range(4):
        i = (k + 1) % 4
        j = (k + 2) % 4
        m = (k + 3) % 4
        normal = wp.cross(simplex[j] - simplex[i], simplex[m] - simplex[i])
        # unless the origin is on the side of vertex k
        if wp.dot(normal, simplex[i]) * wp.dot(normal, simplex[i] - simplex[k]) <= ZERO:
            weights = barycentric_triangle(simplex[i], simplex[j], simplex[m])
            distance_sq = wp.length_sq(weights[0] * simplex[i] + weights[1] * simplex[j] + weights[2] * simplex[m])
            if distance_sq < nearest_sq:
                nearest_sq = distance_sq
                nearest = wp.vec4d()
                nearest[i] = weights[0]
                nearest[j] = weights[1]
                nearest[m] = weights[2]
    return nearest


@wp.func
def barycentric_simplex(simplex: Points, count: int) -> wp.vec4d:
    """Barycentric coordinates of the point of a simplex of up to four vertices that is nearest to the origin."""
    if count == 4:
        return barycentric_tetrahedron(simplex)
    weights = wp.vec3d(ONE, ZERO, ZERO)
    if count == 3:
        weights = barycentric_triangle(simplex[0], simplex[1], simplex[2])
    elif count == 2:
        weights = barycentric_segment(simplex[0], simplex[1])
    return wp.vec4d(weights[0], weights[1], weights[2], ZERO)
