"""Events at which a run of steps stops: callbacks, and new samples of a control sequence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ...model.model import SapControl, check_count, check_time_step

if TYPE_CHECKING:
    from ..core import SimulationCore

_TIME_SLACK = 1.0e-6
"""Fraction of a step or sample by which rounding may miss the beginning of a sample."""


class ControlSequence(Protocol):
    """Inputs that change with time and are held in between, such as a recorded motion."""

    dt: float
    """Time for which a sample is held [s]."""

    def write(self, control: SapControl, time: float) -> None:
        """Set the inputs of all worlds for the steps that start at ``time`` [s]."""


@dataclass(eq=False)
class _Callback:
    function: Callable[[Any], Any]
    every: int


class Schedule:
    """Callbacks and control sequence of a simulation."""

    def __init__(self, sequence: ControlSequence | None):
        """Begin without callbacks.

        Raises:
            TypeError: ``sequence`` has no ``dt`` or no ``write``.
            ValueError: Its ``dt`` is not positive and finite.
        """
        if sequence is not None:
            if not callable(getattr(sequence, "write", None)) or not hasattr(sequence, "dt"):
                raise TypeError(
                    f"control_sequence is a {type(sequence).__name__}; it must have dt, a time [s], and "
                    "write(control, time)."
                )
            check_time_step(sequence.dt, "control_sequence.dt")
        self._sequence = self._given = sequence
        self._callbacks: list[_Callback] = []
        self._sample_written: int | None = None
        self.active = sequence is not None
        """Whether there is anything to stop for."""

    def add(self, function: Callable[[Any], Any], every: int) -> Callable[[], None]:
        """Implement `Simulation.add_callback`."""
        if not callable(function):
            raise TypeError(f"function is {function!r}; a callback is called with the simulation after a step.")
        callback = _Callback(function, check_count("every", every, 1))
        self._callbacks.append(callback)
        self.active = True

        def remove() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
            self.active = bool(self._callbacks) or self._sequence is not None

        return remove

    @property
    def has_sequence(self) -> bool:
        """True if there is a control sequence, followed or not."""
        return self._given is not None

    def follow(self, on: bool) -> None:
        """Let the control sequence write the inputs, or leave them to the user."""
        self._sequence = self._given if on else None
        self._sample_written = None
        self.active = bool(self._callbacks) or self._sequence is not None

    def restart(self) -> None:
        """Write the sequence again, because the clock was set back."""
        self._sample_written = None

    def position(self) -> dict[str, Any] | None:
        """Return how long the sequence holds a sample [s] and which one was written last, for checkpoints."""
        if self._sequence is None:
            return None
        return {"dt": float(self._sequence.dt), "sample": self._sample_written}

    def move_to(self, position: dict[str, Any] | None) -> None:
        """Continue from the `position` of another sequence."""
        self._sample_written = None if position is None else position["sample"]

    def begin(self, sim: SimulationCore, most: int) -> int:
        """Write the inputs of the sequence when a new sample begins; in between the user may change them.

        Returns:
            How many steps can be taken before the next stop, at most ``most``.
        """
        counts = [most, *(callback.every - sim.step_count % callback.every for callback in self._callbacks)]
        if self._sequence is not None:
            held = check_time_step(self._sequence.dt, "control_sequence.dt")
            index = math.floor(sim.time / held + _TIME_SLACK)
            if index != self._sample_written:
                self._sequence.write(sim.control, sim.time)
                self._sample_written = index
            counts.append(max(1, math.ceil(((index + 1) * held - sim.time) / sim.dt - _TIME_SLACK)))
        return min(counts)

    def call(self, sim: SimulationCore) -> None:
        """Run the callbacks that are due at this step; they may remove or add others, or reset the clock."""
        for callback in [each for each in self._callbacks if sim.step_count % each.every == 0]:
            if callback in self._callbacks:
                callback.function(sim)
