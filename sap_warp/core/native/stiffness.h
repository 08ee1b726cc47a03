// Contact stiffness of a body: a symmetric 6x6 matrix in six columns of eight numbers, the last two of them zero.
// A column is one vector: adding a direction, a child's matrix, or multiplying a motion column are six instructions each.
#pragma once

// Hides from the compiler what is in a result that is taken apart; it would compute each of the parts by itself.
#define SAP_KEEP(x) asm("" : "+m"(x))

namespace sap {

// (r x u, u) of an arm r
template <class T, class Vec3> inline SAP_INLINE Vec<T> wrench(const Vec3& r, T x, T y, T z) {
    const T a = T(r[0]), b = T(r[1]), c = T(r[2]);
    return Vec<T>{b * z - c * y, c * x - a * z, a * y - b * x, x, y, z, 0, 0};
}

// What stiffness that is the same in all directions adds: sums over rows of s r_b r_a^T, s r_a, s r_b and s, with the
// arms r_a and r_b. A fourth of the work of three directions.
template <class T> struct Isotropic {
    typedef Vec<T> V;
    V sums[4];

    inline SAP_INLINE Isotropic() : sums{} {}

    template <class Vec3> inline SAP_INLINE void add(const Vec3& a, const Vec3& b, T s) {
        const V arm = {T(b[0]), T(b[1]), T(b[2]), 1, 0, 0, 0, 0};
        const V scaled = arm * s;
        SAP_UNROLL
        for (int c = 0; c < 3; ++c) sums[c] += scaled * T(a[c]);
        sums[3] += scaled;
    }

    // k += sum of s X_a^T X_b, X = (-[r]x, 1): blocks (a.b) 1 - b a^T, [a]x, -[b]x and 1. Entries are put in their
    // places by permutations; a sign of zero is that of what only fills one.
    inline SAP_INLINE void add_to(V* k) const {
        const V b = sums[3];
        const V left = __builtin_shufflevector(sums[0], sums[1], 3, 11, -1, -1, -1, -1, -1, -1);
        const V right = __builtin_shufflevector(sums[2], b, 3, 11, -1, -1, -1, -1, -1, -1);
        const V a = __builtin_shufflevector(left, right, 0, 1, 8, 9, 0, 1, 8, 9);
        const T trace = sums[0][0] + sums[1][1] + sums[2][2];
        k[0] += V{-1, -1, -1, 0, -1, 1, 0, 0} * __builtin_shufflevector(sums[0], b, 0, 1, 2, 4, 10, 9, 5, 6)
            + V{1, 0, 0, 0, 0, 0, 0, 0} * trace;
        k[1] += V{-1, -1, -1, 1, 0, -1, 0, 0} * __builtin_shufflevector(sums[1], b, 0, 1, 2, 10, 4, 8, 5, 6)
            + V{0, 1, 0, 0, 0, 0, 0, 0} * trace;
        k[2] += V{-1, -1, -1, -1, 1, 0, 0, 0} * __builtin_shufflevector(sums[2], b, 0, 1, 2, 9, 8, 4, 5, 6)
            + V{0, 0, 1, 0, 0, 0, 0, 0} * trace;
        k[3] += V{0, 1, -1, 1, 0, 0, 0, 0} * __builtin_shufflevector(a, a, 0, 2, 1, 3, 0, 0, 0, 0);
        k[4] += V{-1, 0, 1, 0, 1, 0, 0, 0} * __builtin_shufflevector(a, a, 2, 0, 0, 0, 3, 0, 0, 0);
        k[5] += V{1, -1, 0, 0, 0, 1, 0, 0} * __builtin_shufflevector(a, a, 1, 0, 0, 0, 0, 3, 0, 0);
    }
};

// Calls add(x, y, z, s) for each direction (x, y, z) in which a row has the stiffness s beside the one that it has in
// all directions, `across`.
template <class T, class Row, class Vec3, class Add>
inline SAP_INLINE void directions(const Row& r, const Vec3& n, int sliding, Add add) {
    add(T(n[0]), T(n[1]), T(n[2]), T(r.along_n));
    if (r.mode == sliding) {
        add(T(r.t[0]), T(r.t[1]), T(r.t[2]), -T(r.across));
        add(T(r.s[0]), T(r.s[1]), T(r.s[2]), T(r.along_s));
    }
}

// K = sum of X^T G X over the rows of a body, X = (-[r]x, 1). A stiffness s along u adds s w w^T with w = (r x u, u).
// T is the Hessian's precision, vectors and projections have that of the solve.
template <class T, class Row, class Vec3>
SAP_CALL void gather_stiffness(T* K, const int* body_row, int count, const Row* projection, const Vec3* normal,
    const Vec3* r_a, const Vec3* r_b, int sliding) {
    typedef Vec<T> V;
    V k[6];
    SAP_UNROLL
    for (int c = 0; c < 6; ++c) k[c] = V{};
    Isotropic<T> all;
    for (int i = 0; i < count; ++i) {
        const int row = body_row[i] >> 1;
        const Row& r = projection[row];
        if (r.mode == 0) continue;
        const Vec3& arm = body_row[i] & 1 ? r_b[row] : r_a[row];
        all.add(arm, arm, T(r.across));
        directions<T>(r, normal[row], sliding, [&](T x, T y, T z, T s) SAP_INLINE {
            const V w = wrench<T>(arm, x, y, z);
            const V ws = w * s;
            SAP_UNROLL
            for (int c = 0; c < 6; ++c) k[c] = k[c] + w * ws[c];
        });
    }
    all.add_to(k);
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

// Subtract X_a^T G X_b of the rows row .. row_end - 1, all of one pair of bodies, from the block of H between the dofs
// of their chains, which begin at chain_a and chain_b. Eight columns at a time; where they lie side by side, as those of
// another tree do, all at once. What is stored behind the last of them is what was there.
template <class T, class Row, class Vec3, class Column>
inline SAP_INLINE void couple(T* H, const int* first, const int* address, const int* place, int chain_a, int chain_b,
    const int* parent, const Column* Sw, const Column* Sv, int row, int row_end, const Row* projection,
    const Vec3* normal, const Vec3* r_a, const Vec3* r_b, int sliding) {
    typedef Vec<T> V;
    if (place[chain_a] < place[chain_b]) {  // rows of H are the dofs of a
        const int chain = chain_a;
        chain_a = chain_b;
        chain_b = chain;
        const Vec3* arms = r_a;
        r_a = r_b;
        r_b = arms;
    }
    V k[6];
    SAP_UNROLL
    for (int c = 0; c < 6; ++c) k[c] = V{};
    Isotropic<T> all;
    for (; row < row_end; ++row) {
        if (projection[row].mode == 0) continue;
        all.add(r_a[row], r_b[row], T(projection[row].across));
        directions<T>(projection[row], normal[row], sliding, [&](T x, T y, T z, T s) SAP_INLINE {
            const V w = wrench<T>(r_a[row], x, y, z);
            const V ws = wrench<T>(r_b[row], x, y, z) * s;
            SAP_UNROLL
            for (int c = 0; c < 6; ++c) k[c] = k[c] + w * ws[c];
        });
    }
    all.add_to(k);
    for (int j = chain_b; j >= 0;) {
        V f[8];  // forces of eight dofs, then their components
        int dof[8];
        int n = 0;
        for (; j >= 0 && n < 8; j = parent[j], ++n) {
            const Column& w = Sw[j];
            const Column& u = Sv[j];
            f[n] = (k[0] * T(w[0]) + k[1] * T(w[1]) + k[2] * T(w[2]))
                + (k[3] * T(u[0]) + k[4] * T(u[1]) + k[5] * T(u[2]));
            dof[n] = j;
        }
        for (int l = n; l < 8; ++l) f[l] = V{};
        transpose(f);
        const int begin = place[dof[0]];
        const int last = place[dof[n - 1]];
        for (int i = chain_a; i >= 0; i = parent[i]) {
            const Column& w = Sw[i];
            const Column& u = Sv[i];
            const V value = (f[0] * T(w[0]) + f[1] * T(w[1]) + f[2] * T(w[2]))
                + (f[3] * T(u[0]) + f[4] * T(u[1]) + f[5] * T(u[2]));
            T* Hi = H + (address[i] + i - first[i] - place[i]);
            if (last - begin == n - 1 && last < place[i]) {  // places grow along a chain
                store(Hi + begin, load(Hi + begin) - value);
                continue;
            }
            for (int l = 0; l < n; ++l) {
                const int at = place[dof[l]];
                if (at <= place[i]) Hi[at] -= value[l];
                if (at >= place[i]) H[address[dof[l]] + dof[l] - first[dof[l]] - at + place[i]] -= value[l];
            }
        }
    }
}

// The same of all pairs of moving bodies among the rows of a world. Rows of a pair follow one another.
template <class T, class Row, class Vec3, class Column>
SAP_CALL void couple_pairs(T* H, const int* first, const int* address, const int* place, const int* chain,
    const int* parent, const Column* Sw, const Column* Sv, int row, int row_end, const int* body_a, const int* body_b,
    const Row* projection, const Vec3* normal, const Vec3* r_a, const Vec3* r_b, int sliding) {
    while (row < row_end) {
        const int begin = row, a = body_a[row], b = body_b[row];
        int touches = 0;
        for (; row < row_end && body_a[row] == a && body_b[row] == b; ++row) touches |= projection[row].mode;
        if (touches && a >= 0 && b >= 0)
            couple(H, first, address, place, chain[a], chain[b], parent, Sw, Sv, begin, row, projection, normal, r_a, r_b,
                sliding);
    }
}

}  // namespace sap

#undef SAP_KEEP
