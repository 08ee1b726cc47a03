"""A training from beginning to end: updates, checkpoints, table and curves; and trying what was learned."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import Runner, find_task
from ..registration import task_name
from .progress import Episodes, History
from .run_folder import CURVES, TABLE, CheckpointError, make_learner, read_checkpoint, write_checkpoint


@dataclass
class Plan:
    """What a training is asked to do."""

    task: str
    folder: Path
    algorithm: str = "ppo"
    seed: int = 0
    iterations: int = 100
    minutes: float | None = None
    """Wall time after which it ends, with the update that is being made."""
    num_worlds: int = 256
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the algorithm."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the simulation: device, threads."""
    resume: bool = False
    checkpoint_seconds: float = 30.0
    """Time between checkpoints."""


@dataclass
class Outcome:
    """How a training ended."""

    iterations: int
    steps: int
    """Environment steps, over all worlds."""
    seconds: float
    processor_seconds: float
    interrupted: bool
    last: dict[str, float]
    """The last row of the table."""


def defaults_of(task: str, algorithm: str) -> dict[str, Any]:
    """What the task recommends: num_worlds, iterations and settings of the algorithm."""
    return dict(find_task(task).training.get(algorithm, {}))


class Training:
    """Makes a plan come true."""

    def __init__(self, plan: Plan):
        """Build task and learner; go on from the checkpoint if the plan says so.

        Raises:
            CheckpointError: There is one that must not be overwritten, or none, or it belongs to something else.
            ValueError: The plan has a value that is not valid.
        """
        self.plan = plan
        self.name = task_name(plan.task)
        about, state = self._find_checkpoint()
        worlds = int(about.get("num_worlds", plan.num_worlds))
        settings = about.get("settings", plan.settings)
        arrays = "numpy" if plan.options.get("device") is None or str(plan.options["device"]) == "cpu" else "torch"
        self.task = find_task(plan.task)(worlds, arrays=arrays, **plan.options)
        self.runner = Runner(self.task, seed=plan.seed)
        self.learner = make_learner(plan.algorithm, self.runner, settings, plan.seed)
        self.history, self.episodes = History(about.get("history")), Episodes()
        self.iteration = int(about.get("iteration", 0))
        self._before = {name: float(about.get(name, 0.0)) for name in ("steps", "seconds", "processor_seconds")}
        self._about = {"task": self.name, "algorithm": plan.algorithm, "seed": plan.seed, "num_worlds": worlds}
        self._about |= {"settings": settings}
        if about:
            self.learner.load(state)
            self.runner.episodes[:] = np.asarray(about["episodes"], np.uint64)

    def run(self, report: Callable[[int, dict[str, float]], None] = lambda iteration, row: None) -> Outcome:
        """Train; ``report`` is told of every update.

        Ctrl-C ends it with the update that is being made, and a checkpoint; a second one at once.
        """
        plan, start, used = self.plan, time.monotonic(), time.process_time()
        taken = self.runner.taken
        self.learner.begin()
        plan.folder.mkdir(parents=True, exist_ok=True)
        saved, row = start, dict(self.history.rows[-1]) if self.history.rows else {}
        with _interruptible() as interrupted:
            while self.iteration < plan.iterations and not interrupted.is_set():
                log = self.learner.update(self.episodes)
                self.iteration += 1
                now = time.monotonic()
                row = {
                    "iteration": self.iteration,
                    "steps": self._before["steps"] + self.runner.taken - taken,
                    "seconds": self._before["seconds"] + now - start,
                    "processor_seconds": self._before["processor_seconds"] + time.process_time() - used,
                    **self.episodes.means(),
                    **log,
                }
                self.history.add(row)
                report(self.iteration, row)
                if plan.minutes is not None and now - start > 60.0 * plan.minutes:
                    break
                if now - saved > plan.checkpoint_seconds:
                    self.save(row)
                    saved = time.monotonic()
            self.save(row)
        numbers = {name: row.get(name, 0.0) for name in ("steps", "seconds", "processor_seconds")}
        return Outcome(
            self.iteration,
            int(numbers["steps"]),
            numbers["seconds"],
            numbers["processor_seconds"],
            interrupted.is_set(),
            row,
        )

    def save(self, row: dict[str, float]) -> None:
        """Write checkpoint, table and curves."""
        folder = self.plan.folder
        counters = {name: row.get(name, 0.0) for name in ("steps", "seconds", "processor_seconds")}
        about = self._about | counters | {"iteration": self.iteration, "episodes": self.runner.episodes.tolist()}
        write_checkpoint(folder, about, self.learner.state(), self.history)
        self.history.write_csv(folder / TABLE)
        names = ["return", "length", *self.task.terms["metric"], *self.task.weights]
        self.history.write_curves(folder / CURVES, f"{self.name} ({self.plan.algorithm})", names)

    def _find_checkpoint(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        plan = self.plan
        try:
            about, state = read_checkpoint(plan.folder)
        except CheckpointError:
            if plan.resume:
                raise
            return {}, {}
        if not plan.resume:
            raise CheckpointError(f"{plan.folder} holds a training already; resume it, or choose another folder.")
        for name, wanted in (("task", self.name), ("algorithm", plan.algorithm)):
            if about.get(name) != wanted:
                raise CheckpointError(f"{plan.folder} holds a training of {name} {about.get(name)}, not {wanted}.")
        return about, state


@dataclass
class Played:
    """What a policy did."""

    episodes: int
    means: dict[str, float]
    """Return, length, rewards and metrics over whole episodes."""


class Player:
    """A policy that was learned, at work."""

    def __init__(self, place: Path, num_worlds: int, seed: int = 0, task: str | None = None, **options: Any):
        """Read the checkpoint in ``place``, a file or a folder, and build its task, without noise.

        Raises:
            CheckpointError: There is none, or it belongs to another task.
        """
        about, state = read_checkpoint(place)
        if task is not None and task_name(task) != about["task"]:
            raise CheckpointError(f"{place} holds a policy for {about['task']}, not for {task_name(task)}.")
        self.about = about
        self.task = find_task(about["task"])(num_worlds, **options)
        self.runner = Runner(self.task, seed=seed, quiet=True)
        settings = about["settings"] | ({"repeats": 1} if about["algorithm"] == "ars" else {})
        self.learner = make_learner(about["algorithm"], self.runner, settings, 0)
        self.learner.load(state)
        self.observation = self.runner.reset()

    def step(self, episodes: Episodes) -> None:
        """Take a control step with the most likely actions."""
        step = self.runner.step(self.learner.policy(self.observation))
        self.observation = step.observation
        if step.ended is not None:
            episodes.add(step.ended)

    def play(self, seconds: float, each: Callable[[], None] = lambda: None) -> Played:
        """Play for so many simulated seconds, at least one episode; ``each`` is called after every step."""
        episodes = Episodes(last=1 << 20)
        for _ in range(max(1, round(seconds / self.task.control_dt))):
            self.step(episodes)
            each()
        return Played(episodes.count, episodes.means())


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets; the second time it raises as ever. Other threads than the main one are left alone."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def stop(number: int, frame: Any) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
