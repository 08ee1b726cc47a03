"""Reading scene files: YAML or JSON into plain data that remembers its line numbers."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from pathlib import Path as FilePath
from typing import Any

from .errors import Path, Problem, SapSceneError

MAX_BYTES = 16 * 2**20
"""Largest scene file that is read."""
MAX_NODES = 500_000
"""Most values in a scene, repeated anchors counted as often as they are used."""
MAX_NESTING = 100
"""Deepest nesting of mappings and lists."""


class SceneDocument:
    """The content of a scene and where each part of it stands."""

    def __init__(self, data: Any, file: FilePath | None = None, lines: dict[Path, int] | None = None):
        self.data = data
        self.file = file
        self._lines = lines or {}

    @property
    def directory(self) -> FilePath | None:
        """Where relative paths start; None for a scene that is not a file."""
        return None if self.file is None else self.file.resolve().parent

    def problem(self, path: Path, message: str) -> Problem:
        """A problem at ``path``; the line is that of the nearest enclosing value that is in the file."""
        known = path
        while known and known not in self._lines:
            known = known[:-1]
        line = self._lines.get(known) if self.file is not None else None
        return Problem(message, path, None if self.file is None else str(self.file), line)


def read_document(source: str | FilePath | Mapping[str, Any]) -> SceneDocument:
    """Read a scene file, or take a mapping as it is.

    Raises:
        SapSceneError: The file cannot be read or is not YAML or JSON.
    """
    if isinstance(source, Mapping):
        return SceneDocument(_plain_copy(source))
    file = FilePath(source).expanduser()
    text = _read_text(file)
    return _read_json(text, file) if file.suffix.lower() == ".json" else _read_yaml(text, file)


def _read_text(file: FilePath) -> str:
    try:
        if file.stat().st_size > MAX_BYTES:
            raise _error(file, None, f"the file has more than {MAX_BYTES // 2**20} MB")
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _error(file, None, "there is no such file") from None
    except UnicodeDecodeError as error:
        raise _error(file, None, f"the file is not UTF-8 text ({error.reason})") from error
    except (OSError, ValueError) as error:
        raise _error(file, None, f"the file cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _error(file: FilePath | None, line: int | None, message: str, path: Path = ()) -> SapSceneError:
    return SapSceneError([Problem(message, path, None if file is None else str(file), line)])


# YAML


def _read_yaml(text: str, file: FilePath) -> SceneDocument:
    root = _compose(text, file)
    if root is None:
        return SceneDocument({}, file)
    converter = _NodeConverter(file)
    data = converter.convert(root)
    lines: dict[Path, int] = {}
    converter.mark(root, (), lines)
    return SceneDocument(data, file, lines)


def _compose(text: str, file: FilePath) -> Any:
    """Root node of the only document of a YAML text."""
    import yaml

    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(filter(None, (error.context, error.problem)))
        raise _error(file, mark.line + 1 if mark else None, f"not valid YAML: {what}") from error
    except yaml.YAMLError as error:
        raise _error(file, None, f"not valid YAML: {error}") from error
    except RecursionError:
        raise _error(file, None, f"nested deeper than {MAX_NESTING} levels") from None


class _NodeConverter:
    """Turns YAML nodes into plain data. A node that is used several times is converted once."""

    _MERGE = "tag:yaml.org,2002:merge"

    def __init__(self, file: FilePath):
        import yaml

        self.file = file
        self._yaml = yaml
        self._scalars = yaml.constructor.SafeConstructor()
        self._done: dict[int, Any] = {}
        self._sizes: dict[int, int] = {}
        self._open: set[int] = set()

    def convert(self, node: Any) -> Any:
        """Plain data of ``node``."""
        self._measure(node, 0)
        if self._sizes[id(node)] > MAX_NODES:
            raise self._fail(node, f"more than {MAX_NODES} values, repeated anchors included")
        return self._convert(node)

    def mark(self, node: Any, path: Path, lines: dict[Path, int]) -> None:
        """Record the line of every value below ``node``: of its key in a mapping, of itself in a list."""
        lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, self._yaml.SequenceNode):
            for i, item in enumerate(node.value):
                self.mark(item, (*path, i), lines)
        elif isinstance(node, self._yaml.MappingNode):
            merged: list[Any] = []
            for key, value in node.value:
                if key.tag == self._MERGE:
                    merged += value.value if isinstance(value, self._yaml.SequenceNode) else [value]
                else:
                    lines[(*path, self._convert(key))] = key.start_mark.line + 1
                    self.mark(value, (*path, self._convert(key)), lines)
            for value in merged:
                self.mark(value, path, lines)

    def _fail(self, node: Any, message: str) -> SapSceneError:
        return _error(self.file, node.start_mark.line + 1, message)

    def _children(self, node: Any) -> list[Any]:
        if isinstance(node, self._yaml.SequenceNode):
            return list(node.value)
        if isinstance(node, self._yaml.MappingNode):
            return [part for pair in node.value for part in pair]
        return []

    def _measure(self, node: Any, depth: int) -> int:
        """Number of values below ``node``, each use of an anchor counted."""
        if id(node) in self._open:
            raise self._fail(node, "an anchor that contains itself")
        if depth > MAX_NESTING:
            raise self._fail(node, f"nested deeper than {MAX_NESTING} levels")
        if id(node) not in self._sizes:
            self._open.add(id(node))
            self._sizes[id(node)] = 1 + sum(self._measure(child, depth + 1) for child in self._children(node))
            self._open.discard(id(node))
        return self._sizes[id(node)]

    def _convert(self, node: Any) -> Any:
        if id(node) not in self._done:
            self._done[id(node)] = self._convert_new(node)
        return self._done[id(node)]

    def _convert_new(self, node: Any) -> Any:
        if isinstance(node, self._yaml.SequenceNode):
            return [self._convert(item) for item in node.value]
        if isinstance(node, self._yaml.MappingNode):
            return self._convert_mapping(node)
        try:
            value = self._scalars.construct_object(node)
        except (self._yaml.YAMLError, ValueError, OverflowError) as error:
            raise self._fail(node, f"cannot read {node.value!r}: {getattr(error, 'problem', None) or error}") from error
        # Dates and binary data have no place in a scene; as text they fail where they are used, with a clear message.
        return value if value is None or isinstance(value, (bool, int, float, str)) else str(node.value)

    def _convert_mapping(self, node: Any) -> dict[Any, Any]:
        own: dict[Any, Any] = {}
        inherited: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == self._MERGE:
                self._merge(value_node, inherited)
                continue
            key = self._convert(key_node)
            if not isinstance(key, Hashable):
                raise self._fail(key_node, "a list or mapping cannot be a key")
            if key in own:
                raise self._fail(key_node, f"the key {key!r} appears twice in one mapping")
            own[key] = self._convert(value_node)
        return {**inherited, **own}

    def _merge(self, node: Any, inherited: dict[Any, Any]) -> None:
        parts = self._convert(node)
        for part in parts if isinstance(parts, list) else [parts]:
            if not isinstance(part, dict):
                raise self._fail(node, "'<<' takes a mapping or a list of mappings")
            for key, value in part.items():
                inherited.setdefault(key, value)


# JSON


def _read_json(text: str, file: FilePath) -> SceneDocument:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        for key in keys:
            if keys.count(key) > 1:
                raise _error(file, None, f"the key {key!r} appears twice in one object")
        return dict(pairs)

    try:
        data = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise _error(file, error.lineno, f"not valid JSON: {error.msg}") from error
    except RecursionError:
        raise _error(file, None, f"nested deeper than {MAX_NESTING} levels") from None
    return SceneDocument(_plain_copy(data), file, _json_lines(text, file))


def _json_lines(text: str, file: FilePath) -> dict[Path, int]:
    """JSON is YAML once tabs, which can only stand between values, are spaces."""
    lines: dict[Path, int] = {}
    try:
        root = _compose(text.replace("\t", " "), file)
        converter = _NodeConverter(file)
        converter.convert(root)
        converter.mark(root, (), lines)
    except SapSceneError:  # a text that only JSON understands has no line numbers
        return {}
    return lines


def _plain_copy(value: Any) -> Any:
    """Copy mappings and sequences into dicts and lists, so that a scene does not share data with its caller."""
    count = 0

    def copy(item: Any, depth: int) -> Any:
        nonlocal count
        count += 1
        if depth > MAX_NESTING or count > MAX_NODES:
            what = (
                f"nested deeper than {MAX_NESTING} levels" if depth > MAX_NESTING else f"more than {MAX_NODES} values"
            )
            raise _error(None, None, what)
        if isinstance(item, Mapping):
            return {key: copy(part, depth + 1) for key, part in item.items()}
        if isinstance(item, (list, tuple)):
            return [copy(part, depth + 1) for part in item]
        if hasattr(item, "tolist") and not isinstance(item, (str, bytes)):  # NumPy arrays and scalars
            return copy(item.tolist(), depth + 1)
        return item

    return copy(value, 0)
