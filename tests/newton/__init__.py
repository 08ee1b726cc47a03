"""Tests of `SolverSAP` in the place of one of Newton's solvers."""
