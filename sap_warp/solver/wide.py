"""Eight bodies or dofs of a world at a time: native snippets for one lane on the CPU.

Every function here says whether it did its work. It does not on CUDA and in blocks of several lanes. The caller then
takes its plain Warp code, which computes the same, and which tests compare these snippets with.

Vectors are compiler extensions of eight entries, whatever registers the machine has. Eight entries of an array of
three-vectors are three loads and six shuffles; records go through a transposition. Groups of eight overlap at the end
of a world instead of leaving a rest. Less than eight dofs are left to the caller: long vectors would lower the clock of
the core for little. Less than eight bodies are read past the last one, so arrays are made with `padded_zeros`.
"""

import functools
from typing import Any

import newton
import warp as wp

from ..kernels.types import Types
from .kinematics import AT_M, AT_PARENT, UNTURNED_F, UNTURNED_M

FLAGS = {"AT_M": AT_M, "AT_PARENT": AT_PARENT, "UNTURNED_F": UNTURNED_F, "UNTURNED_M": UNTURNED_M}

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
    if (dofs < 8) return 0;
    T* rows = (T*)d.composite.data;
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
        const int at = e + 8 > end ? end - 8 : e;
        const int* body = layout.dof_body.data + at;
        const int* newton = layout.dof_newton.data + at;
        const int* parameter = layout.dof_parameter.data + at;
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
        *(TU*)(d.impulse.data + at) = impulse;
    }
    return 1;
