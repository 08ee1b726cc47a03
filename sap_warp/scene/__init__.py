"""Scene files: what they may say, where their assets come from, and how they become a model.

The names load on first use, so that the schema of scene files brings in neither Newton nor Warp.
"""

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .control import ControlSequence
    from .errors import Problem, SapSceneError, SapUnsupportedSceneFeature
    from .loader import SapLoadedScene, load_sap_scene, load_sap_scene_config

_SUBMODULE_OF = {
    "ControlSequence": "control",
    "Problem": "errors",
    "SapLoadedScene": "loader",
    "SapSceneError": "errors",
    "SapUnsupportedSceneFeature": "errors",
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
