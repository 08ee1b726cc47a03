"""What cannot be done."""


class SweepError(ValueError):
    """A sweep cannot be run as asked; the message says what, where, and what to do."""
