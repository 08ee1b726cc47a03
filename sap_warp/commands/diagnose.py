"""`sap-warp diagnose`: run a scene for a while and say what goes wrong, why, and what to change."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.printable import printable
from . import SUMMARIES
from .common import (
    EXIT_OK,
    add_run_arguments,
    check_target,
    positive_seconds,
    print_table,
    scene_listing,
    show_progress,
    write_json,
)
from .run import make_simulation, prepare

if TYPE_CHECKING:
    from ..judge.diagnose import Report

EXIT_PROBLEMS = 1
"""Exit code if there is a finding of severity "problem"."""
_DESCRIPTION = """\
Simulate a scene and report what goes wrong, worst first: grips that slip and contacts that creep or sink, drives at
their effort limit, joints against their limits, jitter, energy from nowhere, unfinished solves, dropped contacts,
diverged worlds; each with its cause, what to change, and what that should do.

exit code: 0 if nothing is worse than a warning, 1 if there is a problem, 2 if the request cannot be met"""


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    text = {"help": SUMMARIES["diagnose"], "description": _DESCRIPTION}
    parser = commands.add_parser("diagnose", **text, **scene_listing())
    add_run_arguments(parser, num_worlds=1, duration=2.0)
    add = parser.add_argument
    add("--after", type=positive_seconds, metavar="S", help="look only at what happens after so many seconds")
    add("--json", type=Path, metavar="FILE", help="also write the report to FILE")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    check_target(arguments.json)
    sim = make_simulation(arguments)
    from ..judge.diagnose import diagnose

    prepare(sim)
    if arguments.after is not None:
        sim.step(max(1, round(arguments.after / sim.dt)))
    steps = max(1, math.ceil(round(arguments.duration / sim.dt, 6)))
    with show_progress(steps) as report:
        result = diagnose(sim, arguments.duration, progress=report)
    print_report(result)
    write_json(arguments.json, result)
    return EXIT_PROBLEMS if any(finding.severity == "problem" for finding in result.findings) else EXIT_OK


def print_report(result: Report) -> None:
    """Print findings as text, numbers as tables."""
    if not sys.stdout.isatty():
        print("\n".join(printable(line) for line in result.lines()))
        return
    title, *_ = result.lines()
    print(printable(title))
    if not result.findings:
        print("nothing found")
    for finding in result.findings:
        print("\n" + "\n".join(printable(line) for line in finding.lines()))
    for table in result.tables:
        print_table(table.title, table.header, table.rows, show_header=any(table.header))
