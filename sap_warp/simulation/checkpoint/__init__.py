"""States of a simulation, kept and taken back; their file and the fingerprint of a model."""
