"""Eight bodies or dofs of a world at a time: native snippets for one lane on the CPU.

Every function here says whether it did its work. It does not on CUDA and in blocks of several lanes: there the caller
takes its plain Warp code, which computes the same, and which tests compare these snippets with.

Vectors are compiler extensions of eight entries, whatever registers the machine has. Eight entries of an array of
three-vectors are three loads and six shuffles; records go through a transposition. Groups of eight overlap at the end
of a world instead of leaving a rest. A world with less than eight bodies or dofs reads past its last one, so arrays
have `PADDING` entries more than they need, and takes the last index of a table again.
"""

import functools
from typing import Any

import warp as wp

from ..precision import Types

PADDING = 8
"""Entries after the last one of an array that may be read, and written in scratch."""

_VECTORS = """
    struct Wide { static __attribute__((always_inline, min_vector_width(512))) void allow() {} };
    Wide::allow();
    typedef POSE P;
    typedef SCALAR T;
    typedef P PV __attribute__((vector_size(8 * sizeof(P))));
    typedef T TV __attribute__((vector_size(8 * sizeof(T))));
    typedef P PU __attribute__((vector_size(8 * sizeof(P)), aligned(sizeof(P)), may_alias));
    typedef T TU __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T)), may_alias));
    struct T3 {
        TV x, y, z;
        INLINE T3 operator+(const T3& o) const { return {x + o.x, y + o.y, z + o.z}; }
        INLINE T3 operator-(const T3& o) const { return {x - o.x, y - o.y, z - o.z}; }
        INLINE T3 operator*(const TV& s) const { return {x * s, y * s, z * s}; }
        INLINE TV dot(const T3& o) const { return x * o.x + y * o.y + z * o.z; }
        INLINE T3 cross(const T3& o) const {
            return {y * o.z - z * o.y, z * o.x - x * o.z, x * o.y - y * o.x};
        }
    };
    auto transpose = [](auto* r) INLINE {
        decltype(r[0] + r[0]) s[8], t[8];
        UNROLL
        for (int i = 0; i < 4; ++i) {
            s[i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
            s[i + 4] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
        }
        UNROLL
        for (int i = 0; i < 4; ++i) {
            t[i] = __builtin_shufflevector(s[2 * i], s[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13);
            t[i + 4] = __builtin_shufflevector(s[2 * i], s[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
        }
        UNROLL
        for (int i = 0; i < 4; ++i) {
            r[i] = __builtin_shufflevector(t[2 * i], t[2 * i + 1], 0, 1, 2, 3, 8, 9, 10, 11);
            r[i + 4] = __builtin_shufflevector(t[2 * i], t[2 * i + 1], 4, 5, 6, 7, 12, 13, 14, 15);
        }
    };
    auto thirds = [](auto a, auto b, auto c, auto* to) INLINE {  // eight three-vectors by component
        to[0] = __builtin_shufflevector(__builtin_shufflevector(a, b, 0, 3, 6, 9, 12, 15, -1, -1), c,
            0, 1, 2, 3, 4, 5, 10, 13);
        to[1] = __builtin_shufflevector(__builtin_shufflevector(a, b, 1, 4, 7, 10, 13, -1, -1, -1), c,
            0, 1, 2, 3, 4, 8, 11, 14);
        to[2] = __builtin_shufflevector(__builtin_shufflevector(a, b, 2, 5, 8, 11, 14, -1, -1, -1), c,
            0, 1, 2, 3, 4, 9, 12, 15);
    };
    auto load3 = [&](const void* from) INLINE {
        const TU* a = (const TU*)from;
        TV c[3];
        thirds(TV(a[0]), TV(a[1]), TV(a[2]), c);
        return T3{c[0], c[1], c[2]};
    };
    auto number = [](const PV& x) INLINE { return __builtin_convertvector(x, TV); };
    auto load_pose3 = [&](const void* from) INLINE {
        const PU* a = (const PU*)from;
        PV c[3];
        thirds(PV(a[0]), PV(a[1]), PV(a[2]), c);
        return T3{number(c[0]), number(c[1]), number(c[2])};
    };
"""

