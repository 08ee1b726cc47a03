"""What is wrong with a scene, and where: the file, the line and the path inside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""Keys and list indices from the top of a scene down to a value."""


def format_path(path: Path) -> str:
    """A path as people write it: ``bodies[2].shapes[0].hx``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else str(part)
    return text


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a scene."""

    message: str
    """What was found and what is accepted."""
    path: Path = ()
    """Where inside the scene."""
    file: str | None = None
    """Scene file; None for a scene that was given as a mapping."""
    line: int | None = None
    """Line in that file, from 1."""

    def __str__(self) -> str:
        where = self.file or "scene"
        if self.line is not None:
            where += f":{self.line}"
        inside = format_path(self.path)
        return f"{where}: {inside}: {self.message}" if inside else f"{where}: {self.message}"


class SapSceneError(ValueError):
    """A scene cannot be loaded; lists everything that is wrong with it, in the order of the file."""

    problems: tuple[Problem, ...]
    """All problems that were found."""

    def __init__(self, problems: Iterable[Problem]):
        unique = dict.fromkeys(problems)
        self.problems = tuple(sorted(unique, key=lambda problem: problem.line or 0))
        super().__init__("\n".join(map(str, self.problems)))


class SapUnsupportedSceneFeature(SapSceneError):
    """A scene asks for something that is understood but not simulated, and was loaded with ``strict=True``."""


class Complaint(ValueError):
    """Raised where a value is looked at; the reader of the scene adds file, line and the path up to there."""

    def __init__(self, message: str, path: Path = ()):
        super().__init__(message)
        self.message = message
        self.path = path
        """Path relative to the value that was looked at."""


@contextmanager
def below(*path: str | int) -> Iterator[None]:
    """Put ``path`` in front of the path of a complaint that is raised inside."""
    try:
        yield
    except Complaint as complaint:
        raise Complaint(complaint.message, (*path, *complaint.path)) from None
