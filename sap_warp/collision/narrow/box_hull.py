# mypy: disable-error-code="valid-type"
"""Contacts of a box and a convex hull in closed form, like those of two boxes (`box_box`).

The candidates for the separating axis are the normals of the faces of the box and of the hull, and for each edge of the
hull the directions at right angles to it and to an edge of the box. Such a direction counts if it lies between the
normals of the two faces that meet in the edge, which the signs of their components tell. Everything is in the frame of
the box.

The contacts are the corners of the area that a face of the box shares with the hull. If the normal is that of the box,
the hull's part is its support face, spanned by the lowest vertices as on the ground (`hulls.ground`); else it is the
face of the hull that looks most along the normal.
"""

import warp as wp

from ...core.kernels.template import device
from ...core.kernels.types import Vectors
from .box_box import BoxPair, clip_to_face, include_nearest, largest_axis, project
from .hulls.ground import FLAT_COSINE, lowest_vertex, vertices_of
from .hulls.planes import plane_heights, steep_planes, stretched
from .hulls.support_face import find_support_face
from .hulls.supports import low_vertices
from .hulls.tables import Hulls

APART = wp.constant(-1)
BOX_FACE = wp.constant(-2)
PREFERENCE = wp.constant(2.0e-6)
"""How much more than the faces of the box another direction must separate [m]."""
LOWER_TOLERANCE = wp.constant(2.0e-6)
"""How much lower than the corners of the support face the lowest vertex must be to become one too [m]."""


@wp.struct
class HullShape:
    """A shape and its hull."""

    shape: int  # index
    hull: int
    face_slot: int  # in `SupportFaces`
    lower: wp.vec3f  # of its bounding box, in its frame [m]
    upper: wp.vec3f


@wp.func
def find_box_face(boxes: wp.ref[BoxPair], hulls: wp.ref[Hulls], hull: int, shape: int) -> int:
    """Find the face of the box that separates best; returns the lowest vertex of the hull over it.

    A ball inside the hull bounds the separation of each face, so most faces need no search for the lowest vertex. The
    face with the largest bound comes first.
    """
    ball = hulls.ball[hull]
    center = boxes.rotation * wp.vec3f(ball[0], ball[1], ball[2]) + boxes.translation
    bound = wp.abs(center) - boxes.half_a - wp.vec3f(ball[3], ball[3], ball[3])
    first = wp.where(bound[0] >= bound[1] and bound[0] >= bound[2], 0, wp.where(bound[1] >= bound[2], 1, 2))
    boxes.separation = float(-3.0e38)
    found = int(0)
    k = int(0)
    while k < 6:
        j = (first + k) % 3
        side = wp.where((center[j] >= 0.0) == (k < 3), 1.0, -1.0)
        if side * center[j] - boxes.half_a[j] - ball[3] > boxes.separation:
            # in the frame of the hull
            axis = side * wp.vec3f(boxes.rotation[j, 0], boxes.rotation[j, 1], boxes.rotation[j, 2])
            vertices = low_vertices(hulls.supports, shape, hulls.source[hull], hulls.scale[hull], axis)
            slope = wp.cw_mul(axis, hulls.scale[hull])
            lowest = lowest_vertex(vertices, slope)
            separation = side * boxes.translation[j] + wp.dot(slope, vertices.points[lowest]) - boxes.half_a[j]
            if separation > boxes.separation:
                boxes.separation = separation
                found = lowest
                boxes.normal = wp.vec3f()
                boxes.normal[j] = side
        k += 1
    return found


