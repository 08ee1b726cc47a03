"""The `sap-warp` command.

Only the standard library is imported here; Newton, Warp and rich are loaded by the sub-commands that need them, so
that ``sap-warp --help`` and a misspelt option answer at once.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from .commands import bench, check, schema
from .scene_files import UnknownSceneError
from .scenes import BUILTIN_SCENES, DEFAULT_SCENE, find_scene

if TYPE_CHECKING:
    from .compare import PresetComparison
    from .scenes import SceneRun

COMPILING = "Preparing kernels: compiled once, which can take a minute, then cached ..."
EXIT_OK, EXIT_DIVERGED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130


class CommandError(Exception):
    """Something the user asked for cannot be done; the message is all they need."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Returns:
        0 on success, 1 if a world diverged, 2 for a request that cannot be met, 130 after Ctrl-C.
    """
    try:
        arguments = _make_parser().parse_args(argv)
        return arguments.command(arguments)
    except (CommandError, UnknownSceneError) as error:
        print(f"sap-warp: error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:  # the reader of our output has enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except KeyboardInterrupt:
        print("sap-warp: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except SystemExit as stop:  # argparse has printed help, version or an error
        return stop.code if isinstance(stop.code, int) else EXIT_OK


# Arguments.


class _Parser(argparse.ArgumentParser):
    """Reports an error in one line instead of behind the whole usage text."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: error: {message} (see '{self.prog} --help')\n")


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        import sap_warp

        print(f"sap-warp {sap_warp.__version__}")
        parser.exit()


