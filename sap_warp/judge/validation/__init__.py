"""Evidence that the solver is right: Drake, closed forms, structure, grasps, convergence, precision.

`load_cases` imports the families of cases; ``sap-warp validate`` and the tests run them. Drake and MuJoCo come with the
extra ``validate`` and are imported only inside the functions that use them.
"""

from __future__ import annotations

import importlib

from .result import REGISTRY, Case, Outcome, Row

FAMILIES = ("drake_cases", "closed_forms", "structure", "qualities", "grasp", "shake", "convergence", "presets")
"""Modules of `cases` that register cases, in the order of the report."""


def load_cases() -> list[Case]:
    """Import all families and return their cases."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.cases.{family}")
    return list(REGISTRY.values())


__all__ = ["FAMILIES", "Case", "Outcome", "Row", "load_cases"]
