# mypy: disable-error-code="valid-type"
"""Contacts with sides of boxes that a box beside them covers.

A floor of tiles, two tables pushed together, belts that follow each other: their tops are one plane, and detection
takes the boxes one by one. What slides over a seam lies a little below the tops, or glides a little above them, and
finds the side or the edge of the next box ahead, at which it would stop. No body can feel that side: the box beside
covers it. Such a contact is taken out if its point lies in a box of the same body whose face is in one plane with one
of this box, near that plane, if it looks neither out of the plane nor into it, and if the cover goes on to both sides
of the point as far as this box does. A step stays a step, also where a wall goes down into a floor.
"""

import itertools
from typing import Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.launch import solver_kernel
from ...core.kernels.structs import StructArgument, make_flat
from ...core.kernels.types import Poses
from ..buffers.rows import ContactRows, RowArguments, flat_rows, take_out_row
from .normals import in_body_frame

LEVEL = 1.0e-4
"""How far two faces in one plane, and boxes beside each other, may be apart [m]."""
_PARALLEL = 1.0 - 1.0e-6
"""Cosine of the angle between such faces, 1.4 mrad."""
_SLACK = wp.constant(2.0 * LEVEL)
"""How far outside of a box a point still belongs to it [m]."""
_DEEP = wp.constant(0.02)
"""How far below the common plane, and how far to its sides, a contact is looked at [m]."""
_AHEAD = wp.constant(1.0e-3)
"""How far ahead of a contact the covering box must reach [m]."""
_UP, _DOWN = wp.constant(0.99985), wp.constant(-0.259)
"""Cosine to a plane's normal above which, or below which, a direction is left alone: 1 and 105 degrees."""
_THREADS = 16384
"""Threads that share the rows on CUDA."""


@wp.struct
class Seams:
    """Boxes with others beside them. Written as ``wp.array(dtype=...)``, which is what `make_flat` looks for."""

    first: wp.array(dtype=wp.int32)  # by shape: where its neighbours begin; one more entry than shapes
    beside: wp.array(dtype=wp.int32)  # the neighbour
    up: wp.array(dtype=wp.vec3f)  # normal of their common plane, in the frame of the body
    height: wp.array(dtype=wp.float32)  # of that plane along its normal [m]
    lower: wp.array(dtype=wp.vec3f)  # bounds of what is in or near both boxes, in the frame of the body [m]
    upper: wp.array(dtype=wp.vec3f)
    body: wp.array(dtype=wp.int32)  # of the shapes
    place: wp.array(dtype=wp.transformf)  # on the body
    half: wp.array(dtype=wp.vec3f)  # half edges [m]


flat_seams = make_flat(Seams)


@wp.func
def is_inside(s: wp.ref[Seams], shape: int, point: wp.vec3f, slack: float) -> bool:
    """Whether a point of the body lies in a box."""
    x = wp.transform_point(wp.transform_inverse(s.place[shape]), point)
    half = s.half[shape]
    return wp.abs(x[0]) <= half[0] + slack and wp.abs(x[1]) <= half[1] + slack and wp.abs(x[2]) <= half[2] + slack


@wp.func
def way_out(s: wp.ref[Seams], shape: int, point: wp.vec3f, along: wp.vec3f) -> float:
    """How far it is from a point out of a box in a direction, `_DEEP` at most [m]; 0 from a point outside."""
    pose = wp.transform_inverse(s.place[shape])
    x = wp.transform_point(pose, point)
    d = wp.transform_vector(pose, along)
    half = s.half[shape]
    way = _DEEP
    for k in range(3):
        if d[k] != 0.0:
            way = wp.min(way, (half[k] - wp.sign(d[k]) * x[k]) / wp.abs(d[k]))
    return wp.max(way, 0.0)


@wp.func
def is_covered(s: wp.ref[Seams], shape: int, up: wp.vec3f, point: wp.vec3f) -> bool:
    """Whether a point lies in one of the boxes beside a shape that have the same plane."""
    i = s.first[shape]
    while i < s.first[shape + 1]:
        if wp.dot(s.up[i], up) > _UP:
            if is_inside(s, s.beside[i], point, _SLACK):
                return True
        i += 1
    return False


