"""Which joints span the trees, which close loops, and which bodies follow a prescribed motion."""

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
