"""What the contact stage reads: Newton's contacts and materials, joint parameters and targets."""

from typing import Any

import numpy as np
import warp as wp

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


@wp.struct
class ContactInput:
    """Newton's contact buffer and shape materials, by reference."""

    count: wp.array(dtype=wp.int32)
    shape0: wp.array(dtype=wp.int32)
    shape1: wp.array(dtype=wp.int32)
    point0: wp.array(dtype=wp.vec3f)
    point1: wp.array(dtype=wp.vec3f)
    offset0: wp.array(dtype=wp.vec3f)
    offset1: wp.array(dtype=wp.vec3f)
    normal: wp.array(dtype=wp.vec3f)
    margin0: wp.array(dtype=wp.float32)
    margin1: wp.array(dtype=wp.float32)
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


@wp.struct
class DofInput:
    """Newton's joint term parameters and the control's targets, by reference."""

    target_ke: wp.array(dtype=wp.float32)
    target_kd: wp.array(dtype=wp.float32)
    target_mode: wp.array(dtype=wp.int32)
    target_q: wp.array(dtype=wp.float32)
    target_qd: wp.array(dtype=wp.float32)
    act: wp.array(dtype=wp.float32)
    effort_limit: wp.array(dtype=wp.float32)
    velocity_limit: wp.array(dtype=wp.float32)
    friction: wp.array(dtype=wp.float32)
    limit_lower: wp.array(dtype=wp.float32)
    limit_upper: wp.array(dtype=wp.float32)
    limit_ke: wp.array(dtype=wp.float32)
    limit_kd: wp.array(dtype=wp.float32)
    has_motors: int
    ctrl: wp.array(dtype=wp.float32)  # MuJoCo's control inputs, by actuator; empty if the model has none
    motor_index: wp.array(dtype=wp.int32)  # actuator of each dof or -1, and its parameters by dof, see `motors`
    motor_idle: wp.array(dtype=wp.int32)  # 1 if it does nothing at a control input of zero
    motor_gain: wp.array(dtype=wp.float32)
    motor_u0: wp.array(dtype=wp.float32)
    motor_kp: wp.array(dtype=wp.float32)
    motor_kd: wp.array(dtype=wp.float32)
    motor_low: wp.array(dtype=wp.float32)
    motor_high: wp.array(dtype=wp.float32)
    motor_limit: wp.array(dtype=wp.float32)
    has_springs: int
    spring_stiffness: wp.array(dtype=wp.float32)  # passive springs, empty if the model has none
    spring_reference: wp.array(dtype=wp.float32)  # MuJoCo coordinate at rest [m or rad]
    coordinate_reference: wp.array(dtype=wp.float32)  # MuJoCo coordinate where joint_q is zero


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
