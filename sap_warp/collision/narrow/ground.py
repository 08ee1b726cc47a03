# mypy: disable-error-code="valid-type"
"""Contacts of simple shapes with the ground, found and written in one launch.

Newton's pipeline takes four launches for them: bounding boxes of all shapes, the pairs whose boxes overlap, the
contacts of these pairs, which it moves to world frame and back, and then comes the work of this package on the
contacts. Where all pairs of a model are of an infinite plane that stands still and a sphere, capsule, box, cylinder,
ellipsoid or convex mesh, a single loop over the pairs does it with a tenth of the instructions: the plane's normal is
turned into the frame of the body, where the centres of spheres, the ends of capsules, the corners of boxes and the
vertices of hulls do not move.

The contacts are Newton's, in its order, with numbers that differ by rounding. Those of hulls are our own, see
`hulls.ground`; Newton finds them by GJK. Used on the CPU; on CUDA one thread would be slow, and contacts must be found
by many.
"""

from __future__ import annotations

from typing import Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.deepest import shallowest_place
from ...core.kernels.launch import kernel
from ...core.kernels.structs import StructCache, assume_contiguous
from ...core.kernels.template import Parameter, Variant
from ...core.kernels.types import Ints, Poses
from ...model.shapes import BOX, CAPSULE, CONVEX_MESH, CYLINDER, PLANE, SHAPE_TYPES, SPHERE
from ..broad.aabb import KINEMATIC
from ..buffers.capacity import CONTACTS_PER_PAIR
from ..buffers.counts import FIRST, WHOLE, Counts, add_to_totals, count_contacts
from ..buffers.overflow import Selection, join_contacts
from ..buffers.rows import ContactRows, Rows, assume_contiguous_rows, clear_overrides, close_rows
from .hulls.ground import BAND, LOWER_SHARE, MAX_LISTED, choose_four, collect_candidates
from .hulls.supports import Supports, low_vertices, make_supports

ROUNDING = wp.constant(4.0e-6)
"""Rounding of heights, relative to what they are sums of."""
NO_CLEARANCE, WRITE_CLEARANCE, USE_CLEARANCE = wp.constant(0), wp.constant(1), wp.constant(2)
"""What a pass does with the clearances of pairs that are apart: nothing, store them, or skip pairs by them too."""

_MOST = {shape.type: shape.ground_contacts for shape in SHAPE_TYPES if shape.ground_contacts is not None}
"""Types of shapes that `collide_shape` knows, and the contacts they can have with a plane."""
collide_plane_cylinder = newton.geometry.collide_plane_cylinder


@wp.struct
class GroundPairs:
    """Pairs of a plane and another shape, and the model's arrays that a pass reads.

    Fields are written for `assume_contiguous`.
    """

    with_kinematic: int  # 1 if kinematic bodies collide with the ground too
    plane: wp.array(dtype=wp.int32)
    shape: wp.array(dtype=wp.int32)
    body_flags: wp.array(dtype=wp.int32)
    shape_body: wp.array(dtype=wp.int32)
    shape_type: wp.array(dtype=wp.int32)
    shape_transform: wp.array(dtype=wp.transformf)
    shape_scale: wp.array(dtype=wp.vec3f)
    shape_margin: wp.array(dtype=wp.float32)
    shape_gap: wp.array(dtype=wp.float32)
    shape_source_ptr: wp.array(dtype=wp.uint64)  # meshes
    shape_collision_aabb_lower: wp.array(dtype=wp.vec3f)  # of meshes, in their own frame [m]
    shape_collision_aabb_upper: wp.array(dtype=wp.vec3f)
    supports: Supports  # of hulls
    owner: wp.array(dtype=wp.int32)  # by pair: index in `travelled` of the shape's body; -1: none
    travelled: wp.array(dtype=wp.float64)  # by body, see `Travel` [m]
    next_test_at: wp.array(dtype=wp.float64)  # by pair: what the body has travelled when it has to be tested again [m]


