"""Turn plain data into a checked `Scene`, with all problems at once, each with its place."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import ValidationError

from .schema import Scene
from .text.document import SceneDocument
from .text.errors import MAX_PROBLEMS, Complaint, Path, Problem, SapSceneError
from .text.references import find_reference_problems, names_of
from .text.values import show


def validate_document(document: SceneDocument) -> Scene:
    """Check a document against the schema and its own references.

    Raises:
        SapSceneError: Something is wrong; lists all of it.
    """
    problems = list(document.problems)
    scene: Any = None
    try:
        scene = Scene.model_validate(document.data, context=document.sections)
    except ValidationError as error:
        for entry in error.errors()[:MAX_PROBLEMS]:
            problems += _translate_all(entry, document)
    named = scene if scene is not None else names_of(document.data, Scene)
    if named is not None:
        problems += [document.problem(path, message) for path, message in find_reference_problems(named)]
    if problems:
        raise SapSceneError(problems)
    return scene


def _translate_all(entry: Any, document: SceneDocument) -> list[Problem]:
    error = entry.get("ctx", {}).get("error")
    if entry["type"] == "value_error" and isinstance(error, Complaint):
        path, _ = _locate(entry["loc"], document)
        return [document.problem((*path, *one.path), one.message) for one in error]
    return [_translate(entry, document)]


def _translate(entry: Any, document: SceneDocument) -> Problem:
    kind, context = entry["type"], entry.get("ctx", {})
    path, parent = _locate(entry["loc"], document)
    if kind == "missing":
        path = (*path, entry["loc"][-1])
        return document.problem(path, "is missing")
    if kind == "extra_forbidden":
        return document.problem(path, _explain_unknown(path[-1] if path else "", document.sections.get(id(parent))))
    if kind == "value_error":
        return document.problem(path, str(context["error"]))
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        path = (*path, context["discriminator"].strip("'"))
    if kind in ("invalid_key", "string_unicode") and isinstance(entry.get("input"), str):
        path = (*path, entry["input"])
    return document.problem(path, _explain(kind, context, entry))


def _explain(kind: str, context: dict[str, Any], entry: Any) -> str:
    found = show(entry.get("input"))
    if kind == "union_tag_not_found":
        return "is missing"
    if kind == "union_tag_invalid":
        choices = [name.strip(" '") for name in context["expected_tags"].split(",")]
        tag = entry["input"].get(context["discriminator"].strip("'"))
        return f"found {show(tag)}; {_nearest(tag, choices)}"
    if kind == "literal_error":
        choices = [name.strip(" '") for name in context["expected"].replace(" or ", ", ").split(",")]
        return f"found {found}; {_nearest(entry.get('input'), choices)}"
    if kind == "list_type":
        return f"found {found}; expected a list"
    if kind in ("model_type", "model_attributes_type", "dict_type", "dict_attributes_type"):
        return f"found {found}; expected a mapping"
    if kind == "too_long":
        return f"found {context['actual_length']} entries; at most {context['max_length']} are accepted"
    if kind in ("invalid_key", "string_unicode"):
        return f"found {found}, which is not valid Unicode"
    return f"found {found}; {entry['msg']}"


def _nearest(name: Any, choices: list[str]) -> str:
    near = difflib.get_close_matches(name.lower(), choices, n=1) if isinstance(name, str) else []
    return (f"did you mean {near[0]!r}? " if near else "") + f"expected one of {', '.join(choices)}"


def _explain_unknown(key: Any, section: Any) -> str:
    if section is None:
        return "unknown key"
    keys = section.accepted_keys()
    near = difflib.get_close_matches(str(key).lower(), keys, n=1)
    if near:
        return f"unknown key; did you mean {near[0]!r}?"
    return f"unknown key; expected one of {', '.join(section.model_fields)}"


def _locate(location: tuple[Any, ...], document: SceneDocument) -> tuple[Path, Any]:
    """Return the document path of pydantic's location, and the value that contains its last part.

    Pydantic inserts the names of variants (``box``), which are no keys of the scene.
    """
    path: list[Any] = []
    parent, value = None, document.data
    for part in location:
        key = document.key_of(value, part)
        if key is not None:
            path.append(key[0])
            parent, value = value, value[key[0]]
    return tuple(path), parent
