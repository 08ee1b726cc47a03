"""Independent dense NumPy statement of one SAP step. Imports nothing of the package under test."""

from . import terms
from .dense_sap import Contact, DenseWorld, OracleOptions, contact_frame
from .kinematics import Tree
from .problems import (
    close_loops,
    fill_newton_contacts,
    fp32,
    random_contacts,
    random_controls,
    random_model,
    random_state,
)

__all__ = [
    "Contact",
    "DenseWorld",
    "OracleOptions",
    "Tree",
    "close_loops",
    "contact_frame",
    "fill_newton_contacts",
    "fp32",
    "random_contacts",
    "random_controls",
    "random_model",
    "random_state",
    "terms",
]
