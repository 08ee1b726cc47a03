"""`sap-warp play`: try a policy that was learned."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from . import SUMMARIES
from .common import (
    COMPILING,
    EXIT_OK,
    CommandError,
    asked_by_user,
    check_target,
    find_device,
    positive_int,
    positive_seconds,
    print_summary,
)
from .train import RUNS, task_listing


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("play", help=SUMMARIES["play"], **task_listing())
    add = parser.add_argument
    add("task", help="name of a shipped task, file.py:Class or module:Class")
    add("--checkpoint", type=Path, metavar="PLACE", help="checkpoint or its folder (default: the newest in runs)")
    add("--num-worlds", type=positive_int, default=64, metavar="N", help="worlds (default: %(default)s)")
    add("--duration", type=positive_seconds, metavar="S", help="simulated time [s] (default: one episode)")
    add("--seed", type=int, default=0, metavar="N", help="of starts and commands (default: %(default)s)")
    add("--video", type=Path, metavar="FILE", help="also film the first world: .mp4, .gif or .html")
    add("--threads", type=positive_int, default=1, metavar="N", help="CPU threads (default: %(default)s)")
    add("--device", metavar="D", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    if arguments.seed < 0:
        raise CommandError("--seed must be 0 or more.")
    check_target(arguments.video)
    with asked_by_user():
        from ..envs.registration import task_name

        name = task_name(arguments.task)
        place = arguments.checkpoint or _newest(name, arguments.task)
    device = find_device(arguments.device)
    print(COMPILING, flush=True)
    with asked_by_user():
        from ..envs.training.training import Player

        try:
            options = {"device": device, "threads": arguments.threads}
            player = Player(place, arguments.num_worlds, arguments.seed, task=arguments.task, **options)
        except ImportError as error:
            raise CommandError(str(error)) from error
    result = player.play(arguments.duration or player.task.time_limit)
    rows = [
        ("policy", f"{place}, {player.about['algorithm']}, {player.about['steps']:,.0f} environment steps"),
        ("episodes that ended", str(result.episodes)),
    ]
    rows += [(name.replace("_", " "), f"{value:.4g}") for name, value in result.means.items()]
    print_summary(name, rows)
    if arguments.video is not None:
        make_video(place, arguments.video, arguments.seed, arguments.duration)
    return EXIT_OK


def make_video(place: Path, target: Path, seed: int = 0, seconds: float | None = None) -> bool:
    """Film a policy in one world; returns False and says so if that cannot be done."""
    from ..envs.training.film import FilmError, film

    def say(length: float) -> None:
        print(f"filming {length:.0f} s into {target}: some {3.0 * length:.0f} s on one core ...", flush=True)

    try:
        film(place, target, seed=seed, seconds=seconds, begin=say)
    except FilmError as error:
        print(f"no video: {error}")
        return False
    return True


def _newest(name: str, task: str) -> Path:
    """Return the folder of the latest training of a task below runs.

    Raises:
        CommandError: There is none.
    """
    found = sorted(RUNS.glob(f"{name.rsplit(':', 1)[-1]}-*/checkpoint.npz"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise CommandError(f"there is no training of {name} in {RUNS}; begin one with: sap-warp train {task}")
    return found[-1].parent
