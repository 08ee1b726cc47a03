"""Types for numbers of a scene that have a unit, each within its bounds."""

from __future__ import annotations

from typing import Any

from . import bounds
from .values import NUMBER_SCHEMA, VEC3_SCHEMA, read_non_negative, read_number, read_positive, read_vec3, typed


def _within(quantity: bounds.Quantity, read: Any) -> Any:
    return typed(float, lambda value: quantity.check(read(value)), NUMBER_SCHEMA)


def _vector_within(quantity: bounds.Quantity) -> Any:
    return typed(tuple, lambda value: read_vec3(value, quantity), VEC3_SCHEMA)


TimeStep: Any = _within(bounds.TIME_STEP, read_positive)
Duration: Any = _within(bounds.DURATION, read_positive)
Length: Any = _within(bounds.LENGTH, read_number)
Distance: Any = _within(bounds.LENGTH, read_non_negative)
Position: Any = _vector_within(bounds.LENGTH)
Size: Any = _within(bounds.SIZE, read_positive)
Coordinate: Any = _within(bounds.COORDINATE, read_number)
Speed: Any = _within(bounds.SPEED, read_number)
Mass: Any = _within(bounds.MASS, read_non_negative)
Armature: Any = _within(bounds.INERTIA, read_non_negative)
Density: Any = _within(bounds.DENSITY, read_non_negative)
Stiffness: Any = _within(bounds.STIFFNESS, read_non_negative)
ContactStiffness: Any = _within(bounds.STIFFNESS, read_positive)
Damping: Any = _within(bounds.DAMPING, read_non_negative)
Force: Any = _within(bounds.FORCE, read_non_negative)
Friction: Any = _within(bounds.FRICTION, read_non_negative)
Relaxation: Any = _within(bounds.RELAXATION, read_non_negative)
Factor: Any = _within(bounds.SCALE, read_positive)
Concavity: Any = _within(bounds.CONCAVITY, read_positive)
