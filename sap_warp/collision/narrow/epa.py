# mypy: disable-error-code="valid-type"
"""EPA, the expanding polytope algorithm: normal, depth and contact point of two convex cores that overlap.

The penetration depth is the distance of the origin from the boundary of the Minkowski difference (`gjk`). A polytope in
that set begins as a tetrahedron around the origin. Either its face closest to the origin lies in the boundary, and then
its normal is the penetration direction, or there is a support point beyond it, which becomes a vertex: the faces that
it sees are removed, and new ones join it with their horizon.
"""

import warp as wp

from ..broad.aabb import Shapes
from .barycentric import ONE, ZERO, Points, barycentric_triangle
from .gjk import OVERLAP, UNKNOWN, CorePair, minkowski_support
from .hulls.supports import Supports

MAX_VERTICES = wp.constant(64)
MAX_FACES = wp.constant(128)
_TOLERANCE = wp.constant(wp.float64(1.0e-7))
"""EPA ends when the support point is this close to the plane of the closest face [m]."""
_COPLANAR = wp.constant(wp.float64(1.0e-11))
"""Faces whose plane is this close to a new vertex are replaced too, so that no triangle degenerates to a line [m]."""
_DEGENERATE = wp.constant(wp.float64(1.0e-18))
"""Twice the area up to which a triangle has no normal [m^2]."""
_INFINITE = wp.constant(wp.float64(3.0e38))


@wp.struct
class Polytope:
    """Vertices and faces, arrays of `MAX_VERTICES` and `MAX_FACES` entries. Made with ``wp.array(dtype=...)``."""

    vertex_count: int
    face_count: int
    vertex: wp.array(dtype=wp.vec3d)
    point0: wp.array(dtype=wp.vec3d)  # the point of the first core that a vertex was made of
    face: wp.array(dtype=wp.vec3i)  # vertices, anticlockwise as seen from outside
    plane: wp.array(dtype=wp.vec4d)  # outward normal, and distance from the origin [m]


@wp.func
def empty_polytope(vertex: Points, point0: Points, face: wp.array[wp.vec3i], plane: wp.array[wp.vec4d]) -> Polytope:
    """A polytope without vertices and faces. Warp wants its arrays as arguments."""
    polytope = Polytope()
    polytope.vertex = vertex
    polytope.point0 = point0
    polytope.face = face
    polytope.plane = plane
    return polytope


@wp.func
def add_vertex(
    shapes: wp.ref[Shapes],
    supports: wp.ref[Supports],
    pair: wp.ref[CorePair],
    polytope: wp.ref[Polytope],
    direction: wp.vec3d,
) -> None:
    """Add the support point of the Minkowski difference along a direction as a vertex."""
    support = minkowski_support(shapes, supports, pair, -direction)
    polytope.vertex[polytope.vertex_count] = support.point
    polytope.point0[polytope.vertex_count] = support.point0
    polytope.vertex_count += 1


@wp.func
def add_face(polytope: wp.ref[Polytope], i: int, j: int, k: int) -> None:
    """Add a triangle, whose vertices i, j, k go around anticlockwise as seen from outside."""
    normal = wp.cross(polytope.vertex[j] - polytope.vertex[i], polytope.vertex[k] - polytope.vertex[i])
    area2 = wp.length(normal)
    plane = wp.vec4d(ZERO, ZERO, ZERO, _INFINITE)
    if area2 > _DEGENERATE:
        normal /= area2
        plane = wp.vec4d(normal[0], normal[1], normal[2], wp.dot(normal, polytope.vertex[i]))
    polytope.face[polytope.face_count] = wp.vec3i(i, j, k)
    polytope.plane[polytope.face_count] = plane
    polytope.face_count += 1


