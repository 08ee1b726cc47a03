"""Roles of joints and bodies: which joints span trees or close loops, which bodies are kinematic or can move."""

from __future__ import annotations

import newton
import numpy as np

from ...model.joint_types import FIXED


def kinematic_bodies(model: newton.Model) -> np.ndarray:
    """Return a mask of the bodies that follow a given motion, by Newton's index."""
    return (model.body_flags.numpy() & int(newton.BodyFlags.KINEMATIC)) != 0


def tree_joints(model: newton.Model) -> np.ndarray:
    """Return a mask of the joints that span the trees, by Newton's index; the others close loops.

    Joints of an articulation do, and so does a joint outside of any that ties a body without another one to the world.
    """
    tree = model.joint_articulation.numpy() >= 0
    parent, child = model.joint_parent.numpy(), model.joint_child.numpy()
    has_joint = np.zeros(model.body_count, bool)
    has_joint[child[tree]] = True
    for joint in np.flatnonzero(~tree & (parent < 0)):
        if not has_joint[child[joint]]:
            tree[joint] = has_joint[child[joint]] = True
    return tree


def movable_bodies(model: newton.Model) -> np.ndarray:
    """Return a mask of the bodies that respond to forces: above them is a joint with dofs that is not kinematic."""
    parent, child, kinematic = model.joint_parent.numpy(), model.joint_child.numpy(), kinematic_bodies(model)
    dofs = np.diff(model.joint_qd_start.numpy())
    movable = np.zeros(model.body_count, bool)
    for joint in np.flatnonzero(tree_joints(model)):  # Newton orders joints parents first
        above = parent[joint] >= 0 and movable[parent[joint]]
        movable[child[joint]] = above or (dofs[joint] > 0 and not kinematic[child[joint]])
    return movable


def shared_trees(model: newton.Model) -> np.ndarray:
    """Return a mask of the bodies of all worlds (world -1) in trees that respond to forces.

    It is empty for a model without bodies of single worlds.

    They are simulated once, as a world of their own after the others.
    """
    world = model.body_world.numpy()
    if (world >= 0).all() or (world < 0).all():
        return np.zeros(model.body_count, bool)
    parent, child = model.joint_parent.numpy(), model.joint_child.numpy()
    shared = movable_bodies(model) & (world < 0)
    joints = [j for j in np.flatnonzero(tree_joints(model)) if parent[j] >= 0 and world[child[j]] < 0]
    for joint in joints[::-1]:  # Newton orders joints parents first: up to the root, then down to all of its bodies
        shared[parent[joint]] |= shared[child[joint]]
    for joint in joints:
        shared[child[joint]] |= shared[parent[joint]]
    return shared


def carriers(model: newton.Model) -> np.ndarray:
    """Return the body that each body gets the mobility of a contact from, by Newton's index.

    A body with mass is its own. One without has the heaviest of the bodies that fixed joints connect it with, or if
    these have none either, that of the body above them, and so on. A body that cannot move has none: -1.
    """
    mass = model.body_mass.numpy()
    itself = np.arange(model.body_count)
    if (mass > 0.0).all():
        return itself
    mass = np.where(movable_bodies(model), mass, 0.0)
    tree = tree_joints(model)
    above, rigid = np.full(model.body_count, -1), itself.copy()
    parent, child = model.joint_parent.numpy()[tree], model.joint_child.numpy()[tree]
    above[child] = parent
    welded = (model.joint_type.numpy()[tree] == int(FIXED)) & (parent >= 0)
    rigid[child[welded]] = parent[welded]
    while (rigid != rigid[rigid]).any():  # to the first of those that fixed joints connect
        rigid = rigid[rigid]
    order = np.argsort(mass, kind="stable")
    order = order[mass[order] > 0.0]
    heaviest = np.full(model.body_count, -1)
    heaviest[rigid[order]] = order  # the last one stays
    carrier = np.append(np.where(mass > 0.0, itself, heaviest[rigid]), -1)
    above = np.append(above[rigid], -1)
    for _ in range(model.body_count):
        missing = (carrier < 0) & (carrier[above] >= 0)
        if not missing.any():
            break
        carrier[missing] = carrier[above[missing]]
    return carrier[:-1]
