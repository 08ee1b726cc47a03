"""Keyword arguments of `SolverSAP` in `simulation.solver`, checked before anything is built."""

from __future__ import annotations

import difflib
from dataclasses import fields
from typing import Any

from .text.bounds import FRICTION, RELAXATION, STIFFNESS
from .text.errors import Complaint, Gathered, below
from .text.values import read_number, show

PRESET = "contact_preset_variant"
PASSED_ON = ("strict_capacity", "block_dim")
"""Arguments of `SolverSAP` that are not numerical options."""
MAX_BLOCK_DIM = 1024
"""Most lanes that can share a world."""

_QUANTITIES = {"contact_tau_d": RELAXATION, "fallback_stiffness": STIFFNESS, "fallback_mu": FRICTION}


def read_solver_options(value: Any) -> dict[str, Any]:
    """Read options for `SolverSAP`; numbers may be expressions."""
    from ..solver.settings.options import OPTION_NAMES, SapOptions, expand_options

    if not isinstance(value, dict):
        raise Complaint(f"found {show(value)}; expected a mapping")
    kinds = {field.name: str(field.type) for field in fields(SapOptions)}
    known = [PRESET, *OPTION_NAMES, *PASSED_ON]
    options: dict[str, Any] = {}
    complaints = Gathered()
    for name, given in value.items():
        with complaints.part():
            if name not in known:
                near = difflib.get_close_matches(str(name), known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"valid options are {', '.join(known)}"
                raise Complaint(f"unknown solver option; {hint}", (name,))
            options[name] = _read_option(name, given, kinds.get(name, ""))
            if name in PASSED_ON:
                continue
            try:
                expand_options(options[name]) if name == PRESET else expand_options(**{name: options[name]})
            except (ValueError, TypeError) as error:
                raise Complaint(str(error), (name,)) from None
    complaints.raise_all()
    return options


def _read_option(name: str, value: Any, kind: str) -> Any:
    if name == "strict_capacity" and not isinstance(value, bool):
        raise Complaint(f"found {show(value)}; expected true or false", (name,))
    if name == "block_dim":
        with below(name):
            lanes = read_number(value)
        if lanes not in range(1, MAX_BLOCK_DIM + 1):
            raise Complaint(f"found {show(value)}; expected a whole number from 1 to {MAX_BLOCK_DIM}", (name,))
        return int(lanes)
    if kind.startswith(("float", "int")) and isinstance(value, str):
        with below(name):
            number = read_number(value)
        value = int(number) if kind.startswith("int") and number == int(number) else number
    if name in _QUANTITIES and isinstance(value, (int, float)):
        with below(name):
            _QUANTITIES[name].check(value)
    return value


def solver_options_schema() -> dict[str, Any]:
    """Return the JSON schema of the options."""
    from ..solver.settings.options import _CHOICES, _PRESET_ALIASES, PRESETS, SapOptions

    properties: dict[str, Any] = {PRESET: {"enum": [*PRESETS, *_PRESET_ALIASES]}}
    properties["strict_capacity"] = {"type": "boolean"}
    properties["block_dim"] = {"type": "integer", "minimum": 1, "maximum": MAX_BLOCK_DIM}
    kinds: dict[str, dict[str, Any]] = {
        "float": {"type": ["number", "string"]},
        "int": {"type": "integer"},
        "bool": {"type": "boolean"},
    }
    for field in fields(SapOptions):
        kind = str(field.type).split()[0]
        entry: dict[str, Any] = dict(kinds.get(kind, {"type": "string"}))
        if field.name in _CHOICES:
            entry = {"enum": list(_CHOICES[field.name])}
        elif field.name.endswith("_precision"):
            entry = {"type": "string", "description": "fp32 or fp64"}
        properties[field.name] = entry
    return {"type": "object", "properties": properties, "additionalProperties": False}
