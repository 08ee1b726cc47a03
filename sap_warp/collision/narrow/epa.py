# mypy: disable-error-code="valid-type"
"""The shortest way out of an overlap of two convex cores: a polytope that grows in the set of their differences.

It begins as a tetrahedron around the origin. Its face nearest to the origin either is one of the set, and then no other
direction separates better, or there is a point of the set beyond it, which becomes a corner of the polytope.
"""

import warp as wp

from ..broad.aabb import Shapes
from .barycentric import ONE, ZERO, Corners, weigh_three
from .gjk import OVERLAP, UNKNOWN, CorePair, lowest_corner
from .hulls.supports import Supports

CORNERS_MAX = wp.constant(64)
FACES_MAX = wp.constant(128)
_ENOUGH = wp.constant(wp.float64(1.0e-7))
"""How far beyond the nearest face a point of the set may be [m]."""
_FLAT = wp.constant(wp.float64(1.0e-11))
"""Faces whose plane a new corner is so near to are replaced too, so that none is a line [m]."""
_LINE = wp.constant(wp.float64(1.0e-18))
"""Twice the area of a triangle that is no face [m^2]."""
_NEVER = wp.constant(wp.float64(3.0e38))


@wp.struct
class Polytope:
    """Corners and faces; arrays of `CORNERS_MAX` and `FACES_MAX` entries. Made with ``wp.array(dtype=...)``."""

    corners: int
    faces: int
    at: wp.array(dtype=wp.vec3d)
    first: wp.array(dtype=wp.vec3d)  # the point of the first core that a corner was made of
    face: wp.array(dtype=wp.vec3i)  # corners, around the outer side
    plane: wp.array(dtype=wp.vec4d)  # outer normal, and height above the origin [m]


@wp.func
def polytope(at: Corners, first: Corners, face: wp.array[wp.vec3i], plane: wp.array[wp.vec4d]) -> Polytope:
    """Without corners and faces; Warp wants the arrays as arguments."""
    p = Polytope()
    p.at = at
    p.first = first
    p.face = face
    p.plane = plane
    return p


@wp.func
def add_corner(
    s: wp.ref[Shapes], t: wp.ref[Supports], pair: wp.ref[CorePair], p: wp.ref[Polytope], out: wp.vec3d
) -> None:
    """The point of the set that lies furthest along a direction."""
    corner = lowest_corner(s, t, pair, -out)
    p.at[p.corners] = corner.at
    p.first[p.corners] = corner.first
    p.corners += 1


@wp.func
def add_face(p: wp.ref[Polytope], i: int, j: int, k: int) -> None:
    """A triangle, seen from outside in this order."""
    n = wp.cross(p.at[j] - p.at[i], p.at[k] - p.at[i])
    size = wp.length(n)
    plane = wp.vec4d(ZERO, ZERO, ZERO, _NEVER)
    if size > _LINE:
        n /= size
        plane = wp.vec4d(n[0], n[1], n[2], wp.dot(n, p.at[i]))
    p.face[p.faces] = wp.vec3i(i, j, k)
    p.plane[p.faces] = plane
    p.faces += 1


@wp.func
def fill_up(s: wp.ref[Shapes], t: wp.ref[Supports], pair: wp.ref[CorePair], p: wp.ref[Polytope]) -> bool:
    """Add corners until there are four that are not in a plane; False if the set has no such ones."""
    axis = int(0)
    while p.corners == 1 and axis < 6:
        out = wp.vec3d()
        out[axis % 3] = wp.where(axis < 3, ONE, -ONE)
        add_corner(s, t, pair, p, out)
        if wp.length(p.at[1] - p.at[0]) < wp.float64(1.0e-7):
            p.corners = 1
        axis += 1
    if p.corners == 2:
        way = wp.normalize(p.at[1] - p.at[0])
        other = wp.vec3d()
        other[wp.where(wp.abs(way[0]) < wp.float64(0.6), 0, 1)] = ONE
        out2 = wp.normalize(wp.cross(way, other))
        turns = int(0)
        while p.corners == 2 and turns < 4:
            add_corner(s, t, pair, p, out2)
            if wp.length(wp.cross(way, p.at[2] - p.at[0])) < wp.float64(1.0e-7):
                p.corners = 2
            out2 = wp.cross(way, out2)
            turns += 1
    if p.corners == 3:
        n = wp.normalize(wp.cross(p.at[1] - p.at[0], p.at[2] - p.at[0]))
        add_corner(s, t, pair, p, n)
        if wp.abs(wp.dot(n, p.at[3] - p.at[0])) < wp.float64(1.0e-7):
            p.corners = 3
            add_corner(s, t, pair, p, -n)
    if p.corners < 4:
        return False
    up = wp.cross(p.at[1] - p.at[0], p.at[2] - p.at[0])
    height = wp.dot(up, p.at[3] - p.at[0])
    a = wp.where(height > ZERO, 0, 1)
    b = wp.where(height > ZERO, 1, 0)
    add_face(p, b, a, 2)
    add_face(p, a, b, 3)
    add_face(p, b, 2, 3)
    add_face(p, 2, a, 3)
    return wp.abs(height) > _LINE


@wp.func
def nearest_face(p: wp.ref[Polytope]) -> int:
    """The face that is nearest to the origin."""
    found = int(0)
    f = int(1)
    while f < p.faces:
        if p.plane[f][3] < p.plane[found][3]:
            found = f
        f += 1
    return found