# A row of `composite` is a body's mass, first moments, moments and products of inertia about o, and force: sixteen
# numbers that all add up from the leaves to the root.
_DYNAMICS = """
    const int bodies = last - first;
    const int dofs = end - start;
    T* rows = d.composite.data;
    for (int b = first; b < last; b += 8) {
        const int at = bodies >= 8 && b + 8 > last ? last - 8 : b;
        PV l0[8], l1[8];
        UNROLL
        for (int l = 0; l < 8; ++l) {
            const auto& link = links.data[at + l < last ? at + l : last - 1];
            l0[l] = *(const PU*)&link.com;  // com, mass and the inertia's first row follow one another
            l1[l] = *(const PU*)&link.inertia.data[1][1];
        }
        transpose(l0);
        transpose(l1);
        const PU* r = (const PU*)(d.r.data + at);
        const PV r01 = __builtin_shufflevector(r[0], r[1], 0, 4, 8, 12, 1, 5, 9, 13);
        const PV r23 = __builtin_shufflevector(r[2], r[3], 0, 4, 8, 12, 1, 5, 9, 13);
        const PV s01 = __builtin_shufflevector(r[0], r[1], 2, 6, 10, 14, 3, 7, 11, 15);
        const PV s23 = __builtin_shufflevector(r[2], r[3], 2, 6, 10, 14, 3, 7, 11, 15);
        const TV q0 = number(__builtin_shufflevector(r01, r23, 0, 1, 2, 3, 8, 9, 10, 11));
        const TV q1 = number(__builtin_shufflevector(r01, r23, 4, 5, 6, 7, 12, 13, 14, 15));
        const TV q2 = number(__builtin_shufflevector(s01, s23, 0, 1, 2, 3, 8, 9, 10, 11));
        const TV q3 = number(__builtin_shufflevector(s01, s23, 4, 5, 6, 7, 12, 13, 14, 15));
        const TV x = q0 + q0, y = q1 + q1, z = q2 + q2;
        const TV wx = q3 * x, wy = q3 * y, wz = q3 * z;
        const TV xx = q0 * x, xy = q0 * y, xz = q0 * z, yy = q1 * y, yz = q1 * z, zz = q2 * z;
        const T3 X = {T(1) - yy - zz, xy - wz, xz + wy};
        const T3 Y = {xy + wz, T(1) - xx - zz, yz - wx};
        const T3 Z = {xz - wy, yz + wx, T(1) - xx - yy};
        const T3 com = {number(l0[0]), number(l0[1]), number(l0[2])};
        const TV m = number(l0[3]);
        const T3 I0 = {number(l0[4]), number(l0[5]), number(l0[6])};
        const T3 I1 = {I0.y, number(l1[0]), number(l1[1])};
        const T3 I2 = {I0.z, I1.z, number(l1[4])};
        const T3 c = load_pose3(d.p.data + at) + T3{X.dot(com), Y.dot(com), Z.dot(com)};
        const T3 mc = c * m;
        const T3 XI = {X.dot(I0), X.dot(I1), X.dot(I2)};
        const T3 YI = {Y.dot(I0), Y.dot(I1), Y.dot(I2)};
        const T3 ZI = {Z.dot(I0), Z.dot(I1), Z.dot(I2)};
        const TV x2 = mc.x * c.x, y2 = mc.y * c.y, z2 = mc.z * c.z;
        const T3 moments = T3{XI.dot(X), YI.dot(Y), ZI.dot(Z)} + T3{y2 + z2, z2 + x2, x2 + y2};
        const T3 products = T3{YI.dot(Z), XI.dot(Z), XI.dot(Y)} - T3{mc.y * c.z, mc.z * c.x, mc.x * c.y};
        auto apply = [&](const T3& v) INLINE {
            return T3{moments.x * v.x + products.z * v.y + products.y * v.z,
                products.z * v.x + moments.y * v.y + products.x * v.z,
                products.y * v.x + products.x * v.y + moments.z * v.z};
        };
        const T3 Vw = load3(d.Vw.data + at), Vv = load3(d.Vv.data + at);
        const T3 aw = load3(d.aw.data + at);
        const T3 up = {TV{} + gravity[0], TV{} + gravity[1], TV{} + gravity[2]};
        const T3 av = load3(d.av.data + at) - up;
        const T3 hw = apply(Vw) + mc.cross(Vv);
        const T3 hv = Vv * m - mc.cross(Vw);
        const T3 fw = apply(aw) + mc.cross(av) + Vw.cross(hw) + Vv.cross(hv);
        const T3 fv = av * m - mc.cross(aw) + Vw.cross(hv);
        TV out0[8] = {m, mc.x, mc.y, mc.z, moments.x, moments.y, moments.z, products.x};
        TV out1[8] = {products.y, products.z, fw.x, fw.y, fw.z, fv.x, fv.y, fv.z};
        transpose(out0);
        transpose(out1);
        TU* row = (TU*)(rows + 16 * at);
        UNROLL
        for (int l = 0; l < 8; ++l) {
            row[2 * l] = out0[l];
            row[2 * l + 1] = out1[l];
        }
    }
    typedef long long B4 __attribute__((vector_size(32), aligned(8), may_alias));
    typedef long long B2 __attribute__((vector_size(16), aligned(8), may_alias));
    B4 some4 = {};
    B2 some2 = {};
    for (int b = first; b < last; ++b) {
        const auto* wrench = body_f.data + links.data[b].body;
        some4 |= *(const B4*)wrench;
        some2 |= ((const B2*)wrench)[2];
    }
    if (some4[0] | some4[1] | some4[2] | some4[3] | some2[0] | some2[1]) {
        for (int b = first; b < last; ++b) {
            const double* w = (const double*)(body_f.data + links.data[b].body);
            const P* p = (const P*)(d.p.data + b);
            T* row = rows + 16 * b;
            UNROLL
            for (int k = 0; k < 3; ++k) {
                const int i = (k + 1) % 3, j = (k + 2) % 3;
                row[10 + k] += T(w[k]) + T(p[i]) * T(w[3 + j]) - T(p[j]) * T(w[3 + i]);
                row[13 + k] += T(w[3 + k]);
            }
        }
    }
    for (int b = first; b < last; ++b) {  // children before parents
        const int parent = layout.body_parent.data[b];
        if (parent < 0) continue;
        TU* to = (TU*)(rows + 16 * parent);
        const TU* from = (const TU*)(rows + 16 * b);
        to[0] += from[0];
        to[1] += from[1];
    }
    for (int e = start; e < end; e += 8) {
        const int at = dofs >= 8 && e + 8 > end ? end - 8 : e;
        const int* body = layout.dof_body.data + at;
        const int* newton = layout.dof_newton.data + at;
        const int* parameter = layout.dof_parameter.data + at;
        int table[3][8];
        if (dofs < 8) {
            for (int l = 0; l < 8; ++l) {
                const int i = l < dofs ? l : dofs - 1;
                table[0][l] = body[i];
                table[1][l] = newton[i];
                table[2][l] = parameter[i];
            }
            body = table[0];
            newton = table[1];
            parameter = table[2];
        }
        TV in0[8], in1[8], armature, damping, applied;
        UNROLL
        for (int l = 0; l < 8; ++l) {
            const TU* row = (const TU*)(rows + 16 * body[l]);
            in0[l] = row[0];
            in1[l] = row[1];
            armature[l] = T(armature_in.data[parameter[l]]);
            damping[l] = T(damping_in.data[parameter[l]]);
            applied[l] = T(force_in.data[newton[l]]);
        }
        transpose(in0);
        transpose(in1);
        const T3 mc = {in0[1], in0[2], in0[3]};
        const T3 sw = load3(d.Sw.data + at), sv = load3(d.Sv.data + at);
        const T3 Fw = T3{in0[4] * sw.x + in1[1] * sw.y + in1[0] * sw.z,
            in1[1] * sw.x + in0[5] * sw.y + in0[7] * sw.z,
            in1[0] * sw.x + in0[7] * sw.y + in0[6] * sw.z} + mc.cross(sv);
        const T3 Fv = sv * in0[0] - mc.cross(sw);
        // six runs, in this order: what a short one writes past its end is written again by the next
        T* to = d.column_force.data + 5 * start + at;
        *(TU*)to = Fw.x;
        *(TU*)(to + dofs) = Fw.y;
        *(TU*)(to + 2 * dofs) = Fw.z;
        *(TU*)(to + 3 * dofs) = Fv.x;
        *(TU*)(to + 4 * dofs) = Fv.y;
        *(TU*)(to + 5 * dofs) = Fv.z;
        typedef double DU __attribute__((vector_size(64), aligned(8), may_alias));
        const TV v0 = __builtin_convertvector(*(const DU*)(d.v0.data + at), TV);
        const TV bias = sw.dot(T3{in1[2], in1[3], in1[4]}) + sv.dot(T3{in1[5], in1[6], in1[7]});
        const TV impulse = h * (applied - bias - damping * v0);
        *(TU*)(d.diagonal.data + at) = armature + h * damping;
        if (dofs >= 8) *(TU*)(d.impulse.data + at) = impulse;
        else for (int l = 0; l < dofs; ++l) d.impulse.data[at + l] = impulse[l];
    }
    return 1;
"""


