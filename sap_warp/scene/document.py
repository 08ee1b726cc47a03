"""Reading scene files: YAML or JSON into plain data that remembers its line numbers."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from pathlib import Path as FilePath
from typing import Any

from .errors import Path, Problem, SapSceneError, show

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
        self.sections: dict[int, Any] = {}
        """Class of the schema that each mapping was read by, by its id; filled during validation."""

    @property
    def directory(self) -> FilePath | None:
        """Where relative paths start; None for a scene that is not a file."""
        return None if self.file is None else self.file.resolve().parent

    def problem(self, path: Path, message: str) -> Problem:
        """A problem at ``path``; the line is that of the nearest enclosing value that is in the file."""
        known = path = self.spell(path)
        while known and known not in self._lines:
            known = known[:-1]
        line = self._lines.get(known) if self.file is not None else None
        return Problem(message, path, None if self.file is None else str(self.file), line)

    def spell(self, path: Path) -> Path:
        """``path``, given in canonical keys, with the keys that the scene uses."""
        spelled: list[Any] = []
        value = self.data
        for part in path:
            key = self.key_of(value, part)
            spelled.append(part if key is None else key[0])
            value = None if key is None else value[key[0]]
        return tuple(spelled)

    def key_of(self, value: Any, part: Any) -> tuple[Any] | None:
        """The key or index of ``value`` that stands for a canonical one, in a tuple; None if there is none."""
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


def read_document(source: str | FilePath | Mapping[str, Any]) -> SceneDocument:
    """Read a scene file, or take a mapping as it is.

    Raises:
        SapSceneError: The file cannot be read or is not YAML or JSON.
    """
    if isinstance(source, Mapping):
        return SceneDocument(_plain_copy(source))
    try:
        file = FilePath(source).expanduser()
    except RuntimeError as error:  # ~name of nobody
        raise _error(FilePath(source), None, str(error)) from None
    text = _read_text(file)
    return _read_json(text, file) if file.suffix.lower() == ".json" else _read_yaml(text, file)


def _read_text(file: FilePath) -> str:
    try:
        size = file.stat().st_size
        if size <= MAX_BYTES:
            return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise _error(file, None, "there is no such file") from None
    except UnicodeDecodeError as error:
        raise _error(file, None, f"the file is not UTF-8 text ({error.reason})") from error
    except (OSError, ValueError) as error:
        raise _error(file, None, f"the file cannot be read: {getattr(error, 'strerror', None) or error}") from error
    raise _error(file, None, f"the file has more than {MAX_BYTES // 2**20} MB")


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
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _error(
            file, line, f"not valid YAML: the character U+{ord(text[error.position]):04X} is not allowed"
        ) from error
    except RecursionError:
        raise _error(file, None, f"nested deeper than {MAX_NESTING} levels") from None
    except Exception as error:  # odd escapes and version directives raise what Python raises on their numbers
        raise _error(file, None, f"not valid YAML: {error}") from error


class _NodeConverter:
    """Turns YAML nodes into plain data. A node that is used several times is converted once."""

    _MERGE = "tag:yaml.org,2002:merge"
    _TEXT = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:binary", "tag:yaml.org,2002:value")
    """Kinds that have no place in a scene; as text they fail where they are used, with a clear message."""

    def __init__(self, file: FilePath):
        import yaml

        self.file = file
        self._yaml = yaml
        self._scalars = yaml.constructor.SafeConstructor()
        self._done: dict[int, Any] = {}
        self._sizes: dict[int, tuple[int, int]] = {}
        self._open: set[int] = set()

    def convert(self, node: Any) -> Any:
        """Plain data of ``node``."""
        self.check_size(node)
        return self._convert(node)

    def check_size(self, node: Any) -> None:
        """Refuse what is too large or too deep to be converted."""
        if self._measure(node, 0)[0] > MAX_NODES:
            raise self._fail(node, f"more than {MAX_NODES} values, repeated anchors included")

    def mark(self, node: Any, path: Path, lines: dict[Path, int]) -> None:
        """Record the line of every value below ``node``: of its key in a mapping, of itself in a list.

        A line that is already known stays: keys of a mapping win over those that it merges.
        """
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
                    inside = (*path, self._convert(key))
                    if inside not in lines:
                        lines[inside] = key.start_mark.line + 1
                        self.mark(value, inside, lines)
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

    def _measure(self, node: Any, depth: int) -> tuple[int, int]:
        """Number of values below ``node``, each use of an anchor counted, and how deep they are nested."""
        if id(node) in self._open:
            raise self._fail(node, "an anchor that contains itself")
        size, height = self._sizes.get(id(node), (0, 0))
        if depth + height > MAX_NESTING:
            raise self._fail(node, f"nested deeper than {MAX_NESTING} levels")
        if not size:
            self._open.add(id(node))
            parts = [self._measure(child, depth + 1) for child in self._children(node)]
            size, height = 1 + sum(part[0] for part in parts), max((1 + part[1] for part in parts), default=0)
            self._sizes[id(node)] = size, height
            self._open.discard(id(node))
        return size, height

    def _convert(self, node: Any) -> Any:
        if id(node) not in self._done:
            self._done[id(node)] = self._convert_new(node)
        return self._done[id(node)]

    def _convert_new(self, node: Any) -> Any:
        if isinstance(node, self._yaml.SequenceNode):
            return [self._convert(item) for item in node.value]
        if isinstance(node, self._yaml.MappingNode):
            return self._convert_mapping(node)
        if node.tag in self._TEXT:
            return str(node.value)
        try:
            value = self._scalars.construct_object(node)
        except self._yaml.YAMLError as error:
            raise self._fail(node, f"cannot read {show(node.value)}: {getattr(error, 'problem', error)}") from error
        except Exception as error:  # a text that does not fit its tag, !!int or !!bool; integers of thousands of digits
            kind = node.tag.rsplit(":", 1)[-1]
            raise self._fail(node, f"cannot read {show(node.value)} as {kind}") from error
        if isinstance(value, str):
            return _join_surrogates(value)
        return value if value is None or isinstance(value, (bool, int, float)) else str(node.value)

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


def _join_surrogates(text: str) -> str:
    """One character for each pair of escapes, as JSON writes those beyond 16 bits; YAML reads two."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return text