@wp.struct
class GroundContext:
    """The pair under test, and how far the pass has come."""

    plane: int
    shape: int
    normal: wp.vec3f  # of the plane, in world frame
    origin: wp.vec3f  # of the plane
    margin0: float
    gap0: float
    pose: wp.transformf  # of the body
    body_normal: wp.vec3f  # the normal in the frame of the body
    body_height: float  # of the body's origin above the plane [m]
    local: wp.transformf  # pose of the shape in the frame of the body
    size: wp.vec3f
    height: float  # of the shape's origin above the plane [m]
    margin1: float
    reach: float  # largest distance of contacts [m]
    clearance: float  # lower bound of the distance beyond reach, if there are no contacts [m]
    found: int  # contacts of the pass so far
    capacity: int  # of the buffer
    overrides: int  # 1 if the buffer has stiffness, damping and friction by contact


assume_contiguous_pairs = assume_contiguous(GroundPairs)


@wp.func
def add_contact(rows: wp.ref[ContactRows], context: wp.ref[GroundContext], point: wp.vec3f, radius: float) -> None:
    """Add a contact of a point in body frame [m] with a radius around it; if the buffer is full it is only counted."""
    i = context.found
    context.found = i + 1
    if i < context.capacity:
        # The point below on the plane decides about the depth that the solver sees, so its height is measured anew,
        # in world frame: on level ground at z = 0 it is zero to the last bit.
        world = wp.transform_point(context.pose, point)
        rows.shape0[i] = context.plane
        rows.shape1[i] = context.shape
        rows.point0[i] = world - wp.dot(world - context.origin, context.normal) * context.normal
        rows.point1[i] = point
        rows.offset0[i] = context.margin0 * context.normal
        rows.offset1[i] = -radius * context.body_normal
        rows.normal[i] = context.normal
        rows.margin0[i] = context.margin0
        rows.margin1[i] = radius
        rows.tids[i] = 0
        if context.overrides != 0:
            clear_overrides(rows, i)


@wp.func
def collide_capsule(rows: wp.ref[ContactRows], context: wp.ref[GroundContext], center: wp.vec3f) -> None:
    """Find the contacts of a capsule: the centres of both ends."""
    radius = context.size[0] + context.margin1
    half = wp.quat_rotate(wp.transform_get_rotation(context.local), wp.vec3f(0.0, 0.0, context.size[1]))
    rise = wp.dot(context.body_normal, half)
    context.clearance = context.height - wp.abs(rise) - context.reach
    if context.height + rise <= context.reach:
        add_contact(rows, context, center + half, radius)
    if context.height - rise <= context.reach:
        add_contact(rows, context, center - half, radius)


@wp.func
def box_corner(size: wp.vec3f, i: int) -> wp.vec3f:
    """Corner i of a box, in its own frame."""
    return wp.vec3f(
        wp.where((i & 1) != 0, size[0], -size[0]),
        wp.where((i & 2) != 0, size[1], -size[1]),
        wp.where((i & 4) != 0, size[2], -size[2]),
    )


@wp.func
def collide_box(rows: wp.ref[ContactRows], context: wp.ref[GroundContext]) -> None:
    """Find the contacts of a box: the deepest four corners within reach. A fifth one replaces the shallowest so far."""
    normal = wp.quat_rotate_inv(wp.transform_get_rotation(context.local), context.body_normal)
    context.clearance = context.height - wp.dot(wp.abs(normal), context.size) - context.reach
    if context.clearance > ROUNDING * wp.abs(context.height):
        return
    depth = wp.vec4f()
    corner = wp.vec4i()
    count = int(0)
    i = int(0)
    while i < 8:
        height = context.height + wp.dot(normal, box_corner(context.size, i))
        if height <= context.reach:
            slot = int(count)
            if count == 4:
                slot = shallowest_place(height, depth, 0, 4)
            else:
                count += 1
            if slot >= 0:
                depth[slot] = height
                corner[slot] = i
        i += 1
    j = int(0)
    while j < count:
        add_contact(
            rows, context, wp.transform_point(context.local, box_corner(context.size, corner[j])), context.margin1
        )
        j += 1


