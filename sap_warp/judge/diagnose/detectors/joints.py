"""Find drives at their effort limit, and joints against their position limits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ....solver.terms.limit import UNLIMITED
from ..report import Finding, Number
from ..samples import Facts, Samples

MIN_SHARE = 0.1
"""Share of the time from which a drive at its limit, or a joint against one, is reported."""
MIN_FORCE = 1e-4
"""Smallest force of a position limit that is reported [N or N m]."""
SPARE = 1.25
"""Ratio of the advised effort limit to the load."""
FAR = (2e-3, 0.01)
"""Distance of a target behind a limit from which the finding is a warning [m, rad]."""
DEEP = (5e-3, 0.05)
"""Distance of a joint behind a limit from which the finding is a warning [m, rad]."""


def find_saturated(run: Samples) -> Iterable[Finding]:
    """Find drives that would need more effort than they may take."""
    joints = run.joints
    full = np.abs(joints.asked) > joints.limit * (1.0 + 1e-6)
    for column in np.flatnonzero(full.mean(axis=0) > MIN_SHARE):
        yield _judge_drive(run, int(column), full[:, column])


def _judge_drive(run: Samples, column: int, full: np.ndarray) -> Finding:
    facts, joints, dof = run.facts, run.joints, int(run.joints.dof[column])
    share = 100.0 * float(full.mean())
    limit = float(np.median(joints.limit[full, column]))
    load = float(np.nanmax(np.abs(joints.load[:, column])))
    unit, length = _units(facts, dof)
    error = np.abs(joints.target[:, column] - joints.position[:, column])
    follows = facts.dof_ke[dof] > 0.0 and np.isfinite(error).all()
    measure = Number("time at the effort limit", share, "%")
    if follows:
        measure = Number("distance from the target", float(error[-1]), length)
    common: dict[str, Any] = {
        "kind": "drive-saturated",
        "where": str(facts.dof_name[dof]),
        "measure": measure,
        "numbers": (
            Number("time at the limit", share, "%"),
            Number("effort limit", limit, unit),
            Number("load", load, unit),
            Number("effort asked for", float(np.abs(joints.asked[:, column]).max()), unit),
        ),
        "worlds": (int(max(facts.dof_world[dof], 0)),),
        "score": 0.01 * share / MIN_SHARE,
    }
    if load < limit:  # gravity and motion are not what it works against
        return Finding(
            severity="info",
            cause="presses",
            what=(
                f"the drive presses with all that its limit of {limit:.3g} {unit} allows, {share:.0f} % of the time; "
                f"gravity and motion take {load:.3g} {unit} of it, the rest goes into contacts or limits"
            ),
            change="nothing, if it is meant to press; else raise the effort limit, or move the target nearer",
            **common,
        )
    wanted = SPARE * load
    return Finding(
        severity="problem",
        cause="effort-limit",
        what=(
            f"gravity and motion ask for up to {load:.3g} {unit}, its effort limit is {limit:.3g} {unit}: it cannot "
            f"hold its target, {share:.0f} % of the time"
        ),
        change=f"set effort_limit of {common['where']} to {wanted:.3g} {unit}, or make what it carries lighter",
        settings={"effort_limit": wanted},
        predicted=load / float(facts.dof_ke[dof]) if follows else 0.0,
        **common,
    )


def _units(facts: Facts, dof: int) -> tuple[str, str]:
    """Return the units of effort and position."""
    return ("N m", "rad") if facts.dof_turns[dof] else ("N", "m")


def find_limits(run: Samples) -> Iterable[Finding]:
    """Find joints that press against a position limit."""
    pressing = np.abs(run.joints.bound_force) > MIN_FORCE
    for column in np.flatnonzero(pressing.mean(axis=0) > MIN_SHARE):
        yield from _judge_limit(run, int(column), pressing[:, column])


def _judge_limit(run: Samples, column: int, pressing: np.ndarray) -> Iterable[Finding]:
    facts, joints, dof = run.facts, run.joints, int(run.joints.dof[column])
    unit, length = _units(facts, dof)
    push = float(np.median(joints.bound_force[pressing, column]))
    sign, force = (1.0 if push > 0.0 else -1.0), abs(push)
    side, bound = ("lower", float(facts.dof_lower[dof])) if push > 0.0 else ("upper", float(facts.dof_upper[dof]))
    if not abs(bound) < UNLIMITED:
        return
    beyond = float(np.median(sign * (bound - joints.position[pressing, column])))
    behind = float(np.median(sign * (bound - joints.target[pressing, column])))
    share, turns = float(pressing.mean()), int(facts.dof_turns[dof])
    name, stiffness = str(facts.dof_name[dof]), float(facts.dof_limit_ke[dof])
    common: dict[str, Any] = {
        "kind": "joint-limit",
        "where": name,
        "numbers": (
            Number("time at the limit", 100.0 * share, "%"),
            Number("limit", bound, length),
            Number("force", force, unit),
            Number("past it", max(beyond, 0.0), length),
        ),
        "worlds": (int(max(facts.dof_world[dof], 0)),),
        "score": share / MIN_SHARE,
    }
    if facts.dof_ke[dof] > 0.0 and behind > FAR[turns]:
        yield Finding(
            severity="warning",
            cause="target-beyond-limit",
            what=f"the drive pushes it against its {side} limit with {force:.3g} {unit}: the target lies behind it",
            measure=Number("target beyond the limit", behind, length),
            change=(
                f"set the target of {name} to {bound:.4g} {length} or inside of it, or the {side} limit to "
                f"{bound - sign * behind:.4g} {length}"
            ),
            settings={"target": bound},
            predicted=0.0,
            **common,
        )
    elif beyond > DEEP[turns]:
        wanted = stiffness * beyond / (0.2 * DEEP[turns])
        yield Finding(
            severity="warning",
            cause="soft-limit",
            what=f"the {side} limit is a spring of {stiffness:.3g} {unit}/{length}, which {force:.3g} {unit} press in",
            measure=Number("past the limit", beyond, length),
            change=f"set limit_ke of {name} to {wanted:.2g} {unit}/{length}",
            settings={"limit_ke": wanted},
            predicted=0.2 * DEEP[turns],
            **common,
        )
    else:
        yield Finding(
            severity="info",
            cause="leans",
            what=f"it leans on its {side} limit with {force:.3g} {unit}",
            measure=Number("force at the limit", force, unit),
            change="nothing, if it is meant to rest there; else give it a drive, or another limit",
            **common,
        )
