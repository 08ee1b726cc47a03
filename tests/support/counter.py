"""A subject for workers that needs nothing but Python: they start in a second."""


class Counter:
    """A subject that counts."""

    def __init__(self):
        self.value = 0

    def add(self, number):
        self.value += number
        return self.value