@wp.func
def collide_cylinder(rows: wp.ref[ContactRows], context: wp.ref[GroundContext]) -> None:
    """Find the contacts of a cylinder: Newton's points on the rims, in its order.

    Some of them are in directions that are fixed in world frame.
    """
    rotation = wp.transform_get_rotation(context.pose)
    center = wp.transform_point(context.pose, wp.transform_get_translation(context.local))
    axis = wp.quat_rotate(rotation, wp.quat_rotate(wp.transform_get_rotation(context.local), wp.vec3f(0.0, 0.0, 1.0)))
    depth, middle, _ = collide_plane_cylinder(
        context.normal, context.origin, center, axis, context.size[0], context.size[1]
    )
    origin = wp.transform_get_translation(context.pose)
    i = int(0)
    while i < 4:
        if depth[i] <= context.reach:  # entries without a point have the largest number
            point = wp.vec3f(middle[i, 0], middle[i, 1], middle[i, 2]) + (0.5 * depth[i]) * context.normal
            add_contact(rows, context, wp.quat_rotate_inv(rotation, point - origin), context.margin1)
        i += 1


@wp.func
def collide_ellipsoid(rows: wp.ref[ContactRows], context: wp.ref[GroundContext]) -> None:
    """Find the contact of an ellipsoid: its lowest point."""
    normal = wp.quat_rotate_inv(wp.transform_get_rotation(context.local), context.body_normal)
    lowest = -wp.cw_mul(wp.normalize(wp.cw_mul(normal, context.size)), context.size)
    if context.height + wp.dot(normal, lowest) <= context.reach:
        add_contact(rows, context, wp.transform_point(context.local, lowest), context.margin1)


@wp.func
def add_vertex(rows: wp.ref[ContactRows], context: wp.ref[GroundContext], normal: wp.vec3f, vertex: wp.vec3f) -> None:
    """Add a contact of an unscaled vertex, if it is within reach."""
    point = wp.cw_mul(context.size, vertex)
    if context.height + wp.dot(normal, point) <= context.reach:
        add_contact(rows, context, wp.transform_point(context.local, point), context.margin1)


@wp.func
def collide_hull(rows: wp.ref[ContactRows], pairs: wp.ref[GroundPairs], context: wp.ref[GroundContext]) -> None:
    """Find the contacts of a hull: all vertices near the plane, or five of them, see `hulls.ground`."""
    normal = wp.quat_rotate_inv(wp.transform_get_rotation(context.local), context.body_normal)
    lower = pairs.shape_collision_aabb_lower[context.shape]
    upper = pairs.shape_collision_aabb_upper[context.shape]
    center = 0.5 * (lower + upper)
    half = 0.5 * (upper - lower)
    context.clearance = context.height + wp.dot(normal, center) - wp.dot(wp.abs(normal), half) - context.reach
    if context.clearance <= 0.0:
        vertices = low_vertices(
            pairs.supports, context.shape, pairs.shape_source_ptr[context.shape], context.size, normal
        )
        listed = wp.zeros(shape=(MAX_LISTED,), dtype=wp.int32)
        band = BAND * wp.length(half)
        face = collect_candidates(vertices, normal, context.size, context.height, context.reach, band, listed)
        if face.count <= 4:
            k = int(0)
            while k < face.count:
                add_vertex(rows, context, normal, vertices.points[listed[k]])
                k += 1
        else:
            four = choose_four(vertices, face, listed, normal, center)
            lowest = float(context.reach)
            j = int(0)
            while j < 4:
                i = four[j]
                if i >= 0:
                    lowest = wp.min(
                        lowest, context.height + wp.dot(normal, wp.cw_mul(context.size, vertices.points[i]))
                    )
                    add_vertex(rows, context, normal, vertices.points[i])
                j += 1
            if face.height < lowest - LOWER_SHARE * band or four[0] < 0:
                add_vertex(rows, context, normal, vertices.points[face.lowest])


