"""`Simulation`: a model with everything it needs to advance, as one object."""

from .shards import ThreadsError
from .simulation import ControlSequence, Simulation
from .statistics import Distribution, StepStatistics
from .views import HeterogeneousWorldsError, WorldView

__all__ = [
    "ControlSequence",
    "Distribution",
    "HeterogeneousWorldsError",
    "Simulation",
    "StepStatistics",
    "ThreadsError",
    "WorldView",
]
