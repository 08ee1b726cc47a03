"""Estimates of the number of contacts."""

from __future__ import annotations

import newton
import numpy as np

from ...model.model import SapModel
from ...model.shapes import PLANES, TRIANGULATED, Surface, types_where
from ..model import SapCollisionModel, newton_model_of

_FACES = types_where(lambda shape: shape.surface is Surface.FACES)
_FACES_OR_RIM = types_where(lambda shape: shape.surface in (Surface.FACES, Surface.RIM))
_ONE_POINT = types_where(lambda shape: shape.surface is Surface.POINT)
CONTACTS_PER_MESH_PAIR = 40
"""Contacts that the reduction usually leaves of a pair with a mesh or heightfield."""
CONTACTS_PER_PAIR = 5
"""Largest manifold of two convex shapes."""
CONTACTS_PER_BOX_PAIR = 8
"""Largest manifold of two boxes or convex meshes, or one of them and a cylinder: corners of two faces."""
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
    """Return how many contacts a pass must be able to write, so that a full buffer gets the right ones.

    It is the estimate; but a few listed pairs without meshes and heightfields cannot have more contacts than their
    manifolds, even if those are less than the smallest estimate.

    Args:
        model: The model with the shapes.
        explicit_pairs: Pair list of the explicit broad phase, shape [pair_count, 2]; None if pairs are discovered.
    """
    estimate = sap_estimate_rigid_contact_max(model)
    if explicit_pairs is None or len(explicit_pairs) == 0:
        return estimate
    kinds = model.shape_type.numpy()[explicit_pairs]
    total = int(_contacts_per_pair(kinds).sum())
    return estimate if np.isin(kinds, TRIANGULATED).any() else min(total, estimate)


def most_of_pairs(model: newton.Model, pairs: np.ndarray, body_world: np.ndarray, bounds: np.ndarray) -> int:
    """Return how many contacts the ``pairs`` of one range of worlds can have, for the range that can have most.

    Args:
        model: The model with the shapes.
        pairs: Shape [pair_count, 2].
        body_world: World of each body.
        bounds: First world of each range, and the number of worlds.
    """
    bodies = model.shape_body.numpy()[pairs]
    world = np.where(bodies < 0, -1, body_world[bodies]).max(axis=1)
    number = np.searchsorted(bounds, world, side="right")  # 0: no body, which touches nothing
    return int(np.bincount(number, _contacts_per_pair(model.shape_type.numpy()[pairs])).max())


def _contacts_per_pair(kinds: np.ndarray) -> np.ndarray:
    one_point = np.isin(kinds, _ONE_POINT).any(axis=1)
    triangulated = np.isin(kinds, TRIANGULATED).any(axis=1)
    faces = np.isin(kinds, _FACES).any(axis=1) & np.isin(kinds, _FACES_OR_RIM).all(axis=1)
    convex = np.where(faces, CONTACTS_PER_BOX_PAIR, CONTACTS_PER_PAIR)
    return np.where(triangulated, CONTACTS_PER_MESH_PAIR, np.where(one_point, 1, convex))


def _neighbour_estimate(model: newton.Model, kinds: np.ndarray) -> int:
    colliding = (model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0
    plane = colliding & np.isin(kinds, PLANES)
    solid = colliding & ~plane
    size = np.where(np.isin(kinds, TRIANGULATED), CONTACTS_PER_MESH_PAIR, CONTACTS_PER_PAIR)
    world = model.shape_world.numpy()
    planes_by_world = np.bincount(world[plane] + 1, minlength=model.world_count + 1)
    # a global plane may touch every shape, a global shape every plane
    seen = planes_by_world[0] + np.where(world >= 0, planes_by_world[world + 1], planes_by_world[1:].sum())
    return int((size * (NEIGHBOURS // 2 + seen))[solid].sum())