@wp.func
def collide_shape(rows: wp.ref[ContactRows], pairs: wp.ref[GroundPairs], context: wp.ref[GroundContext]) -> None:
    """Find all contacts of one pair."""
    context.margin1 = pairs.shape_margin[context.shape]
    context.local = pairs.shape_transform[context.shape]
    context.size = pairs.shape_scale[context.shape]
    kind = pairs.shape_type[context.shape]
    center = wp.transform_get_translation(context.local)
    context.height = context.body_height + wp.dot(context.body_normal, center)
    context.reach = context.gap0 + pairs.shape_gap[context.shape] + context.margin0 + context.margin1
    if kind == CONVEX_MESH:
        lower = wp.abs(pairs.shape_collision_aabb_lower[context.shape])
        upper = wp.abs(pairs.shape_collision_aabb_upper[context.shape])
        # by the bounding sphere around the origin
        context.clearance = context.height - wp.length(wp.max(lower, upper)) - context.reach
        if context.clearance <= 0.0:
            collide_hull(rows, pairs, context)
    elif kind != SPHERE and kind != CAPSULE:
        context.clearance = context.height - (context.size[0] + context.size[1] + context.size[2]) - context.reach
        if context.clearance <= 0.0:
            if kind == BOX:
                collide_box(rows, context)
            elif kind == CYLINDER:
                collide_cylinder(rows, context)
            else:
                collide_ellipsoid(rows, context)
    else:
        context.reach += context.size[0]
        context.clearance = context.height - context.reach
        if kind == SPHERE:
            if context.clearance <= 0.0:
                add_contact(rows, context, center, context.size[0] + context.margin1)
        else:
            context.clearance -= wp.abs(context.size[1])
            if context.clearance <= 0.0:
                collide_capsule(rows, context, center)


@wp.func
def is_apart(pairs: wp.ref[GroundPairs], k: int) -> bool:
    """Return True while the body of pair k has moved less than its last clearance."""
    owner = pairs.owner[k]
    if owner < 0:
        return False
    return pairs.travelled[owner] < pairs.next_test_at[k]


@wp.func
def update_next_test(pairs: wp.ref[GroundPairs], context: wp.ref[GroundContext], k: int) -> None:
    """Set when pair k, which was just tested, has to be tested again: when its body has travelled the clearance."""
    owner = pairs.owner[k]
    if owner >= 0:
        extent = wp.abs(wp.transform_get_translation(context.pose)) + wp.abs(context.origin)
        extent += wp.abs(wp.transform_get_translation(context.local))
        clearance = context.clearance - ROUNDING * (extent[0] + extent[1] + extent[2] + wp.abs(context.height))
        pairs.next_test_at[k] = pairs.travelled[owner] + wp.float64(wp.where(clearance > 0.0, clearance, 0.0))


@wp.func
def collide_range(
    pairs: wp.ref[GroundPairs],
    first_pair: int,
    last_pair: int,
    body_q: Poses,
    capacity: int,
    rows_in: Rows,
    clearance_mode: int,
) -> int:
    """Write the contacts of pairs ``first_pair`` to ``last_pair - 1`` and return how many there are."""
    rows = rows_in[0]
    context = GroundContext()
    context.plane = -1
    context.capacity = capacity
    context.overrides = wp.where(rows.stiffness.shape[0] > 0, 1, 0)
    assume_contiguous_rows(rows)
    last_body = int(-1)
    k = int(first_pair)
    while k < last_pair:
        context.shape = pairs.shape[k]
        body = pairs.shape_body[context.shape]
        moves = pairs.with_kinematic
        if moves == 0:
            moves = wp.where((pairs.body_flags[body] & KINEMATIC) == 0, 1, 0)
        if clearance_mode == USE_CLEARANCE and moves != 0:
            if is_apart(pairs, k):
                moves = 0
        if moves != 0:
            if pairs.plane[k] != context.plane:
                context.plane = pairs.plane[k]
                plane = pairs.shape_transform[context.plane]
                up = wp.vec3f(0.0, 0.0, 1.0)
                context.normal = wp.normalize(wp.quat_rotate(wp.transform_get_rotation(plane), up))
                context.origin = wp.transform_get_translation(plane)
                context.margin0 = pairs.shape_margin[context.plane]
                context.gap0 = pairs.shape_gap[context.plane]
                last_body = -1
            if body != last_body:
                last_body = body
                context.pose = body_q[body]
                context.body_normal = wp.quat_rotate_inv(wp.transform_get_rotation(context.pose), context.normal)
                context.body_height = wp.dot(
                    context.normal, wp.transform_get_translation(context.pose) - context.origin
                )
            collide_shape(rows, pairs, context)
            if clearance_mode != NO_CLEARANCE:
                update_next_test(pairs, context, k)
        k += 1
    return context.found


