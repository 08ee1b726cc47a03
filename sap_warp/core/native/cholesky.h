// Cholesky factorization H = L L^T and solution in packed rows, one lane. The diagonal of L is stored inverted.
#pragma once

namespace sap {

// Factor the rows start .. start + count - 1 in place; 0 if a pivot is not positive or not finite.
//
// Panel by panel. Its rows are interleaved in X: substitution takes all of them at once with each entry of an earlier
// row, and earlier rows of one panel share the loads of X. Then the panel's own corner is factored in registers.
template <class T> SAP_CALL int factor(T* matrix, const int* first, const int* address, int start, int count) {
    typedef Vec<T> V;
    constexpr int longest = 504;  // entries left of a corner that X and `left` hold; longer rows go one by one
    const int end = start + count;
    V X[longest + 8];  // lane l of X[k] is the entry k of row l, counted from the first column
    T* P[8];  // row l of the panel, from its corner on
    unsigned char left[longest + 8];  // for each of the last columns, how many more its panel has, and itself
    static_assert(sizeof(left) == 512, "a power of two: columns are taken modulo its size");
    T check = 0;  // nan after a pivot that is not positive or not finite
    for (int i0 = start; i0 < end;) {
        const int f = first[i0];
        const int n = i0 - f;
        const int width = panel_size(first, i0, end);
        auto gather = [&](int w) SAP_INLINE {
            SAP_UNROLL
            for (int l = 0; l < w; ++l) {
                P[l] = matrix + address[i0 + l] + n;
                left[(i0 + l) & 511] = w - l;
            }
            if (n > longest) return;
            if (w > 3 && n >= 8) {  // the last eight columns may have been taken already
                for (int k = 0; k < n; k += 8) {
                    const int b = k + 8 < n ? k : n - 8;
                    V r[8];
                    SAP_UNROLL
                    for (int l = 0; l < 8; ++l) r[l] = l < w ? load(P[l] - n + b) : V{};
                    transpose(r);
                    SAP_UNROLL
                    for (int l = 0; l < 8; ++l) X[b + l] = r[l];
                }
            } else {
                for (int k = 0; k < n; ++k) {
                    V x = {};
                    SAP_UNROLL
                    for (int l = 0; l < w; ++l) x[l] = P[l][k - n];
                    X[k] = x;
                }
            }
        };
        auto scatter = [&](int w) SAP_INLINE {
            if (w > 3 && n >= 8) {
                for (int k = 0; k < n; k += 8) {
                    const int b = k + 8 < n ? k : n - 8;
                    V r[8];
                    SAP_UNROLL
                    for (int l = 0; l < 8; ++l) r[l] = X[b + l];
                    transpose(r);
                    SAP_UNROLL
                    for (int l = 0; l < w; ++l) store(P[l] - n + b, r[l]);
                }
            } else {
                for (int k = 0; k < n; ++k) {
                    const V x = X[k];
                    SAP_UNROLL
                    for (int l = 0; l < w; ++l) P[l][k - n] = x[l];
                }
            }
        };
        auto finish = [&](int w) SAP_INLINE {
            if (n > 0) {
                V a[8];
                SAP_UNROLL
                for (int c = 0; c < w; ++c) a[c] = V{};
                SAP_ROLLED
                for (int k = 0; k < n; ++k) {
                    const V x = X[k];
                    const T* entry = (const T*)(X + k);
                    SAP_UNROLL
                    for (int c = 0; c < w; ++c) a[c] += x * entry[c];
                }
                scatter(w);
                SAP_UNROLL
                for (int c = 0; c < w; ++c) {
                    X[c] = a[c];
                    SAP_UNROLL
                    for (int l = c; l < w; ++l) P[l][c] -= ((const T*)(X + c))[l];
                }
            }
            T a[8][8];
            SAP_UNROLL
            for (int l = 0; l < w; ++l) {
                SAP_UNROLL
                for (int c = 0; c <= l; ++c) a[l][c] = P[l][c];
            }
            SAP_UNROLL
            for (int c = 0; c < w; ++c) {
                const T reciprocal = T(1) / a[c][c];  // the next pivot waits for this, but not for the root
                const T inv = __builtin_elementwise_sqrt(reciprocal);
                check += a[c][c] * inv * T(0);
                P[c][c] = inv;
                SAP_UNROLL
                for (int l = c + 1; l < w; ++l) {
                    const T scaled = a[l][c] * reciprocal;
                    SAP_UNROLL
                    for (int d = c + 1; d <= l; ++d) a[l][d] -= scaled * a[d][c];
                    P[l][c] = a[l][c] * inv;
                }
            }
        };
        by_size(width, gather);
        if (n > longest) {
            for (int i = i0; i < i0 + width; ++i) {
                T* Li = matrix + address[i] - f;
                for (int j = f; j < i; ++j) {
                    const int m = first[j] > f ? first[j] : f;
                    const T* Lj = matrix + address[j] - first[j];
                    Li[j] = (Li[j] - dot(Li + m, Lj + m, j - m)) * Lj[j];
                }
                const T pivot = Li[i] - dot(Li + f, Li + f, i - f);
                Li[i] = T(1) / __builtin_elementwise_sqrt(pivot);
                check += pivot * Li[i] * T(0);
            }
        } else {
            int j = f;
            auto substitute = [&](int g) SAP_INLINE {  // g columns from j on with the same first column
                const int fj = first[j];
                V* x = X - f;
                const T* R[8];
                V a[8];
                SAP_UNROLL
                for (int c = 0; c < g; ++c) {
                    R[c] = matrix + address[j + c] - fj;
                    a[c] = x[j + c];
                }
                SAP_ROLLED
                for (int k = fj > f ? fj : f; k < j; ++k) {
                    const V xk = x[k];
                    SAP_UNROLL
                    for (int c = 0; c < g; ++c) a[c] -= xk * R[c][k];
                }
                SAP_UNROLL
                for (int c = 0; c < g; ++c) {
                    SAP_UNROLL
                    for (int d = 0; d < c; ++d) a[c] -= a[d] * R[c][j + d];
                    a[c] *= R[c][j + c];
                    x[j + c] = a[c];
                }
            };
            while (j < i0) {
                const int g = left[j & 511];
                by_size(g, substitute);
                j += g;
            }
            by_size(width, finish);
        }
        if (!(check == T(0))) return 0;
        i0 += width;
    }
    return 1;
}

// x <- H^-1 x. Left of a panel's corner eight columns at a time. The last eight columns may overlap those before: their
// lanes are then left out of the sums, and what is added to their entries is computed before and stored after the others.
template <class T> SAP_CALL void solve(const T* matrix, const int* first, const int* address, int start, int count, T* x) {
    typedef Vec<T> V;
    const int end = start + count;
    // corners of the rows of a panel, n entries behind their beginnings, and entries of x
    auto take = [&](int i, int n, int w, const T** P, T* y) SAP_INLINE {
        SAP_UNROLL
        for (int l = 0; l < w; ++l) {
            P[l] = matrix + address[i + l] + n;
            y[l] = x[i + l];
        }
    };
    for (int i = start; i < end;) {
        const int f = first[i];
        const int n = i - f;
        const int width = panel_size(first, i, end);
        auto forward = [&](int w) SAP_INLINE {
            const T* P[8];
            T y[8];
            take(i, n, w, P, y);
            if (n >= 8) {
                V a[8];
                const V last = tail_of(load(x + i - 8), n & 7);
                SAP_UNROLL
                for (int l = 0; l < 8; ++l) a[l] = l < w ? last * load(P[l] - 8) : V{};
                SAP_ROLLED
                for (int k = 0; k + 8 <= n; k += 8) {
                    const V xk = load(x + f + k);
                    SAP_UNROLL
                    for (int l = 0; l < w; ++l) a[l] += xk * load(P[l] - n + k);
                }
                const V sums = sum_entries(a);
                SAP_UNROLL
                for (int l = 0; l < w; ++l) y[l] -= sums[l];
            } else {
                SAP_ROLLED
                for (int k = 0; k < n; ++k) {
                    const T xk = x[f + k];
                    SAP_UNROLL
                    for (int l = 0; l < w; ++l) y[l] -= P[l][k - n] * xk;
                }
            }
            SAP_UNROLL
            for (int l = 0; l < w; ++l) {
                SAP_UNROLL
                for (int d = 0; d < l; ++d) y[l] -= P[l][d] * y[d];
                y[l] *= P[l][l];
                x[i + l] = y[l];
            }
        };
        by_size(width, forward);
        i += width;
    }
    for (int behind = end; behind > start;) {
        const int f = first[behind - 1];
        const int most = behind - start < most_rows ? behind - start : most_rows;
        int width = 1;
        while (width < most && first[behind - 1 - width] == f) ++width;
        const int i = behind - width;
        const int n = i - f;
        auto backward = [&](int w) SAP_INLINE {
            const T* P[8];
            T y[8];
            take(i, n, w, P, y);
            SAP_UNROLL
            for (int l = w - 1; l >= 0; --l) {
                y[l] *= P[l][l];
                x[i + l] = y[l];
                SAP_UNROLL
                for (int d = 0; d < l; ++d) y[d] -= P[l][d] * y[l];
            }
            if (n >= 8) {
                V last = load(x + i - 8);
                SAP_UNROLL
                for (int l = 0; l < w; ++l) last -= load(P[l] - 8) * y[l];
                SAP_ROLLED
                for (int k = 0; k + 8 < n; k += 8) {
                    V xk = load(x + f + k);
                    SAP_UNROLL
                    for (int l = 0; l < w; ++l) xk -= load(P[l] - n + k) * y[l];
                    store(x + f + k, xk);
                }
                store(x + i - 8, last);
            } else {
                SAP_ROLLED
                for (int k = 0; k < n; ++k) {
                    T xk = x[f + k];
                    SAP_UNROLL
                    for (int l = 0; l < w; ++l) xk -= P[l][k - n] * y[l];
                    x[f + k] = xk;
                }
            }
        };
        by_size(width, backward);
        behind = i;
    }
}

}  // namespace sap
