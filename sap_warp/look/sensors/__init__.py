"""Sensors of a robot: forces in joints and contacts, distances along rays, and inputs of Newton's sensors."""

from .forces import ForceSensors
from .observables import Observed
from .pairs import ContactPairs
from .rays import RaySensor, height_scan

__all__ = ["ContactPairs", "ForceSensors", "Observed", "RaySensor", "height_scan"]
