"""Constraint rows, bilateral or with bounds: what they are made from, and what the solve reads.

A row is one scalar equation g(q) = 0 with the rate J v. J is stored, and only where it can be non-zero: a row couples
dofs of different branches, which neither a body nor a pair of bodies can stand for. Rows are few.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.types import Types
from ..model.layout import Layout
from ..model.motion_data import make_motion_data
from ..tendons.data import Lengths, LengthTerm

LINEAR = wp.constant(0)  # n . (p_M - p_F)
ANGLE = wp.constant(1)  # n . (rotation vector of R_FM)
SWING = wp.constant(2)  # n . (a_F x a_M): the axis a is to agree in both frames
UNIVERSAL = wp.constant(3)  # n_F . a_M - n . a: two axes are to keep their angle
COUPLER = wp.constant(4)  # q_1 - polynomial of q_2
LENGTH = wp.constant(5)  # a term of one or two lengths, see `tendons.terms`


IMMOBILE = 1e-20
"""A row whose mobility is below this cannot be moved by any dof."""


@wp.struct
class RowSource:
    """One row as the model describes it. Frame F is fixed in body a, M in body b; -1 is the world."""

    kind: int
    enabled: int
    a: int  # solver body
    b: int
    p_aF: wp.vec3d  # frame F in body a [m]
    r_aF: wp.quatd
    p_bM: wp.vec3d  # frame M in body b [m]
    r_bM: wp.quatd
    n: wp.vec3d  # direction of the row in F
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


@functools.cache
def make_constraint_data(types: Types):
    """Struct of all rows, world after world."""
    scalar = types.scalar

    @wp.struct
    class ConstraintData:
        world_row: wp.array(dtype=wp.int32)  # first row of each world, [worlds + 1]
        row_entry: wp.array(dtype=wp.int32)  # first entry of each row, [rows + 1]
        entry_dof: wp.array(dtype=wp.int32)  # solver dofs of a row, growing
        entry_side: wp.array(dtype=wp.int32)  # -1 below body a, +1 below body b; couplers: the first and second dof
        J: wp.array(dtype=scalar)  # by entry
        violation: wp.array(dtype=scalar)  # g at the start of the step [m or rad], by row
        vhat: wp.array(dtype=scalar)  # rate asked of the unknowns [m/s or rad/s]
        R: wp.array(dtype=scalar)  # zero where the row takes no part
        low: wp.array(dtype=scalar)  # bounds of the impulse, see `terms/bounded.py` [N s or N m s]
        high: wp.array(dtype=scalar)
        bounded: int  # whether any row has bounds

    return ConstraintData


@functools.cache
def make_row_input(pose: Types, dynamics: Types):
    """Struct of what rows follow from: bodies and coordinates at the start of a step, and the lengths between them."""
    Motion = make_motion_data(pose, dynamics)

    @wp.struct
    class RowInput:
        layout: Layout
        motion: Motion
        q: wp.array(dtype=wp.float64)
        free_dofs: int
        lengths: Lengths

    return RowInput


@functools.cache
def make_row_stage(pose: Types, dynamics: Types, types: Types):
    """Struct of what the kernels of the rows work with and make."""
    Input, Rows = make_row_input(pose, dynamics), make_constraint_data(types)

    @wp.struct
    class RowStage:
        input: Input
        rows: Rows
        terms: wp.array(dtype=LengthTerm)  # rows along lengths
        world_term: wp.array(dtype=wp.int32)  # first of them of each world, [worlds + 1]
        sigma: wp.float64  # of dry friction

    return RowStage


@functools.cache
def make_row_points(pose: Types, dynamics: Types) -> SimpleNamespace:
    """Device functions for points of bodies in fp64; body -1 is the world."""
    Input = make_row_input(pose, dynamics)
    F, vec3, quat = wp.float64, wp.vec3d, wp.quatd

    @wp.func
    def to_vec3(v: dynamics.vec3) -> vec3:
        return vec3(F(v[0]), F(v[1]), F(v[2]))

    @wp.func
    def rotation(s: wp.ref[Input], b: int) -> quat:
        """Orientation of a body."""
        if b < 0:
            return wp.quat_identity(dtype=F)
        r = s.motion.r[b]
        return wp.normalize(quat(F(r[0]), F(r[1]), F(r[2]), F(r[3])))

    @wp.func
    def point(s: wp.ref[Input], b: int, p: vec3, o: vec3) -> vec3:
        """Position of a body-fixed point relative to o."""
        if b < 0:
            return p - o
        q = s.motion.p[b]
        from_o = s.motion.origin[s.layout.body_root[b]] - o
        return vec3(F(q[0]), F(q[1]), F(q[2])) + wp.quat_rotate(rotation(s, b), p) + from_o

    return SimpleNamespace(to_vec3=to_vec3, rotation=rotation, point=point)
