"""Find energy that comes from the time step; `solver/minimize/stability.py` keeps the balance."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ....solver.settings.status import SolveStatus
from ..report import Finding, Number
from ..samples import Samples

MIN_SHARE = 0.2
"""Share of the kinetic energy that comes from the time step, from which it is reported."""
MIN_STEPS = 0.05
"""Share of the run during which that has to be so."""


def find_energy(run: Samples) -> Iterable[Finding]:
    """Find worlds whose kinetic energy is in part the time step's own error."""
    kinetic, excess = run.outcome.energy[..., 0], run.outcome.energy[..., 2]
    if not kinetic.size:
        return
    largest = np.maximum(kinetic.max(axis=0), 1e-12)
    moves = (kinetic > 0.05 * largest) & (kinetic > 1e-4) & np.isfinite(excess)
    share = np.where(moves, excess / np.maximum(kinetic, 1e-300), 0.0)
    unstable = (run.outcome.status == SolveStatus.UNSTABLE).any(axis=0)
    grows = ((share > MIN_SHARE).mean(axis=0) > MIN_STEPS) | unstable
    if not grows.any():
        return
    worlds = np.flatnonzero(grows)
    score = np.where(grows, share.max(axis=0) + unstable, 0.0)
    worst = int(np.argmax(score))
    midpoint = run.options.position_integration == "midpoint"
    other = ', or position_integration to "sap_euler", which takes energy away' if midpoint else ""
    most = float(share[:, worst].max())
    first = int(np.argmax(share[:, worst] > MIN_SHARE)) if most > MIN_SHARE else run.count
    yield Finding(
        kind="energy-growth",
        severity="problem" if unstable[worst] else "warning",
        where=f"{len(worlds)} of {run.worlds} worlds",
        cause="time-step",
        what=(
            "kinetic energy grows without work: forces of a step are those of its beginning, which is too coarse for "
            "how fast these bodies swing"
        ),
        measure=Number("energy from nowhere", 100.0 * most, "%"),
        change=f"set dt to {0.25e3 * run.dt:g} ms, give joints armature or damping{other}",
        settings={"dt": 0.25 * run.dt},
        predicted=25.0 * most,
        numbers=(
            Number("kinetic energy at most", float(kinetic[:, worst].max()), "J"),
            Number("first after", first * run.interval, "s"),
        ),
        worlds=tuple(int(w) for w in worlds),
        score=float(score[worst]) / MIN_SHARE,
    )
