"""From plain data to a checked `Scene`: all problems at once, each with its place."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import ValidationError

from .document import SceneDocument
from .errors import Complaint, Path, Problem, SapSceneError
from .references import find_reference_problems
from .schema import Scene
from .values import show


def validate_document(document: SceneDocument) -> Scene:
    """Check a document against the schema and its own references.

    Raises:
        SapSceneError: Something is wrong; lists all of it.
    """
    classes: dict[int, Any] = {}
    try:
        scene = Scene.model_validate(document.data, context=classes)
    except ValidationError as error:
        raise SapSceneError([_translate(entry, document, classes) for entry in error.errors()]) from None
    problems = find_reference_problems(scene)
    if problems:
        raise SapSceneError([document.problem(path, message) for path, message in problems])
    return scene


def _translate(entry: Any, document: SceneDocument, classes: dict[int, Any]) -> Problem:
    kind, context = entry["type"], entry.get("ctx", {})
    path, parent = _locate(entry["loc"], document.data)
    if kind == "missing":
        path = (*path, entry["loc"][-1])
        return document.problem(path, "is missing")
    if kind == "extra_forbidden":
        return document.problem(path, _explain_unknown(path[-1] if path else "", classes.get(id(parent))))
    if kind == "value_error":
        error = context["error"]
        if isinstance(error, Complaint):
            sub = (*path, *error.path)
            return document.problem(_existing(sub, document.data), error.message)
        return document.problem(path, str(error))
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        path = (*path, context["discriminator"].strip("'"))
    return document.problem(path, _explain(kind, context, entry))


def _explain(kind: str, context: dict[str, Any], entry: Any) -> str:
    found = show(entry.get("input"))
    if kind == "union_tag_not_found":
        return "is missing"
    if kind == "union_tag_invalid":
        choices = [name.strip(" '") for name in context["expected_tags"].split(",")]
        return f"found {context['tag']!r}; {_nearest(str(context['tag']), choices)}"
    if kind == "literal_error":
        choices = [name.strip(" '") for name in context["expected"].replace(" or ", ", ").split(",")]
        return f"found {found}; {_nearest(str(entry.get('input')), choices)}"
    if kind == "list_type":
        return f"found {found}; expected a list"
    if kind in ("model_type", "model_attributes_type", "dict_type", "dict_attributes_type"):
        return f"found {found}; expected a mapping"
    if kind == "too_long":
        return f"found {context['actual_length']} entries; at most {context['max_length']} are accepted"
    return f"found {found}; {entry['msg']}"


def _nearest(name: str, choices: list[str]) -> str:
    near = difflib.get_close_matches(name.lower(), choices, n=1)
    return (f"did you mean {near[0]!r}? " if near else "") + f"expected one of {', '.join(choices)}"


def _explain_unknown(key: Any, section: Any) -> str:
    if section is None:
        return "unknown key"
    keys = section.accepted_keys()
    near = difflib.get_close_matches(str(key).lower(), keys, n=1)
    if near:
        return f"unknown key; did you mean {near[0]!r}?"
    return f"unknown key; expected one of {', '.join(section.model_fields)}"


def _locate(location: tuple[Any, ...], data: Any) -> tuple[Path, Any]:
    """Path of pydantic's location inside the data, and the value that contains its last part.

    Pydantic uses canonical keys and inserts the names of variants; the scene may use aliases.
    """
    path: list[Any] = []
    parent, value = None, data
    for part in location:
        key = _key_in(value, part)
        if key is _NOTHING:
            continue
        path.append(key)
        parent, value = value, value[key]
    return tuple(path), parent


_NOTHING = object()


def _key_in(value: Any, part: Any) -> Any:
    if isinstance(value, dict):
        if part in value:
            return part
        spellings = [key for key in value if isinstance(key, str) and _ALIASES.get(key) == part]
        if spellings:
            return spellings[0]
        return next((key for key in value if not isinstance(key, str) and str(key) == part), _NOTHING)
    if isinstance(value, list) and isinstance(part, int) and 0 <= part < len(value):
        return part
    return _NOTHING


def _existing(path: Path, data: Any) -> Path:
    """``path`` with aliases as the scene spells them."""
    found, _ = _locate(path, data)
    return found if len(found) == len(path) else path


def _collect_aliases() -> dict[str, str]:
    from .section import Section

    found: dict[str, str] = {}
    pending = [Section]
    while pending:
        section = pending.pop()
        found.update(section.__dict__.get("aliases", {}))
        pending += section.__subclasses__()
    return found


_ALIASES = _collect_aliases()
