"""Contacts of a step: their binning, rows, weights and lists."""
