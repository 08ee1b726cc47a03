"""Scheduler: hands tasks to workers, repeats those of lost workers, and gives up on those that kill each of them.

An engine has workers that take one task at a time; whether they are threads or processes on other machines is its
affair. Results are taken once for each point, whoever sends them how often.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from .job import Task

ATTEMPTS = 3
"""Workers that a task may cost before its points are tried one by one, each of them once more."""


@dataclass(frozen=True)
class Event:
    """Report about a worker."""

    kind: str
    """``"ready"`` for work, ``"done"`` with a task, or ``"lost"``."""
    worker: Any
    """Name of the worker."""
    table: Any = None
    """Rows of a finished task."""
    reason: str = ""
    """Reason for the loss."""


class Engine(Protocol):
    """Interface of worker engines."""

    def start(self) -> None:
        """Start all workers; each reports when it is ready."""

    def give(self, worker: Any, task: Task) -> None:
        """Give a task to a worker that has none."""

    def wait(self, seconds: float) -> list[Event]:
        """Return reports, at the latest after ``seconds`` [s]."""

    def beats(self, workers: Iterable[Any]) -> dict[Any, int]:
        """Return a number per worker that grows while its work advances; those that do not answer are left out."""

    def replace(self, worker: Any) -> None:
        """Stop a worker, if it still lives, and start another one; nothing more is reported by the old one."""

    def close(self) -> None:
        """Stop all workers."""


@dataclass
class _Busy:
    """A worker with a task."""

    task: Task
    beat: int = -1
    since: float = 0.0
    """Time at which its beat last changed [s]."""


class Scheduler:
    """Runs tasks on the workers of an engine."""

    def __init__(self, engine: Engine, tasks: Iterable[Task], timeout: float):
        """Take over ``tasks``; a worker whose task shows no progress for ``timeout`` [s] counts as lost."""
        self._engine, self._timeout = engine, timeout
        self._waiting = deque(tasks)
        self._idle: list[Any] = []
        self._busy: dict[Any, _Busy] = {}
        self._looked = time.monotonic()
        self.losses: list[str] = []
        """Why workers were lost."""

    def run(self, done: Callable[[Task, Any], None], failed: Callable[[Task, str], None]) -> None:
        """Work until no task is left.

        Args:
            done: Called with a task and the table of its rows.
            failed: Called with a task of one point that no worker survives, and the reason.
        """
        self._engine.start()
        while self._waiting or self._busy:
            while self._waiting and self._idle:
                worker, task = self._idle.pop(0), self._waiting.popleft()
                self._busy[worker] = _Busy(task, since=time.monotonic())
                self._engine.give(worker, task)
            for event in self._engine.wait(min(1.0, 0.25 * self._timeout)):
                self._take(event, done, failed)
            self._look_after(failed)

    def _take(self, event: Event, done: Callable[[Task, Any], None], failed: Callable[[Task, str], None]) -> None:
        if event.kind == "ready":
            self._idle.append(event.worker)
        elif event.kind == "done":
            done(self._busy.pop(event.worker).task, event.table)
            self._idle.append(event.worker)
        else:
            self._lose(event.worker, event.reason, failed)

    def _look_after(self, failed: Callable[[Task, str], None]) -> None:
        """Replace workers whose work makes no progress."""
        now = time.monotonic()
        if now - self._looked < min(10.0, 0.2 * self._timeout):
            return
        self._looked = now
        beats = self._engine.beats(list(self._busy))
        for worker, busy in list(self._busy.items()):
            if beats.get(worker, busy.beat) != busy.beat:
                busy.beat, busy.since = beats[worker], now
            elif now - busy.since > self._timeout:
                self._lose(worker, f"no progress for {self._timeout:g} s", failed)

    def _lose(self, worker: Any, reason: str, failed: Callable[[Task, str], None]) -> None:
        self.losses.append(reason)
        busy = self._busy.pop(worker, None)
        if worker in self._idle:
            self._idle.remove(worker)
        self._engine.replace(worker)
        if busy is None:
            return
        task = busy.task
        if task.attempt < ATTEMPTS:
            self._waiting.append(replace(task, attempt=task.attempt + 1))
        elif len(task.points) > 1:  # one of them may be the reason; the others are not to suffer
            self._waiting.extend(replace(task, points=(point,), attempt=ATTEMPTS + 1) for point in task.points)
        else:
            failed(task, f"WorkerLost: {task.attempt} workers were lost with this point; the last one: {reason}")
