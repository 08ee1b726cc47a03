"""Find problems of the solve: unfinished bodies and steps, slow worlds, dropped contacts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ....solver.settings.status import SolveStatus
from ..report import Finding, Number
from ..samples import Samples

MIN_HOP = 5e-3
"""Velocity error of a body that is reported [m/s]."""
BAD_HOP = 5e-2
MIN_PART, MIN_OFTEN = 0.2, 0.02
"""Share of the body's speed, and share of the steps; an impact now and then is not meant."""
MIN_FAILED = 0.01
"""Share of world-steps without a solution that is reported."""
SLOW, SLOW_ITERATIONS = 3.0, 5.0
"""Ratio of a slow world's iterations to those of the median world, and their least number."""
TIGHT = 1e-6
"""Relative cost tolerance that is small enough for every body."""


def find_hops(run: Samples) -> Iterable[Finding]:
    """Find light bodies that a loose tolerance leaves with a wrong velocity."""
    imbalance = np.where(np.isfinite(run.bodies.imbalance), run.bodies.imbalance, 0.0)
    if not imbalance.size:
        return
    tolerance = run.options.cost_tolerances[1]
    solved = run.outcome.status <= SolveStatus.UNSTABLE
    worst = imbalance.max(axis=0)
    for column in np.flatnonzero(worst > MIN_HOP):
        body = int(run.bodies.body[column])
        world = int(max(run.facts.body_world[body], 0))
        speed = np.linalg.norm(run.bodies.velocity[:, column], axis=1)
        speed = np.maximum(speed, np.append(speed[:1], speed[:-1]))  # an impact changes it
        hops = imbalance[:, column] * (solved[:, world] & (imbalance[:, column] > MIN_PART * speed))
        largest, often = float(hops.max()), int((hops > MIN_HOP).sum())
        if often < MIN_OFTEN * run.count or tolerance <= TIGHT:
            continue
        mass, total = run.facts.body_mass[body], _world_mass(run, world)
        yield Finding(
            kind="hop",
            severity="problem" if largest > BAD_HOP else "warning",
            where=str(run.facts.owner_name[body]),
            cause="cost-tolerance",
            what=(
                f"the solve stops when the cost of the whole world changes by less than cost_rel_tol {tolerance:g}; "
                f"this body is {100.0 * mass / total:.2g} % of the mass, and its velocity is still off by that much"
            ),
            measure=Number("velocity error", largest, "m/s"),
            change='set line_search_variant to "exact_root", or cost_rel_tol to 1e-6',
            settings={"line_search_variant": "exact_root"},
            predicted=largest * TIGHT / tolerance,
            numbers=(
                Number("hop in one step", largest * run.dt, "m"),
                Number("steps with a hop", 100.0 * often / run.count, "%"),
                Number("mass", float(mass), "kg"),
            ),
            worlds=(world,),
            score=largest / MIN_HOP,
        )


def _world_mass(run: Samples, world: int) -> float:
    return float(run.facts.body_mass[run.facts.body_world == world].sum())


