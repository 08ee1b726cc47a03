"""Work that takes long enough for the user to be told about it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .notes import say

LONG = 10.0
"""Seconds from which on work is announced."""
INTERVAL = 30.0
"""Seconds between lines about work that goes on, where there is no terminal."""


@contextmanager
def long_work(what: str, seconds: float = LONG) -> Iterator[None]:
    """A bar on a terminal, a line now and then elsewhere; Ctrl-C ends the work in either case.

    Args:
        what: What is being done.
        seconds: How long it will take; nothing is said of what is short.
    """
    if seconds < LONG:
        yield
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            progress.add_task(what, total=None)
            yield
    else:
        done = threading.Event()

        def report() -> None:
            passed = 0.0
            while not done.wait(INTERVAL):
                passed += INTERVAL
                say(f"{what}; {passed:.0f} s have passed")

        say(what)
        reporter = threading.Thread(target=report, name="sap-warp-progress", daemon=True)
        reporter.start()
        try:
            yield
        finally:
            done.set()
            reporter.join()