# JSON


def _read_json(text: str, file: FilePath) -> SceneDocument:
    repeated: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                repeated.append(key)
            found[key] = value
        return found

    try:
        data = json.loads(text, object_pairs_hook=unique, parse_int=_read_json_integer)
    except json.JSONDecodeError as error:
        raise _error(file, error.lineno, f"not valid JSON: {error.msg}") from error
    except RecursionError:
        raise _error(file, None, f"nested deeper than {MAX_NESTING} levels") from None
    data = _plain_copy(data, file)
    if repeated:
        _read_yaml(text, file)  # raises with the line
        raise _error(file, None, f"the key {repeated[0]!r} appears twice in one mapping")
    return SceneDocument(data, file, _json_lines(text, file))


def _read_json_integer(digits: str) -> int | float:
    """Python refuses integers of thousands of digits; infinity fails where it is used, with its line."""
    return int(digits) if len(digits) < 1000 else float(digits)


def _json_lines(text: str, file: FilePath) -> dict[Path, int]:
    """JSON is YAML once tabs, which can only stand between values, are spaces."""
    lines: dict[Path, int] = {}
    try:
        root = _compose(text.replace("\t", " "), file)
        converter = _NodeConverter(file)
        converter.check_size(root)
        converter.mark(root, (), lines)
    except SapSceneError:  # a text that only JSON understands has no line numbers
        return {}
    return lines


def _plain_copy(value: Any, file: FilePath | None = None) -> Any:
    """Copy mappings and sequences into dicts and lists, so that a scene does not share data with its caller."""
    count = 0

    def copy(item: Any, depth: int) -> Any:
        nonlocal count
        count += 1
        if depth > MAX_NESTING or count > MAX_NODES:
            what = (
                f"nested deeper than {MAX_NESTING} levels" if depth > MAX_NESTING else f"more than {MAX_NODES} values"
            )
            raise _error(file, None, what)
        if isinstance(item, Mapping):
            return {key: copy(part, depth + 1) for key, part in item.items()}
        if isinstance(item, (list, tuple)):
            return [copy(part, depth + 1) for part in item]
        if hasattr(item, "tolist") and not isinstance(item, (str, bytes)):  # NumPy arrays and scalars
            return copy(item.tolist(), depth + 1)
        return item

    return copy(value, 0)
