"""Conversions between the conventions of SAP Warp and its neighbours.

One table, :data:`SYSTEMS`, records how each system stores twists, wrenches, quaternions, poses and primitive
shapes. Every converter is derived from two records of that table, source and target; no pair of systems has code
of its own. All functions take and return NumPy arrays with any leading batch dimensions; ``docs/conventions.md``
explains the conventions and is checked against the table.

Importing this module loads NumPy only.
"""

from .rotations import convert_pose, convert_quaternion, convert_up_axis, up_axis_rotation
from .shapes import ShapeConversion, cone_center_of_mass, convert_shape
from .spatial import convert_twist, convert_wrench
from .systems import ALIASES, SYSTEMS, get_convention
from .table import Convention, Parameter, ShapeLayout, SpatialLayout

__all__ = [
    "ALIASES",
    "SYSTEMS",
    "Convention",
    "Parameter",
    "ShapeConversion",
    "ShapeLayout",
    "SpatialLayout",
    "cone_center_of_mass",
    "convert_pose",
    "convert_quaternion",
    "convert_shape",
    "convert_twist",
    "convert_up_axis",
    "convert_wrench",
    "get_convention",
    "up_axis_rotation",
]
