"""Values of ``--vary PATH=VALUES``: numbers between two bounds, or a list.

0.1:1.0:10        ten numbers from 0.1 to 1.0, both included
1e-4:1e-1:4:log   the same with equal factors between them
0.1:1.0           somewhere in between, 0.1:1.0:log with the logarithm equally likely; for samples
0.1,0.2,0.5       these; words and switches as well: approx32,drake
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import SweepError

Value = bool | int | float | str
_LOG = "log"
_MANY = 64
_MOST = 10_000_000
"""Most values of one range."""


@dataclass(frozen=True)
class Variation:
    """One parameter and the values that it takes."""

    path: str
    """Path of the parameter; see `targets`."""
    values: tuple[Value, ...] = ()
    """Values of a list, or the numbers of a range with a count."""
    low: float = 0.0
    """Lower bound of a range without a count."""
    high: float = 0.0
    """Upper bound."""
    log: bool = False
    """Whether the logarithm is equally likely."""

    @property
    def is_range(self) -> bool:
        """True if there are bounds in place of values."""
        return not self.values

    @property
    def extremes(self) -> tuple[Value, ...]:
        """Return values to try before all others: each word, or the smallest and largest number."""
        if self.is_range:
            return (self.low, self.high)
        numbers = [value for value in self.values if type(value) in (int, float)]
        if len(self.values) > _MANY and len(numbers) == len(self.values):
            return (min(numbers), max(numbers))
        return self.values

    def at(self, share: float) -> Value:
        """Return the value at a share between 0 and 1 of the range."""
        if not self.is_range:
            return self.values[min(int(share * len(self.values)), len(self.values) - 1)]
        if self.log:
            return float(math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low))))
        return float(self.low + share * (self.high - self.low))


def parse_variation(text: str) -> Variation:
    """Read ``PATH=VALUES``.

    Raises:
        SweepError: It is written in another way.
    """
    path, sign, values = text.partition("=")
    if not sign or not path.strip() or not values.strip():
        raise SweepError(f"{text!r} is not PATH=VALUES, for example materials.ground.mu=0.1:1.0:10.")
    return make_variation(path.strip(), values.strip())


def make_variation(path: str, values: str | Iterable[Any] | Value) -> Variation:
    """Make a parameter from values as text, or from a sequence of them.

    Raises:
        SweepError: The values cannot be read.
    """
    if isinstance(values, str) and ":" in values:
        return _read_range(path, values)
    if isinstance(values, str):
        found = [_read_value(path, part.strip()) for part in values.split(",")]
    elif isinstance(values, Iterable):
        found = [_plain(path, value) for value in values]
    else:
        found = [_plain(path, values)]
    if not found:
        raise SweepError(f"{path} has no values.")
    return Variation(path, tuple(found))


def _read_range(path: str, text: str) -> Variation:
    low, *parts = (part.strip() for part in text.split(":"))
    log = len(parts) > 1 and parts[-1] == _LOG
    parts = parts[:-1] if log else parts
    try:
        count = None if len(parts) == 1 else int(parts[1])
        bounds = (float(low), float(parts[0]))
    except (ValueError, IndexError):
        parts = []
    if not 1 <= len(parts) <= 2:
        raise SweepError(f"{path}={text} is no range; one is FROM:TO:COUNT or, for samples, FROM:TO; :log at its end.")
    if not all(map(math.isfinite, bounds)) or (log and min(bounds) <= 0.0):
        raise SweepError(f"{path}={text} needs {'positive' if log else 'finite'} bounds.")
    if count is None:
        if not bounds[0] < bounds[1]:
            raise SweepError(f"{path}={text}: the first bound has to be the smaller one.")
        return Variation(path, (), *bounds, log)
    if not 1 <= count <= _MOST:
        raise SweepError(f"{path}={text}: the count is a whole number from 1 to {_MOST}.")
    values = np.geomspace(*bounds, count) if log else np.linspace(*bounds, count)
    whole = _is_whole(low) and _is_whole(parts[0]) and bool((values == np.rint(values)).all())
    return Variation(path, tuple(int(value) if whole else float(value) for value in values))


def _is_whole(text: str) -> bool:
    return text.lstrip("+-").isdigit()


def _read_value(path: str, text: str) -> Value:
    """Read a number, a switch or a word."""
    if not text:
        raise SweepError(f"{path}: there is an empty value in the list.")
    if _is_whole(text):
        return int(text)
    if text in ("true", "false"):
        return text == "true"
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        raise SweepError(f"{path}: {text} is no finite number.")
    return number


def _plain(path: str, value: Any) -> Value:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise SweepError(f"{path}: {value} is no finite number.")
    if type(value) not in (bool, int, float, str):
        raise SweepError(f"{path}: {value!r} is no number, switch or word.")
    return value
