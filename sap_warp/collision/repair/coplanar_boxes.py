# mypy: disable-error-code="valid-type"
"""Ghost contacts with sides of boxes that an adjacent box covers.

The tops of a floor of tiles, of two tables pushed together or of belts in a row are one plane, but collision detection
treats the boxes one by one. A body that slides over a seam lies a little below the tops, or glides a little above them,
and touches the side or the edge of the next box ahead, where it would stop. That side is not exposed: the adjacent box
covers it. A contact is a ghost, and invalidated, if

- its point lies in an adjacent box of the same body that has a face coplanar with one of this box, near that plane,
- its normal points neither out of the plane nor into it, and
- the cover extends to both sides of the point as far as this box does.

A step stays a step, also where a wall goes down into a floor.
"""

from __future__ import annotations

import itertools
from typing import Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.launch import kernel
from ...core.kernels.structs import StructArgument, assume_contiguous
from ...core.kernels.template import Variant
from ...core.kernels.types import Poses
from ...model.shapes import BOX
from ..buffers.rows import ContactRows, RowArguments, assume_contiguous_rows, invalidate_contact
from .normals import in_body_frame

LEVEL = 1.0e-4
"""How far coplanar faces, and adjacent boxes, may be apart [m]."""
_PARALLEL = 1.0 - 1.0e-6
"""Cosine of the largest angle between coplanar faces, 1.4 mrad."""
_SLACK = wp.constant(2.0 * LEVEL)
"""How far outside a box a point still belongs to it [m]."""
_DEEP = wp.constant(0.02)
"""How far below the common plane, and how far to its sides, contacts are examined [m]."""
_AHEAD = wp.constant(1.0e-3)
"""How far ahead of a contact the covering box must reach [m]."""
_UP, _DOWN = wp.constant(0.99985), wp.constant(-0.259)
"""Cosines to the plane's normal above and below which contact normals are accepted: 1 and 105 degrees."""
_THREADS = 16384
"""Threads that share the contacts on CUDA."""


@wp.struct
class CoplanarBoxes:
    """Boxes with adjacent coplanar ones. Fields are written for `assume_contiguous`."""

    first: wp.array(dtype=wp.int32)  # by shape: where its neighbours begin; one more entry than shapes
    beside: wp.array(dtype=wp.int32)  # the neighbour
    up: wp.array(dtype=wp.vec3f)  # normal of their common plane, in the frame of the body
    height: wp.array(dtype=wp.float32)  # of that plane along its normal [m]
    lower: wp.array(dtype=wp.vec3f)  # AABB of the points in or near both boxes, in the frame of the body [m]
    upper: wp.array(dtype=wp.vec3f)
    body: wp.array(dtype=wp.int32)  # of the shapes
    pose: wp.array(dtype=wp.transformf)  # of the shapes, in the frame of the body
    half: wp.array(dtype=wp.vec3f)  # half edges [m]


assume_contiguous_boxes = assume_contiguous(CoplanarBoxes)


@wp.func
def is_inside(boxes: wp.ref[CoplanarBoxes], shape: int, point: wp.vec3f, slack: float) -> bool:
    """Return True if a point of the body lies in a box."""
    x = wp.transform_point(wp.transform_inverse(boxes.pose[shape]), point)
    half = boxes.half[shape]
    return wp.abs(x[0]) <= half[0] + slack and wp.abs(x[1]) <= half[1] + slack and wp.abs(x[2]) <= half[2] + slack


@wp.func
def exit_distance(boxes: wp.ref[CoplanarBoxes], shape: int, point: wp.vec3f, along: wp.vec3f) -> float:
    """Return the distance from a point to the surface of a box in a direction [m].

    It is `_DEEP` at most, and 0 for a point outside.
    """
    pose = wp.transform_inverse(boxes.pose[shape])
    x = wp.transform_point(pose, point)
    d = wp.transform_vector(pose, along)
    half = boxes.half[shape]
    distance = _DEEP
    for k in range(3):
        if d[k] != 0.0:
            distance = wp.min(distance, (half[k] - wp.sign(d[k]) * x[k]) / wp.abs(d[k]))
    return wp.max(distance, 0.0)


@wp.func
def is_covered(boxes: wp.ref[CoplanarBoxes], shape: int, up: wp.vec3f, point: wp.vec3f) -> bool:
    """Return True if a point lies in a box adjacent to a shape whose common plane has the normal ``up``."""
    i = boxes.first[shape]
    while i < boxes.first[shape + 1]:
        if wp.dot(boxes.up[i], up) > _UP:
            if is_inside(boxes, boxes.beside[i], point, _SLACK):
                return True
        i += 1
    return False