@wp.func
def complete_tetrahedron(
    shapes: wp.ref[Shapes], supports: wp.ref[Supports], pair: wp.ref[CorePair], polytope: wp.ref[Polytope]
) -> bool:
    """Add vertices until there are four that span a tetrahedron, and add its faces; return False if there are none."""
    axis = int(0)
    while polytope.vertex_count == 1 and axis < 6:
        direction = wp.vec3d()
        direction[axis % 3] = wp.where(axis < 3, ONE, -ONE)
        add_vertex(shapes, supports, pair, polytope, direction)
        if wp.length(polytope.vertex[1] - polytope.vertex[0]) < wp.float64(1.0e-7):
            polytope.vertex_count = 1
        axis += 1
    if polytope.vertex_count == 2:
        edge = wp.normalize(polytope.vertex[1] - polytope.vertex[0])
        other = wp.vec3d()
        other[wp.where(wp.abs(edge[0]) < wp.float64(0.6), 0, 1)] = ONE
        across = wp.normalize(wp.cross(edge, other))
        quarter = int(0)
        while polytope.vertex_count == 2 and quarter < 4:
            add_vertex(shapes, supports, pair, polytope, across)
            if wp.length(wp.cross(edge, polytope.vertex[2] - polytope.vertex[0])) < wp.float64(1.0e-7):
                polytope.vertex_count = 2
            across = wp.cross(edge, across)
            quarter += 1
    if polytope.vertex_count == 3:
        normal = wp.normalize(
            wp.cross(polytope.vertex[1] - polytope.vertex[0], polytope.vertex[2] - polytope.vertex[0])
        )
        add_vertex(shapes, supports, pair, polytope, normal)
        if wp.abs(wp.dot(normal, polytope.vertex[3] - polytope.vertex[0])) < wp.float64(1.0e-7):
            polytope.vertex_count = 3
            add_vertex(shapes, supports, pair, polytope, -normal)
    if polytope.vertex_count < 4:
        return False
    up = wp.cross(polytope.vertex[1] - polytope.vertex[0], polytope.vertex[2] - polytope.vertex[0])
    height = wp.dot(up, polytope.vertex[3] - polytope.vertex[0])
    a = wp.where(height > ZERO, 0, 1)
    b = wp.where(height > ZERO, 1, 0)
    add_face(polytope, b, a, 2)
    add_face(polytope, a, b, 3)
    add_face(polytope, b, 2, 3)
    add_face(polytope, 2, a, 3)
    return wp.abs(height) > _DEGENERATE


@wp.func
def closest_face(polytope: wp.ref[Polytope]) -> int:
    """Number of the face whose plane is closest to the origin."""
    found = int(0)
    f = int(1)
    while f < polytope.face_count:
        if polytope.plane[f][3] < polytope.plane[found][3]:
            found = f
        f += 1
    return found


@wp.func
def toggle_horizon_edge(horizon: wp.array[wp.vec2i], count: int, i: int, j: int) -> int:
    """Add an edge of a removed face to the horizon, or take out the edge if both of its faces are removed.

    Returns the number of edges.
    """
    k = int(0)
    while k < count:
        if horizon[k][0] == j and horizon[k][1] == i:
            horizon[k] = horizon[count - 1]
            return count - 1
        k += 1
    horizon[count] = wp.vec2i(i, j)
    return count + 1


@wp.func
def borders_horizon(horizon: wp.array[wp.vec2i], count: int, face: wp.vec3i) -> bool:
    """Return True if a face shares an edge with the horizon."""
    k = int(0)
    while k < count:
        i = horizon[k][0]
        j = horizon[k][1]
        if (i == face[1] and j == face[0]) or (i == face[2] and j == face[1]) or (i == face[0] and j == face[2]):
            return True
        k += 1
    return False


@wp.func
def toggle_horizon_edges(horizon: wp.array[wp.vec2i], count: int, face: wp.vec3i) -> int:
    """Apply `toggle_horizon_edge` to the three edges of a removed face; returns the number of edges."""
    count = toggle_horizon_edge(horizon, count, face[0], face[1])
    count = toggle_horizon_edge(horizon, count, face[1], face[2])
    return toggle_horizon_edge(horizon, count, face[2], face[0])


@wp.func
def swap_faces(polytope: wp.ref[Polytope], f: int, g: int) -> None:
    """Exchange faces f and g."""
    face = polytope.face[f]
    plane = polytope.plane[f]
    polytope.face[f] = polytope.face[g]
    polytope.plane[f] = polytope.plane[g]
    polytope.face[g] = face
    polytope.plane[g] = plane


