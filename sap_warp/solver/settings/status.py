"""Per-world outcome of a step."""

from __future__ import annotations

from enum import IntEnum

import warp as wp


class SolveStatus(IntEnum):
    """Value of ``SolverSAP.status`` for one world."""

    CONVERGED = 0
    """The optimality or the cost criterion was met."""
    ITERATION_LIMIT = 1
    """max_iterations Newton steps were taken; the last velocity is kept."""
    LINE_SEARCH_FAILED = 2
    """No acceptable step along the Newton direction; the last accepted velocity is kept."""
    FACTORIZATION_FAILED = 3
    """The Hessian was not positive definite; the last accepted velocity is kept."""
    UNSTABLE = 4
    """Solved, but most of the kinetic energy comes from the time step's own error: take a smaller one (`stability`)."""
    FREE_MOTION_FAILED = 5
    """The dynamics matrix A was not positive definite; the world keeps its state."""
    DIVERGED = 6
    """A position or velocity was not finite or beyond all bounds; the world keeps the state it came in with."""


CONVERGED = wp.constant(int(SolveStatus.CONVERGED))
ITERATION_LIMIT = wp.constant(int(SolveStatus.ITERATION_LIMIT))
LINE_SEARCH_FAILED = wp.constant(int(SolveStatus.LINE_SEARCH_FAILED))
FACTORIZATION_FAILED = wp.constant(int(SolveStatus.FACTORIZATION_FAILED))
UNSTABLE = wp.constant(int(SolveStatus.UNSTABLE))
FREE_MOTION_FAILED = wp.constant(int(SolveStatus.FREE_MOTION_FAILED))
DIVERGED = wp.constant(int(SolveStatus.DIVERGED))
