# mypy: disable-error-code="valid-type"
"""Support points of convex hulls by direction: lists of the vertices that can be the lowest ones.

The directions of space are sorted into cells, squares on the faces of a cube. For each cell there is a list of the
vertices that lie in the band above the lowest one (`ground.BAND`) along some direction of the cell. Searching the list
gives what searching all vertices gives, to the last bit: it is a superset of what is searched for, in the same order.
Prepared once, with NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import newton
import numpy as np
import warp as wp

from ....core.kernels.structs import assume_contiguous
from ....model.shapes import CONVEX_MESH
from .ground import BAND, Vertices, vertices_of

SIDE = wp.constant(8)
"""Cells along the side of a face of the cube; each is at most 14 degrees wide."""
CELLS = wp.constant(6 * int(SIDE) * int(SIDE))
SMALL_HULL = 24
"""Hulls of up to this many vertices need no lists."""
_SLACK = 1.01
"""Height of the band in the lists, relative to that in passes, which compute the size of a hull in another way."""


@wp.struct
class Supports:
    """The lists of all hulls. Fields are written for `assume_contiguous`."""

    of_shape: wp.array(dtype=wp.int32)  # index of the hull; -1: none
    source: wp.array(dtype=wp.uint64)  # by hull: the mesh that it was made of; a shape with another one has no lists
    scale: wp.array(dtype=wp.vec3f)  # by hull
    cell_start: wp.array(dtype=wp.int32)  # by hull and cell: first of its entries in `vertex`; one entry more
    vertex: wp.array(dtype=wp.int32)  # in increasing order


assume_contiguous_supports = assume_contiguous(Supports)


@wp.func
def cell_index(slope: float) -> int:
    """Index of a cell along a side of the cube, from a coordinate between -1 and 1."""
    step = (slope + 1.0) * (0.5 * float(SIDE))
    return wp.where(step >= 1.0, int(wp.where(step < float(SIDE), step, float(SIDE) - 0.5)), 0)


@wp.func
def cell_of(direction: wp.vec3f) -> int:
    """The cell of a direction of any length but zero."""
    x = wp.abs(direction[0])
    y = wp.abs(direction[1])
    z = wp.abs(direction[2])
    axis = wp.where(x >= y and x >= z, 0, wp.where(y >= z, 1, 2))
    ahead = direction[axis]
    u = cell_index(direction[(axis + 1) % 3] / wp.abs(ahead))
    v = cell_index(direction[(axis + 2) % 3] / wp.abs(ahead))
    return ((2 * axis + wp.where(ahead < 0.0, 1, 0)) * SIDE + u) * SIDE + v


@wp.func
def low_vertices(supports: wp.ref[Supports], shape: int, mesh: wp.uint64, scale: wp.vec3f, up: wp.vec3f) -> Vertices:
    """The vertices of a hull that may lie in the band above the lowest one.

    Args:
        supports: The lists.
        shape: The shape with the hull.
        mesh: Its mesh.
        scale: Its scale.
        up: The direction that heights are measured along, in the frame of the hull.
    """
    vertices = vertices_of(mesh)
    hull = supports.of_shape[shape]
    if hull >= 0:
        if supports.source[hull] == mesh and wp.length_sq(supports.scale[hull] - scale) == 0.0:
            cell = hull * CELLS + cell_of(up)
            vertices.index = supports.vertex
            vertices.listed = 1
            vertices.first = supports.cell_start[cell]
            vertices.end = supports.cell_start[cell + 1]
    return vertices


def make_supports(model: newton.Model, shapes: Iterable[int] | np.ndarray) -> Any:
    """The `Supports` of the convex meshes among ``shapes``."""
    kinds, sources = model.shape_type.numpy(), model.shape_source_ptr.numpy()
    scales = model.shape_scale.numpy().reshape(-1, 3)
    of_shape = np.full(model.shape_count, -1)
    known: dict[tuple[float, ...], int] = {}
    lists: list[list[np.ndarray]] = []
    for shape in np.unique(np.asarray(shapes, dtype=np.int64)):
        if kinds[shape] != CONVEX_MESH:
            continue
        points = np.asarray(model.shape_source[shape].vertices, np.float64) * scales[shape]
        if len(points) <= SMALL_HULL:
            continue
        key = int(sources[shape]), *scales[shape].tolist()
        if key not in known:
            known[key] = len(lists)
            lists.append(lowest_by_cell(points))
        of_shape[shape] = known[key]
    counts = [len(cell) for cells in lists for cell in cells]
    vertex = [cell for cells in lists for cell in cells]
    table: Any = Supports()
    arrays: dict[str, tuple[Any, Any]] = {
        "of_shape": (of_shape, wp.int32),
        "source": (np.array([key[0] for key in known], dtype=np.uint64), wp.uint64),
        "scale": (np.array([key[1:] for key in known]).reshape(-1, 3), wp.vec3f),
        "cell_start": (np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]), wp.int32),
        "vertex": (np.concatenate(vertex) if vertex else np.zeros(0), wp.int32),
    }
    for name, (values, dtype) in arrays.items():
        setattr(table, name, wp.array(values, dtype=dtype, device=model.device))
    return table


def lowest_by_cell(points: np.ndarray) -> list[np.ndarray]:
    """For each cell, the vertices in the band above the lowest one for some direction in it, in increasing order.

    A direction of the cell is a sum of its four corners, taken as unit vectors, with factors that are not negative and
    sum to at least one. So a vertex that is more than a band above another one along all four corners is so along every
    direction of the cell, and is left out. That other one is the lowest vertex along a corner or the middle.
    """
    band = _SLACK * float(BAND) * 0.5 * float(np.linalg.norm(np.ptp(points, axis=0)))
    corners, middles = _grid(np.arange(int(SIDE) + 1)), _grid(np.arange(int(SIDE)) + 0.5)
    lists: list[np.ndarray] = []
    for face in range(6):
        heights, lowest = corners[face] @ points.T, (middles[face] @ points.T).argmin(axis=2)
        ends = [heights[i : i + SIDE, k : k + SIDE] for i in (0, 1) for k in (0, 1)]
        left_out = np.zeros(ends[0].shape, dtype=bool)
        for other in [lowest, *(end.argmin(axis=2) for end in ends)]:
            above = [end - np.take_along_axis(end, other[..., None], axis=2) for end in ends]
            left_out |= np.minimum.reduce(above) > band
        lists += [np.flatnonzero(~left_out[u, v]) for u in range(SIDE) for v in range(SIDE)]
    return lists


def _grid(steps: np.ndarray) -> np.ndarray:
    """Unit directions at steps of a grid on each face of the cube, shape [6, n, n, 3]; see `cell_of`."""
    slope = 2.0 * steps / int(SIDE) - 1.0
    u, v = np.meshgrid(slope, slope, indexing="ij")
    found = np.zeros((6, *u.shape, 3))
    for face in range(6):
        axis = face // 2
        found[face, ..., axis] = 1.0 - 2.0 * (face % 2)
        found[face, ..., (axis + 1) % 3], found[face, ..., (axis + 2) % 3] = u, v
    return found / np.linalg.norm(found, axis=-1, keepdims=True)
