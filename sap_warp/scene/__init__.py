"""Scene files: what they may say, where their assets come from, and how they become a model."""

from .control import ControlSequence
from .errors import Problem, SapSceneError, SapUnsupportedSceneFeature
from .loader import SapLoadedScene, load_sap_scene, load_sap_scene_config

__all__ = [
    "ControlSequence",
    "Problem",
    "SapLoadedScene",
    "SapSceneError",
    "SapUnsupportedSceneFeature",
    "load_sap_scene",
    "load_sap_scene_config",
]
