# mypy: disable-error-code="valid-type"
"""Which vertices of a convex hull carry it on a plane: its support face there.

The vertices less than `BAND` above the lowest one are candidates: a face that is tilted by less than about two degrees
counts as lying on the plane. Up to four of them are all contacts. Of more, four are chosen that span a large area: the
one furthest from the middle of the hull, the one furthest from that, and on both sides the ones furthest from the line
between them. Each of these measures fades to nothing in the upper half of the band. If the lowest vertex is not among
the four, it is the fifth.

A hull at rest must keep its contacts: if two choices that are about as good took turns, each would tilt it a little so
that the other one is better, and it would rattle for ever. So heights in the band are measured along a rounded
direction, one of a grid of directions a quarter of a degree apart. What is chosen depends neither on how deep the hull
is in the plane nor on how it tilts within that.
"""

import warp as wp

from ....core.kernels.structs import assume_contiguous
from ....core.kernels.types import Ints

BAND = wp.constant(0.035)
"""Height of the band over the lowest vertex, relative to half the diagonal of the hull: a slope of two degrees."""
FLAT_COSINE = wp.constant(0.9994)
"""Cosine of the angle up to which a face of a hull counts as lying flat on another one: two degrees, as for `BAND`."""
MAX_LISTED = wp.constant(64)
"""Candidates that are listed; if there are more, all vertices are searched again."""
TIE_FACTOR = wp.constant(1.001)
"""How much better a later vertex must be to replace an earlier one, so that vertices of equal merit stay chosen."""
DIRECTION_STEPS = wp.constant(128.0)
"""Components of rounded directions are multiples of one over this."""
BULGE = wp.constant(0.01)
"""How far beyond a side of the four a vertex must be to be chosen too, relative to the length of the side."""
LOWER_SHARE = wp.constant(1.0e-3)
"""How much lower than the four the lowest vertex must be to be a contact too, relative to the band."""


Ring = wp.types.vector(length=8, dtype=wp.int32)
"""Vertices in their order around a support face; -1 for empty entries."""


@wp.struct
class Vertices:
    """Vertices of a hull in its frame, unscaled. Fields are written for `assume_contiguous`."""

    points: wp.array(dtype=wp.vec3f)
    index: wp.array(dtype=wp.int32)  # the numbers of some of them: entries ``first`` to ``end - 1``
    listed: int  # 0 if ``first`` to ``end - 1`` are the numbers themselves
    first: int
    end: int


assume_contiguous_vertices = assume_contiguous(Vertices)


@wp.func
def vertices_of(mesh: wp.uint64) -> Vertices:
    """All vertices of a mesh, to be read by number only."""
    vertices = Vertices()
    vertices.points = wp.mesh_get(mesh).points
    vertices.end = vertices.points.shape[0]
    assume_contiguous_vertices(vertices)
    return vertices


@wp.func
def vertex_at(vertices: wp.ref[Vertices], k: int) -> int:
    """Number of the vertex of entry k."""
    if vertices.listed != 0:
        return vertices.index[k]
    return k


@wp.func
def lowest_vertex(vertices: wp.ref[Vertices], slope: wp.vec3f) -> int:
    """Number of the lowest vertex; ``slope`` is the height per unscaled coordinate."""
    lowest = float(3.0e38)
    found = int(0)
    k = int(vertices.first)
    while k < vertices.end:
        i = vertex_at(vertices, k)
        height = wp.dot(slope, vertices.points[i])
        if height < lowest:
            lowest = height
            found = i
        k += 1
    return found


@wp.struct
class SupportFace:
    """Candidates for contacts with a plane. A vertex v of the hull is base + slope . v above the plane."""

    scale: wp.vec3f  # of the vertices
    slope: wp.vec3f  # normal times scale
    base: float  # height of the origin of the shape [m]
    lowest: int  # vertex
    height: float  # of the lowest vertex above the plane [m]
    direction: wp.vec3f  # the rounded normal, times scale
    bottom: float  # lower edge of the band [m]
    fade: float  # two over the height of the band [1/m]
    count: int  # of candidates
    first: int  # what the loops below go through: the list of candidates, or all vertices again
    end: int


