"""Explanation of a contact: numbers that follow from the pair's values, and their display."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...core.json_values import as_json
from ...solver.terms.near_rigid import near_rigid

FIELDS = ("ke", "tau", "mu", "margin", "gap", "group")
"""Values of a shape that have a source; the second part of the keys of ``provenance``."""

FROM_MODEL, FROM_MODEL_DEFAULT = "model", "model (equals Newton's default)"
_TITLES = {"ke": "stiffness ke", "tau": "dissipation tau", "mu": "friction mu", "group": "collision group"}


@dataclass(frozen=True)
class Value:
    """One value of a shape and its source."""

    value: float
    """Value that the solver uses, SI units."""
    stored: float
    """Value in the model; differs from `value` where it is unset."""
    source: str
    """``"solver default (...)"``, what the caller's provenance says, or ``"model"``: Newton keeps no record itself."""


@dataclass(frozen=True)
class ShapeExplanation:
    """One side of the pair."""

    index: int
    label: str
    kind: str
    """Geometry type in small letters."""
    world: int
    """World of the shape; -1 is seen by all worlds."""
    body: int
    """Body of the shape; -1 is fixed to the world."""
    body_label: str
    can_move: bool
    """Whether any joint dof moves the body."""
    flags: tuple[str, ...]
    ke: Value
    """Stiffness [N/m]."""
    tau: Value
    """Dissipation time [s]."""
    mu: Value
    """Friction coefficient [-]."""
    margin: Value
    """Offset of the contact surface [m]."""
    gap: Value
    """Width of the band in which contacts are reported [m]."""
    group: Value
    """Collision group: 0 never, positive its own group only, negative all but its own."""
    lever_arm: float | None
    """Distance from the body's centre of mass to the assumed contact point [m]; None if there is no such point."""
    weight: float
    """Share of this side in the contact weight [1/kg]."""


