"""Points of a sweep: every combination of values, or samples, each with every seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ..errors import SweepError
from .values import Value, Variation

SAMPLINGS = ("lhs", "random")
"""Methods: Latin hypercube (each of N equal slices of each parameter has one sample), or independent samples."""
MOST_POINTS = 10_000_000


@dataclass(frozen=True)
class Point:
    """One row of the dataset, before it is run."""

    number: int
    """Index in the sweep."""
    values: tuple[Value, ...]
    """Values of the parameters, in their order."""
    seed: int | None = None
    """Seed of its random start; None starts as the scene does."""


def make_points(
    variations: Sequence[Variation],
    samples: int | None = None,
    sampling: str = "lhs",
    seeds: Sequence[int] | None = None,
    seed: int = 0,
) -> list[Point]:
    """Return all points; the last parameter changes fastest, and seeds faster still.

    Args:
        variations: The parameters.
        samples: How many points to draw; None for every combination.
        sampling: One of SAMPLINGS.
        seeds: Of random starts, each with every point; None for none.
        seed: Of the drawing.

    Raises:
        SweepError: A range says not how many, or there are too many points.
    """
    if samples is None:
        open_ranges = [v.path for v in variations if v.is_range]
        if open_ranges:
            raise SweepError(
                f"{open_ranges[0]} is a range without a count: give FROM:TO:COUNT, or draw with samples (--samples N)."
            )
        count = int(np.prod([len(v.values) for v in variations], dtype=object))
    else:
        count = samples
    total = count * len(seeds or [None])
    if not 1 <= total <= MOST_POINTS:
        raise SweepError(f"These are {total} points; a sweep has 1 to {MOST_POINTS}.")
    if samples is None:
        chosen = list(product(*(v.values for v in variations)))
    else:
        shares = _draw(samples, len(variations), sampling, seed)
        chosen = [tuple(v.at(share) for v, share in zip(variations, row, strict=True)) for row in shares.tolist()]
    starts: Sequence[int | None] = [None] if seeds is None else list(seeds)
    pairs = ((values, start) for values in chosen for start in starts)
    return [Point(number, values, start) for number, (values, start) in enumerate(pairs)]


def _draw(samples: int, parameters: int, sampling: str, seed: int) -> np.ndarray:
    """Draw numbers in [0, 1), shape (samples, parameters)."""
    if sampling not in SAMPLINGS:
        raise SweepError(f"sampling is {sampling!r}; it must be one of {', '.join(SAMPLINGS)}.")
    rng = np.random.default_rng(seed)
    shares = rng.random((samples, parameters))
    if sampling == "lhs":
        slices = np.stack([rng.permutation(samples) for _ in range(parameters)], axis=1) if parameters else shares
        shares = (slices + shares) / samples
    return shares
