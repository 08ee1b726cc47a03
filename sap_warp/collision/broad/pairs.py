"""Shape pairings that Newton's narrow phase does not handle.

Found by reading its routing and by trying every pairing on the CPU (newton 1.7):

- infinite plane against infinite plane, heightfield against heightfield: dropped;
- infinite plane against heightfield: a few wrong normals or nothing;
- finite plane against convex mesh: nothing in 9 of 10 touching poses; against triangle mesh: nothing in 1 of 10,
  a wrong depth in half (300 random poses each, compared with the infinite plane);
- Gaussian splats and shapes without geometry: never collide.

Unreliable, reported as a warning: an overlapping ellipsoid against another ellipsoid, a cylinder, box, cone, convex or
triangle mesh loses its contact in 4 to 27 % of poses at a size of 0.2 m, and more often when smaller
(`tests/collision/test_pairs.py`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import newton
import numpy as np

from ...core.faq import see
from ...model.shapes import (
    BOX,
    CONE,
    CONVEX_MESH,
    CYLINDER,
    ELLIPSOID,
    HFIELD,
    MESH,
    PLANE,
    shape_type,
    types_where,
)

_INFINITE_PLANE = 100
"""Stands for a `PLANE` without extent; Newton tells the two apart by their scale."""

_UNSUPPORTED = (
    (_INFINITE_PLANE, _INFINITE_PLANE),
    (_INFINITE_PLANE, HFIELD),
    (PLANE, MESH),
    (PLANE, CONVEX_MESH),
    (HFIELD, HFIELD),
)
_UNRELIABLE = tuple((ELLIPSOID, kind) for kind in (ELLIPSOID, CYLINDER, BOX, CONE, CONVEX_MESH, MESH))
_SHAPELESS = types_where(lambda shape: shape.surface is None)


@dataclass(frozen=True)
class UnsupportedPair:
    """Two shapes that may touch and would pass through each other."""

    shape0: int
    shape1: int
    label0: str
    label1: str
    types: str
    """The pairing, for example ``"finite plane / mesh"``."""

    def __str__(self) -> str:
        return f"'{self.label0}' and '{self.label1}' ({self.types})"


def find_unsupported_pairs(model: newton.Model, explicit_pairs: np.ndarray | None) -> list[UnsupportedPair]:
    """Find the pairs that the broad phase can report and the narrow phase cannot handle.

    Args:
        model: The model with the shapes.
        explicit_pairs: Pair list of the explicit broad phase, shape [pair_count, 2]; None if pairs are discovered.
    """
    if model.shape_count == 0:
        return []
    kinds = _kinds(model)
    if explicit_pairs is not None:
        pairs = explicit_pairs[_unsupported_mask(kinds, explicit_pairs)]
    else:
        pairs = _discoverable_pairs(model, kinds)
    return [_describe_pair(model, kinds, pair) for pair in pairs]


def name_pair(model: newton.Model, pair: np.ndarray) -> str:
    """Name two shapes by label and type."""
    return str(_describe_pair(model, _kinds(model), pair))


def _describe_pair(model: newton.Model, kinds: np.ndarray, pair: np.ndarray) -> UnsupportedPair:
    i, j = (int(x) for x in pair)
    labels = model.shape_label
    return UnsupportedPair(i, j, labels[i], labels[j], f"{_name(kinds[i])} / {_name(kinds[j])}")


def warn_if_unreliable(model: newton.Model, explicit_pairs: np.ndarray | None) -> None:
    """Warn about pairs whose contacts Newton 1.7 may lose when they overlap."""
    if model.shape_count == 0:
        return
    kinds = _kinds(model)
    if explicit_pairs is not None:
        pairs = explicit_pairs[_matches(kinds, explicit_pairs, _UNRELIABLE)]
    else:
        pairs = _candidates(model, kinds, _UNRELIABLE)
    if len(pairs):
        warnings.warn(
            f"{len(pairs)} shape pairs have an ellipsoid against a shape other than a plane, heightfield, sphere or "
            f"capsule, the first {name_pair(model, pairs[0])}. Newton's "
            "narrow phase may lose such contacts when they overlap: a capsule or a convex mesh in its place is safe."
            + see("ellipsoids"),
            RuntimeWarning,
            stacklevel=4,
        )


def refuse_hydroelastic_pairs(model: newton.Model, options: dict[str, Any]) -> None:
    """Refuse what would make Newton generate hydroelastic contacts: only rigid contacts are tested with the solver.

    Newton does so for pairs of which both shapes have the flag, and looks for them in the model's pair list; without
    a list it fails. A shape with the flag has rigid contacts with others.

    Raises:
        ValueError: Two such shapes may touch, or ``options`` has a hydroelastic configuration.
    """
    if options.get("sdf_hydroelastic_config") is not None:
        raise ValueError("sdf_hydroelastic_config is set, but hydroelastic contact is not supported. Leave it out.")
    if model.shape_count == 0:
        return
    flagged = (model.shape_flags.numpy() & int(newton.ShapeFlags.HYDROELASTIC)) != 0
    hits = np.flatnonzero(flagged)[:2]
    lists = [pairs for pairs in (model.shape_contact_pairs, options.get("shape_pairs_filtered")) if pairs is not None]
    if model.shape_contact_pairs is not None:
        pairs = np.concatenate([np.asarray(pairs.numpy()).reshape(-1, 2) for pairs in lists])
        hits = pairs[flagged[pairs].all(axis=1)][:1].ravel()
    if len(hits):
        names = " and ".join(repr(model.shape_label[i]) for i in hits)
        raise ValueError(
            f"Shapes that may collide are hydroelastic, the first {names}. Hydroelastic contact is not supported: set "
            "is_hydroelastic=False for rigid contact."
        )


def describe(pairs: list[UnsupportedPair], limit: int = 10) -> str:
    """Return the message that names the pairs and tells what to do about them."""
    listed = "; ".join(str(pair) for pair in pairs[:limit])
    more = f"; and {len(pairs) - limit} more" if len(pairs) > limit else ""
    return (
        f"Newton's narrow phase does not handle {len(pairs)} of the shape pairs that may collide: {listed}{more}. "
        "Replace one of the shapes (a thin box or an infinite plane for a finite plane), filter the pair with "
        'ModelBuilder.add_shape_collision_filter_pair, or pass unsupported_pairs="warn" to let them pass through.'
    )


def _kinds(model: newton.Model) -> np.ndarray:
    kinds = model.shape_type.numpy().astype(np.int64)
    scale = model.shape_scale.numpy().reshape(-1, 3)
    kinds[(kinds == PLANE) & (scale[:, 0] == 0.0) & (scale[:, 1] == 0.0)] = _INFINITE_PLANE
    return kinds


def _name(kind: int) -> str:
    if kind == _INFINITE_PLANE:
        return "infinite plane"
    return "finite plane" if kind == PLANE else shape_type(kind).words


def _unsupported_mask(kinds: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    a, b = kinds[pairs[:, 0]], kinds[pairs[:, 1]]
    return np.isin(a, _SHAPELESS) | np.isin(b, _SHAPELESS) | _matches(kinds, pairs, _UNSUPPORTED)


def _matches(kinds: np.ndarray, pairs: np.ndarray, wanted: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Return a mask of the pairs whose types are among ``wanted``, in either order."""
    a, b = kinds[pairs[:, 0]], kinds[pairs[:, 1]]
    mask = np.zeros(len(pairs), dtype=bool)
    for first, second in wanted:
        mask |= ((a == first) & (b == second)) | ((a == second) & (b == first))
    return mask


