"""Foundations of the package: notes, lazy names, kernels, native headers."""
