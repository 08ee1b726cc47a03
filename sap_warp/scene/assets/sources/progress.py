"""Progress lines while something is fetched."""

import re
import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

Report = Callable[[str], None]
"""Function that takes one line about what happens now, such as ``robots@261cd1f4: Receiving objects 45%``."""

PLAIN_INTERVAL = 10.0
"""Seconds between lines about one phase where they cannot be rewritten, such as in a log file."""

_PERCENT = re.compile(r"(?:remote: )?(?P<phase>[^:]+):\s+(?P<percent>\d{1,3})% \(\d+/\d+\)(?P<rest>.*)")
_AMOUNT = re.compile(r"[\d.]+ (?:bytes|[KMG]iB)\b")


def parse_progress(line: str) -> str | None:
    """Return ``Receiving objects 45%, 1.20 MiB`` from a line of git's ``--progress``; None for any other line."""
    match = _PERCENT.match(line)
    if match is None:
        return None
    amount = _AMOUNT.search(match["rest"])
    return f"{match['phase']} {int(match['percent'])}%" + (f", {amount[0]}" if amount else "")


class StreamReporter:
    """Writes progress to a stream: one line that is rewritten on a terminal, else a few plain lines.

    Args:
        stream: None for standard error.
        clock: Time [s] from any start; plain lines about the same phase are `PLAIN_INTERVAL` apart.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic):
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._clock = clock
        self._phase = ""
        self._next = 0.0
        self._open = False

    def __call__(self, text: str) -> None:
        """Show ``text``; lines that differ only in their numbers belong to one phase."""
        if self._terminal:
            width = max(20, shutil.get_terminal_size().columns - 1)
            self._stream.write("\r\x1b[2K" + text[:width])
            self._stream.flush()
            self._open = True
            return
        phase = re.sub(r"\d+%.*", "", text)
        if phase != self._phase or self._clock() >= self._next:
            self._phase = phase
            self._next = self._clock() + PLAIN_INTERVAL
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """End the line that is being rewritten."""
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
            self._open = False
