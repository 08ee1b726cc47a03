"""Signals of a simulation over time."""
