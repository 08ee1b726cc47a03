"""Tells the user when contacts were dropped, on the host and never in the middle of a step."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..contacts import ContactCapacityError, name_worlds

_SHOWN = 8


class CapacityCheck:
    """Reads the counters of the last step; warns once, or raises each time if strict."""

    def __init__(self, contact_jacobian: Any, max_rigid_contact: int, strict: bool):
        """Watch the counters of ``contact_jacobian``."""
        self._rows, self._limit, self._strict = contact_jacobian, max_rigid_contact, strict
        self._warned = False

    def check(self) -> int:
        """Contacts dropped in the last step, over all worlds."""
        dropped = self._rows.truncated_count.numpy()
        overflow = self._rows.overflow_count()
        total = int(dropped.sum()) + overflow
        if total and (self._strict or not self._warned):
            message = self._message(dropped, overflow)
            if self._strict:
                raise ContactCapacityError(message)
            self._warned = True
            warnings.warn(message, stacklevel=3)
        return total

    def _message(self, dropped: np.ndarray, overflow: int) -> str:
        parts = []
        worlds = np.flatnonzero(dropped)
        if len(worlds):
            shown = ", ".join(map(str, worlds[:_SHOWN])) + (", ..." if len(worlds) > _SHOWN else "")
            needed = self._limit + int(dropped.max())
            parts.append(
                f"{int(dropped.sum())} contacts were dropped in {len(worlds)} worlds ({shown}); "
                f"set max_rigid_contact to {needed} or more (it is {self._limit})"
            )
        if overflow:
            names = name_worlds(self._rows.overflow_by_world())
            where = f" and dropped them in {names}" if names else ""
            parts.append(
                f"the collision pipeline found {overflow} contacts more than its buffer holds{where}; "
                f"set its rigid_contact_max to {self._rows.buffer_need()} or more"
            )
        return "; ".join(parts) + "."
