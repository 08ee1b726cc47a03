"""Compute the numbers of a row from samples, for each world alone, so that its bits do not depend on others."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....solver import SolveStatus
from ..definition.conditions import Condition

SIGNALS = ("slip_speed", "energy", "iterations", "contacts", "penetration", "dropped", "status")
"""Signals that the numbers are made of."""
NUMBERS: dict[str, tuple[str, str]] = {
    "end_time": ("s", "time of the last sample that counts"),
    "slip": ("m", "fastest slide of a contact, over time"),
    "energy": ("J", "kinetic energy and that of gravity, at the end"),
    "energy_max": ("J", "largest of it"),
    "iterations": ("", "Newton iterations, mean"),
    "iterations_max": ("", "most of them"),
    "contacts": ("", "contacts, mean"),
    "penetration_max": ("m", "deepest overlap"),
    "dropped": ("", "contacts that found no place, in all samples"),
    "not_converged": ("", "samples whose solve met no criterion"),
}
"""Unit and description of the numbers of a row."""
FAILED_FROM = float(SolveStatus.FREE_MOTION_FAILED)


def find_end(status: np.ndarray, until: np.ndarray | None) -> tuple[int, str]:
    """Return the last sample of a world that counts, and why: failed, condition held, or time was over."""
    failed = np.flatnonzero(status >= FAILED_FROM)
    met = np.flatnonzero(until) if until is not None else failed[:0]
    if len(failed) and (not len(met) or failed[0] <= met[0]):
        return int(failed[0]), "failed"
    if len(met):
        return int(met[0]), "until"
    return len(status) - 1, "time"


def summarize(
    samples: dict[str, np.ndarray], times: np.ndarray, until: Condition | None, success: Condition | None
) -> dict[str, Any]:
    """Return the numbers of one world.

    Args:
        samples: By signal, shape (samples,).
        times: Of the samples [s].
        until: What ends the run.
        success: What has to hold at its end; None for ``until``, or for any run that did not fail.
    """
    samples = {name: np.ascontiguousarray(values) for name, values in samples.items()}
    last, ended = find_end(samples["status"], None if until is None else until.holds(samples))
    kept = {name: values[: last + 1] for name, values in samples.items()}
    end = {name: values[-1:] for name, values in kept.items()}
    if ended == "failed":
        good = False
    elif success is not None:
        good = bool(success.holds(end)[0])
    else:
        good = until is None or ended == "until"
    interval = float(times[0])  # the first sample ends the first interval
    return {
        "samples": last + 1,
        "ended": ended,
        "success": good,
        "end_time": float(times[last]),
        "slip": float(kept["slip_speed"].sum() * interval),
        "energy": float(kept["energy"][-1]),
        "energy_max": float(kept["energy"].max()),
        "iterations": float(kept["iterations"].mean()),
        "iterations_max": float(kept["iterations"].max()),
        "contacts": float(kept["contacts"].mean()),
        "penetration_max": float(kept["penetration"].max()),
        "dropped": float(kept["dropped"].sum()),
        "not_converged": float((kept["status"] != float(SolveStatus.CONVERGED)).sum()),
    }
