"""Shortest path over a sphere or a cylinder, as MuJoCo's spatial tendons take it.

Everything is in the frame of the geom; the axis of a cylinder is z. The path from x0 to x1 leads in a plane: of a
sphere that of x0, x1 and the centre, of a cylinder its cross-section, in which z grows evenly along the path. There it
leaves the straight line for the circle of the geom at two tangent points, or, on the inside, touches it at one point
where it is reflected.
"""

import math

import warp as wp

F = wp.float64
vec2 = wp.vec2d
vec3 = wp.vec3d

TINY = 1e-15
_CROSSED = -1.0e4
_ITERATIONS = 40


@wp.struct
class Wrap:
    """Where a path touches a geom."""

    length: F  # along the surface [m]; negative if the path is straight
    p0: vec3  # where it arrives
    p1: vec3  # where it leaves


@wp.func
def _cross2(a: vec2, b: vec2) -> F:
    """Third component of a x b."""
    return a[0] * b[1] - a[1] * b[0]


@wp.func
def _segments_cross(a0: vec2, a1: vec2, b0: vec2, b1: vec2) -> bool:
    """Return True if the segments a0 a1 and b0 b1 have a point in common."""
    da = a1 - a0
    db = b1 - b0
    det = _cross2(da, db)
    if wp.abs(det) < F(wp.static(TINY)):
        return False
    s = _cross2(b0 - a0, db) / det
    t = _cross2(b0 - a0, da) / det
    return s >= F(0.0) and s <= F(1.0) and t >= F(0.0) and t <= F(1.0)


@wp.func
def _tangent(d: vec2, radius: F, sign: F) -> vec2:
    """Tangent point of the circle seen from d, to one side of it."""
    square = wp.dot(d, d)
    reach = sign * radius * wp.sqrt(wp.max(square - radius * radius, F(0.0)))
    return vec2(d[0] * radius * radius + reach * d[1], d[1] * radius * radius - reach * d[0]) / square


@wp.func
def _around_circle(d0: vec2, d1: vec2, radius: F, has_side: bool, side: vec2):
    """Length and tangent points of a path outside of the circle; the length is negative if it is straight."""
    dif = d1 - d0
    square = wp.dot(dif, dif)
    a = F(0.0)
    if square > F(wp.static(TINY)):
        a = wp.clamp(-wp.dot(d0, dif) / square, F(0.0), F(1.0))
    near = d0 + a * dif  # of the straight line
    towards = near
    if has_side:  # on the wrong side is a line that meets the ray from the centre away from the side
        det = _cross2(d0, d1)
        if _cross2(d1, side) * det >= F(0.0) and _cross2(side, d0) * det >= F(0.0) and det != F(0.0):
            towards = side
    if wp.dot(near, near) > radius * radius and wp.dot(towards, near) >= F(0.0):
        return F(-1.0), d0, d1
    best = F(-1.0e30)
    chosen = int(0)  # of the two ways around: the first one leads clockwise
    for i in range(2):
        sign = F(1 - 2 * i)
        t0 = _tangent(d0, radius, sign)
        t1 = _tangent(d1, radius, -sign)
        good = -wp.dot(t0 - t1, t0 - t1)
        if has_side:
            middle = t0 + t1
            good = wp.dot(middle, towards) / wp.max(wp.length(middle), F(wp.static(TINY)))
        if _segments_cross(d0, t0, d1, t1):
            good = F(wp.static(_CROSSED))
        if good > best:
            best = good
            chosen = i
    sign = F(1 - 2 * chosen)
    t0 = _tangent(d0, radius, sign)
    t1 = _tangent(d1, radius, -sign)
    if _segments_cross(d0, t0, d1, t1):
        return F(-1.0), d0, d1
    angle = wp.acos(wp.clamp(wp.dot(t0, t1) / (radius * radius), F(-1.0), F(1.0)))
    turn = _cross2(t0, t1)
    if (turn > F(0.0) and chosen == 0) or (turn < F(0.0) and chosen == 1):
        angle = F(wp.static(2.0 * math.pi)) - angle
    return radius * angle, t0, t1


