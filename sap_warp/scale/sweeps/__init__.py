"""Sweeps: one scene with many values of its parameters, on threads or on a cluster, into a dataset that can resume."""

from .definition.definition import Definition
from .errors import SweepError
from .results.result import SweepResult
from .running.run import EngineOptions, begin_sweep, resume_sweep, run_point, sweep

__all__ = [
    "Definition",
    "EngineOptions",
    "SweepError",
    "SweepResult",
    "begin_sweep",
    "resume_sweep",
    "run_point",
    "sweep",
]
