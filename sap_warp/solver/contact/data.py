"""The structs of the contact stage: what it reads, what it makes for the solve, and what its kernel works with."""

from __future__ import annotations

from typing import Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.packed_rows import RowPattern
from ...core.kernels.structs import array_struct
from ...core.kernels.template import device_struct
from ...model.model import SapModel
from ..model.layout import Layout
from ..model.links import JointFrames
from ..model.motion_data import MotionData
from ..model.motors import MOTOR_NUMBERS
from ..settings.precisions import solve, weight
from ..terms.contact import ContactLaw
from ..terms.dof import DofTerms
from .weight import Mobility

scalar, vec3 = solve.scalar, solve.vec3

NO_BODY = wp.constant(-1)
"""Stands for a body that cannot move, and for none."""

KINEMATIC = wp.constant(1)
"""The body belongs to a tree with a kinematic root."""
MASSLESS = wp.constant(2)
"""The body has no mass of its own."""
MOVED = wp.constant(1 << 30)
"""A contact has other bodies than the one that had its row before. Row flags are these three, in one integer."""

# Patterns of the Hessian. `ContactData.coupled` is the one that a world needs in this step, `Data.widened` the one that
# its Hessian was written in last:
ROWS_OF_A = wp.constant(0)
ROWS_WIDENED = wp.constant(1)
# The table of the widened rows is made anew only where that can change it. `ContactData.narrow` says what widened them:
WIDENED_BY_CONTACTS = wp.constant(0)  # or nothing was looked at yet: the next step makes the table anew
NOT_WIDENED_BY_CONTACTS = wp.constant(1)  # at most equations did, which are the same in every step


@wp.struct
class ShapeOwner:
    """What a shape belongs to, bodies in solver order."""

    body: int  # -1 without one
    moving: int  # the same, but -1 if it cannot move
    root: int  # root of the body's tree
    world: int  # of a body that can move, else -1
    row_flags: int  # that its contacts have: KINEMATIC, MASSLESS
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
    overflow_next: wp.array(dtype=wp.int32)  # of a contact that found its world full: the one before it, plus 1, or 0
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


@device_struct
class ContactData:
    """The contacts of all worlds: world w owns the rows from ``w * capacity`` on, and uses the first ``count[w]``.

    A row is a contact, or one bound of a distance joint, which is a contact without friction.
    """

    capacity: int
    count: wp.array(dtype=wp.int32)  # rows in use, by world
    source: wp.array(dtype=wp.int32)  # index in the contact buffer, -1 for a distance row
    body_a: wp.array(dtype=wp.int32)  # moving body of shape 0 in solver order, or NO_BODY
    body_b: wp.array(dtype=wp.int32)  # moving body of shape 1
    normal: wp.array(dtype=vec3)  # from shape 0 to shape 1, world axes
    r_a: wp.array(dtype=vec3)  # velocity point relative to the reference point of a's tree [m]
    r_b: wp.array(dtype=vec3)
    phi0: wp.array(dtype=scalar)  # signed gap at the start of the step [m]
    vhat: wp.array(dtype=scalar)  # -phi0 / (h + tau) [m/s]
    mu: wp.array(dtype=scalar)
    weight: wp.array(dtype=scalar)  # w [1/kg]
    Rt: wp.array(dtype=scalar)  # [1/kg]
    Rn: wp.array(dtype=scalar)
    drift: wp.array(dtype=vec3)  # prescribed part of the relative velocity [m/s]
    # rows by body: entries 2 row + side, side 0 for a and 1 for b
    body_start: wp.array(dtype=wp.int32)
    body_count: wp.array(dtype=wp.int32)
    body_row: wp.array(dtype=wp.int32)
    body_active: wp.array(dtype=wp.int32)  # 1 if the body's subtree has a contact
    coupled: wp.array(dtype=wp.int32)  # by world: ROWS_WIDENED if any row of the Hessian is wider than A's
    narrow: wp.array(dtype=wp.int32)  # by world: whether contacts widened rows in the table below
    hessian: RowPattern  # like A's, widened by contacts between moving bodies; of a row's columns left of those of
    # A only the number counts, since trees have another order there, see `hessian_order`:
    dof_position: wp.array(dtype=wp.int32)  # of a dof among the columns
    ordered_first: wp.array(dtype=wp.int32)  # position of the first column of the row at this position
    ordered_entry: wp.array(dtype=wp.int32)  # address of that entry
    queue: wp.array(dtype=wp.int32)  # trees in this order, by their roots
    seen: wp.array(dtype=wp.int32)  # by body, for whoever finds the order


@device_struct
class ContactStage:
    """What the kernel of the contact stage works with and makes."""

    layout: Layout
    mobility: wp.array(dtype=Mobility)
    law: ContactLaw
    motion: MotionData
    joints: JointFrames
    q: wp.array(dtype=wp.float64)
    found: wp.array(dtype=wp.int32)  # contacts that binning found, by world
    slot: wp.array(dtype=wp.int32)  # which of them were kept, ``slots`` for each world
    slots: int
    overflow_head: wp.array(dtype=wp.int32)  # contacts that found a world full, see `Bins`
    ordered: int  # 1 if a world that is not full has its slots in order already
    scratch: wp.array(dtype=weight.vec3)
    rows: ContactData
    listed: wp.array(dtype=wp.int32)  # by world: one more than the rows that its lists were made from; one lane
    terms: DofTerms
    contact_count: wp.array(dtype=wp.int32)
    truncated: wp.array(dtype=wp.int32)
    lost: wp.array(dtype=wp.int64)  # the same over all steps
    most_lost: wp.array(dtype=wp.int32)  # and the most in one step


def ground_shapes(model: SapModel | newton.Model) -> np.ndarray:
    """Shapes that all worlds share, by Newton's number; none if there are no worlds to tell apart."""
    world = model.shape_world.numpy()
    return np.flatnonzero(world < 0) if (world >= 0).any() else np.zeros(0, np.int64)


def shape_owners(model: SapModel, layout: Layout) -> wp.array:
    """Return the table of `ContactInput.shape_owner`; shapes never change their body, but bodies their mass."""
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
    table["row_flags"][found] = KINEMATIC * layout.body_kinematic.numpy()[root] + MASSLESS * massless
    return wp.array(table, dtype=ShapeOwner, device=model.device)
