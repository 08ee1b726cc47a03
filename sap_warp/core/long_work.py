"""Tell the user about work that takes long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .notes import say

LONG = 10.0
"""Duration from which on work is announced [s]."""
INTERVAL = 30.0
"""Time between lines about work that goes on, where there is no terminal [s]."""


@contextmanager
def long_work(what: str, seconds: float = LONG) -> Iterator[None]:
    """Show a bar on a terminal, or lines elsewhere; Ctrl-C ends the work in either case.

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
