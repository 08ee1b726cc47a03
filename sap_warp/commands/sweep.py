"""`sap-warp sweep`: run a scene with many values of its parameters."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..scene.shipped.scene_files import find_scene_file
from . import SUMMARIES
from .common import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    CommandError,
    add_confine_argument,
    add_option_arguments,
    asked_by_user,
    find_device,
    positive_int,
    positive_seconds,
    print_summary,
)

if TYPE_CHECKING:
    from ..scale.sweeps import Definition, SweepResult

EXIT_FAILED = 1
"""Exit code if some points could not be run."""
_DESCRIPTION = """\
Run a scene with many values of its parameters, and keep inputs, numbers and signals of every run in Parquet files.
Points that share a model become worlds of one batch, others tasks of their own; neither that nor the engine nor the
number of workers changes a bit of the results."""
_EPILOG = """\
parameters (PATH=VALUES):
  materials.ground.mu=0.1:1.0:100    friction of the ground: a hundred numbers from 0.1 to 1.0
  materials.NAME.ke=1e4:1e7:4:log    stiffness of shapes by name or pattern (also .mu, .tau), equal factors
  body_mass:torso=1,2,5              a view of the simulation: joint_q:NAME, joint_damping:NAME, gravity.z, ...
  solver.contact_sigma=1e-4,1e-3     an option of the solver; dt for the time step
  bodies.cube.shapes[0].hx=0.05:0.2  any value of the scene; without a count it is for --samples

