# mypy: disable-error-code="valid-type"
"""Contacts of simple shapes with the ground, found and written in one launch.

Newton's pipeline takes four launches for them: bounding boxes of all shapes, the pairs whose boxes overlap, the
contacts of these pairs, which it moves to world frame and back, and on top of that comes the work of this package on
the rows. Where all pairs of a model are of an infinite plane that stands still and a sphere, capsule, box, cylinder,
ellipsoid or convex mesh, a single loop over the pairs does the same with a tenth of the instructions: the plane's
normal is turned into the frame of the body, where the centres of spheres, the ends of capsules, the corners of boxes
and the vertices of hulls do not move.

The rows are Newton's: the same contacts in the same order, with numbers that differ by rounding. Those of hulls are our
own, see `hulls.ground`; Newton looks for them by GJK. Used on the CPU; on CUDA one thread would be slow, and rows must
be found by many.
"""

import functools
from typing import Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.deepest import shallowest_place
from ...core.kernels.launch import solver_kernel
from ...core.kernels.structs import StructCache, make_flat
from ...core.kernels.types import Ints, Poses
from ..broad.aabb import BOX, CAPSULE, CONVEX_MESH, CYLINDER, KINEMATIC, SPHERE
from ..buffers.capacity import CONTACTS_PER_PAIR
from ..buffers.counts import FIRST, WHOLE, Counts, add_to_totals, note_contacts
from ..buffers.overflow import Selection, join_rows
from ..buffers.rows import ContactRows, Rows, clear_overrides, close_rows, flat_rows
from .hulls.ground import BAND, LISTED, LOWER, choose_four, find_sole
from .hulls.supports import Supports, low_vertices, make_supports

SLACK = wp.constant(4.0e-6)
"""Rounding of heights, relative to what they are sums of."""
NO_MEMORY, WRITTEN, USED = wp.constant(0), wp.constant(1), wp.constant(2)
"""What a pass does with the distances of pairs that are apart."""

_T = newton.GeoType
_MOST = {_T.SPHERE: 1, _T.CAPSULE: 2, _T.BOX: 4, _T.CYLINDER: 4, _T.ELLIPSOID: 1, _T.CONVEX_MESH: 5}
"""Kinds of shapes that `meet` knows, and the contacts they can have with a plane."""
collide_plane_cylinder = newton.geometry.collide_plane_cylinder


@wp.struct
class GroundPairs:
    """Pairs of a plane and another shape, and the model's arrays that a pass reads.

    Written as ``wp.array(dtype=...)``, which is what `make_flat` looks for.
    """

    with_kinematic: int  # whether kinematic bodies meet the ground too
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
    owner: wp.array(dtype=wp.int32)  # by pair: the number in `way` of the shape's body; -1: none
    way: wp.array(dtype=wp.float64)  # see `Travel`
    look_at: wp.array(dtype=wp.float64)  # by pair: the way at which it has to be looked at again [m]


@wp.struct
class Meeting:
    """The pair at hand, and how far the pass has come."""

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
    reach: float  # contacts with a distance up to this one are written [m]
    apart: float  # how much further than that the shape is away at least, if it has no contacts [m]
    found: int  # contacts of the pass so far
    capacity: int  # rows of the buffer
    overrides: int  # whether the buffer has stiffness, damping and friction by contact


flat_pairs = make_flat(GroundPairs)


@wp.func
def add_row(rows: wp.ref[ContactRows], m: wp.ref[Meeting], point: wp.vec3f, radius: float) -> None:
    """A contact of a point in body frame [m] with the radius around it; only counted if the buffer is full."""
    i = m.found
    m.found = i + 1
    if i < m.capacity:
        # The point below on the plane decides about the depth that the solver sees, so its height is measured anew,
        # in world frame: on level ground at z = 0 it is zero to the last bit.
        world = wp.transform_point(m.pose, point)
        rows.shape0[i] = m.plane
        rows.shape1[i] = m.shape
        rows.point0[i] = world - wp.dot(world - m.origin, m.normal) * m.normal
        rows.point1[i] = point
        rows.offset0[i] = m.margin0 * m.normal
        rows.offset1[i] = -radius * m.body_normal
        rows.normal[i] = m.normal
        rows.margin0[i] = m.margin0
        rows.margin1[i] = radius
        rows.tids[i] = 0
        if m.overrides != 0:
            clear_overrides(rows, i)


