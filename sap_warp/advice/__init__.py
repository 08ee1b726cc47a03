"""Advice about a finished model: what a person would ask about before a run. NumPy only, nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import newton

from ..notes import Note
from .joints import advise_drives

_CHECKS: tuple[Callable[[newton.Model, Mapping[str, Any]], list[Note]], ...] = (advise_drives,)


def advise(model: newton.Model, solver_options: Mapping[str, Any] | None = None) -> list[Note]:
    """Notes about a finished model.

    Args:
        model: As it will be simulated.
        solver_options: Keyword arguments of `SolverSAP`.
    """
    return [note for check in _CHECKS for note in check(model, solver_options or {})]


__all__ = ["advise"]
