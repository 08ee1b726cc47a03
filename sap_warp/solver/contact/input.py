"""What the contact stage reads: Newton's contacts and materials, joint parameters and targets."""

from typing import Any

import numpy as np
import warp as wp

from ...core.kernels.structs import array_struct
from ..joints.motors import MOTOR_NUMBERS

CARRIED = wp.constant(1)
"""A kinematic root carries the body."""
MASSLESS = wp.constant(2)
"""The body has no mass of its own."""


@wp.struct
class ShapeOwner:
    """What a shape belongs to, bodies in solver order."""

    body: int  # -1 without one
    moving: int  # the same, but -1 if it cannot move
    root: int  # root of the body's tree
    world: int  # of a body that can move, else -1
    special: int  # CARRIED, MASSLESS
    ground: int  # its number among the shapes of no world, where worlds may give it a friction of their own, else -1


CONTACT_ARRAYS = (
    dict.fromkeys(("count", "shape0", "shape1"), wp.int32)
    | dict.fromkeys(("point0", "point1", "offset0", "offset1", "normal"), wp.vec3f)
    | dict.fromkeys(("margin0", "margin1"), wp.float32)
)
"""Arrays of Newton's contact buffer that every contact has, without the prefix of their names."""
ContactArrays = array_struct("ContactArrays", CONTACT_ARRAYS)


@wp.struct
class ContactInput:
    """Newton's contact buffer and shape materials, by reference."""

    rows: ContactArrays
    stiffness: wp.array(dtype=wp.float32)  # per-contact overrides, empty if the buffer has none
    damping: wp.array(dtype=wp.float32)
    friction: wp.array(dtype=wp.float32)
    has_overrides: int
    surface_velocity: wp.array(dtype=wp.vec3f)  # of shape 1 relative to shape 0 [m/s, world], empty if there is none
    has_surface_velocity: int
    newcomer: wp.array(dtype=wp.int32)  # of a contact that found its world full: the one before it, plus 1, or 0
    shape_owner: wp.array(dtype=ShapeOwner)  # entry shape + 1: a contact's shape may be -1, for none
    shape_ke: wp.array(dtype=wp.float32)
    shape_mu: wp.array(dtype=wp.float32)
    shape_tau: wp.array(dtype=wp.float32)
    ground_count: int
    ground_mu: wp.array(dtype=wp.float32)  # friction of the ground shapes by world, ``ground_count`` for each ...
    own_ground: wp.array(dtype=wp.int32)  # ... which counts if this is not 0


JOINT_ARRAYS = {"target_mode": wp.int32} | dict.fromkeys(
    ("target_ke", "target_kd", "effort_limit", "velocity_limit", "friction")
    + ("limit_lower", "limit_upper", "limit_ke", "limit_kd"),
    wp.float32,
)
"""Newton's parameters of the terms of joints, without the prefix of their names."""
SPRINGS = {
    "spring_stiffness": "dof_passive_stiffness",
    "spring_reference": "dof_springref",
    "coordinate_reference": "dof_ref",
}
"""Passive springs in MuJoCo's names: stiffness, coordinate at rest, and coordinate where joint_q is zero [m or rad]."""
DofInput = array_struct(
    "DofInput",
    JOINT_ARRAYS
    | dict.fromkeys(("target_q", "target_qd", "act", "ctrl", *MOTOR_NUMBERS, *SPRINGS), wp.float32)
    | dict.fromkeys(("motor_index", "motor_idle"), wp.int32)
    | dict.fromkeys(("has_motors", "has_springs"), int),
)
"""Newton's parameters of joint terms and the control's targets, by reference. ``ctrl`` are MuJoCo's control inputs by
actuator, empty if the model has none; ``motor_index`` is the actuator of each dof or -1, ``motor_idle`` 1 if it does
nothing at an input of zero, and its numbers are by dof, see `motors`. Springs are empty if the model has none."""


def ground_shapes(model: Any) -> np.ndarray:
    """Shapes that all worlds share, by Newton's number; none if there are no worlds to tell apart."""
    world = model.shape_world.numpy()
    return np.flatnonzero(world < 0) if (world >= 0).any() else np.zeros(0, np.int64)


def shape_owners(model: Any, layout: Any) -> wp.array:
    """The table of `ContactInput.shape_owner`; shapes never change their body, but bodies their mass."""
    record: Any = ShapeOwner
    body = np.append(-1, model.shape_body.numpy())
    found = body >= 0
    b = layout.newton_body.numpy()[body[found]]
    root = layout.body_root.numpy()[b]
    moves = layout.body_chain.numpy()[b] >= 0
    table = np.zeros(len(body), dtype=record.numpy_dtype())
    for name in ("body", "moving", "root", "world"):
        table[name] = -1
    table["body"][found] = b
    table["moving"][found] = np.where(moves, b, -1)
    table["root"][found] = root
    table["world"][found] = np.where(moves, layout.body_world.numpy()[b], -1)
    massless = ~(model.body_mass.numpy()[body[found]] > 0.0)
    table["ground"] = -1
    table["ground"][1 + ground_shapes(model)] = np.arange(len(ground_shapes(model)))
    table["special"][found] = CARRIED * layout.body_prescribed.numpy()[root] + MASSLESS * massless
    return wp.array(table, dtype=ShapeOwner, device=model.device)