@wp.func
def _inside_circle(d0: vec2, d1: vec2, radius: F):
    """Point of the circle at which a path is reflected; the length is 0 there, negative if the path is straight.

    With the angle of incidence asin z the path from d0 to d1 turns by asin(A z) + asin(B z) - 2 asin z + G = 0 too
    much, A and B the radius over the distances and G the angle between d0 and d1. The function falls from G at z = 0.
    """
    l0 = wp.length(d0)
    l1 = wp.length(d1)
    dif = d1 - d0
    square = wp.dot(dif, dif)
    if square > F(wp.static(TINY)):
        a = -wp.dot(d0, dif) / square
        near = d0 + a * dif
        if a > F(0.0) and a < F(1.0) and wp.length(near) <= radius:
            return F(-1.0), d0
    middle = d0 + d1
    p = middle * (radius / wp.max(wp.length(middle), F(wp.static(TINY))))
    A = radius / l0
    B = radius / l1
    cosine = wp.dot(d0, d1) / (l0 * l1)
    if cosine < F(-1.0 + TINY):
        return F(-1.0), d0
    if cosine > F(1.0 - TINY):
        return F(0.0), p
    G = wp.acos(cosine)
    low = F(0.0)
    high = F(1.0 - 1e-7)
    if wp.asin(A * high) + wp.asin(B * high) - F(2.0) * wp.asin(high) + G > F(0.0):
        return F(0.0), p
    z = high
    for _ in range(wp.static(_ITERATIONS)):
        f = wp.asin(A * z) + wp.asin(B * z) - F(2.0) * wp.asin(z) + G
        if f > F(0.0):
            low = z
        else:
            high = z
        slope = A / wp.sqrt(F(1.0) - A * A * z * z) + B / wp.sqrt(F(1.0) - B * B * z * z)
        slope -= F(2.0) / wp.sqrt(F(1.0) - z * z)
        z = z - f / slope
        if not (z > low and z < high):
            z = F(0.5) * (low + high)
    v = d0
    angle = wp.asin(z) - wp.asin(A * z)
    if _cross2(d0, d1) <= F(0.0):
        v = d1
        angle = wp.asin(z) - wp.asin(B * z)
    v = wp.normalize(v) * radius
    c = wp.cos(angle)
    s = wp.sin(angle)
    return F(0.0), vec2(c * v[0] - s * v[1], s * v[0] + c * v[1])


@wp.func
def wrap_path(x0: vec3, x1: vec3, radius: F, cylinder: bool, has_side: bool, side: vec3) -> Wrap:
    """Shortest path from x0 to x1 over a geom, all in its frame; ``side`` is a point on the side to pass, or inside."""
    out = Wrap()
    out.length = F(-1.0)
    u = vec3(F(1.0), F(0.0), F(0.0))
    v = vec3(F(0.0), F(1.0), F(0.0))
    if not cylinder:
        u = wp.normalize(x0)
        n = wp.cross(x0, x1)
        if wp.length(n) < F(wp.static(TINY)):
            n = wp.cross(u, vec3(F(1.0), F(0.0), F(0.0)))
            if wp.abs(u[0]) > F(0.9):
                n = wp.cross(u, vec3(F(0.0), F(1.0), F(0.0)))
        v = wp.normalize(wp.cross(n, u))
    d0 = vec2(wp.dot(x0, u), wp.dot(x0, v))
    d1 = vec2(wp.dot(x1, u), wp.dot(x1, v))
    if wp.length(d0) <= radius or wp.length(d1) <= radius or radius < F(wp.static(TINY)):
        return out  # an end is inside: there is nothing to go around
    t0 = d0
    t1 = d1
    length = F(-1.0)
    if has_side and wp.length(side) < radius:
        length, t0 = _inside_circle(d0, d1, radius)
        t1 = t0
    else:
        length, t0, t1 = _around_circle(d0, d1, radius, has_side, vec2(wp.dot(side, u), wp.dot(side, v)))
    if length < F(0.0):
        return out
    out.p0 = t0[0] * u + t0[1] * v
    out.p1 = t1[0] * u + t1[1] * v
    if cylinder:
        l0 = wp.length(d0 - t0)
        l1 = wp.length(d1 - t1)
        rise = (x1[2] - x0[2]) / (l0 + length + l1)
        out.p0 = vec3(t0[0], t0[1], x0[2] + rise * l0)
        out.p1 = vec3(t1[0], t1[1], x0[2] + rise * (l0 + length))
        length = length * wp.sqrt(F(1.0) + rise * rise)
    out.length = length
    return out
