"""`Simulation`: a model with everything that it needs to advance, as one object."""

from .checkpoint.checkpoint import SimulationState
from .checkpoint.file import CheckpointError
from .group import GroupView, SimulationGroup
from .random.disturbances import ActionLatency, ObservationNoise
from .run.health import WorldFailedError
from .run.schedule import ControlSequence
from .run.split import ThreadsError
from .run.statistics import Distribution, StepStatistics
from .simulation import Simulation
from .views.names import Found, UnknownNameError
from .views.views import HeterogeneousWorldsError, WorldView

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
