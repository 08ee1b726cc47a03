# mypy: disable-error-code="valid-type"
"""Pairs of shapes, sorted by the bodies that they belong to.

Whole bodies are compared first. Around each body stands a cube that contains its shapes however the body turns, and
only where two cubes overlap are the shapes looked at one by one. Shapes that belong to no body stand alone. A box along
the axes of the world around a shape, as Newton compares them, lies in the cube, so no pair is lost here.
"""

from typing import Any

import newton
import numpy as np
import warp as wp

from ..kernels.structs import make_flat


@wp.struct
class Groups:
    """Groups of shapes that move together, their pairs and the pairs of shapes in these.

    Written as ``wp.array(dtype=...)``, which is what `make_flat` looks for.
    """

    body: wp.array(dtype=wp.int32)  # -1: the world
    center: wp.array(dtype=wp.vec3f)  # of the cube, in the frame of the body [m]
    shape_start: wp.array(dtype=wp.int32)  # of the group's shapes in `shape`; one entry more than groups
    shape: wp.array(dtype=wp.int32)
    cube: wp.array(dtype=wp.vec4f)  # centre in world frame and half the width [m], written by every pass
    partner_start: wp.array(dtype=wp.int32)  # of the groups that a group may meet, in `partner`
    partner: wp.array(dtype=wp.int32)
    pair_start: wp.array(dtype=wp.int32)  # of the pairs of shapes in two groups; one entry more than pairs of groups
    pair: wp.array(dtype=wp.vec2i)  # shapes, in the order of their kinds


flat_groups = make_flat(Groups)


def sort_pairs(model: newton.Model, pairs: np.ndarray) -> dict[str, wp.array]:
    """The arrays of `Groups` for ``pairs``."""
    kinds, bodies = model.shape_type.numpy(), model.shape_body.numpy()
    swapped = kinds[pairs[:, 0]] > kinds[pairs[:, 1]]
    pairs = np.where(swapped[:, None], pairs[:, ::-1], pairs)
    # groups are numbered by body; shapes without a body come first, each in a group of its own
    shapes = np.unique(pairs)
    key = np.where(bodies[shapes] < 0, shapes - len(bodies), bodies[shapes])
    groups, group_of = np.unique(key, return_inverse=True)
    group = np.zeros(len(bodies), dtype=np.int64)
    group[shapes] = group_of
    members = shapes[np.argsort(group_of, kind="stable")]
    ends = np.sort(group[pairs], axis=1)[:, ::-1]  # the later one first: it is never the world
    order = np.lexsort((np.arange(len(pairs)), ends[:, 1], ends[:, 0]))
    pairs, ends = pairs[order], ends[order]
    group_pairs, first = np.unique(ends, axis=0, return_index=True)
    count = len(groups)
    arrays: dict[str, tuple[Any, Any]] = {
        "body": (np.where(groups < 0, -1, groups), wp.int32),
        "center": (_centers(model, members, group[members], count), wp.vec3f),
        "shape_start": (np.searchsorted(group[members], np.arange(count + 1)), wp.int32),
        "shape": (members, wp.int32),
        "cube": (np.zeros((count, 4)), wp.vec4f),
        "partner_start": (np.searchsorted(group_pairs[:, 0], np.arange(count + 1)), wp.int32),
        "partner": (group_pairs[:, 1], wp.int32),
        "pair_start": (np.append(first, len(pairs)), wp.int32),
        "pair": (pairs, wp.vec2i),
    }
    return {name: wp.array(values, dtype=dtype, device=model.device) for name, (values, dtype) in arrays.items()}


def _centers(model: newton.Model, shapes: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    """The middle of the origins of each group's shapes. Any point would do; this one keeps cubes small."""
    places = model.shape_transform.numpy().reshape(-1, 7)[shapes, :3]
    low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
    np.minimum.at(low, group, places)
    np.maximum.at(high, group, places)
    return 0.5 * (low + high)
