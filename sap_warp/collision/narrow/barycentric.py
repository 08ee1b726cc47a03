# mypy: disable-error-code="valid-type"
"""Points between corners that are nearest to the origin, in double precision."""

from typing import TypeAlias

import warp as wp

_TINY = wp.constant(wp.float64(1.0e-30))
ZERO, ONE = wp.constant(wp.float64(0.0)), wp.constant(wp.float64(1.0))
Corners: TypeAlias = wp.array[wp.vec3d]
"""Of a simplex: differences of points of two shapes, or points of the first of them [m]."""


@wp.func
def double(v: wp.vec3f) -> wp.vec3d:
    """In double precision."""
    return wp.vec3d(wp.float64(v[0]), wp.float64(v[1]), wp.float64(v[2]))


@wp.func
def single(v: wp.vec3d) -> wp.vec3f:
    """In single precision."""
    return wp.vec3f(wp.float32(v[0]), wp.float32(v[1]), wp.float32(v[2]))


@wp.func
def weigh_two(p: wp.vec3d, q: wp.vec3d) -> wp.vec3d:
    """Weights of the ends of a line at its point nearest to the origin; the third one is zero."""
    way = q - p
    t = wp.clamp(-wp.dot(p, way) / wp.max(wp.dot(way, way), _TINY), ZERO, ONE)
    return wp.vec3d(ONE - t, t, ZERO)


@wp.func
def weigh_three(p: wp.vec3d, q: wp.vec3d, r: wp.vec3d) -> wp.vec3d:
    """Weights of the corners of a triangle at its point nearest to the origin."""
    n = wp.cross(q - p, r - p)
    area = wp.dot(n, n)
    w = wp.vec3d(wp.dot(n, wp.cross(q, r)), wp.dot(n, wp.cross(r, p)), wp.dot(n, wp.cross(p, q)))
    if area > _TINY and wp.min(w) >= ZERO:
        return w / (w[0] + w[1] + w[2])
    first = weigh_two(p, q)
    second = weigh_two(q, r)
    third = weigh_two(r, p)
    a = wp.length_sq(first[0] * p + first[1] * q)
    b = wp.length_sq(second[0] * q + second[1] * r)
    c = wp.length_sq(third[0] * r + third[1] * p)
    if a <= b and a <= c:
        return first
    if b <= c:
        return wp.vec3d(ZERO, second[0], second[1])
    return wp.vec3d(third[1], ZERO, third[0])


@wp.func
def weigh_four(w: Corners) -> wp.vec4d:
    """Weights of the corners of a tetrahedron at its point nearest to the origin; -1 first if it is inside."""
    found = wp.vec4d(-ONE, ZERO, ZERO, ZERO)
    least = wp.float64(3.0e38)
    for k in range(4):
        i = (k + 1) % 4
        j = (k + 2) % 4
        m = (k + 3) % 4
        n = wp.cross(w[j] - w[i], w[m] - w[i])
        if wp.dot(n, w[i]) * wp.dot(n, w[i] - w[k]) <= ZERO:  # the origin is not on the side of the fourth corner
            three = weigh_three(w[i], w[j], w[m])
            size = wp.length_sq(three[0] * w[i] + three[1] * w[j] + three[2] * w[m])
            if size < least:
                least = size
                found = wp.vec4d()
                found[i] = three[0]
                found[j] = three[1]
                found[m] = three[2]
    return found


@wp.func
def weigh(w: Corners, count: int) -> wp.vec4d:
    """Weights of up to four corners at the point between them that is nearest to the origin."""
    if count == 4:
        return weigh_four(w)
    weight = wp.vec3d(ONE, ZERO, ZERO)
    if count == 3:
        weight = weigh_three(w[0], w[1], w[2])
    elif count == 2:
        weight = weigh_two(w[0], w[1])
    return wp.vec4d(weight[0], weight[1], weight[2], ZERO)
