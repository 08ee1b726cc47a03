# mypy: disable-error-code="valid-type"
"""Contacts of two cores whose normal is known: clipping of the two faces that look at each other.

A core is its shape shrunk by its radius: a sphere's centre, a capsule's axis, and cylinders, boxes and hulls themselves
(`gjk`). Seen along the normal, the face of each core that looks most at the other one is a polygon; of a capsule's axis
and of the side of a cylinder it is a line, of a sphere's centre a point. The first one is clipped to the outline of the
second one, and each corner has its own distance from face to face. Faces of a hull that lie in one plane but for two
degrees count as one, as on a box (`hulls.ground`), and give the direction. So a capsule that lies on a face has two
contacts, where the part of its axis over the face ends, and all of them follow the pose continuously (`box_box` says
why that matters). If none of the corners is as close as the cores are, which can be where corners are closest to each
other or on the rim of a cylinder, the closest points are a contact too.
"""

import math

import warp as wp

from ...core.kernels.types import Vectors
from ...model.shapes import BOX, CAPSULE, CONVEX_MESH, CYLINDER, SPHERE
from ..broad.aabb import Shapes
from .barycentric import single
from .box_box import NEAREST_TOLERANCE, clip_edge, largest_axis, merge_corners, reduce_corners
from .gjk import CorePair
from .hulls.ground import FLAT_COSINE, vertices_of
from .hulls.support_face import find_support_face
from .hulls.tables import MAX_FACE_CORNERS, Hulls, Planes, assume_contiguous_planes

OUTLINE_CORNERS = wp.constant(2 * int(MAX_FACE_CORNERS) + 4)
"""Corners that a face clipped by another one can have."""
CAP_CORNERS = wp.constant(6)
"""Corners that stand for the rim of a cylinder's end, evenly spread ..."""
CAP_COSINE = wp.constant(math.cos(2.0 * math.pi / int(CAP_CORNERS)))
CAP_SINE = wp.constant(math.sin(2.0 * math.pi / int(CAP_CORNERS)))
LEVEL_RIM = wp.constant(5.0e-6)
"""... from its lowest point on. An end whose rim is on one side less than this below its middle counts as level: the
lowest point would be anywhere, and the closest corner is then less than `NEAREST_TOLERANCE` too high [m]."""
LINE_TOLERANCE = wp.constant(1.0e-6)
"""How far beside a face a line may be and count as over it: along an edge, rounding puts it on either side [m]."""


@wp.struct
class Outline:
    """The part of a core that looks along a direction, in the frame of its shape."""

    count: int  # of corners
    normal: wp.vec3f  # of the face, outwards
    is_support_face: int  # 1 if it is several faces of a hull that count as one
    face: int  # of a hull, the most aligned one


@wp.struct
class View:
    """A view of the frame of the first shape: along the normal, from the closest point of the first core."""

    center: wp.vec3f
    right: wp.vec3f
    up: wp.vec3f
    normal: wp.vec3f  # from the first to the second shape
    slope: wp.vec2f  # of the face of the second core, along right and up
    height: float  # of that face at the centre, along the normal [m]


@wp.func
def most_aligned_face(hulls: wp.ref[Hulls], hull: int, along: wp.vec3f) -> int:
    """The face of a hull whose normal is most aligned with a direction, in the frame of the hull."""
    planes = Planes()
    planes.normal = hulls.normal
    planes.offset = hulls.offset
    assume_contiguous_planes(planes)
    found = hulls.face_start[hull]
    best = float(-3.0e38)
    f = hulls.face_start[hull]
    while f < hulls.face_start[hull + 1]:
        cosine = wp.dot(planes.normal[f], along)
        if cosine > best:
            best = cosine
            found = f
        f += 1
    return found