def find_unsolved(run: Samples) -> Iterable[Finding]:
    """Find worlds that diverged, or whose solves met no stopping criterion."""
    status = run.outcome.status
    lost = status >= SolveStatus.FREE_MOTION_FAILED
    if lost.any():
        worlds = np.flatnonzero(lost.any(axis=0))
        first = int(np.argmax(lost.any(axis=1)))
        broken = (status == SolveStatus.FREE_MOTION_FAILED).any()
        fp32 = run.options.free_motion_solve_precision == "fp32"
        change = f"set dt to {0.5e3 * run.dt:g} ms, give joints armature or damping, and check the inputs for nan"
        settings: dict[str, object] = {"dt": 0.5 * run.dt}
        if broken and fp32:
            change, settings = 'set free_motion_solve_precision to "fp64"', {"free_motion_solve_precision": "fp64"}
        yield Finding(
            kind="diverged",
            severity="problem",
            where=f"{len(worlds)} of {run.worlds} worlds",
            cause="free-motion" if broken else "no-finite-solution",
            what="these worlds could not take a step and keep the state that they came in with",
            measure=Number("worlds lost", float(len(worlds)), ""),
            change=change,
            settings=settings,
            predicted=0.0,
            numbers=(Number("first after", first * run.interval, "s"),),
            worlds=tuple(int(w) for w in worlds),
            score=1e6,
        )
    unsolved = (status > SolveStatus.CONVERGED) & (status < SolveStatus.UNSTABLE)
    share = float(unsolved.mean()) if unsolved.size else 0.0
    if share > MIN_FAILED:
        kinds = [s.name.lower() for s in SolveStatus if ((status == s) & unsolved).any()]
        yield Finding(
            kind="not-converged",
            severity="warning",
            where="the solve",
            cause="-".join(kinds).replace("_", "-"),
            what=f"the iteration ends without meeting a criterion ({', '.join(kinds)}): forces are not exact then",
            measure=Number("world-steps not converged", 100.0 * share, "%"),
            change='set line_search_variant to "exact_root", or max_iterations higher',
            settings={"line_search_variant": "exact_root"},
            predicted=0.0,
            worlds=tuple(int(w) for w in np.flatnonzero(unsolved.any(axis=0))),
            score=share / MIN_FAILED,
        )


def find_slow(run: Samples) -> Iterable[Finding]:
    """Find worlds that need many more iterations than others."""
    mean = run.outcome.iterations.mean(axis=0) if run.count else np.zeros(0)
    if len(mean) < 2:
        return
    usual = float(np.median(mean))
    slow = np.flatnonzero((mean > SLOW * usual) & (mean > SLOW_ITERATIONS))
    if len(slow):
        worst = slow[np.argsort(-mean[slow])]
        contacts = run.outcome.contacts.mean(axis=0)
        yield Finding(
            kind="slow-worlds",
            severity="info",
            where=f"{len(slow)} of {run.worlds} worlds",
            cause="iterations",
            what="worlds of a batch wait for those that need most iterations",
            measure=Number("iterations of the slowest", float(mean[worst[0]]), ""),
            change="look at these worlds: they may be in a jam, or far from rest; reset them if they are not wanted",
            numbers=(
                Number("iterations of the median world", usual, ""),
                Number("contacts of the slowest", float(contacts[worst[0]]), ""),
                Number("contacts of the median world", float(np.median(contacts)), ""),
            ),
            worlds=tuple(int(w) for w in worst),
            score=float(mean[worst[0]] / max(usual, 1.0)),
        )


def find_dropped(run: Samples) -> Iterable[Finding]:
    """Find contacts that were dropped because buffers were full."""
    dropped, overflow = run.outcome.dropped, run.outcome.overflow
    if dropped.sum() + overflow.sum() == 0:
        return
    per_world = -(-int(overflow.max(initial=0)) // max(run.worlds, 1))
    need = run.capacity + int(dropped.max(initial=0)) + per_world
    worlds = np.flatnonzero(dropped.any(axis=0))
    per_step = float((dropped.sum(axis=1) + overflow).mean())
    yield Finding(
        kind="dropped-contacts",
        severity="problem",
        where=f"{len(worlds) or run.worlds} of {run.worlds} worlds",
        cause="capacity",
        what=f"a world can hold {run.capacity} contacts; the others are left out, and bodies sink into each other",
        measure=Number("contacts dropped per step", per_step, ""),
        change=f"set {run.capacity_name} to {need} or more (it is {run.capacity})",
        settings={"max_rigid_contact": need},
        predicted=0.0,
        numbers=(Number("most in one step and world", float(max(dropped.max(initial=0), per_world)), ""),),
        worlds=tuple(int(w) for w in worlds),
        score=1e5,
    )