@wp.func
def is_inner(s: wp.ref[Seams], i: int, shape: int, point: wp.vec3f, along: wp.vec3f) -> bool:
    """Whether neighbour i of a shape covers it at a point, seen along a direction; both in the frame of the body."""
    up = s.up[i]
    rise = wp.dot(along, up)
    below = s.height[i] - wp.dot(up, point)
    if rise > _UP or rise < _DOWN or below > _DEEP or below < -_SLACK:
        return False
    ahead = _AHEAD * wp.normalize(along - rise * up)
    if not is_inside(s, s.beside[i], point, _SLACK) or not is_inside(s, s.beside[i], point + ahead, _SLACK):
        return False
    aside = wp.cross(up, wp.normalize(ahead))
    left = point + way_out(s, shape, point - ahead, aside) * aside
    right = point - way_out(s, shape, point - ahead, -aside) * aside
    return is_covered(s, shape, up, left + ahead) and is_covered(s, shape, up, right + ahead)


@wp.func
def is_inner_side(
    s: wp.ref[Seams], body_q: Poses, shape: int, point: wp.vec3f, rows: wp.ref[ContactRows], row: int, sign: float
) -> bool:
    """The same for all neighbours and one side of a contact; ``sign`` times its normal points away from the shape."""
    i = s.first[shape]
    end = s.first[shape + 1]
    while i < end:
        if wp.min(point, s.upper[i]) == point and wp.max(point, s.lower[i]) == point:  # hardly any is near a seam
            if is_inner(s, i, shape, point, in_body_frame(sign * rows.normal[row], s.body[shape], body_q)):
                return True
        i += 1
    return False


@solver_kernel
def take_out_inner_sides(
    seams: wp.array[Seams], body_q: Poses, capacity: int, threads: int, rows_in: wp.array[ContactRows]
) -> None:
    """Look at all rows of a buffer, spread over threads."""
    s = seams[0]
    rows = rows_in[0]
    flat_seams(s)
    flat_rows(rows)
    end = wp.min(rows.counters[0], capacity)
    i = int(wp.tid())
    while i < end:
        shape0 = rows.shape0[i]
        shape1 = rows.shape1[i]
        if shape0 >= 0 and shape1 >= 0:
            inner = bool(False)
            if s.first[shape0] != s.first[shape0 + 1]:
                inner = is_inner_side(s, body_q, shape0, rows.point0[i], rows, i, 1.0)
            if not inner and s.first[shape1] != s.first[shape1 + 1]:
                inner = is_inner_side(s, body_q, shape1, rows.point1[i], rows, i, -1.0)
            if inner:
                take_out_row(rows, i)
        i += threads


class SeamFilter:
    """Takes contacts with inner sides out of buffers. Nothing is allocated after the constructor."""

    def __init__(self, model: newton.Model, seams: np.ndarray):
        """Keep what `find_seams` found."""
        device = model.device
        table: Any = Seams()
        counts = np.bincount(seams["shape"], minlength=model.shape_count)
        table.first = wp.array(np.concatenate([[0], np.cumsum(counts)]), dtype=wp.int32, device=device)
        table.beside = wp.array(seams["beside"], dtype=wp.int32, device=device)
        table.up = wp.array(seams["up"], dtype=wp.vec3f, device=device)
        table.height = wp.array(seams["height"], dtype=wp.float32, device=device)
        table.lower = wp.array(seams["lower"], dtype=wp.vec3f, device=device)
        table.upper = wp.array(seams["upper"], dtype=wp.vec3f, device=device)
        table.body, table.place, table.half = model.shape_body, model.shape_transform, model.shape_scale
        self._seams, self._rows, self._device = StructArgument(table, device), RowArguments(device), device

    def run(self, body_q: wp.array, buffer: newton.Contacts) -> None:
        """Look at the contacts of a pass at ``body_q``."""
        capacity = buffer.rigid_contact_max
        threads = 1 if self._device.is_cpu else min(capacity, _THREADS)
        inputs = [self._seams.array, body_q, capacity, threads]
        outputs, block = [self._rows.of(buffer)], 1 if threads == 1 else 256
        wp.launch(
            take_out_inner_sides, threads, inputs, outputs, device=self._device, block_dim=block, record_tape=False
        )


_VECTORS = [(name, np.float32, 3) for name in ("up", "lower", "upper")]
SEAM = np.dtype([("shape", np.int32), ("beside", np.int32), ("height", np.float32), *_VECTORS])
"""A box, one beside it, the plane of a face that they have in common, and the bounds of what is near both, in the frame
of their body."""