@wp.func
def outline_support_face(
    shapes: wp.ref[Shapes], hulls: wp.ref[Hulls], shape: int, hull: int, slot: int, along: wp.vec3f, corners: Vectors
) -> Outline:
    """Find the support face of a hull along a direction, if it is made of several faces nearly in one plane.

    Its normal is that of a plane that touches the hull from outside, and does not depend on which of the faces is most
    aligned. Otherwise the outline has no corners, only the most aligned face and its normal.
    """
    outline = Outline()
    lower = shapes.local_lower[shape]
    upper = shapes.local_upper[shape]
    scale = hulls.scale[hull]
    find_support_face(hulls.support_faces, slot, hulls.supports, shape, hulls.source[hull], scale, -along, lower, upper)
    face = most_aligned_face(hulls, hull, along)
    outline.face = face
    outline.normal = hulls.normal[face]
    if (
        hulls.support_faces.count[slot] <= hulls.loop_start[face + 1] - hulls.loop_start[face]
        or wp.dot(outline.normal, along) < FLAT_COSINE
    ):
        return outline
    ring = hulls.support_faces.ring[slot]
    points = vertices_of(hulls.source[hull]).points
    if wp.min(wp.min(ring[0], ring[2]), wp.min(ring[4], ring[6])) < 0:
        return outline
    ends = wp.cw_mul(scale, points[ring[4]] - points[ring[0]])
    sides = wp.cw_mul(scale, points[ring[6]] - points[ring[2]])
    normal = wp.normalize(wp.cross(ends, sides))
    if wp.dot(normal, along) < FLAT_COSINE:
        return outline
    outline.normal = normal
    outline.is_support_face = 1
    k = int(0)
    while k < 8:
        i = ring[k]
        if i >= 0:
            corners[outline.count] = wp.cw_mul(scale, points[i])
            outline.count += 1
        k += 1
    return outline


@wp.func
def outline_cylinder(outline: wp.ref[Outline], size: wp.vec3f, along: wp.vec3f, corners: Vectors) -> None:
    """Find the end of a cylinder, or the line on its side, that looks most along a direction."""
    across = wp.sqrt(along[0] * along[0] + along[1] * along[1])
    if wp.abs(along[2]) > across:
        side = wp.where(along[2] > 0.0, 1.0, -1.0)
        outline.normal = wp.vec3f(0.0, 0.0, side)
        outline.count = CAP_CORNERS
        radial = wp.vec2f(size[0], 0.0)
        if size[0] * across > LEVEL_RIM:
            radial = wp.vec2f(size[0] * along[0] / across, size[0] * along[1] / across)
        sine = side * CAP_SINE
        m = int(0)
        while m < CAP_CORNERS:
            corners[m] = wp.vec3f(radial[0], radial[1], side * size[1])
            radial = wp.vec2f(CAP_COSINE * radial[0] - sine * radial[1], sine * radial[0] + CAP_COSINE * radial[1])
            m += 1
    else:
        normal = wp.vec3f(along[0] / across, along[1] / across, 0.0)
        outline.normal = normal
        outline.count = 2
        corners[0] = size[0] * normal + wp.vec3f(0.0, 0.0, size[1])
        corners[1] = size[0] * normal - wp.vec3f(0.0, 0.0, size[1])


@wp.func
def outline_core(
    shapes: wp.ref[Shapes], hulls: wp.ref[Hulls], shape: int, hull: int, slot: int, along: wp.vec3f, corners: Vectors
) -> Outline:
    """Find the part of a core that looks most along a direction: its corners in their order around.

    For a hull it is the whole support face, whose entry in `SupportFaces` is ``slot``; if that is negative, one face.
    """
    outline = Outline()
    kind = shapes.kind[shape]
    size = shapes.size[shape]
    if kind == CONVEX_MESH:
        if slot >= 0:
            outline = outline_support_face(shapes, hulls, shape, hull, slot, along, corners)
            if outline.count > 0:
                return outline
        else:
            outline.face = most_aligned_face(hulls, hull, along)
        start = hulls.loop_start[outline.face]
        outline.count = hulls.loop_start[outline.face + 1] - start
        outline.normal = hulls.normal[outline.face]
        k = int(0)
        while k < outline.count:
            corners[k] = hulls.loop[start + k]
            k += 1
    elif kind == BOX:
        i = largest_axis(along)
        i1 = (i + 1) % 3
        i2 = (i + 2) % 3
        side = wp.where(along[i] > 0.0, 1.0, -1.0)
        outline.normal[i] = side
        outline.count = 4
        m = int(0)
        while m < 4:
            corner = wp.vec3f()
            corner[i] = side * size[i]
            corner[i1] = wp.where(m == 0 or m == 3, size[i1], -size[i1])
            corner[i2] = side * wp.where(m < 2, size[i2], -size[i2])
            corners[m] = corner
            m += 1
    elif kind == CYLINDER:
        outline_cylinder(outline, size, along, corners)
    elif kind == CAPSULE:
        outline.count = 2
        corners[0] = wp.vec3f(0.0, 0.0, size[1])
        corners[1] = wp.vec3f(0.0, 0.0, -size[1])
    return outline


