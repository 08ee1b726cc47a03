"""`sap-warp validate`: run the validation cases, print the table, write the report.

Only the standard library is imported here; the cases load Newton, Warp, Drake and MuJoCo when the command runs.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import SUMMARIES
from .common import CommandError, find_device

if TYPE_CHECKING:
    from ..judge.validation import Case, Outcome

    Results = dict[str, tuple[Case, Outcome]]

NEEDED = {"drake": "pydrake", "grasp": "mujoco"}
"""Module of the extra ``validate`` that a family of cases imports, by its name."""


def add_parser(commands: Any) -> None:
    """Add the sub-command."""
    parser = commands.add_parser(
        "validate",
        help=SUMMARIES["validate"],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Needs the extra 'validate': pip install 'sap-warp[validate]'. Exit code 1 if a bound is not kept.",
    )
    parser.add_argument("--quick", action="store_true", help="the short form of every case, as the tests run it")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write validation.md and its plots into DIR")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="cases whose name contains NAME; may be repeated"
    )
    parser.add_argument("--list", action="store_true", help="list the cases and exit")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; 0 if all bounds are kept, 1 if not."""
    cases = _choose(arguments.only)
    if arguments.list:
        for case in cases:
            print(f"{case.name:<28} {case.summary}")
        return 0
    modules = {NEEDED[case.family] for case in cases if case.family in NEEDED}
    modules |= {"matplotlib"} if arguments.out is not None else set()
    missing = sorted(module for module in modules if importlib.util.find_spec(module) is None)
    if missing:
        raise CommandError(f"{', '.join(missing)} not found: install the extra with pip install 'sap-warp[validate]'.")
    if arguments.out is not None:
        try:
            arguments.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"cannot write to {arguments.out}: {error.strerror}.") from error
    start = time.perf_counter()
    results = _run_all(cases, arguments.quick)
    _print_table(results)
    failed = _print_failures(results)
    print(f"{len(results) - failed} of {len(results)} cases pass, {time.perf_counter() - start:.0f} s.")
    if arguments.out is not None:
        from ..judge.validation.report import write_report

        print(f"Report: {write_report(results, arguments.out, arguments.quick)}")
    return 1 if failed else 0


def _choose(only: list[str] | None) -> list[Case]:
    find_device(None)
    from ..judge.validation import load_cases

    cases = load_cases()
    if only is None:
        return cases
    for name in only:
        if not any(name in case.name for case in cases):
            known = ", ".join(case.name for case in cases)
            raise CommandError(f"no case has {name!r} in its name; there are: {known}.")
    return [case for case in cases if any(name in case.name for name in only)]


def _run_all(cases: list[Case], quick: bool) -> Results:
    """Run the cases one after another; an exception counts as a bound that was not kept."""
    from ..judge.validation import Outcome

    _quiet_drake()
    print("The first case also compiles the kernels, which can take a minute.", flush=True)
    results = {}
    for i, case in enumerate(cases, 1):
        started = time.perf_counter()
        try:
            outcome = case.run(quick)
        except Exception as error:  # the other cases still have something to say
            outcome = Outcome()
            outcome.check(f"raised {type(error).__name__}: {error}", float("nan"), 0.0, "a case must not raise")
        results[case.name] = (case, outcome)
        verdict = "pass" if outcome.passed else "FAIL"
        print(f"[{i:2d}/{len(cases)}] {verdict}  {case.name:<28} {time.perf_counter() - started:5.1f} s", flush=True)
    return results


def _quiet_drake() -> None:
    """Silence Drake's warnings about half spaces and deformable bodies; there are none."""
    import logging

    if importlib.util.find_spec("pydrake") is not None:
        import pydrake.common  # noqa: F401 - it sets up the logger
    logging.getLogger("drake").setLevel(logging.ERROR)


def _tightest(outcome: Outcome) -> Any:
    """Return the row nearest to its bound; a broken one first."""
    rows = [row for row in outcome.rows if not row.informative]

    def share(row: Any) -> float:
        if not row.passed:
            return float("inf")
        return row.measured / row.bound if row.bound > 0.0 else 0.0

    return max(rows, key=share)


def _print_table(results: Results) -> None:
    """Print each case with the row that is nearest to its bound."""
    from ..judge.validation.report import number

    lines = []
    for name, (_, outcome) in results.items():
        row = _tightest(outcome)
        verdict = "pass" if outcome.passed else "FAIL"
        lines.append((name, row.what, f"{number(row.measured)} {row.unit}".strip(), number(row.bound), verdict))
    header = ("case", "nearest to its bound", "measured", "bound", "")
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table(*header, title="Validation")
        for line in lines:
            color = "green" if line[-1] == "pass" else "red"
            table.add_row(*map(escape, line[:-1]), f"[{color}]{line[-1]}[/]")
        Console().print(table)
        return
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    for line in [header, *lines]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _print_failures(results: Results) -> int:
    """Print every broken bound with its reason; returns the number of cases that failed."""
    from ..judge.validation.report import number

    failed = 0
    for name, (_, outcome) in results.items():
        failed += not outcome.passed
        for row in outcome.rows:
            if not row.passed:
                print(f"FAIL {name}: {row.what}: {number(row.measured)} > {number(row.bound)} {row.unit} ({row.why})")
    return failed
