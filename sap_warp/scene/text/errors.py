"""Problems of a scene: what is wrong, with file, line and path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...core.printable import printable

Path = tuple[str | int, ...]
"""Keys and list indices from the top of a scene down to a value."""

MAX_PROBLEMS = 1000
"""Most problems of one kind that are looked for; more usually have one cause."""
MAX_SHOWN = 50
"""Most problems that a message lists."""


def format_path(path: Path) -> str:
    """Return a path as people write it: ``bodies[2].shapes[0].hx``."""
    text = ""
    for part in path:
        if isinstance(part, int) and not isinstance(part, bool):
            text += f"[{part}]"
        else:
            name = part if isinstance(part, str) and part.isprintable() and 0 < len(part) <= 60 else show(part)
            text += f".{name}" if text else name
    return text


def show(value: Any) -> str:
    """Return a shortened text of ``value`` for a message."""
    if isinstance(value, dict):
        return "a mapping"
    try:
        text = repr(value)
    except ValueError:  # an integer with thousands of digits
        return "a very large number"
    except Exception:
        return f"an object of {type(value).__name__} that cannot be shown"
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a scene."""

    message: str
    """What was found, and what is accepted."""
    path: Path = ()
    """Path inside the scene."""
    file: str | None = None
    """Scene file; None for a scene that was given as a mapping."""
    line: int | None = None
    """Line in that file, from 1."""

    def __str__(self) -> str:
        where = self.file or "scene"
        if self.line is not None:
            where += f":{self.line}"
        inside = format_path(self.path)
        return printable(f"{where}: {inside}: {self.message}" if inside else f"{where}: {self.message}")


class SapSceneError(ValueError):
    """A scene cannot be loaded; lists everything that is wrong with it, in the order of the file."""

    problems: tuple[Problem, ...]
    """All problems that were found."""

    def __init__(self, problems: Iterable[Problem]):
        unique = dict.fromkeys(problems)
        self.problems = tuple(sorted(unique, key=lambda problem: problem.line or 0))
        lines = [str(problem) for problem in self.problems[:MAX_SHOWN]]
        if len(self.problems) > MAX_SHOWN:
            lines.append(f"and {len(self.problems) - MAX_SHOWN} more problems")
        super().__init__("\n".join(lines))


class SapUnsupportedSceneFeature(SapSceneError):
    """Raised with ``strict=True`` if a scene asks for something that is understood but not simulated."""


class Complaint(ValueError):
    """Raised where a value is looked at; the reader of the scene adds file, line and the path up to there."""

    def __init__(self, message: str, path: Path = (), others: tuple[Complaint, ...] = ()):
        super().__init__(message)
        self.message = message
        self.path = path
        """Path relative to the value that was looked at."""
        self.others = others
        """Further complaints about the same value."""

    def under(self, path: Path) -> Complaint:
        """Return this complaint with ``path`` in front of its own path."""
        return Complaint(self.message, (*path, *self.path), tuple(other.under(path) for other in self.others))

    def __iter__(self) -> Iterator[Complaint]:
        """Yield this complaint and all others."""
        yield self
        for other in self.others:
            yield from other


@contextmanager
def below(*path: str | int) -> Iterator[None]:
    """Put ``path`` in front of the path of a complaint that is raised inside."""
    try:
        yield
    except Complaint as complaint:
        raise complaint.under(path) from None


class Gathered:
    """Complaints about the parts of one value, to be raised together."""

    def __init__(self) -> None:
        self.found: list[Complaint] = []

    @contextmanager
    def part(self, *path: str | int) -> Iterator[None]:
        """Keep a complaint that is raised inside, with ``path`` in front of its own, and go on."""
        try:
            yield
        except Complaint as complaint:
            self.found.append(complaint.under(path))

    def raise_all(self) -> None:
        """Raise what was kept."""
        if self.found:
            first, *rest = self.found
            raise Complaint(first.message, first.path, (*first.others, *rest[:MAX_PROBLEMS]))
