# mypy: disable-error-code="valid-type"
"""Which vertices of a convex hull carry it on a plane.

The vertices less than `BAND` above the lowest one are candidates, as seen along the plane from a short way off: a face
that is tilted by less than about two degrees counts as lying on the plane. Up to four of them are all contacts. Of
more, four are chosen that span a large area: the one furthest from the middle of the hull, the one furthest from
that, and on both sides the ones furthest from the line between them. Each of these measures fades to nothing in the
upper half of the band. If the lowest vertex is not among the four, it is the fifth.

A hull at rest must keep its contacts: if two choices that are about as good took turns, each would tilt it a little so
that the other one is better, and it would rattle for ever. So heights in the band are seen along the nearest of some
directions a quarter of a degree apart, the `view`. What is chosen depends neither on how deep the hull is in the plane
nor on how it tilts within that.
"""

import warp as wp

from ....core.kernels.structs import make_flat
from ....core.kernels.types import Ints

BAND = wp.constant(0.035)
"""Height of the band over the lowest vertex, relative to half the diagonal of the hull: a slope of two degrees."""
FLAT = wp.constant(0.9994)
"""Cosine of the angle up to which a face of a hull counts as lying flat on another one: two degrees, as `BAND`."""
LISTED = wp.constant(64)
"""Candidates that are listed; if there are more, all vertices are looked through again."""
TIE = wp.constant(1.001)
"""How much better a later vertex must be to be chosen instead of an earlier one: corners of equal merit stay put."""
VIEWS = wp.constant(128.0)
"""Directions along which a sole is looked at have components that are multiples of one over this."""
FLAT_SIDE = wp.constant(0.01)
"""How far beyond a side of the four a vertex must be to be chosen too, relative to the length of the side."""
LOWER = wp.constant(1.0e-3)
"""How much lower than the four the lowest vertex must be to be a contact too, relative to the band."""


Around = wp.types.vector(length=8, dtype=wp.int32)


@wp.struct
class Vertices:
    """Vertices of a hull in its frame, unscaled. ``wp.array(dtype=...)`` is what `make_flat` looks for."""

    at: wp.array(dtype=wp.vec3f)
    index: wp.array(dtype=wp.int32)  # those to look at: entries ``first`` to ``end - 1``
    listed: int  # 0 if these are the numbers of the vertices themselves
    first: int
    end: int


flat_vertices = make_flat(Vertices)


@wp.func
def vertices_of(mesh: wp.uint64) -> Vertices:
    """All of a mesh, to be read by number only."""
    vertices = Vertices()
    vertices.at = wp.mesh_get(mesh).points
    vertices.end = vertices.at.shape[0]
    flat_vertices(vertices)
    return vertices


@wp.func
def vertex_at(vertices: wp.ref[Vertices], k: int) -> int:
    """Number of the vertex of entry k."""
    if vertices.listed != 0:
        return vertices.index[k]
    return k


@wp.func
def lowest_vertex(vertices: wp.ref[Vertices], slope: wp.vec3f) -> int:
    """Number of the lowest one; ``slope`` is the height per unscaled coordinate."""
    least = float(3.0e38)
    found = int(0)
    k = int(vertices.first)
    while k < vertices.end:
        i = vertex_at(vertices, k)
        height = wp.dot(slope, vertices.at[i])
        if height < least:
            least = height
            found = i
        k += 1
    return found


@wp.struct
class Sole:
    """Vertices near the plane, in the frame of the hull. A vertex v is base + slope . v above the plane."""

    scale: wp.vec3f  # of the vertices
    slope: wp.vec3f  # normal times scale
    base: float  # height of the origin of the shape [m]
    lowest: int  # vertex
    height: float  # of the lowest vertex above the plane [m]
    view: wp.vec3f  # the direction in which the band is seen, times scale
    bottom: float  # of the band [m]
    fade: float  # two over its height [1/m]
    count: int  # candidates
    first: int  # what the loops below look through: the list of candidates, or all vertices again
    end: int


@wp.func
def height_above(sole: wp.ref[Sole], vertex: wp.vec3f) -> float:
    """Of an unscaled vertex above the plane [m]."""
    return sole.base + wp.dot(sole.slope, vertex)


@wp.func
def above_bottom(sole: wp.ref[Sole], vertex: wp.vec3f) -> float:
    """Of an unscaled vertex above the bottom of the band [m]."""
    return wp.dot(sole.view, vertex) - sole.bottom


@wp.func
def place_in_band(sole: wp.ref[Sole], vertex: wp.vec3f) -> float:
    """How much a candidate counts: 1 in the lower half of the band, and less from there to its end."""
    return wp.min(2.0 - sole.fade * above_bottom(sole, vertex), 1.0)


@wp.func
def view_of(normal: wp.vec3f) -> wp.vec3f:
    """The nearest of the directions in which soles are looked at."""
    views = VIEWS * normal
    return wp.vec3f(wp.rint(views[0]), wp.rint(views[1]), wp.rint(views[2])) / VIEWS


