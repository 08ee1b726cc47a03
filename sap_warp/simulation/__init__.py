"""`Simulation`: a model with everything it needs to advance, as one object."""

from .checkpoint import SimulationState
from .checkpoint_file import CheckpointError
from .disturbances import ActionLatency, ObservationNoise
from .group import GroupView, SimulationGroup
from .health import WorldFailedError
from .names import Found, UnknownNameError
from .schedule import ControlSequence
from .simulation import Simulation
from .split import ThreadsError
from .statistics import Distribution, StepStatistics
from .views import HeterogeneousWorldsError, WorldView

__all__ = [
    "ActionLatency",
    "CheckpointError",
    "ControlSequence",
    "Distribution",
    "Found",
    "GroupView",
    "HeterogeneousWorldsError",
    "ObservationNoise",
    "Simulation",
    "SimulationGroup",
    "SimulationState",
    "StepStatistics",
    "ThreadsError",
    "UnknownNameError",
    "WorldFailedError",
    "WorldView",
]