@wp.func
def meet_capsule(rows: wp.ref[ContactRows], m: wp.ref[Meeting], center: wp.vec3f) -> None:
    """The centres of both ends."""
    radius = m.size[0] + m.margin1
    half = wp.quat_rotate(wp.transform_get_rotation(m.local), wp.vec3f(0.0, 0.0, m.size[1]))
    rise = wp.dot(m.body_normal, half)
    m.apart = m.height - wp.abs(rise) - m.reach
    if m.height + rise <= m.reach:
        add_row(rows, m, center + half, radius)
    if m.height - rise <= m.reach:
        add_row(rows, m, center - half, radius)


@wp.func
def corner_of(size: wp.vec3f, i: int) -> wp.vec3f:
    """Corner i of a box, in its own frame."""
    return wp.vec3f(
        wp.where((i & 1) != 0, size[0], -size[0]),
        wp.where((i & 2) != 0, size[1], -size[1]),
        wp.where((i & 4) != 0, size[2], -size[2]),
    )


@wp.func
def meet_box(rows: wp.ref[ContactRows], m: wp.ref[Meeting]) -> None:
    """The deepest four corners within reach. A corner beyond the fourth takes the place of the shallowest so far."""
    n = wp.quat_rotate_inv(wp.transform_get_rotation(m.local), m.body_normal)
    m.apart = m.height - wp.dot(wp.abs(n), m.size) - m.reach
    if m.apart > SLACK * wp.abs(m.height):
        return
    depth = wp.vec4f()
    corner = wp.vec4i()
    count = int(0)
    i = int(0)
    while i < 8:
        h = m.height + wp.dot(n, corner_of(m.size, i))
        if h <= m.reach:
            place = int(count)
            if count == 4:
                place = shallowest_place(h, depth, 0, 4)
            else:
                count += 1
            if place >= 0:
                depth[place] = h
                corner[place] = i
        i += 1
    j = int(0)
    while j < count:
        add_row(rows, m, wp.transform_point(m.local, corner_of(m.size, corner[j])), m.margin1)
        j += 1


@wp.func
def meet_cylinder(rows: wp.ref[ContactRows], m: wp.ref[Meeting]) -> None:
    """Newton's points on the rims, in its order; some of them have directions that are fixed in world frame."""
    turn = wp.transform_get_rotation(m.pose)
    center = wp.transform_point(m.pose, wp.transform_get_translation(m.local))
    axis = wp.quat_rotate(turn, wp.quat_rotate(wp.transform_get_rotation(m.local), wp.vec3f(0.0, 0.0, 1.0)))
    depth, middle, _ = collide_plane_cylinder(m.normal, m.origin, center, axis, m.size[0], m.size[1])
    origin = wp.transform_get_translation(m.pose)
    i = int(0)
    while i < 4:
        if depth[i] <= m.reach:  # places without a point have the largest number
            point = wp.vec3f(middle[i, 0], middle[i, 1], middle[i, 2]) + (0.5 * depth[i]) * m.normal
            add_row(rows, m, wp.quat_rotate_inv(turn, point - origin), m.margin1)
        i += 1


@wp.func
def meet_ellipsoid(rows: wp.ref[ContactRows], m: wp.ref[Meeting]) -> None:
    """The lowest point."""
    n = wp.quat_rotate_inv(wp.transform_get_rotation(m.local), m.body_normal)
    lowest = -wp.cw_mul(wp.normalize(wp.cw_mul(n, m.size)), m.size)
    if m.height + wp.dot(n, lowest) <= m.reach:
        add_row(rows, m, wp.transform_point(m.local, lowest), m.margin1)


@wp.func
def add_vertex(rows: wp.ref[ContactRows], m: wp.ref[Meeting], n: wp.vec3f, vertex: wp.vec3f) -> None:
    """A contact of an unscaled vertex, if it is near enough."""
    at = wp.cw_mul(m.size, vertex)
    if m.height + wp.dot(n, at) <= m.reach:
        add_row(rows, m, wp.transform_point(m.local, at), m.margin1)


