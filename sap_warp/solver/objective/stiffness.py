"""Contact stiffness of a body, a symmetric 6x6 matrix about its tree's reference point, angular part first.

    K = sum over rows  X^T G X,   X = (-[r]x, 1),   G = k 1 + k_n n n^T - k t t^T + k_s s s^T

A matrix lies in six columns of eight numbers, of which the last two are zero: on the CPU a column is one vector
(`core/native/stiffness.h`). It has the precision of the Hessian, which it becomes a part of.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.lanes import with_native
from ...core.kernels.spatial import make_spatial
from ...core.kernels.types import Ints, Types
from ..terms.contact import SLIDING, make_projection

SIZE = 48
"""Numbers of one matrix."""


@functools.cache
def make_stiffness(dynamics: Types, types: Types, linear: Types) -> SimpleNamespace:
    """Device functions on arrays of such matrices, in precisions of a solve (`solve_data.Precisions`).

    ``gather`` sums up the rows of a body, ``add_child`` adds another body's matrix, ``multiply`` writes the forces
    K S of dofs, in six runs for each world, as `packed_rows.make_add_rows` takes them. ``Blocks`` and ``add_row`` are
    for the stiffness between two bodies, X_a^T G X_b.
    """
    scalar, vec3, mat33 = linear.scalar, linear.vec3, linear.mat33
    to_vec3, skew = make_spatial(linear).to_vec3, make_spatial(linear).skew
    Projection = make_projection(types).Projection
    arms = types.vec3
    Numbers, Rows, Arms, Columns = (wp.array[t] for t in (scalar, Projection, arms, dynamics.vec3))

    @wp.struct
    class Blocks:
        """Angular, mixed and linear blocks of X_a^T G X_b."""

        ww: mat33
        wv: mat33
        vw: mat33
        vv: mat33

    @wp.func
    def add_direction(K: wp.ref[Blocks], arm_a: vec3, arm_b: vec3, u: vec3, k: scalar):
        """Stiffness k along u."""
        ku = u * k
        a = wp.cross(arm_a, ku)
        b = wp.cross(arm_b, u)
        K.ww += wp.outer(a, b)
        K.wv += wp.outer(a, u)
        K.vw += wp.outer(ku, b)
        K.vv += wp.outer(ku, u)

    @wp.func
    def add_row(K: wp.ref[Blocks], r: wp.ref[Projection], normal: arms, r_a: arms, r_b: arms):
        """Stiffness of one row at the two arms: equal in all directions, and along a few."""
        k = scalar(r.across)
        arm_a = to_vec3(r_a)
        arm_b = to_vec3(r_b)
        # -[a]x [b]x = a.b 1 - b a^T
        ww = wp.outer(arm_b, arm_a) * (-k)
        spread = k * wp.dot(arm_a, arm_b)
        for i in range(3):
            ww[i, i] += spread
            K.vv[i, i] += k
        K.ww += ww
        K.wv += skew(arm_a * k)
        K.vw -= skew(arm_b * k)
        add_direction(K, arm_a, arm_b, to_vec3(normal), scalar(r.along_n))
        if r.mode == SLIDING:
            add_direction(K, arm_a, arm_b, to_vec3(r.t), -k)
            add_direction(K, arm_a, arm_b, to_vec3(r.s), scalar(r.along_s))

    rows = "body_row.data + start, count, projection.data, normal.data, r_a.data, r_b.data"

    @with_native(f"sap::gather_stiffness(K.data + 48 * b, {rows}, {int(SLIDING)});")
    @wp.func
    def gather(
        K: Numbers, b: int, body_row: Ints, start: int, count: int, projection: Rows, normal: Arms, r_a: Arms, r_b: Arms
    ):
        total = Blocks()
        i = int(start)
        while i < start + count:
            row = body_row[i] // 2
            arm = wp.where(body_row[i] % 2 == 1, r_b[row], r_a[row])
            if projection[row].mode != 0:
                add_row(total, projection[row], normal[row], arm, arm)
            i += 1
        for c in range(3):
            for r in range(3):
                K[48 * b + 8 * c + r] = total.ww[r, c]
                K[48 * b + 8 * c + 3 + r] = total.vw[r, c]
                K[48 * b + 24 + 8 * c + r] = total.wv[r, c]
                K[48 * b + 24 + 8 * c + 3 + r] = total.vv[r, c]

    @with_native("sap::add_stiffness(K.data + 48 * b, K.data + 48 * child);")
    @wp.func
    def add_child(K: Numbers, b: int, child: int):
        for c in range(6):
            for r in range(6):
                i = 48 * b + 8 * c + r
                K[i] = K[i] + K[48 * child + 8 * c + r]

    columns = "first, last, Sw.data, Sv.data, forces.data + 5 * start, count"

    @with_native(f"sap::multiply_stiffness(K.data + 48 * b, {columns});")
    @wp.func
    def multiply(
        K: Numbers, b: int, first: int, last: int, Sw: Columns, Sv: Columns, forces: Numbers, start: int, count: int
    ):
        for e in range(first, last):
            for r in range(6):
                f = scalar(0.0)
                for c in range(3):
                    f += K[48 * b + 8 * c + r] * scalar(Sw[e][c])
                    f += K[48 * b + 8 * (c + 3) + r] * scalar(Sv[e][c])
                forces[5 * start + e + r * count] = f

    return SimpleNamespace(gather=gather, add_child=add_child, multiply=multiply, Blocks=Blocks, add_row=add_row)
