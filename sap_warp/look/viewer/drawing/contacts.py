"""Contacts of the last step as a page shows them: point, depth, force, sticking, sliding or separating."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...visuals import rotate

STICKS, SLIDES, SEPARATES = range(3)
NAMES = ("stiction", "sliding", "separating")
COLORS = np.array([(46, 160, 67), (230, 120, 20), (150, 155, 165)], np.uint8)
"""Colours of the three states, in this order."""
AT_CONE = 0.995
"""Share of the largest friction force from which on a contact counts as sliding."""


@dataclass(frozen=True, eq=False)
class ShownContacts:
    """Contacts of some worlds; arrays of one entry per contact."""

    world: np.ndarray
    """World of the contact."""
    point: np.ndarray
    """Point between the two surfaces [m], frame of the world, shape (contacts, 3)."""
    normal: np.ndarray
    """Unit normal into the body that the force acts on, shape (contacts, 3)."""
    force: np.ndarray
    """Force on the body that moves, or on that of shape 1 if both do [N], shape (contacts, 3)."""
    mu: np.ndarray
    """Coefficient of friction."""
    depth: np.ndarray
    """Overlap of the surfaces [m]; negative for a gap."""
    state: np.ndarray
    """`STICKS`, `SLIDES` or `SEPARATES`."""
    body: np.ndarray
    """Bodies of both shapes in the whole model, -1 for none, shape (contacts, 2)."""


def read_contacts(sim: Any, worlds: Sequence[int], body_q: np.ndarray) -> ShownContacts:
    """Return the contacts that the last step of ``worlds`` used, at bodies that are now at ``body_q``."""
    parts = [part for shard in sim.shards if (part := _read_shard(sim, shard, worlds, body_q)) is not None]
    if not parts:
        none = np.zeros((0, 3))
        flat = np.zeros(0)
        whole = np.zeros(0, np.int64)
        return ShownContacts(whole, none, none, none, flat, flat, whole, np.zeros((0, 2), np.int64))
    columns = zip(*([getattr(p, name) for name in ShownContacts.__dataclass_fields__] for p in parts), strict=True)
    return ShownContacts(*(np.concatenate(column) for column in columns))


def _rows(shard: Any, worlds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the used contacts of ``worlds``, and the world of each; distance bounds are left out."""
    data = shard.solver.contact_stage.data
    counts = data.count.numpy()[worlds]
    slot = np.arange(int(counts.max(initial=0)))
    rows = worlds[:, None] * int(data.capacity) + slot
    used = slot < counts[:, None]
    used[used] &= data.source.numpy()[rows[used]] >= 0
    return rows[used], np.broadcast_to(worlds[:, None], rows.shape)[used]


def _read_shard(sim: Any, shard: Any, worlds: Sequence[int], body_q: np.ndarray) -> ShownContacts | None:
    first, last = (0, sim.world_count) if shard.share is None else (shard.share.first, shard.share.last)
    own = np.array([world - first for world in worlds if first <= world < last], np.int64)
    if len(own) == 0 or sim.step_count == 0:
        return None
    rows, world = _rows(shard, own)
    if len(rows) == 0:
        return None
    data, contacts, model = shard.solver.contact_stage.data, shard.contacts, shard.model.newton_model
    source = data.source.numpy()[rows]
    force = shard.solver.contact_forces().force.numpy()[source].astype(np.float64)
    normal = contacts.rigid_contact_normal.numpy()[source].astype(np.float64)
    start = 0 if shard.share is None else int(sim.body_q.offsets[first])
    shape_body = model.shape_body.numpy()
    sides, bodies = [], []
    for side in "01":
        shape = getattr(contacts, f"rigid_contact_shape{side}").numpy()[source]
        body = np.where(shape >= 0, shape_body[np.maximum(shape, 0)], -1)
        local = getattr(contacts, f"rigid_contact_point{side}").numpy()[source].astype(np.float64)
        local += getattr(contacts, f"rigid_contact_offset{side}").numpy()[source]
        at = body_q[np.maximum(body + start, 0)] if len(body_q) else np.zeros((len(body), 7))
        moved = at[:, :3] + rotate(at[:, 3:], local)
        sides.append(np.where(body[:, None] >= 0, moved, local))
        bodies.append(np.where(body >= 0, body + start, -1))
    mu = data.mu.numpy()[rows].astype(np.float64)
    depth = -data.phi0.numpy()[rows].astype(np.float64)
    state = classify(force, normal, mu)
    turned = np.where((bodies[1] < 0)[:, None], -1.0, 1.0)  # shape 1 does not move: the force on shape 0
    return ShownContacts(
        world=world + first,
        point=0.5 * (sides[0] + sides[1]),
        normal=turned * normal,
        force=turned * force,
        mu=mu,
        depth=depth,
        state=state,
        body=np.stack(bodies, axis=1),
    )


def classify(force: np.ndarray, normal: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """Return `STICKS`, `SLIDES` or `SEPARATES` for forces [N] on shape 1 and normals from shape 0 to it.

    A contact without friction never sticks.
    """
    pressing = np.einsum("ij,ij->i", force, normal)
    along = np.linalg.norm(force - pressing[:, None] * normal, axis=1)
    slides = (along >= AT_CONE * mu * pressing) | (mu <= 0.0)
    return np.where(pressing <= 1e-9, SEPARATES, np.where(slides, SLIDES, STICKS))


def deepest(sim: Any) -> float:
    """Return the largest overlap of the last step over all worlds [m]; zero if nothing touches."""
    most = 0.0
    for shard in sim.shards:
        data = shard.solver.contact_stage.data
        counts = data.count.numpy()
        if not counts.any():
            continue
        used = np.arange(data.capacity)[None, :] < counts[:, None]
        used &= data.source.numpy().reshape(len(counts), -1)[:, : data.capacity] >= 0
        if used.any():
            most = max(most, float(-data.phi0.numpy().reshape(len(counts), -1)[used].min()))
    return most