@wp.func
def add_edge(edges: wp.array[wp.vec2i], count: int, i: int, j: int) -> int:
    """Count an edge of a face that is taken away; with its second face it goes too."""
    k = int(0)
    while k < count:
        if edges[k][0] == j and edges[k][1] == i:
            edges[k] = edges[count - 1]
            return count - 1
        k += 1
    edges[count] = wp.vec2i(i, j)
    return count + 1


@wp.func
def borders(edges: wp.array[wp.vec2i], count: int, face: wp.vec3i) -> bool:
    """Whether a face has one of the edges, the other way round."""
    k = int(0)
    while k < count:
        i = edges[k][0]
        j = edges[k][1]
        if (i == face[1] and j == face[0]) or (i == face[2] and j == face[1]) or (i == face[0] and j == face[2]):
            return True
        k += 1
    return False


@wp.func
def add_edges(edges: wp.array[wp.vec2i], count: int, face: wp.vec3i) -> int:
    """Count the edges of a face that is taken away."""
    count = add_edge(edges, count, face[0], face[1])
    count = add_edge(edges, count, face[1], face[2])
    return add_edge(edges, count, face[2], face[0])


@wp.func
def swap_faces(p: wp.ref[Polytope], f: int, g: int) -> None:
    """Exchange the places of two faces."""
    face = p.face[f]
    plane = p.plane[f]
    p.face[f] = p.face[g]
    p.plane[f] = p.plane[g]
    p.face[g] = face
    p.plane[g] = plane


@wp.func
def grow(p: wp.ref[Polytope], edges: wp.array[wp.vec2i], nearest: int) -> bool:
    """Make the last corner, which sees the nearest face, one of the polytope; False if it then has no inside.

    The faces that it sees are one piece. Rounding lets it see narrow ones elsewhere; taking those away as well would
    tear the polytope, which could then have more than twice as many faces as corners.
    """
    new = p.corners - 1
    at = p.at[new]
    taken = p.faces - 1  # faces from here on go
    swap_faces(p, nearest, taken)
    seen = taken  # faces from here on are seen
    f = int(0)
    while f < seen:
        plane = p.plane[f]
        if plane[0] * at[0] + plane[1] * at[1] + plane[2] * at[2] - plane[3] > -_FLAT:
            seen -= 1
            swap_faces(p, f, seen)
        else:
            f += 1
    count = add_edges(edges, 0, p.face[taken])
    f = seen
    while f < taken:
        if borders(edges, count, p.face[f]):
            taken -= 1
            swap_faces(p, f, taken)
            count = add_edges(edges, count, p.face[taken])
            f = seen
        else:
            f += 1
    p.faces = taken
    if count < 3 or taken + count > FACES_MAX:
        return False
    k = int(0)
    while k < count:
        add_face(p, edges[k][0], edges[k][1], new)
        k += 1
    return True


@wp.func
def place_point(p: wp.ref[Polytope], pair: wp.ref[CorePair], out: wp.vec3d, height: wp.float64) -> None:
    """The point of the first core, from the face that the foot of the origin lies in: of a flat part there are more."""
    foot = height * out
    least = wp.float64(3.0e38)
    f = int(0)
    while f < p.faces:
        if p.plane[f][3] <= height + _ENOUGH:
            face = p.face[f]
            weight = weigh_three(p.at[face[0]], p.at[face[1]], p.at[face[2]])
            at = weight[0] * p.at[face[0]] + weight[1] * p.at[face[1]] + weight[2] * p.at[face[2]]
            away = wp.length_sq(at - foot)
            if away < least:
                least = away
                pair.point = weight[0] * p.first[face[0]] + weight[1] * p.first[face[1]] + weight[2] * p.first[face[2]]
        f += 1


@wp.func
def find_overlap(
    s: wp.ref[Shapes], t: wp.ref[Supports], pair: wp.ref[CorePair], count: int, w: Corners, first: Corners
) -> None:
    """After `find_nearest` found an overlap: the shortest way out, from the ``count`` corners that it left."""
    at = wp.zeros(shape=(CORNERS_MAX,), dtype=wp.vec3d)
    firsts = wp.zeros(shape=(CORNERS_MAX,), dtype=wp.vec3d)
    faces = wp.zeros(shape=(FACES_MAX,), dtype=wp.vec3i)
    planes = wp.zeros(shape=(FACES_MAX,), dtype=wp.vec4d)
    p = polytope(at, firsts, faces, planes)
    edges = wp.zeros(shape=(FACES_MAX,), dtype=wp.vec2i)
    while p.corners < count:
        p.at[p.corners] = w[p.corners]
        p.first[p.corners] = first[p.corners]
        p.corners += 1
    pair.state = UNKNOWN
    grows = fill_up(s, t, pair, p)
    while grows:
        f = nearest_face(p)
        plane = p.plane[f]
        out = wp.vec3d(plane[0], plane[1], plane[2])
        grows = plane[3] < _NEVER
        if grows:
            add_corner(s, t, pair, p, out)
            height = wp.dot(out, p.at[p.corners - 1])
            # without room for more corners the direction still is one that separates, if hardly the shortest
            if height - plane[3] <= _ENOUGH or p.corners == CORNERS_MAX:
                place_point(p, pair, out, height)
                pair.normal = -out
                pair.distance = -height
                pair.state = OVERLAP
                grows = False
            else:
                grows = grow(p, edges, f)
