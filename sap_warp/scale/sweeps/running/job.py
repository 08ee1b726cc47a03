"""Information for a worker, and its pieces of work: points that share a model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....scene.shipped.scene_files import find_scene_file
from ..definition.definition import Definition
from ..definition.points import Point
from ..definition.targets import SceneTarget, find_target
from ..definition.values import Value

BATCH = {"cpu": 32, "cuda": 4096}
"""Most worlds of one model by kind of device. On a CPU worlds follow one another; more only coarsen progress."""


@dataclass(frozen=True)
class Job:
    """A sweep as workers see it."""

    definition: Definition
    scene_digest: str
    """Digest of the content of the scene: a worker that finds another one reports it and stops."""
    device: str | None = None
    """Warp device; None for the first one of the definition's kind."""


@dataclass(frozen=True)
class Task:
    """Points that differ only in numbers of worlds."""

    number: int
    """Index in the plan."""
    overrides: tuple[tuple[str, Value], ...]
    """Values that replace those of the scene, by path."""
    points: tuple[Point, ...]
    """One world each."""
    attempt: int = 1
    """Number of this attempt, from 1."""


def plan_tasks(definition: Definition, points: Iterable[Point], batch: int) -> list[Task]:
    """Group points by what their models have in common, in their order, at most ``batch`` of them together."""
    groups: dict[tuple[tuple[str, Value], ...], list[Point]] = {}
    parameters = scene_parameters(definition)
    for point in points:
        key = tuple((path, point.values[i]) for i, path in parameters)
        groups.setdefault(_typed(key), []).append(point)
    tasks: list[Task] = []
    for group in groups.values():
        overrides = tuple((path, group[0].values[i]) for i, path in parameters)
        for part in _parts(group, batch):
            tasks.append(Task(len(tasks), overrides, tuple(part)))
    return tasks


def scene_parameters(definition: Definition) -> list[tuple[int, str]]:
    """Return the index and the path of parameters that are values of the scene."""
    found = ((i, find_target(path)) for i, path in enumerate(definition.paths))
    return [(i, target.path) for i, target in found if isinstance(target, SceneTarget)]


def _typed(key: tuple[tuple[str, Value], ...]) -> tuple[Any, ...]:
    """Return a value with its type: 1, 1.0 and True are equal for Python and not for a scene."""
    return tuple((path, type(value).__name__, value) for path, value in key)


def _parts(points: Sequence[Point], size: int) -> Iterator[Sequence[Point]]:
    for first in range(0, len(points), size):
        yield points[first : first + size]


def open_scene(scene: Any) -> Any:
    """Return an argument for `load_sap_scene`: a file, or the content of one for a robot's file."""
    if not isinstance(scene, str):
        return scene
    from ....scene.assets.robot_files import scene_of_robot

    file = find_scene_file(scene)
    robot = scene_of_robot(Path(file))
    return file if robot is None else robot[0]


def digest_scene(scene: Any) -> str:
    """Return the digest of what `open_scene` returned."""
    from ....scene.text.document import read_document

    text = json.dumps(read_document(scene).data, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
