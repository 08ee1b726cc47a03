"""Checks of names and paths that a scene gives, and suggestions for misspelt ones."""

import difflib
import unicodedata
from collections.abc import Iterable
from itertools import islice
from pathlib import PurePosixPath

from .errors import AssetSourceError

TEXT_MAX = 2048
"""Characters that one text of a source may have; longer than any address or path in use."""

_CANDIDATES_MAX = 20_000
_CONTROL = {"Cc", "Cs", "Zl", "Zp"}  # control characters, lone surrogates, line and paragraph separators


def check_text(what: str, value: object) -> str:
    """Return ``value`` if it is a text that is safe to show, to store and to hand to the system.

    Args:
        what: Name of the value in messages, such as ``git.rev``.
        value: Anything a scene may hold in this place.
    """
    if not isinstance(value, str):
        raise AssetSourceError(f"{what} must be a text, found {type(value).__name__} {value!r:.80}.")
    if not value:
        raise AssetSourceError(f"{what} is empty.")
    if len(value) > TEXT_MAX:
        raise AssetSourceError(f"{what} has {len(value)} characters; at most {TEXT_MAX} are accepted.")
    if any(unicodedata.category(c) in _CONTROL for c in value):
        raise AssetSourceError(f"{what} {shown(value)} contains a control character; remove it.")
    if value != value.strip():
        raise AssetSourceError(f"{what} {shown(value)} begins or ends with white space; remove it.")
    return value


def check_relative_path(what: str, value: object, inside: str) -> PurePosixPath:
    """Return ``value`` as a path below a folder that it cannot leave.

    Args:
        what: Name of the value in messages.
        value: Anything a scene may hold in this place.
        inside: What the path is relative to, such as ``the repository``.
    """
    text = check_text(what, value)
    path = PurePosixPath(text)
    if path.is_absolute():
        raise AssetSourceError(f"{what} {text!r} is absolute; it must be relative to the root of {inside}.")
    if ".." in path.parts:
        raise AssetSourceError(f"{what} {text!r} contains '..'; it must not leave {inside}.")
    if "\\" in text:
        raise AssetSourceError(f"{what} {text!r} contains a backslash; separate folders with '/'.")
    if not path.parts:
        raise AssetSourceError(f"{what} {text!r} names {inside} itself; name a file or folder in it.")
    return path


def nearest(wanted: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Return the entries of ``names`` that ``wanted`` may have meant, best first.

    The last part of a path counts most: a file of that name elsewhere comes before a file of a similar name.
    """
    pool = list(islice(names, _CANDIDATES_MAX))
    last = PurePosixPath(wanted).name.lower()
    by_last: dict[str, list[str]] = {}
    for name in pool:
        by_last.setdefault(PurePosixPath(name).name.lower(), []).append(name)
    found: list[str] = []
    for near in [last, *difflib.get_close_matches(last, by_last, n=count, cutoff=0.7)]:
        same = by_last.pop(near, [])
        found += sorted(same, key=lambda name: -difflib.SequenceMatcher(None, name, wanted).ratio())
    return found[:count]


def suggestion(wanted: str, names: Iterable[str]) -> str:
    """Return a sentence with the nearest names that begins with a space; empty if nothing is near."""
    near = nearest(wanted, names)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def shown(text: str, limit: int = 120) -> str:
    """Quote ``text`` for a message, with control characters escaped and not longer than ``limit``."""
    return ascii(text if len(text) <= limit else text[:limit] + "...")