@wp.func
def meet_hull(rows: wp.ref[ContactRows], p: wp.ref[GroundPairs], m: wp.ref[Meeting]) -> None:
    """All vertices near the plane, or five of them, see `hulls.ground`."""
    n = wp.quat_rotate_inv(wp.transform_get_rotation(m.local), m.body_normal)
    lower = p.shape_collision_aabb_lower[m.shape]
    upper = p.shape_collision_aabb_upper[m.shape]
    center = 0.5 * (lower + upper)
    half = 0.5 * (upper - lower)
    m.apart = m.height + wp.dot(n, center) - wp.dot(wp.abs(n), half) - m.reach
    if m.apart <= 0.0:
        vertices = low_vertices(p.supports, m.shape, p.shape_source_ptr[m.shape], m.size, n)
        listed = wp.zeros(shape=(LISTED,), dtype=wp.int32)
        band = BAND * wp.length(half)
        sole = find_sole(vertices, n, m.size, m.height, m.reach, band, listed)
        if sole.count <= 4:
            k = int(0)
            while k < sole.count:
                add_vertex(rows, m, n, vertices.at[listed[k]])
                k += 1
        else:
            four = choose_four(vertices, sole, listed, n, center)
            lowest = float(m.reach)
            j = int(0)
            while j < 4:
                i = four[j]
                if i >= 0:
                    lowest = wp.min(lowest, m.height + wp.dot(n, wp.cw_mul(m.size, vertices.at[i])))
                    add_vertex(rows, m, n, vertices.at[i])
                j += 1
            if sole.height < lowest - LOWER * band or four[0] < 0:
                add_vertex(rows, m, n, vertices.at[sole.lowest])


@wp.func
def meet(rows: wp.ref[ContactRows], p: wp.ref[GroundPairs], m: wp.ref[Meeting]) -> None:
    """All contacts of one pair."""
    m.margin1 = p.shape_margin[m.shape]
    m.local = p.shape_transform[m.shape]
    m.size = p.shape_scale[m.shape]
    kind = p.shape_type[m.shape]
    center = wp.transform_get_translation(m.local)
    m.height = m.body_height + wp.dot(m.body_normal, center)
    m.reach = m.gap0 + p.shape_gap[m.shape] + m.margin0 + m.margin1
    if kind == CONVEX_MESH:
        lower = wp.abs(p.shape_collision_aabb_lower[m.shape])
        upper = wp.abs(p.shape_collision_aabb_upper[m.shape])
        m.apart = m.height - wp.length(wp.max(lower, upper)) - m.reach  # the ball around the origin that it stands in
        if m.apart <= 0.0:
            meet_hull(rows, p, m)
    elif kind != SPHERE and kind != CAPSULE:
        m.apart = m.height - (m.size[0] + m.size[1] + m.size[2]) - m.reach
        if m.apart <= 0.0:
            if kind == BOX:
                meet_box(rows, m)
            elif kind == CYLINDER:
                meet_cylinder(rows, m)
            else:
                meet_ellipsoid(rows, m)
    else:
        m.reach += m.size[0]
        m.apart = m.height - m.reach
        if kind == SPHERE:
            if m.apart <= 0.0:
                add_row(rows, m, center, m.size[0] + m.margin1)
        else:
            m.apart -= wp.abs(m.size[1])
            if m.apart <= 0.0:
                meet_capsule(rows, m, center)


@wp.func
def is_apart(p: wp.ref[GroundPairs], k: int) -> bool:
    """Whether the body of pair k has not made its way yet to where it could have contacts."""
    owner = p.owner[k]
    if owner < 0:
        return False
    return p.way[owner] < p.look_at[k]


@wp.func
def remember(p: wp.ref[GroundPairs], m: wp.ref[Meeting], k: int) -> None:
    """Write down when pair k, which was just looked at, has to be looked at again."""
    owner = p.owner[k]
    if owner >= 0:
        at = wp.abs(wp.transform_get_translation(m.pose)) + wp.abs(m.origin)
        at += wp.abs(wp.transform_get_translation(m.local))
        left = m.apart - SLACK * (at[0] + at[1] + at[2] + wp.abs(m.height))
        p.look_at[k] = p.way[owner] + wp.float64(wp.where(left > 0.0, left, 0.0))


