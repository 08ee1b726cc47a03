// Products with symmetric matrices in packed rows, one lane.
#pragma once

namespace sap {

// y = A x for the rows start .. start + count - 1; every row begins in this range. M is A's precision, X that of vectors.
template <class M, class X>
SAP_CALL void multiply(const M* a, const int* first, const int* address, int start, int count, const X* __restrict__ x,
    X* __restrict__ y) {
    typedef Vec<X> V;
    const int end = start + count;
    for (int i = start; i < end;) {
        const int f = first[i];
        const int n = i - f;
        const int width = panel_size(first, i, end);
        auto panel = [&](int w) SAP_INLINE {
            const M* P[8];
            X own[8], sum[8];
            SAP_UNROLL
            for (int l = 0; l < w; ++l) {
                P[l] = a + address[i + l] + n;
                own[l] = x[i + l];
                sum[l] = X(0);
            }
            if (n >= 8) {  // the last eight columns may overlap those before, as in `solve`
                V total[8];
                V last = load(y + i - 8);
                const V kept = tail_of(load(x + i - 8), n & 7);
                SAP_UNROLL
                for (int l = 0; l < 8; ++l) {
                    total[l] = V{};
                    if (l < w) {
                        const V entries = __builtin_convertvector(load(P[l] - 8), V);
                        total[l] = entries * kept;
                        last += entries * own[l];
                    }
                }
                SAP_ROLLED
                for (int k = 0; k + 8 <= n; k += 8) {
                    const V xk = load(x + f + k);
                    V yk = load(y + f + k);
                    SAP_UNROLL
                    for (int l = 0; l < w; ++l) {
                        const V entries = __builtin_convertvector(load(P[l] - n + k), V);
                        total[l] += entries * xk;
                        yk += entries * own[l];
                    }
                    store(y + f + k, yk);
                }
                store(y + i - 8, last);
                const V sums = sum_entries(total);
                SAP_UNROLL
                for (int l = 0; l < w; ++l) sum[l] = sums[l];
            } else {
                SAP_ROLLED
                for (int k = 0; k < n; ++k) {
                    const X xk = x[f + k];
                    X yk = y[f + k];
                    SAP_UNROLL
                    for (int l = 0; l < w; ++l) {
                        const X entry = X(P[l][k - n]);
                        sum[l] += entry * xk;
                        yk += entry * own[l];
                    }
                    y[f + k] = yk;
                }
            }
            SAP_UNROLL
            for (int l = 0; l < w; ++l) {
                SAP_UNROLL
                for (int d = 0; d < l; ++d) {
                    const X entry = X(P[l][d]);
                    sum[l] += entry * own[d];
                    sum[d] += entry * own[l];
                }
                sum[l] += X(P[l][l]) * own[l];
            }
            SAP_UNROLL
            for (int l = 0; l < w; ++l) y[i + l] = sum[l];
        };
        by_size(width, panel);
        i += width;
    }
}

// target[i, k] = base[i, k] + S_i . F_k for all dofs k in the subtree of i; without a base unless `with_base`.
//
// The rows of a panel share the loads of the forces, eight columns at a time; the last eight left of the corner may have
// been computed already. The six components of the forces lie in six runs of `count` numbers.
template <bool with_base, class T, class X, class F, class Column>
SAP_CALL void add_rows(T* target, const int* target_first, const int* target_address, const X* base, const int* first,
    const int* address, int start, int count, const Column* Sw, const Column* Sv, const F* __restrict__ forces) {
    static_assert(sizeof(Column) == 3 * sizeof(X), "motion columns are three numbers of the base's precision");
    typedef Vec<F> V;
    typedef Vec<T> TV;
    typedef Vec<X> XV;
    const int end = start + count;
    const F* f = forces + 5 * start;  // six runs for each world: component c of dof k is at 6 start + c count + k - start
    auto motion = [&](int i, int c) SAP_INLINE { return F(c < 3 ? Sw[i][c] : Sv[i][c - 3]); };
    for (int i = start; i < end;) {
        const int n = i - first[i];
        const int width = panel_size(first, i, end);
        auto panel = [&](int w) SAP_INLINE {
            const X* from[8];  // rows of the panel, from its corner on
            T* to[8];
            SAP_UNROLL
            for (int l = 0; l < w; ++l) {
                from[l] = base + address[i + l] + n;
                to[l] = target + target_address[i + l] - target_first[i + l] + i;
            }
            auto columns = [&](int k, int size, bool corner) SAP_INLINE {
                V force[6];
                SAP_UNROLL
                for (int c = 0; c < 6; ++c) {
                    force[c] = V{};
                    __builtin_memcpy(&force[c], f + i + k + c * count, size * sizeof(F));
                }
                SAP_UNROLL
                for (int l = 0; l < w; ++l) {
                    V sum = force[0] * motion(i + l, 0);
                    SAP_UNROLL
                    for (int c = 1; c < 6; ++c) sum += force[c] * motion(i + l, c);
                    TV value = __builtin_convertvector(sum, TV);
                    const int some = corner ? l + 1 : size;
                    if (with_base) {
                        XV before = {};
                        __builtin_memcpy(&before, from[l] + k, some * sizeof(X));
                        value += __builtin_convertvector(before, TV);
                    }
                    __builtin_memcpy(to[l] + k, &value, some * sizeof(T));
                }
            };
            if (n >= 8) {
                SAP_ROLLED
                for (int k = -n; k < 0; k += 8) columns(k < -8 ? k : -8, 8, false);
            } else {
                SAP_ROLLED
                for (int k = -n; k < 0; ++k) columns(k, 1, false);
            }
            columns(0, w, true);
        };
        by_size(width, panel);
        i += width;
    }
}

}  // namespace sap
