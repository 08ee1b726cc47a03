"""Contact stiffness of a body, a symmetric 6x6 matrix about its tree's reference point, angular part first.

    K = sum over rows  X^T G X,   X = (-[r]x, 1),   G = k 1 + k_n n n^T - k t t^T + k_s s s^T

A matrix lies in six columns of eight numbers, of which the last two are zero: on the CPU a column is one vector
(`core/native/stiffness.h`). It has the precision of the Hessian, which it becomes a part of.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import with_native
from ...core.kernels.spatial import skew, to_vec3
from ...core.kernels.template import array_of, device, device_struct
from ...core.kernels.types import Ints
from ..settings.precisions import dynamics, linear, solve
from ..terms.contact import SLIDING, Projection

SIZE = 48
"""Numbers of one matrix."""
linear_scalar, linear_vec3, linear_mat33, solve_vec3 = linear.scalar, linear.vec3, linear.mat33, solve.vec3
to_linear, linear_skew = to_vec3.on(number=linear), skew.on(number=linear)
Numbers, Rows, Arms, Columns = map(array_of, (linear_scalar, Projection, solve_vec3, dynamics.vec3))

CONTACTS = "body_row.data + start, count, projection.data, normal.data, r_a.data, r_b.data"
COLUMNS = "first, last, Sw.data, Sv.data, forces.data + 5 * start, count"


@device_struct
class Blocks:
    """Angular, mixed and linear blocks of X_a^T G X_b."""

    ww: linear_mat33
    wv: linear_mat33
    vw: linear_mat33
    vv: linear_mat33


@device
def add_direction(K: wp.ref[Blocks], arm_a: linear_vec3, arm_b: linear_vec3, u: linear_vec3, k: linear_scalar):
    """Stiffness k along u."""
    ku = u * k
    a = wp.cross(arm_a, ku)
    b = wp.cross(arm_b, u)
    K.ww += wp.outer(a, b)
    K.wv += wp.outer(a, u)
    K.vw += wp.outer(ku, b)
    K.vv += wp.outer(ku, u)


@device
def add_contact(K: wp.ref[Blocks], at: wp.ref[Projection], normal: solve_vec3, r_a: solve_vec3, r_b: solve_vec3):
    """Stiffness of one row at the two arms: equal in all directions, and along a few."""
    k = linear_scalar(at.across)
    arm_a = to_linear(r_a)
    arm_b = to_linear(r_b)
    # -[a]x [b]x = a.b 1 - b a^T
    ww = wp.outer(arm_b, arm_a) * (-k)
    spread = k * wp.dot(arm_a, arm_b)
    for i in range(3):
        ww[i, i] += spread
        K.vv[i, i] += k
    K.ww += ww
    K.wv += linear_skew(arm_a * k)
    K.vw -= linear_skew(arm_b * k)
    add_direction(K, arm_a, arm_b, to_linear(normal), linear_scalar(at.along_n))
    if at.mode == SLIDING:
        add_direction(K, arm_a, arm_b, to_linear(at.t), -k)
        add_direction(K, arm_a, arm_b, to_linear(at.s), linear_scalar(at.along_s))


@with_native("stiffness", f"sap::gather_stiffness(K.data + 48 * b, {CONTACTS}, {int(SLIDING)});")
@device
def gather_stiffness(
    K: Numbers, b: int, body_row: Ints, start: int, count: int, projection: Rows, normal: Arms, r_a: Arms, r_b: Arms
):
    """Set the matrix of body b to the sum over its contacts."""
    total = Blocks()
    i = int(start)
    while i < start + count:
        row = body_row[i] // 2
        arm = wp.where(body_row[i] % 2 == 1, r_b[row], r_a[row])
        if projection[row].mode != 0:
            add_contact(total, projection[row], normal[row], arm, arm)
        i += 1
    for c in range(3):
        for r in range(3):
            K[48 * b + 8 * c + r] = total.ww[r, c]
            K[48 * b + 8 * c + 3 + r] = total.vw[r, c]
            K[48 * b + 24 + 8 * c + r] = total.wv[r, c]
            K[48 * b + 24 + 8 * c + 3 + r] = total.vv[r, c]


@with_native("stiffness", "sap::add_stiffness(K.data + 48 * b, K.data + 48 * child);")
@device
def add_child_stiffness(K: Numbers, b: int, child: int):
    """Add the matrix of a child to that of body b."""
    for c in range(6):
        for r in range(6):
            i = 48 * b + 8 * c + r
            K[i] = K[i] + K[48 * child + 8 * c + r]


@with_native("stiffness", f"sap::multiply_stiffness(K.data + 48 * b, {COLUMNS});")
@device
def multiply_stiffness(
    K: Numbers, b: int, first: int, last: int, Sw: Columns, Sv: Columns, forces: Numbers, start: int, count: int
):
    """Write the forces K S of dofs, in six runs for each world, as `packed_rows.add_rows` takes them."""
    for e in range(first, last):
        for r in range(6):
            f = linear_scalar(0.0)
            for c in range(3):
                f += K[48 * b + 8 * c + r] * linear_scalar(Sw[e][c])
                f += K[48 * b + 8 * (c + 3) + r] * linear_scalar(Sv[e][c])
            forces[5 * start + e + r * count] = f
