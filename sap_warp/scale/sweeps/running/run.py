"""Run a sweep: check, plan, run, and keep the rows."""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..definition.check import Checked, check_definition
from ..definition.definition import Definition, name_scene, read_variations
from ..errors import SweepError
from ..results.dataset import Dataset, Writer, import_pyarrow, make_table
from ..results.result import SweepResult
from .execute import failed_row, run_task
from .job import BATCH, Job, Task, plan_tasks
from .schedule import Engine, Scheduler
from .threads import ThreadEngine

ENGINES = ("threads", "ray")
FLUSH_SECONDS, FLUSH_GROWTH, FLUSH_ROWS = 1.0, 0.02, 2000
"""Rows are written after so long [s], and so much longer for each file that is there [s], or if there are so many: a
day of small tasks makes some three thousand files, which resuming reads in a moment."""
Progress = Callable[[int, int, int], None]
"""Function called with finished points, their total, and how many of them failed."""


@dataclass(frozen=True)
class EngineOptions:
    """Options of how a sweep is run; its numbers do not depend on them."""

    engine: str = "threads"
    """``"threads"`` of this process, or ``"ray"``."""
    workers: int | None = None
    """Threads or Ray actors; None for as many as there are processors, or GPUs if workers have some."""
    batch: int | None = None
    """Most worlds of one model; None is 32 on a CPU and 4096 on a GPU."""
    timeout: float = 600.0
    """Time after which a worker without progress counts as lost [s]."""
    address: str | None = None
    """Address of a running Ray: ``"auto"`` or host:port; None starts one here."""
    cpus_per_worker: float = 1.0
    """Processors of a Ray worker."""
    gpus_per_worker: float = 0.0
    """GPUs of a Ray worker, or a share of one."""
    devices: tuple[str, ...] = ()
    """Warp devices that threads take in turn, for example ``("cuda:0", "cuda:1")``; empty for the first one."""

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise SweepError(f"engine is {self.engine!r}; it must be one of {', '.join(ENGINES)}.")
        for name in ("workers", "batch"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise SweepError(f"{name} is {value!r}; it must be a whole number of at least 1.")
        if not self.timeout > 0.0:
            raise SweepError(f"timeout is {self.timeout!r}; it must be a positive number of seconds.")
        if self.engine == "threads":
            for name, option in (("address", "--address"), ("gpus_per_worker", "--gpus-per-worker")):
                if getattr(self, name):
                    what = " Threads take GPUs by device, cuda:0,cuda:1." if "gpus" in name else ""
                    raise SweepError(f"{name} ({option}) is for engine 'ray' (--engine ray).{what}")
        elif self.devices:
            raise SweepError("devices are for engine 'threads'; Ray workers get GPUs by gpus_per_worker.")


def sweep(
    scene: Any,
    vary: Mapping[str, Any] | Iterable[str] = (),
    folder: str | os.PathLike[str] = "sweep",
    *,
    resume: bool = False,
    retry: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> SweepResult:
    """Run a scene with many values of its parameters, and keep what comes out in a folder of Parquet files.

    Args:
        scene: Name of a shipped scene, a file, or the content of one.
        vary: Parameters and their values: ``{"materials.ground.mu": "0.1:1.0:10", "dt": [0.002, 0.005]}``, or texts
            ``"materials.ground.mu=0.1:1.0:10"``. See docs/sweeps.md for the paths.
        folder: Where to keep it; it must have no sweep yet unless ``resume`` or ``retry`` is set.
        resume: Go on with the sweep in the folder, which has to be the same one: points that have no row are run.
        retry: Run points that failed again, and those that have no row.
        progress: Called whenever rows come in.
        **options: What the sweep is, fields of `Definition`: ``seconds``, ``until``, ``success``, ``record``,
            ``every``, ``samples``, ``sampling``, ``seeds``, ``seed``, ``dt``, ``preset``, ``line_search``, ``device``
            (``"cpu"`` or ``"cuda"``; Warp's default if not given), ``confine``; and how it is run, fields of
            `EngineOptions`: ``engine``, ``workers``, ``batch``, ``timeout``, ``address``, ``cpus_per_worker``,
            ``gpus_per_worker``, ``devices``.

    Raises:
        SweepError: It cannot be run as asked.
        SapSceneError: The scene or a value for it is not valid; with file and line.
        ImportError: A package is missing; the message says what to install.
    """
    known = {field.name for kind in (Definition, EngineOptions) for field in dataclasses.fields(kind)}
    unknown = [name for name in options if name not in known - {"scene", "variations"}]
    if unknown:
        raise TypeError(f"sweep() has no option {unknown[0]!r}; there is {', '.join(sorted(known))}.")
    how = {field.name for field in dataclasses.fields(EngineOptions)}
    engine = EngineOptions(**{name: value for name, value in options.items() if name in how})
    given = {name: value for name, value in options.items() if name not in how}
    record = given.get("record", ())
    given["record"] = (record,) if isinstance(record, str) else tuple(record)
    if given.get("device") is None:
        given["device"] = "cuda" if engine.gpus_per_worker or not _on_cpu() else "cpu"
    definition = Definition(name_scene(scene), read_variations(vary), **given)
    if resume or retry:
        return resume_sweep(folder, engine, definition, retry, progress)
    return begin_sweep(definition, folder, engine, progress)


def begin_sweep(
    definition: Definition, folder: str | os.PathLike[str], engine: EngineOptions, progress: Progress | None = None
) -> SweepResult:
    """Run a sweep from its beginning; see `sweep`."""
    import_pyarrow()
    _require_engine(engine, definition)
    points = definition.points()
    checked = check_definition(definition, _device(engine))
    dataset = Dataset.create(folder, definition, points, checked.facts)
    with Writer(dataset) as writer:
        tasks = plan_tasks(definition, points, _batch(engine, definition))
        _run(writer, checked.job, tasks, engine, _Keeper(writer, {}, len(points), progress))
    return SweepResult(folder)


def resume_sweep(
    folder: str | os.PathLike[str],
    engine: EngineOptions,
    definition: Definition | None = None,
    retry: bool = False,
    progress: Progress | None = None,
) -> SweepResult:
    """Go on with a sweep; see `sweep`.

    Raises:
        SweepError: It is another one than ``definition``, or scene or versions are not what they were.
    """
    import_pyarrow()
    dataset = Dataset(folder)
    _require_engine(engine, dataset.definition)
    if definition is not None and (names := definition.differences(dataset.definition)):
        raise SweepError(f"The sweep in {folder} has other {', '.join(names)}; give the same ones, or another folder.")
    definition = dataset.definition
    with Writer(dataset) as writer:
        if retry:
            writer.take_failures_out()
        done = dataset.statuses()
        points = definition.points()
        dataset.check_points(points)
        left = [point for point in points if point.number not in done]
        if left:
            checked = check_definition(definition, _device(engine))
            _check_same(dataset, checked)
            tasks = plan_tasks(definition, left, _batch(engine, definition))
            _run(writer, checked.job, tasks, engine, _Keeper(writer, done, len(points), progress))
    return SweepResult(folder)


def run_point(folder: str | os.PathLike[str], number: int) -> dict[str, Any]:
    """Run one point of a sweep again, alone and in this process; nothing is written.

    Returns:
        Its row, as ``SweepResult(folder).table()`` would have it.

    Raises:
        SweepError: There is no such point.
    """
    dataset = Dataset(folder)
    points = dataset.definition.points()
    dataset.check_points(points)
    if not 0 <= number < len(points):
        raise SweepError(f"There is no point {number}: there are {len(points)}, from 0 on.")
    checked = check_definition(dataset.definition)
    _check_same(dataset, checked)
    (task,) = plan_tasks(dataset.definition, [points[number]], 1)
    with _quiet():
        rows = run_task(checked.job, task, lambda: None)
    table = make_table(dataset.schema, dataset.definition.paths, dataset.kinds, rows)
    return dict(table.to_pylist()[0])


def _check_same(dataset: Dataset, checked: Checked) -> None:
    """Check that rows of one sweep come from one scene and one version of everything.

    Raises:
        SweepError: They would not.
    """
    for name, what in (("scene_digest", "scene"), ("model_digest", "model, from files of the scene,")):
        if dataset.meta[name] != checked.facts[name]:
            raise SweepError(f"The {what} is not what it was when {dataset.folder} was begun; take another folder.")
    then, now = dataset.meta["versions"], checked.facts["versions"]
    for name, version in then.items():
        if now[name] != version:
            what = f"was begun with {name} {version}, and this is {now[name]}"
            raise SweepError(f"The sweep in {dataset.folder} {what}: install that, or take another folder.")


def _run(writer: Writer, job: Job, tasks: list[Task], options: EngineOptions, keeper: _Keeper) -> None:
    """Run tasks, and write rows as they come, also after Ctrl-C."""
    dataset = writer.dataset

    def fail(task: Task, reason: str) -> None:
        row = {**failed_row(job, task.points[0], reason), "attempt": task.attempt}
        keeper.keep(make_table(dataset.schema, dataset.definition.paths, dataset.kinds, [row]))

    keeper.report()
    with _quiet(), _engine(job, dataset, options, len(tasks)) as engine:
        try:
            Scheduler(engine, tasks, options.timeout).run(lambda _, table: keeper.keep(table), fail)
        finally:
            keeper.flush()


class _Keeper:
    """Takes each point once, and writes rows together, because a file for each would be slow to read."""

    def __init__(self, writer: Writer, done: dict[int, str], total: int, progress: Progress | None):
        self._writer, self._done, self._total, self._progress = writer, set(done), total, progress
        self._failed = sum(status == "failed" for status in done.values())
        self._buffer: list[Any] = []
        self._written, self._files = time.monotonic(), len(writer.dataset.parts)

    def keep(self, table: Any) -> None:
        """Take rows; those of points that already have one are left out."""
        points = table["point"].to_pylist()
        fresh = [point not in self._done for point in points]
        table = table if all(fresh) else table.filter(fresh)
        self._done.update(points)
        self._failed += sum(status == "failed" for status in table["status"].to_pylist())
        self._buffer.append(table)
        pause = FLUSH_SECONDS + FLUSH_GROWTH * self._files
        if time.monotonic() - self._written > pause or sum(map(len, self._buffer)) > FLUSH_ROWS:
            self.flush()
        self.report()

    def flush(self) -> None:
        """Write the rows that have come."""
        if self._buffer:
            self._writer.add(self._buffer)
            self._buffer = []
            self._files += 1
        self._written = time.monotonic()

    def report(self) -> None:
        """Report progress."""
        if self._progress is not None:
            self._progress(len(self._done), self._total, self._failed)


@contextmanager
def _engine(job: Job, dataset: Dataset, options: EngineOptions, tasks: int) -> Iterator[Engine]:
    if options.engine == "threads":
        found: Engine = ThreadEngine(job, dataset, min(options.workers or _processors(), tasks), options.devices)
        try:
            yield found
        finally:
            found.close()
        return
    from ...cluster import connect
    from .ray_engine import RayEngine

    cpus, gpus = options.cpus_per_worker, options.gpus_per_worker
    with connect(options.address) as cluster:
        capacity = cluster.total("GPU") // gpus if gpus else cluster.total("CPU") // max(cpus, 1e-3)
        workers = min(options.workers or max(int(capacity), 1), tasks)
        cluster.require(workers, cpus, gpus)
        found = RayEngine(job, dataset, workers, cpus, gpus)
        try:
            yield found
        finally:
            found.close()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings about failed runs, which would come from many simulations at once; rows tell of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _require_engine(options: EngineOptions, definition: Definition) -> None:
    """Check before the work begins that the engine is available."""
    kinds = {device.partition(":")[0] for device in options.devices}
    if kinds - {definition.device} or (options.gpus_per_worker and definition.device == "cpu"):
        raise SweepError(f"The sweep is for device {definition.device!r}, and its workers would have others.")
    if options.engine == "ray":
        from ...cluster import require_ray

        require_ray()


def _device(options: EngineOptions) -> str | None:
    """Return the device of the check; a driver without a GPU checks for workers that have some."""
    if options.devices:
        return options.devices[0]
    return "cpu" if options.gpus_per_worker and _on_cpu() else None


def _on_cpu() -> bool:
    import warp as wp

    return bool(wp.get_device().is_cpu)


def _batch(options: EngineOptions, definition: Definition) -> int:
    return options.batch or BATCH[definition.device]


def _processors() -> int:
    return len(os.sched_getaffinity(0))
