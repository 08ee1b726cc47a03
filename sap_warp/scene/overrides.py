"""Values that replace those of a scene, by their path: ``bodies.cube.shapes[0].hx``.

A path is written as messages about scenes write it. An item of a list can also be had by its name: its ``id``,
``label`` or ``joint``. What is not there is added; whether it may be there is for the schema to say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .text.document import SceneDocument
from .text.errors import Path, Problem, SapSceneError, show
from .validate import validate_document

_PART = re.compile(
    r"""(?:^|(?<!^)\.)(?P<key>[^.\[\]"']+)|\[(?P<index>\d+)\]|\[(?P<quote>["'])(?P<name>.+?)(?P=quote)\]"""
)
_NAMES = ("id", "label", "joint")
"""Keys that name an item of a list."""


def parse_path(text: str) -> Path:
    """Split a path into its parts.

    Raises:
        ValueError: It is not written like one.
    """
    parts: list[str | int] = []
    end = 0
    for match in _PART.finditer(text):
        if match.start() != end:
            break
        end = match.end()
        parts.append(int(match["index"]) if match["index"] else match["key"] or match["name"])
    if end != len(text) or not parts:
        raise ValueError(f"{text!r} is no path into a scene; one looks like bodies.cube.shapes[0].hx.")
    return tuple(parts)


def apply_overrides(document: SceneDocument, overrides: Mapping[str, Any]) -> None:
    """Put values into a document, which is validated first: only the schema knows how keys are spelled.

    Raises:
        SapSceneError: The scene is not valid, or a path leads nowhere; with file and line.
    """
    if not overrides:
        return
    validate_document(document)
    problems: list[Problem] = []
    for text, value in overrides.items():
        try:
            _put(document, parse_path(text), value)
        except SapSceneError as error:
            problems += error.problems
        except ValueError as error:
            problems.append(document.problem((), str(error)))
    if problems:
        raise SapSceneError(problems)


def _put(document: SceneDocument, path: Path, value: Any) -> None:
    inside: Any = document.data
    walked: Path = ()
    for part, following in zip(path, [*path[1:], None], strict=True):
        key = _find(document, inside, part, walked)
        if following is None:
            inside[key] = value
            return
        inner = inside[key] if isinstance(inside, list) else inside.get(key)
        if inner is None or inner is True:  # a section that is left out, or only switched on
            inner = inside[key] = {}
        if not isinstance(inner, (dict, list)):
            what = f"is {show(inner)} here and has no part {following!r}; write it out in the scene first"
            raise SapSceneError([document.problem((*walked, key), what)])
        inside, walked = inner, (*walked, key)


def _find(document: SceneDocument, inside: Any, part: str | int, walked: Path) -> Any:
    """Return the key or index that ``part`` stands for in ``inside``."""
    if isinstance(inside, dict):
        section = document.sections.get(id(inside))
        canonical = section.all_aliases().get(part, part) if section is not None else part
        found = document.key_of(inside, canonical)
        return part if found is None else found[0]
    if isinstance(part, int):
        if part < len(inside):
            return part
        raise SapSceneError([document.problem(walked, f"has {len(inside)} items; there is no [{part}]")])
    named = [[item.get(name) for name in _NAMES if name in item] if isinstance(item, dict) else [] for item in inside]
    hits = [i for i, names in enumerate(named) if part in names]
    if len(hits) == 1:
        return hits[0]
    known = ", ".join(str(names[0]) for names in named if names) or "none with a name"
    what = f"has no item {part!r}; there is: {known}" if not hits else f"has {len(hits)} items {part!r}; give an index"
    raise SapSceneError([document.problem(walked, what)])
