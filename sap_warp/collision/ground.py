# mypy: disable-error-code="valid-type"
"""Contacts of simple shapes with the ground, found and written in one launch.

Newton's pipeline takes four launches for them: bounding boxes of all shapes, the pairs whose boxes overlap, the
contacts of these pairs, which it moves to world frame and back, and on top of that comes the work of this package on
the rows. Where all pairs of a model are of an infinite plane that stands still and a sphere, capsule, box, cylinder or
ellipsoid, a single loop over the pairs does the same with a tenth of the instructions: the plane's normal is turned
into the frame of the body, where the centres of spheres, the ends of capsules and the corners of boxes do not move.

The rows are Newton's: the same contacts in the same order, with numbers that differ by rounding. Used on the CPU; on
CUDA one thread would be slow, and rows must be found by many.
"""

import functools
from typing import Any

import newton
import numpy as np
import warp as wp

from ..kernels.launch import solver_kernel
from ..kernels.structs import StructCache, make_flat
from .capacity import CONTACTS_PER_PAIR
from .need import count_pass, note_contacts
from .room import ContactRoom
from .rows import ContactRows, copy_rows, flat_rows, next_generation, row_arrays
from .selection import Selection, select_all

SPHERE = wp.constant(int(newton.GeoType.SPHERE))
CAPSULE = wp.constant(int(newton.GeoType.CAPSULE))
BOX = wp.constant(int(newton.GeoType.BOX))
CYLINDER = wp.constant(int(newton.GeoType.CYLINDER))
KINEMATIC = wp.constant(int(newton.BodyFlags.KINEMATIC))

_T = newton.GeoType
_MOST = {_T.SPHERE: 1, _T.CAPSULE: 2, _T.BOX: 4, _T.CYLINDER: 4, _T.ELLIPSOID: 1}
"""Kinds of shapes that `meet` knows, and the contacts they can have with a plane."""
collide_plane_cylinder = newton.geometry.collide_plane_cylinder
_MODEL_ARRAYS = (
    "body_flags",
    "shape_body",
    "shape_type",
    "shape_transform",
    "shape_scale",
    "shape_margin",
    "shape_gap",
)


@wp.struct
class GroundPairs:
    """Pairs of a plane and another shape, and the model's arrays that a pass reads.

    Written as ``wp.array(dtype=...)``, which is what `make_flat` looks for.
    """

    plane: wp.array(dtype=wp.int32)
    shape: wp.array(dtype=wp.int32)
    body_flags: wp.array(dtype=wp.int32)
    shape_body: wp.array(dtype=wp.int32)
    shape_type: wp.array(dtype=wp.int32)
    shape_transform: wp.array(dtype=wp.transformf)
    shape_scale: wp.array(dtype=wp.vec3f)
    shape_margin: wp.array(dtype=wp.float32)
    shape_gap: wp.array(dtype=wp.float32)


@wp.struct
class Ground:
    """The plane and the body of the pair at hand."""

    plane: int
    shape: int
    normal: wp.vec3f  # of the plane, in world frame
    origin: wp.vec3f  # of the plane
    body_normal: wp.vec3f  # the normal in the frame of the body
    body_height: float  # of the body's origin above the plane [m]
    pose: wp.transformf  # of the body
    margin0: float
    reach: float  # contacts with a distance up to this one are written [m]


@wp.struct
class Places:
    """Where rows go: the first ones into the caller's buffer, those that it has no room for into another one."""

    capacity: int
    room: int
    found: int
    overrides: int  # whether the caller's buffer has stiffness, damping and friction by contact
    rest_overrides: int


flat_pairs = make_flat(GroundPairs)


@wp.func
def write_row(
    rows: wp.ref[ContactRows], overrides: int, i: int, g: wp.ref[Ground], point: wp.vec3f, radius: float
) -> None:
    """A contact of a point in body frame [m] with the radius around it."""
    # The point below on the plane decides about the depth that the solver sees, so its height is measured anew, in
    # world frame: on level ground at z = 0 it is zero to the last bit.
    world = wp.transform_point(g.pose, point)
    rows.shape0[i] = g.plane
    rows.shape1[i] = g.shape
    rows.point0[i] = world - wp.dot(world - g.origin, g.normal) * g.normal
    rows.point1[i] = point
    rows.offset0[i] = g.margin0 * g.normal
    rows.offset1[i] = -radius * g.body_normal
    rows.normal[i] = g.normal
    rows.margin0[i] = g.margin0
    rows.margin1[i] = radius
    rows.tids[i] = 0
    if overrides != 0:
        rows.stiffness[i] = float(0.0)
        rows.damping[i] = float(0.0)
        rows.friction[i] = float(0.0)


