"""Find contacts that come and go from step to step, of bodies that go nowhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..pairs import Pairs
from ..report import Finding, Number

MIN_SHARE = 0.1
"""Changes per step between contact and none, from which a pair jitters."""
MIN_CHANGES = 8
MIN_TREMBLE = 2e-3
"""Speed of trembling that is reported [m/s]."""
ALTERNATES = 1.0
"""Change of a force from step to step over its deviation, from which it alternates: a period of six steps."""


def find_jitter(pairs: Pairs) -> Iterable[Finding]:
    """Find pairs that alternate between contact and none in the second half of the run."""
    run = pairs.run
    later = np.arange(run.count) >= run.count // 2
    for pair in range(len(pairs.world)):
        active = pairs.active[pair][later]
        changes = int(np.count_nonzero(np.diff(active.astype(np.int8))))
        if changes < MIN_CHANGES or changes < MIN_SHARE * len(active):
            continue
        tremble = _tremble(pairs, pair, later)
        if tremble > MIN_TREMBLE:
            yield _explain(pairs, pair, changes, later, tremble)


def _bodies(pairs: Pairs, pair: int) -> list[int]:
    return [int(owner) for owner in pairs.owner[pair] if owner < len(pairs.run.facts.body_mass)]


def _tremble(pairs: Pairs, pair: int, later: np.ndarray) -> float:
    """Return the speed of the relative motion that averages out [m/s]."""
    samples = pairs.run.bodies
    velocity = np.zeros((int(later.sum()), 3))
    for body, sign in zip(_bodies(pairs, pair), (1.0, -1.0), strict=False):
        velocity = velocity + sign * samples.velocity[later, samples.column(body)]
    return float(np.sqrt(((velocity - velocity.mean(axis=0)) ** 2).sum(axis=1).mean()))


def _alternation(force: np.ndarray) -> tuple[float, float]:
    """Return, for the worst column, change per step over deviation, and the deviation [N or N m].

    A sine with a period of P steps has 2 sin(pi / P).
    """
    if not force.shape[1]:
        return 0.0, 0.0
    size = force.std(axis=0)
    change = np.sqrt((np.diff(force, axis=0) ** 2).mean(axis=0))
    worst = int(np.argmax(change))
    return float(change[worst] / max(size[worst], 1e-12)), float(size[worst])


def _pushed(pairs: Pairs, pair: int, later: np.ndarray) -> tuple[float, float]:
    """Return how much external forces on the pair's mechanisms alternate."""
    run, facts = pairs.run, pairs.run.facts
    trees = facts.body_tree[_bodies(pairs, pair)]
    members = np.isin(facts.body_tree[run.bodies.body], trees)
    on_bodies = run.bodies.force[later][:, members].reshape(int(later.sum()), -1)
    on_joints = run.joints.applied[later][:, facts.dof_world[run.joints.dof] == pairs.world[pair]]
    return max(_alternation(on_bodies), _alternation(on_joints))


def _explain(pairs: Pairs, pair: int, changes: int, later: np.ndarray, tremble: float) -> Finding:
    run, count = pairs.run, int(later.sum())
    frequency = 0.5 * changes / (count * run.interval)
    alternates, size = _pushed(pairs, pair, later)
    rattles = f"the contact opens and closes {frequency:.0f} times a second"
    numbers = [Number("frequency", frequency, "Hz"), Number("changes per step", changes / count, "")]
    common: dict[str, Any] = {
        "kind": "jitter",
        "severity": "problem" if tremble > 10.0 * MIN_TREMBLE else "warning",
        "where": pairs.name(pair),
        "measure": Number("trembling", tremble, "m/s"),
        "worlds": (int(pairs.world[pair]),),
        "score": tremble / MIN_TREMBLE,
    }
    if run.outcome.dropped[:, pairs.world[pair]].any() or run.outcome.overflow.any():
        what = f"{rattles}: the world is full, and which of its contacts are left out changes from step to step"
        change = f"set {run.capacity_name} higher, see dropped-contacts"
        common |= {"cause": "dropped-contacts", "predicted": 0.0}
    elif alternates > ALTERNATES:
        what = f"{rattles}: forces that are given from outside change by {size:.3g} N from step to step"
        change = (
            "lower the gains of the controller that writes body_f or joint_f (stiffness below mass / dt^2, damping "
            "below mass / dt), or use joint drives, which are implicit"
        )
        common |= {"cause": "explicit-controller", "predicted": 0.0}
    else:
        what = f"{rattles}: from one step to the next the bodies move too far for the contacts that were found"
        change = f"set dt to {0.5e3 * run.dt:g} ms, or give the shapes a larger gap"
        common |= {"cause": "time-step", "settings": {"dt": 0.5 * run.dt}}
    return Finding(what=what, change=change, numbers=tuple(numbers), **common)
