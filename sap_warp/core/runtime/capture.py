"""Locks for graphs: they are captured one at a time, and while no other thread launches.

While one thread captures a graph, Warp records the launches of every thread into it instead of running them. So whoever
captures waits until launches of this package are over, and holds new ones back. Replays of graphs are not concerned:
they go on, in as many threads as there are. Launches of a user's own in other threads are the user's to hold back.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from .cache import with_kernels

P = ParamSpec("P")
R = TypeVar("R")


class _Gate:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.launching = 0  # threads that launch
        self.capturing = 0  # threads that capture or wait to
        self.owner = 0  # the thread that captures
        self.preparing = threading.RLock()
        self.mine = threading.local()  # whether this thread launches or captures: then it passes


_gate = _Gate()


def _renew() -> None:
    """Make new locks in a forked process, which has none of the other threads."""
    global _gate
    _gate = _Gate()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def launches(function: Callable[P, R]) -> Callable[P, R]:
    """Let ``function``, which launches kernels, wait while another thread captures a graph."""

    @functools.wraps(function)
    def waiting(*arguments: P.args, **options: P.kwargs) -> R:
        gate = _gate
        if getattr(gate.mine, "inside", False):
            return function(*arguments, **options)
        try:
            with gate.changed:
                gate.changed.wait_for(lambda: not gate.capturing)
                gate.launching += 1
                gate.mine.inside = True
            return with_kernels(lambda: function(*arguments, **options))
        finally:
            _leave(gate, "launching")

    return waiting


@contextmanager
def capturing() -> Iterator[None]:
    """Allow this thread to capture graphs and launch, and let all others wait."""
    gate = _gate
    if getattr(gate.mine, "inside", False):
        yield
        return
    try:
        with gate.changed:
            gate.capturing += 1
            gate.mine.inside = True
            gate.changed.wait_for(lambda: not gate.launching and not gate.owner)
            gate.owner = threading.get_ident()
        yield
    finally:
        _leave(gate, "capturing")


def _leave(gate: _Gate, what: str) -> None:
    if getattr(gate.mine, "inside", False):
        gate.mine.inside = False
        with gate.changed:
            setattr(gate, what, getattr(gate, what) - 1)
            if gate.owner == threading.get_ident():
                gate.owner = 0
            gate.changed.notify_all()


@contextmanager
def preparing() -> Iterator[None]:
    """Let one thread at a time compile and capture."""
    with _gate.preparing:
        yield
