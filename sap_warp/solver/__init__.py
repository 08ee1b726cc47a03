"""The SAP time step: `SolverSAP` and its stages.

The names load on first use, so that looking at `options` brings in neither Newton nor Warp.
"""

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .contact_forces import ContactForces
    from .contact_jacobian import SapContactJacobian
    from .free_motion import SapFreeMotion
    from .joint_forces import JointForces
    from .newton import SapContactSolve
    from .options import SapOptions
    from .solver import SolverSAP
    from .status import SolveStatus
    from .support import UnsupportedModelError

_SUBMODULE_OF = {
    "ContactForces": "contact_forces",
    "JointForces": "joint_forces",
    "SapContactJacobian": "contact_jacobian",
    "SapContactSolve": "newton",
    "SapFreeMotion": "free_motion",
    "SapOptions": "options",
    "SolveStatus": "status",
    "SolverSAP": "solver",
    "UnsupportedModelError": "support",
}

__all__ = [
    "ContactForces",
    "JointForces",
    "SapContactJacobian",
    "SapContactSolve",
    "SapFreeMotion",
    "SapOptions",
    "SolveStatus",
    "SolverSAP",
    "UnsupportedModelError",
]

__getattr__ = lazy_names(__name__, _SUBMODULE_OF)
