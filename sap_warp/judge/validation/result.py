"""Result of a validation case: rows of measured numbers beside the bounds that they have to keep."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """One number that was measured, and the bound it must not exceed."""

    what: str
    """What is compared with what."""
    measured: float
    """Usually a distance from the expected value, in ``unit``."""
    bound: float
    """Largest value of ``measured`` that passes."""
    why: str
    """Where the bound comes from."""
    unit: str = ""
    informative: bool = False
    """Whether the row is for the reader and cannot fail."""

    @property
    def passed(self) -> bool:
        """Return True if the number keeps its bound; NaN never does."""
        return self.informative or (math.isfinite(self.measured) and self.measured <= self.bound)


@dataclass
class Outcome:
    """All results of a case."""

    rows: list[Row] = field(default_factory=list)
    tables: dict[str, tuple[list[str], list[list[str]]]] = field(default_factory=dict)
    """Title to header and lines, for the report."""
    curves: dict[str, Any] = field(default_factory=dict)
    """Data of the case's plots, read by the plot function of the family."""

    def check(self, what: str, measured: Any, bound: float, why: str, unit: str = "") -> None:
        """Add a number that must not exceed ``bound``."""
        self.rows.append(Row(what, float(measured), float(bound), why, unit))

    def note(self, what: str, measured: Any, why: str, unit: str = "") -> None:
        """Add a number without a bound."""
        self.rows.append(Row(what, float(measured), math.inf, why, unit, informative=True))

    @property
    def passed(self) -> bool:
        """Return True if there is a row that can fail, and none does."""
        return any(not row.informative for row in self.rows) and all(row.passed for row in self.rows)


@dataclass(frozen=True)
class Case:
    """A named experiment."""

    name: str
    """``family/experiment``."""
    summary: str
    """One sentence."""
    function: Callable[[bool], Outcome]
    slow: bool
    """Whether the short form takes more than about 2 s once the kernels are compiled."""

    @property
    def family(self) -> str:
        """Return the part of the name before the slash."""
        return self.name.split("/")[0]

    def run(self, quick: bool = False) -> Outcome:
        """Run the case; ``quick`` takes the short form where there is one."""
        return self.function(quick)


REGISTRY: dict[str, Case] = {}
"""All cases by name, in the order in which their families were imported."""


def case(name: str, summary: str, slow: bool = False) -> Callable[[Callable[[bool], Outcome]], Case]:
    """Register the decorated function ``f(quick) -> Outcome`` as a case."""

    def register(function: Callable[[bool], Outcome]) -> Case:
        if name in REGISTRY:
            raise ValueError(f"There are two cases called {name!r}.")
        REGISTRY[name] = made = Case(name, summary, function, slow)
        return made

    return register
