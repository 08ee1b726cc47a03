"""`Simulation`: a model with everything it needs to advance, as one object."""

from .health import WorldFailedError
from .schedule import ControlSequence
from .simulation import Simulation
from .split import ThreadsError
from .statistics import Distribution, StepStatistics
from .views import HeterogeneousWorldsError, WorldView

__all__ = [
    "ControlSequence",
    "Distribution",
    "HeterogeneousWorldsError",
    "Simulation",
    "StepStatistics",
    "ThreadsError",
    "WorldFailedError",
    "WorldView",
]