@device
def find_hull_direction(boxes: wp.ref[BoxPair], hulls: wp.ref[Hulls], hull: int, reach: float) -> int:
    """After `find_box_face`: find a direction of the hull that separates better.

    How high the centre of the box is above a face bounds the separation of this face and of its edges. The highest face
    comes first, and few others have to be tested. An edge belongs to the higher one of its two faces.

    Args:
        boxes: The pair; receives a better direction.
        hulls: Tables.
        hull: Index of the hull.
        reach: Separation beyond which the search ends [m].

    Returns:
        A face of the hull that looks along the best direction, `BOX_FACE` if the box has a better one, or `APART`.
    """
    first = hulls.face_start[hull]
    face_count = hulls.face_start[hull + 1] - first
    heights = hulls.heights
    center = -(wp.transpose(boxes.rotation) * boxes.translation)  # of the box, in the frame of the hull
    top = plane_heights(
        hulls.normal_x, hulls.normal_y, hulls.normal_z, hulls.offset, first, face_count, center, heights
    )
    rotation = boxes.rotation  # copies: the compiler knows that nothing else changes them in the loops
    size = boxes.half_a
    normal = wp.vec3f(boxes.normal)
    found = int(BOX_FACE)
    best = boxes.separation + PREFERENCE
    smallest = wp.min(size)
    steep = steep_planes(heights, hulls.stretch, first, face_count, best + smallest - PREFERENCE, hulls.steep)
    k = int(-1)
    while k < steep and best <= reach:
        face = int(top)
        if k >= 0:
            face = hulls.steep[k]
        height = heights[face]
        if stretched(height, hulls.stretch[first + face]) - smallest > best and (k < 0 or face != top):
            n = rotation * hulls.normal[first + face]
            separation = height - wp.dot(wp.abs(n), size)
            if separation > best:
                best = separation
                normal = -n
                found = first + face
            side = hulls.side_start[first + face]
            while side < hulls.side_start[first + face + 1]:
                other = hulls.side[side]
                below = heights[other]
                if below < height or (below == height and other > face):
                    if stretched(height, hulls.side_stretch[side]) - smallest > best:
                        n2 = rotation * hulls.normal[first + other]
                        for j in range(3):
                            if n[j] * n2[j] < 0.0:
                                w = wp.abs(n2[j])
                                w2 = wp.abs(n[j])
                                axis = w * n + w2 * n2
                                separation2 = (w * height + w2 * below - wp.dot(wp.abs(axis), size)) / wp.length(axis)
                                if separation2 > best:
                                    best = separation2
                                    normal = -wp.normalize(axis)
                                    found = first + wp.where(wp.dot(axis, n - n2) > 0.0, face, other)
                side += 1
        k += 1
    if found != BOX_FACE:
        boxes.separation = best
        boxes.normal = normal
    return wp.where(boxes.separation <= reach, found, APART)


@wp.func
def project_face(boxes: wp.ref[BoxPair], hulls: wp.ref[Hulls], face: int, corners: Vectors) -> int:
    """Project the corners of a face of the hull; returns their number."""
    start = hulls.loop_start[face]
    count = hulls.loop_start[face + 1] - start
    k = int(0)
    while k < count:
        corners[k] = project(boxes, boxes.rotation * hulls.loop[start + k] + boxes.translation)
        k += 1
    return count


@wp.func
def project_support_face(
    boxes: wp.ref[BoxPair], hulls: wp.ref[Hulls], hull_shape: wp.ref[HullShape], points: Vectors, corners: Vectors
) -> int:
    """Project the hull's support face over a face of the box, its corners in their order around; returns their number.

    ``points`` are the vertices of the hull; the normal of ``boxes`` is that of the face.
    """
    normal = wp.transpose(boxes.rotation) * boxes.normal  # in the frame of the hull
    scale = hulls.scale[hull_shape.hull]
    mesh = hulls.source[hull_shape.hull]
    find_support_face(
        hulls.support_faces,
        hull_shape.face_slot,
        hulls.supports,
        hull_shape.shape,
        mesh,
        scale,
        normal,
        hull_shape.lower,
        hull_shape.upper,
    )
    ring = hulls.support_faces.ring[hull_shape.face_slot]
    count = int(0)
    k = int(0)
    while k < 8:
        i = ring[k]
        if i >= 0:
            corners[count] = project(boxes, boxes.rotation * wp.cw_mul(scale, points[i]) + boxes.translation)
            count += 1
        k += 1
    return count


