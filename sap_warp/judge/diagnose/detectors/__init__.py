"""Detectors: functions from samples, or from pairs of bodies, to findings. NumPy only."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..pairs import Pairs
from ..report import Finding
from ..samples import Samples
from .depth import find_depth, find_impacts
from .energy import find_energy
from .jitter import find_jitter
from .joints import find_limits, find_saturated
from .slip import find_slip
from .solve import find_dropped, find_hops, find_slow, find_unsolved

OF_PAIRS: tuple[Callable[[Pairs], Iterable[Finding]], ...] = (find_slip, find_depth, find_impacts, find_jitter)
OF_RUN: tuple[Callable[[Samples], Iterable[Finding]], ...] = (
    *(find_saturated, find_limits, find_hops, find_unsolved, find_slow),
    *(find_dropped, find_energy),
)

__all__ = ["OF_PAIRS", "OF_RUN"]
