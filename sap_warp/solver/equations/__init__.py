"""Bilateral rows: couplings, welds and closed loops."""