@wp.func
def find_ground_contacts(
    pairs_in: wp.array[GroundPairs],
    first_pair: int,
    last_pair: int,
    body_q: Poses,
    selection: wp.array[Selection],
    source: Rows,
    target: Rows,
    clearance_mode: int,
) -> int:
    """Write the contacts of some pairs into ``target``, or into ``source`` if it cannot hold them all; count them.

    Unless ``clearance_mode`` is `NO_CLEARANCE` the clearance of pairs that are apart is stored, and with
    `USE_CLEARANCE` a pair is left out as long as it cannot touch: planes and shapes have to be those of the pass
    before.
    """
    pairs = pairs_in[0]
    assume_contiguous_pairs(pairs)
    rows = target
    capacity = selection[0].capacity
    found = int(0)
    passes = int(1)
    while passes > 0:
        found = collide_range(pairs, first_pair, last_pair, body_q, capacity, rows, clearance_mode)
        passes = wp.where(found > capacity and capacity < selection[0].found_max, 1, 0)
        rows = source
        capacity = selection[0].found_max
    return found


selects = Parameter("selects")
"""Whether the buffer may be too small for all contacts, so that a pass has to select those that stay.

A pass over a range of worlds takes the kernel that a pass over all of them takes: another one might round differently.
"""


@kernel
def collide_ground(
    pairs: wp.array[GroundPairs],
    first_pair: int,
    last_pair: int,
    kind_of_pass: int,
    body_q: Poses,
    selection: wp.array[Selection],
    source: Rows,
    target: Rows,
    dropped_out: Ints,
    counts: Counts,
) -> None:
    """Write all contacts of a range of pairs; of too many, `join_contacts` selects those that stay. One thread."""
    capacity = selection[0].capacity
    found = find_ground_contacts(pairs, first_pair, last_pair, body_q, selection, source, target, NO_CLEARANCE)
    kept = int(found)
    if wp.static(not selects):
        close_rows(target[0], found, 0)
    elif found > capacity:
        source[0].counters[0] = found
        source[0].counters[2] = 0
        join_contacts(selection[0], found, body_q, source, target, dropped_out)
        kept = target[0].counters[0]
    else:
        close_rows(target[0], found, 0)
    if kind_of_pass != WHOLE:
        add_to_totals(counts[0].totals, found, kind_of_pass == FIRST)
    else:
        count_contacts(counts[0], kept, capacity, found, selection[0].found_max)


def most_contacts(model: newton.Model, shapes: np.ndarray) -> np.ndarray:
    """Contacts that each of ``shapes`` can have with a plane."""
    kinds = model.shape_type.numpy()[shapes]
    return np.select([kinds == kind for kind in _MOST], list(_MOST.values()), default=CONTACTS_PER_PAIR)


def ground_bound(model: newton.Model, pairs: np.ndarray) -> int:
    """Largest number of contacts that ``pairs`` of a plane and another shape can have."""
    is_plane = model.shape_type.numpy()[pairs] == PLANE
    return int(most_contacts(model, pairs[~is_plane]).sum())


