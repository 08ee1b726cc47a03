"""XML elements that know their file and line, and read numbers from their attributes."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.parsers import expat

import numpy as np

from .errors import Complaint


class Node(ElementTree.Element):
    """An XML element with its file and line."""

    file: str = ""
    """Name of the file, empty for a text."""
    line: int = 0
    """Line of the start tag."""
    inherited: dict[str, Node]
    """Element of a default class that gave an attribute, by name of the attribute."""

    def __init__(self, tag: str, attrib: dict[str, str] | None = None, origin: Node | None = None):
        super().__init__(tag, {} if attrib is None else dict(attrib))
        self.inherited = {}
        if origin is not None:
            self.file, self.line = origin.file, origin.line

    if TYPE_CHECKING:  # all that is in a node is a node

        def __iter__(self) -> Iterator[Node]: ...

    def location(self, attribute: str | None = None) -> str:
        """Where the element or one of its attributes was written: ``robot.xml:12``."""
        node = self if attribute is None else self.inherited.get(attribute, self)
        return f"{node.file or 'line'}{':' if node.file else ' '}{node.line}"

    def copy(self) -> Node:
        """Copy the element with everything in it."""
        twin = Node(self.tag, self.attrib, self)
        twin.inherited, twin.text = dict(self.inherited), self.text
        twin.extend([child.copy() for child in self])
        return twin

    def children(self, *tags: str) -> list[Node]:
        """Return the direct children with one of these tags."""
        return [child for child in self if child.tag in tags]

    def numbers(self, name: str, count: int | None = None) -> np.ndarray:
        """Return the numbers of an attribute; ``count`` says how many there have to be."""
        try:
            values = np.array(self.get(name, "").split(), dtype=np.float64)
        except ValueError:
            values = np.full(1, np.nan)
        if not np.isfinite(values).all() or (count is not None and len(values) != count):
            what = "numbers" if count is None else "a number" if count == 1 else f"{count} numbers"
            raise Complaint(f"{self.location(name)}: {name} of <{self.tag}> is {self.get(name)!r}; it takes {what}", ())
        return values

    def number(self, name: str, default: float) -> float:
        """Return one number of an attribute that may be missing."""
        return default if self.get(name) is None else float(self.numbers(name, 1)[0])

    def put(self, name: str, values: np.ndarray | list[float]) -> None:
        """Set an attribute to numbers."""
        self.set(name, " ".join(repr(float(value)) for value in values))

    def drop(self, *names: str) -> None:
        """Remove attributes."""
        for name in names:
            self.attrib.pop(name, None)

    def is_true(self, name: str, auto: bool) -> bool:
        """Read a switch that is true, false, or auto if it is not given."""
        return {"true": True, "false": False}.get(self.get(name, "auto"), auto)


def parse_xml(text: str | bytes, file: str) -> Node:
    """Return the root element of ``text``.

    Raises:
        Complaint: It is not well-formed.
    """
    data = text.encode() if isinstance(text, str) else text
    body = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    first = data[: len(data) - len(body)].count(b"\n")  # lines before the first element count too
    stack: list[Node] = []
    roots: list[Node] = []
    parser = expat.ParserCreate("utf-8" if isinstance(text, str) else None)

    def start(tag: str, attributes: dict[str, str]) -> None:
        node = Node(tag, attributes)
        node.file, node.line = file, first + parser.CurrentLineNumber
        (stack[-1].append if stack else roots.append)(node)
        stack.append(node)

    def add_text(text: str) -> None:
        if stack and not len(stack[-1]):
            stack[-1].text = (stack[-1].text or "") + text

    parser.StartElementHandler = start
    parser.CharacterDataHandler = add_text
    parser.EndElementHandler = lambda _: stack.pop()
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        line = first + error.lineno
        where = f"{file}:{line}" if file else f"line {line}"
        raise Complaint(f"{where}: not valid XML: {expat.errors.messages[error.code]}") from None
    return roots[0]


def walk(node: Node) -> Iterator[Node]:
    """Yield ``node`` and everything in it, in the order of the document."""
    yield node
    for child in node:
        yield from walk(child)


def list_locations(found: dict[str, list[str]]) -> list[str]:
    """Return one line for each message, with its first place and the number of others."""
    return [
        f"{locations[0]}{f' and {len(locations) - 1} more' if len(locations) > 1 else ''}: {what}"
        for what, locations in found.items()
    ]
