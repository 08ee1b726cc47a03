# mypy: disable-error-code="valid-type"
"""Contacts of two cores whose direction is known: the corners of what the parts that face each other share.

Seen along the normal, the face of each core that looks most at the other one is a polygon; of a capsule's axis and of
the side of a cylinder it is a line, of a sphere's centre a point. The first one is cut down to the outline of the
second one, and each corner has its own distance from face to face. Faces of a hull that lie in one plane but for two
degrees count as one, as on a box (`hulls.ground`), and give the direction. So a capsule that lies on a face has two
contacts, where the part of its axis over the face ends, and all of them follow the pose continuously (`box_box` says
why that matters). If none of the corners is as near as the cores are, which can be where corners are nearest to each
other or on the rim of a cylinder, the nearest points are a contact too.
"""

import math

import warp as wp

from ...core.kernels.types import Vectors
from ..broad.aabb import BOX, CAPSULE, CONVEX_MESH, CYLINDER, SPHERE, Shapes
from .barycentric import single
from .box_box import NEAREST, clip_edge, largest_axis, merge_corners, spread_corners
from .gjk import CorePair
from .hulls.ground import FLAT, vertices_of
from .hulls.support_face import look_at_sole
from .hulls.tables import FACE_CORNERS, Hulls, Planes, flat_planes

OUTLINE = wp.constant(2 * int(FACE_CORNERS) + 4)
"""Room for the corners of a face that is cut by another one."""
CAP_CORNERS = wp.constant(6)
"""Corners that stand for the rim of a cylinder's end, evenly spread ..."""
CAP_COSINE = wp.constant(math.cos(2.0 * math.pi / int(CAP_CORNERS)))
CAP_SINE = wp.constant(math.sin(2.0 * math.pi / int(CAP_CORNERS)))
LEANING = wp.constant(5.0e-6)
"""... from its lowest point on. It is taken for flat if one side of the rim is less than this below its middle: the
lowest point would be anywhere, and the nearest corner is not higher by `NEAREST` then [m]."""
ASIDE = wp.constant(1.0e-6)
"""How far beside a face a line may be to count as over it: along an edge it is either by rounding [m]."""


@wp.struct
class Outline:
    """The part of a core that looks along a direction, in the frame of its shape."""

    count: int  # of corners
    normal: wp.vec3f  # of the face, outwards
    is_sole: int  # whether it is several faces of a hull that count as one
    face: int  # of a hull, which looks most along the direction


@wp.struct
class Seen:
    """How the frame of the first shape is looked at: along the normal, from the nearest point."""

    center: wp.vec3f
    right: wp.vec3f
    up: wp.vec3f
    normal: wp.vec3f  # from the first to the second shape
    slope: wp.vec2f  # of the face of the second shape, along both sides
    height: float  # of that face at the centre [m]


@wp.func
def best_face(h: wp.ref[Hulls], hull: int, along: wp.vec3f) -> int:
    """The face of a hull that looks most along a direction, in the frame of the hull."""
    t = Planes()
    t.normal = h.normal
    t.offset = h.offset
    flat_planes(t)
    found = h.face_start[hull]
    best = float(-3.0e38)
    f = h.face_start[hull]
    while f < h.face_start[hull + 1]:
        looks = wp.dot(t.normal[f], along)
        if looks > best:
            best = looks
            found = f
        f += 1
    return found


@wp.func
def outline_sole(
    s: wp.ref[Shapes], h: wp.ref[Hulls], shape: int, hull: int, place: int, along: wp.vec3f, corners: Vectors
) -> Outline:
    """Of a hull, the lowest vertices along a direction, if they are those of several faces nearly in one plane.

    The face through them touches the hull from outside and does not depend on which of them is best. Else there are no
    corners, but only the best face and its normal.
    """
    part = Outline()
    lower = s.local_lower[shape]
    upper = s.local_upper[shape]
    scale = h.scale[hull]
    look_at_sole(h.soles, place, h.supports, shape, h.source[hull], scale, -along, lower, upper)
    face = best_face(h, hull, along)
    part.face = face
    part.normal = h.normal[face]
    if h.soles.count[place] <= h.loop_start[face + 1] - h.loop_start[face] or wp.dot(part.normal, along) < FLAT:
        return part
    around = h.soles.around[place]
    points = vertices_of(h.source[hull]).at
    if wp.min(wp.min(around[0], around[2]), wp.min(around[4], around[6])) < 0:
        return part
    ends = wp.cw_mul(scale, points[around[4]] - points[around[0]])
    sides = wp.cw_mul(scale, points[around[6]] - points[around[2]])
    normal = wp.normalize(wp.cross(ends, sides))
    if wp.dot(normal, along) < FLAT:
        return part
    part.normal = normal
    part.is_sole = 1
    k = int(0)
    while k < 8:
        i = around[k]
        if i >= 0:
            corners[part.count] = wp.cw_mul(scale, points[i])
            part.count += 1
        k += 1
    return part


