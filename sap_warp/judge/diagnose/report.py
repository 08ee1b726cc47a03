"""Report of a diagnosis: findings, worst first, and the numbers of the run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.json_values import as_json

SEVERITIES = ("problem", "warning", "info")
"""Severities: the result is wrong or not what was meant; it probably is; the finding is good to know."""
_WORLDS_SHOWN, _OTHERS_SHOWN = 8, 4
_PREFIXES = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))
_SCALED = ("m", "s", "m/s")


@dataclass(frozen=True)
class Number:
    """A measured or predicted quantity."""

    name: str
    value: float
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.name} {show(self.value, self.unit)}"


@dataclass(frozen=True)
class Finding:
    """One thing that was found, what causes it, what to change and what that would do."""

    kind: str
    """Stable name, for example ``"slip"`` or ``"drive-saturated"``; see docs/diagnose.md."""
    severity: str
    """One of `SEVERITIES`."""
    where: str
    """Bodies, joints or "the solve", by label; the worst of several."""
    cause: str
    """Stable name of the cause, for example ``"body-inertia-weight"``."""
    what: str
    """What happens and why, in a sentence."""
    measure: Number
    """The number that should become smaller."""
    change: str
    """What to change."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Change for programs: names of options or model values and what to set; empty where only a person can."""
    predicted: float | None = None
    """Value of `measure` after the change, in its unit; None where it is unknown."""
    numbers: tuple[Number, ...] = ()
    """Further numbers, measured or predicted."""
    others: tuple[str, ...] = ()
    """Other bodies or joints with the same finding and the same remedy."""
    worlds: tuple[int, ...] = ()
    """Worlds in which it was found; the numbers are those of the worst."""
    score: float = 1.0
    """Ratio to the threshold, for the order among findings of equal severity."""

    @property
    def title(self) -> str:
        """Return the finding in one line."""
        more = f" and {len(self.others)} more" if self.others else ""
        return f"{self.severity}: {self.kind} at {self.where}{more}: {self.measure} ({self.cause})"

    @property
    def effect(self) -> str:
        """Return the predicted effect as text; empty without a prediction."""
        if self.predicted is None:
            return ""
        return f"{self.measure.name} from {show(self.measure.value, self.measure.unit)} to about " + show(
            self.predicted, self.measure.unit
        )

    def lines(self) -> list[str]:
        """Return the finding as text, indented below its title."""
        rows = [("what", self.what), ("change", self.change), ("expect", self.effect)]
        rows.append(("numbers", "; ".join(map(str, self.numbers))))
        rows.append(("also at", _some(self.others, _OTHERS_SHOWN)))
        if len(self.worlds) > 1 or (self.worlds and self.worlds[0] > 0):
            rows.append(("worlds", _some(self.worlds, _WORLDS_SHOWN)))
        return [self.title, *(f"    {name:<8} {text}" for name, text in rows if text)]

    def as_dict(self) -> dict[str, Any]:
        """Return all fields and the predicted effect, for JSON."""
        return as_json(self) | {"title": self.title, "effect": self.effect}


@dataclass(frozen=True)
class Table:
    """Numbers of the run: one row for each pair, joint or world, worst first."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Report:
    """A diagnosis of some seconds of a simulation."""

    scene: str
    seconds: float
    """Simulated time [s]."""
    dt: float
    """Time step [s]."""
    every: int
    """Steps from one sample to the next."""
    worlds: int
    """Worlds that were simulated."""
    detailed_worlds: tuple[int, ...]
    """Worlds whose contacts, joints and bodies were looked at; the outcome of steps was looked at in all."""
    findings: tuple[Finding, ...]
    """Findings, worst first."""
    tables: tuple[Table, ...]
    """Pairs in contact, drives, and the run as a whole."""

    @property
    def ok(self) -> bool:
        """True if there is nothing but information."""
        return not any(finding.severity != "info" for finding in self.findings)

    def of(self, kind: str) -> list[Finding]:
        """Return the findings of one kind, worst first."""
        return [finding for finding in self.findings if finding.kind == kind]

    def lines(self) -> list[str]:
        """Return findings and tables as plain text."""
        sampled = "every step" if self.every == 1 else f"every {self.every} steps"
        shown = self.worlds if len(self.detailed_worlds) == self.worlds else len(self.detailed_worlds)
        head = f"{self.scene or 'simulation'}: {self.seconds:g} s in steps of {1e3 * self.dt:g} ms, {sampled} sampled, "
        head += f"{self.worlds} world{'s' * (self.worlds > 1)}"
        lines = [head + (f", {shown} of them in detail" if shown != self.worlds else "")]
        if not self.findings:
            lines.append("nothing found")
        for finding in self.findings:
            lines += ["", *finding.lines()]
        for table in self.tables:
            cells = [table.header, *table.rows] if any(table.header) else list(table.rows)
            widths = [max(len(row[i]) for row in cells) for i in range(len(table.header))]
            lines += ["", table.title]
            for row in cells:
                text = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
                lines.append("  " + text.rstrip())
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def as_dict(self) -> dict[str, Any]:
        """Return everything in SI units, for JSON."""
        return {
            "scene": self.scene,
            "ok": self.ok,
            "seconds": self.seconds,
            "dt": self.dt,
            "every": self.every,
            "worlds": self.worlds,
            "detailed_worlds": list(self.detailed_worlds),
            "findings": [finding.as_dict() for finding in self.findings],
            "tables": as_json(self.tables),
        }


def worst_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Sort problems before warnings before information, each by their score."""
    return tuple(sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), -f.score)))


def show(value: float, unit: str = "") -> str:
    """Format a quantity with three digits; lengths, times and speeds get a readable prefix."""
    if unit == "%":
        return f"{value:.3g} %"
    if unit in _SCALED and math.isfinite(value):
        for factor, prefix in _PREFIXES:
            if abs(value) >= 0.9995 * factor:
                return f"{value / factor:.3g} {prefix}{unit}"
        return f"0 {unit}" if abs(value) < 1e-12 else f"{value:.3g} {unit}"
    text = f"{value:.0f}" if abs(value) >= 1000.0 and math.isfinite(value) and abs(value) < 1e7 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def _some(items: Sequence[Any], most: int) -> str:
    """List the first few names, and how many more there are."""
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(map(str, items[:most])) + more
