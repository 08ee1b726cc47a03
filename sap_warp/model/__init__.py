"""Views of Newton's model, state, control and contacts, in the conventions of SAP Warp.

The names load on first use, so that importing this package brings in neither Newton nor Warp.
"""

from typing import TYPE_CHECKING

from ..core.lazy_names import lazy_names

if TYPE_CHECKING:
    from .model import (
        SapControl,
        SapModel,
        SapState,
        sap_control_from_newton,
        sap_model_from_newton,
        sap_state_from_newton,
    )

_SUBMODULE_OF = {
    "SapControl": "model",
    "SapModel": "model",
    "SapState": "model",
    "sap_control_from_newton": "model",
    "sap_model_from_newton": "model",
    "sap_state_from_newton": "model",
}

__all__ = [
    "SapControl",
    "SapModel",
    "SapState",
    "sap_control_from_newton",
    "sap_model_from_newton",
    "sap_state_from_newton",
]

__getattr__ = lazy_names(__name__, _SUBMODULE_OF)
