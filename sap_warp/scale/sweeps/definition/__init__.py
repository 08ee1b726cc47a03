"""Definition of a sweep: its parameters, values, conditions and points."""