def _one_lane(snippet: str, pose: Types, types: Types) -> str:
    """The snippet where a block is one lane of the CPU; elsewhere its work is left to the caller."""
    text = _VECTORS + snippet
    for word, meaning in {
        "INLINE": "__attribute__((always_inline))",
        "UNROLL": '_Pragma("clang loop unroll(full)")',
        "POSE": pose.c_name,
        "SCALAR": types.c_name,
    }.items():
        text = text.replace(word, meaning)
    return f"#if WP_TILE_BLOCK_DIM == 1 && !defined(__CUDA_ARCH__)\n{text}#else\n    return 0;\n#endif\n"


@functools.cache
def make_wide_dynamics(pose: Types, types: Types, Layout: Any, Link: Any, Data: Any, native: bool = True):
    """``dynamics(...) -> int``: composite inertias, column forces, diagonal and impulse of one world's dofs.

    ``first`` to ``last`` are the world's bodies, ``start`` to ``end`` its dofs.
    ``native=False`` leaves all of it to the caller.
    """

    @wp.func_native(_one_lane(_DYNAMICS, pose, types) if native else "return 0;")
    def dynamics(
        layout: wp.ref[Layout],
        links: wp.array(dtype=Link),
        d: wp.ref[Data],
        first: int,
        last: int,
        start: int,
        end: int,
        gravity: types.vec3,
        armature_in: wp.array(dtype=wp.float32),
        damping_in: wp.array(dtype=wp.float32),
        force_in: wp.array(dtype=wp.float64),
        body_f: wp.array(dtype=wp.spatial_vectord),
        h: types.scalar,
    ) -> int: ...

    return dynamics


def padded_zeros(count: int, dtype: Any, device: Any) -> wp.array:
    """An array with room for `PADDING` entries after its end."""
    return wp.zeros(count + PADDING, dtype=dtype, device=device)[:count]
