"""Bounds on the quantities of a scene.

The bounds are generous: what lies beyond them is a slip of the keyboard or a mix-up of units, and single precision
could not simulate it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.kernels.precision import MAX_TIME_STEP, MIN_TIME_STEP
from .errors import Complaint

MAX_MASS = 1e15
"""Largest mass of a body [kg]."""
MAX_INERTIA = 1e12
"""Largest moment of inertia of a body [kg m^2]; fp32 holds the product of three."""


@dataclass(frozen=True)
class Quantity:
    """A kind of number, with the magnitudes it may have."""

    name: str
    """What messages call one such number, with its article."""
    unit: str
    largest: float
    smallest: float = 0.0
    """Smallest magnitude of numbers that are not 0."""

    def check(self, number: float) -> float:
        """Return ``number`` if its magnitude is within the bounds; complain otherwise."""
        if abs(number) > self.largest or 0.0 < abs(number) < self.smallest:
            raise Complaint(f"found {number:g}; {self.name} is {self.range}")
        return number

    @property
    def range(self) -> str:
        """Return the bounds as people write them."""
        low = f"{self.smallest:g} to " if self.smallest else "at most "
        return f"{low}{self.largest:g} {self.unit}".rstrip()


TIME_STEP = Quantity("a time step", "s", MAX_TIME_STEP, MIN_TIME_STEP)
DURATION = Quantity("a duration", "s", 1e9, MIN_TIME_STEP)
LENGTH = Quantity("a position or distance", "m", 1e7)
SIZE = Quantity("a size", "m", 1e7, 1e-7)
COORDINATE = Quantity("a joint position or target", "m or rad", 1e7)
SPEED = Quantity("a speed", "m/s or rad/s", 1e7)
ACCELERATION = Quantity("a gravity", "m/s^2", 1e6)
MASS = Quantity("a mass", "kg", MAX_MASS, 1e-12)
INERTIA = Quantity("an inertia", "kg or kg m^2", MAX_INERTIA)
DENSITY = Quantity("a density", "kg/m^3", 1e12, 1e-9)
STIFFNESS = Quantity("a stiffness", "N/m or N m/rad", 1e15, 1e-9)
DAMPING = Quantity("a damping", "N s/m or N m s/rad", 1e15)
FORCE = Quantity("a friction force", "N or N m", 1e15)
FRICTION = Quantity("a coefficient", "", 1e6)
RELAXATION = Quantity("a dissipation time", "s", 1e6)
SCALE = Quantity("a factor", "", 1e9, 1e-9)
CONCAVITY = Quantity("a threshold of convex parts", "", 1.0, 0.01)
QUANTITIES = (
    *(TIME_STEP, DURATION, LENGTH, SIZE, COORDINATE, SPEED, ACCELERATION, MASS, INERTIA, DENSITY),
    *(STIFFNESS, DAMPING, FORCE, FRICTION, RELAXATION, SCALE, CONCAVITY),
)
"""All quantities, listed in the documentation."""