@wp.func
def look_along(view: wp.ref[View], normal: wp.vec3f) -> None:
    """Let a view look along a direction, with two arbitrary directions across it."""
    view.normal = normal
    other = wp.vec3f()
    i = largest_axis(normal)
    other[(i + 1) % 3] = 1.0
    view.right = wp.normalize(wp.cross(other, normal))
    view.up = wp.cross(normal, view.right)


@wp.func
def view_of_pair(pair: wp.ref[CorePair]) -> View:
    """The view along the normal of a pair."""
    view = View()
    view.center = single(pair.point)
    look_along(view, single(pair.normal))
    return view


@wp.func
def to_view(view: wp.ref[View], point: wp.vec3f) -> wp.vec3f:
    """Transform a point to the view: two coordinates across the normal and one along it [m]."""
    offset = point - view.center
    return wp.vec3f(wp.dot(view.right, offset), wp.dot(view.up, offset), wp.dot(view.normal, offset))


@wp.func
def clip_by_line(source: Vectors, count: int, start: wp.vec3f, end: wp.vec3f, tolerance: float, target: Vectors) -> int:
    """Clip a polygon to the right of a line, or up to ``tolerance`` to its left [m]; returns the corner count."""
    left = wp.vec2f(start[1] - end[1], end[0] - start[0])
    length = wp.length(left)
    if length > 0.0:
        left = left / length
    kept = int(0)
    last = source[count - 1]
    last_outside = left[0] * (last[0] - start[0]) + left[1] * (last[1] - start[1]) - tolerance
    i = int(0)
    while i < count and kept < OUTLINE_CORNERS - 2:  # a face seen edge-on may get more corners by rounding
        corner = source[i]
        outside = left[0] * (corner[0] - start[0]) + left[1] * (corner[1] - start[1]) - tolerance
        kept = clip_edge(last, last_outside, corner, outside, target, kept)
        last = corner
        last_outside = outside
        i += 1
    return kept


@wp.func
def clip_by_face(
    pair: wp.ref[CorePair],
    view: wp.ref[View],
    face: Vectors,
    sides: int,
    tolerance: float,
    corners: Vectors,
    count: int,
    scratch: Vectors,
) -> int:
    """Clip the outline of the first core, in the view, to a face of the second one, in the frame of its shape.

    Returns the number of its corners.
    """
    rotation = wp.matrix_from_rows(single(pair.rotation[0]), single(pair.rotation[1]), single(pair.rotation[2]))
    translation = single(pair.translation)
    start = to_view(view, rotation * face[sides - 1] + translation)
    kept = int(count)
    k = int(0)
    while k < sides and kept > 0:
        end = to_view(view, rotation * face[k] + translation)
        if k % 2 == 0:
            kept = clip_by_line(corners, kept, start, end, tolerance, scratch)
        else:
            kept = clip_by_line(scratch, kept, start, end, tolerance, corners)
        start = end
        k += 1
    if sides % 2 == 1:
        m = int(0)
        while m < kept:
            corners[m] = scratch[m]
            m += 1
    return kept


@wp.func
def face_height(view: wp.ref[View], corner: wp.vec3f) -> float:
    """Height of the second core's face over a point of the view, along the normal [m]."""
    return view.height + view.slope[0] * corner[0] + view.slope[1] * corner[1]