"""


# The bodies that a root carries, if all of them hang on scalar or fixed joints. Rotations and points go from parent to
# child, four numbers at a time; sines before that and motion columns after it take eight dofs at a time; velocities and
# accelerations go from parent to child again, six numbers at a time, in vectors of eight with zeros at the end.
_CARRIED = """
    const int most = 256;
    int first = root;
    while (first > start && links.data[first - 1].parent >= 0) {
        --first;
        const int kind = links.data[first].kind;
        if (kind == BALL_KIND || kind == FREE_KIND || kind == DISTANCE_KIND) return 0;
    }
    const int bodies = root - first;
    if (bodies == 0 || bodies >= most) return 0;
    const int dof = links.data[first].dof;
    const int dofs = links.data[root - 1].dof + links.data[root - 1].dof_count - dof;
    if (dofs < 8 || dofs > most) return 0;

    typedef double D __attribute__((vector_size(64)));
    typedef double DU __attribute__((vector_size(64), aligned(8), may_alias));
    typedef long long B __attribute__((vector_size(64)));
    typedef P P4 __attribute__((vector_size(4 * sizeof(P))));
    typedef P Q4 __attribute__((vector_size(4 * sizeof(P)), aligned(sizeof(P)), may_alias));
    struct Joint {
        P4 turn;  // rotation of the dof about its axis
        P4 frame;  // what turns the axis to the world
        P4 point;  // where the axis passes through, and 1 if the dof is linear
    };
    struct Pose { P4 r, p; };
    struct Motion { TV velocity, acceleration; };
    Joint joint[most];
    TV motion[most];  // velocity that each dof gives to its body
    Pose pose[most];  // of the bodies from the first one to the root
    Motion moving[most];
    auto quarters = [](const Joint* r, P4 Joint::*part, PV* to) INLINE {  // one part of eight joints by component
        PV s[4];
        UNROLL
        for (int k = 0; k < 4; ++k)
            s[k] = __builtin_shufflevector(r[k].*part, r[k + 4].*part, 0, 1, 2, 3, 4, 5, 6, 7);
        const PV a = __builtin_shufflevector(s[0], s[1], 0, 8, 2, 10, 4, 12, 6, 14);
        const PV b = __builtin_shufflevector(s[0], s[1], 1, 9, 3, 11, 5, 13, 7, 15);
        const PV c = __builtin_shufflevector(s[2], s[3], 0, 8, 2, 10, 4, 12, 6, 14);
        const PV e = __builtin_shufflevector(s[2], s[3], 1, 9, 3, 11, 5, 13, 7, 15);
        to[0] = __builtin_shufflevector(a, c, 0, 1, 8, 9, 4, 5, 12, 13);
        to[1] = __builtin_shufflevector(b, e, 0, 1, 8, 9, 4, 5, 12, 13);
        to[2] = __builtin_shufflevector(a, c, 2, 3, 10, 11, 6, 7, 14, 15);
        to[3] = __builtin_shufflevector(b, e, 2, 3, 10, 11, 6, 7, 14, 15);
    };
    for (int i = 0; i < dofs; i += 8) {
        const int at = i + 8 > dofs ? dofs - 8 : i;
        const int* coordinate = layout.dof_coord.data + dof + at;
        D x;
        UNROLL
        for (int l = 0; l < 8; ++l) x[l] = q.data[coordinate[l]];
        x *= 0.5;
        // multiples of pi/2 are taken away in three parts, the first two of them exactly
        const double shift = 6755399441055744.0;
        const D t = x * 0.63661977236758134308 + shift;
        const D n = t - shift;
        D y = x - n * 1.57079632673412561417e+00;
        y -= n * 6.07710050630396597660e-11;
        y -= n * 2.02226624879595063154e-21;
        // minimax polynomials on [-pi/4, pi/4]
        const D z = y * y;
        D s = z * 1.58962301576546568060e-10 - 2.50507477628578072866e-8;
        s = s * z + 2.75573136213857245213e-6;
        s = s * z - 1.98412698295895385996e-4;
        s = s * z + 8.33333333332211858878e-3;
        s = s * z - 1.66666666666666307295e-1;
        s = y + s * (z * y);
        D c = z * -1.13585365213876817300e-11 + 2.08757008419747316778e-9;
        c = c * z - 2.75573141792967388112e-7;
        c = c * z + 2.48015872888517045348e-5;
        c = c * z - 1.38888888888730564116e-3;
        c = c * z + 4.16666666666665929218e-2;
        const D half = z * 0.5;
        const D rest = 1.0 - half;
        c = rest + ((1.0 - rest) - half + (z * z) * c);
        const B quadrant = (B)t;
        const B odd = -(quadrant & 1);
        const B sine = odd ? (B)c : (B)s;
        const B cosine = odd ? (B)s : (B)c;
        s = (D)(sine ^ ((quadrant & 2) << 62));
        c = (D)(cosine ^ (((quadrant + 1) & 2) << 62));
        const B wild = ~(B)(__builtin_elementwise_abs(x) < 1e5);
        if (__builtin_reduce_or(wild)) {
            for (int l = 0; l < 8; ++l) {
                s[l] = sin(x[l]);
                c[l] = cos(x[l]);
            }
        }
        PV unit[3];
        const PU* a = (const PU*)(axis.data + dof + at);
        thirds(PV(a[0]), PV(a[1]), PV(a[2]), unit);
        const PV sp = __builtin_convertvector(s, PV);
        const PV cp = __builtin_convertvector(c, PV);
        const PV xs = unit[0] * sp, ys = unit[1] * sp, zs = unit[2] * sp;
        const PV xy0 = __builtin_shufflevector(xs, ys, 0, 8, 2, 10, 4, 12, 6, 14);
        const PV xy1 = __builtin_shufflevector(xs, ys, 1, 9, 3, 11, 5, 13, 7, 15);
        const PV zc0 = __builtin_shufflevector(zs, cp, 0, 8, 2, 10, 4, 12, 6, 14);
        const PV zc1 = __builtin_shufflevector(zs, cp, 1, 9, 3, 11, 5, 13, 7, 15);
        const PV turns[4] = {__builtin_shufflevector(xy0, zc0, 0, 1, 8, 9, 4, 5, 12, 13),
            __builtin_shufflevector(xy1, zc1, 0, 1, 8, 9, 4, 5, 12, 13),
            __builtin_shufflevector(xy0, zc0, 2, 3, 10, 11, 6, 7, 14, 15),
            __builtin_shufflevector(xy1, zc1, 2, 3, 10, 11, 6, 7, 14, 15)};
        UNROLL
        for (int k = 0; k < 4; ++k) {
            joint[at + k].turn = __builtin_shufflevector(turns[k], turns[k], 0, 1, 2, 3);
            joint[at + k + 4].turn = __builtin_shufflevector(turns[k], turns[k], 4, 5, 6, 7);
        }
    }

    auto product = [](P4 a, P4 b) INLINE {
        const P4 sign = {1, 1, 1, -1};
        P4 r = __builtin_shufflevector(a, a, 0, 1, 2, 0) * (sign * __builtin_shufflevector(b, b, 3, 3, 3, 0));
        P4 s = __builtin_shufflevector(a, a, 3, 3, 3, 3) * b;
        r += __builtin_shufflevector(a, a, 1, 2, 0, 1) * (sign * __builtin_shufflevector(b, b, 2, 0, 1, 1));
        s -= __builtin_shufflevector(a, a, 2, 0, 1, 2) * __builtin_shufflevector(b, b, 1, 2, 0, 2);
        return r + s;
    };
    auto rotate = [](P4 r, P4 v) INLINE {  // the fourth numbers are not used
        const P4 r1 = __builtin_shufflevector(r, r, 1, 2, 0, 3);
        P4 t = r * __builtin_shufflevector(v, v, 1, 2, 0, 3) - r1 * v;
        t = __builtin_shufflevector(t, t, 1, 2, 0, 3);
        t += t;
        const P4 u = r * __builtin_shufflevector(t, t, 1, 2, 0, 3) - r1 * t;
        return v + __builtin_shufflevector(r, r, 3, 3, 3, 3) * t + __builtin_shufflevector(u, u, 1, 2, 0, 3);
    };
    const auto& p_root = d.p.data[root];
    pose[bodies] = {*(const Q4*)(d.r.data + root), P4{p_root[0], p_root[1], p_root[2], 0}};
    for (int b = root - 1; b >= first; --b) {
        const auto& link = links.data[b];
        const P4 r_P = pose[link.parent - first].r;
        P4 p_M = pose[link.parent - first].p;
        P4 r = r_P;
        if (!(link.simple & AT_PARENT_FLAG)) p_M += rotate(r_P, *(const Q4*)&link.p_PF);
        if (!(link.simple & UNTURNED_F_FLAG)) r = product(r, *(const Q4*)&link.r_PF);
        int i = link.dof - dof;
        const int end = i + link.dof_count;
        if (link.linear) {
            const int linear = i + link.linear;
            P4 along = {};
            for (int k = i; k < linear; ++k)
                along += *(const Q4*)(axis.data + dof + k) * P(q.data[layout.dof_coord.data[dof + k]]);
            p_M += rotate(r, along);
            p_M[3] = 1;
            for (; i < linear; ++i) {
                joint[i].frame = r;
                joint[i].point = p_M;
            }
        }
        p_M[3] = 0;
        for (; i < end; ++i) {
            joint[i].frame = r;
            joint[i].point = p_M;
            r = product(r, joint[i].turn);
        }
        if (!(link.simple & UNTURNED_M_FLAG)) r = product(r, *(const Q4*)&link.r_MB);
        P4 norm = r * r;
        norm += __builtin_shufflevector(norm, norm, 1, 0, 3, 2);
        norm += __builtin_shufflevector(norm, norm, 2, 3, 0, 1);
        r *= P(1.5) - P(0.5) * norm;
        if (!(link.simple & AT_M_FLAG)) p_M -= rotate(r, *(const Q4*)&link.p_BM);
        pose[b - first] = {r, p_M};
        *(Q4*)(d.r.data + b) = r;
        __builtin_memcpy((void*)(d.p.data + b), &p_M, 3 * sizeof(P));
    }

    for (int i = 0; i < dofs; i += 8) {
        const int at = i + 8 > dofs ? dofs - 8 : i;
        PV o[4], unit[3], u[4];
        quarters(joint + at, &Joint::point, o);
        quarters(joint + at, &Joint::frame, u);
        const PU* a = (const PU*)(axis.data + dof + at);
        thirds(PV(a[0]), PV(a[1]), PV(a[2]), unit);
        PV t0 = u[1] * unit[2] - u[2] * unit[1];
        PV t1 = u[2] * unit[0] - u[0] * unit[2];
        PV t2 = u[0] * unit[1] - u[1] * unit[0];
        t0 += t0;
        t1 += t1;
        t2 += t2;
        const T3 s = {number(unit[0] + u[3] * t0 + (u[1] * t2 - u[2] * t1)),
            number(unit[1] + u[3] * t1 + (u[2] * t0 - u[0] * t2)),
            number(unit[2] + u[3] * t2 + (u[0] * t1 - u[1] * t0))};
        const T3 moment = T3{number(o[0]), number(o[1]), number(o[2])}.cross(s);
        const auto linear = number(o[3]) != TV{};
        const TV none = {};
        TV S[8] = {linear ? none : s.x, linear ? none : s.y, linear ? none : s.z,
            linear ? s.x : moment.x, linear ? s.y : moment.y, linear ? s.z : moment.z, none, none};
        auto store3 = [&](void* to, const TV* v) INLINE {
            TV a = __builtin_shufflevector(v[0], v[1], 0, 8, -1, 1, 9, -1, 2, 10);
            TV b = __builtin_shufflevector(v[0], v[1], -1, 3, 11, -1, 4, 12, -1, 5);
            TV c = __builtin_shufflevector(v[0], v[1], 13, -1, 6, 14, -1, 7, 15, -1);
            a = __builtin_shufflevector(a, v[2], 0, 1, 8, 3, 4, 9, 6, 7);
            b = __builtin_shufflevector(b, v[2], 10, 1, 2, 11, 4, 5, 12, 7);
            c = __builtin_shufflevector(c, v[2], 0, 13, 2, 3, 14, 5, 6, 15);
            TU* whole = (TU*)to;
            whole[0] = a;
            whole[1] = b;
            whole[2] = c;
        };
        store3(d.Sw.data + dof + at, S);
        store3(d.Sv.data + dof + at, S + 3);
        const TV rate = __builtin_convertvector(*(const DU*)(d.v0.data + dof + at), TV);
        UNROLL
        for (int k = 0; k < 6; ++k) S[k] *= rate;
        transpose(S);
        UNROLL
        for (int k = 0; k < 8; ++k) motion[at + k] = S[k];
    }

    auto six = [](const auto& w, const auto& v) INLINE { return TV{w[0], w[1], w[2], v[0], v[1], v[2], 0, 0}; };
    moving[bodies] = {six(d.Vw.data[root], d.Vv.data[root]), six(d.aw.data[root], d.av.data[root])};
    for (int k = bodies - 1; k >= 0; --k) {
        const auto& link = links.data[first + k];
        TV V = moving[link.parent - first].velocity;
        TV A = moving[link.parent - first].acceleration;
        TV turned = {}, moved = {};  // sums of cross products, components z, x, y
        int i = link.dof - dof;
        for (const int end = i + link.dof_count; i < end; ++i) {
            const TV m = motion[i];
            turned += __builtin_shufflevector(V, V, 0, 1, 2, 0, 1, 2, 6, 6)
                * __builtin_shufflevector(m, m, 1, 2, 0, 4, 5, 3, 6, 6);
            turned -= __builtin_shufflevector(V, V, 1, 2, 0, 1, 2, 0, 6, 6) * m;
            moved += __builtin_shufflevector(V, V, 6, 6, 6, 3, 4, 5, 6, 6)
                * __builtin_shufflevector(m, m, 6, 6, 6, 1, 2, 0, 6, 6);
            moved -= __builtin_shufflevector(V, V, 6, 6, 6, 4, 5, 3, 6, 6)
                * __builtin_shufflevector(m, m, 6, 6, 6, 0, 1, 2, 6, 6);
            V += m;
        }
        turned += moved;
        A += __builtin_shufflevector(turned, turned, 1, 2, 0, 4, 5, 3, 6, 6);
        moving[k] = {V, A};
        auto store_six = [](void* w, void* v, const TV& x) INLINE {
            const TV high = __builtin_shufflevector(x, x, 3, 4, 5, 6, -1, -1, -1, -1);
            __builtin_memcpy(w, &x, 3 * sizeof(T));
            __builtin_memcpy(v, &high, 3 * sizeof(T));
        };
        store_six(d.Vw.data + first + k, d.Vv.data + first + k, V);
        store_six(d.aw.data + first + k, d.av.data + first + k, A);
    }
    return bodies;
