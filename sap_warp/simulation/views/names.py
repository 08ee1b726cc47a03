"""Bodies, joints, degrees of freedom, coordinates, shapes and actuators of a model by name."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, NamedTuple

import newton
import numpy as np

from ...core.faq import see
from ..run.split import world_starts
from .labels import JointEntries, ends_of, shorten

_SHOWN = 8
"""Most names that an error lists."""
_PLURAL = {
    "body": "bodies",
    "joint": "joints",
    "shape": "shapes",
    "dof": "degrees of freedom",
    "coord": "coordinates",
    "actuator": "actuators",
}
_NUMBERED = re.compile(r"(.*/)?shape_\d+").fullmatch
"""Matches labels that Newton makes for shapes without one."""
KINDS = tuple(_PLURAL)
"""Kinds of entities that can be looked up."""


class UnknownNameError(KeyError):
    """Nothing has such a name, or several things have."""

    def __str__(self) -> str:
        return str(self.args[0])


class Found(NamedTuple):
    """Result of looking up a pattern."""

    indices: np.ndarray
    """Columns in the arrays of a world: ascending for one pattern, in the order of several patterns."""
    names: tuple[str, ...]
    """Shortest names that are unambiguous in the world."""


class _Table:
    """The names of one kind of entity in one world."""

    def __init__(
        self,
        kind: str,
        labels: Sequence[str],
        owners: Sequence[tuple[str, bool]] | None = None,
        columns: np.ndarray | None = None,
    ):
        """Index the labels.

        Args:
            kind: Of the entities.
            labels: One for each.
            owners: Labels of the joints or bodies that they belong to, and whether they have names of their own. A
                name or pattern that fits none of them can be that of an owner.
            columns: Where they are; None counts from 0.
        """
        self.kind, self.labels = kind, tuple(labels)
        self.columns = np.arange(len(labels)) if columns is None else columns
        self.names = tuple(shorten(labels))
        self._owners = owners
        self.signature = (self.names, None if owners is None else tuple(owners))
        """What has the same finds the same."""
        self._ends = [ends_of(label) for label in labels]
        self._owner_ends = [ends_of(label) for label, _ in owners] if owners else []

    def find(self, pattern: str) -> list[int]:
        """Return the columns that ``pattern`` stands for.

        Raises:
            UnknownNameError: None, or several of one plain name.
        """
        is_plain = not any(sign in pattern for sign in "*?[")
        hits = self._equal(pattern)
        if not hits and not is_plain:
            hits = self._match(pattern)
        if not hits:
            raise UnknownNameError(self._tell_unknown(pattern) + see("unknown-name"))
        return hits

    def _equal(self, name: str) -> list[int]:
        for found in (self.names, self.labels):
            hits = [i for i, known in enumerate(found) if known == name]
            if len(hits) == 1:
                return hits
        hits = [i for i, ends in enumerate(self._ends) if name in ends]
        if len(hits) > 1:
            self._refuse_several(name, hits)
        if hits or not self._owners:
            return hits
        hits = [i for i, (label, _) in enumerate(self._owners) if label == name]
        hits = hits or [i for i, ends in enumerate(self._owner_ends) if name in ends]
        if len({self._owners[i][0] for i in hits}) > 1:
            self._refuse_several(name, hits)
        return hits

    def _match(self, pattern: str) -> list[int]:
        size = pattern.count("/")

        def fits(ends: list[str]) -> bool:
            return (len(ends) > size and fnmatchcase(ends[size], pattern)) or (
                size > 0 and fnmatchcase(ends[-1], pattern)
            )

        own = [fits(ends) for ends in self._ends]
        if not self._owners:
            return [i for i, fit in enumerate(own) if fit]
        by_owner = [fits(ends) for ends in self._owner_ends]
        hits = [i for i, (_, named) in enumerate(self._owners) if own[i] or (by_owner[i] and not named)]
        return hits or [i for i, fit in enumerate(by_owner) if fit]

    def _refuse_several(self, name: str, hits: list[int]) -> None:
        shown = ", ".join(repr(self.names[i]) for i in hits[:_SHOWN])
        more = f" and {len(hits) - _SHOWN} more" if len(hits) > _SHOWN else ""
        raise UnknownNameError(
            f"{name!r} stands for {len(hits)} {_PLURAL[self.kind]}: {shown}{more}. Name one of them, or use a pattern "
            f"such as '*{name}'.{see('unknown-name')}"
        )

    def _tell_unknown(self, pattern: str) -> str:
        what = _PLURAL[self.kind]
        known = list(dict.fromkeys([*self.names, *(ends[0] for ends in self._owner_ends)]))
        near = difflib.get_close_matches(pattern.strip("*?"), known, n=3)
        near = near or [name for name in known if pattern.strip("*?").lower() in name.lower()][:3]
        text = f"No {what} match {pattern!r}"
        if near:
            return f"{text}; did you mean {' or '.join(map(repr, near))}?"
        if not known:
            return f"{text}: there are none."
        more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
        return f"{text}; there are {', '.join(map(repr, known[:_SHOWN]))}{more}."


class ModelNames:
    """Names of everything in the worlds of a model; tables are made when they are first asked for."""

    def __init__(self, model: newton.Model):
        """Store the model; nothing is read yet."""
        self._model = model
        self._tables: dict[tuple[str, int], _Table] = {}

    @functools.cached_property
    def _entries(self) -> JointEntries:
        return JointEntries(self._model)

    @functools.cached_property
    def starts(self) -> dict[str, np.ndarray]:
        """First entry of each world by kind, and the end; only kinds whose entries lie together."""
        model = self._model
        starts = dict(world_starts(model))
        worlds = len(starts["world"]) - 1
        if (model.body_world.numpy() < 0).all():
            starts |= {"joint": np.array([0, model.joint_count]), "shape": np.array([0, model.shape_count])}
        else:
            starts["joint"] = model.joint_world_start.numpy()[: worlds + 1].copy()
            starts["shape"] = model.shape_world_start.numpy()[: worlds + 1].copy()
        return starts

    def starts_of(self, kind: str) -> np.ndarray:
        """Return the first entry of each world, and the end, of one kind."""
        return self._actuator_starts if kind == "actuator" else self.starts[kind]

    def has(self, kind: str) -> bool:
        """Return True if the worlds have anything of this kind."""
        return bool(self.starts_of(kind)[-1])

    @functools.cached_property
    def _actuator_starts(self) -> np.ndarray:
        return actuator_starts(self._model, self.world_count)

    @property
    def world_count(self) -> int:
        """Number of worlds."""
        return len(self.starts["world"]) - 1

    def names(self, kind: str, world: int = 0) -> tuple[str, ...]:
        """Return the names of all entities of one kind in a world, by column."""
        return self._table(kind, self._check_world(kind, world)).names

    def find(self, kind: str, patterns: str | Iterable[str], world: int | None = None) -> Found:
        """Return the columns of what the patterns stand for.

        Args:
            kind: One of `KINDS`.
            patterns: A name, a pattern with ``*``, ``?`` or ``[]``, or a list of them. One without a slash is compared
                with the last part of labels, one with slashes with as many parts from the end, or all of them.
            world: Which one; None if all have the same names in the same columns. -1 are shapes of no world, and
                columns are those of the model's arrays.

        Raises:
            UnknownNameError: Something has no match, or a plain name stands for several entities.
            ValueError: Worlds differ in what they would give.
        """
        wanted = check_patterns(patterns)
        if world is not None:
            return self._find_in(kind, wanted, self._check_world(kind, world))
        first = self._find_in(kind, wanted, 0)
        for other in self._others(kind):
            found = self._find_in(kind, wanted, other)
            if found.names != first.names or not np.array_equal(found.indices, first.indices):
                raise ValueError(
                    f"Worlds differ: {', '.join(map(repr, wanted))} stands for columns {_few(first.indices)} of the "
                    f"{_PLURAL[kind]} in world 0, and for {_few(found.indices)} in world {other}. Say which one with "
                    f"world=."
                )
        return first

    def _find_in(self, kind: str, patterns: Sequence[str], world: int) -> Found:
        table = self._table(kind, world)
        hits: dict[int, None] = {}
        for pattern in patterns:
            try:
                hits.update(dict.fromkeys(table.find(pattern)))
            except UnknownNameError as error:
                where = f" (in world {world})" if world > 0 else ""
                outside = self._outside(kind, pattern) if world >= 0 else ""
                raise UnknownNameError(f"{error}{where}{outside}") from None
        return Found(table.columns[list(hits)], tuple(table.names[i] for i in hits))

    def _outside(self, kind: str, pattern: str) -> str:
        """Return a hint about shapes that all worlds share, such as the ground, and joints that share a body."""
        if kind not in ("shape", "joint"):
            return ""
        try:
            found = self._table("shape", -1).find(pattern) if kind == "shape" else self._table("dof", 0).find(pattern)
        except UnknownNameError:
            return ""
        if kind == "joint":
            return f" {self._table('dof', 0).names[found[0]]!r} is a degree of freedom: see find_dofs and find_coords."
        return f" {self._table('shape', -1).names[found[0]]!r} belongs to no world; world=-1 finds it."

    def shared_shapes(self) -> np.ndarray:
        """Shapes that belong to no world, of a model that has worlds."""
        model = self._model
        if (model.body_world.numpy() < 0).all():
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(model.shape_world.numpy() < 0)

    @functools.cache  # noqa: B019 - lives as long as the simulation
    def _others(self, kind: str) -> list[int]:
        """Return one world for each way of naming that differs from world 0's."""
        labels, starts = self._source(kind)
        if kind == "shape":
            labels = list(zip(labels, self._shape_bodies, strict=True))
        bounds = list(pairwise(starts.tolist()))
        seen = [labels[bounds[0][0] : bounds[0][1]]]
        names = {self._table(kind, 0).signature}
        others = []
        for world, (first, last) in enumerate(bounds):
            own = labels[first:last]
            if own in seen[-2:]:
                continue
            seen.append(own)
            if (signature := self._table(kind, world).signature) not in names:
                names.add(signature)
                others.append(world)
        return others

    @functools.cached_property
    def _shape_bodies(self) -> list[str]:
        """Return the label of the body of each shape, "" without one."""
        bodies = ("", *self._model.body_label)
        return [bodies[body + 1] for body in self._model.shape_body.numpy()]

    def _source(self, kind: str) -> tuple[list[Any], np.ndarray]:
        """Return labels of all worlds and where worlds begin; joints stand for their dofs and coordinates."""
        kind = "joint" if kind in ("dof", "coord") else kind
        model: Any = self._model
        owner = model.mujoco if kind == "actuator" and hasattr(model, "mujoco") else model
        return list(getattr(owner, f"{kind}_label", ())), self.starts_of(kind)

    def _table(self, kind: str, world: int) -> _Table:
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(KINDS)}.")
        if (kind, world) not in self._tables:
            self._tables[kind, world] = self._make(kind, world)
        return self._tables[kind, world]

    def _make(self, kind: str, world: int) -> _Table:
        labels, starts = self._source(kind)
        if world < 0:
            shared = self.shared_shapes()
            return _Table(kind, [labels[i] for i in shared], columns=shared)
        first, last = int(starts[world]), int(starts[world + 1])
        if kind == "shape":
            bodies = zip(labels[first:last], self._shape_bodies[first:last], strict=True)
            return _Table(kind, labels[first:last], [(body, not _NUMBERED(label)) for label, body in bodies])
        if kind not in ("dof", "coord"):
            return _Table(kind, labels[first:last])
        make: Callable[[int, int], Any] = self._entries.dofs if kind == "dof" else self._entries.coords
        entries = make(first, last)
        owners = [(labels[first + entry.joint], entry.has_own_name) for entry in entries]
        return _Table(kind, [entry.label for entry in entries], owners)

    def _check_world(self, kind: str, world: Any) -> int:
        if isinstance(world, bool) or not isinstance(world, (int, np.integer)):
            raise TypeError(f"world is {world!r}; it must be the number of a world.")
        least = -1 if kind == "shape" else 0
        if not least <= world < self.world_count:
            raise IndexError(f"There is no world {world}: there are {self.world_count}.")
        return int(world)


def actuator_starts(model: Any, worlds: int) -> np.ndarray:
    """Return the first of MuJoCo's actuators in each world, and the end."""
    owner = getattr(getattr(model, "mujoco", None), "actuator_world", None)
    owners = np.zeros(0, dtype=np.int64) if owner is None else np.maximum(owner.numpy(), 0)
    if (np.diff(owners) < 0).any():
        raise ValueError("mujoco:actuator_world is not sorted, so the actuators of a world do not lie together.")
    return np.searchsorted(owners, np.arange(worlds + 1))


def check_patterns(patterns: Any) -> list[str]:
    """Return patterns as a list.

    Raises:
        TypeError: It is neither a string nor a list of them.
        ValueError: The list is empty.
    """
    found: list[Any] = [patterns]
    if not isinstance(patterns, str) and isinstance(patterns, Iterable):
        found = list(patterns)
    if not all(isinstance(pattern, str) for pattern in found):
        raise TypeError(f"{patterns!r} is neither a name nor a pattern nor a list of them.")
    if not found:
        raise ValueError("The list of names is empty.")
    return found


def _few(indices: np.ndarray) -> str:
    return str(indices[:_SHOWN].tolist()) + ("..." if len(indices) > _SHOWN else "")