@wp.func
def is_over_face(boxes: wp.ref[BoxPair], point: wp.vec3f, inwards: float) -> bool:
    """Return True if a projected point is on the face of the box, ``inwards`` or more from the other faces [m]."""
    i = largest_axis(boxes.normal)
    inside = (
        wp.abs(point[0]) <= boxes.half_a[(i + 1) % 3] - inwards
        and wp.abs(point[1]) <= boxes.half_a[(i + 2) % 3] - inwards
    )
    return inside and inwards <= boxes.half_a[i]


@wp.func
def proves_box_face(boxes: wp.ref[BoxPair], point: wp.vec3f) -> bool:
    """Return True if a projected point of the hull proves that no direction is better than that of the box's face.

    Over the face, it is as close to the box as the face is to the hull; inside the box, no other face is closer.
    """
    return point[2] <= boxes.separation + PREFERENCE and is_over_face(boxes, point, wp.max(-boxes.separation, 0.0))


@wp.func
def mean_corner(corners: Vectors, count: int) -> wp.vec3f:
    """The mean of the corners, which is a point of the hull; a point far away if there are none."""
    total = wp.vec3f(0.0, 0.0, wp.where(count > 0, 0.0, 3.0e38))
    k = int(0)
    while k < count:
        total += corners[k]
        k += 1
    return total / float(wp.max(count, 1))


@wp.func
def add_lowest_vertex(boxes: wp.ref[BoxPair], lowest: wp.vec3f, corners: Vectors, count: int) -> int:
    """Add the lowest vertex as a corner if it is over the face and lower than the others; returns their number."""
    added = is_over_face(boxes, lowest, 0.0)
    k = int(0)
    while k < count:
        added = added and lowest[2] < corners[k][2] - LOWER_TOLERANCE
        k += 1
    if added:
        corners[count] = lowest
    return wp.where(added, count + 1, count)


@wp.func
def prefers_box_face(boxes: wp.ref[BoxPair], direction: wp.vec3f, corners: Vectors, count: int) -> bool:
    """Return True, and take ``direction`` of the box's face, if it is as good as the direction of the hull.

    A support face of several faces that are not quite in one plane would otherwise have the corners of one of them
    alone, now of this one and now of that one, and never come to rest.
    """
    normal = boxes.normal
    if count < 3 or wp.dot(normal, direction) < FLAT_COSINE:
        return False
    boxes.normal = direction
    if include_nearest(boxes, corners, count):
        return True
    boxes.normal = normal
    return False


@device
def box_hull_corners(
    boxes: wp.ref[BoxPair],
    hulls: wp.ref[Hulls],
    hull_shape: wp.ref[HullShape],
    reach: float,
    corners: Vectors,
    scratch: Vectors,
) -> int:
    """Find the normal between a box and a hull, and the corners of the area that they share.

    Returns the number of corners, or -1, as `box_box.shared_corners`. Both arrays must hold `CLIPPED_CORNERS` corners.
    """
    vertex = find_box_face(boxes, hulls, hull_shape.hull, hull_shape.shape)
    if boxes.separation > reach:
        return 0
    points = vertices_of(hulls.source[hull_shape.hull]).points
    lowest = project(
        boxes, boxes.rotation * wp.cw_mul(hulls.scale[hull_shape.hull], points[vertex]) + boxes.translation
    )
    count = project_support_face(boxes, hulls, hull_shape, points, corners)
    if count > 0:
        count = clip_to_face(boxes, corners, count, scratch)
    count = add_lowest_vertex(boxes, lowest, corners, count)
    face = int(BOX_FACE)
    box_normal = boxes.normal
    if not proves_box_face(boxes, lowest) and not proves_box_face(boxes, mean_corner(corners, count)):
        face = find_hull_direction(boxes, hulls, hull_shape.hull, reach)
    if face == APART:
        return 0
    if face != BOX_FACE and not prefers_box_face(boxes, box_normal, corners, count):
        count = clip_to_face(boxes, corners, project_face(boxes, hulls, face, corners), scratch)
    return wp.where(include_nearest(boxes, corners, count), count, -1)
