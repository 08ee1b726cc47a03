"""Checkpoints of a simulation: its state, the file, and the fingerprint of the model."""
