"""Shared parts of the sub-commands: arguments, errors, exit codes, progress and tables.

Only the standard library is imported here; rich, Newton and Warp are loaded when they are needed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from ..core.faq import see
from ..core.printable import printable
from ..core.warp_output import without_driver_warning
from ..scene.shipped.scene_files import scene_description, shipped_scenes
from ..solver.settings.options import LINE_SEARCHES

COMPILING = "Preparing kernels: compiled on the first run (some 15 s on two cores), then cached ..."
EXIT_OK, EXIT_DIVERGED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
DEFAULT_SCENE = "humanoid"


class CommandError(Exception):
    """A request of the user cannot be met; the message is all they need."""


# Arguments.


class Parser(argparse.ArgumentParser):
    """Argument parser that reports an error in one line instead of behind the whole usage text."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and stop."""
        self.exit(EXIT_USAGE, f"{self.prog}: error: {message} (see '{self.prog} --help')\n")


def positive_int(text: str) -> int:
    """Read a whole number of at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return value


def positive_number(text: str, what: str = "positive number") -> float:
    """Read a positive, finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0.0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a {what}")
    return value


def positive_seconds(text: str) -> float:
    """Read a positive, finite time [s]."""
    value = positive_number(text, "positive number of seconds")
    if value > 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is more than a run can take; it is at most 1e9 s")
    return value


def scene_listing() -> dict[str, Any]:
    """Return arguments of a parser whose help ends with the shipped scenes."""
    rows = [f"  {name:<16} {scene_description(file)}" for name, file in shipped_scenes().items()]
    epilog = "shipped scenes (or give a YAML or JSON file):\n" + "\n".join(rows)
    return {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": epilog}


def add_run_arguments(parser: argparse.ArgumentParser, *, num_worlds: int, duration: float | None) -> None:
    """Add what is simulated: a scene or a robot, in how many worlds, for how long, from which poses."""
    add = parser.add_argument
    add("scene", nargs="?", default=DEFAULT_SCENE, help="scene file or name (default: %(default)s)")
    add("--robot", metavar="NAME", help="a robot in place of a scene, see 'sap-warp robots'")
    add("--num-worlds", type=positive_int, default=num_worlds, metavar="N", help="worlds (default: %(default)s)")
    text = "simulated time [s] (default: %(default)s)" if duration else "end after so much simulated time [s]"
    add("--duration", type=positive_seconds, default=duration, metavar="S", help=text)
    add("--seed", type=int, metavar="N", help="start every world in its own random pose")
    add_solver_arguments(parser)
    add_option_arguments(parser)
    add_confine_argument(parser)


def add_confine_argument(parser: argparse.ArgumentParser) -> None:
    """Add the switch for scenes from strangers."""
    text = "refuse files outside of the folder of the scene (default: what SAP_WARP_CONFINE says)"
    parser.add_argument("--confine", action="store_true", default=None, help=text)


def add_solver_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the time step and the device."""
    parser.add_argument("--dt", type=positive_seconds, metavar="S", help="time step [s] (default: the scene's)")
    parser.add_argument("--device", metavar="D", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")


def add_option_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the preset and the line search."""
    parser.add_argument("--preset", metavar="P", help="see 'sap-warp presets' (default: the scene's)")
    text = f"{', '.join(LINE_SEARCHES[:-1])} or {LINE_SEARCHES[-1]} (default: the scene's)"
    parser.add_argument("--line-search", metavar="L", help=text)


@contextmanager
def asked_by_user() -> Iterator[None]:
    """Turn errors about values that came from the command line into one line."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        raise CommandError(str(error)) from error


def find_device(name: str | None) -> Any:
    """Return the Warp device of that name, or Warp's default; from here on Warp is quiet."""
    import warp as wp

    wp.config.log_level = wp.LOG_ERROR
    with without_driver_warning():
        wp.init()
    if name is not None and name.startswith("cuda") and not wp.is_cuda_available():  # Warp prints errors of its own
        reason = "there is no NVIDIA GPU with a driver, only the cpu"
        raise CommandError(f"no device {name!r} here: {reason}.{see('no-device')}")
    with asked_by_user():
        try:
            return wp.get_device(name)
        except (ValueError, RuntimeError) as error:
            known = ", ".join(device.alias for device in wp.get_devices())
            raise CommandError(f"no device {name!r} here; there is: {known}.{see('no-device')}") from error


# Files.


def check_target(path: Path | None) -> None:
    """Check before the work begins that the folder of an output file exists."""
    if path is not None and not path.absolute().parent.is_dir():
        raise CommandError(f"cannot write {path}: there is no folder {path.absolute().parent}.")


def write_json(path: Path | None, result: Any) -> None:
    """Write what ``result.as_dict()`` returns, if a file was asked for."""
    if path is not None:
        with asked_by_user():
            path.write_text(json.dumps(result.as_dict(), indent=2) + "\n", encoding="utf-8")
        print(f"written to {path}")


# Progress and tables.


@contextmanager
def show_progress(total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of finished steps and shows a bar, or about five lines."""
    if sys.stdout.isatty():
        from rich.progress import Progress

        with Progress(transient=True) as progress:
            task = progress.add_task("Simulating", total=total)
            yield lambda done: progress.update(task, completed=done)
        return
    marks = [math.ceil(total * k / 5) for k in range(1, 6)]

    def report(done: int) -> None:
        if marks and done >= marks[0]:
            print(f"step {done} of {total}", flush=True)
            while marks and done >= marks[0]:
                marks.pop(0)

    yield report


def print_summary(title: str, rows: list[tuple[str, str]]) -> None:
    """Print names and values: a framed table on a terminal, two columns elsewhere."""
    if sys.stdout.isatty():
        print_table(title, ("", ""), rows, show_header=False)
        return
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(printable(f"{name:<{width}}  {value}"))


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], show_header: bool = True) -> None:
    """Print a rich table on a terminal, aligned columns of full width elsewhere."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(title=title, title_justify="left", show_header=show_header)
        for name in header:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        Console().print(table)
        return
    lines = [header, *rows] if show_header else rows
    lines = [[printable(cell) for cell in line] for line in lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    print(title)
    for line in lines:
        print("  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())
