"""Scene files: what they may say, where their assets come from, and how they become a model.

The names load on first use, so that the schema of scene files brings in neither Newton nor Warp.
"""

from typing import TYPE_CHECKING

from ..core.lazy_names import lazy_names

if TYPE_CHECKING:
    from .loader import SapLoadedScene, load_sap_scene, load_sap_scene_config
    from .objects.control import ControlSequence
    from .text.errors import Problem, SapSceneError, SapUnsupportedSceneFeature

_SUBMODULE_OF = {
    "ControlSequence": "objects.control",
    "Problem": "text.errors",
    "SapLoadedScene": "loader",
    "SapSceneError": "text.errors",
    "SapUnsupportedSceneFeature": "text.errors",
    "load_sap_scene": "loader",
    "load_sap_scene_config": "loader",
}

__all__ = [
    "ControlSequence",
    "Problem",
    "SapLoadedScene",
    "SapSceneError",
    "SapUnsupportedSceneFeature",
    "load_sap_scene",
    "load_sap_scene_config",
]

__getattr__ = lazy_names(__name__, _SUBMODULE_OF)
