"""Advice about a finished model: what a person would question before a run. NumPy only, nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import newton

from ...core.notes import Note
from .joints import advise_drives, advise_modes, advise_positions
from .overlaps import advise_overlaps
from .sizes import advise_sizes
from .weights import advise_weights

_Check = Callable[[newton.Model, Mapping[str, Any]], list[Note]]
_OF_JOINTS: tuple[_Check, ...] = (advise_positions, advise_drives, advise_modes)
_OF_SHAPES: tuple[_Check, ...] = (advise_overlaps, advise_sizes, advise_weights)


def advise(model: newton.Model, solver_options: Mapping[str, Any] | None = None) -> list[Note]:
    """Return notes about a finished model.

    Args:
        model: As it will be simulated.
        solver_options: Keyword arguments of `SolverSAP`.
    """
    if not model.joint_count:
        return []
    checks = (*_OF_JOINTS, *(_OF_SHAPES if model.shape_count else ()))
    return [note for check in checks for note in check(model, solver_options or {})]


__all__ = ["advise"]
