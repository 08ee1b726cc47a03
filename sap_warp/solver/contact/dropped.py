"""Tells the user when contacts were dropped, on the host and never in the middle of a step."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.faq import see
from ...model.contacts import ContactCapacityError, name_worlds

if TYPE_CHECKING:
    from ..prepare.stage import SapContactStage


@dataclass
class Dropped:
    """Contacts that were dropped since the last report."""

    by_world: np.ndarray
    """Because a world was full, shape [world_count]."""
    most: np.ndarray
    """The most of them in one step, shape [world_count]."""
    in_buffer: int
    """Because the collision pipeline's buffer was full."""
    most_in_buffer: int
    """The most of them in one step."""

    @property
    def total(self) -> int:
        """Sum of both."""
        return int(self.by_world.sum()) + self.in_buffer


class DroppedContacts:
    """Reads what steps count; warns once, or raises each time if strict."""

    def __init__(self, contact_stage: SapContactStage, max_rigid_contact: int, strict: bool):
        """Watch the counters of ``contact_stage``."""
        self._stage, self._limit, self._strict = contact_stage, max_rigid_contact, strict
        self._warned = False

    @property
    def counters(self) -> list[Any]:
        """Arrays that steps add to."""
        return [self._stage.lost, self._stage.most_lost, self._stage.lost_in_buffer]

    def read(self) -> Dropped:
        """Return what was dropped since the last `clear`. Waits for the device."""
        by_world, most, (in_buffer, most_in_buffer) = (array.numpy().copy() for array in self.counters)
        return Dropped(by_world, most, int(in_buffer), int(most_in_buffer))

    def clear(self) -> None:
        """Forget what was dropped so far."""
        for array in self.counters:
            array.zero_()

    def check(self) -> int:
        """Return how many contacts the last step dropped, over all worlds; reports those of the steps before it too.

        Raises:
            ContactCapacityError: Contacts were dropped in the last step or since the last report, and it is strict.
        """
        last, in_buffer = self._stage.truncated_count.numpy(), self._stage.overflow_count()
        if self._strict or not self._warned:
            dropped = self.read()
            np.maximum(dropped.by_world, last, out=dropped.by_world)
            np.maximum(dropped.most, last, out=dropped.most)
            dropped.in_buffer = max(dropped.in_buffer, in_buffer)
            dropped.most_in_buffer = max(dropped.most_in_buffer, in_buffer)
            if dropped.total:
                self._report(self._message(dropped))
        return int(last.sum()) + in_buffer

    def _report(self, message: str) -> None:
        self._warned = True
        self.clear()
        if self._strict:
            raise ContactCapacityError(message + see("dropped-contacts"))
        warnings.warn(message + see("dropped-contacts"), stacklevel=4)

    def _message(self, dropped: Dropped) -> str:
        parts = []
        if dropped.by_world.any():
            worlds = name_worlds(np.append(dropped.by_world, 0))
            parts.append(
                f"{int(dropped.by_world.sum())} contacts were dropped in {worlds}; "
                f"set max_rigid_contact to {self._limit + int(dropped.most.max())} or more (it is {self._limit})"
            )
        if dropped.in_buffer:
            names = name_worlds(self._stage.overflow_by_world())
            where = f" and dropped them in {names}" if names else ""
            parts.append(
                f"the collision pipeline found {dropped.in_buffer} contacts more than its buffer holds{where}; "
                f"set its rigid_contact_max to {self._stage.buffer_size + dropped.most_in_buffer} or more"
            )
        return "; ".join(parts) + "."
