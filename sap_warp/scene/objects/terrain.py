"""Rough ground: height fields of slopes, steps, stairs and rubble, made from a few numbers and a seed.

A field is a grid of heights [m], rows along y and columns along x, around a flat place in the middle on which a robot
can start.
"""

from __future__ import annotations

from typing import Any, Literal

import newton
import numpy as np

Kind = Literal["slope", "steps", "stairs", "rubble", "waves"]


def make_heights(
    kind: Kind,
    *,
    size: float = 10.0,
    resolution: float = 0.1,
    height: float = 0.1,
    width: float = 0.5,
    flat: float = 0.6,
    seed: int = 0,
) -> np.ndarray:
    """Return the heights of a square field.

    Args:
        kind: ``slope`` is a pyramid that rises by ``height`` over each ``width``, ``stairs`` the same in steps,
            ``steps`` are squares of random height, ``rubble`` is smooth random ground, ``waves`` are sines.
        size: Length of a side [m].
        resolution: Distance of grid points [m].
        height: Of a step, or from the lowest to the highest point of ``steps``, ``rubble`` and ``waves`` [m].
        width: Of a step or square, or the length of a wave [m].
        flat: Radius of the flat place in the middle [m].
        seed: Of the random numbers.

    Returns:
        Shape (n, n) with n = size / resolution + 1; 0 in the middle.

    Raises:
        ValueError: A number is not positive, or the grid is too fine or too coarse.
    """
    for name, value in (("size", size), ("resolution", resolution), ("height", height), ("width", width)):
        if not (np.isfinite(value) and value > 0.0):
            raise ValueError(f"{name} is {value!r}; it must be a positive number.")
    count = round(size / resolution) + 1
    if not 2 <= count <= 2049:
        raise ValueError(f"size / resolution is {size / resolution:g}; a field has 1 to 2048 cells along a side.")
    x = np.linspace(-0.5 * size, 0.5 * size, count)
    X, Y = np.meshgrid(x, x)
    away = np.maximum(np.maximum(np.abs(X), np.abs(Y)) - flat, 0.0)
    rng = np.random.default_rng(seed)
    if kind == "slope":
        return away * (height / width)
    if kind == "stairs":
        return np.ceil(away / width - 1e-9) * height
    if kind == "steps":
        cells = int(np.ceil(size / width)) + 2
        tops = rng.uniform(-0.5, 0.5, (cells, cells)) * height
        i, j = (np.floor((A + 0.5 * size) / width + 1e-9).astype(int) for A in (Y, X))
        return np.where(away > 0.0, tops[i, j], 0.0)
    if kind == "rubble":
        return _smooth_noise(rng, X, Y, width) * height * np.minimum(away / width, 1.0)
    if kind == "waves":
        return 0.25 * height * (np.sin(2 * np.pi * X / width) + np.sin(2 * np.pi * Y / width)) * np.minimum(away, 1.0)
    raise ValueError(f"kind is {kind!r}; it is one of slope, steps, stairs, rubble, waves.")


def _smooth_noise(rng: np.random.Generator, X: np.ndarray, Y: np.ndarray, width: float) -> np.ndarray:
    """Return random values between -0.5 and 0.5 on a coarse grid, interpolated smoothly between its points."""
    u, v = (X - X.min()) / width, (Y - Y.min()) / width
    i, j = np.floor(u).astype(int), np.floor(v).astype(int)
    values = rng.uniform(-0.5, 0.5, (j.max() + 2, i.max() + 2))
    s, t = (w * w * (3.0 - 2.0 * w) for w in (u - i, v - j))
    top = values[j, i] * (1 - s) + values[j, i + 1] * s
    return top * (1 - t) + (values[j + 1, i] * (1 - s) + values[j + 1, i + 1] * s) * t


def add_terrain(builder: newton.ModelBuilder, heights: np.ndarray, size: float, **shape: Any) -> int:
    """Add a field of heights to a builder, around the origin of the world.

    Args:
        builder: What to add it to; it is shared by all worlds.
        heights: From `make_heights`, or any grid of heights [m], rows along y.
        size: Length of the side along x [m]; the other follows from the shape of the grid.
        **shape: Arguments of `newton.ModelBuilder.add_shape_heightfield`, for example ``cfg`` and ``label``.

    Returns:
        Index of the shape.
    """
    rows, columns = heights.shape
    field = newton.Heightfield(
        heights.astype(np.float32), rows, columns, hx=0.5 * size, hy=0.5 * size * (rows - 1) / (columns - 1)
    )
    return int(builder.add_shape_heightfield(heightfield=field, **shape))
