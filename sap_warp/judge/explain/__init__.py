"""Explanation of the contact between two shapes, without simulating it."""

from .lookup import ShapeLookupError, find_shape, shape_names
from .pair import Provenance, explain_contact
from .result import FIELDS, FROM_MODEL, FROM_MODEL_DEFAULT, ContactExplanation, ShapeExplanation, Value

__all__ = [
    "FIELDS",
    "FROM_MODEL",
    "FROM_MODEL_DEFAULT",
    "ContactExplanation",
    "Provenance",
    "ShapeExplanation",
    "ShapeLookupError",
    "Value",
    "explain_contact",
    "find_shape",
    "shape_names",
]
