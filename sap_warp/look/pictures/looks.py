"""Colours of shapes that have none of their own, and of floors."""

from __future__ import annotations

from functools import cache
from typing import Any

import newton
import numpy as np
import warp as wp

from .shade import srgb_to_linear

PALETTE = (
    (0.36, 0.56, 0.78),
    (0.90, 0.58, 0.31),
    (0.45, 0.68, 0.50),
    (0.79, 0.42, 0.43),
    (0.58, 0.51, 0.75),
    (0.86, 0.76, 0.42),
    (0.40, 0.68, 0.72),
    (0.72, 0.53, 0.45),
)
"""sRGB colours of bodies whose shapes were given none, one after another."""
STILL = (0.62, 0.63, 0.65)
"""sRGB colour of shapes of no body that were given none."""
FLOOR = (0.80, 0.81, 0.83)
"""sRGB colour of a ground plane that was given none."""
AS_GIVEN, AS_FLOOR, RECOLORED = 0.0, 1.0, 2.0
"""How a shape is drawn: last entry of its look."""


@cache
def _newton_colors() -> np.ndarray:
    """Colours that Newton gives to shapes without one, and to the ground plane, which is the last of them."""
    builder = newton.ModelBuilder()
    body = builder.add_body()
    for _ in range(32):
        builder.add_shape_sphere(body, radius=1.0)
    builder.add_ground_plane()
    return np.array(builder.shape_color, float)


def shape_looks(model: Any) -> np.ndarray:
    """How shapes are drawn: linear colours, then `AS_GIVEN`, `AS_FLOOR` or `RECOLORED`; shape [shapes, 4]."""
    given, body = model.shape_color.numpy(), model.shape_body.numpy()
    known = _newton_colors()
    chosen = ~(np.abs(given[:, None] - known).max(axis=2) < 1e-4).any(axis=1)
    first = model.body_world_start.numpy() if model.body_world_start is not None else np.zeros(1, int)
    world = model.body_world.numpy() if model.body_count else np.zeros(0, int)
    looks = np.zeros((len(given), 4), np.float32)
    up = _normals_up(model)
    for shape in range(len(given)):
        is_plane = int(model.shape_type.numpy()[shape]) == int(newton.GeoType.PLANE)
        if is_plane and up[shape]:
            looks[shape] = (*srgb_to_linear(given[shape] if chosen[shape] else FLOOR), AS_FLOOR)
        elif not chosen[shape]:
            b = int(body[shape])
            color = STILL if b < 0 else PALETTE[(b - int(first[max(int(world[b]), 0)])) % len(PALETTE)]
            looks[shape] = (*srgb_to_linear(color), RECOLORED)
    return looks


def _normals_up(model: Any) -> np.ndarray:
    """Whether the z axis of each shape without a body points up."""
    x, y = model.shape_transform.numpy()[:, 3:5].T
    return (model.shape_body.numpy() < 0) & (1.0 - 2.0 * (x * x + y * y) > 0.99)


def as_array(looks: np.ndarray, device: Any) -> wp.array:
    """On the device."""
    return wp.array(looks, dtype=wp.vec4f, device=device)