@wp.func
def outline_cylinder(part: wp.ref[Outline], size: wp.vec3f, along: wp.vec3f, corners: Vectors) -> None:
    """The end of a cylinder, or the line on its side, that looks most along a direction."""
    aside = wp.sqrt(along[0] * along[0] + along[1] * along[1])
    if wp.abs(along[2]) > aside:
        side = wp.where(along[2] > 0.0, 1.0, -1.0)
        part.normal = wp.vec3f(0.0, 0.0, side)
        part.count = CAP_CORNERS
        arm = wp.vec2f(size[0], 0.0)
        if size[0] * aside > LEANING:
            arm = wp.vec2f(size[0] * along[0] / aside, size[0] * along[1] / aside)
        d = side * CAP_SINE
        m = int(0)
        while m < CAP_CORNERS:
            corners[m] = wp.vec3f(arm[0], arm[1], side * size[1])
            arm = wp.vec2f(CAP_COSINE * arm[0] - d * arm[1], d * arm[0] + CAP_COSINE * arm[1])
            m += 1
    else:
        out = wp.vec3f(along[0] / aside, along[1] / aside, 0.0)
        part.normal = out
        part.count = 2
        corners[0] = size[0] * out + wp.vec3f(0.0, 0.0, size[1])
        corners[1] = size[0] * out - wp.vec3f(0.0, 0.0, size[1])


@wp.func
def outline(
    s: wp.ref[Shapes], h: wp.ref[Hulls], shape: int, hull: int, sole: int, along: wp.vec3f, corners: Vectors
) -> Outline:
    """The part of a core that looks most along a direction: its corners in their order around.

    It is all of the sole of a hull, whose place in `Soles` is given; -1: one face is enough.
    """
    part = Outline()
    kind = s.kind[shape]
    size = s.size[shape]
    if kind == CONVEX_MESH:
        if sole >= 0:
            part = outline_sole(s, h, shape, hull, sole, along, corners)
            if part.count > 0:
                return part
        else:
            part.face = best_face(h, hull, along)
        start = h.loop_start[part.face]
        part.count = h.loop_start[part.face + 1] - start
        part.normal = h.normal[part.face]
        k = int(0)
        while k < part.count:
            corners[k] = h.loop[start + k]
            k += 1
    elif kind == BOX:
        i = largest_axis(along)
        i1 = (i + 1) % 3
        i2 = (i + 2) % 3
        side = wp.where(along[i] > 0.0, 1.0, -1.0)
        part.normal[i] = side
        part.count = 4
        m = int(0)
        while m < 4:
            corner = wp.vec3f()
            corner[i] = side * size[i]
            corner[i1] = wp.where(m == 0 or m == 3, size[i1], -size[i1])
            corner[i2] = side * wp.where(m < 2, size[i2], -size[i2])
            corners[m] = corner
            m += 1
    elif kind == CYLINDER:
        outline_cylinder(part, size, along, corners)
    elif kind == CAPSULE:
        part.count = 2
        corners[0] = wp.vec3f(0.0, 0.0, size[1])
        corners[1] = wp.vec3f(0.0, 0.0, -size[1])
    return part


@wp.func
def turn_to(view: wp.ref[Seen], normal: wp.vec3f) -> None:
    """Look along a direction, with any two others across it."""
    view.normal = normal
    other = wp.vec3f()
    i = largest_axis(normal)
    other[(i + 1) % 3] = 1.0
    view.right = wp.normalize(wp.cross(other, normal))
    view.up = wp.cross(normal, view.right)


@wp.func
def look(pair: wp.ref[CorePair]) -> Seen:
    """Two directions across the normal, right-handed with it."""
    view = Seen()
    view.center = single(pair.point)
    turn_to(view, single(pair.normal))
    return view


@wp.func
def see(view: wp.ref[Seen], point: wp.vec3f) -> wp.vec3f:
    """A point in the frame of the first shape as it is seen: two coordinates across the normal, one along it [m]."""
    arm = point - view.center
    return wp.vec3f(wp.dot(view.right, arm), wp.dot(view.up, arm), wp.dot(view.normal, arm))


@wp.func
def cut(source: Vectors, count: int, start: wp.vec3f, end: wp.vec3f, aside: float, target: Vectors) -> int:
    """The part of a polygon to the right of a line, or up to ``aside`` to its left [m]; returns its corners."""
    left = wp.vec2f(start[1] - end[1], end[0] - start[0])
    length = wp.length(left)
    if length > 0.0:
        left = left / length
    kept = int(0)
    last = source[count - 1]
    last_over = left[0] * (last[0] - start[0]) + left[1] * (last[1] - start[1]) - aside
    i = int(0)
    while i < count and kept < OUTLINE - 2:  # of a face seen from the side, rounding may make more corners
        at = source[i]
        over = left[0] * (at[0] - start[0]) + left[1] * (at[1] - start[1]) - aside
        kept = clip_edge(last, last_over, at, over, target, kept)
        last = at
        last_over = over
        i += 1
    return kept


