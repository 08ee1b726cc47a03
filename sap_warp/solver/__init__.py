"""The SAP time step: `SolverSAP` and its stages."""

from .contact_forces import ContactForces
from .contact_jacobian import SapContactJacobian
from .free_motion import SapFreeMotion
from .joint_forces import JointForces
from .newton import SapContactSolve
from .options import SapOptions
from .solver import SolverSAP
from .status import SolveStatus
from .support import UnsupportedModelError

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
