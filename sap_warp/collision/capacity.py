"""How many contacts to expect, how many there were, and what to say when the buffer was too small."""

from __future__ import annotations

import warnings

import newton
import numpy as np
import warp as wp

from ..contacts import ContactCapacityError, name_worlds
from ..model import SapModel
from .model import SapCollisionModel, newton_model_of
from .need import (
    PEAK,
    PEAK_DROPPED,
    PEAK_LOST,
    PEAK_PAIRS,
    PEAK_TRIANGLES,
    REDUCTION_LOSS,
)
from .room import ContactRoom

_T = newton.GeoType
_MESH_LIKE = (int(_T.MESH), int(_T.HFIELD))
_ONE_POINT = (int(_T.SPHERE), int(_T.ELLIPSOID))
CONTACTS_PER_MESH_PAIR = 40
"""What contact reduction usually leaves of a pair with a mesh or heightfield."""
CONTACTS_PER_PAIR = 5
"""Largest manifold of two convex shapes."""
NEIGHBOURS = 20
"""Shapes that one shape is assumed to touch at a time."""
MIN_CAPACITY = 64
"""Smallest estimate."""


def sap_estimate_rigid_contact_max(model: SapCollisionModel | SapModel | newton.Model) -> int:
    """Estimate how many contacts the shapes of all worlds can have at once.

    The smaller of two numbers: all pairs that may collide with the manifold size of their types, and 20 neighbours
    for every shape besides planes. Deep piles of meshes can need more; `SapCollisionPipeline.last_overflow` tells.
    """
    newton_model = newton_model_of(model)
    if newton_model.shape_count == 0:
        return MIN_CAPACITY
    kinds = newton_model.shape_type.numpy()
    estimate = _neighbour_estimate(newton_model, kinds)
    if newton_model.shape_contact_pairs is not None:
        pairs = newton_model.shape_contact_pairs.numpy().reshape(-1, 2)
        estimate = min(estimate, int(_contacts_per_pair(kinds[pairs]).sum()))
    return max(estimate, MIN_CAPACITY)


def contact_bound(model: newton.Model, explicit_pairs: np.ndarray | None) -> int:
    """Contacts that a pass must have room for, so that a full buffer can be filled with the right ones.

    The estimate; but a few listed pairs without meshes and heightfields cannot have more than their manifolds, even if
    that is less than the smallest estimate.

    Args:
        model: Whose shapes.
        explicit_pairs: Pair list of the explicit broad phase, shape [pair_count, 2]; None if pairs are discovered.
    """
    estimate = sap_estimate_rigid_contact_max(model)
    if explicit_pairs is None or len(explicit_pairs) == 0:
        return estimate
    kinds = model.shape_type.numpy()[explicit_pairs]
    total = int(_contacts_per_pair(kinds).sum())
    return estimate if np.isin(kinds, _MESH_LIKE).any() else min(total, estimate)


def _contacts_per_pair(kinds: np.ndarray) -> np.ndarray:
    one_point = np.isin(kinds, _ONE_POINT).any(axis=1)
    mesh_like = np.isin(kinds, _MESH_LIKE).any(axis=1)
    return np.where(mesh_like, CONTACTS_PER_MESH_PAIR, np.where(one_point, 1, CONTACTS_PER_PAIR))


def _neighbour_estimate(model: newton.Model, kinds: np.ndarray) -> int:
    colliding = (model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0
    plane = colliding & (kinds == int(_T.PLANE))
    solid = colliding & ~plane
    size = np.where(np.isin(kinds, _MESH_LIKE), CONTACTS_PER_MESH_PAIR, CONTACTS_PER_PAIR)
    world = model.shape_world.numpy()
    planes_by_world = np.bincount(world[plane] + 1, minlength=model.world_count + 1)
    # a global plane meets every shape, a global shape every plane
    seen = planes_by_world[0] + np.where(world >= 0, planes_by_world[world + 1], planes_by_world[1:].sum())
    return int((size * (NEIGHBOURS // 2 + seen))[solid].sum())


class CapacityRecord:
    """Keeps the need of every collision pass on the device, and reports it when the host asks."""

    def __init__(self, pipeline: newton.CollisionPipeline, strict: bool, room: ContactRoom | None):
        """Watch the passes of ``pipeline``, which writes into ``room`` or, if there is none, the caller's buffer."""
        narrow_phase, device = pipeline.narrow_phase, pipeline.device
        self.strict = strict
        self.pair_count = pipeline.broad_phase_pair_count
        self.pair_max = pipeline.shape_pairs_max
        triangles = narrow_phase.triangle_pairs_count
        self.triangle_count = wp.empty(0, dtype=wp.int32, device=device) if triangles is None else triangles
        self.triangle_max = 0 if narrow_phase.triangle_pairs is None else narrow_phase.triangle_pairs.shape[0]
        self.room = room
        self.record = wp.zeros(8, dtype=wp.int32, device=device)
        self._warned = False

    def read(self) -> np.ndarray:
        """Wait for the device and return the record; warn once, or raise if strict, when something was dropped.

        Raises:
            ContactCapacityError: Something was dropped since the last `clear` and ``strict`` is set.
        """
        record = self.record.numpy()
        problems = self._problems(record)
        if problems and self.strict:
            raise ContactCapacityError(" ".join(problems))
        if problems and not self._warned:
            self._warned = True
            warnings.warn(" ".join(problems), RuntimeWarning, stacklevel=3)
        return record

    def clear(self) -> None:
        """Forget the past; a later overflow is reported again."""
        self.record.zero_()
        if self.room is not None:
            self.room.peak_dropped.zero_()
        self._warned = False

    def _where(self, record: np.ndarray) -> str:
        """Which worlds lost contacts, as far as it is known."""
        worlds = "" if self.room is None else name_worlds(self.room.peak_dropped.numpy())
        where = f", in {worlds}" if worlds else ""
        if record[PEAK_LOST] > 0:
            where += f"; {record[PEAK_LOST]} of them in the order they were found, whatever their world and depth"
        return where

    def _problems(self, record: np.ndarray) -> list[str]:
        problems = []
        if record[PEAK_DROPPED] > 0:
            problems.append(
                f"The contact buffer was too small: a collision pass found {record[PEAK]} contacts and dropped "
                f"{record[PEAK_DROPPED]}{self._where(record)}. Set rigid_contact_max={record[PEAK]} or more."
            )
        if record[PEAK_PAIRS] > self.pair_max:
            problems.append(
                f"The broad phase found {record[PEAK_PAIRS]} shape pairs and has room for {self.pair_max}. "
                f"Set shape_pairs_max={record[PEAK_PAIRS]} or more."
            )
        if record[PEAK_TRIANGLES] > self.triangle_max:
            problems.append(
                f"The narrow phase found {record[PEAK_TRIANGLES]} triangle pairs and has room for "
                f"{self.triangle_max}. Set max_triangle_pairs={record[PEAK_TRIANGLES]} or more."
            )
        if record[REDUCTION_LOSS] > 0:
            problems.append("Contact reduction of mesh pairs lost candidates. Raise max_triangle_pairs.")
        return problems