@wp.func
def find_sole(
    vertices: wp.ref[Vertices], normal: wp.vec3f, scale: wp.vec3f, base: float, reach: float, band: float, listed: Ints
) -> Sole:
    """The candidates.

    Args:
        vertices: Of the hull, at least those in the band.
        normal: Of the plane, in the frame of the hull.
        scale: Of the vertices.
        base: Height of the origin of the shape [m].
        reach: If all vertices are above this height, none is a candidate [m].
        band: Height of the band [m].
        listed: Receives the first of them, at most `LISTED`.
    """
    sole = Sole()
    sole.scale = scale
    sole.slope = wp.cw_mul(normal, scale)
    sole.base = base
    sole.height = 3.0e38
    sole.lowest = -1
    sole.view = wp.cw_mul(view_of(normal), scale)
    sole.bottom = 3.0e38
    sole.fade = 2.0 / band
    k = int(vertices.first)
    while k < vertices.end:
        i = vertex_at(vertices, k)
        h = height_above(sole, vertices.at[i])
        if h < sole.height:
            sole.height = h
            sole.lowest = i
        sole.bottom = wp.min(sole.bottom, wp.dot(sole.view, vertices.at[i]))
        k += 1
    if sole.height <= reach:
        n = int(vertices.first)
        while n < vertices.end:
            j = vertex_at(vertices, n)
            if above_bottom(sole, vertices.at[j]) <= band:
                if sole.count < LISTED:
                    listed[sole.count] = j
                sole.count += 1
            n += 1
    sole.first = wp.where(sole.count <= LISTED, 0, vertices.first)
    sole.end = wp.where(sole.count <= LISTED, sole.count, vertices.end)
    return sole


@wp.func
def candidate(vertices: wp.ref[Vertices], sole: wp.ref[Sole], listed: Ints, k: int) -> int:
    """Vertex of entry k."""
    if sole.count <= LISTED:
        return listed[k]
    return vertex_at(vertices, k)


@wp.func
def furthest_from(vertices: wp.ref[Vertices], sole: wp.ref[Sole], listed: Ints, center: wp.vec3f) -> int:
    """The candidate furthest from a point, measured by the square of the distance and the place in the band."""
    best = float(0.0)
    chosen = int(-1)
    k = int(sole.first)
    while k < sole.end:
        i = candidate(vertices, sole, listed, k)
        below = place_in_band(sole, vertices.at[i])
        merit = below * wp.length_sq(wp.cw_mul(sole.scale, vertices.at[i]) - center)
        if merit > best * TIE:
            best = merit
            chosen = i
        k += 1
    return chosen


@wp.func
def furthest_aside(
    vertices: wp.ref[Vertices], sole: wp.ref[Sole], listed: Ints, start: wp.vec3f, aside: wp.vec3f
) -> wp.vec2i:
    """The candidates furthest from a line on both sides, -1 if there is none; ``aside`` is across it."""
    right = float(0.0)
    left = float(0.0)
    chosen = wp.vec2i(-1, -1)
    k = int(sole.first)
    while k < sole.end:
        i = candidate(vertices, sole, listed, k)
        below = place_in_band(sole, vertices.at[i])
        merit = below * wp.dot(aside, wp.cw_mul(sole.scale, vertices.at[i]) - start)
        if below > 0.0:
            if merit > right * TIE:
                right = merit
                chosen[0] = i
            elif -merit > left * TIE:
                left = -merit
                chosen[1] = i
        k += 1
    return chosen


@wp.func
def choose_four(
    vertices: wp.ref[Vertices], sole: wp.ref[Sole], listed: Ints, normal: wp.vec3f, center: wp.vec3f
) -> wp.vec4i:
    """Four of the candidates, -1 for places that stay empty; all vectors in the frame of the hull."""
    four = wp.vec4i(-1, -1, -1, -1)
    first = furthest_from(vertices, sole, listed, center)
    if first >= 0:
        start = wp.cw_mul(sole.scale, vertices.at[first])
        second = furthest_from(vertices, sole, listed, start)
        four[0] = first
        if second >= 0:
            aside = wp.cross(normal, wp.cw_mul(sole.scale, vertices.at[second]) - start)
            sides = furthest_aside(vertices, sole, listed, start, aside)
            four[1] = second
            four[2] = sides[0]
            four[3] = sides[1]
    return four


@wp.func
def choose_around(
    vertices: wp.ref[Vertices], sole: wp.ref[Sole], listed: Ints, normal: wp.vec3f, center: wp.vec3f
) -> Around:
    """Up to eight of the candidates in their order around, counter-clockwise as seen from below; -1 for empty places.

    Places 0, 2, 4 and 6 are those of `choose_four`; each of the others is the one furthest beyond the line between its
    neighbours.
    """
    four = choose_four(vertices, sole, listed, normal, center)
    around = Around(four[0], -1, four[2], -1, four[1], -1, four[3], -1)  # the sides lie between the two ends
    if sole.count <= 4:
        return around
    start = wp.matrix(shape=(4, 3), dtype=float)  # of each side
    outwards = wp.matrix(shape=(4, 3), dtype=float)
    best = wp.vec4f()
    side = int(0)
    while side < 4:
        best[side] = 3.0e38
        from_vertex = around[2 * side]
        to_vertex = around[(2 * side + 2) % 8]
        if from_vertex >= 0 and to_vertex >= 0:
            start[side] = wp.cw_mul(sole.scale, vertices.at[from_vertex])
            along = wp.cw_mul(sole.scale, vertices.at[to_vertex]) - start[side]
            outwards[side] = wp.cross(normal, along)
            best[side] = FLAT_SIDE * wp.length_sq(along)
        side += 1
    k = int(sole.first)
    while k < sole.end:
        i = candidate(vertices, sole, listed, k)
        at = wp.cw_mul(sole.scale, vertices.at[i])
        counts = place_in_band(sole, vertices.at[i])
        for m in range(4):
            merit = counts * wp.dot(outwards[m], at - start[m])
            if merit > best[m] * TIE:
                best[m] = merit
                around[2 * m + 1] = i
        k += 1
    return around