def find_seams(model: newton.Model, pairs: np.ndarray | None) -> np.ndarray:
    """The seams between boxes of a model, an array of `SEAM` that is sorted by shape.

    Args:
        model: Whose shapes, where they are now.
        pairs: The pairs that may meet, shape [pair_count, 2]; None if a broad phase discovers them, and then there are
            no seams: a box covers another one only for bodies that can touch both.
    """
    if pairs is None or len(pairs) == 0:
        return np.empty(0, SEAM)
    near = _near_boxes(model, np.unique(pairs))
    near = near[_shares_partners(near, pairs, model.shape_count)]
    boxes = [_boxes(model, shapes) for shapes in near.T]
    bounds = [_bounds(*box) for box in boxes]
    lower = np.maximum(bounds[0][0], bounds[1][0]) - 2.0 * LEVEL
    upper = np.minimum(bounds[0][1], bounds[1][1]) + 2.0 * LEVEL
    found = [np.empty(0, SEAM)]
    for first, second in itertools.product(range(6), range(6)) if len(near) else ():
        up, height = _face(*boxes[0], first)
        its_up, its_height = _face(*boxes[1], second)
        level = (np.einsum("ij,ij->i", up, its_up) > _PARALLEL) & (np.abs(height - its_height) <= LEVEL)
        some = np.empty(int(level.sum()), SEAM)
        some["shape"], some["beside"] = near[level].T
        some["up"], some["height"] = up[level], np.maximum(height, its_height)[level]
        some["lower"], some["upper"] = lower[level], upper[level]
        found.append(some)
    seams = np.concatenate(found)
    return seams[np.argsort(seams["shape"], kind="stable")]


def _boxes(model: newton.Model, shapes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Axes of some boxes as columns, centres and half edges, in the frames of their bodies."""
    place = model.shape_transform.numpy()[shapes].astype(float)
    x, y, z, w = place[:, 3:].T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.array(rows).transpose(2, 0, 1), place[:, :3], model.shape_scale.numpy()[shapes].astype(float)


def _bounds(axes: np.ndarray, center: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ones of boxes along the axes of the body."""
    reach = np.einsum("nij,nj->ni", np.abs(axes), half)
    return center - reach, center + reach


def _face(axes: np.ndarray, center: np.ndarray, half: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Outward normals of face ``k``, first those along the axes, then those against them, and heights along them."""
    up = axes[:, :, k % 3] * (1.0 if k < 3 else -1.0)
    return up, np.einsum("ij,ij->i", up, center) + half[:, k % 3]


def _near_boxes(model: newton.Model, shapes: np.ndarray) -> np.ndarray:
    """Pairs of boxes of one body and world that touch or nearly so, by their bounds, in both orders: [count, 2].

    They are sorted by body, world and lower bound along x: partners of a box follow it until one begins beyond its end.
    """
    body, world = model.shape_body.numpy(), model.shape_world.numpy()
    shapes = shapes[model.shape_type.numpy()[shapes] == int(newton.GeoType.BOX)]
    _, owner, count = np.unique(np.column_stack([body, world])[shapes], axis=0, return_inverse=True, return_counts=True)
    shapes = shapes[count[owner.ravel()] > 1]
    lower, upper = _bounds(*_boxes(model, shapes))
    lower -= LEVEL
    order = np.lexsort((lower[:, 0], world[shapes], body[shapes]))
    shapes, lower, upper = shapes[order], lower[order], upper[order]
    found, first, step = [np.empty((0, 2), dtype=int)], np.arange(len(shapes)), 1
    while len(first):
        first = first[first + step < len(shapes)]
        second = first + step
        follows = (body[shapes[first]] == body[shapes[second]]) & (world[shapes[first]] == world[shapes[second]])
        follows &= lower[second, 0] <= upper[first, 0]
        first, second, step = first[follows], second[follows], step + 1
        meet = ((lower[second] <= upper[first]) & (lower[first] <= upper[second])).all(axis=1)
        found.append(np.column_stack([shapes[first], shapes[second]])[meet])
    both = np.concatenate(found)
    return np.concatenate([both, both[:, ::-1]])


def _shares_partners(near: np.ndarray, pairs: np.ndarray, shape_count: int) -> np.ndarray:
    """Whether the second of each pair may meet all that the first may meet, shape [count]."""
    both = np.concatenate([pairs, pairs[:, ::-1]]).astype(np.int64)
    both = both[np.isin(both[:, 0], near)]
    codes = np.unique(both[:, 0] * shape_count + both[:, 1])
    owner, partner = codes // shape_count, codes % shape_count
    start, end = np.searchsorted(owner, near[:, 0]), np.searchsorted(owner, near[:, 0], side="right")
    asked = np.repeat(np.arange(len(near)), end - start)
    entry = np.arange(len(asked)) - np.repeat(np.cumsum(end - start) - end, end - start)
    misses = ~np.isin(near[asked, 1] * shape_count + partner[entry], codes)
    return np.bincount(asked[misses], minlength=len(near)) == 0
