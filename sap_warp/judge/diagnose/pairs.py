"""Contacts summed up by pair of bodies and sample."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .samples import SLIDING, ContactRows, Samples

AT_CONE = 0.99
"""Share of mu N from which friction is all that the contact can give."""


@dataclass
class Pairs:
    """Series of pairs, [pairs, samples]; vectors have three numbers behind that. What is a mean is weighted by load."""

    run: Samples
    world: np.ndarray
    owner: np.ndarray
    """Both sides, [pairs, 2]."""
    row_pair: np.ndarray
    """Pair of each row of `Samples.contacts`."""
    count: np.ndarray
    """Contacts that push."""
    push: np.ndarray
    """Normal force [N]."""
    cone: np.ndarray
    """mu N: what friction can give [N]."""
    friction: np.ndarray
    """Sum of the sizes of the friction forces [N]."""
    pull: np.ndarray
    """Sum of the friction forces on side 1 [N], world axes, vector."""
    normal: np.ndarray
    """Mean direction of the normals, from 0 to 1, world axes, vector."""
    velocity: np.ndarray
    """Mean slip velocity that the solver found [m/s], axes of side 0, vector."""
    slip: np.ndarray
    """Mean displacement along the surface since the last sample [m], axes of side 0, vector."""
    depth: np.ndarray
    """Deepest overlap [m]."""
    softness: np.ndarray
    """Mean depth per force h R_n (h + tau) of a contact [m/N]."""
    Rt: np.ndarray
    """Mean tangential regularization [1/kg]."""
    sliding: np.ndarray
    """Share of the load on contacts that slide."""

    @cached_property
    def active(self) -> np.ndarray:
        """Return a mask of samples in which anything pushes."""
        return self.count > 0

    @cached_property
    def use(self) -> np.ndarray:
        """Friction as a share of what the cone allows; 0 without contact or friction."""
        return np.where(self.cone > 0.0, self.friction / np.maximum(self.cone, 1e-300), 0.0)

    @cached_property
    def too_easy(self) -> np.ndarray:
        """By how much the weight in force exceeds that by diag_delassus, [pairs]; 1 where it was not worked out."""
        rows = self.run.contacts
        known = np.isfinite(rows.delassus) & (rows.delassus > 0.0)
        pair, load = self.row_pair[known], rows.push[known]
        ratio = np.bincount(pair, load * rows.weight[known] / rows.delassus[known], minlength=len(self.world))
        total = np.bincount(pair, load, minlength=len(self.world))
        return np.where(total > 0.0, ratio / np.maximum(total, 1e-300), 1.0)

    def expected_depth(self, pair: int) -> float:
        """Depth at which the pair would rest under the mean force while it is in contact [m]."""
        active = self.active[pair]
        share = self.push[pair][active].sum() / max(self.count[pair][active].sum(), 1.0)
        return float(share * self.softness[pair][active].mean())

    def name(self, pair: int) -> str:
        """Both sides by label."""
        return " - ".join(self.run.facts.owner_name[self.owner[pair]])

    def shapes(self, pair: int) -> tuple[int, int]:
        """The two shapes of a pair that carry most."""
        rows = self.run.contacts
        here = np.flatnonzero(self.row_pair == pair)
        both, index = np.unique(np.stack([rows.shape0[here], rows.shape1[here]], axis=1), axis=0, return_inverse=True)
        best = both[np.argmax(np.bincount(index.ravel(), rows.push[here]))]
        return int(best[0]), int(best[1])


def sum_by_pair(run: Samples) -> Pairs:
    """Group the contacts of a run."""
    rows: ContactRows = run.contacts
    keys = np.stack([rows.world, rows.owner0, rows.owner1], axis=1)
    found, row_pair = np.unique(keys, axis=0, return_inverse=True)
    row_pair = row_pair.ravel()
    shape = (len(found), run.count)
    at = row_pair * run.count + rows.sample

    def total(values: np.ndarray) -> np.ndarray:
        if values.ndim == 2:
            return np.stack([total(values[:, i]) for i in range(values.shape[1])], axis=-1)
        return np.bincount(at, values, minlength=shape[0] * shape[1]).reshape(shape)

    push = total(rows.push)
    load = np.maximum(push, 1e-300)
    depth = np.zeros(shape[0] * shape[1])
    np.maximum.at(depth, at, -rows.phi)
    weigh = rows.push[:, None]
    h = run.dt
    return Pairs(
        run=run,
        world=found[:, 0],
        owner=found[:, 1:],
        row_pair=row_pair,
        count=total(np.ones(len(at))),
        push=push / h,
        cone=total(rows.mu * rows.push) / h,
        friction=total(np.linalg.norm(rows.friction, axis=1)) / h,
        pull=total(rows.friction) / h,
        normal=unit(total(weigh * rows.normal)),
        velocity=total(weigh * rows.velocity) / load[..., None],
        slip=total(weigh * rows.slip) / load[..., None],
        depth=depth.reshape(shape),
        softness=total(rows.push * h * rows.Rn * np.nan_to_num(rows.reach)) / load,
        Rt=total(rows.push * rows.Rt) / load,
        sliding=total(np.where(rows.mode == SLIDING, rows.push, 0.0)) / load,
    )


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length one; zero stays zero."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-300)
