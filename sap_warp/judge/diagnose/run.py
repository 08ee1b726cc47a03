"""Diagnose a simulation: run it for a while, and report what was found."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...solver.settings.options import SapOptions
from .collect import Collector
from .detectors import OF_PAIRS, OF_RUN
from .pairs import sum_by_pair
from .report import SEVERITIES, Finding, Report, worst_first
from .samples import Samples
from .tables import make_tables

if TYPE_CHECKING:
    from ...simulation import Simulation

MAX_SAMPLES = 1000
"""Most samples of a run; a longer one is not sampled at every step."""
DETAILED_WORLDS = 16
"""Number of worlds that are sampled in detail by default, spread over all of them."""

OPTIONS = frozenset(f.name for f in fields(SapOptions)) | {"dt"}
"""Settings that act everywhere, so that one finding can speak for several bodies."""


def diagnose(
    sim: Simulation,
    seconds: float = 2.0,
    *,
    every: int | None = None,
    worlds: Sequence[int] | None = None,
    progress: Callable[[int], Any] | None = None,
) -> Report:
    """Advance ``sim`` by ``seconds`` and report what goes wrong, why, and what would change it.

    The simulation goes on from where it is, with its callbacks and its control, and stays where it ends.

    Args:
        sim: What to look at.
        seconds: Simulated time [s].
        every: Steps from one sample to the next; None samples every step of up to 1,000, else 1,000 of them. Jitter is
            told best at every step.
        worlds: Worlds whose contacts and joints are looked at; None takes up to 16.
        progress: Called with the number of finished steps.

    Raises:
        ValueError: ``seconds`` or ``every`` is not positive, or there is no such world.
        TypeError: They are of the wrong kind.
    """
    steps = _count_steps(seconds, sim.dt)
    every = max(1, -(-steps // MAX_SAMPLES)) if every is None else _check_every(every, steps)
    chosen = _choose_worlds(worlds, sim.world_count)
    samples = steps // every
    sim.prepare()
    collector = Collector(sim, samples, every, chosen)
    for done in range(1, samples + 1):
        sim.step(every)
        collector.take(sim)
        if progress is not None:
            progress(done * every)
    return make_report(collector.finish(sim), sim.name)


def make_report(run: Samples, scene: str) -> Report:
    """Run all detectors on the samples of a run and return their report."""
    pairs = sum_by_pair(run)
    findings = [finding for detect in OF_PAIRS for finding in detect(pairs)]
    findings += [finding for detect in OF_RUN for finding in detect(run)]
    return Report(
        scene=scene,
        seconds=run.seconds,
        dt=run.dt,
        every=run.every,
        worlds=run.worlds,
        detailed_worlds=tuple(int(world) for world in run.detailed),
        findings=worst_first(_join(findings)),
        tables=make_tables(pairs),
    )


def _join(findings: Sequence[Finding]) -> list[Finding]:
    """Join findings of several worlds, or of several bodies that one option helps, into the worst one."""
    joined: list[Finding] = []
    for key in (_same_subject, _same_remedy):
        groups: dict[Any, list[Finding]] = {}
        for i, finding in enumerate(joined or findings):
            groups.setdefault(key(finding) or i, []).append(finding)
        joined = [_merge(group) for group in groups.values()]
    return joined


def _same_subject(finding: Finding) -> Any:
    return (finding.kind, finding.where, finding.cause)


def _same_remedy(finding: Finding) -> Any:
    """Return a key of remedies that help several bodies; None for a remedy of one body alone."""
    if not OPTIONS.issuperset(finding.settings):
        return None
    return (finding.kind, finding.cause, finding.severity, tuple(finding.settings))


def _merge(group: list[Finding]) -> Finding:
    worst = min(group, key=lambda f: (SEVERITIES.index(f.severity), -f.score))
    others = dict.fromkeys(f.where for f in sorted(group, key=lambda f: -f.score) if f.where != worst.where)
    return replace(worst, others=tuple(others), worlds=tuple(sorted({world for f in group for world in f.worlds})))


def _count_steps(seconds: Any, dt: float) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, numbers.Real):
        raise TypeError(f"seconds is {seconds!r}; it must be a time [s].")
    value = float(seconds)
    if not (math.isfinite(value) and value > 0.0):
        raise ValueError(f"seconds is {seconds!r}; it must be positive and finite.")
    return max(1, math.ceil(round(value / dt, 6)))


def _check_every(every: Any, steps: int) -> int:
    if isinstance(every, bool) or not isinstance(every, numbers.Integral):
        raise TypeError(f"every is {every!r}; it must be a number of steps.")
    if not 1 <= int(every) <= steps:
        raise ValueError(f"every is {every}; it must be from 1 to the {steps} steps of the run.")
    return int(every)


def _choose_worlds(worlds: Sequence[int] | None, count: int) -> np.ndarray:
    if worlds is None:
        return np.unique(np.linspace(0, count - 1, min(count, DETAILED_WORLDS)).round().astype(int))
    chosen = np.unique(np.asarray(list(worlds)))
    if not len(chosen) or chosen.dtype.kind not in "iu":
        raise TypeError(f"worlds is {worlds!r}; it must have numbers of worlds.")
    if chosen[0] < 0 or chosen[-1] >= count:
        raise ValueError(f"worlds is {worlds!r}; there are worlds 0 to {count - 1}.")
    return chosen.astype(int)
