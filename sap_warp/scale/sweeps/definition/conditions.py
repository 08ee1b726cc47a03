"""Conditions on signals: ``body_q:cube.z < 0.05 and contacts >= 4``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import SweepError

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_PART = re.compile(r"^\s*(?P<signal>\S+?)\s*(?P<sign><=|>=|==|!=|<|>)\s*(?P<number>\S+)\s*$")


class Comparison(NamedTuple):
    """Comparison of a signal with a number."""

    signal: str
    sign: str
    number: float


@dataclass(frozen=True)
class Condition:
    """Comparisons that all have to hold."""

    parts: tuple[Comparison, ...]

    @property
    def signals(self) -> list[str]:
        """Return the names of the signals."""
        return [part.signal for part in self.parts]

    def holds(self, samples: dict[str, np.ndarray]) -> np.ndarray:
        """Return where the condition holds; ``samples`` has arrays of one shape, by name of the signal."""
        found = [_OPERATORS[part.sign](samples[part.signal], part.number) for part in self.parts]
        return np.logical_and.reduce(found)


def parse_condition(text: str) -> Condition:
    """Read a condition.

    Raises:
        SweepError: It is written in another way.
    """
    parts = []
    for piece in re.split(r"\s+and\s+", text.strip()):
        match = _PART.match(piece)
        try:
            number = float(match["number"]) if match else np.nan
        except ValueError:
            number = np.nan
        if match is None or not np.isfinite(number):
            raise SweepError(f"{piece!r} is no condition; one is SIGNAL < NUMBER, several joined by 'and'.")
        parts.append(Comparison(match["signal"], match["sign"], number))
    return Condition(tuple(parts))
