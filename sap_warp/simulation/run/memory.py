"""Memory of a simulation's arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import warp as wp

_OURS = ("sap_warp", "newton", "warp")


def count_bytes(roots: Iterable[Any]) -> int:
    """Count the bytes of all Warp arrays that can be reached from ``roots``; shared memory counts once."""
    ranges = sorted((a.ptr, a.ptr + a.capacity) for a in _find_arrays(roots) if getattr(a, "ptr", None) and a.capacity)
    total, end = 0, 0
    for first, last in ranges:
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total


def _find_arrays(roots: Iterable[Any]) -> list[wp.array]:
    found, seen, waiting = [], set(), list(roots)
    while waiting:
        item = waiting.pop()
        if id(item) in seen or item is None:
            continue
        seen.add(id(item))
        if isinstance(item, wp.array):
            found.append(item)
            waiting.append(getattr(item, "_ref", None))  # what a slice was cut from, with what lies beyond it
        elif isinstance(item, Mapping):
            waiting.extend(item.values())
        elif isinstance(item, (list, tuple)):
            if not item or not isinstance(item[0], (str, int, float)):
                waiting.extend(item)
        elif _is_data(item):
            waiting.extend(vars(item).values())
    return found


def _is_data(item: Any) -> bool:
    """Return True for objects that may hold arrays, False for classes, functions, kernels and modules."""
    if isinstance(item, (type, wp.Kernel, wp.Module, wp.Function)) or not hasattr(item, "__dict__"):
        return False
    return type(item).__module__.split(".")[0] in _OURS and not isinstance(item, type(wp.get_device("cpu")))
