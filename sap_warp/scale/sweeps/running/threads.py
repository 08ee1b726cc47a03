"""Embedded engine: workers are threads of this process, each with its own simulations.

Steps run outside of Python's lock, so threads share the processors. A thread that hangs is left behind and another one
takes its place; one that brings the process down takes all with it, and the sweep goes on with ``resume``.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..results.dataset import Dataset, make_table
from .execute import run_task
from .job import Job, Task
from .schedule import Event

JOIN_SECONDS = 10.0
"""Longest wait for threads that were told to stop [s]."""


class Stopped(BaseException):
    """The worker was told to stop, which is not an error of the work."""


class _Worker(threading.Thread):
    def __init__(self, job: Job, dataset: Dataset, news: queue.Queue[Event]):
        super().__init__(daemon=True, name="sweep")
        self.job, self._dataset, self._news = job, dataset, news
        self.tasks: queue.Queue[Task | None] = queue.Queue()
        self.stopped = threading.Event()
        self.beats = 0

    def beat(self) -> None:
        if self.stopped.is_set():
            raise Stopped
        self.beats += 1

    def run(self) -> None:
        self._news.put(Event("ready", self))
        dataset = self._dataset
        try:
            while (task := self.tasks.get()) is not None:
                rows = run_task(self.job, task, self.beat)
                table = make_table(dataset.schema, dataset.definition.paths, dataset.kinds, rows)
                self._news.put(Event("done", self, table))
        except Stopped:
            pass
        except BaseException as error:
            self._news.put(Event("lost", self, reason=f"{type(error).__name__}: {error}"))


class ThreadEngine:
    """Engine of threads, see `schedule.Engine`."""

    def __init__(self, job: Job, dataset: Dataset, workers: int, devices: Sequence[str] = ()):
        """Store the settings; nothing runs yet. Workers take ``devices`` in turn."""
        self._dataset = dataset
        self._news: queue.Queue[Event] = queue.Queue()
        self._jobs = [replace(job, device=devices[i % len(devices)] if devices else job.device) for i in range(workers)]
        self._workers: list[_Worker] = []

    def start(self) -> None:
        """Start all threads."""
        for job in self._jobs:
            self._begin(job)

    def _begin(self, job: Job) -> None:
        worker = _Worker(job, self._dataset, self._news)
        self._workers.append(worker)
        worker.start()

    def give(self, worker: _Worker, task: Task) -> None:
        """Hand over a task."""
        worker.tasks.put(task)

    def wait(self, seconds: float) -> list[Event]:
        """Return reports of workers that were not abandoned."""
        try:
            found = [self._news.get(timeout=seconds)]
        except queue.Empty:
            return []
        while not self._news.empty():
            found.append(self._news.get())
        return [event for event in found if event.worker in self._workers]

    def beats(self, workers: Iterable[_Worker]) -> dict[Any, int]:
        """Return the progress, counted in this process."""
        return {worker: worker.beats for worker in workers}

    def replace(self, worker: _Worker) -> None:
        """Abandon a thread, and start another one."""
        worker.stopped.set()
        self._workers.remove(worker)
        self._begin(worker.job)

    def close(self) -> None:
        """Tell all threads to stop after their present samples, and wait for them a while."""
        for worker in self._workers:
            worker.stopped.set()
            worker.tasks.put(None)
        for worker in self._workers:
            worker.join(JOIN_SECONDS)
