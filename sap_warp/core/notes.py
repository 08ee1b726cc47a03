"""Notes about what loads and steps, and is probably not what was meant. Each is one line with a stable name.

They go to the logger ``sap_warp``, which prints to standard error unless logging is set up otherwise.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .printable import printable

ENVIRONMENT = "SAP_WARP_NOTES"
"""Environment variable; 0 keeps all notes from being printed."""
SHOWN = 5
"""Most labels that a message lists."""


@dataclass(frozen=True)
class Note:
    """Advice about a model or a scene."""

    id: str
    """Kind of the note, for example ``overlap``; does not change between versions."""
    message: str
    """What was found where, and what to do."""
    subject: tuple[str, int] | None = None
    """Entity that it is about: ``body``, ``joint`` or ``shape``, and its number in the model."""
    path: str = ""
    """Path inside the scene, for example ``bodies[2]``."""
    file: str | None = None
    """Scene file, if there is one."""
    line: int | None = None
    """Line in that file, from 1."""

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        return printable(": ".join(part for part in (where, self.path, self.message) if part) + f" [{self.id}]")

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return asdict(self)


def name_some(labels: Sequence[str], indices: Iterable[int]) -> str:
    """List the labels of ``indices``, or a few of them and their number; equal worlds count once."""
    names = list(dict.fromkeys(repr(labels[i]) for i in indices))
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def show_notes(notes: Iterable[Note]) -> None:
    """Print every note in one line, unless the environment says not to."""
    for note in notes:
        say(f"note: {note}")


def say(line: str) -> None:
    """Print one line, unless the environment says not to."""
    if os.environ.get(ENVIRONMENT) != "0":
        logging.getLogger("sap_warp").warning("%s", line)
