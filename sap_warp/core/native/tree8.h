// Forward kinematics and dynamics of a world, eight bodies or dofs at a time, one lane.
//
// Eight entries of an array of three-vectors are three loads and six shuffles; records go through a transposition. Groups
// of eight overlap at the end of a world instead of leaving a rest. Less than eight dofs are left to the plain code: long
// vectors would lower the clock of the core for little. Less than eight bodies are read past the last one, so arrays have
// room after their end (`core/kernels/structs.py`, PADDING).
//
// P is the precision of poses, T that of motions.
#pragma once

namespace sap {

template <class T> struct Three {
    Vec<T> x, y, z;
    SAP_INLINE Three operator+(const Three& o) const { return {x + o.x, y + o.y, z + o.z}; }
    SAP_INLINE Three operator-(const Three& o) const { return {x - o.x, y - o.y, z - o.z}; }
    SAP_INLINE Three operator*(const Vec<T>& s) const { return {x * s, y * s, z * s}; }
    SAP_INLINE Vec<T> dot(const Three& o) const { return x * o.x + y * o.y + z * o.z; }
    SAP_INLINE Three cross(const Three& o) const {
        return {y * o.z - z * o.y, z * o.x - x * o.z, x * o.y - y * o.x};
    }
};

template <class T, class P> inline SAP_INLINE Vec<T> to(Vec<P> x) { return __builtin_convertvector(x, Vec<T>); }

// Eight three-vectors of P that lie one after the other, as T.
template <class T, class P, class Vec3> inline SAP_INLINE Three<T> load3(const Vec3* from) {
    static_assert(sizeof(Vec3) == 3 * sizeof(P), "three-vectors without gaps");
    const Mem<P>* a = (const Mem<P>*)from;
    Vec<P> c[3];
    thirds(Vec<P>(a[0]), Vec<P>(a[1]), Vec<P>(a[2]), c);
    return {to<T, P>(c[0]), to<T, P>(c[1]), to<T, P>(c[2])};
}

template <class Array> struct Data_of;
template <template <class> class Array, class T> struct Data_of<Array<T>> { typedef T type; };

// Composite inertias, column forces, diagonal and impulse of a world's dofs.
// Returns 0 if it left the work to the plain code.
//
// A row of `composite` is a body's mass, first moments, moments and products of inertia about o, and force: sixteen
// numbers that all add up from the leaves to the root.
template <class P, class T, class Layout, class Links, class Data, class Inputs, class Vec3>
inline __attribute__((always_inline, SAP_WIDE)) int dynamics(const Layout& layout, const Links& links, const Data& d, const Inputs& inputs, int world,
    const Vec3& gravity, T h) {
    typedef Vec<P> PV;
    typedef Vec<T> TV;
    typedef Mem<P> PU;
    typedef Mem<T> TU;
    typedef Three<T> T3;
    typedef typename Data_of<Links>::type Link;
    static_assert(__builtin_offsetof(Link, mass) == __builtin_offsetof(Link, com) + 3 * sizeof(P)
            && __builtin_offsetof(Link, inertia) == __builtin_offsetof(Link, com) + 4 * sizeof(P)
            && sizeof(Link::inertia) == 9 * sizeof(P) && sizeof(Link) >= __builtin_offsetof(Link, inertia) + 12 * sizeof(P),
        "com, mass and inertia follow one another: two pieces of eight numbers hold what is needed of them");
    static_assert(sizeof(*d.composite.data) == 16 * sizeof(T), "rows of sixteen numbers");
    static_assert(sizeof(*d.r.data) == 4 * sizeof(P), "rotations of four numbers");
    static_assert(sizeof(*inputs.body_f.data) == 6 * sizeof(double), "wrenches of six numbers");
    const int first = layout.world_body.data[world], last = layout.world_body.data[world + 1];
    const int start = layout.world_dof.data[world], end = layout.world_dof.data[world + 1];
    const int bodies = last - first;
    const int dofs = end - start;
    if (dofs < 8) return 0;
    T* rows = (T*)d.composite.data;
    for (int b = first; b < last; b += 8) {
        const int at = bodies >= 8 && b + 8 > last ? last - 8 : b;
        PV l0[8], l1[8];
        SAP_UNROLL
        for (int l = 0; l < 8; ++l) {
            const Link& link = links.data[at + l < last ? at + l : last - 1];
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
        const TV q0 = to<T, P>(__builtin_shufflevector(r01, r23, 0, 1, 2, 3, 8, 9, 10, 11));
        const TV q1 = to<T, P>(__builtin_shufflevector(r01, r23, 4, 5, 6, 7, 12, 13, 14, 15));
        const TV q2 = to<T, P>(__builtin_shufflevector(s01, s23, 0, 1, 2, 3, 8, 9, 10, 11));
        const TV q3 = to<T, P>(__builtin_shufflevector(s01, s23, 4, 5, 6, 7, 12, 13, 14, 15));
        const TV x = q0 + q0, y = q1 + q1, z = q2 + q2;
        const TV wx = q3 * x, wy = q3 * y, wz = q3 * z;
        const TV xx = q0 * x, xy = q0 * y, xz = q0 * z, yy = q1 * y, yz = q1 * z, zz = q2 * z;
        const T3 X = {T(1) - yy - zz, xy - wz, xz + wy};
        const T3 Y = {xy + wz, T(1) - xx - zz, yz - wx};
        const T3 Z = {xz - wy, yz + wx, T(1) - xx - yy};
        const T3 com = {to<T, P>(l0[0]), to<T, P>(l0[1]), to<T, P>(l0[2])};
        const TV m = to<T, P>(l0[3]);
        const T3 I0 = {to<T, P>(l0[4]), to<T, P>(l0[5]), to<T, P>(l0[6])};
        const T3 I1 = {I0.y, to<T, P>(l1[0]), to<T, P>(l1[1])};
        const T3 I2 = {I0.z, I1.z, to<T, P>(l1[4])};
        const T3 c = load3<T, P>(d.p.data + at) + T3{X.dot(com), Y.dot(com), Z.dot(com)};
        const T3 mc = c * m;
        const T3 XI = {X.dot(I0), X.dot(I1), X.dot(I2)};
        const T3 YI = {Y.dot(I0), Y.dot(I1), Y.dot(I2)};
        const T3 ZI = {Z.dot(I0), Z.dot(I1), Z.dot(I2)};
        const TV x2 = mc.x * c.x, y2 = mc.y * c.y, z2 = mc.z * c.z;
        const T3 moments = T3{XI.dot(X), YI.dot(Y), ZI.dot(Z)} + T3{y2 + z2, z2 + x2, x2 + y2};
        const T3 products = T3{YI.dot(Z), XI.dot(Z), XI.dot(Y)} - T3{mc.y * c.z, mc.z * c.x, mc.x * c.y};
        auto apply = [&](const T3& v) SAP_INLINE {
            return T3{moments.x * v.x + products.z * v.y + products.y * v.z,
                products.z * v.x + moments.y * v.y + products.x * v.z,
                products.y * v.x + products.x * v.y + moments.z * v.z};
        };
        const T3 Vw = load3<T, T>(d.Vw.data + at), Vv = load3<T, T>(d.Vv.data + at);
        const T3 aw = load3<T, T>(d.aw.data + at);
        const T3 up = {TV{} + gravity[0], TV{} + gravity[1], TV{} + gravity[2]};
        const T3 av = load3<T, T>(d.av.data + at) - up;
        const T3 hw = apply(Vw) + mc.cross(Vv);
        const T3 hv = Vv * m - mc.cross(Vw);
        const T3 fw = apply(aw) + mc.cross(av) + Vw.cross(hw) + Vv.cross(hv);
        const T3 fv = av * m - mc.cross(aw) + Vw.cross(hv);
        TV out0[8] = {m, mc.x, mc.y, mc.z, moments.x, moments.y, moments.z, products.x};
        TV out1[8] = {products.y, products.z, fw.x, fw.y, fw.z, fv.x, fv.y, fv.z};
        transpose(out0);
        transpose(out1);
        TU* row = (TU*)(rows + 16 * at);
        SAP_UNROLL
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
        const auto* wrench = inputs.body_f.data + links.data[b].body;
        some4 |= *(const B4*)wrench;
        some2 |= ((const B2*)wrench)[2];
    }
    if (some4[0] | some4[1] | some4[2] | some4[3] | some2[0] | some2[1]) {
        for (int b = first; b < last; ++b) {
            const double* w = (const double*)(inputs.body_f.data + links.data[b].body);
            const P* p = (const P*)(d.p.data + b);
            T* row = rows + 16 * b;
            SAP_UNROLL
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
        TU* sum = (TU*)(rows + 16 * parent);
        const TU* from = (const TU*)(rows + 16 * b);
        sum[0] += from[0];
        sum[1] += from[1];
    }
    for (int e = start; e < end; e += 8) {
        const int at = e + 8 > end ? end - 8 : e;
        const int* body = layout.dof_body.data + at;
        const int* newton = layout.dof_newton.data + at;
        const int* parameter = layout.dof_parameter.data + at;
        TV in0[8], in1[8], armature, damping, applied;
        SAP_UNROLL
        for (int l = 0; l < 8; ++l) {
            const TU* row = (const TU*)(rows + 16 * body[l]);
            in0[l] = row[0];
            in1[l] = row[1];
            armature[l] = T(inputs.armature.data[parameter[l]]);
            damping[l] = T(inputs.damping.data[parameter[l]]);
            applied[l] = T(inputs.joint_f.data[newton[l]]);
        }
        transpose(in0);
        transpose(in1);
        const T3 mc = {in0[1], in0[2], in0[3]};
        const T3 sw = load3<T, T>(d.Sw.data + at), sv = load3<T, T>(d.Sv.data + at);
        const T3 Fw = T3{in0[4] * sw.x + in1[1] * sw.y + in1[0] * sw.z,
            in1[1] * sw.x + in0[5] * sw.y + in0[7] * sw.z,
            in1[0] * sw.x + in0[7] * sw.y + in0[6] * sw.z} + mc.cross(sv);
        const T3 Fv = sv * in0[0] - mc.cross(sw);
        T* run = d.column_force.data + 5 * start + at;
        *(TU*)run = Fw.x;
        *(TU*)(run + dofs) = Fw.y;
        *(TU*)(run + 2 * dofs) = Fw.z;
        *(TU*)(run + 3 * dofs) = Fv.x;
        *(TU*)(run + 4 * dofs) = Fv.y;
        *(TU*)(run + 5 * dofs) = Fv.z;
        typedef double DU __attribute__((vector_size(64), aligned(8), may_alias));
        const TV v0 = __builtin_convertvector(*(const DU*)(d.v0.data + at), TV);
        const TV bias = sw.dot(T3{in1[2], in1[3], in1[4]}) + sv.dot(T3{in1[5], in1[6], in1[7]});
        const TV impulse = h * (applied - bias - damping * v0);
        *(TU*)(d.diagonal.data + at) = armature + h * damping;
        *(TU*)(d.impulse.data + at) = impulse;
    }
    return 1;
}

// Sine and cosine of eight angles x [rad].
//
// Reduction and polynomials are those of Sun's fdlibm:
// multiples of pi/2 are taken away in three parts of pi/2, the first two of 33 bits each, so that their products with n
// are exact; then minimax polynomials on [-pi/4, pi/4] with an error below 2^-57. Angles of 1e5 and more go to libm.
inline SAP_INLINE void sine_cosine(Vec<double> x, Vec<double>& sine, Vec<double>& cosine) {
    typedef Vec<double> D;
    typedef Vec<long long> B;
    const double shift = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to a whole number
    const D t = x * 0.63661977236758134308 + shift;  // 2/pi
    const D n = t - shift;
    D y = x - n * 1.57079632673412561417e+00;
    y -= n * 6.07710050630396597660e-11;
    y -= n * 2.02226624879595063154e-21;
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
    const B first = odd ? (B)c : (B)s;
    const B second = odd ? (B)s : (B)c;
    sine = (D)(first ^ ((quadrant & 2) << 62));
    cosine = (D)(second ^ (((quadrant + 1) & 2) << 62));
    const B wild = ~(B)(__builtin_elementwise_abs(x) < 1e5);
    if (__builtin_reduce_or(wild)) {
        for (int l = 0; l < 8; ++l) {
            sine[l] = __builtin_sin(x[l]);
            cosine[l] = __builtin_cos(x[l]);
        }
    }
}

// Four numbers: a quaternion, or a point with a number behind it.
template <class P> struct Four {
    typedef P Value __attribute__((vector_size(4 * sizeof(P))));
    typedef P Memory __attribute__((vector_size(4 * sizeof(P)), aligned(sizeof(P)), may_alias));
};

template <class P4> inline SAP_INLINE P4 quaternion_product(P4 a, P4 b) {
    const P4 sign = {1, 1, 1, -1};
    P4 r = __builtin_shufflevector(a, a, 0, 1, 2, 0) * (sign * __builtin_shufflevector(b, b, 3, 3, 3, 0));
    P4 s = __builtin_shufflevector(a, a, 3, 3, 3, 3) * b;
    r += __builtin_shufflevector(a, a, 1, 2, 0, 1) * (sign * __builtin_shufflevector(b, b, 2, 0, 1, 1));
    s -= __builtin_shufflevector(a, a, 2, 0, 1, 2) * __builtin_shufflevector(b, b, 1, 2, 0, 2);
    return r + s;
}

template <class P4> inline SAP_INLINE P4 rotate(P4 r, P4 v) {  // the fourth number of v does not count
    const P4 r1 = __builtin_shufflevector(r, r, 1, 2, 0, 3);
    P4 t = r * __builtin_shufflevector(v, v, 1, 2, 0, 3) - r1 * v;
    t = __builtin_shufflevector(t, t, 1, 2, 0, 3);
    t += t;
    const P4 u = r * __builtin_shufflevector(t, t, 1, 2, 0, 3) - r1 * t;
    return v + __builtin_shufflevector(r, r, 3, 3, 3, 3) * t + __builtin_shufflevector(u, u, 1, 2, 0, 3);
}

// What makes a link simple, as `links.py` packs it.
enum Simple { unturned_f = 1, at_parent = 2, unturned_m = 4, at_m = 8, scalar_joint = 16 };

// Place the bodies below a placed root, if all of them hang on scalar or fixed joints; returns how many: those
// before the root, or none. `start` is the world's first body.
//
// Rotations and points go from parent to child, four numbers at a time; sines before that and motion columns after it
// take eight dofs at a time; velocities and accelerations go from parent to child again, six numbers at a time, in
// vectors of eight with zeros at the end.
template <class P, class T, class Layout, class Links, class Axes, class Data>
inline __attribute__((always_inline, SAP_WIDE)) int place_descendants(const Layout& layout, const Links& links, const Axes& axis, const Data& d, int start, int root,
    const double* q) {
    typedef Vec<P> PV;
    typedef Vec<T> TV;
    typedef Mem<P> PU;
    typedef Mem<T> TU;
    typedef Three<T> T3;
    typedef typename Four<P>::Value P4;
    typedef typename Four<P>::Memory Q4;
    static_assert(sizeof(*d.p.data) == 3 * sizeof(P) && sizeof(*d.r.data) == 4 * sizeof(P), "poses without gaps");
    static_assert(sizeof(*axis.data) == 3 * sizeof(P) && sizeof(*d.Sw.data) == 3 * sizeof(T), "vectors without gaps");
    constexpr int most = 256;  // bodies and dofs that the arrays below hold
    int first = root;
    while (first > start && links.data[first - 1].parent >= 0) {
        --first;
        if (!(links.data[first].simple & scalar_joint)) return 0;
    }
    const int bodies = root - first;
    if (bodies == 0 || bodies >= most) return 0;
    const int dof = links.data[first].dof;
    const int dofs = links.data[root - 1].dof + links.data[root - 1].dof_count - dof;
    if (dofs < 8 || dofs > most) return 0;

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

    for (int i = 0; i < dofs; i += 8) {
        const int at = i + 8 > dofs ? dofs - 8 : i;
        const int* coordinate = layout.dof_coord.data + dof + at;
        Vec<double> x, s, c;
        SAP_UNROLL
        for (int l = 0; l < 8; ++l) x[l] = q[coordinate[l]];
        sine_cosine(x * 0.5, s, c);
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
        SAP_UNROLL
        for (int k = 0; k < 4; ++k) {
            joint[at + k].turn = __builtin_shufflevector(turns[k], turns[k], 0, 1, 2, 3);
            joint[at + k + 4].turn = __builtin_shufflevector(turns[k], turns[k], 4, 5, 6, 7);
        }
    }

    const auto& p_root = d.p.data[root];
    pose[bodies] = {*(const Q4*)(d.r.data + root), P4{p_root[0], p_root[1], p_root[2], 0}};
    for (int b = root - 1; b >= first; --b) {
        const auto& link = links.data[b];
        const P4 r_P = pose[link.parent - first].r;
        P4 p_M = pose[link.parent - first].p;
        P4 r = r_P;
        if (!(link.simple & at_parent)) p_M += rotate(r_P, P4(*(const Q4*)&link.p_PF));
        if (!(link.simple & unturned_f)) r = quaternion_product(r, P4(*(const Q4*)&link.r_PF));
        int i = link.dof - dof;
        const int end = i + link.dof_count;
        if (link.linear) {
            const int linear = i + link.linear;
            P4 along = {};
            for (int k = i; k < linear; ++k)
                along += *(const Q4*)(axis.data + dof + k) * P(q[layout.dof_coord.data[dof + k]]);
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
            r = quaternion_product(r, joint[i].turn);
        }
        if (!(link.simple & unturned_m)) r = quaternion_product(r, P4(*(const Q4*)&link.r_MB));
        P4 norm = r * r;
        norm += __builtin_shufflevector(norm, norm, 1, 0, 3, 2);
        norm += __builtin_shufflevector(norm, norm, 2, 3, 0, 1);
        r *= P(1.5) - P(0.5) * norm;
        if (!(link.simple & at_m)) p_M -= rotate(r, P4(*(const Q4*)&link.p_BM));
        pose[b - first] = {r, p_M};
        *(Q4*)(d.r.data + b) = r;
        __builtin_memcpy((void*)(d.p.data + b), &p_M, 3 * sizeof(P));
    }

    auto quarters = [](const Joint* r, P4 Joint::*part, PV* to) SAP_INLINE {  // one part of eight joints by component
        PV s[4];
        SAP_UNROLL
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
        const T3 s = {to<T, P>(unit[0] + u[3] * t0 + (u[1] * t2 - u[2] * t1)),
            to<T, P>(unit[1] + u[3] * t1 + (u[2] * t0 - u[0] * t2)),
            to<T, P>(unit[2] + u[3] * t2 + (u[0] * t1 - u[1] * t0))};
        const T3 moment = T3{to<T, P>(o[0]), to<T, P>(o[1]), to<T, P>(o[2])}.cross(s);
        const auto linear = to<T, P>(o[3]) != TV{};
        const TV none = {};
        TV S[8] = {linear ? none : s.x, linear ? none : s.y, linear ? none : s.z,
            linear ? s.x : moment.x, linear ? s.y : moment.y, linear ? s.z : moment.z, none, none};
        store3((T*)(d.Sw.data + dof + at), S[0], S[1], S[2]);
        store3((T*)(d.Sv.data + dof + at), S[3], S[4], S[5]);
        const TV rate = __builtin_convertvector(load((const double*)d.v0.data + dof + at), TV);
        SAP_UNROLL
        for (int k = 0; k < 6; ++k) S[k] *= rate;
        transpose(S);
        SAP_UNROLL
        for (int k = 0; k < 8; ++k) motion[at + k] = S[k];
    }

    auto six = [](const auto& w, const auto& v) SAP_INLINE { return TV{w[0], w[1], w[2], v[0], v[1], v[2], 0, 0}; };
    auto store_six = [](void* w, void* v, const TV& x) SAP_INLINE {
        const TV high = __builtin_shufflevector(x, x, 3, 4, 5, 6, -1, -1, -1, -1);
        __builtin_memcpy(w, &x, 3 * sizeof(T));
        __builtin_memcpy(v, &high, 3 * sizeof(T));
    };
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
        store_six(d.Vw.data + first + k, d.Vv.data + first + k, V);
        store_six(d.aw.data + first + k, d.av.data + first + k, A);
    }
    return bodies;
}

}  // namespace sap
