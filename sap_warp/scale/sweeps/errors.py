"""Error of sweeps that cannot be run."""


class SweepError(ValueError):
    """A sweep cannot be run as asked; the message says what, where, and what to do."""