@wp.func
def add_row(
    target: wp.ref[ContactRows],
    rest: wp.ref[ContactRows],
    places: wp.ref[Places],
    g: wp.ref[Ground],
    point: wp.vec3f,
    radius: float,
) -> None:
    """Write the next contact, wherever there is room for it, and count it in any case."""
    i = places.found
    places.found = i + 1
    if i < places.capacity:
        write_row(target, places.overrides, i, g, point, radius)
    elif i < places.room:
        write_row(rest, places.rest_overrides, i, g, point, radius)


@wp.func
def corner_of(size: wp.vec3f, i: int) -> wp.vec3f:
    """Corner i of a box, in its own frame."""
    return wp.vec3f(
        wp.where((i & 1) != 0, size[0], -size[0]),
        wp.where((i & 2) != 0, size[1], -size[1]),
        wp.where((i & 4) != 0, size[2], -size[2]),
    )


@wp.func
def meet_box(
    target: wp.ref[ContactRows],
    rest: wp.ref[ContactRows],
    places: wp.ref[Places],
    g: wp.ref[Ground],
    local: wp.transformf,
    size: wp.vec3f,
    height: float,
    margin: float,
) -> None:
    """The deepest four corners within reach. A corner beyond the fourth takes the place of the shallowest so far."""
    turn = wp.transform_get_rotation(local)
    n = wp.quat_rotate_inv(turn, g.body_normal)
    depth = wp.vec4f()
    corner = wp.vec4i()
    count = int(0)
    i = int(0)
    while i < 8:
        h = height + wp.dot(n, corner_of(size, i))
        if h <= g.reach:
            place = int(count)
            if count == 4:
                worst = int(0)
                k = int(1)
                while k < 4:
                    if depth[k] > depth[worst]:
                        worst = k
                    k += 1
                if h < depth[worst]:
                    place = worst
            else:
                count += 1
            if place < 4:
                depth[place] = h
                corner[place] = i
        i += 1
    j = int(0)
    while j < count:
        add_row(target, rest, places, g, wp.transform_point(local, corner_of(size, corner[j])), margin)
        j += 1


@wp.func
def meet_cylinder(
    target: wp.ref[ContactRows],
    rest: wp.ref[ContactRows],
    places: wp.ref[Places],
    g: wp.ref[Ground],
    local: wp.transformf,
    size: wp.vec3f,
    margin: float,
) -> None:
    """Newton's points on the rims, in its order; some of them have directions that are fixed in world frame."""
    turn = wp.transform_get_rotation(g.pose)
    center = wp.transform_point(g.pose, wp.transform_get_translation(local))
    axis = wp.quat_rotate(wp.transform_get_rotation(local), wp.vec3f(0.0, 0.0, 1.0))
    depth, middle, _ = collide_plane_cylinder(g.normal, g.origin, center, wp.quat_rotate(turn, axis), size[0], size[1])
    origin = wp.transform_get_translation(g.pose)
    i = int(0)
    while i < 4:
        if depth[i] <= g.reach:  # places without a point have the largest number
            point = wp.vec3f(middle[i, 0], middle[i, 1], middle[i, 2]) + (0.5 * depth[i]) * g.normal
            add_row(target, rest, places, g, wp.quat_rotate_inv(turn, point - origin), margin)
        i += 1


@wp.func
def meet_ellipsoid(
    target: wp.ref[ContactRows],
    rest: wp.ref[ContactRows],
    places: wp.ref[Places],
    g: wp.ref[Ground],
    local: wp.transformf,
    size: wp.vec3f,
    height: float,
    margin: float,
) -> None:
    """The lowest point."""
    n = wp.quat_rotate_inv(wp.transform_get_rotation(local), g.body_normal)
    lowest = -wp.cw_mul(wp.normalize(wp.cw_mul(n, size)), size)
    if height + wp.dot(n, lowest) <= g.reach:
        add_row(target, rest, places, g, wp.transform_point(local, lowest), margin)


@wp.func
def meet(
    target: wp.ref[ContactRows],
    rest: wp.ref[ContactRows],
    places: wp.ref[Places],
    p: wp.ref[GroundPairs],
    g: wp.ref[Ground],
    gap0: float,
) -> None:
    """All contacts of one pair."""
    margin = p.shape_margin[g.shape]
    local = p.shape_transform[g.shape]
    size = p.shape_scale[g.shape]
    kind = p.shape_type[g.shape]
    center = wp.transform_get_translation(local)
    height = g.body_height + wp.dot(g.body_normal, center)
    separation = gap0 + p.shape_gap[g.shape] + g.margin0 + margin
    if kind != SPHERE and kind != CAPSULE:
        g.reach = separation
        if height - (size[0] + size[1] + size[2]) <= g.reach:
            if kind == BOX:
                meet_box(target, rest, places, g, local, size, height, margin)
            elif kind == CYLINDER:
                meet_cylinder(target, rest, places, g, local, size, margin)
            else:
                meet_ellipsoid(target, rest, places, g, local, size, height, margin)
    else:
        radius = size[0]
        g.reach = separation + radius
        if kind == SPHERE:
            if height <= g.reach:
                add_row(target, rest, places, g, center, radius + margin)
        elif height - wp.abs(size[1]) <= g.reach:
            half = wp.quat_rotate(wp.transform_get_rotation(local), wp.vec3f(0.0, 0.0, size[1]))
            rise = wp.dot(g.body_normal, half)
            if height + rise <= g.reach:
                add_row(target, rest, places, g, center + half, radius + margin)
            if height - rise <= g.reach:
                add_row(target, rest, places, g, center - half, radius + margin)


