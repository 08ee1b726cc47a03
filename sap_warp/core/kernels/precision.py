"""Names of the two floating-point precisions, and what single precision can hold; needs neither Warp nor NumPy."""

from __future__ import annotations

from typing import Any

MIN_TIME_STEP, MAX_TIME_STEP = 1e-9, 100.0
"""Bounds of a time step [s]; beyond them single precision cannot hold what is divided or multiplied by it."""
_ALIASES = {"fp32": "fp32", "f32": "fp32", "fp64": "fp64", "f64": "fp64"}


def normalize_precision(value: Any, option: str) -> str:
    """Return ``"fp32"`` or ``"fp64"``.

    Raises:
        ValueError: ``value`` is neither of them nor one of the aliases f32 and f64.
    """
    if not isinstance(value, str) or value not in _ALIASES:
        raise ValueError(f"{option} is {value!r}; valid choices are {', '.join(sorted(_ALIASES))}.")
    return _ALIASES[value]
