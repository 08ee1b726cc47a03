"""`sap-warp compare-presets`: measure what precision and contact model change in one step."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..scene.shipped.scene_files import find_scene_file
from . import SUMMARIES
from .common import (
    COMPILING,
    EXIT_OK,
    CommandError,
    add_solver_arguments,
    asked_by_user,
    check_target,
    find_device,
    positive_int,
    print_table,
    scene_listing,
    show_progress,
    write_json,
)

if TYPE_CHECKING:
    from ..judge.compare import PresetComparison


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("compare-presets", help=SUMMARIES["compare-presets"], **scene_listing())
    add = parser.add_argument
    add("scene", help="scene file or name")
    add("--steps", type=positive_int, default=400, metavar="N", help="steps (default: %(default)s)")
    add("--every", type=positive_int, default=10, metavar="K", help="compare at every K-th step (default: %(default)s)")
    add("--num-worlds", type=positive_int, default=8, metavar="N", help="worlds (default: %(default)s)")
    add("--seed", type=int, default=0, metavar="N", help="random initial poses (default: %(default)s)")
    add("--default-tolerances", action="store_true", help="stop where a run stops, not at the tight tolerances")
    add_solver_arguments(parser)
    add("--json", type=Path, metavar="FILE", help="also write the numbers to FILE")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    file = find_scene_file(arguments.scene)
    check_target(arguments.json)
    if arguments.every > arguments.steps:
        raise CommandError(f"--every {arguments.every} is larger than --steps {arguments.steps}: nothing to compare.")
    device = find_device(arguments.device)
    from ..judge.compare import TIGHT_TOLERANCES, compare_presets

    print(COMPILING, flush=True)
    with asked_by_user(), show_progress(arguments.steps) as report:
        result = compare_presets(
            file,
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
    write_json(arguments.json, result)
    return EXIT_OK


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
    print_table(title, header, rows)
    print("|dv| is the norm over all dofs of a world, m/s and rad/s together.")
    print(f"States with contact: {result.samples_with_contact}. Steps that did not converge: {result.not_converged}.")
