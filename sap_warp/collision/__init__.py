"""Collision detection: from body poses and shapes to a bounded buffer of rigid contacts.

It extends `newton.CollisionPipeline` by views for the solver (`SapCollisionModel`, `SapCollisionState`), estimates of
capacity, launches that suit the CPU, faster paths there for models with listed pairs, a narrow phase for boxes and
hulls, and repairs of contacts.
"""

from ..model.contacts import ContactCapacityError
from .broad.pairs import UnsupportedPair
from .buffers.capacity import sap_estimate_rigid_contact_max
from .model import SapCollisionModel
from .pipeline import BROAD_PHASE_MODES, SapCollisionPipeline, sap_normalize_broad_phase_mode
from .state import SapCollisionState, sap_collision_state_from_state

__all__ = [
    "BROAD_PHASE_MODES",
    "ContactCapacityError",
    "SapCollisionModel",
    "SapCollisionPipeline",
    "SapCollisionState",
    "UnsupportedPair",
    "sap_collision_state_from_state",
    "sap_estimate_rigid_contact_max",
    "sap_normalize_broad_phase_mode",
]
