"""Statistics of the steps so far: iterations, contacts, truncation; counted on the device, read when asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from ...core.kernels.launch import WorldRange
from ...solver import SolverSAP
from ..kernels import ITERATION_BINS, TRIAL_BINS, record_step

WORLD_STEPS, CONTACTS, TRUNCATED, NOT_CONVERGED, FAILED, UNSTABLE = range(6)


@dataclass(frozen=True)
class Distribution:
    """Summary of a count that every world has at every step."""

    mean: float
    p99: int
    max: int


class StepCounter:
    """Sums over the steps of one solver, kept on the device: replayed graphs count too, and nothing waits."""

    def __init__(self, solver: SolverSAP):
        """Count for ``solver``."""
        self._solver = solver
        device = solver.model.device
        self.iterations = wp.zeros(ITERATION_BINS, dtype=wp.int64, device=device)
        """World-steps by Newton iterations; the last bin takes all above."""
        self.trials = wp.zeros(TRIAL_BINS, dtype=wp.int64, device=device)
        """World-steps by line search trials."""
        self.totals = wp.zeros(6, dtype=wp.int64, device=device)
        """World-steps, contacts, truncated contacts, world-steps that did not converge, could not be taken, or were
        unstable."""
        self.maxima = wp.zeros(2, dtype=wp.int32, device=device)
        """Most iterations and most trials."""

    def record(self, contacts: Any, worlds: WorldRange) -> None:
        """Count the step of ``worlds`` that was just launched, by one small kernel."""
        solver = self._solver
        wp.launch(
            record_step,
            dim=worlds.count,
            inputs=[
                worlds.first,
                solver.contact_solve.iterations,
                solver.contact_solve.line_search_iterations,
                solver.contact_stage.contact_count,
                solver.contact_stage.truncated_count,
                solver.world_status,
                contacts.rigid_contact_count,
                contacts.rigid_contact_max,
            ],
            outputs=[self.iterations, self.trials, self.totals, self.maxima],
            device=solver.model.device,
        )

    def clear(self) -> None:
        """Start again from zero."""
        for array in (self.iterations, self.trials, self.totals, self.maxima):
            array.zero_()


class Count:
    """Attribute that shows one of the totals."""

    def __init__(self, which: int):
        """Show entry ``which`` of `StepCounter.totals`."""
        self._which = which

    def __get__(self, owner: Any, kind: type | None = None) -> int:
        if owner is None:
            return self  # type: ignore[return-value]
        return owner._total(self._which)


class StepStatistics:
    """The counters of all shards together. Reading waits for the device."""

    def __init__(self, counters: Sequence[StepCounter], on_read: Callable[[], None]):
        """Sum over ``counters``; ``on_read`` is called before they are read."""
        self._all, self._on_read = counters, on_read

    @property
    def _counters(self) -> Sequence[StepCounter]:
        self._on_read()
        return self._all

    def clear(self) -> None:
        """Start again from zero."""
        for counter in self._all:
            counter.clear()

    world_steps = Count(WORLD_STEPS)
    """Steps times worlds."""

    @property
    def mean_contacts(self) -> float:
        """Contacts per world and step."""
        return self._total(CONTACTS) / max(self.world_steps, 1)

    truncated_contacts = Count(TRUNCATED)
    """Contacts that did not fit into a world or into the collision pipeline's buffer, over all steps."""

    not_converged = Count(NOT_CONVERGED)
    """World-steps that met no stopping criterion."""

    @property
    def iterations(self) -> Distribution:
        """Newton iterations per world and step."""
        histogram = np.sum([counter.iterations.numpy() for counter in self._counters], axis=0)
        return _summarize(histogram, self._largest(0))

    @property
    def line_search_trials(self) -> Distribution:
        """Evaluations of the cost along Newton directions, per world and step."""
        histogram = np.sum([counter.trials.numpy() for counter in self._counters], axis=0)
        return _summarize(histogram, self._largest(1))

    failed = Count(FAILED)
    """World-steps that could not be taken: the world kept its state."""

    unstable = Count(UNSTABLE)
    """World-steps in which most of the kinetic energy was the time step's own error."""

    def __repr__(self) -> str:
        newton, trials = self.iterations, self.line_search_trials
        return (
            f"<StepStatistics of {self.world_steps:,} world-steps: {self.mean_contacts:.3g} contacts on average, "
            f"Newton iterations {newton.mean:.3g} on average, {newton.p99} p99, {newton.max} max, line search trials "
            f"{trials.mean:.3g}, {trials.p99}, {trials.max}, contacts dropped {self.truncated_contacts:,}, "
            f"not converged {self.not_converged:,}, failed {self.failed:,}, unstable {self.unstable:,}>"
        )

    def _total(self, which: int) -> int:
        return int(sum(int(counter.totals.numpy()[which]) for counter in self._counters))

    def _largest(self, which: int) -> int:
        return int(max(int(counter.maxima.numpy()[which]) for counter in self._counters))


def _summarize(histogram: np.ndarray, largest: int) -> Distribution:
    total = int(histogram.sum())
    if total == 0:
        return Distribution(0.0, 0, 0)
    mean = float(histogram @ np.arange(len(histogram))) / total
    return Distribution(mean, int(np.searchsorted(np.cumsum(histogram), 0.99 * total)), largest)
