"""Colours of shapes without colours of their own, and of floors."""

from __future__ import annotations

from functools import cache
from typing import Any

import newton
import numpy as np
import warp as wp

from ...model.shapes import shape_type
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
"""Colours (sRGB) of bodies whose shapes have none, one after another."""
STILL = (0.62, 0.63, 0.65)
"""Colour (sRGB) of shapes without a body that have none."""
FLOOR = (0.80, 0.81, 0.83)
"""Colour (sRGB) of a ground plane that has none."""
AS_GIVEN, AS_FLOOR, RECOLORED = 0.0, 1.0, 2.0
"""Modes of drawing a shape, the last entry of its look."""


@cache
def _newton_colors() -> np.ndarray:
    """Return the colours that Newton gives to shapes without one; the last is the ground plane's."""
    builder = newton.ModelBuilder()
    body = builder.add_body()
    for _ in range(32):
        builder.add_shape_sphere(body, radius=1.0)
    builder.add_ground_plane()
    return np.array(builder.shape_color, float)


def shape_looks(model: Any) -> np.ndarray:
    """Return how shapes are drawn: linear colour, then `AS_GIVEN`, `AS_FLOOR` or `RECOLORED`; shape [shapes, 4]."""
    given, body = model.shape_color.numpy(), model.shape_body.numpy()
    known = _newton_colors()
    chosen = ~(np.abs(given[:, None] - known).max(axis=2) < 1e-4).any(axis=1)
    first = model.body_world_start.numpy() if model.body_world_start is not None else np.zeros(1, int)
    world = model.body_world.numpy() if model.body_count else np.zeros(0, int)
    looks = np.zeros((len(given), 4), np.float32)
    up = _normals_up(model)
    for shape in range(len(given)):
        if shape_type(model.shape_type.numpy()[shape]).is_plane and up[shape]:
            looks[shape] = (*srgb_to_linear(given[shape] if chosen[shape] else FLOOR), AS_FLOOR)
        elif not chosen[shape]:
            b = int(body[shape])
            color = STILL if b < 0 else PALETTE[(b - int(first[max(int(world[b]), 0)])) % len(PALETTE)]
            looks[shape] = (*srgb_to_linear(color), RECOLORED)
    return looks


def _normals_up(model: Any) -> np.ndarray:
    """Return True for shapes without a body whose z axis points up."""
    x, y = model.shape_transform.numpy()[:, 3:5].T
    return (model.shape_body.numpy() < 0) & (1.0 - 2.0 * (x * x + y * y) > 0.99)


def as_array(looks: np.ndarray, device: Any) -> wp.array:
    """Return the looks as an array on the device."""
    return wp.array(looks, dtype=wp.vec4f, device=device)