@wp.func
def expand(polytope: wp.ref[Polytope], horizon: wp.array[wp.vec2i], nearest: int) -> bool:
    """Expand the polytope to its last vertex, which sees the closest face; return False if it then has no inside.

    The faces that are removed are connected. Rounding lets the vertex see narrow ones elsewhere; removing those as well
    would tear the polytope, which could then have more than twice as many faces as vertices.
    """
    added = polytope.vertex_count - 1
    point = polytope.vertex[added]
    removed = polytope.face_count - 1  # faces from here on are removed
    swap_faces(polytope, nearest, removed)
    visible = removed  # faces from here on are seen by the vertex
    f = int(0)
    while f < visible:
        plane = polytope.plane[f]
        if plane[0] * point[0] + plane[1] * point[1] + plane[2] * point[2] - plane[3] > -_COPLANAR:
            visible -= 1
            swap_faces(polytope, f, visible)
        else:
            f += 1
    count = toggle_horizon_edges(horizon, 0, polytope.face[removed])
    f = visible
    while f < removed:
        if borders_horizon(horizon, count, polytope.face[f]):
            removed -= 1
            swap_faces(polytope, f, removed)
            count = toggle_horizon_edges(horizon, count, polytope.face[removed])
            f = visible
        else:
            f += 1
    polytope.face_count = removed
    if count < 3 or removed + count > MAX_FACES:
        return False
    k = int(0)
    while k < count:
        add_face(polytope, horizon[k][0], horizon[k][1], added)
        k += 1
    return True


@wp.func
def set_contact_point(polytope: wp.ref[Polytope], pair: wp.ref[CorePair], normal: wp.vec3d, height: wp.float64) -> None:
    """Set the contact point on the first core, at the projection of the origin onto the closest face.

    Where the boundary is flat, several faces of the polytope lie in one plane, of which one holds the projection.
    """
    foot = height * normal
    nearest_sq = wp.float64(3.0e38)
    f = int(0)
    while f < polytope.face_count:
        if polytope.plane[f][3] <= height + _TOLERANCE:
            face = polytope.face[f]
            weights = barycentric_triangle(polytope.vertex[face[0]], polytope.vertex[face[1]], polytope.vertex[face[2]])
            point = (
                weights[0] * polytope.vertex[face[0]]
                + weights[1] * polytope.vertex[face[1]]
                + weights[2] * polytope.vertex[face[2]]
            )
            distance_sq = wp.length_sq(point - foot)
            if distance_sq < nearest_sq:
                nearest_sq = distance_sq
                pair.point = (
                    weights[0] * polytope.point0[face[0]]
                    + weights[1] * polytope.point0[face[1]]
                    + weights[2] * polytope.point0[face[2]]
                )
        f += 1


@wp.func
def find_penetration(
    shapes: wp.ref[Shapes],
    supports: wp.ref[Supports],
    pair: wp.ref[CorePair],
    count: int,
    simplex: Points,
    points0: Points,
) -> None:
    """Find normal, penetration depth and contact point of two cores by EPA.

    Args:
        shapes: The shapes.
        supports: Support points of hulls.
        pair: The cores, of which `gjk.find_closest_points` found that they overlap; receives the result.
        count: Number of vertices of the simplex.
        simplex: The vertices that GJK ended with.
        points0: The points of the first core that they were made of.
    """
    vertices = wp.zeros(shape=(MAX_VERTICES,), dtype=wp.vec3d)
    vertex_points0 = wp.zeros(shape=(MAX_VERTICES,), dtype=wp.vec3d)
    faces = wp.zeros(shape=(MAX_FACES,), dtype=wp.vec3i)
    planes = wp.zeros(shape=(MAX_FACES,), dtype=wp.vec4d)
    polytope = empty_polytope(vertices, vertex_points0, faces, planes)
    horizon = wp.zeros(shape=(MAX_FACES,), dtype=wp.vec2i)
    while polytope.vertex_count < count:
        polytope.vertex[polytope.vertex_count] = simplex[polytope.vertex_count]
        polytope.point0[polytope.vertex_count] = points0[polytope.vertex_count]
        polytope.vertex_count += 1
    pair.state = UNKNOWN
    is_growing = complete_tetrahedron(shapes, supports, pair, polytope)
    while is_growing:
        f = closest_face(polytope)
        plane = polytope.plane[f]
        direction = wp.vec3d(plane[0], plane[1], plane[2])
        is_growing = plane[3] < _INFINITE
        if is_growing:
            add_vertex(shapes, supports, pair, polytope, direction)
            height = wp.dot(direction, polytope.vertex[polytope.vertex_count - 1])
            # if no vertex can be added the direction still separates the cores, at a depth that may not be the least
            if height - plane[3] <= _TOLERANCE or polytope.vertex_count == MAX_VERTICES:
                set_contact_point(polytope, pair, direction, height)
                pair.normal = -direction
                pair.distance = -height
                pair.state = OVERLAP
                is_growing = False
            else:
                is_growing = expand(polytope, horizon, f)