@wp.func
def find_contacts(
    pairs: wp.array[GroundPairs],
    first_pair: int,
    last_pair: int,
    body_q: wp.array[wp.transformf],
    with_kinematic: int,
    capacity: int,
    room: int,
    rest_in: wp.array[ContactRows],
    target_in: wp.array[ContactRows],
) -> int:
    """Write the contacts of pairs ``first_pair`` to ``last_pair - 1`` and return how many there are."""
    p = pairs[0]
    target = target_in[0]
    rest = rest_in[0]
    places = Places()
    places.capacity = capacity
    places.room = room
    places.overrides = wp.where(target.stiffness.shape[0] > 0, 1, 0)
    places.rest_overrides = wp.where(rest.stiffness.shape[0] > 0, 1, 0)
    flat_pairs(p)
    flat_rows(target)
    flat_rows(rest)
    g = Ground()
    g.plane = -1
    gap0 = float(0.0)
    last_body = int(-1)
    k = int(first_pair)
    while k < last_pair:
        g.shape = p.shape[k]
        body = p.shape_body[g.shape]
        moves = int(with_kinematic)
        if moves == 0:
            moves = wp.where((p.body_flags[body] & KINEMATIC) == 0, 1, 0)
        if moves != 0:
            if p.plane[k] != g.plane:
                g.plane = p.plane[k]
                plane = p.shape_transform[g.plane]
                up = wp.vec3f(0.0, 0.0, 1.0)
                g.normal = wp.normalize(wp.quat_rotate(wp.transform_get_rotation(plane), up))
                g.origin = wp.transform_get_translation(plane)
                g.margin0 = p.shape_margin[g.plane]
                gap0 = p.shape_gap[g.plane]
                last_body = -1
            if body != last_body:
                last_body = body
                g.pose = body_q[body]
                g.body_normal = wp.quat_rotate_inv(wp.transform_get_rotation(g.pose), g.normal)
                g.body_height = wp.dot(g.normal, wp.transform_get_translation(g.pose) - g.origin)
            meet(target, rest, places, p, g, gap0)
        k += 1
    return places.found


@wp.func
def close_pass(rows: wp.ref[ContactRows], found: int) -> None:
    """Set the counters of a buffer whose rows are written, and count the pass."""
    rows.counters[0] = found
    rows.counters[1] = 0
    rows.counters[2] = 0
    rows.generation[0] = next_generation(rows.generation[0])


@functools.cache
def make_ground_kernel(selects: bool) -> Any:
    """The kernel for buffers that hold all contacts, or for those that may be too small; one thread.

    A pass over a part of the worlds takes the kernel that a pass over all of them takes: another one might round
    differently.
    """

    @solver_kernel
    def meet_ground(
        pairs: wp.array[GroundPairs],
        first_pair: int,
        last_pair: int,
        body_q: wp.array[wp.transformf],
        with_kinematic: int,
        capacity: int,
        room: int,
        part: int,
        selection: wp.array[Selection],
        source: wp.array[ContactRows],
        target: wp.array[ContactRows],
        dropped_out: wp.array[wp.int32],
        record: wp.array[wp.int32],
        totals: wp.array[wp.int32],
    ) -> None:
        """All contacts of a range of pairs; of too many, those stay that ``selection`` lets stay."""
        found = int(0)
        kept = int(0)
        if wp.static(selects):
            found = find_contacts(pairs, first_pair, last_pair, body_q, with_kinematic, capacity, room, source, target)
            kept = found
            if found > capacity:
                copy_rows(target, source, 0, 1, capacity)
                source[0].counters[0] = found
                source[0].counters[2] = 0
                select_all(selection[0], source, body_q, target, dropped_out)
                kept = target[0].counters[0]
            else:
                close_pass(target[0], found)
        else:
            found = find_contacts(
                pairs, first_pair, last_pair, body_q, with_kinematic, capacity, capacity, target, target
            )
            kept = found
            close_pass(target[0], found)
        if part != 0:
            count_pass(found, part, totals)
        else:
            note_contacts(kept, capacity, found, room, record)

    return meet_ground


