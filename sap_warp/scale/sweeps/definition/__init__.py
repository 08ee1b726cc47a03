"""What a sweep is: its parameters, values, conditions and points."""