def _positive_int(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return value


def _positive_seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0.0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return value


def _make_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="sap-warp", description="Simulate articulated robots in contact, many worlds at once.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)
    listing = "scenes:\n" + "\n".join(f"  {scene.name:<10} {scene.summary}" for scene in BUILTIN_SCENES.values())
    layout: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": listing}

    run = commands.add_parser("run", help="simulate a built-in scene and print a summary", **layout)
    run.add_argument("scene", nargs="?", default=DEFAULT_SCENE, help="scene name (default: %(default)s)")
    run.add_argument("--num-worlds", type=_positive_int, default=64, metavar="N", help="worlds (default: %(default)s)")
    run.add_argument(
        "--duration", type=_positive_seconds, default=4.0, metavar="S", help="simulated time [s] (default: %(default)s)"
    )
    run.add_argument("--seed", type=int, metavar="N", help="start every world in its own random pose")
    _add_solver_arguments(run)
    run.add_argument("--preset", default="approx32", metavar="P", help="see 'sap-warp presets' (default: %(default)s)")
    run.add_argument(
        "--line-search",
        default="monotone_decay",
        metavar="L",
        help="monotone_decay, armijo_decay or exact_root (default: %(default)s)",
    )
    run.set_defaults(command=_run)

    compare = commands.add_parser(
        "compare-presets", help="measure what precision and contact model change in one step", **layout
    )
    compare.add_argument("scene", help="scene name")
    compare.add_argument("--steps", type=_positive_int, default=400, metavar="N", help="steps (default: %(default)s)")
    compare.add_argument(
        "--every", type=_positive_int, default=10, metavar="K", help="compare at every K-th step (default: %(default)s)"
    )
    compare.add_argument(
        "--num-worlds", type=_positive_int, default=8, metavar="N", help="worlds (default: %(default)s)"
    )
    compare.add_argument("--seed", type=int, default=0, metavar="N", help="random initial poses (default: %(default)s)")
    compare.add_argument(
        "--default-tolerances", action="store_true", help="stop where a run stops, not at the tight tolerances"
    )
    _add_solver_arguments(compare)
    compare.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE")
    compare.set_defaults(command=_compare_presets)

    explain = commands.add_parser(
        "explain", help="say which values a pair of shapes uses in contact and what to expect of it", **layout
    )
    explain.add_argument("scene", help="scene name")
    explain.add_argument("shapes", nargs="*", metavar="SHAPE", help="two shapes by label, end of it, body or index")
    explain.add_argument("--preset", default="approx32", metavar="P", help="see 'sap-warp presets'")
    _add_solver_arguments(explain)
    explain.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE")
    explain.set_defaults(command=_explain)

    for command in (bench, check, schema):
        command.add_parser(commands)
    presets = commands.add_parser("presets", help="print what each preset chooses")
    presets.set_defaults(command=_presets)
    return parser


def _add_solver_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dt", type=_positive_seconds, metavar="S", help="time step [s] (default: the scene's)")
    parser.add_argument("--device", metavar="D", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")


@contextmanager
def _asked_by_user() -> Iterator[None]:
    """Turn errors about values that came from the command line into one line."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        raise CommandError(str(error)) from error


def _find_device(name: str | None) -> Any:
    import warp as wp

    wp.config.log_level = wp.LOG_ERROR
    with _asked_by_user():
        try:
            return wp.get_device(name)
        except (ValueError, RuntimeError) as error:
            known = ", ".join(device.alias for device in wp.get_devices())
            raise CommandError(f"no device {name!r} here; there is: {known}.") from error


# sap-warp run


def _run(arguments: argparse.Namespace) -> int:
    find_scene(arguments.scene)  # fails before the slow imports
    from .scenes import SceneRun, build_scene, randomize_start
    from .solver.options import expand_options

    options = {"line_search_variant": arguments.line_search}
    with _asked_by_user():
        expand_options(arguments.preset, **options)
    device = _find_device(arguments.device)
    model, scene = build_scene(arguments.scene, arguments.num_worlds, device)
    if arguments.seed is not None:
        randomize_start(model, scene, abs(arguments.seed))
    run = SceneRun(model, scene, arguments.dt, arguments.preset, **options)

    print(f"{scene.name}: {scene.summary}", flush=True)
    ready = _prepare(run)
    pairs = max(1, math.ceil(round(arguments.duration / run.dt, 6) / 2))
    elapsed = _advance(run, pairs)
    _print_summary("Summary", _summary(run, 2 * pairs, ready, elapsed))
    return _verdict(run)


def _prepare(run: SceneRun) -> float:
    """Load or compile the kernels; returns the time it took [s]."""
    print(COMPILING, flush=True)
    start = time.perf_counter()
    run.prepare()
    run.synchronize()
    return time.perf_counter() - start


def _advance(run: SceneRun, pairs: int) -> float:
    """Replay the captured pair of steps; returns the time spent stepping [s]."""
    chunk = max(1, pairs // 20)
    elapsed, done = 0.0, 0
    with _progress(2 * pairs) as report:
        while done < pairs:
            count = min(chunk, pairs - done)
            start = time.perf_counter()
            run.advance(count)
            run.synchronize()
            elapsed += time.perf_counter() - start
            done += count
            report(2 * done)
    return elapsed


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A function that takes the number of finished steps: a bar on a terminal, about five plain lines elsewhere."""
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


def _summary(run: SceneRun, steps: int, ready: float, elapsed: float) -> list[tuple[str, str]]:
    import numpy as np

    from .solver import SolveStatus

    worlds, statistics = run.world_count, run.statistics
    iterations, trials = statistics.iterations, statistics.line_search_trials
    status = run.solver.status
    names = [f"{np.count_nonzero(status == s)} {s.name.lower()}" for s in SolveStatus if (status == s).any()]
    height = run.base_heights()
    body = run.model.body_label[0].rsplit("/", 1)[-1]
    dofs = np.diff(run.solver.layout.world_dof.numpy())
    simulated = steps * run.dt
    ratio = simulated / elapsed
    return [
        ("scene", run.scene.name),
        ("device", f"{run.model.device} ({run.model.device.name})"),
        ("solver", f"{run.preset}, {run.solver.options.line_search_variant}"),
        ("worlds", str(worlds)),
        ("dofs per world", f"{dofs.min()}" if dofs.min() == dofs.max() else f"{dofs.min()} to {dofs.max()}"),
        ("time step", f"{1e3 * run.dt:g} ms"),
        ("steps", f"{steps} ({simulated:g} s simulated)"),
        ("compile and first steps", f"{ready:.2f} s"),
        ("elapsed", f"{elapsed:.3f} s, stepping only"),
        ("world-steps per second", f"{worlds * steps / elapsed:,.0f}"),
        ("time per world-step", f"{1e6 * elapsed / (worlds * steps):.2f} us"),
        (
            "realtime ratio",
            f"{worlds * ratio:,.1f} over all worlds, {ratio:,.1f} for each",
        ),
        ("contacts per world", f"{statistics.mean_contacts:.2f} mean"),
        ("Newton iterations", f"{iterations.mean:.2f} mean, {iterations.p99} p99, {iterations.max} max"),
        ("line search trials", f"{trials.mean:.2f} mean, {trials.p99} p99, {trials.max} max"),
        ("truncated contacts", _truncation(run)),
        ("not converged", f"{statistics.not_converged} of {statistics.world_steps} world-steps"),
        ("worlds at the end", ", ".join(names)),
        (f"final height of {body}", f"{height.mean():.4f} m mean, {height.min():.4f} to {height.max():.4f} m"),
    ]


def _truncation(run: SceneRun) -> str:
    count = run.statistics.truncated_contacts
    return f"{count}" if count == 0 else f"{count}: raise max_rigid_contact above {run.scene.max_rigid_contact}"


def _verdict(run: SceneRun) -> int:
    import numpy as np

    from .solver import SolveStatus

    lost = np.isin(run.solver.status, [SolveStatus.DIVERGED, SolveStatus.FREE_MOTION_FAILED])
    if lost.any():
        which = ", ".join(map(str, np.flatnonzero(lost)[:5])) + (", ..." if lost.sum() > 5 else "")
        print(f"sap-warp: {lost.sum()} of {len(lost)} worlds diverged: {which}", file=sys.stderr)
        return EXIT_DIVERGED
    return EXIT_OK


# sap-warp compare-presets


def _compare_presets(arguments: argparse.Namespace) -> int:
    find_scene(arguments.scene)
    _check_target(arguments.json)
    if arguments.every > arguments.steps:
        raise CommandError(f"--every {arguments.every} is larger than --steps {arguments.steps}: nothing to compare.")
    device = _find_device(arguments.device)
    from .compare import TIGHT_TOLERANCES, compare_presets

    print(COMPILING, flush=True)
    with _progress(arguments.steps) as report:
        result = compare_presets(
            arguments.scene,
            steps=arguments.steps,
            every=arguments.every,
            num_worlds=arguments.num_worlds,
            dt=arguments.dt,
            device=device,
            seed=abs(arguments.seed),
            solver_options={} if arguments.default_tolerances else TIGHT_TOLERANCES,
            report=report,
        )
    _print_comparison(result)
    _write_json(arguments.json, result)
    return EXIT_OK


def _check_target(path: Path | None) -> None:
    """Complain before the work, not after it."""
    if path is not None and not path.absolute().parent.is_dir():
        raise CommandError(f"cannot write {path}: there is no folder {path.absolute().parent}.")


def _write_json(path: Path | None, result: Any) -> None:
    if path is not None:
        with _asked_by_user():
            path.write_text(json.dumps(result.as_dict(), indent=2) + "\n", encoding="utf-8")
        print(f"written to {path}")


def _print_comparison(result: PresetComparison) -> None:
    title = (
        f"{result.scene}: one step of {1e3 * result.dt:g} ms from {result.samples} common states "
        f"({result.num_worlds} worlds x {result.samples // result.num_worlds} times along an approx64 run)"
    )
    header = ("", "|dv| mean", "|dv| max", "rms, linear dofs", "rms, angular dofs", "mean |dv| / |v|")
    rows = []
    deltas = (
        ("Delta_precision  approx64 - approx32", result.precision),
        ("Delta_model      drake - approx64", result.model),
    )
    for name, delta in deltas:
        linear = "-" if math.isnan(delta.rms_linear) else f"{delta.rms_linear:.3e} m/s"
        angular = "-" if math.isnan(delta.rms_angular) else f"{delta.rms_angular:.3e} rad/s"
        rows.append((name, f"{delta.mean:.3e}", f"{delta.max:.3e}", linear, angular, f"{delta.relative:.2e}"))
    _print_table(title, header, rows)
    print("|dv| is the norm over all dofs of a world, m/s and rad/s together.")
    print(f"States with contact: {result.samples_with_contact}. Steps that did not converge: {result.not_converged}.")


# sap-warp explain


def _explain(arguments: argparse.Namespace) -> int:
    find_scene(arguments.scene)
    shapes = arguments.shapes
    if len(shapes) not in (0, 2):
        raise CommandError(f"explain takes two shapes, or none to list them; got {len(shapes)}.")
    _check_target(arguments.json)
    if arguments.json is not None and not shapes:
        raise CommandError("--json needs two shapes to explain.")
    device = _find_device(arguments.device)
    from .explain import explain_contact, shape_names
    from .scenes import build_scene
    from .solver.options import expand_options

    with _asked_by_user():
        options = expand_options(arguments.preset)

    model, scene = build_scene(arguments.scene, 1, device)
    if not shapes:
        _print_table(f"Shapes of {scene.name}", ("", "label", "geometry", "body"), shape_names(model))
        return EXIT_OK
    dt = scene.dt if arguments.dt is None else arguments.dt
    with _asked_by_user():
        result = explain_contact(model, *shapes, dt=dt, options=options, source=scene.name)
    for title, header, rows in result.tables():
        _print_table(title, header, rows, show_header=any(header))
    _write_json(arguments.json, result)
    return EXIT_OK


# sap-warp presets


def _presets(_: argparse.Namespace) -> int:
    from dataclasses import fields

    from .solver.options import PRESETS

    names = [field.name for field in fields(next(iter(PRESETS.values())))]
    values = {name: [_shown(getattr(preset, name)) for preset in PRESETS.values()] for name in names}
    chosen = [(name, *row) for name, row in values.items() if len(set(row)) > 1]
    common = [(name, row[0]) for name, row in values.items() if len(set(row)) == 1]
    _print_table("Chosen by the preset", ("option", *PRESETS), chosen)
    _print_table("The same in all presets", ("option", "value"), common)
    return EXIT_OK


def _shown(value: Any) -> str:
    return "(automatic)" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


# Tables.


def _print_summary(title: str, rows: list[tuple[str, str]]) -> None:
    if sys.stdout.isatty():
        _print_table(title, ("", ""), rows, show_header=False)
        return
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")


def _print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], show_header: bool = True) -> None:
    """A rich table on a terminal; aligned columns of full width elsewhere."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title, title_justify="left", show_header=show_header)
        for name in header:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        return
    lines = [header, *rows] if show_header else rows
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    print(title)
    for line in lines:
        print("  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main())