@wp.func
def height_above(face: wp.ref[SupportFace], vertex: wp.vec3f) -> float:
    """Height of an unscaled vertex above the plane [m]."""
    return face.base + wp.dot(face.slope, vertex)


@wp.func
def height_in_band(face: wp.ref[SupportFace], vertex: wp.vec3f) -> float:
    """Height of an unscaled vertex above the lower edge of the contact band [m]."""
    return wp.dot(face.direction, vertex) - face.bottom


@wp.func
def band_weight(face: wp.ref[SupportFace], vertex: wp.vec3f) -> float:
    """Weight of a candidate: 1 in the lower half of the band, falling to 0 at its upper edge."""
    return wp.min(2.0 - face.fade * height_in_band(face, vertex), 1.0)


@wp.func
def rounded_direction(normal: wp.vec3f) -> wp.vec3f:
    """Round a normal to the grid of directions along which heights in the band are measured."""
    steps = DIRECTION_STEPS * normal
    return wp.vec3f(wp.rint(steps[0]), wp.rint(steps[1]), wp.rint(steps[2])) / DIRECTION_STEPS


@wp.func
def collect_candidates(
    vertices: wp.ref[Vertices], normal: wp.vec3f, scale: wp.vec3f, base: float, reach: float, band: float, listed: Ints
) -> SupportFace:
    """Collect the candidates for contacts with a plane.

    Args:
        vertices: Of the hull, at least those in the band.
        normal: Of the plane, in the frame of the hull.
        scale: Of the vertices.
        base: Height of the origin of the shape [m].
        reach: If all vertices are above this height, none is a candidate [m].
        band: Height of the band [m].
        listed: Receives the first candidates, at most `MAX_LISTED`.
    """
    face = SupportFace()
    face.scale = scale
    face.slope = wp.cw_mul(normal, scale)
    face.base = base
    face.height = 3.0e38
    face.lowest = -1
    face.direction = wp.cw_mul(rounded_direction(normal), scale)
    face.bottom = 3.0e38
    face.fade = 2.0 / band
    k = int(vertices.first)
    while k < vertices.end:
        i = vertex_at(vertices, k)
        height = height_above(face, vertices.points[i])
        if height < face.height:
            face.height = height
            face.lowest = i
        face.bottom = wp.min(face.bottom, wp.dot(face.direction, vertices.points[i]))
        k += 1
    if face.height <= reach:
        n = int(vertices.first)
        while n < vertices.end:
            j = vertex_at(vertices, n)
            if height_in_band(face, vertices.points[j]) <= band:
                if face.count < MAX_LISTED:
                    listed[face.count] = j
                face.count += 1
            n += 1
    face.first = wp.where(face.count <= MAX_LISTED, 0, vertices.first)
    face.end = wp.where(face.count <= MAX_LISTED, face.count, vertices.end)
    return face


@wp.func
def candidate_at(vertices: wp.ref[Vertices], face: wp.ref[SupportFace], listed: Ints, k: int) -> int:
    """Number of the vertex of entry k, between ``first`` and ``end`` of a support face.

    If the candidates are too many to be listed, entries are all vertices again, and the weight of other vertices is
    negative or zero.
    """
    if face.count <= MAX_LISTED:
        return listed[k]
    return vertex_at(vertices, k)


@wp.func
def furthest_from(vertices: wp.ref[Vertices], face: wp.ref[SupportFace], listed: Ints, center: wp.vec3f) -> int:
    """The candidate furthest from a point, by the square of the distance times its weight."""
    best = float(0.0)
    chosen = int(-1)
    k = int(face.first)
    while k < face.end:
        i = candidate_at(vertices, face, listed, k)
        weight = band_weight(face, vertices.points[i])
        merit = weight * wp.length_sq(wp.cw_mul(face.scale, vertices.points[i]) - center)
        if merit > best * TIE_FACTOR:
            best = merit
            chosen = i
        k += 1
    return chosen