def is_ground_pair(model: newton.Model, pairs: np.ndarray) -> np.ndarray:
    """A mask of the ``pairs`` of an infinite plane that belongs to no body and a shape that `collide_shape` knows."""
    kind, size = model.shape_type.numpy(), model.shape_scale.numpy().reshape(-1, 3)
    ground = (kind == PLANE) & (size[:, :2] == 0.0).all(axis=1) & (model.shape_body.numpy() < 0)
    barrel = (kind == CYLINDER) & (size[:, 2] != 0.0)  # goes through Newton's general routine
    simple = np.isin(kind, list(_MOST)) & ~barrel
    first, second = pairs[:, 0], pairs[:, 1]
    return (ground[first] & simple[second]) | (ground[second] & simple[first])


class GroundTable:
    """The pairs of a resting plane and a simple shape, in the order of their contacts."""

    def __init__(self, model: newton.Model, pairs: np.ndarray, with_kinematic: bool):
        """Prepare those ``pairs`` of which `is_ground_pair` holds.

        Args:
            model: Whose shapes.
            pairs: Shape [pair_count, 2].
            with_kinematic: Whether kinematic bodies collide with the ground too.
        """
        is_plane = model.shape_type.numpy()[pairs] == PLANE
        moving = (
            model.shape_body.numpy()[pairs[~is_plane]] >= 0
        )  # what belongs to no body never collides with a resting plane
        self.model, self.with_kinematic = model, with_kinematic
        self.planes, self.shapes = pairs[is_plane][moving], pairs[~is_plane][moving]
        self._supports = make_supports(model, self.shapes)
        self._travel: dict[str, wp.array] = {}
        self.sort(np.arange(len(self.shapes)))

    def use_travel(self, owner: np.ndarray, travelled: wp.array) -> None:
        """Set ``owner`` and ``travelled`` of the `GroundPairs`, whose pairs then keep their order.

        ``owner`` is given by shape, -1: none.
        """
        owners = wp.array(owner[self.shapes], dtype=wp.int32, device=self.model.device)
        next_test_at = wp.zeros(len(self.shapes), dtype=wp.float64, device=self.model.device)
        self._travel = {"owner": owners, "travelled": travelled, "next_test_at": next_test_at}

    def sort(self, order: np.ndarray) -> None:
        """Put the pairs into another order."""
        self.planes, self.shapes = self.planes[order], self.shapes[order]
        arrays = [wp.array(a, dtype=wp.int32, device=self.model.device) for a in (self.planes, self.shapes)]
        self._arrays = dict(zip(("plane", "shape"), arrays, strict=True))
        self._structs = StructCache(self.model.device)

    def sort_by_world(self, body_world: np.ndarray) -> np.ndarray:
        """Sort the pairs by world, stably; returns the world of each."""
        world = body_world[self.model.shape_body.numpy()[self.shapes]]
        order = np.argsort(world, kind="stable")
        self.sort(order)
        return np.asarray(world[order])

    def argument(self) -> wp.array:
        """The `GroundPairs`; arrays of the model may have been replaced since the last pass."""
        fields: Any = GroundPairs
        arrays = {name: getattr(self.model, name) for name in fields.vars if hasattr(self.model, name)}
        return self._structs.get(self._arrays | self._travel | arrays, self._make)

    def most_contacts(self) -> np.ndarray:
        """Largest number of contacts that each of ``shapes`` can have with a plane."""
        return most_contacts(self.model, self.shapes)

    def launch(self, selects: bool, inputs: list[Any], outputs: list[Any]) -> None:
        """Launch `collide_ground` with what it takes after the pairs."""
        instance, device = collide_ground.of(Variant(selects=selects)), self.model.device
        inputs = [self.argument(), *inputs]
        wp.launch(instance, dim=1, inputs=inputs, outputs=outputs, block_dim=1, device=device, record_tape=False)

    def _make(self) -> Any:
        pairs: Any = GroundPairs()
        pairs.with_kinematic = int(self.with_kinematic)
        pairs.supports = self._supports
        return pairs
