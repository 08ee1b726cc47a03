"""Advice about the contact weight ``body_inertia``: light links that would let go of what they hold.

It counts every body as free. A finger of 15 g on a heavy arm then seems easy to turn, its friction is regularized by
as much more, and what it holds creeps with sigma w h times its weight. `diag_delassus` knows the joints. Both weights
are worked out here by NumPy at the shapes of the first world; `solver/contact/weight.py` has the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import newton
import numpy as np

from ...core.notes import Note, name_some
from ...model.joint_types import FLOATING_JOINTS
from ...solver.model.initial_poses import body_poses, rotate
from ...solver.model.mechanism import Mechanism
from ...solver.model.topology import tree_joints
from ...solver.settings.options import expand_options

LIGHT_LINKS = "light-links"
"""Kind of the note."""
MAX_BODIES = 500
"""Most bodies of a world that is examined."""
MIN_CREEP = 20.0
"""Smallest weight times mass of the held body: how many times faster it creeps than a body on the ground."""
MIN_RATIO = 10.0
"""Smallest ratio of the weight of a link as a free body to that with its joints."""


def advise_weights(model: newton.Model, solver_options: Mapping[str, Any]) -> list[Note]:
    """Note links that are light for what they may hold, where free bodies are there to be held."""
    names = ("contact_preset_variant", "contact_weight_mode")
    mode = expand_options(**{n: solver_options[n] for n in names if n in solver_options}).contact_weight_mode
    bodies = np.flatnonzero(model.body_world.numpy() <= 0)
    if mode != "body_inertia" or not 0 < len(bodies) <= MAX_BODIES:
        return []
    colliding = (model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0
    owner = model.shape_body.numpy()
    mass = model.body_mass.numpy().astype(np.float64)
    touching = np.isin(bodies, owner[colliding]) & (mass[bodies] > 0.0)
    alone, links = _roles(model, bodies[touching])
    if not len(alone) or not len(links):
        return []
    shapes = np.flatnonzero(colliding & np.isin(owner, links))
    free, joined = link_weights(model, shapes)
    heaviest = mass[alone].max()
    light = shapes[(free * heaviest > MIN_CREEP) & (free > MIN_RATIO * joined)]
    if not len(light):
        return []
    found = np.unique(owner[light])
    factor = (free / np.maximum(joined, 1e-3 * free))[np.isin(shapes, light)].max()
    what = (
        f"contact_weight_mode body_inertia takes {name_some(model.body_label, found)} for {factor:.0f} times easier to "
        f"move than the joints allow: what they hold will creep; set contact_preset_variant robot, or "
        f"contact_weight_mode diag_delassus"
    )
    return [Note(LIGHT_LINKS, what, ("body", int(found[0])))]


def _roles(model: newton.Model, bodies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which of ``bodies`` float by themselves, and which are held by joints of another kind."""
    tree = np.flatnonzero(tree_joints(model))
    kind = np.full(model.body_count, -1)
    kind[model.joint_child.numpy()[tree]] = model.joint_type.numpy()[tree]
    floats = np.isin(kind, FLOATING_JOINTS)
    carries = np.isin(np.arange(model.body_count), model.joint_parent.numpy()[tree])
    return bodies[(floats & ~carries)[bodies]], bodies[((kind >= 0) & ~floats)[bodies]]


def link_weights(model: newton.Model, shapes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``body_inertia`` and ``diag_delassus`` [1/kg] of links of the first world at the origins of ``shapes``."""
    poses = body_poses(model, model.joint_q.numpy())
    mechanism = Mechanism(model, poses)
    mass, inertia = model.body_mass.numpy().astype(np.float64), model.body_inertia.numpy().astype(np.float64)
    com = model.body_com.numpy().astype(np.float64)
    owner = model.shape_body.numpy()[shapes]
    local = model.shape_transform.numpy()[shapes, :3].astype(np.float64)
    column = mechanism.velocities(owner, poses[owner, :3] + rotate(poses[owner, 3:], local))
    W = np.einsum("sei,e,sej->sij", column, 1.0 / np.maximum(mechanism.diagonal, 1e-12), column)
    x = local - com[owner]
    form = (x**2).sum(1)[:, None, None] * np.eye(3) - x[:, :, None] * x[:, None, :]
    turn = np.einsum("sij,sji->s", form, np.linalg.pinv(inertia[owner], hermitian=True)) / 3.0
    return 1.0 / mass[owner] + turn, np.linalg.norm(W, axis=(1, 2)) / 3.0