@wp.func
def furthest_aside(
    vertices: wp.ref[Vertices], face: wp.ref[SupportFace], listed: Ints, start: wp.vec3f, across: wp.vec3f
) -> wp.vec2i:
    """The candidates furthest from a line on both sides, -1 if there is none; ``across`` is at right angles to it."""
    right = float(0.0)
    left = float(0.0)
    chosen = wp.vec2i(-1, -1)
    k = int(face.first)
    while k < face.end:
        i = candidate_at(vertices, face, listed, k)
        weight = band_weight(face, vertices.points[i])
        merit = weight * wp.dot(across, wp.cw_mul(face.scale, vertices.points[i]) - start)
        if weight > 0.0:
            if merit > right * TIE_FACTOR:
                right = merit
                chosen[0] = i
            elif -merit > left * TIE_FACTOR:
                left = -merit
                chosen[1] = i
        k += 1
    return chosen


@wp.func
def choose_four(
    vertices: wp.ref[Vertices], face: wp.ref[SupportFace], listed: Ints, normal: wp.vec3f, center: wp.vec3f
) -> wp.vec4i:
    """Choose four of the candidates, -1 for empty entries; all vectors are in the frame of the hull."""
    four = wp.vec4i(-1, -1, -1, -1)
    first = furthest_from(vertices, face, listed, center)
    if first >= 0:
        start = wp.cw_mul(face.scale, vertices.points[first])
        second = furthest_from(vertices, face, listed, start)
        four[0] = first
        if second >= 0:
            across = wp.cross(normal, wp.cw_mul(face.scale, vertices.points[second]) - start)
            sides = furthest_aside(vertices, face, listed, start, across)
            four[1] = second
            four[2] = sides[0]
            four[3] = sides[1]
    return four


@wp.func
def choose_ring(
    vertices: wp.ref[Vertices], face: wp.ref[SupportFace], listed: Ints, normal: wp.vec3f, center: wp.vec3f
) -> Ring:
    """Choose up to eight candidates in their order around, counter-clockwise as seen from below; -1 for empty entries.

    Entries 0, 2, 4 and 6 are those of `choose_four`; each of the others is the one furthest beyond the line between its
    neighbours.
    """
    four = choose_four(vertices, face, listed, normal, center)
    ring = Ring(four[0], -1, four[2], -1, four[1], -1, four[3], -1)  # the sides lie between the two ends
    if face.count <= 4:
        return ring
    start = wp.matrix(shape=(4, 3), dtype=float)  # of each side
    outwards = wp.matrix(shape=(4, 3), dtype=float)
    best = wp.vec4f()
    side = int(0)
    while side < 4:
        best[side] = 3.0e38
        from_vertex = ring[2 * side]
        to_vertex = ring[(2 * side + 2) % 8]
        if from_vertex >= 0 and to_vertex >= 0:
            start[side] = wp.cw_mul(face.scale, vertices.points[from_vertex])
            along = wp.cw_mul(face.scale, vertices.points[to_vertex]) - start[side]
            outwards[side] = wp.cross(normal, along)
            best[side] = BULGE * wp.length_sq(along)
        side += 1
    k = int(face.first)
    while k < face.end:
        i = candidate_at(vertices, face, listed, k)
        point = wp.cw_mul(face.scale, vertices.points[i])
        weight = band_weight(face, vertices.points[i])
        for m in range(4):
            merit = weight * wp.dot(outwards[m], point - start[m])
            if merit > best[m] * TIE_FACTOR:
                best[m] = merit
                ring[2 * m + 1] = i
        k += 1
    return ring
