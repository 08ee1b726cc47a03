"""Tables of a report: pairs in contact, drives, and the run as a whole, worst first."""

from __future__ import annotations

import numpy as np

from ...solver.settings.status import SolveStatus
from .detectors.slip import measure_slip
from .pairs import Pairs
from .report import Table, show
from .samples import Samples

SHOWN = 12
"""Most rows of a table."""
MIN_USE = 0.01
"""Smallest share of its effort at which a drive is listed."""


def make_tables(pairs: Pairs) -> tuple[Table, ...]:
    """Return all tables that have rows."""
    tables = (_pair_table(pairs), _drive_table(pairs.run), _run_table(pairs.run))
    return tuple(table for table in tables if table.rows)


def _pair_table(pairs: Pairs) -> Table:
    """List pairs by their use of the friction cone."""
    found: dict[str, tuple[float, tuple[str, ...]]] = {}
    for pair in range(len(pairs.world)):
        chosen = pairs.active[pair]
        use = pairs.use[pair][chosen]
        slip = measure_slip(pairs, pair, chosen)
        row = (
            pairs.name(pair),
            f"{100.0 * chosen.mean():.0f} %",
            f"{pairs.count[pair][chosen].mean():.1f}",
            show(float(pairs.push[pair][chosen].mean()), "N"),
            f"{100.0 * use.mean():.0f} %, {100.0 * use.max():.0f} %",
            show(slip.speed, "m/s"),
            show(float(pairs.depth[pair].max()), "m"),
            show(pairs.expected_depth(pair), "m"),
        )
        score = float(use.mean())
        if row[0] not in found or found[row[0]][0] < score:  # worlds that are alike: the worst of them
            found[row[0]] = (score, row)
    rows = [row for _, row in sorted(found.values(), key=lambda entry: -entry[0])]
    forces = ("pair", "in contact", "contacts", "normal force", "friction in use (mean, max)")
    header = (*forces, "slip", "deepest", "expected at rest")
    return Table("Pairs in contact, by friction in use", header, _cut(rows))


def _drive_table(run: Samples) -> Table:
    """List drives that have a limit, by how near they come to it."""
    joints, facts = run.joints, run.facts
    found: dict[str, tuple[float, tuple[str, ...]]] = {}
    for column in np.flatnonzero(np.isfinite(joints.limit).any(axis=0)):
        dof = int(joints.dof[column])
        limit = joints.limit[:, column]
        effort = np.minimum(np.abs(joints.asked[:, column]), limit)
        used = float((effort / np.maximum(limit, 1e-300)).max())
        if used < MIN_USE:
            continue
        unit = "N m" if facts.dof_turns[dof] else "N"
        name = str(facts.dof_name[dof])
        full = float((np.abs(joints.asked[:, column]) > limit).mean())
        row = (
            name,
            show(float(effort.max()), unit),
            show(float(limit[np.isfinite(limit)].min()), unit),
            f"{100.0 * used:.0f} %",
            f"{100.0 * full:.0f} %",
        )
        if name not in found or found[name][0] < used:
            found[name] = (used, row)
    rows = [row for _, row in sorted(found.values(), key=lambda entry: -entry[0])]
    return Table("Drives, by effort in use", ("drive", "effort", "limit", "in use", "time at the limit"), _cut(rows))


def _run_table(run: Samples) -> Table:
    """Summarize the run."""
    outcome = run.outcome
    iterations = outcome.iterations
    slowest = int(np.argmax(iterations.mean(axis=0)))
    solved = float((outcome.status == SolveStatus.CONVERGED).mean())
    kinetic, excess = outcome.energy[..., 0], outcome.energy[..., 2]
    rows = [
        ("Newton iterations", f"{iterations.mean():.2f} mean, {iterations.max()} max, world {slowest} most"),
        ("converged", f"{100.0 * solved:.4g} % of world-steps"),
        ("contacts per world", f"{outcome.contacts.mean():.1f} mean, {outcome.contacts.max()} max of {run.capacity}"),
        ("dropped contacts", str(int(outcome.dropped.sum() + outcome.overflow.sum()))),
        ("kinetic energy", f"{np.median(kinetic[-1]):.3g} J at the end (median world), {kinetic.max():.3g} J at most"),
        ("energy from nowhere", f"{np.abs(excess).max():.2g} J at most"),
    ]
    return Table("Run", ("", ""), tuple(rows))


def _cut(rows: list[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    if len(rows) <= SHOWN:
        return tuple(rows)
    blank = ("",) * (len(rows[0]) - 1)
    return (*rows[:SHOWN], (f"... and {len(rows) - SHOWN} more", *blank))
