"""Parse YAML text into plain data, with the line of every value.

Plain words are read as YAML 1.2 reads them (its core schema), which is what people mean: ``010`` is ten, ``1e3`` is a
thousand, ``1:30``, ``1_000``, ``yes``, ``off`` and dates are texts. The text is read as a stream of events, so that
what is too large or too deep is refused where it becomes so, and nothing recurses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from .errors import Problem, SapSceneError, show

MAX_NODES = 500_000
"""Most values in a scene; keys count, and repeated anchors count each time they are used."""
MAX_NESTING = 100
"""Deepest nesting of mappings and lists."""
MAX_RETRY = 2**16
"""Longest text that is parsed again by the slower Python parser for a better message [characters]."""

_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= {word: True for word in ("true", "True", "TRUE")} | {word: False for word in ("false", "False", "FALSE")}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_STANDARD = "tag:yaml.org,2002:"


@dataclass(slots=True)
class Location:
    """Where a mapping or a list stands, and its parts."""

    line: int
    """First line of it, from 1."""
    parts: dict[Any, tuple[int, Any]] | list[Any] = field(default_factory=list)
    """Line of the key and location of the value by key, or location by index; a single value has only a line."""


@dataclass(slots=True)
class YamlDocument:
    """What a YAML text holds."""

    data: Any
    location: Any
    """`Location` of the data, or the line of a single value; None for a text without content."""
    problems: list[Problem]
    """Errors that have a line and leave the rest readable: repeated keys, tags, undefined references."""


@dataclass(slots=True)
class _Frame:
    """A mapping or list that is being read."""

    data: Any
    location: Location
    count: int
    anchor: str | None
    height: int = 0
    key: Any = None
    key_line: int = 0
    """Line of the key whose value comes next; 0 if a key comes next."""
    merged: list[tuple[Any, Any, int]] = field(default_factory=list)


_MERGE = object()
_REFUSED_KEY = object()


def read_yaml(text: str, file: FilePath) -> YamlDocument:
    """Read the only document of ``text``.

    Raises:
        SapSceneError: The text is not YAML, or too large.
    """
    import yaml

    loaders = [getattr(yaml, "CSafeLoader", yaml.SafeLoader)]
    if len(text) <= MAX_RETRY:
        loaders.append(yaml.SafeLoader)  # takes a little more, such as surrogates, and explains better
    for loader in loaders:
        try:
            return _Reader(file).read(yaml.parse(text, Loader=loader))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            what = " ".join(filter(None, (error.context, error.problem)))
            failure = syntax_error(file, mark.line + 1 if mark else None, what)
        except yaml.reader.ReaderError as error:
            position = min(error.position, len(text) - 1)
            what = f"the character U+{ord(text[position]):04X} is not allowed"
            failure = syntax_error(file, text.count("\n", 0, position) + 1, what)
        except SapSceneError:
            raise
        except Exception as error:  # odd escapes and version directives raise what Python raises on their numbers
            failure = syntax_error(file, None, str(error))
    raise failure


def syntax_error(file: FilePath, line: int | None, what: str) -> SapSceneError:
    """An error about the text itself."""
    return SapSceneError([Problem(f"not valid YAML: {what}", (), str(file), line)])


def read_long_integer(digits: str) -> int | float:
    """Read an integer; infinite if it has more digits than Python accepts, to fail where it is used, with its line."""
    return int(digits) if len(digits) < 1000 else float(digits)


class _Reader:
    """Builds data and locations from events."""

    def __init__(self, file: FilePath):
        self.file = file
        self.problems: list[Problem] = []
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, Any, int, int]] = {}
        """Value, location, number of values and height by name; those that are still open have the height -1."""
        self.count = 0
        self.result: tuple[Any, Any] | None = None

    def read(self, events: Iterator[Any]) -> YamlDocument:
        documents = 0
        for event in events:
            kind, line = type(event).__name__, event.start_mark.line + 1
            if kind == "ScalarEvent":
                self._scalar(event, line)
            elif kind in ("SequenceStartEvent", "MappingStartEvent"):
                self._open(event, line, mapping=kind == "MappingStartEvent")
            elif kind in ("SequenceEndEvent", "MappingEndEvent"):
                self._close()
            elif kind == "AliasEvent":
                self._alias(event.anchor, line)
            elif kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    what = "expected a single document in the stream but found another document"
                    raise syntax_error(self.file, line, what)
        data, location = self.result or (None, None)
        return YamlDocument(data, location, self.problems)

    def _fail(self, line: int, message: str) -> SapSceneError:
        return SapSceneError([Problem(message, (), str(self.file), line)])

    def _note(self, line: int, message: str) -> None:
        self.problems.append(self._fail(line, message).problems[0])

    def _grow(self, line: int, size: int, height: int = 0) -> None:
        """Count values before they are built."""
        self.count += size
        if self.count > MAX_NODES:
            raise self._fail(line, f"more than {MAX_NODES} values, repeated anchors included")
        if len(self.stack) + height > MAX_NESTING:
            raise self._fail(line, f"nested deeper than {MAX_NESTING} levels")

    def _scalar(self, event: Any, line: int) -> None:
        self._grow(line, 1)
        value = self._read_scalar(event, line)
        if event.anchor is not None:
            self._name(event.anchor, line, (value, line, 1, 0))
        frame = self.stack[-1] if self.stack else None
        if frame is not None and isinstance(frame.data, dict) and not frame.key_line:
            plain = event.tag is None and event.implicit[0]
            self._take_key(frame, _MERGE if plain and value == "<<" else value, line)
        else:
            self._put(value, line, 0)

    def _read_scalar(self, event: Any, line: int) -> Any:
        text, tag = event.value, event.tag
        if tag is None:
            return resolve_plain(text) if event.implicit[0] else join_surrogates(text)
        if tag in ("!", _STANDARD + "str"):
            return join_surrogates(text)
        kinds = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}
        kind = tag.removeprefix(_STANDARD)
        if kind not in kinds:
            self._refuse_tag(tag, line)
            return text
        value = resolve_plain(text)
        if type(value) not in kinds[kind]:
            self._note(line, f"cannot read {show(text)} as {kind}")
        return value

    def _refuse_tag(self, tag: str, line: int) -> None:
        shown = "!!" + tag.removeprefix(_STANDARD) if tag.startswith(_STANDARD) else tag
        self._note(line, f"the tag {show(shown)} means nothing in a scene; remove it")

    def _open(self, event: Any, line: int, *, mapping: bool) -> None:
        self._grow(line, 1)
        if event.tag not in (None, "!", _STANDARD + ("map" if mapping else "seq")):
            self._refuse_tag(event.tag, line)
        frame = _Frame({} if mapping else [], Location(line, {} if mapping else []), self.count, event.anchor)
        if event.anchor is not None:
            self._name(event.anchor, line, (None, frame.location, 0, -1))
        self.stack.append(frame)
        if len(self.stack) > MAX_NESTING + 1:
            raise self._fail(line, f"nested deeper than {MAX_NESTING} levels")

    def _close(self) -> None:
        frame = self.stack.pop()
        if frame.merged:
            self._merge(frame)
        if frame.anchor is not None:
            self.anchors[frame.anchor] = (frame.data, frame.location, self.count - frame.count + 1, frame.height)
        self._put(frame.data, frame.location, frame.height)

    def _name(self, anchor: str, line: int, meaning: tuple[Any, Any, int, int]) -> None:
        if anchor in self.anchors:
            self._note(line, f"the anchor &{anchor} appears twice")
        self.anchors[anchor] = meaning

    def _alias(self, anchor: str, line: int) -> None:
        if anchor not in self.anchors:
            raise syntax_error(self.file, line, f"found undefined alias {anchor!r}")
        value, location, size, height = self.anchors[anchor]
        if height < 0:
            raise self._fail(location.line, "an anchor that contains itself")
        self._grow(line, size, height)
        frame = self.stack[-1]
        if isinstance(frame.data, dict) and not frame.key_line:
            self._take_key(frame, _REFUSED_KEY if isinstance(value, (dict, list)) else value, line)
        else:
            self._put(value, location if isinstance(location, Location) else line, height)

    def _take_key(self, frame: _Frame, key: Any, line: int) -> None:
        if key is _REFUSED_KEY:
            self._note(line, "a list or mapping cannot be a key")
        elif key is not _MERGE and key in frame.data:
            self._note(line, f"the key {show(key)} appears twice in one mapping")
            key = _REFUSED_KEY  # the first one stays
        frame.key, frame.key_line = key, line

    def _put(self, value: Any, location: Any, height: int) -> None:
        """Add a finished value to what contains it."""
        if not self.stack:
            self.result = (value, location)
            return
        frame = self.stack[-1]
        frame.height = max(frame.height, height + 1)
        if isinstance(frame.data, list):
            frame.data.append(value)
            frame.location.parts.append(location)  # type: ignore[union-attr]
        elif not frame.key_line:
            self._take_key(frame, _REFUSED_KEY, location.line)
        else:
            if frame.key is _MERGE:
                frame.merged.append((value, location, frame.key_line))
            elif frame.key is not _REFUSED_KEY:
                frame.data[frame.key] = value
                frame.location.parts[frame.key] = (frame.key_line, location)
            frame.key, frame.key_line = None, 0

    def _merge(self, frame: _Frame) -> None:
        """Take over keys of other mappings; own keys win, then those of earlier mappings."""
        inherited: dict[Any, Any] = {}
        parts: dict[Any, tuple[int, Any]] = {}
        for value, location, line in frame.merged:
            sources = value if isinstance(value, list) else [value]
            locations = location.parts if isinstance(value, list) else [location]
            for source, its_location in zip(sources, locations, strict=True):
                if not isinstance(source, dict):
                    self._note(line, "'<<' takes a mapping or a list of mappings")
                    continue
                for key, part in source.items():
                    inherited.setdefault(key, part)
                    parts.setdefault(key, its_location.parts[key])
        own, own_parts = dict(frame.data), dict(frame.location.parts)
        frame.data.clear()
        frame.data.update({**inherited, **own})
        frame.location.parts = {**parts, **own_parts}


def resolve_plain(text: str) -> Any:
    """Return the value of a word without quotes, by the core schema of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return join_surrogates(text)
    if _INTEGER.fullmatch(text):
        base = {"0o": 8, "0x": 16}.get(text[:2])
        return read_long_integer(text) if base is None else int(text[2:], base)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return join_surrogates(text)


def join_surrogates(text: str) -> str:
    """Join pairs of escapes, by which JSON writes characters beyond 16 bits, into one character."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return text
