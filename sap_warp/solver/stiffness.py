"""Contact stiffness of a body, a symmetric 6x6 matrix about its tree's reference point, angular part first.

    K = sum over rows  X^T G X,   X = (-[r]x, 1),   G = sum of k u u^T

A stiffness k along u adds k w w^T with w = (r x u, u). A matrix lies in six columns of eight numbers, of which the last
two are zero: on the CPU a column is one vector (`native/stiffness.h`).
"""

import functools
from types import SimpleNamespace

import warp as wp

from ..kernels.lanes import is_native, native_twin
from ..kernels.types import Types
from .terms.contact import SLIDING, make_contact_term

SIZE = 48
"""Numbers of one matrix."""


@functools.cache
def make_stiffness(dynamics: Types, types: Types) -> SimpleNamespace:
    """Device functions on arrays of such matrices; ``dynamics`` is the precision of motion columns.

    ``gather`` sums up the rows of a body, ``add_child`` adds another body's matrix, ``multiply`` writes the forces
    K S of dofs, in six runs for each world, as `packed_rows.make_add_rows` takes them.
    """
    scalar, vec3 = types.scalar, types.vec3
    Projection = make_contact_term(types).Projection
    column = dynamics.vec3
    vec6 = wp.types.vector(length=6, dtype=scalar)

    @wp.func
    def add_direction(K: wp.array(dtype=scalar), b: int, arm: vec3, u: vec3, k: scalar):
        a = wp.cross(arm, u)
        w = vec6(a[0], a[1], a[2], u[0], u[1], u[2])
        for c in range(6):
            for r in range(6):
                i = 48 * b + 8 * c + r
                K[i] = K[i] + k * w[c] * w[r]

    @wp.func
    def gather(
        K: wp.array(dtype=scalar),
        b: int,
        body_row: wp.array(dtype=wp.int32),
        start: int,
        count: int,
        projection: wp.array(dtype=Projection),
        normal: wp.array(dtype=vec3),
        r_a: wp.array(dtype=vec3),
        r_b: wp.array(dtype=vec3),
    ):
        if is_native():
            gather_native(K, b, body_row, start, count, projection, normal, r_a, r_b)
            return
        for i in range(48):
            K[48 * b + i] = scalar(0.0)
        for i in range(start, start + count):
            row = body_row[i] // 2
            arm = wp.where(body_row[i] % 2 == 1, r_b[row], r_a[row])
            r = projection[row]
            if r.mode != 0:
                for c in range(3):
                    u = vec3()
                    u[c] = scalar(1.0)
                    add_direction(K, b, arm, u, r.across)
                add_direction(K, b, arm, normal[row], r.along_n)
            if r.mode == SLIDING:
                add_direction(K, b, arm, r.t, -r.across)
                add_direction(K, b, arm, r.s, r.along_s)

    @wp.func
    def add_child(K: wp.array(dtype=scalar), b: int, child: int):
        if is_native():
            add_child_native(K, b, child)
            return
        for i in range(48):
            K[48 * b + i] = K[48 * b + i] + K[48 * child + i]

    @wp.func
    def multiply(
        K: wp.array(dtype=scalar),
        b: int,
        first: int,
        last: int,
        Sw: wp.array(dtype=column),
        Sv: wp.array(dtype=column),
        forces: wp.array(dtype=scalar),
        start: int,
        count: int,
    ):
        if is_native():
            multiply_native(K, b, first, last, Sw, Sv, forces, start, count)
            return
        for e in range(first, last):
            for r in range(6):
                f = scalar(0.0)
                for c in range(3):
                    f += K[48 * b + 8 * c + r] * scalar(Sw[e][c])
                    f += K[48 * b + 8 * (c + 3) + r] * scalar(Sv[e][c])
                forces[5 * start + e + r * count] = f

    rows = "body_row.data + start, count, projection.data, normal.data, r_a.data, r_b.data"
    gather_native = native_twin(gather, f"sap::gather_stiffness(K.data + 48 * b, {rows}, {int(SLIDING)});")
    add_child_native = native_twin(add_child, "sap::add_stiffness(K.data + 48 * b, K.data + 48 * child);")
    columns = "first, last, Sw.data, Sv.data, forces.data + 5 * start, count"
    multiply_native = native_twin(multiply, f"sap::multiply_stiffness(K.data + 48 * b, {columns});")
    return SimpleNamespace(gather=gather, add_child=add_child, multiply=multiply)
