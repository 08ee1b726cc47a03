"""Read scene files: YAML or JSON into plain data that remembers its line numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

from ..shipped.scene_files import assets_folder, shipped_scenes
from .errors import Path, Problem, SapSceneError, show
from .file_kinds import describe_non_file, describe_other_file, is_json_schema
from .yaml_text import MAX_NESTING, MAX_NODES, Location, read_long_integer, read_yaml

MAX_BYTES = 16 * 2**20
"""Largest scene file that is read."""
NOTHING = "there is nothing in this file; a scene has at least one body or asset"


class SceneDocument:
    """The content of a scene and the line of each part of it."""

    def __init__(
        self, data: Any, file: FilePath | None = None, location: Any = None, problems: tuple[Problem, ...] | list = ()
    ):
        self.data = data
        self.file = file
        self.confined = False
        """Whether the scene may only read files of its own folder."""
        self.problems = list(problems)
        """What is wrong with the text but leaves the rest readable."""
        self._location = location
        self.sections: dict[int, Any] = {}
        """Class of the schema that each mapping was read by, by its id; filled during validation."""

    @property
    def directory(self) -> FilePath | None:
        """Where relative paths start; None for a scene that is not a file."""
        return None if self.file is None else self.file.resolve().parent

    @property
    def home(self) -> FilePath | None:
        """Folder that the scene stays in if it is confined: its own, or that of all assets for a shipped scene."""
        folder, shipped = self.directory, assets_folder().resolve()
        return shipped if folder is not None and folder.is_relative_to(shipped) else folder

    def problem(self, path: Path, message: str) -> Problem:
        """Return a problem at ``path`` with the line of the nearest enclosing value; None if that is the whole file."""
        path = self.spell(path)
        return Problem(message, path, None if self.file is None else str(self.file), self._line(path))

    def _line(self, path: Path) -> int | None:
        location, line = self._location, None
        for part in path:
            parts = location.parts if isinstance(location, Location) else None
            if isinstance(parts, dict) and part in parts:
                line, location = parts[part]
            elif isinstance(parts, list) and isinstance(part, int) and part < len(parts):
                location = parts[part]
                line = location.line if isinstance(location, Location) else location
            else:
                break
        return line

    def spell(self, path: Path) -> Path:
        """Return ``path``, given in canonical keys, with the keys that the scene uses."""
        spelled: list[Any] = []
        value = self.data
        for part in path:
            key = self.key_of(value, part)
            spelled.append(part if key is None else key[0])
            value = None if key is None else value[key[0]]
        return tuple(spelled)

    def key_of(self, value: Any, part: Any) -> tuple[Any] | None:
        """Return, in a tuple, the key or index of ``value`` that stands for a canonical one; None if there is none."""
        if isinstance(value, list):
            return (part,) if isinstance(part, int) and 0 <= part < len(value) else None
        if not isinstance(value, dict):
            return None
        if part in value:
            return (part,)
        section = self.sections.get(id(value))
        aliases = section.all_aliases() if section is not None else {}
        # YAML reads keys such as 1 or on as numbers and switches; the schema sees them as text.
        names = {key: aliases.get(key, key) if isinstance(key, str) else str(key) for key in value}
        return next(((key,) for key, name in names.items() if name == part), None)


def read_document(source: str | os.PathLike[str] | Mapping[str, Any]) -> SceneDocument:
    """Read a scene file, or take a mapping as it is.

    Raises:
        SapSceneError: The file cannot be read or is not YAML or JSON, or an object of the mapping fails.
        TypeError: ``source`` is neither a path nor a mapping.
    """
    if isinstance(source, Mapping):
        document = SceneDocument(_plain_copy(source))
    elif isinstance(source, (str, os.PathLike)):
        document = _read_file(source)
    else:
        raise TypeError(f"a scene is a path or a mapping, found {show(source)}.")
    if is_json_schema(document.data):
        raise SapSceneError([document.problem((), "this is a JSON schema for editors, not a scene")])
    return document


def _read_file(source: str | os.PathLike[str]) -> SceneDocument:
    try:
        path = os.fspath(source)
        if not isinstance(path, str):
            raise TypeError(f"a scene is a path or a mapping, found {show(source)}.")
        file = FilePath(path).expanduser()
    except RuntimeError as error:  # ~name of nobody
        raise _error(FilePath(source), None, str(error)) from None
    text = _read_text(file)
    if not text.strip():
        raise _error(file, None, NOTHING)
    if file.suffix.lower() == ".json":
        return _read_json(text, file)
    document = read_yaml(text, file)
    if document.data is None and not document.problems:
        raise _error(file, None, NOTHING)
    return SceneDocument(document.data, file, document.location, document.problems)


def _read_text(file: FilePath) -> str:
    try:
        other = describe_non_file(file.stat().st_mode)  # before it is opened: a pipe would wait for its writer
        if other is not None:
            raise _error(file, None, f"this is {other}; a scene is a YAML or JSON file")
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        known = file.name in shipped_scenes()
        hint = f"; the shipped scene of that name is Simulation.from_scene({file.name!r})" if known else ""
        raise _error(file, None, f"there is no such file{hint}") from None
    except SapSceneError:
        raise
    except (OSError, ValueError) as error:
        raise _error(file, None, f"the file cannot be read: {getattr(error, 'strerror', None) or error}") from error
    other = describe_other_file(file, content)
    if other is not None:
        raise _error(file, None, other)
    if len(content) > MAX_BYTES:
        raise _error(file, None, f"the file has more than {MAX_BYTES // 2**20} MB; that is more than a scene needs")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _error(file, line, f"the file is not UTF-8 text ({error.reason})") from error


def _error(file: FilePath | None, line: int | None, message: str, path: Path = ()) -> SapSceneError:
    return SapSceneError([Problem(message, path, None if file is None else str(file), line)])


def _read_json(text: str, file: FilePath) -> SceneDocument:
    repeated: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                repeated.append(key)
            found.setdefault(key, value)
        return found

    try:
        data = json.loads(text, object_pairs_hook=unique, parse_int=read_long_integer)
    except json.JSONDecodeError as error:
        raise _error(file, error.lineno, f"not valid JSON: {error.msg}") from error
    except RecursionError:
        raise _error(file, None, f"nested deeper than {MAX_NESTING} levels") from None
    data = _plain_copy(data, file)
    location, problems = None, []
    try:  # JSON is YAML once tabs, which can only stand between values, are spaces
        document = read_yaml(text.replace("\t", " "), file)
        location, problems = document.location, document.problems
    except SapSceneError:  # a text that only JSON understands has no line numbers
        pass
    if repeated and not problems:
        problems = list(_error(file, None, f"the key {show(repeated[0])} appears twice in one mapping").problems)
    return SceneDocument(data, file, location, problems)


class Unreadable:
    """Stands for an object in a mapping that no scene can hold; its text is that of the object."""

    def __init__(self, value: Any):
        self._text = show(value)

    def __repr__(self) -> str:
        return self._text


def _plain_copy(value: Any, file: FilePath | None = None) -> Any:
    """Copy mappings and sequences into dicts and lists, so that a scene does not share data with its caller.

    Everything else becomes a plain number, a text, or `Unreadable`: no later check meets an object that can raise.
    """
    count = 0

    def copy(item: Any, path: Path) -> Any:
        nonlocal count
        count += 1
        if len(path) > MAX_NESTING:
            raise _error(file, None, f"nested deeper than {MAX_NESTING} levels")
        if count > MAX_NODES:
            raise _error(file, None, f"more than {MAX_NODES} values")
        if item is None or type(item) in (bool, int, float, str):
            return item
        try:
            return convert(item, path)
        except SapSceneError:
            raise
        except Exception as error:
            what = f"this object cannot be read: {show(error)}"
            raise _error(file, None, what, tuple(part for part in path if isinstance(part, (str, int)))) from error

    def convert(item: Any, path: Path) -> Any:
        if isinstance(item, Mapping):
            return {_plain_key(key): copy(part, (*path, key)) for key, part in item.items()}
        if isinstance(item, (list, tuple)):
            return [copy(part, (*path, i)) for i, part in enumerate(item)]
        for kind in (str, int, float):
            if isinstance(item, kind):
                return kind(item)
        if isinstance(item, os.PathLike):
            return copy(os.fspath(item), path)
        if hasattr(item, "tolist") and not isinstance(item, bytes):  # NumPy arrays and scalars
            return copy(item.tolist(), (*path, ""))
        return Unreadable(item)

    return copy(value, ())


def _plain_key(key: Any) -> Any:
    """Return a key that compares and prints without running code of its own."""
    return key if key is None or type(key) in (bool, int, float, str) else show(key)