@wp.func
def is_covered_side(boxes: wp.ref[CoplanarBoxes], i: int, shape: int, point: wp.vec3f, along: wp.vec3f) -> bool:
    """Return True if neighbour i covers the side of a shape at ``point`` with the outward normal ``along``.

    Both are in the frame of the body.
    """
    up = boxes.up[i]
    rise = wp.dot(along, up)
    below = boxes.height[i] - wp.dot(up, point)
    if rise > _UP or rise < _DOWN or below > _DEEP or below < -_SLACK:
        return False
    ahead = _AHEAD * wp.normalize(along - rise * up)
    if not is_inside(boxes, boxes.beside[i], point, _SLACK) or not is_inside(
        boxes, boxes.beside[i], point + ahead, _SLACK
    ):
        return False
    aside = wp.cross(up, wp.normalize(ahead))
    left = point + exit_distance(boxes, shape, point - ahead, aside) * aside
    right = point - exit_distance(boxes, shape, point - ahead, -aside) * aside
    return is_covered(boxes, shape, up, left + ahead) and is_covered(boxes, shape, up, right + ahead)


@wp.func
def is_ghost_side(
    boxes: wp.ref[CoplanarBoxes],
    body_q: Poses,
    shape: int,
    point: wp.vec3f,
    rows: wp.ref[ContactRows],
    i: int,
    sign: float,
) -> bool:
    """Return True if a neighbour covers one of both shapes of contact i where it touches.

    ``sign`` times the normal of the contact points away from the shape.
    """
    k = boxes.first[shape]
    end = boxes.first[shape + 1]
    while k < end:
        # hardly any contact is near both boxes
        if wp.min(point, boxes.upper[k]) == point and wp.max(point, boxes.lower[k]) == point:
            if is_covered_side(boxes, k, shape, point, in_body_frame(sign * rows.normal[i], boxes.body[shape], body_q)):
                return True
        k += 1
    return False


@kernel
def invalidate_ghost_contacts(
    boxes_in: wp.array[CoplanarBoxes], body_q: Poses, capacity: int, threads: int, rows_in: wp.array[ContactRows]
) -> None:
    """Examine all contacts of a buffer, spread over threads."""
    boxes = boxes_in[0]
    rows = rows_in[0]
    assume_contiguous_boxes(boxes)
    assume_contiguous_rows(rows)
    end = wp.min(rows.counters[0], capacity)
    i = int(wp.tid())
    while i < end:
        shape0 = rows.shape0[i]
        shape1 = rows.shape1[i]
        if shape0 >= 0 and shape1 >= 0:
            is_ghost = bool(False)
            if boxes.first[shape0] != boxes.first[shape0 + 1]:
                is_ghost = is_ghost_side(boxes, body_q, shape0, rows.point0[i], rows, i, 1.0)
            if not is_ghost and boxes.first[shape1] != boxes.first[shape1 + 1]:
                is_ghost = is_ghost_side(boxes, body_q, shape1, rows.point1[i], rows, i, -1.0)
            if is_ghost:
                invalidate_contact(rows, i)
        i += threads


class GhostContactFilter:
    """Invalidates ghost contacts in buffers. Nothing is allocated after the constructor."""

    def __init__(self, model: newton.Model, coplanar: np.ndarray):
        """Store the result of `find_coplanar_boxes`."""
        device = model.device
        table: Any = CoplanarBoxes()
        counts = np.bincount(coplanar["shape"], minlength=model.shape_count)
        table.first = wp.array(np.concatenate([[0], np.cumsum(counts)]), dtype=wp.int32, device=device)
        table.beside = wp.array(coplanar["beside"], dtype=wp.int32, device=device)
        table.up = wp.array(coplanar["up"], dtype=wp.vec3f, device=device)
        table.height = wp.array(coplanar["height"], dtype=wp.float32, device=device)
        table.lower = wp.array(coplanar["lower"], dtype=wp.vec3f, device=device)
        table.upper = wp.array(coplanar["upper"], dtype=wp.vec3f, device=device)
        table.body, table.pose, table.half = model.shape_body, model.shape_transform, model.shape_scale
        self._boxes, self._rows, self._device = StructArgument(table, device), RowArguments(device), device

    def run(self, body_q: wp.array, buffer: newton.Contacts) -> None:
        """Invalidate the ghost contacts of a pass at ``body_q``."""
        capacity = buffer.rigid_contact_max
        threads = 1 if self._device.is_cpu else min(capacity, _THREADS)
        inputs = [self._boxes.array, body_q, capacity, threads]
        outputs, block = [self._rows.of(buffer)], 1 if threads == 1 else 256
        ghosts, device = invalidate_ghost_contacts.of(Variant()), self._device
        wp.launch(ghosts, threads, inputs, outputs, device=device, block_dim=block, record_tape=False)


