// Contact stiffness of a body: a symmetric 6x6 matrix in six columns of eight numbers, the last two of them zero.
// A column is one vector: adding a direction, a child's matrix, or multiplying a motion column are six instructions each.
#pragma once

// Hides from the compiler what is in a result that is taken apart; it would compute each of the parts by itself.
#define SAP_KEEP(x) asm("" : "+m"(x))

namespace sap {

// K = sum of X^T G X over the rows of a body, X = (-[r]x, 1). A stiffness s along u adds s w w^T with w = (r x u, u).
// T is the Hessian's precision, vectors and projections have that of the solve.
template <class T, class Row, class Vec3>
SAP_CALL void gather_stiffness(T* K, const int* body_row, int count, const Row* projection, const Vec3* normal,
    const Vec3* r_a, const Vec3* r_b, int sliding) {
    typedef Vec<T> V;
    V k[6];
    SAP_UNROLL
    for (int c = 0; c < 6; ++c) k[c] = V{};
    for (int i = 0; i < count; ++i) {
        const int row = body_row[i] >> 1;
        const Row& r = projection[row];
        if (r.mode == 0) continue;
        const Vec3& arm = body_row[i] & 1 ? r_b[row] : r_a[row];
        const Vec3& n = normal[row];
        const T a[3] = {T(arm[0]), T(arm[1]), T(arm[2])};
        auto add = [&](T x, T y, T z, T s) SAP_INLINE {
            const V w = V{a[1] * z - a[2] * y, a[2] * x - a[0] * z, a[0] * y - a[1] * x, x, y, z, 0, 0};
            const V ws = w * s;
            SAP_UNROLL
            for (int c = 0; c < 6; ++c) k[c] = k[c] + w * ws[c];
        };
        const T across = T(r.across);
        add(1, 0, 0, across);
        add(0, 1, 0, across);
        add(0, 0, 1, across);
        add(T(n[0]), T(n[1]), T(n[2]), T(r.along_n));
        if (r.mode == sliding) {
            add(T(r.t[0]), T(r.t[1]), T(r.t[2]), -across);
            add(T(r.s[0]), T(r.s[1]), T(r.s[2]), T(r.along_s));
        }
    }
    SAP_UNROLL
    for (int c = 0; c < 6; ++c) store(K + 8 * c, k[c]);
}

// K += child
template <class T> inline SAP_INLINE void add_stiffness(T* K, const T* child) {
    SAP_UNROLL
    for (int c = 0; c < 6; ++c) store(K + 8 * c, load(K + 8 * c) + load(child + 8 * c));
}

// Forces K S of the motion columns first .. last - 1, in six runs of `count` numbers.
template <class T, class Column>
SAP_CALL void multiply_stiffness(
    const T* K, int first, int last, const Column* Sw, const Column* Sv, T* forces, int count) {
    typedef Vec<T> V;
    V k[6];
    SAP_UNROLL
    for (int c = 0; c < 6; ++c) k[c] = load(K + 8 * c);
    for (int e = first; e < last; ++e) {
        const Column& w = Sw[e];
        const Column& u = Sv[e];
        const V f = (k[0] * T(w[0]) + k[1] * T(w[1]) + k[2] * T(w[2]))
            + (k[3] * T(u[0]) + k[4] * T(u[1]) + k[5] * T(u[2]));
        T part[8];
        store(part, f);
        SAP_KEEP(part);
        SAP_UNROLL
        for (int c = 0; c < 6; ++c) forces[e + c * count] = part[c];
    }
}

}  // namespace sap

#undef SAP_KEEP
