"""The precisions of a step, each a parameter of the kernels, and the variant that a solver's options choose."""

from __future__ import annotations

from typing import Any

from ...core.kernels.template import Parameter, Variant
from ...core.kernels.types import FP32, FP64, TYPES
from ...core.native import left_out
from .options import SapOptions

state = Parameter("state")
"""Precision of the arrays of a state: Newton's are in single precision."""
pose = Parameter("pose")
"""Precision of poses in free motion's data: one forward kinematics serves dynamics and contacts, in the better one."""
contact_pose = Parameter("contact_pose")
"""Precision to which poses are rounded for contacts."""
dynamics = Parameter("dynamics")
"""Precision of free motion: mass matrix, bias forces, motion columns."""
weight = Parameter("weight")
"""Precision of the contact weight w."""
solve = Parameter("solve")
"""Precision of v, the gradient and all terms of the objective."""
linear = Parameter("linear")
"""Precision of the Hessian and its factorization."""
cost = Parameter("cost")
"""Precision of costs, slopes and steps of the line search."""


def solver_variant(options: SapOptions, device: Any) -> Variant:
    """The variant of the kernels of a solver with these options on a device; the precision of states is not in it."""
    motion = TYPES[options.free_motion_solve_precision]
    return Variant(
        pose=FP64 if options.use_f64_boundary_pose else motion,
        contact_pose=FP64 if options.use_f64_boundary_pose else FP32,
        dynamics=motion,
        weight=TYPES[options.sap_contact_weight_precision],
        solve=TYPES[options.contact_solve_precision],
        linear=TYPES[options.contact_linear_solve_precision],
        cost=TYPES[options.cost_precision],
        by_value=not device.is_cpu,
        left_out=left_out(),
    )
