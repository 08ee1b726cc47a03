"""Constraint rows, bilateral or with bounds: what they are made from, and what the solve reads.

A row is one scalar equation g(q) = 0 with the rate J v. J is stored, and only where it can be non-zero: a row couples
dofs of different branches, which neither a body nor a pair of bodies can stand for. Rows are few.
"""

import functools

import warp as wp

from ..kernels.types import Types

LINEAR = wp.constant(0)  # n . (p_M - p_F)
ANGLE = wp.constant(1)  # n . (rotation vector of R_FM)
SWING = wp.constant(2)  # n . (a_F x a_M): the axis a is to agree in both frames
UNIVERSAL = wp.constant(3)  # n_F . a_M - n . a: two axes are to keep their angle
COUPLER = wp.constant(4)  # q_1 - polynomial of q_2
LENGTH = wp.constant(5)  # a term of one or two lengths, see `length_terms`


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