def most_contacts(model: newton.Model, shapes: np.ndarray) -> np.ndarray:
    """Contacts that each of ``shapes`` can have with a plane."""
    kinds = model.shape_type.numpy()[shapes]
    return np.select([kinds == int(kind) for kind in _MOST], list(_MOST.values()), default=CONTACTS_PER_PAIR)


def ground_bound(model: newton.Model, pairs: np.ndarray) -> int:
    """Contacts that ``pairs`` of a plane and another shape can have."""
    is_plane = model.shape_type.numpy()[pairs] == int(newton.GeoType.PLANE)
    return int(most_contacts(model, pairs[~is_plane]).sum())


def is_ground_pair(model: newton.Model, pairs: np.ndarray) -> np.ndarray:
    """Which of ``pairs`` are of an infinite plane that belongs to no body and a shape that `meet` knows."""
    kind, size = model.shape_type.numpy(), model.shape_scale.numpy().reshape(-1, 3)
    ground = (kind == int(_T.PLANE)) & (size[:, :2] == 0.0).all(axis=1) & (model.shape_body.numpy() < 0)
    barrel = (kind == int(_T.CYLINDER)) & (size[:, 2] != 0.0)  # goes through Newton's general routine
    simple = np.isin(kind, [int(known) for known in _MOST]) & ~barrel
    first, second = pairs[:, 0], pairs[:, 1]
    return (ground[first] & simple[second]) | (ground[second] & simple[first])


class GroundContacts:
    """Finds the contacts of a model whose pairs are all of a resting plane and a simple shape."""

    def __init__(self, model: newton.Model, pairs: np.ndarray, with_kinematic: bool):
        """Prepare the pairs of ``model``; ``suits`` must hold for them.

        Args:
            model: Whose shapes.
            pairs: Shape [pair_count, 2], in the order of the contacts.
            with_kinematic: Whether kinematic bodies meet the ground too.
        """
        is_plane = model.shape_type.numpy()[pairs] == int(newton.GeoType.PLANE)
        moving = model.shape_body.numpy()[pairs[~is_plane]] >= 0  # what rests on no body never meets a resting plane
        self.model = model
        self._count = int(moving.sum())
        self.plane = wp.array(pairs[is_plane][moving], dtype=wp.int32, device=model.device)
        self.shape = wp.array(pairs[~is_plane][moving], dtype=wp.int32, device=model.device)
        self.with_kinematic = int(with_kinematic)
        self.no_selection = wp.empty(0, dtype=Selection, device=model.device)
        self.no_counts = wp.empty(0, dtype=wp.int32, device=model.device)
        self._pairs = StructCache(model.device)
        self._rows = StructCache(model.device)

    @staticmethod
    def suits(model: newton.Model, pairs: np.ndarray | None) -> bool:
        """Whether all of ``pairs`` are of the kinds that this class knows."""
        if not model.device.is_cpu or model.requires_grad or pairs is None or len(pairs) == 0:
            return False
        return bool(is_ground_pair(model, pairs).all())

    def most_contacts(self) -> np.ndarray:
        """Contacts that each pair can have."""
        return most_contacts(self.model, self.shape.numpy())

    def pairs(self, plane: wp.array, shape: wp.array) -> wp.array:
        """Pairs of planes and other shapes, with the model's arrays, as an argument of kernels."""
        arrays = {name: getattr(self.model, name) for name in _MODEL_ARRAYS}
        return self._pairs.get({"plane": plane, "shape": shape, **arrays}, GroundPairs)

    def table(self) -> tuple[wp.array, int]:
        """All pairs as an argument of kernels, and how many there are."""
        return self.pairs(self.plane, self.shape), self._count

    def find(self, body_q: wp.array, buffer: newton.Contacts, room: ContactRoom | None, record: wp.array) -> None:
        """Fill ``buffer`` and note the need in ``record``: one launch, no allocation."""
        target = self._rows.get(row_arrays(buffer), ContactRows)
        capacity = buffer.rigid_contact_max
        pairs, count = self.table()
        inputs = [pairs, 0, count, body_q, self.with_kinematic, capacity]
        if room is None:
            inputs += [capacity, 0, self.no_selection, target]
            outputs = [target, self.no_counts, record, self.no_counts]
        else:
            inputs += [room.contacts.rigid_contact_max, 0, room.tables, room.rows(room.contacts)]
            outputs = [target, room.dropped_of(buffer), record, self.no_counts]
        self.launch(room is not None, inputs, outputs)

    def launch(self, selects: bool, inputs: list[Any], outputs: list[Any]) -> None:
        """Launch the kernel, see `make_ground_kernel`."""
        kernel, device = make_ground_kernel(selects), self.model.device
        wp.launch(kernel, dim=1, inputs=inputs, outputs=outputs, block_dim=1, device=device, record_tape=False)
