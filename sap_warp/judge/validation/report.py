"""Markdown report: what was measured, the bounds and their reasons, tables and plots."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from .plots import PLOTS, draw_all
from .result import Case, Outcome, Row

TITLES = {
    "drake": "Drake",
    "closed": "Closed forms",
    "structure": "Structure of the solve",
    "qualities": "Clutter, mass ratios, stiffness",
    "grasp": "Grasps",
    "convergence": "Convergence",
    "presets": "Presets",
}
PLOT_OF = {
    "drake": ("drake",),
    "qualities": ("iterations",),
    "grasp": ("grasp",),
    "convergence": ("order", "drift", "residual"),
}
"""Plots that go into the section of a family."""
PACKAGES = ("sap-warp", "newton", "warp-lang", "drake", "mujoco")


def number(value: float) -> str:
    """Format a number shortly."""
    return f"{value:.3g}" if value == 0.0 or 1e-3 <= abs(value) < 1e4 else f"{value:.1e}"


def bound(row: Row) -> str:
    """Format the bound of a row, or a dash."""
    return "–" if row.informative else number(row.bound)


def write_report(results: Mapping[str, tuple[Case, Outcome]], folder: Path, quick: bool) -> Path:
    """Write ``validation.md`` and ``images/validation_*.png`` into ``folder``; returns the page."""
    plots = draw_all({name: outcome for name, (_, outcome) in results.items()}, folder / "images")
    page = folder / "validation.md"
    head = Path(__file__).with_name("report_head.md").read_text(encoding="utf-8")
    lines = [head.rstrip(), "", *_summary(results, quick)]
    for family in dict.fromkeys(case.family for case, _ in results.values()):
        lines += ["", f"## {TITLES.get(family, family)}", ""]
        for name in PLOT_OF.get(family, ()):
            if name in plots:
                lines += [f"![{PLOTS[name][2]}](images/{plots[name].name})", ""]
        members = [(case, outcome) for case, outcome in results.values() if case.family == family]
        for title, (header, rows) in _merge(members).items():
            lines += [f"{title}:", "", *_table(header, rows), ""]
        rows = []
        for case, outcome in members:
            for i, row in enumerate(outcome.rows):
                name = f"**{case.name.split('/')[1]}**: {case.summary}" if i == 0 else ""
                verdict = "" if row.informative else ("pass" if row.passed else "**FAIL**")
                rows.append(
                    [name, row.what, f"{number(row.measured)} {row.unit}".strip(), bound(row), row.why, verdict]
                )
        lines += _table(["case", "what", "measured", "bound", "where the bound comes from", ""], rows)
    page.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return page


def _summary(results: Mapping[str, tuple[Case, Outcome]], quick: bool) -> list[str]:
    rows = [row for _, outcome in results.values() for row in outcome.rows if not row.informative]
    failed = [name for name, (_, outcome) in results.items() if not outcome.passed]
    versions = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    form = "short form (`--quick`)" if quick else "long form"
    verdict = "All pass." if not failed else f"Failed: {', '.join(failed)}."
    return [f"This run: {len(results)} cases, {len(rows)} bounds, {form}. {verdict} With {versions}."]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _merge(members: list[tuple[Case, Outcome]]) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Merge tables of one title from several cases."""
    merged: dict[str, tuple[list[str], list[list[str]]]] = {}
    for _, outcome in members:
        for title, (header, lines) in outcome.tables.items():
            merged.setdefault(title, (header, []))[1].extend(lines)
    return merged


def _table(header: list[str], lines: list[list[str]]) -> list[str]:
    clean = [[cell.replace("|", "\\|") for cell in line] for line in [header, ["---"] * len(header), *lines]]
    return ["| " + " | ".join(line) + " |" for line in clean]
