"""What a call costs, counted instead of timed."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any


def count_calls(function: Callable[[], Any]) -> int:
    """Python and C functions that are called by ``function()``."""
    count = 0

    def see(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def peak_bytes(function: Callable[[], Any]) -> int:
    """Most memory that Python and NumPy take at a time during ``function()`` [bytes]."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
