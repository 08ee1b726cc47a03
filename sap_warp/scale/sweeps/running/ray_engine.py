"""Workers on a Ray cluster: actors, each a process with its own processor or share of a GPU.

Only tasks, rows and, once to each machine, compiled kernels travel. A worker that dies, is killed for its memory, or
loses its node is noticed by Ray, one that hangs by its beats; another is made where there is room, and the task that
it had is done again. Workers write nothing, so that nothing of theirs can be half written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...cluster import ClusterError, pack_kernels, prepare_worker, require_ray, worker_environment, worker_setup
from ..results.dataset import Dataset, make_schema, make_table
from .execute import run_task
from .job import Job, Task
from .schedule import Event

_ANSWER_SECONDS = 2.0
"""Longest wait for a worker's progress [s]."""

STILLBORN = 3
"""Most workers that may die before they are ready, for each wanted one; then the run gives up."""


class SweepWorker:
    """One worker; Ray runs `work` in one thread and `beats` in another."""

    def __init__(self, job: Job, columns: tuple[Any, ...], setup: Any, kernels: Any):
        """Make the process ready; ``columns`` are arguments of `make_schema`."""
        import warnings

        warnings.simplefilter("ignore")  # the rows say it
        prepare_worker(setup, kernels)
        self._job, self._columns = job, columns
        self._schema = make_schema(*columns)
        self._beats = 0

    def ready(self) -> bool:
        """Return once the process is ready."""
        return True

    def beats(self) -> int:
        """Return the progress."""
        return self._beats

    def _beat(self) -> None:
        self._beats += 1

    def work(self, task: Task) -> Any:
        """Return the rows of a task."""
        paths, kinds, _ = self._columns
        return make_table(self._schema, paths, kinds, run_task(self._job, task, self._beat))


@dataclass(eq=False)
class _Worker:
    handle: Any


class RayEngine:
    """Engine on Ray, see `schedule.Engine`; `cluster.connect` has been called."""

    def __init__(self, job: Job, dataset: Dataset, workers: int, cpus: float = 1.0, gpus: float = 0.0):
        """Store the settings; nothing runs yet.

        Args:
            job: The sweep.
            dataset: Where rows go; only its columns are looked at.
            workers: How many.
            cpus: Processors of each.
            gpus: GPUs of each.
        """
        self._ray = require_ray()
        columns = (dataset.definition.paths, dataset.kinds, dataset.signals)
        # a machine that is full of memory or gone is no reason to wait for its workers: the scheduler makes others
        options = {"num_cpus": cpus, "num_gpus": gpus, "max_restarts": 0, "max_concurrency": 2}
        self._class = self._ray.remote(SweepWorker).options(**options, runtime_env=worker_environment())
        kernels = self._ray.put(pack_kernels())
        self._arguments = (job, columns, worker_setup(), kernels)
        self._count = workers
        self._workers: list[_Worker] = []
        self._waited: dict[Any, tuple[str, _Worker]] = {}
        """Answers that are to come: what they mean, and whose."""
        self._stillborn = 0
        """Workers in a row that were never ready."""

    def start(self) -> None:
        """Ask Ray for all workers; those that do not fit come when resources are free."""
        for _ in range(self._count):
            self._begin()

    def _begin(self) -> None:
        worker = _Worker(self._class.remote(*self._arguments))
        self._workers.append(worker)
        self._waited[worker.handle.ready.remote()] = ("ready", worker)

    def give(self, worker: _Worker, task: Task) -> None:
        """Hand over a task."""
        self._waited[worker.handle.work.remote(task)] = ("done", worker)

    def wait(self, seconds: float) -> list[Event]:
        """Return answers of workers, and Ray's reports of lost ones.

        Raises:
            ClusterError: No worker can be made ready.
        """
        answers, _ = self._ray.wait(list(self._waited), num_returns=1, timeout=seconds)
        events = []
        for answer in answers:
            kind, worker = self._waited.pop(answer)
            try:
                value = self._ray.get(answer)
                self._stillborn = 0
                events.append(Event(kind, worker, value if kind == "done" else None))
            except self._ray.exceptions.RayError as error:
                self._stillborn += kind == "ready"
                if self._stillborn > STILLBORN * self._count:
                    raise ClusterError(f"No worker gets ready: {describe(error)}") from error
                events.append(Event("lost", worker, reason=describe(error)))
        return events

    def beats(self, workers: Iterable[_Worker]) -> dict[Any, int]:
        """Ask all workers for their progress; those that do not answer soon are left out."""
        asked = {worker.handle.beats.remote(): worker for worker in workers}
        answers, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=_ANSWER_SECONDS) if asked else ([], [])
        found = {}
        for answer in answers:
            try:
                found[asked[answer]] = self._ray.get(answer)
            except self._ray.exceptions.RayError:
                continue  # `wait` hears of it too
        return found

    def replace(self, worker: _Worker) -> None:
        """Kill a worker and ask for another."""
        self._forget(worker)
        self._begin()

    def close(self) -> None:
        """Kill all workers."""
        for worker in list(self._workers):
            self._forget(worker)

    def _forget(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        self._waited = {answer: owner for answer, owner in self._waited.items() if owner[1] is not worker}
        self._ray.kill(worker.handle, no_restart=True)


def describe(error: BaseException) -> str:
    """Return Ray's reason for the loss of a worker in one line."""
    first, *others = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: {first[:250]}" + (f" ... {others[-1][:500]}" if others else "")
