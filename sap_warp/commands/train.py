"""`sap-warp train`: learn a task."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..core.task_names import shipped_tasks
from .common import (
    COMPILING,
    EXIT_INTERRUPTED,
    EXIT_OK,
    CommandError,
    asked_by_user,
    find_device,
    positive_int,
    positive_seconds,
    print_summary,
)

RUNS = Path("runs")


def task_listing() -> dict[str, Any]:
    """Arguments of a parser whose help ends with the shipped tasks."""
    rows = [f"  {name:<16} {about}" for name, about in shipped_tasks().items()]
    epilog = "shipped tasks (or file.py:Class):\n" + "\n".join(rows)
    return {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": epilog}


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("train", help="learn a task", **task_listing())
    add = parser.add_argument
    add("task", help="name of a shipped task, file.py:Class or module:Class")
    add(
        "--algorithm",
        choices=("ppo", "ars"),
        default="ppo",
        help="ppo trains with rsl_rl, ars needs only NumPy (default: ppo)",
    )
    add("--iterations", type=positive_int, metavar="N", help="updates (default: the task's)")
    over = "end with the update in which so many minutes are over, compiling included"
    add("--minutes", type=positive_seconds, metavar="M", help=over)
    add("--num-worlds", type=positive_int, metavar="N", help="worlds (default: the task's)")
    add("--seed", type=int, default=0, metavar="N", help="the same seed learns the same (default: %(default)s)")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the algorithm, e.g. rate=3e-4")
    add("--output", type=Path, metavar="DIR", help="folder of the training (default: runs/TASK-ALGORITHM-SEED)")
    add("--resume", action="store_true", help="go on from the checkpoint in the folder")
    add("--threads", type=positive_int, default=1, metavar="N", help="CPU threads (default: %(default)s)")
    add("--device", metavar="D", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    add("--no-video", action="store_true", help="make no video at the end")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    if arguments.seed < 0:
        raise CommandError("--seed must be 0 or more.")
    settings = _settings(arguments.set)
    with _complaints():
        from ..envs.registration import find_task, task_name

        name = task_name(arguments.task)
        find_task(arguments.task)
    device = find_device(arguments.device)
    if arguments.algorithm == "ppo":
        with _complaints():
            _prepare_torch(arguments.threads)
    from ..envs.training.training import Plan, Training, defaults_of

    with _complaints():
        usual = defaults_of(arguments.task, arguments.algorithm)
        plan = Plan(
            task=arguments.task,
            folder=arguments.output or default_folder(name, arguments.algorithm, arguments.seed),
            algorithm=arguments.algorithm,
            seed=arguments.seed,
            iterations=arguments.iterations or usual.get("iterations", 200),
            minutes=arguments.minutes,
            num_worlds=arguments.num_worlds or usual.get("num_worlds", 256),
            settings=dict(usual.get("settings", {})) | settings,
            options={"device": device, "threads": arguments.threads},
            resume=arguments.resume,
        )
        print(f"{name}: {plan.num_worlds} worlds, {plan.algorithm}, into {plan.folder}", flush=True)
        print(COMPILING, flush=True)
        training = Training(plan)
        with show_training(plan.iterations, training.iteration) as report:
            outcome = training.run(report)
    print_summary("Summary", _summary(outcome, training, plan))
    if outcome.interrupted:
        print(f"interrupted; go on with: sap-warp train {arguments.task} --resume --output {plan.folder}")
        return EXIT_INTERRUPTED
    if not arguments.no_video:
        from .play import make_video

        make_video(plan.folder, plan.folder / "video.mp4", seed=plan.seed)
    return EXIT_OK


def default_folder(name: str, algorithm: str, seed: int) -> Path:
    """Where a training is kept unless something else is asked for."""
    return RUNS / f"{name.rsplit(':', 1)[-1]}-{algorithm}-{seed}"


def _prepare_torch(threads: int) -> None:
    """Let torch use as many threads as the simulation.

    Raises:
        ImportError: torch or rsl_rl is not installed; better said now than when the kernels are compiled.
    """
    # Threads that spin while they wait for work take the processor from those that have some.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from ..envs.training.ppo import use_threads

    use_threads(threads)


@contextmanager
def _complaints() -> Iterator[None]:
    """Errors about what was asked for, in one line."""
    with asked_by_user():
        try:
            yield
        except ImportError as error:
            raise CommandError(str(error)) from error


def _settings(given: list[str]) -> dict[str, Any]:
    import json

    settings = {}
    for text in given:
        name, equals, value = text.partition("=")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            equals = ""
        if not equals:
            raise CommandError(f"--set {text}: expected NAME=VALUE with a number or a list, for example rate=3e-4.")
    return settings


@contextmanager
def show_training(total: int, done: int) -> Iterator[Callable[[int, dict[str, float]], None]]:
    """A function that is told of updates: a bar on a terminal, about 20 plain lines elsewhere."""
    import time

    start = time.monotonic()

    def describe(iteration: int, row: dict[str, float]) -> tuple[str, str]:
        spent = time.monotonic() - start
        left = spent / max(1, iteration - done) * (total - iteration)
        rate = row["steps"] / row["seconds"] if row["seconds"] else 0.0
        value = f"return {row['return']:.3g}" if "return" in row else "no episode has ended"
        return f"{rate:,.0f} steps/s, {value}", f"{left // 60:.0f} min {left % 60:.0f} s left"

    if sys.stdout.isatty():
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (BarColumn(), TextColumn("{task.completed}/{task.total}"), TextColumn("{task.description}"))
        with Progress(*columns) as progress:
            bar = progress.add_task("", total=total, completed=done)
            yield lambda iteration, row: progress.update(
                bar, completed=iteration, description=", ".join(describe(iteration, row))
            )
        return
    every = max(1, (total - done) // 20)

    def report(iteration: int, row: dict[str, float]) -> None:
        if iteration % every == 0 or iteration == total:
            print(f"iteration {iteration} of {total}: {', '.join(describe(iteration, row))}", flush=True)

    yield report


def _summary(outcome: Any, training: Any, plan: Any) -> list[tuple[str, str]]:
    rows = [
        ("iterations", str(outcome.iterations)),
        ("environment steps", f"{outcome.steps:,}"),
        ("time", f"{outcome.seconds:.0f} s, {outcome.processor_seconds:.0f} s of processor time"),
    ]
    names = ["return", "length", *training.task.terms["metric"]]
    rows += [(name.replace("_", " "), f"{outcome.last[name]:.4g}") for name in names if name in outcome.last]
    rows.append(("written to", ", ".join(sorted(str(path) for path in plan.folder.iterdir()))))
    return rows