exit code: 0 if every point has been run, 1 if some failed, 2 if the request cannot be met, 130 after Ctrl-C"""


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    text = {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": _EPILOG, "description": _DESCRIPTION}
    parser = commands.add_parser("sweep", help=SUMMARIES["sweep"], **text)
    add = parser.add_argument
    add("scene", nargs="?", help="scene file or name; not needed with --resume, --retry, --plot or --point")
    add("-o", "--output", type=Path, metavar="FOLDER", help="where to keep it (default: SCENE_sweep)")
    what = parser.add_argument_group("what to run")
    add = what.add_argument
    add("--vary", action="append", default=[], metavar="PATH=VALUES", help="a parameter and its values; see below")
    add("--samples", type=positive_int, metavar="N", help="draw N points instead of every combination")
    add("--sampling", choices=("lhs", "random"), help="Latin hypercube or independent (default: lhs)")
    add("--seeds", type=positive_int, metavar="N", help="run each point from N random starts")
    add("--seed", type=int, metavar="N", help="the first of these seeds, and of the drawing (default: 0)")
    add(
        "--duration",
        "--seconds",
        dest="seconds",
        type=positive_seconds,
        metavar="S",
        help="simulated time [s] (default: 2)",
    )
    add("--until", metavar="CONDITION", help='end a run earlier, for example "body_q:cube.z < 0.05"')
    add("--success", metavar="CONDITION", help="what has to hold at the end (default: --until, or not to diverge)")
    add("--record", metavar="SIGNALS", help="signals to keep over time, names with commas between them")
    add("--every", type=positive_int, metavar="N", help="steps between samples (default: 5)")
    add("--dt", type=positive_seconds, metavar="S", help="time step [s] (default: the scene's)")
    add_option_arguments(parser)
    how = parser.add_argument_group("how to run it")
    add = how.add_argument
    add("--engine", choices=("threads", "ray"), default="threads", help="(default: %(default)s)")
    add("--workers", type=positive_int, metavar="N", help="threads or Ray workers (default: one for each processor)")
    add("--batch", type=positive_int, metavar="N", help="most worlds of one model (default: 32, on a GPU 4096)")
    add("--timeout", type=positive_seconds, default=600.0, metavar="S", help="without progress [s] (default: 600)")
    add("--device", metavar="D", help="cpu, cuda, or for threads several: cuda:0,cuda:1")
    add("--address", metavar="A", help="a Ray that runs, auto or host:port (default: start one)")
    add("--gpus-per-worker", type=_share, default=0.0, metavar="X", help="GPUs of a Ray worker, or a share of one")
    then = parser.add_argument_group("go on, look at it")
    add = then.add_argument
    add("--resume", action="store_true", help="run the points that have no row yet")
    add("--retry", action="store_true", help="the same, and those that failed")
    add("--point", type=int, metavar="N", help="run one point again and compare it with its row")
    add("--plot", type=Path, metavar="FILE", help="draw a number over a parameter: .png, .svg, .pdf")
    add("--y", metavar="NUMBER", default="success", help="which number (default: %(default)s)")
    add("--x", metavar="PATH", help="over which parameter (default: the first)")
    add_confine_argument(parser)
    parser.set_defaults(command=run)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 1024.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of GPUs")
    return value


_DEFINING = ("samples", "sampling", "seeds", "seed", "seconds", "until", "success", "every", "dt")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    goes_on = arguments.resume or arguments.retry
    only_looks = arguments.point is not None or (arguments.plot is not None and not arguments.vary and not goes_on)
    if arguments.scene is not None:
        find_scene_file(arguments.scene)  # fails before the slow imports
    elif not (goes_on or only_looks):
        raise CommandError("name a scene, or go on with a sweep: --resume -o FOLDER")
    folder = arguments.output
    if folder is None:
        if arguments.scene is None:
            raise CommandError("say where the sweep is: -o FOLDER")
        folder = Path(f"{Path(arguments.scene).stem}_sweep")
    try:
        with asked_by_user():
            if arguments.point is not None:
                return _run_point(folder, arguments.point)
            result = _look(folder) if only_looks else _sweep(folder, arguments, goes_on)
            _print(result)
            if arguments.plot is not None:
                print(f"drawn: {result.plot(arguments.plot, arguments.y, arguments.x).absolute()}")
    except ImportError as error:
        raise CommandError(str(error)) from error
    except KeyboardInterrupt:
        print(f"sap-warp: interrupted; go on with: sap-warp sweep --resume -o {folder}", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_FAILED if result.failures else EXIT_OK


def _look(folder: Path) -> SweepResult:
    from ..scale.sweeps import SweepResult

    return SweepResult(folder)


def _sweep(folder: Path, arguments: argparse.Namespace, goes_on: bool) -> SweepResult:
    devices = arguments.device.split(",") if arguments.device else [None]
    found = [find_device(name) for name in devices]
    from ..scale.sweeps import EngineOptions, begin_sweep, resume_sweep
    from ..scale.sweeps.results.plot import check_plot

    on_gpu = arguments.gpus_per_worker > 0.0 or not found[0].is_cpu
    definition = _definition(arguments, "cuda" if on_gpu else "cpu")
    if arguments.engine == "ray" and len(found) > 1:
        raise CommandError("several devices are for --engine threads; Ray workers get GPUs by --gpus-per-worker")
    several = tuple(device.alias for device in found) if arguments.device and arguments.engine == "threads" else ()
    names = ("engine", "workers", "batch", "timeout", "address", "gpus_per_worker")
    engine = EngineOptions(devices=several, **{name: getattr(arguments, name) for name in names})
    if arguments.plot is not None and definition is not None:
        check_plot(definition.paths, arguments.plot, arguments.y, arguments.x, definition.seeds is not None)
    with _show_points() as progress:
        if goes_on:
            return resume_sweep(folder, engine, definition, arguments.retry, progress)
        assert definition is not None
        return begin_sweep(definition, folder, engine, progress)


def _definition(arguments: argparse.Namespace, device: str) -> Definition | None:
    """Return the sweep that the arguments ask for; None to take it from the folder."""
    from ..scale.sweeps import Definition
    from ..scale.sweeps.definition.definition import name_scene, read_variations

    given = {name: getattr(arguments, name) for name in (*_DEFINING, "preset", "line_search", "confine")}
    given = {name: value for name, value in given.items() if value is not None}
    if arguments.record is not None:
        given["record"] = tuple(part.strip() for part in arguments.record.split(",") if part.strip())
    if arguments.scene is None:
        if given or arguments.vary:
            name = next(iter(given), "vary")
            raise CommandError(f"--{name.replace('_', '-')} describes a sweep; the one in the folder has its own")
        return None
    return Definition(name_scene(arguments.scene), read_variations(arguments.vary), device=device, **given)


@contextmanager
def _show_points() -> Iterator[Callable[[int, int, int], None]]:
    """Show progress: a bar with rate and time left on a terminal, a line now and then elsewhere."""
    if sys.stdout.isatty():
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        rate = TextColumn("{task.fields[rate]:.3g} points/s {task.fields[bad]}")
        columns = (TextColumn("Sweep"), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
        with Progress(*columns, transient=True) as bar:
            task = bar.add_task("", total=None, rate=0.0, bad="")
            pace = _Pace()

            def draw(done: int, total: int, failed: int) -> None:
                bad = f"[red]{failed} failed" if failed else ""
                bar.update(task, completed=done, total=total, rate=pace(done, total)[0], bad=bad)

            yield draw
        return
    pace, printed = _Pace(), 0.0

    def tell(done: int, total: int, failed: int) -> None:
        nonlocal printed
        rate, left = pace(done, total)
        if time.monotonic() - printed > 5.0 or done == total:
            bad = f", {failed} failed" if failed else ""
            more = f", {rate:.3g} per second, {left:.0f} s left" if rate > 0.0 else ""
            print(f"point {done} of {total}{bad}{more}", flush=True)
            printed = time.monotonic()

    yield tell


class _Pace:
    """Measures points per second since the first call, and seconds left."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._first: int | None = None

    def __call__(self, done: int, total: int) -> tuple[float, float]:
        if self._first is None:
            self._first = done
        rate = (done - self._first) / max(time.monotonic() - self._start, 1e-9)
        return rate, (total - done) / max(rate, 1e-9)


