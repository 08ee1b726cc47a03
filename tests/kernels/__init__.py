"""Tests of what kernels are made of: blocks of lanes, packed rows, vector snippets."""