@wp.func
def meet_all(
    p: wp.ref[GroundPairs],
    first_pair: int,
    last_pair: int,
    body_q: Poses,
    capacity: int,
    rows_in: Rows,
    memory: int,
) -> int:
    """Write the contacts of pairs ``first_pair`` to ``last_pair - 1`` and return how many there are."""
    rows = rows_in[0]
    m = Meeting()
    m.plane = -1
    m.capacity = capacity
    m.overrides = wp.where(rows.stiffness.shape[0] > 0, 1, 0)
    flat_rows(rows)
    last_body = int(-1)
    k = int(first_pair)
    while k < last_pair:
        m.shape = p.shape[k]
        body = p.shape_body[m.shape]
        moves = p.with_kinematic
        if moves == 0:
            moves = wp.where((p.body_flags[body] & KINEMATIC) == 0, 1, 0)
        if memory == USED and moves != 0:
            if is_apart(p, k):
                moves = 0
        if moves != 0:
            if p.plane[k] != m.plane:
                m.plane = p.plane[k]
                plane = p.shape_transform[m.plane]
                up = wp.vec3f(0.0, 0.0, 1.0)
                m.normal = wp.normalize(wp.quat_rotate(wp.transform_get_rotation(plane), up))
                m.origin = wp.transform_get_translation(plane)
                m.margin0 = p.shape_margin[m.plane]
                m.gap0 = p.shape_gap[m.plane]
                last_body = -1
            if body != last_body:
                last_body = body
                m.pose = body_q[body]
                m.body_normal = wp.quat_rotate_inv(wp.transform_get_rotation(m.pose), m.normal)
                m.body_height = wp.dot(m.normal, wp.transform_get_translation(m.pose) - m.origin)
            meet(rows, p, m)
            if memory != NO_MEMORY:
                remember(p, m, k)
        k += 1
    return m.found


@wp.func
def find_contacts(
    pairs: wp.array[GroundPairs],
    first_pair: int,
    last_pair: int,
    body_q: Poses,
    selection: wp.array[Selection],
    source: Rows,
    target: Rows,
    memory: int,
) -> int:
    """Write the contacts of some pairs into ``target``, or into ``source`` if it cannot hold them all; count them.

    With ``memory`` other than `NO_MEMORY` pairs that are apart are remembered, and with `USED` they are left out as
    long as they cannot touch: planes and shapes have to be those of the pass before.
    """
    p = pairs[0]
    flat_pairs(p)
    rows = target
    capacity = selection[0].capacity
    found = int(0)
    passes = int(1)
    while passes > 0:
        found = meet_all(p, first_pair, last_pair, body_q, capacity, rows, memory)
        passes = wp.where(found > capacity and capacity < selection[0].found_max, 1, 0)
        rows = source
        capacity = selection[0].found_max
    return found


