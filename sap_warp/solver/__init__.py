"""The SAP time step: `SolverSAP` and its stages.

The names load on first use, so that looking at `options` brings in neither Newton nor Warp.
"""

from typing import TYPE_CHECKING

from ..core.lazy_names import lazy_names

if TYPE_CHECKING:
    from .dynamics.free_motion import SapFreeMotion
    from .minimize.solve import SapContactSolve
    from .outputs.contact_forces import ContactForces
    from .outputs.joint_forces import JointForces
    from .prepare.stage import SapContactStage as SapContactJacobian
    from .settings.options import SapOptions
    from .settings.status import SolveStatus
    from .solver import SolverSAP
    from .support import UnsupportedModelError

_SUBMODULE_OF = {
    "ContactForces": "outputs.contact_forces",
    "JointForces": "outputs.joint_forces",
    "SapContactJacobian": "prepare.stage",
    "SapContactSolve": "minimize.solve",
    "SapFreeMotion": "dynamics.free_motion",
    "SapOptions": "settings.options",
    "SolveStatus": "settings.status",
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