_VECTORS = [(name, np.float32, 3) for name in ("up", "lower", "upper")]
COPLANAR = np.dtype([("shape", np.int32), ("beside", np.int32), ("height", np.float32), *_VECTORS])
"""A box, an adjacent one, the plane of their coplanar faces, and the AABB of the points near both, in the frame of
their body."""


def find_coplanar_boxes(model: newton.Model, pairs: np.ndarray | None) -> np.ndarray:
    """Find adjacent boxes with coplanar faces; return an array of `COPLANAR` that is sorted by shape.

    Args:
        model: The model with the shapes where they are now.
        pairs: The pairs that may touch, shape [pair_count, 2]; None if a broad phase discovers them. Then none are
            found: a box covers another one only for bodies that can touch both.
    """
    if pairs is None or len(pairs) == 0:
        return np.empty(0, COPLANAR)
    near = _near_boxes(model, np.unique(pairs))
    near = near[_shares_partners(near, pairs, model.shape_count)]
    boxes = [_boxes(model, shapes) for shapes in near.T]
    bounds = [_bounds(*box) for box in boxes]
    lower = np.maximum(bounds[0][0], bounds[1][0]) - 2.0 * LEVEL
    upper = np.minimum(bounds[0][1], bounds[1][1]) + 2.0 * LEVEL
    found = [np.empty(0, COPLANAR)]
    for first, second in itertools.product(range(6), range(6)) if len(near) else ():
        up, height = _face(*boxes[0], first)
        its_up, its_height = _face(*boxes[1], second)
        level = (np.einsum("ij,ij->i", up, its_up) > _PARALLEL) & (np.abs(height - its_height) <= LEVEL)
        some = np.empty(int(level.sum()), COPLANAR)
        some["shape"], some["beside"] = near[level].T
        some["up"], some["height"] = up[level], np.maximum(height, its_height)[level]
        some["lower"], some["upper"] = lower[level], upper[level]
        found.append(some)
    coplanar = np.concatenate(found)
    return coplanar[np.argsort(coplanar["shape"], kind="stable")]


def _boxes(model: newton.Model, shapes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the axes of some boxes as columns, centres and half edges, in the frames of their bodies."""
    pose = model.shape_transform.numpy()[shapes].astype(float)
    x, y, z, w = pose[:, 3:].T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.array(rows).transpose(2, 0, 1), pose[:, :3], model.shape_scale.numpy()[shapes].astype(float)


def _bounds(axes: np.ndarray, center: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper bounds of boxes along the axes of the body."""
    reach = np.einsum("nij,nj->ni", np.abs(axes), half)
    return center - reach, center + reach


def _face(axes: np.ndarray, center: np.ndarray, half: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return outward normals of face ``k`` and its heights along them; from 3 on they point against the axes."""
    up = axes[:, :, k % 3] * (1.0 if k < 3 else -1.0)
    return up, np.einsum("ij,ij->i", up, center) + half[:, k % 3]


def _near_boxes(model: newton.Model, shapes: np.ndarray) -> np.ndarray:
    """Find pairs of boxes of one body and world whose bounds touch or nearly so, in both orders: [count, 2].

    They are sorted by body, world and lower bound along x: partners of a box follow it until one begins beyond its end.
    """
    body, world = model.shape_body.numpy(), model.shape_world.numpy()
    shapes = shapes[model.shape_type.numpy()[shapes] == BOX]
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
        touch = ((lower[second] <= upper[first]) & (lower[first] <= upper[second])).all(axis=1)
        found.append(np.column_stack([shapes[first], shapes[second]])[touch])
    both = np.concatenate(found)
    return np.concatenate([both, both[:, ::-1]])


def _shares_partners(near: np.ndarray, pairs: np.ndarray, shape_count: int) -> np.ndarray:
    """Return a mask of the pairs whose second shape may touch all that the first may touch, shape [count]."""
    both = np.concatenate([pairs, pairs[:, ::-1]]).astype(np.int64)
    both = both[np.isin(both[:, 0], near)]
    codes = np.unique(both[:, 0] * shape_count + both[:, 1])
    owner, partner = codes // shape_count, codes % shape_count
    start, end = np.searchsorted(owner, near[:, 0]), np.searchsorted(owner, near[:, 0], side="right")
    asked = np.repeat(np.arange(len(near)), end - start)
    entry = np.arange(len(asked)) - np.repeat(np.cumsum(end - start) - end, end - start)
    misses = ~np.isin(near[asked, 1] * shape_count + partner[entry], codes)
    return np.bincount(asked[misses], minlength=len(near)) == 0
