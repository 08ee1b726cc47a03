"""Equations: couplings, welds and closed loops."""
