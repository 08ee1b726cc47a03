"""Catalogue of signals: their names, and the entries of arrays that they stand for.

A name is a quantity, or a quantity, a colon and a pattern of names: ``iterations``, ``joint_q:left_knee``,
``body_q:torso.z``, ``contact_force:*_foot``. Quantities of bodies have components, of which one can be chosen behind a
dot. Every signal is one number for each world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .sources import Source, SourceCache

_POSE = ("x", "y", "z", "qx", "qy", "qz", "qw")
_TWIST = ("vx", "vy", "vz", "wx", "wy", "wz")
_WRENCH = ("fx", "fy", "fz", "tx", "ty", "tz")


class SignalError(ValueError):
    """There is no such signal."""


@dataclass(frozen=True)
class Quantity:
    """One kind of signal."""

    kind: str
    """Entity that the quantity belongs to: world, body, dof, coord or actuator."""
    unit: str
    """Unit of the numbers."""
    text: str
    """Description."""
    components: tuple[str, ...] = ()
    """Names of the numbers, if there are several."""
    read: Callable[[Any], Any] | None = None
    """Finds the array by world in a solver; without it, the array is the simulation's or computed (`sources`)."""


def _by_world(unit: str, text: str, read: Callable[[Any], Any] | None = None) -> Quantity:
    """Return a quantity of whole worlds."""
    return Quantity("world", unit, text, read=read)


QUANTITIES: dict[str, Quantity] = {
    "joint_q": Quantity("coord", "m or rad", "generalized position"),
    "joint_qd": Quantity("dof", "m/s or rad/s", "generalized velocity"),
    "joint_f": Quantity("dof", "N or N m", "generalized force that is applied"),
    "joint_target_q": Quantity("coord", "m or rad", "position target of a drive"),
    "joint_target_qd": Quantity("dof", "m/s or rad/s", "velocity target of a drive"),
    "ctrl": Quantity("actuator", "", "input of a MuJoCo actuator"),
    "body_q": Quantity("body", "m", "pose of a body in world frame", _POSE),
    "body_qd": Quantity("body", "m/s, rad/s", "velocity of a body's centre of mass and its rotation", _TWIST),
    "body_f": Quantity("body", "N, N m", "external wrench on a body", _WRENCH),
    "contact_force": Quantity("body", "N", "net contact force on a body, world axes", ("x", "y", "z", "norm")),
    "iterations": _by_world("", "Newton iterations of the step", lambda solver: solver.contact_solve.iterations),
    "line_search_iterations": _by_world(
        "", "trials of the line search", lambda solver: solver.contact_solve.line_search_iterations
    ),
    "residual": _by_world("", "optimality ratio of the step", lambda solver: solver.contact_solve.residual),
    "status": _by_world("", "`SolveStatus` of the step", lambda solver: solver.world_status),
    "contacts": _by_world("", "contacts of the step", lambda solver: solver.contact_stage.contact_count),
    "dropped": _by_world("", "contacts that found no place", lambda solver: solver.contact_stage.truncated_count),
    "penetration": _by_world("m", "deepest overlap at the start of the step"),
    "slip_speed": _by_world("m/s", "fastest slide of a contact that presses"),
    "energy": _by_world("J", "kinetic energy and that of gravity"),
    "kinetic_energy": _by_world("J", "kinetic energy of all bodies"),
    "potential_energy": _by_world("J", "energy of all bodies by gravity, zero at height 0"),
}
"""All quantities by name."""


@dataclass(frozen=True)
class Signal:
    """One number for each world."""

    name: str
    """Quantity, name and component."""
    quantity: str
    """One of `QUANTITIES`."""
    unit: str
    """Unit of the number."""
    source: Source
    """The array."""
    entries: np.ndarray
    """Entry for each world, in the array as a flat array of numbers."""


def list_signals(sim: Any) -> list[str]:
    """Return the names of all signals of a simulation, without components, for menus and messages."""
    names = []
    for name, quantity in QUANTITIES.items():
        if quantity.kind == "world":
            names.append(name)
        elif quantity.kind != "actuator" or sim._names.has("actuator"):
            names += [f"{name}:{entry}" for entry in sim._names.names(quantity.kind)]
    return names


def find_signals(sim: Any, names: str | Iterable[str]) -> list[Signal]:
    """Return signals by name.

    Args:
        sim: The simulation.
        names: One name or several, or several in one text with commas between them; patterns stand for all that match.

    Raises:
        SignalError: There is no such signal.
    """
    texts = [names] if isinstance(names, str) else list(names)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"signals are {names!r}; expected a name, or several.")
    wanted = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    if not wanted:
        raise SignalError(f"No signal is named. {_known()}")
    cache = SourceCache(sim)
    found: dict[str, Signal] = {}
    for text in wanted:
        for signal in _expand(sim, cache, text):
            found.setdefault(signal.name, signal)
    return list(found.values())


def _known() -> str:
    parts = [name if q.kind == "world" else f"{name}:NAME" for name, q in QUANTITIES.items()]
    return f"There is: {', '.join(parts)}."


def _expand(sim: Any, cache: SourceCache, text: str) -> Sequence[Signal]:
    name, colon, pattern = text.partition(":")
    if name not in QUANTITIES:
        raise SignalError(f"Signal {text!r} is not known. {_known()}")
    quantity = QUANTITIES[name]
    if quantity.kind == "world":
        if colon:
            raise SignalError(f"Signal {text!r}: {name} belongs to whole worlds; write {name!r}.")
        return [Signal(name, name, quantity.unit, cache.get(name, quantity.read), np.arange(sim.world_count))]
    if not pattern:
        raise SignalError(f"Signal {text!r} needs the name of a {quantity.kind}, for example '{name}:*'.")
    pattern, component = _split_component(quantity, pattern)
    if quantity.kind == "actuator" and not sim._names.has("actuator"):
        raise SignalError(f"Signal {text!r}: the model has no actuators of MuJoCo's.")
    try:
        columns, names = sim._names.find(quantity.kind, pattern)
    except KeyError as error:
        raise SignalError(f"Signal {text!r}: {error}") from None
    source, starts = cache.get(name), sim._names.starts_of(quantity.kind)[:-1]
    signals = []
    for column, entity in zip(columns, names, strict=True):
        for part in (component,) if component else (quantity.components or ("",)):
            offset = quantity.components.index(part) if part else 0
            entries = (starts + int(column)) * source.width + offset
            full = f"{name}:{entity}" + (f".{part}" if part else "")
            signals.append(Signal(full, name, quantity.unit, source, entries))
    return signals


def _split_component(quantity: Quantity, pattern: str) -> tuple[str, str]:
    stem, dot, last = pattern.rpartition(".")
    return (stem, last) if dot and last in quantity.components else (pattern, "")
