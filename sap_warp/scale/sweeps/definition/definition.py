"""Definition of a sweep: everything that its numbers depend on. Engine, workers and batches are not part of it."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....scene.shipped.scene_files import SHORT_NAMES, find_scene_file, shipped_scenes
from ..errors import SweepError
from .conditions import parse_condition
from .points import SAMPLINGS, Point, make_points
from .targets import find_target
from .values import Variation, make_variation, parse_variation

DEVICES = ("cpu", "cuda")
FORMAT = 1
"""Format of the file that a definition is kept in."""


@dataclass(frozen=True)
class Definition:
    """A sweep, as plain data."""

    scene: str | Mapping[str, Any]
    """Name of a shipped scene, absolute path of a file, or the content of one."""
    variations: tuple[Variation, ...] = ()
    """Varied parameters."""
    seconds: float = 2.0
    """Simulated time [s]; rounded up to a whole number of samples."""
    until: str | None = None
    """A condition on signals that ends a run earlier."""
    success: str | None = None
    """A condition on the last sample; None for ``until``, or for a run that did not fail."""
    record: tuple[str, ...] = ()
    """Signals that are kept."""
    every: int = 5
    """Steps between samples."""
    samples: int | None = None
    """Points to draw; None for every combination."""
    sampling: str = "lhs"
    """Method of drawing points: ``"lhs"`` or ``"random"``."""
    seeds: int | None = None
    """Random starts of each point; None starts as the scene does."""
    seed: int = 0
    """First seed of these, and seed of the drawing."""
    dt: float | None = None
    """Time step [s]; None for the scene's."""
    preset: str | None = None
    """Preset of the solver; None for the scene's."""
    line_search: str | None = None
    """Line search of the solver; None for the scene's."""
    device: str = "cpu"
    """Kind of device: ``"cpu"`` or ``"cuda"``, because their numbers differ."""
    confine: bool | None = None
    """Whether files outside of the folder of the scene are refused."""

    def __post_init__(self) -> None:
        paths = [v.path for v in self.variations]
        for path in paths:
            if paths.count(path) > 1:
                raise SweepError(f"{path} is varied twice.")
            find_target(path)
        for name in ("until", "success"):
            text = getattr(self, name)
            if text is not None:
                parse_condition(text)
        if not (isinstance(self.seconds, (int, float)) and math.isfinite(self.seconds) and self.seconds > 0.0):
            raise SweepError(f"seconds is {self.seconds!r}; it must be a positive number.")
        for name, least in (("every", 1), ("samples", 1), ("seeds", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise SweepError(f"{name} is {value!r}; it must be a whole number of at least {least}.")
        if self.device not in DEVICES:
            raise SweepError(f"device is {self.device!r}; it must be {' or '.join(map(repr, DEVICES))}.")
        if self.sampling not in SAMPLINGS:
            raise SweepError(f"sampling is {self.sampling!r}; it must be one of {', '.join(SAMPLINGS)}.")
        if not self.variations and self.seeds is None:
            raise SweepError("Nothing varies: give a parameter with its values (--vary PATH=VALUES), or seeds.")
        if not self.variations and self.samples is not None:
            raise SweepError("There is no parameter to draw samples of.")

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of the parameters."""
        return tuple(v.path for v in self.variations)

    def points(self) -> list[Point]:
        """Return all points."""
        seeds = None if self.seeds is None else range(self.seed, self.seed + self.seeds)
        return make_points(self.variations, self.samples, self.sampling, seeds, self.seed)

    def to_json(self) -> dict[str, Any]:
        """Return the definition as plain data for a file."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Definition:
        """Return the definition in a file's data."""
        given = dict(data)
        given["variations"] = tuple(
            Variation(**{**entry, "values": tuple(entry["values"])}) for entry in given["variations"]
        )
        given["record"] = tuple(given["record"])
        return cls(**given)

    def differences(self, other: Definition) -> list[str]:
        """Return the names of the fields that differ."""
        mine, theirs = self.to_json(), other.to_json()
        return [name for name in mine if mine[name] != theirs[name]]


def read_variations(vary: Mapping[str, Any] | Iterable[str]) -> tuple[Variation, ...]:
    """Read parameters from texts ``PATH=VALUES``, or from a mapping of paths to values."""
    if isinstance(vary, Mapping):
        return tuple(make_variation(path, values) for path, values in vary.items())
    return tuple(parse_variation(text) for text in vary)


def name_scene(scene: Any) -> str | Mapping[str, Any]:
    """Return a scene in a form that another process on another machine finds too, if possible.

    Raises:
        UnknownSceneError: There is neither such a file nor a shipped scene.
        SweepError: The content cannot be written down.
    """
    if isinstance(scene, Mapping):
        try:
            return json.loads(json.dumps(scene))
        except (TypeError, ValueError) as error:
            raise SweepError(f"The scene cannot be written to the dataset: {error}. Give a file.") from None
    file = find_scene_file(scene)
    name = SHORT_NAMES.get(str(scene), str(scene))
    return name if shipped_scenes().get(name) == file else str(Path(file).resolve())
