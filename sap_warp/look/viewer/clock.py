"""Clock of a page: how many steps belong to the next frame, and when it is due."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

CATCH_UP = 0.1
"""Delay after which a simulation gives up on catching up [s]."""


class Clock:
    """Paces a simulation to a multiple of real time, or lets it run as fast as it goes."""

    def __init__(self, fps: float, speed: float, steps_per_frame: int | None, now: Callable[[], float] | None = None):
        """Begin before the first frame.

        Args:
            fps: Frames per second.
            speed: Simulated seconds per second; may be infinite.
            steps_per_frame: Steps of every frame; None to follow ``speed``.
            now: Time [s]; None is the computer's.
        """
        self.period = 1.0 / fps
        self.speed, self.steps_per_frame = speed, steps_per_frame
        self.now: Callable[[], float] = time.perf_counter if now is None else now
        self._step_cost = 0.0
        self._owed = 0.0
        self.due = self.now()
        """When the next frame is due."""

    def restart(self) -> None:
        """Drop the delay after a pause, or when the speed has changed."""
        self._owed, self.due = 0.0, self.now()

    def steps(self, dt: float) -> int:
        """Return the number of steps of ``dt`` [s] that belong to the frame that begins now."""
        if self.steps_per_frame is not None:
            return self.steps_per_frame
        if math.isinf(self.speed):  # as many as fit into a frame, more and more until they do
            return max(1, min(int(0.8 * self.period / self._step_cost), 10_000)) if self._step_cost else 1
        self._owed += self.speed * self.period / dt
        count = int(self._owed + 1e-9)
        self._owed -= count
        return count

    def took(self, steps: int, elapsed: float) -> None:
        """Record that ``steps`` steps took ``elapsed`` seconds."""
        if steps > 0:
            cost = elapsed / steps
            self._step_cost = cost if self._step_cost == 0.0 else 0.8 * self._step_cost + 0.2 * cost

    def wait_time(self) -> float:
        """Return the time until the next frame is due [s]; a simulation that is too slow drops its delay."""
        self.due += self.period
        left = self.due - self.now()
        if left < -CATCH_UP:
            self.due = self.now()
        return max(0.0, left)