def _discoverable_pairs(model: newton.Model, kinds: np.ndarray) -> np.ndarray:
    """Find the unsupported pairs that the sap and nxn broad phases would report, sorted."""
    everything = tuple(int(k) for k in np.unique(kinds))
    return _candidates(model, kinds, (*_UNSUPPORTED, *((s, k) for s in _SHAPELESS for k in everything)))


def _candidates(model: newton.Model, kinds: np.ndarray, wanted: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Find the pairs of the wanted types that the sap and nxn broad phases would report, sorted."""
    colliding = (model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0
    found = []
    for first, second in wanted:
        i, j = np.flatnonzero(colliding & (kinds == first)), np.flatnonzero(colliding & (kinds == second))
        grid = np.stack(np.meshgrid(i, j, indexing="ij"), axis=-1).reshape(-1, 2)
        found.append(np.sort(grid[grid[:, 0] != grid[:, 1]], axis=1))
    pairs = np.unique(np.concatenate(found), axis=0)
    return pairs[may_collide(model, pairs)]


def may_collide(model: newton.Model, pairs: np.ndarray) -> np.ndarray:
    """Return a mask of the pairs that worlds, groups, bodies and filters let collide."""
    world, group, body = (a.numpy()[pairs] for a in (model.shape_world, model.shape_collision_group, model.shape_body))
    same_world = (world[:, 0] == world[:, 1]) | (world == -1).any(axis=1)
    same_group = np.where(group[:, 0] > 0, (group[:, 0] == group[:, 1]) | (group[:, 1] < 0), group[:, 0] != group[:, 1])
    movable = (body >= 0).any(axis=1) & (body[:, 0] != body[:, 1])
    allowed = ~np.asarray(model.shape_collision_filter_mask(pairs), dtype=bool)
    return same_world & same_group & (group != 0).all(axis=1) & movable & allowed