@functools.cache
def make_ground_kernel(selects: bool) -> Any:
    """The kernel for buffers that hold all contacts, or for those that may be too small; one thread.

    A pass over a range of worlds takes the kernel that a pass over all of them takes: another one might round
    differently.
    """

    @solver_kernel
    def meet_ground(
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
        """All contacts of a range of pairs; of too many, those stay that ``selection`` lets stay."""
        capacity = selection[0].capacity
        found = find_contacts(pairs, first_pair, last_pair, body_q, selection, source, target, NO_MEMORY)
        kept = int(found)
        if wp.static(not selects):
            close_rows(target[0], found, 0)
        elif found > capacity:
            source[0].counters[0] = found
            source[0].counters[2] = 0
            join_rows(selection[0], found, body_q, source, target, dropped_out)
            kept = target[0].counters[0]
        else:
            close_rows(target[0], found, 0)
        if kind_of_pass != WHOLE:
            add_to_totals(counts[0].totals, found, kind_of_pass == FIRST)
        else:
            note_contacts(counts[0], kept, capacity, found, selection[0].found_max)

    return meet_ground


def most_contacts(model: newton.Model, shapes: np.ndarray) -> np.ndarray:
    """Contacts that each of ``shapes`` can have with a plane."""
    kinds = model.shape_type.numpy()[shapes]
    return np.select([kinds == int(kind) for kind in _MOST], list(_MOST.values()), default=CONTACTS_PER_PAIR)


def ground_bound(model: newton.Model, pairs: np.ndarray) -> int:
    """Contacts that ``pairs`` of a plane and another shape can have."""
    is_plane = model.shape_type.numpy()[pairs] == int(_T.PLANE)
    return int(most_contacts(model, pairs[~is_plane]).sum())


def is_ground_pair(model: newton.Model, pairs: np.ndarray) -> np.ndarray:
    """Which of ``pairs`` are of an infinite plane that belongs to no body and a shape that `meet` knows."""
    kind, size = model.shape_type.numpy(), model.shape_scale.numpy().reshape(-1, 3)
    ground = (kind == int(_T.PLANE)) & (size[:, :2] == 0.0).all(axis=1) & (model.shape_body.numpy() < 0)
    barrel = (kind == int(_T.CYLINDER)) & (size[:, 2] != 0.0)  # goes through Newton's general routine
    simple = np.isin(kind, [int(known) for known in _MOST]) & ~barrel
    first, second = pairs[:, 0], pairs[:, 1]
    return (ground[first] & simple[second]) | (ground[second] & simple[first])


class GroundTable:
    """The pairs of a resting plane and a simple shape, in the order of their contacts."""

    def __init__(self, model: newton.Model, pairs: np.ndarray, with_kinematic: bool):
        """Prepare those ``pairs`` of which `is_ground_pair` holds.

        Args:
            model: Whose shapes.
            pairs: Shape [pair_count, 2].
            with_kinematic: Whether kinematic bodies meet the ground too.
        """
        is_plane = model.shape_type.numpy()[pairs] == int(_T.PLANE)
        moving = model.shape_body.numpy()[pairs[~is_plane]] >= 0  # what rests on no body never meets a resting plane
        self.model, self.with_kinematic = model, with_kinematic
        self.planes, self.shapes = pairs[is_plane][moving], pairs[~is_plane][moving]
        self._supports = make_supports(model, self.shapes)
        self._ways: dict[str, wp.array] = {}
        self.sort(np.arange(len(self.shapes)))

    def know_ways(self, owner: np.ndarray, way: wp.array) -> None:
        """Set ``owner`` and ``way`` of the `GroundPairs`; ``owner`` is by shape, -1: none. Pairs keep their order."""
        owners = wp.array(owner[self.shapes], dtype=wp.int32, device=self.model.device)
        look_at = wp.zeros(len(self.shapes), dtype=wp.float64, device=self.model.device)
        self._ways = {"owner": owners, "way": way, "look_at": look_at}

    def sort(self, order: np.ndarray) -> None:
        """Put the pairs into another order."""
        self.planes, self.shapes = self.planes[order], self.shapes[order]
        arrays = [wp.array(a, dtype=wp.int32, device=self.model.device) for a in (self.planes, self.shapes)]
        self._arrays = dict(zip(("plane", "shape"), arrays, strict=True))
        self._structs = StructCache(self.model.device)

    def sort_by_world(self, body_world: np.ndarray) -> np.ndarray:
        """Let the pairs of a world follow those of the worlds before; returns the world of each."""
        world = body_world[self.model.shape_body.numpy()[self.shapes]]
        order = np.argsort(world, kind="stable")
        self.sort(order)
        return np.asarray(world[order])

    def argument(self) -> wp.array:
        """The `GroundPairs`; arrays of the model may have been replaced since the last pass."""
        fields: Any = GroundPairs
        arrays = {name: getattr(self.model, name) for name in fields.vars if hasattr(self.model, name)}
        return self._structs.get(self._arrays | self._ways | arrays, self._make)

    def most_contacts(self) -> np.ndarray:
        """Contacts that each pair can have."""
        return most_contacts(self.model, self.shapes)

    def launch(self, selects: bool, inputs: list[Any], outputs: list[Any]) -> None:
        """Launch the kernel of `make_ground_kernel` with what it takes after the pairs."""
        kernel, device = make_ground_kernel(selects), self.model.device
        inputs = [self.argument(), *inputs]
        wp.launch(kernel, dim=1, inputs=inputs, outputs=outputs, block_dim=1, device=device, record_tape=False)

    def _make(self) -> Any:
        pairs: Any = GroundPairs()
        pairs.with_kinematic = int(self.with_kinematic)
        pairs.supports = self._supports
        return pairs