def _print(result: SweepResult) -> None:
    import numpy as np

    failures, count = result.failures, len(result)
    rows = [("folder", str(result.folder)), ("points", f"{count} of {result.point_count}")]
    good = [value for value in result["success"] if value is not None]
    if good:
        rows.append(("success", f"{sum(map(bool, good))} of {len(good)}"))
        for name, unit in (("slip", "m"), ("energy", "J"), ("iterations", ""), ("penetration_max", "m")):
            values = np.array([value for value in result[name] if value is not None], float)
            if not len(values):
                continue
            most = f"{values.max():.4g} {unit}".strip()
            rows.append((name, f"{values.min():.4g} to {most}, mean {values.mean():.4g}"))
    if failures:
        rows.append(("failed", f"{len(failures)}: sap-warp sweep --retry -o {result.folder} tries them again"))
    print_summary("Sweep", rows)
    for point, error in list(failures.items())[:3]:
        line = (error or "").splitlines()[0] if error else ""
        print(f"point {point}: {line[:300]}", file=sys.stderr)


def _run_point(folder: Path, number: int) -> int:
    find_device("cpu")  # Warp is quiet from here on
    from ..scale.sweeps import SweepResult, run_point
    from ..scale.sweeps.results.dataset import RUN_COLUMNS

    row = run_point(folder, number)
    shown = [(name, str(value)) for name, value in row.items() if not isinstance(value, list)]
    print_summary(f"Point {number}", shown)
    kept = [old for old in SweepResult(folder).table().to_pylist() if old["point"] == number]
    if kept:
        differs = [name for name in row if name not in RUN_COLUMNS and row[name] != kept[0][name]]
        print(f"differs from its row in {', '.join(differs)}" if differs else "the same as its row, bit by bit")
    return EXIT_OK if row["status"] == "ok" else EXIT_FAILED