"""


def _one_lane(snippet: str, pose: Types, types: Types) -> str:
    """The snippet where a block is one lane of the CPU; elsewhere its work is left to the caller."""
    text = _VECTORS + snippet
    for word, meaning in {
        "INLINE": "__attribute__((always_inline))",
        "UNROLL": '_Pragma("clang loop unroll(full)")',
        "POSE": pose.c_name,
        "SCALAR": types.c_name,
        **{f"{name}_KIND": str(int(getattr(newton.JointType, name))) for name in ("BALL", "FREE", "DISTANCE")},
        **{f"{name}_FLAG": str(int(flag)) for name, flag in FLAGS.items()},
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


@functools.cache
def make_wide_placement(pose: Types, types: Types, Layout: Any, Link: Any, Data: Any, native: bool = True):
    """``carried(layout, links, axis, d, start, root, q) -> int``: place the bodies that a placed root carries.

    ``start`` is the world's first body. Says how many bodies were placed: those before the root, or none.
    ``native=False`` leaves all of them to the caller.
    """

    @wp.func_native(_one_lane(_CARRIED, pose, types) if native else "return 0;")
    def carried(
        layout: wp.ref[Layout],
        links: wp.array(dtype=Link),
        axis: wp.array(dtype=pose.vec3),
        d: wp.ref[Data],
        start: int,
        root: int,
        q: wp.array(dtype=wp.float64),
    ) -> int: ...

    return carried
