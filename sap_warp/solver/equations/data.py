"""Equations, bilateral or with bounds: what they are made from, and what the solve reads.

An equation is g(q) = 0 with a scalar g and the rate J v. J is stored, and only where it can be non-zero: an equation
couples dofs of different branches, which neither a body nor a pair of bodies can stand for. Equations are few.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.spatial import to_unit_quat, to_vec3
from ...core.kernels.template import Constant, device, device_struct
from ...core.kernels.types import FP64
from ..model.layout import Layout
from ..model.motion_data import MotionData
from ..settings.precisions import solve
from .transmissions import Transmissions, TransmissionTerm

F, vec3, quat = wp.float64, wp.vec3d, wp.quatd
scalar = solve.scalar
to_vec3_64, to_unit_quat_64 = (function.on(number=Constant(FP64)) for function in (to_vec3, to_unit_quat))

LINEAR = wp.constant(0)  # n . (p_M - p_F)
ANGLE = wp.constant(1)  # n . (rotation vector of R_FM)
SWING = wp.constant(2)  # n . (a_F x a_M): the axis a is to agree in both frames
UNIVERSAL = wp.constant(3)  # n_F . a_M - n . a: two axes are to keep their angle
COUPLER = wp.constant(4)  # q_1 - polynomial of q_2
TRANSMISSION = wp.constant(5)  # a term of one or two transmissions, see `tendons/terms.py`


IMMOBILE = 1e-20
"""An equation whose mobility is below this cannot be satisfied by any dof."""


@wp.struct
class EquationSource:
    """One equation as the model describes it. Frame F is fixed in body a, M in body b; -1 is the world."""

    kind: int
    enabled: int
    a: int  # solver body
    b: int
    p_aF: wp.vec3d  # frame F in body a [m]
    r_aF: wp.quatd
    p_bM: wp.vec3d  # frame M in body b [m]
    r_bM: wp.quatd
    n: wp.vec3d  # direction of the equation in F
    axis: wp.vec3d  # a of SWING (in F and M) and UNIVERSAL (in M)
    coord_1: int  # coupler: coordinates in joint_q, coord_2 is -1 if there is none
    coord_2: int
    dof_1: int  # coupler: solver dofs
    dof_2: int
    c0: wp.float64  # coupler: coefficients of the polynomial
    c1: wp.float64
    c2: wp.float64
    c3: wp.float64
    c4: wp.float64


@device_struct
class Equations:
    """All equations, world after world; each has one row of J."""

    world_row: wp.array(dtype=wp.int32)  # first equation of each world, [worlds + 1]
    row_entry: wp.array(dtype=wp.int32)  # first entry of each equation, [equations + 1]
    entry_dof: wp.array(dtype=wp.int32)  # solver dofs of an equation, growing
    entry_side: wp.array(dtype=wp.int32)  # -1 below body a, +1 below body b; couplers: the first and second dof
    J: wp.array(dtype=scalar)  # by entry
    violation: wp.array(dtype=scalar)  # g at the start of the step [m or rad], by equation
    vhat: wp.array(dtype=scalar)  # rate asked of the unknowns [m/s or rad/s]
    R: wp.array(dtype=scalar)  # zero where the equation takes no part
    low: wp.array(dtype=scalar)  # bounds of the impulse, see `terms/bounded.py` [N s or N m s]
    high: wp.array(dtype=scalar)
    bounded: int  # 1 if any equation has bounds


@device_struct
class EquationInput:
    """What equations follow from: bodies, coordinates and transmissions at the start of a step."""

    layout: Layout
    motion: MotionData
    q: wp.array(dtype=wp.float64)
    free_dofs: int
    transmissions: Transmissions


@device_struct
class EquationStage:
    """What the kernels of the equations work with and make."""

    input: EquationInput
    equations: Equations
    terms: wp.array(dtype=TransmissionTerm)  # equations along transmissions
    world_term: wp.array(dtype=wp.int32)  # first of them of each world, [worlds + 1]
    sigma: wp.float64  # of dry friction


@device
def body_rotation(given: wp.ref[EquationInput], b: int) -> quat:
    """Orientation of a body in fp64; body -1 is the world."""
    if b < 0:
        return wp.quat_identity(dtype=F)
    return to_unit_quat_64(given.motion.r[b])


@device
def body_point(given: wp.ref[EquationInput], b: int, p: vec3, o: vec3) -> vec3:
    """Position of the body-fixed point p relative to o, in world axes and fp64; body -1 is the world."""
    if b < 0:
        return p - o
    from_o = given.motion.origin[given.layout.body_root[b]] - o
    return to_vec3_64(given.motion.p[b]) + wp.quat_rotate(body_rotation(given, b), p) + from_o