@wp.func
def cut_by_face(
    pair: wp.ref[CorePair],
    view: wp.ref[Seen],
    face: Vectors,
    sides: int,
    aside: float,
    corners: Vectors,
    count: int,
    scratch: Vectors,
) -> int:
    """Cut what is seen of the first core down to a face of the second one, given in the frame of its shape."""
    turn = wp.matrix_from_rows(single(pair.turn[0]), single(pair.turn[1]), single(pair.turn[2]))
    place = single(pair.place)
    start = see(view, turn * face[sides - 1] + place)
    kept = int(count)
    k = int(0)
    while k < sides and kept > 0:
        end = see(view, turn * face[k] + place)
        if k % 2 == 0:
            kept = cut(corners, kept, start, end, aside, scratch)
        else:
            kept = cut(scratch, kept, start, end, aside, corners)
        start = end
        k += 1
    if sides % 2 == 1:
        m = int(0)
        while m < kept:
            corners[m] = scratch[m]
            m += 1
    return kept


@wp.func
def height_of_face(view: wp.ref[Seen], corner: wp.vec3f) -> float:
    """Of the second core's face over a seen point, along the normal [m]."""
    return view.height + view.slope[0] * corner[0] + view.slope[1] * corner[1]


@wp.func
def nearest_corner(face: Vectors, part: wp.ref[Outline]) -> wp.vec3f:
    """The corner that is furthest out: all of them in a plane, one of them of a sole."""
    found = face[0]
    k = int(1)
    while k < part.count and part.is_sole != 0:
        if wp.dot(part.normal, face[k] - found) > 0.0:
            found = face[k]
        k += 1
    return found


@wp.func
def core_corners(
    s: wp.ref[Shapes],
    h: wp.ref[Hulls],
    pair: wp.ref[CorePair],
    hulls: wp.vec2i,
    soles: int,
    touch: bool,
    view: wp.ref[Seen],
    corners: Vectors,
) -> int:
    """Corners of what two cores share: two coordinates across the normal and the distance; returns their number.

    ``hulls`` are the numbers in the tables, ``soles`` is the pair's first place in `Soles`, ``corners`` can hold
    `OUTLINE`. What does not ``touch`` yet keeps the
    direction of its nearest points.
    """
    scratch = wp.zeros(shape=(OUTLINE,), dtype=wp.vec3f)
    face = wp.zeros(shape=(FACE_CORNERS,), dtype=wp.vec3f)
    if s.kind[pair.shape0] == SPHERE:  # a point, for which hulls need no tables
        return 0
    turn = wp.matrix_from_rows(single(pair.turn[0]), single(pair.turn[1]), single(pair.turn[2]))
    place = wp.where(touch, soles, -2)
    second = outline(s, h, pair.shape1, hulls[1], place, -(wp.transpose(turn) * view.normal), face)
    if second.is_sole != 0:  # which of its faces gave the direction depends on how it tilts
        turn_to(view, -(turn * second.normal))
    first = outline(s, h, pair.shape0, hulls[0], place + 1, view.normal, corners)
    count = int(first.count)
    k = int(0)
    while k < count:
        corners[k] = see(view, corners[k])
        k += 1
    aside = wp.where(count == 2, ASIDE, 0.0)
    count = cut_by_face(pair, view, face, second.count, aside, corners, count, scratch)
    out = turn * second.normal
    level = see(view, turn * nearest_corner(face, second) + single(pair.place))
    steep = wp.min(wp.dot(out, view.normal), -1.0e-6)
    view.slope = wp.vec2f(-wp.dot(out, view.right) / steep, -wp.dot(out, view.up) / steep)
    view.height = level[2] - view.slope[0] * level[0] - view.slope[1] * level[1]
    i = int(0)
    while i < count:
        at = corners[i]
        corners[i] = wp.vec3f(at[0], at[1], wp.max(height_of_face(view, at) - at[2], wp.float32(pair.distance)))
        i += 1
    return count


@wp.func
def add_nearest(distance: float, corners: Vectors, count: int) -> int:
    """Let the nearest points, which are seen at the centre, be a corner too if the others are further apart."""
    nearest = float(3.0e38)
    k = int(0)
    while k < count:
        nearest = wp.min(nearest, corners[k][2])
        k += 1
    if nearest <= distance + NEAREST:
        return count
    corners[count] = wp.vec3f(0.0, 0.0, distance)
    return count + 1


@wp.func
def choose_corners(distance: float, reach: float, near: float, corners: Vectors, count: int) -> int:
    """The contacts among the corners, in the first places; corners closer to each other than ``near`` are one [m]."""
    kept = merge_corners(corners, add_nearest(distance, corners, count), near, reach)
    return spread_corners(corners, kept, reach)