@wp.func
def outermost_corner(face: Vectors, outline: wp.ref[Outline]) -> wp.vec3f:
    """The corner of an outline that is furthest out. Only the corners of a support face differ in that."""
    found = face[0]
    k = int(1)
    while k < outline.count and outline.is_support_face != 0:
        if wp.dot(outline.normal, face[k] - found) > 0.0:
            found = face[k]
        k += 1
    return found


@wp.func
def core_corners(
    shapes: wp.ref[Shapes],
    hulls: wp.ref[Hulls],
    pair: wp.ref[CorePair],
    hull_numbers: wp.vec2i,
    first_slot: int,
    touch: bool,
    view: wp.ref[View],
    corners: Vectors,
) -> int:
    """Find the corners of the area that two cores share: two coordinates across the normal and the distance [m].

    Args:
        shapes: The shapes.
        hulls: Tables of hulls.
        pair: The cores, their normal and distance.
        hull_numbers: Indices of both shapes' hulls in the tables.
        first_slot: The pair's first entry in `SupportFaces`.
        touch: Whether the shapes touch. A pair that does not keeps the direction of its closest points.
        view: The view along the normal; receives the face of the second core, whose normal it may take.
        corners: Receives the corners, `OUTLINE_CORNERS` at most.

    Returns:
        Number of corners.
    """
    scratch = wp.zeros(shape=(OUTLINE_CORNERS,), dtype=wp.vec3f)
    face = wp.zeros(shape=(MAX_FACE_CORNERS,), dtype=wp.vec3f)
    if shapes.kind[pair.shape0] == SPHERE:  # the core is a point, and hulls may have no tables
        return 0
    rotation = wp.matrix_from_rows(single(pair.rotation[0]), single(pair.rotation[1]), single(pair.rotation[2]))
    slot = wp.where(touch, first_slot, -2)
    second = outline_core(
        shapes, hulls, pair.shape1, hull_numbers[1], slot, -(wp.transpose(rotation) * view.normal), face
    )
    if second.is_support_face != 0:  # which of its faces gave the normal depends on how it tilts
        look_along(view, -(rotation * second.normal))
    first = outline_core(shapes, hulls, pair.shape0, hull_numbers[0], slot + 1, view.normal, corners)
    count = int(first.count)
    k = int(0)
    while k < count:
        corners[k] = to_view(view, corners[k])
        k += 1
    tolerance = wp.where(count == 2, LINE_TOLERANCE, 0.0)
    count = clip_by_face(pair, view, face, second.count, tolerance, corners, count, scratch)
    normal = rotation * second.normal
    level = to_view(view, rotation * outermost_corner(face, second) + single(pair.translation))
    steep = wp.min(wp.dot(normal, view.normal), -1.0e-6)
    view.slope = wp.vec2f(-wp.dot(normal, view.right) / steep, -wp.dot(normal, view.up) / steep)
    view.height = level[2] - view.slope[0] * level[0] - view.slope[1] * level[1]
    i = int(0)
    while i < count:
        corner = corners[i]
        corners[i] = wp.vec3f(
            corner[0], corner[1], wp.max(face_height(view, corner) - corner[2], wp.float32(pair.distance))
        )
        i += 1
    return count


@wp.func
def add_closest_points(distance: float, corners: Vectors, count: int) -> int:
    """Add the closest points, which are at the view's centre, as a corner if the others are further apart."""
    closest = float(3.0e38)
    k = int(0)
    while k < count:
        closest = wp.min(closest, corners[k][2])
        k += 1
    if closest <= distance + NEAREST_TOLERANCE:
        return count
    corners[count] = wp.vec3f(0.0, 0.0, distance)
    return count + 1


@wp.func
def choose_contacts(distance: float, reach: float, near: float, corners: Vectors, count: int) -> int:
    """Choose the contacts among the corners; returns their number, in the first entries.

    Corners closer to each other than ``near`` are one contact [m].
    """
    kept = merge_corners(corners, add_closest_points(distance, corners, count), near, reach)
    return reduce_corners(corners, kept, reach)
