"""Which joints span the trees, which close loops, which bodies move by themselves, and which are carried."""

from __future__ import annotations

import newton
import numpy as np


def kinematic_bodies(model: newton.Model) -> np.ndarray:
    """Which bodies follow a prescribed motion, by Newton's index."""
    return (model.body_flags.numpy() & int(newton.BodyFlags.KINEMATIC)) != 0


def tree_joints(model: newton.Model) -> np.ndarray:
    """Which joints carry their child body, by Newton's index; the others close loops.

    A joint of an articulation does, and so does a joint outside of any that ties a body without another one to the
    world.
    """
    tree = model.joint_articulation.numpy() >= 0
    parent, child = model.joint_parent.numpy(), model.joint_child.numpy()
    carried = np.zeros(model.body_count, bool)
    carried[child[tree]] = True
    for joint in np.flatnonzero(~tree & (parent < 0)):
        if not carried[child[joint]]:
            tree[joint] = carried[child[joint]] = True
    return tree


def movable_bodies(model: newton.Model) -> np.ndarray:
    """Which bodies respond to forces: a joint with dofs that are not prescribed is somewhere above them."""
    parent, child, kinematic = model.joint_parent.numpy(), model.joint_child.numpy(), kinematic_bodies(model)
    dofs = np.diff(model.joint_qd_start.numpy())
    movable = np.zeros(model.body_count, bool)
    for joint in np.flatnonzero(tree_joints(model)):  # Newton orders joints parents first
        above = parent[joint] >= 0 and movable[parent[joint]]
        movable[child[joint]] = above or (dofs[joint] > 0 and not kinematic[child[joint]])
    return movable


def shared_trees(model: newton.Model) -> np.ndarray:
    """Which bodies of all worlds (world -1) are in trees that respond to forces, where bodies of single worlds exist.

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
    """The body that each body gets the mobility of a contact from, by Newton's index.

    A body with mass is its own. One without has the heaviest of the bodies that fixed joints connect it with, or if
    these have none either, that of the body above them, and so on. What cannot move carries nothing: -1.
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
    welded = (model.joint_type.numpy()[tree] == int(newton.JointType.FIXED)) & (parent >= 0)
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
