"""Values of results with the types of JSON; imports nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def as_json(value: Any) -> Any:
    """Return dataclasses and mappings as dicts, sequences as lists, and None for NaN and infinity."""
    if is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [as_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