@dataclass(frozen=True)
class ContactExplanation:
    """Values of the pair and what follows from them; None where it takes a relative motion that is impossible."""

    origin: str | None
    """Name of the scene or file, if the caller gave one."""
    dt: float
    """Time step h [s]."""
    shape_a: ShapeExplanation
    shape_b: ShapeExplanation
    obstacles: tuple[str, ...]
    """Why the pair never collides; empty if it can."""
    k: float
    """Stiffness k_a k_b / (k_a + k_b) [N/m]."""
    tau: float
    """Dissipation time tau_a + tau_b [s]."""
    mu: float
    """Friction 2 mu_a mu_b / (mu_a + mu_b) [-]."""
    margin: float
    """Sum of both margins [m]."""
    gap: float
    """Sum of both gaps [m]."""
    beta: float
    sigma: float
    weight_mode: str
    """``contact_weight_mode`` that `weight` was estimated for."""
    weight: float | None
    """Contact weight w [1/kg]."""
    load_mass: float
    """Mass that rests on the pair [kg]."""
    load: str
    """Description of that mass."""
    gravity: float
    """Gravity along the contact normal [m/s^2]."""
    contacts: int
    """Contacts that share the load."""
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def can_collide(self) -> bool:
        """True if the collision pipeline ever tests this pair."""
        return not self.obstacles

    @property
    def compliant_R_n(self) -> float:
        """1/(h k (h + tau)): the regularization that makes the contact a spring of stiffness k [1/kg]."""
        return 1.0 / (self.dt * self.k * (self.dt + self.tau))

    @property
    def near_rigid_R_n(self) -> float | None:
        """beta^2/(4 pi^2) w: the least regularization, whatever the stiffness [1/kg]."""
        return None if self.weight is None else near_rigid(self.beta) * self.weight

    @property
    def R_n(self) -> float | None:
        """Regularization in force along the normal [1/kg]."""
        bound = self.near_rigid_R_n
        return None if bound is None else max(bound, self.compliant_R_n)

    @property
    def R_t(self) -> float | None:
        """Regularization in force along the surface [1/kg]."""
        return None if self.weight is None else self.sigma * self.weight

    @property
    def regime(self) -> str | None:
        """``"near-rigid"`` if dt limits the stiffness, ``"compliant"`` if the material's own acts."""
        bound = self.near_rigid_R_n
        return None if bound is None else "near-rigid" if bound > self.compliant_R_n else "compliant"

    @property
    def effective_stiffness(self) -> float | None:
        """1/(h R_n (h + tau)): at most k [N/m]."""
        return None if self.R_n is None else 1.0 / (self.dt * self.R_n * (self.dt + self.tau))

    @property
    def largest_compliant_k(self) -> float | None:
        """Pair stiffness up to which the compliance acts at this dt [N/m]; inf if beta is 0."""
        bound = self.near_rigid_R_n
        if bound is None:
            return None
        return 1.0 / (self.dt * bound * (self.dt + self.tau)) if bound > 0.0 else math.inf

    @property
    def largest_compliant_dt(self) -> float | None:
        """Time step up to which the compliance acts with this stiffness [s]; inf if beta is 0."""
        bound = self.near_rigid_R_n
        if bound is None:
            return None
        if bound == 0.0:
            return math.inf
        ratio = 1.0 / (self.k * bound)  # h (h + tau) at the boundary
        return 2.0 * ratio / (self.tau + math.sqrt(self.tau**2 + 4.0 * ratio))

    def resting_depth(self, contacts: int | None = None) -> float | None:
        """Return the penetration at rest under the load shared by ``contacts`` [m]."""
        if self.effective_stiffness is None:
            return None
        return self.load_mass * self.gravity / ((contacts or self.contacts) * self.effective_stiffness)

    def slip_speed(self, contacts: int | None = None, fraction: float = 0.5) -> float | None:
        """Return the creep R_t gamma_t of a sticking contact loaded to ``fraction`` of its friction cone [m/s]."""
        if self.R_t is None:
            return None
        normal_impulse = self.load_mass * self.gravity * self.dt / (contacts or self.contacts)
        return self.R_t * fraction * self.mu * normal_impulse

    def gliding_gap(self, speed: float = 1.0) -> float:
        """Height (h + tau) mu v_t at which the convex model carries an unloaded contact that slides [m]."""
        return (self.dt + self.tau) * self.mu * speed

    def recommended_gap(self, speed: float = 1.0) -> float:
        """Return the pair gap for a contact at ``speed``: it keeps sliding and is found a step ahead [m]."""
        return max(self.gliding_gap(speed), self.dt * speed)

    @property
    def gap_speed(self) -> float:
        """Sliding speed up to which the pair's gap holds the gliding gap [m/s]; inf without friction."""
        return self.gap / ((self.dt + self.tau) * self.mu) if self.mu > 0.0 else math.inf

    @property
    def time_constant(self) -> float:
        """Time h + tau: an overlap is pushed apart at the speed overlap/(h + tau) [s]."""
        return self.dt + self.tau

    @property
    def period(self) -> float | None:
        """Undamped period 2 pi / sqrt(k_eff w) of the load on one contact [s]."""
        if self.weight is None or self.effective_stiffness is None:
            return None
        return 2.0 * math.pi / math.sqrt(self.effective_stiffness * self.weight)

    @property
    def damping_ratio(self) -> float | None:
        """Share of critical damping, tau omega / 2 [-]."""
        return None if self.period is None else math.pi * self.tau / self.period

    def tables(self) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
        """Return title, header and rows of each part, as text."""
        origin = f"{self.origin}: " if self.origin else ""
        a, b = self.shape_a, self.shape_b
        first = f"{origin}A = shape {a.index} {a.label!r}, B = shape {b.index} {b.label!r}"
        second = f"Expected at dt = {_time(self.dt)}"
        return [(first, ("", "A", "from", "B", "from", "pair"), self._value_rows()), (second, ("", ""), self._rows())]

    def _value_rows(self) -> list[tuple[str, ...]]:
        a, b = self.shape_a, self.shape_b

        def fact(name: str, show: Callable[[ShapeExplanation], str], pair: str = "") -> tuple[str, ...]:
            return name, show(a), "", show(b), "", pair

        def value(name: str, show: Callable[[float], str], pair: str) -> tuple[str, ...]:
            held: list[Value] = [getattr(side, name) for side in (a, b)]
            cells = [cell for v in held for cell in (show(v.value), v.source.replace(FROM_MODEL_DEFAULT, "model *"))]
            return _TITLES.get(name, name), *cells, pair

        return [
            fact("geometry", lambda s: s.kind),
            fact("body", lambda s: s.body_label.rsplit("/", 1)[-1] if s.body >= 0 else "(world)"),
            fact("can move", lambda s: "yes" if s.can_move else "no"),
            fact("world", lambda s: str(s.world) if s.world >= 0 else "all"),
            fact("flags", lambda s: " ".join(s.flags).lower().replace("collide_", "") or "none"),
            value("group", lambda v: f"{v:.0f}", "collide" if self.can_collide else "never collide"),
            value("ke", _stiffness, f"{_stiffness(self.k)} (in series)"),
            value("tau", _time, f"{_time(self.tau)} (sum)"),
            value("mu", lambda v: f"{v:.4g}", f"{self.mu:.4g} (harmonic mean)"),
            value("margin", _length, f"{_length(self.margin)} (sum)"),
            value("gap", _length, f"{_length(self.gap)} (sum)"),
        ]

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        if self.can_collide:
            rows.append(("collides", "yes, whenever the distance less the margins is within the pair's gap"))
        rows += [("never collides", reason) for reason in self.obstacles]
        if self.weight is not None and self.effective_stiffness is not None:
            rows += self._contact_rows()
        rows += [
            ("time constant", f"{_time(self.time_constant)} (h + tau): an overlap separates at overlap/(h + tau)"),
            (
                "gliding gap",
                f"{_length(self.gliding_gap())} at 1 m/s, (h + tau) mu v_t; "
                + (
                    f"the pair's gap of {_length(self.gap)} holds up to {_speed(self.gap_speed)}"
                    if self.mu > 0.0
                    else "no friction, so none"
                ),
            ),
            (
                "recommended gap",
                f"{_length(self.recommended_gap())} for the pair, {_length(0.5 * self.recommended_gap())} per shape, "
                "for speeds up to 1 m/s",
            ),
        ]
        rows += [("assumed", text) for text in self.assumptions]
        rows += [("note", text) for text in self.notes]
        if any(
            getattr(side, name).source == FROM_MODEL_DEFAULT for side in (self.shape_a, self.shape_b) for name in FIELDS
        ):
            rows.append(("model *", "equals Newton's default; a model does not record whether it was set"))
        return rows

    def _contact_rows(self) -> list[tuple[str, ...]]:
        """Return the rows that need a moving body."""
        rigid, soft = self.near_rigid_R_n, self.compliant_R_n
        k, dt = self.largest_compliant_k, self.largest_compliant_dt
        assert rigid is not None and k is not None and dt is not None
        stiffness = _stiffness(self.effective_stiffness)
        if self.regime == "near-rigid":
            verdict = f"near-rigid: dt limits the stiffness to {stiffness}, k = {_stiffness(self.k)} does not act"
            needed = f"pair stiffness below {_stiffness(k)}, or dt below {_time(dt)}"
        else:
            verdict = f"compliant: the contact is a spring of {stiffness}"
            needed = f"it does: up to a pair stiffness of {_stiffness(k)}, or up to dt = {_time(dt)}"
        counts = list(dict.fromkeys((self.contacts, 1, 4)))
        shares = [f"on {n} contact{'s' if n > 1 else ''}" for n in counts]
        depths = [f"{_length(self.resting_depth(n))} {share}" for n, share in zip(counts, shares, strict=True)]
        speeds = [f"{_speed(self.slip_speed(n))} {share}" for n, share in zip(counts, shares, strict=True)]
        return [
            ("regime", verdict),
            ("R_n", f"max(near-rigid {rigid:.4g}, compliant {soft:.4g}) 1/kg"),
            ("R_t", f"{self.R_t:.4g} 1/kg"),
            ("contact weight w", f"{self.weight:.4g} 1/kg ({self.weight_mode})"),
            ("compliance acts", needed),
            ("load", f"{self.load_mass:.4g} kg: {self.load}; {self.gravity:.4g} m/s^2 along the normal"),
            ("resting penetration", "; ".join(depths)),
            (
                "stiction slip speed",
                "; ".join(speeds) + ", at half the friction cone" if self.mu > 0.0 else "no friction",
            ),
            ("oscillation", f"period {_time(self.period)}, damping ratio {self.damping_ratio:.3g}"),
        ]

    def lines(self) -> list[str]:
        """Return the whole explanation as plain text, aligned in columns."""
        lines: list[str] = []
        for title, header, rows in self.tables():
            cells = [row for row in (header, *rows) if any(row)]
            widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
            lines.append(title)
            for row in cells:
                text = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
                lines.append("  " + text.rstrip())
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers in SI units for JSON; what is infinite or does not apply is None."""
        result: dict[str, Any] = as_json(self)
        derived = (
            *("can_collide", "regime", "compliant_R_n", "near_rigid_R_n", "R_n", "R_t", "effective_stiffness"),
            *("largest_compliant_k", "largest_compliant_dt", "gap_speed", "time_constant", "period", "damping_ratio"),
        )
        result.update({name: as_json(getattr(self, name)) for name in derived})
        for name, count in (("", None), ("_1", 1), ("_4", 4)):
            result[f"resting_depth{name}"] = self.resting_depth(count)
            result[f"slip_speed{name}"] = self.slip_speed(count)
        result["gliding_gap"], result["recommended_gap"] = self.gliding_gap(), self.recommended_gap()
        return result


def _scaled(value: float | None, unit: str) -> str:
    """Format a length, time or speed with a readable prefix."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "any speed" if unit == "m/s" else f"inf {unit}"
    size = abs(value)
    for factor, prefix in ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n")):
        if size >= 0.9995 * factor:
            return f"{value / factor:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def _length(value: float | None) -> str:
    return _scaled(value, "m")


def _time(value: float | None) -> str:
    return _scaled(value, "s")


def _speed(value: float | None) -> str:
    return _scaled(value, "m/s")


def _stiffness(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g} N/m"
