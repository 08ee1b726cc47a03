"""Simulation of articulated robots in contact on NVIDIA Warp, for models built with Newton.

The public names load on first use, so `import sap_warp` brings in neither Newton nor Warp.
"""

from typing import TYPE_CHECKING, Any

from .core.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from . import conventions, randomization
    from .collision import (
        ContactCapacityError,
        SapCollisionModel,
        SapCollisionPipeline,
        SapCollisionState,
        sap_collision_state_from_state,
        sap_estimate_rigid_contact_max,
        sap_normalize_broad_phase_mode,
    )
    from .core.warp_output import quiet
    from .judge.explain import explain_contact
    from .look.pictures import Camera, Recorder, RecordingError
    from .look.signals import SignalError, SignalRecording
    from .model.contacts import SapContacts, sap_contacts_from_newton
    from .model.model import (
        SapControl,
        SapModel,
        SapState,
        sap_control_from_newton,
        sap_model_from_newton,
        sap_state_from_newton,
    )
    from .scale.rollouts import Rollouts, Trajectories, rollout
    from .scale.sweeps import SweepError, SweepResult, sweep
    from .scene import (
        SapLoadedScene,
        SapSceneError,
        SapUnsupportedSceneFeature,
        load_sap_scene,
        load_sap_scene_config,
    )
    from .simulation import (
        ActionLatency,
        CheckpointError,
        HeterogeneousWorldsError,
        ObservationNoise,
        Simulation,
        SimulationGroup,
        SimulationState,
        StepStatistics,
        ThreadsError,
        UnknownNameError,
        WorldFailedError,
        WorldView,
    )
    from .solver import (
        ContactForces,
        JointForces,
        SapContactJacobian,
        SapContactSolve,
        SapFreeMotion,
        SapOptions,
        SolverSAP,
        SolveStatus,
        UnsupportedModelError,
    )

# Public name -> submodule that defines it; a submodule that is itself public maps to its own name.
# This table decides what loads; see `lazy_names`.
_SUBMODULE_OF = {
    "conventions": "conventions",
    "randomization": "randomization",
    "SapModel": "model.model",
    "SapState": "model.model",
    "SapControl": "model.model",
    "sap_model_from_newton": "model.model",
    "sap_state_from_newton": "model.model",
    "sap_control_from_newton": "model.model",
    "explain_contact": "judge.explain",
    "SapContacts": "model.contacts",
    "sap_contacts_from_newton": "model.contacts",
    "SapCollisionModel": "collision",
    "SapCollisionState": "collision",
    "SapCollisionPipeline": "collision",
    "ContactCapacityError": "collision",
    "sap_collision_state_from_state": "collision",
    "sap_estimate_rigid_contact_max": "collision",
    "sap_normalize_broad_phase_mode": "collision",
    "SolverSAP": "solver",
    "SapFreeMotion": "solver",
    "SapContactJacobian": "solver",
    "SapContactSolve": "solver",
    "SapOptions": "solver",
    "SolveStatus": "solver",
    "UnsupportedModelError": "solver",
    "ContactForces": "solver",
    "JointForces": "solver",
    "SapLoadedScene": "scene",
    "SapSceneError": "scene",
    "SapUnsupportedSceneFeature": "scene",
    "load_sap_scene": "scene",
    "load_sap_scene_config": "scene",
    "Camera": "look.pictures",
    "Recorder": "look.pictures",
    "RecordingError": "look.pictures",
    "SignalRecording": "look.signals",
    "SignalError": "look.signals",
    "Rollouts": "scale.rollouts",
    "Trajectories": "scale.rollouts",
    "rollout": "scale.rollouts",
    "sweep": "scale.sweeps",
    "SweepError": "scale.sweeps",
    "SweepResult": "scale.sweeps",
    "quiet": "core.warp_output",
    "Simulation": "simulation",
    "SimulationState": "simulation",
    "CheckpointError": "simulation",
    "ActionLatency": "simulation",
    "ObservationNoise": "simulation",
    "SimulationGroup": "simulation",
    "StepStatistics": "simulation",
    "WorldView": "simulation",
    "HeterogeneousWorldsError": "simulation",
    "ThreadsError": "simulation",
    "UnknownNameError": "simulation",
    "WorldFailedError": "simulation",
}

__all__ = [
    "ActionLatency",
    "Camera",
    "CheckpointError",
    "ContactCapacityError",
    "ContactForces",
    "HeterogeneousWorldsError",
    "JointForces",
    "ObservationNoise",
    "Recorder",
    "RecordingError",
    "Rollouts",
    "SapCollisionModel",
    "SapCollisionPipeline",
    "SapCollisionState",
    "SapContactJacobian",
    "SapContactSolve",
    "SapContacts",
    "SapControl",
    "SapFreeMotion",
    "SapLoadedScene",
    "SapModel",
    "SapOptions",
    "SapSceneError",
    "SapState",
    "SapUnsupportedSceneFeature",
    "SignalError",
    "SignalRecording",
    "Simulation",
    "SimulationGroup",
    "SimulationState",
    "SolveStatus",
    "SolverSAP",
    "StepStatistics",
    "SweepError",
    "SweepResult",
    "ThreadsError",
    "Trajectories",
    "UnknownNameError",
    "UnsupportedModelError",
    "WorldFailedError",
    "WorldView",
    "conventions",
    "explain_contact",
    "load_sap_scene",
    "load_sap_scene_config",
    "quiet",
    "randomization",
    "rollout",
    "sap_collision_state_from_state",
    "sap_contacts_from_newton",
    "sap_control_from_newton",
    "sap_estimate_rigid_contact_max",
    "sap_model_from_newton",
    "sap_normalize_broad_phase_mode",
    "sap_state_from_newton",
    "sweep",
]

__version__: str
_load = _lazy_names(__name__, _SUBMODULE_OF)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("sap-warp")
    return _load(name)


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__", *(name for name in globals() if name.startswith("__"))})
