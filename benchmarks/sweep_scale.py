"""Sweeps: tasks per second of Ray workers beside threads, and how long a large sweep takes to resume.

    python benchmarks/sweep_scale.py [--workers 2] [--tasks 8] [--seconds 2] [--rounds 2]

Both engines do the same tasks with as many workers, in turns, after each worker has done one task: what is compared is
work, not how long Ray takes to start.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from pathlib import Path
from unittest import mock

import warp as wp

from sap_warp.scale.cluster import connect
from sap_warp.scale.sweeps import Definition, EngineOptions, begin_sweep, resume_sweep
from sap_warp.scale.sweeps.definition.check import check_definition
from sap_warp.scale.sweeps.definition.definition import read_variations
from sap_warp.scale.sweeps.results.dataset import Dataset
from sap_warp.scale.sweeps.running import execute, run
from sap_warp.scale.sweeps.running.job import plan_tasks
from sap_warp.scale.sweeps.running.ray_engine import RayEngine
from sap_warp.scale.sweeps.running.schedule import Scheduler
from sap_warp.scale.sweeps.running.threads import ThreadEngine

POINTS = 10_000


class Warm:
    """An engine whose workers are ready and have done a task each."""

    def __init__(self, engine, tasks, workers):
        self._engine, self._news = engine, []
        engine.start()
        while len(self._news) < workers:
            self._news += [event for event in engine.wait(1.0) if event.kind == "ready"]
        for event in self._news:
            engine.give(event.worker, tasks[0])
        done = []
        while len(done) < workers:
            done += engine.wait(1.0)

    def start(self):
        pass

    def wait(self, seconds):
        found, self._news = self._news, []
        return found or self._engine.wait(seconds)

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def rewind(self, workers):
        """All of them are ready again."""
        self._news = workers


def time_tasks(engine, tasks):
    """Seconds for all tasks, and the mean of one of them."""
    ready = list(engine._news)
    spent = []
    start = time.perf_counter()
    Scheduler(engine, tasks, 600.0).run(
        lambda task, table: spent.append(sum(table["wall_seconds"].to_pylist())), lambda task, why: print("lost", why)
    )
    took = time.perf_counter() - start
    engine.rewind(ready)
    return took, statistics.mean(spent)


def compare_engines(folder, workers, count, seconds, rounds):
    vary = read_variations([f"materials.ground.mu=0.2:1.0:{16 * count}"])
    definition = Definition("humanoid", vary, seconds=seconds)
    checked = check_definition(definition)
    dataset = Dataset.create(folder, definition, definition.points(), checked.facts)
    tasks = plan_tasks(definition, definition.points(), 16)
    with connect(cpus=workers):
        made = {
            "threads": ThreadEngine(checked.job, dataset, workers),
            "ray": RayEngine(checked.job, dataset, workers),
        }
        engines = {name: Warm(engine, tasks, workers) for name, engine in made.items()}
        found = {name: [] for name in engines}
        for _ in range(rounds):
            for name, engine in engines.items():
                took, each = time_tasks(engine, tasks)
                found[name].append(count / took)
                print(f"{name:8} {count / took:.3f} tasks/s, a task takes {each:.2f} s", flush=True)
        for engine in made.values():
            engine.close()
    best = {name: max(rates) for name, rates in found.items()}
    print(f"ray / threads: {best['ray'] / best['threads']:.3f} (best of {rounds} rounds in turns)")


def time_resume(folder):
    """A sweep whose rows cost nothing, interrupted just before its end."""

    def made_up(job, overrides, points, beat):
        common = {**execute._common(job), "status": "ok", "ended": "time", "success": True, "series": {}}
        return [{**execute._inputs(job, point), **common} for point in points]

    def interrupt(done, total, failed):
        if total - done < 200:
            raise KeyboardInterrupt

    definition = Definition("cube", read_variations([f"materials.ground.mu=0.1:1.0:{POINTS}"]))
    with mock.patch.object(execute, "run_batch", made_up):
        at_once = mock.patch.multiple(run, FLUSH_SECONDS=0.0, FLUSH_GROWTH=0.0)
        with at_once, contextlib.suppress(KeyboardInterrupt):
            begin_sweep(definition, folder, EngineOptions(workers=1), interrupt)
        files = len(list((folder / "rows").iterdir()))
        start, used = time.perf_counter(), time.process_time()
        result = resume_sweep(folder, EngineOptions(workers=1), definition)
        took, used = time.perf_counter() - start, time.process_time() - used
    print(f"resume of {POINTS} points in {files} files: {took:.2f} s ({used:.2f} s of processor), {len(result)} rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2.0, help="simulated, of each run")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=("engines", "resume"))
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    with tempfile.TemporaryDirectory() as folder:
        print(f"{len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f}")
        if arguments.only != "resume":
            compare_engines(
                Path(folder) / "engines", arguments.workers, arguments.tasks, arguments.seconds, arguments.rounds
            )
        if arguments.only != "engines":
            time_resume(Path(folder) / "resume")


if __name__ == "__main__":
    main()
