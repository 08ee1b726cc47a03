"""Block primitives: lane, barrier, sums over a block, and the packed-row Cholesky factorization.

One world is one block. On the CPU a block has one lane and every loop below is a plain serial loop; on CUDA (and in
tests, on cooperative CPU fibers) the lanes of a block share the same loops. Native snippets that compute are in this
file, each with a plain Warp twin next to it that tests compare it with, and in `wide`.

Packed rows: row ``i`` of a symmetric matrix holds the columns ``first[i] .. i`` at ``adr[i] ..``; what is left of
``first[i]`` is zero. A factor L with H = L L^T has the same pattern, and its diagonal is stored inverted.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ..kernels.lanes import barrier, lane
from ..kernels.types import Types

# The dot product keeps four partial sums: without them the compiler may not vectorize it, because it would have to
# reorder additions.
_DOT = """
    auto dot = [](const T* a, const T* b, int n) {
        T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        int k = 0;
        for (; k + 4 <= n; k += 4) {
            s0 += a[k] * b[k]; s1 += a[k + 1] * b[k + 1]; s2 += a[k + 2] * b[k + 2]; s3 += a[k + 3] * b[k + 3];
        }
        for (; k < n; ++k) s0 += a[k] * b[k];
        return (s0 + s1) + (s2 + s3);
    };
"""

# One lane on the CPU works on panels: up to six consecutive rows with the same first column, like the dofs of a joint
# and of the joints below it in a chain; larger panels take long to compile. Vectors are compiler extensions of eight
# entries, whatever the machine has; the empty function allows the compiler to use its longest registers. `by_size`
# makes a size known to the compiler, so that all loops over the rows of a panel are unrolled. NVRTC sees none of this.
_PANELS = """
    struct Wide { static __attribute__((always_inline, min_vector_width(512))) void allow() {} };
    Wide::allow();
    auto by_size = [](int size, auto step) INLINE {
        switch (size) {
            case 1: step(1); break;
            case 2: step(2); break;
            case 3: step(3); break;
            case 4: step(4); break;
            case 5: step(5); break;
            default: step(6);
        }
    };
    auto panel_size = [&](int i) INLINE {
        const int most = end - i < 6 ? end - i : 6;
        int w = 1;
        while (w < most && fst[i + w] == fst[i]) ++w;
        return w;
    };
"""


INLINE = "__attribute__((always_inline))"
UNROLL = '_Pragma("clang loop unroll(full)")'


def _one_lane(snippet: str) -> str:
    """The snippet for one lane on the CPU, with #else for what follows."""
    text = _PANELS + snippet
    for word, meaning in {
        "INLINE": INLINE,
        "NO_UNROLL": '_Pragma("clang loop unroll(disable)")',
        "UNROLL": UNROLL,
    }.items():
        text = text.replace(word, meaning)
    return f"#if WP_TILE_BLOCK_DIM == 1 && !defined(__CUDA_ARCH__)\n{text}#else\n"


# Rows of a panel are interleaved in X: substitution takes all of them at once with each entry of an earlier row, and
# earlier rows of one panel share the loads of X. Then the panel's own corner is factored, entry by entry in registers.
_FACTOR_PANELS = """
    typedef T V __attribute__((vector_size(8 * sizeof(T))));
    typedef T U __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T))));
    const int longest = 504;
    V X[512];  // lane l of X[k] is the entry k of row l, counted from the first column
    T* P[8];  // row l of the panel, from its corner on
    unsigned char left[512];  // for each of the last columns, how many more its panel has, and itself
    T check = 0;  // nan after a pivot that is not positive or not finite
    auto transpose = [](V* r) INLINE {
        V s[8], t[8];
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
    for (int i0 = start; i0 < end;) {
        const int f = fst[i0];
        const int n = i0 - f;
        const int width = panel_size(i0);
        auto gather = [&](int w) INLINE {
            UNROLL
            for (int l = 0; l < w; ++l) {
                P[l] = matrix.data + row_adr[i0 + l] + n;
                left[(i0 + l) & 511] = w - l;
            }
            if (n > longest) return;
            if (w > 3 && n >= 8) {  // the last eight columns may have been taken already
                for (int k = 0; k < n; k += 8) {
                    const int b = k + 8 < n ? k : n - 8;
                    V r[8];
                    UNROLL
                    for (int l = 0; l < 8; ++l) r[l] = l < w ? V(*(const U*)(P[l] - n + b)) : V{};
                    transpose(r);
                    UNROLL
                    for (int l = 0; l < 8; ++l) X[b + l] = r[l];
                }
            } else {
                for (int k = 0; k < n; ++k) {
                    V x = {};
                    UNROLL
                    for (int l = 0; l < w; ++l) x[l] = P[l][k - n];
                    X[k] = x;
                }
            }
        };
        auto scatter = [&](int w) INLINE {
            if (w > 3 && n >= 8) {
                for (int k = 0; k < n; k += 8) {
                    const int b = k + 8 < n ? k : n - 8;
                    V r[8];
                    UNROLL
                    for (int l = 0; l < 8; ++l) r[l] = X[b + l];
                    transpose(r);
                    UNROLL
                    for (int l = 0; l < w; ++l) *(U*)(P[l] - n + b) = r[l];
                }
            } else {
                for (int k = 0; k < n; ++k) {
                    const V x = X[k];
                    UNROLL
                    for (int l = 0; l < w; ++l) P[l][k - n] = x[l];
                }
            }
        };
        auto finish = [&](int w) INLINE {
            if (n > 0) {
                V a[8];
                UNROLL
                for (int c = 0; c < w; ++c) a[c] = V{};
                NO_UNROLL
                for (int k = 0; k < n; ++k) {
                    const V x = X[k];
                    const T* entry = (const T*)(X + k);
                    UNROLL
                    for (int c = 0; c < w; ++c) a[c] += x * entry[c];
                }
                scatter(w);
                UNROLL
                for (int c = 0; c < w; ++c) {
                    X[c] = a[c];
                    UNROLL
                    for (int l = c; l < w; ++l) P[l][c] -= ((const T*)(X + c))[l];
                }
            }
            T a[8][8];
            UNROLL
            for (int l = 0; l < w; ++l) {
                UNROLL
                for (int c = 0; c <= l; ++c) a[l][c] = P[l][c];
            }
            UNROLL
            for (int c = 0; c < w; ++c) {
                const T reciprocal = T(1) / a[c][c];  // the next pivot waits for this, but not for the root
                const T inv = sqrt(reciprocal);
                check += a[c][c] * inv * T(0);
                P[c][c] = inv;
                UNROLL
                for (int l = c + 1; l < w; ++l) {
                    const T scaled = a[l][c] * reciprocal;
                    UNROLL
                    for (int d = c + 1; d <= l; ++d) a[l][d] -= scaled * a[d][c];
                    P[l][c] = a[l][c] * inv;
                }
            }
        };
        by_size(width, gather);
        if (n > longest) {
            for (int i = i0; i < i0 + width; ++i) {
                T* Li = matrix.data + row_adr[i] - f;
                for (int j = f; j < i; ++j) {
                    const int m = fst[j] > f ? fst[j] : f;
                    const T* Lj = matrix.data + row_adr[j] - fst[j];
                    Li[j] = (Li[j] - dot(Li + m, Lj + m, j - m)) * Lj[j];
                }
                const T pivot = Li[i] - dot(Li + f, Li + f, i - f);
                Li[i] = T(1) / sqrt(pivot);
                check += pivot * Li[i] * T(0);
            }
        } else {
            int j = f;
            auto substitute = [&](int g) INLINE {  // g columns from j on with the same first column
                const int fj = fst[j];
                V* x = X - f;
                const T* R[8];
                V a[8];
                UNROLL
                for (int c = 0; c < g; ++c) {
                    R[c] = matrix.data + row_adr[j + c] - fj;
                    a[c] = x[j + c];
                }
                NO_UNROLL
                for (int k = fj > f ? fj : f; k < j; ++k) {
                    const V xk = x[k];
                    UNROLL
                    for (int c = 0; c < g; ++c) a[c] -= xk * R[c][k];
                }
                UNROLL
                for (int c = 0; c < g; ++c) {
                    UNROLL
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
"""

# Several lanes go column by column and share the rows of a column, which are independent; one barrier per column. While
# rows are subtrees (coupled == 0) the rows of column j are the dofs above j, else every later row reaching back to j.
_FACTOR = (
    """
    typedef SCALAR T;
"""
    + _DOT
    + """
    const int* fst = first.data;
    const int* row_adr = adr.data;
    const int end = start + count;
"""
    + _one_lane(_FACTOR_PANELS)
    + """
    const int lane = WP_TILE_THREAD_IDX;
    const int lanes = WP_TILE_BLOCK_DIM;
    int ok = 1;
    for (int j = start; j < end; ++j) {
        const int fj = fst[j];
        T* Lj = matrix.data + row_adr[j] - fj;
        const T pivot = Lj[j] - dot(Lj + fj, Lj + fj, j - fj);
        if (!(pivot > T(0)) || pivot > T(MAXIMUM)) { ok = 0; break; }
        const T inv = T(1) / sqrt(pivot);
        if (coupled) {
            for (int i = j + 1 + lane; i < end; i += lanes) {
                const int fi = fst[i];
                if (fi <= j) {
                    T* Li = matrix.data + row_adr[i] - fi;
                    const int m = fi > fj ? fi : fj;
                    Li[j] = (Li[j] - dot(Li + m, Lj + m, j - m)) * inv;
                }
            }
        } else {
            const int* rows = above.data + above_start.data[j];
            const int n = above_start.data[j + 1] - above_start.data[j];
            auto column = [&](int length) {
                for (int k = lane; k < n; k += lanes) {
                    const int i = rows[k];
                    T* Li = matrix.data + row_adr[i] - fst[i];
                    Li[j] = (Li[j] - dot(Li + fj, Lj + fj, length)) * inv;
                }
            };
            switch (j - fj) {  // limbs are short chains: a length known to the compiler saves its loop
                case 0: column(0); break;
                case 1: column(1); break;
                case 2: column(2); break;
                case 3: column(3); break;
                case 4: column(4); break;
                case 5: column(5); break;
                default: column(j - fj);
            }
        }
        WP_TILE_SYNC();
        if (lane == 0) Lj[j] = inv;
    }
    WP_TILE_SYNC();
    return ok;
#endif
"""
)

# Left of a panel's corner eight columns at a time. The last eight columns may overlap those before: their lanes are
# then left out of the sums, and what is added to their entries is computed before and stored after the others.
_SUM_LANES = """
    auto tail_of = [](VECTOR x, int lanes) INLINE {  // x with zeros before its last lanes
        VECTOR kept;
        UNROLL
        for (int l = 0; l < 8; ++l) kept[l] = l < 8 - lanes ? SUM(0) : x[l];
        return kept;
    };
    auto sum_lanes = [](const VECTOR* a) INLINE {  // the sums of eight vectors
        VECTOR s[4], t[2];
        UNROLL
        for (int i = 0; i < 4; ++i)
            s[i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14)
                + __builtin_shufflevector(a[2 * i], a[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
        UNROLL
        for (int i = 0; i < 2; ++i)
            t[i] = __builtin_shufflevector(s[2 * i], s[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13)
                + __builtin_shufflevector(s[2 * i], s[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
        return __builtin_shufflevector(t[0], t[1], 0, 1, 2, 3, 8, 9, 10, 11)
            + __builtin_shufflevector(t[0], t[1], 4, 5, 6, 7, 12, 13, 14, 15);
    };
"""

_SOLVE_PANELS = (
    """
    typedef T V __attribute__((vector_size(8 * sizeof(T))));
    typedef T U __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T))));
"""
    + _SUM_LANES.replace("VECTOR", "V").replace("SUM", "T")
    + """
    for (int i = start; i < end;) {
        const int f = fst[i];
        const int n = i - f;
        const int width = panel_size(i);
        auto forward = [&](int w) INLINE {
            const T* P[8];
            T y[8];
            UNROLL
            for (int l = 0; l < w; ++l) {
                P[l] = matrix.data + row_adr[i + l] + n;
                y[l] = v[i + l];
            }
            if (n >= 8) {
                V a[8];
                const V x = tail_of(*(const U*)(v + i - 8), n & 7);
                UNROLL
                for (int l = 0; l < 8; ++l) a[l] = l < w ? x * *(const U*)(P[l] - 8) : V{};
                NO_UNROLL
                for (int k = 0; k + 8 <= n; k += 8) {
                    const V xk = *(const U*)(v + f + k);
                    UNROLL
                    for (int l = 0; l < w; ++l) a[l] += xk * *(const U*)(P[l] - n + k);
                }
                const V sums = sum_lanes(a);
                UNROLL
                for (int l = 0; l < w; ++l) y[l] -= sums[l];
            } else {
                NO_UNROLL
                for (int k = 0; k < n; ++k) {
                    const T x = v[f + k];
                    UNROLL
                    for (int l = 0; l < w; ++l) y[l] -= P[l][k - n] * x;
                }
            }
            UNROLL
            for (int l = 0; l < w; ++l) {
                UNROLL
                for (int d = 0; d < l; ++d) y[l] -= P[l][d] * y[d];
                y[l] *= P[l][l];
                v[i + l] = y[l];
            }
        };
        by_size(width, forward);
        i += width;
    }
    for (int behind = end; behind > start;) {
        const int f = fst[behind - 1];
        const int most = behind - start < 6 ? behind - start : 6;
        int width = 1;
        while (width < most && fst[behind - 1 - width] == f) ++width;
        const int i = behind - width;
        const int n = i - f;
        auto backward = [&](int w) INLINE {
            const T* P[8];
            T y[8];
            UNROLL
            for (int l = 0; l < w; ++l) {
                P[l] = matrix.data + row_adr[i + l] + n;
                y[l] = v[i + l];
            }
            UNROLL
            for (int l = w - 1; l >= 0; --l) {
                y[l] *= P[l][l];
                v[i + l] = y[l];
                UNROLL
                for (int d = 0; d < l; ++d) y[d] -= P[l][d] * y[l];
            }
            if (n >= 8) {
                V last = *(const U*)(v + i - 8);
                UNROLL
                for (int l = 0; l < w; ++l) last -= *(const U*)(P[l] - 8) * y[l];
                NO_UNROLL
                for (int k = 0; k + 8 < n; k += 8) {
                    V x = *(const U*)(v + f + k);
                    UNROLL
                    for (int l = 0; l < w; ++l) x -= *(const U*)(P[l] - n + k) * y[l];
                    *(U*)(v + f + k) = x;
                }
                *(U*)(v + i - 8) = last;
            } else {
                NO_UNROLL
                for (int k = 0; k < n; ++k) {
                    T x = v[f + k];
                    UNROLL
                    for (int l = 0; l < w; ++l) x -= P[l][k - n] * y[l];
                    v[f + k] = x;
                }
            }
        };
        by_size(width, backward);
        behind = i;
    }
"""
)

_SOLVE = (
    """
    typedef SCALAR T;
    const int* fst = first.data;
    const int* row_adr = adr.data;
    const int end = start + count;
    T* v = x.data;
"""
    + _one_lane(_SOLVE_PANELS)
    + """
    const int lane = WP_TILE_THREAD_IDX;
    const int lanes = WP_TILE_BLOCK_DIM;
    for (int j = start; j < end; ++j) {
        const T y = v[j] * matrix.data[row_adr[j] + j - fst[j]];
        WP_TILE_SYNC();
        if (lane == 0) v[j] = y;
        if (coupled) {
            for (int i = j + 1 + lane; i < end; i += lanes)
                if (fst[i] <= j) v[i] -= matrix.data[row_adr[i] + j - fst[i]] * y;
        } else {
            const int* rows = above.data + above_start.data[j];
            const int n = above_start.data[j + 1] - above_start.data[j];
            for (int k = lane; k < n; k += lanes) v[rows[k]] -= matrix.data[row_adr[rows[k]] + j - fst[rows[k]]] * y;
        }
        WP_TILE_SYNC();
    }
    for (int j = end - 1; j >= start; --j) {
        const int fj = fst[j];
        const T* Lj = matrix.data + row_adr[j] - fj;
        const T y = v[j] * Lj[j];
        WP_TILE_SYNC();
        if (lane == 0) v[j] = y;
        for (int k = fj + lane; k < j; k += lanes) v[k] -= Lj[k] * y;
        WP_TILE_SYNC();
    }
#endif
"""
)

_MULTIPLY_PANELS = (
    """
    typedef X V __attribute__((vector_size(8 * sizeof(X))));
    typedef X U __attribute__((vector_size(8 * sizeof(X)), aligned(sizeof(X))));
    typedef T W __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T))));
"""
    + _SUM_LANES.replace("VECTOR", "V").replace("SUM", "X")
    + """
    for (int i = start; i < end;) {
        const int f = fst[i];
        const int n = i - f;
        const int width = panel_size(i);
        auto panel = [&](int w) INLINE {
            const T* P[8];
            X x[8], sum[8];
            UNROLL
            for (int l = 0; l < w; ++l) {
                P[l] = a + row_adr[i + l] + n;
                x[l] = v[i + l];
                sum[l] = X(0);
            }
            if (n >= 8) {
                V total[8];
                V last = *(const U*)(out + i - 8);
                const V kept = tail_of(*(const U*)(v + i - 8), n & 7);
                UNROLL
                for (int l = 0; l < 8; ++l) {
                    total[l] = V{};
                    if (l < w) {
                        const V entries = __builtin_convertvector(*(const W*)(P[l] - 8), V);
                        total[l] = entries * kept;
                        last += entries * x[l];
                    }
                }
                NO_UNROLL
                for (int k = 0; k + 8 <= n; k += 8) {
                    const V xk = *(const U*)(v + f + k);
                    V y = *(const U*)(out + f + k);
                    UNROLL
                    for (int l = 0; l < w; ++l) {
                        const V entries = __builtin_convertvector(*(const W*)(P[l] - n + k), V);
                        total[l] += entries * xk;
                        y += entries * x[l];
                    }
                    *(U*)(out + f + k) = y;
                }
                *(U*)(out + i - 8) = last;
                const V sums = sum_lanes(total);
                UNROLL
                for (int l = 0; l < w; ++l) sum[l] = sums[l];
            } else {
                NO_UNROLL
                for (int k = 0; k < n; ++k) {
                    const X xk = v[f + k];
                    X y = out[f + k];
                    UNROLL
                    for (int l = 0; l < w; ++l) {
                        const X entry = X(P[l][k - n]);
                        sum[l] += entry * xk;
                        y += entry * x[l];
                    }
                    out[f + k] = y;
                }
            }
            UNROLL
            for (int l = 0; l < w; ++l) {
                UNROLL
                for (int d = 0; d < l; ++d) {
                    const X entry = X(P[l][d]);
                    sum[l] += entry * x[d];
                    sum[d] += entry * x[l];
                }
                sum[l] += X(P[l][l]) * x[l];
            }
            UNROLL
            for (int l = 0; l < w; ++l) out[i + l] = sum[l];
        };
        by_size(width, panel);
        i += width;
    }
"""
)

# y = A x with A in packed tree rows. Lanes gather the terms of an entry: its own row's product and one term from each
# row above. One lane alone goes through the rows, which are contiguous.
_MULTIPLY = (
    """
    typedef SCALAR_X X;
    typedef SCALAR_M T;
    const int* fst = first.data;
    const int* row_adr = adr.data;
    const int end = start + count;
    const T* a = matrix.data;
    const X* __restrict__ v = x.data;
    X* __restrict__ out = y.data;
"""
    + _one_lane(_MULTIPLY_PANELS)
    + _DOT.replace("const T* a, const T* b", "const T* a, const X* b")
    .replace("T s0", "X s0")
    .replace("a[k] * b", "X(a[k]) * b")
    .replace("a[k + ", "X(a[k + ")
    .replace("] * b[k + ", "]) * b[k + ")
    + """
    const int lane = WP_TILE_THREAD_IDX;
    const int lanes = WP_TILE_BLOCK_DIM;
    for (int j = start + lane; j < end; j += lanes) {
        const int fj = fst[j];
        const T* Aj = a + row_adr[j] - fj;
        X sum = dot(Aj + fj, v + fj, j + 1 - fj);
        for (int k = above_start.data[j]; k < above_start.data[j + 1]; ++k) {
            const int i = above.data[k];
            sum += X(a[row_adr[i] + j - fst[i]]) * v[i];
        }
        out[j] = sum;
    }
    WP_TILE_SYNC();
#endif
"""
)

_COPY = """
    typedef SCALAR T;
    typedef SCALAR_X X;
    const int lane = WP_TILE_THREAD_IDX;
    const int lanes = WP_TILE_BLOCK_DIM;
    const X* __restrict__ from = source.data + source_start;
    T* __restrict__ to = target.data + target_start;
    for (int i = lane; i < count; i += lanes) to[i] = T(from[i]);
"""

# The rows of a panel share the loads of the forces, eight columns at a time; the last eight left of the corner may have
# been computed already.
_ADD_ROWS_PANELS = """
    typedef F V __attribute__((vector_size(8 * sizeof(F))));
    typedef T TV __attribute__((vector_size(8 * sizeof(T))));
    typedef X XV __attribute__((vector_size(8 * sizeof(X))));
    auto motion = [&](int i, int c) INLINE { return F(c < 3 ? Sw.data[i][c] : Sv.data[i][c - 3]); };
    for (int i = start; i < end;) {
        const int n = i - fst[i];
        const int width = panel_size(i);
        auto panel = [&](int w) INLINE {
            const X* from[8];  // rows of the panel, from its corner on
            T* to[8];
            UNROLL
            for (int l = 0; l < w; ++l) {
                from[l] = base.data + adr.data[i + l] + n;
                to[l] = target.data + target_adr.data[i + l] - target_first.data[i + l] + i;
            }
            auto columns = [&](int k, int size, bool corner) INLINE {
                V force[6];
                UNROLL
                for (int c = 0; c < 6; ++c) {
                    force[c] = V{};
                    __builtin_memcpy(&force[c], f + i + k + c * count, size * sizeof(F));
                }
                UNROLL
                for (int l = 0; l < w; ++l) {
                    V sum = force[0] * motion(i + l, 0);
                    UNROLL
                    for (int c = 1; c < 6; ++c) sum += force[c] * motion(i + l, c);
                    TV value = __builtin_convertvector(sum, TV);
                    const int some = corner ? l + 1 : size;
                    if (add_base) {
                        XV before = {};
                        __builtin_memcpy(&before, from[l] + k, some * sizeof(X));
                        value += __builtin_convertvector(before, TV);
                    }
                    __builtin_memcpy(to[l] + k, &value, some * sizeof(T));
                }
            };
            if (n >= 8) {
                NO_UNROLL
                for (int k = -n; k < 0; k += 8) columns(k < -8 ? k : -8, 8, false);
            } else {
                NO_UNROLL
                for (int k = -n; k < 0; ++k) columns(k, 1, false);
            }
            columns(0, w, true);
        };
        by_size(width, panel);
        i += width;
    }
"""

# Row i gets the products of S_i with the forces of the dofs below it. The six components of the forces lie in six runs.
_ADD_ROWS = (
    """
    typedef SCALAR_M T;
    typedef SCALAR_X X;
    typedef SCALAR_F F;
    const int* fst = first.data;
    const int end = start + count;
    const F* __restrict__ f = forces.data + 6 * start - start;
"""
    + _one_lane(_ADD_ROWS_PANELS)
    + """
    const int lane = WP_TILE_THREAD_IDX;
    const int lanes = WP_TILE_BLOCK_DIM;
    for (int i = start + lane; i < end; i += lanes) {
        const int low = fst[i];
        const X* __restrict__ from = base.data + adr.data[i] - low;
        T* __restrict__ to = target.data + target_adr.data[i] - target_first.data[i];
        const F w0 = F(Sw.data[i][0]), w1 = F(Sw.data[i][1]), w2 = F(Sw.data[i][2]);
        const F u0 = F(Sv.data[i][0]), u1 = F(Sv.data[i][1]), u2 = F(Sv.data[i][2]);
        for (int k = low; k <= i; ++k) {
            const F s = (w0 * f[k] + w1 * f[k + count] + w2 * f[k + 2 * count])
                + (u0 * f[k + 3 * count] + u1 * f[k + 4 * count] + u2 * f[k + 5 * count]);
            to[k] = add_base ? T(from[k]) + T(s) : T(s);
        }
    }
    WP_TILE_SYNC();
#endif
"""
)


@functools.cache
def make_cholesky(types: Types, native: bool = True) -> SimpleNamespace:
    """Factorization and solve on packed rows for one precision.

    ``factor(matrix, first, adr, above, above_start, start, count, coupled) -> int`` factors in place and returns 0
    if a pivot is not positive or not finite. ``solve(..., coupled, x)`` overwrites x with the solution.
    ``native=False`` gives the plain Warp twins, which must be run with one lane.
    """
    scalar = types.scalar
    maximum = "1e30f" if types.name == "fp32" else "1e300"

    def filled(snippet: str) -> str:
        return snippet.replace("SCALAR", types.c_name).replace("MAXIMUM", maximum)

    if native:

        @wp.func_native(filled(_FACTOR))
        def factor(
            matrix: wp.array(dtype=scalar),
            first: wp.array(dtype=wp.int32),
            adr: wp.array(dtype=wp.int32),
            above: wp.array(dtype=wp.int32),
            above_start: wp.array(dtype=wp.int32),
            start: int,
            count: int,
            coupled: int,
        ) -> int: ...

        @wp.func_native(filled(_SOLVE))
        def solve(
            matrix: wp.array(dtype=scalar),
            first: wp.array(dtype=wp.int32),
            adr: wp.array(dtype=wp.int32),
            above: wp.array(dtype=wp.int32),
            above_start: wp.array(dtype=wp.int32),
            start: int,
            count: int,
            coupled: int,
            x: wp.array(dtype=scalar),
        ): ...

        return SimpleNamespace(factor=factor, solve=solve)

    @wp.func
    def factor_plain(
        matrix: wp.array(dtype=scalar),
        first: wp.array(dtype=wp.int32),
        adr: wp.array(dtype=wp.int32),
        above: wp.array(dtype=wp.int32),
        above_start: wp.array(dtype=wp.int32),
        start: int,
        count: int,
        coupled: int,
    ) -> int:
        i_end = start + count
        i = int(start)
        while i < i_end:
            fi = first[i]
            ai = adr[i] - fi
            j_end = i + 1
            j = int(fi)
            while j < j_end:
                aj = adr[j] - first[j]
                s = matrix[ai + j]
                k = int(wp.max(fi, first[j]))
                while k < j:
                    s -= matrix[ai + k] * matrix[aj + k]
                    k += 1
                if i == j:
                    if not (s > scalar(0.0)) or not wp.isfinite(s):
                        return 0
                    matrix[ai + j] = scalar(1.0) / wp.sqrt(s)
                else:
                    matrix[ai + j] = s * matrix[aj + j]
                j += 1
            i += 1
        return 1

    @wp.func
    def solve_plain(
        matrix: wp.array(dtype=scalar),
        first: wp.array(dtype=wp.int32),
        adr: wp.array(dtype=wp.int32),
        above: wp.array(dtype=wp.int32),
        above_start: wp.array(dtype=wp.int32),
        start: int,
        count: int,
        coupled: int,
        x: wp.array(dtype=scalar),
    ):
        i_end = start + count
        i = int(start)
        while i < i_end:
            ai = adr[i] - first[i]
            s = x[i]
            k = int(first[i])
            while k < i:
                s -= matrix[ai + k] * x[k]
                k += 1
            x[i] = s * matrix[ai + i]
            i += 1
        r = int(0)
        while r < count:
            i = start + count - 1 - r
            ai = adr[i] - first[i]
            y = x[i] * matrix[ai + i]
            x[i] = y
            k = int(first[i])
            while k < i:
                x[k] = x[k] - matrix[ai + k] * y
                k += 1
            r += 1

    return SimpleNamespace(factor=factor_plain, solve=solve_plain)


@functools.cache
def make_multiply(types: Types, vector_types: Types, native: bool = True):
    """``multiply(matrix, first, adr, above, above_start, start, count, x, y)``: y = A x in packed tree rows."""
    scalar, number = types.scalar, vector_types.scalar
    if native:
        snippet = _MULTIPLY.replace("SCALAR_X", vector_types.c_name).replace("SCALAR_M", types.c_name)

        @wp.func_native(snippet)
        def multiply(
            matrix: wp.array(dtype=scalar),
            first: wp.array(dtype=wp.int32),
            adr: wp.array(dtype=wp.int32),
            above: wp.array(dtype=wp.int32),
            above_start: wp.array(dtype=wp.int32),
            start: int,
            count: int,
            x: wp.array(dtype=number),
            y: wp.array(dtype=number),
        ): ...

        return multiply

    @wp.func
    def multiply_plain(
        matrix: wp.array(dtype=scalar),
        first: wp.array(dtype=wp.int32),
        adr: wp.array(dtype=wp.int32),
        above: wp.array(dtype=wp.int32),
        above_start: wp.array(dtype=wp.int32),
        start: int,
        count: int,
        x: wp.array(dtype=number),
        y: wp.array(dtype=number),
    ):
        j_end = start + count
        j = int(start + lane())
        while j < j_end:
            s = number(0.0)
            k_end = j + 1
            k = int(first[j])
            while k < k_end:
                s += number(matrix[adr[j] + k - first[j]]) * x[k]
                k += 1
            k_end = above_start[j + 1]
            k = int(above_start[j])
            while k < k_end:
                i = above[k]
                s += number(matrix[adr[i] + j - first[i]]) * x[i]
                k += 1
            y[j] = s
            j += wp.block_dim()
        barrier()

    return multiply_plain


@functools.cache
def make_add_rows(types: Types, column_types: Types, force_types: Types | None = None, native: bool = True):
    """Products of motion columns with forces in packed tree rows, and where the forces are put.

    ``store_force(forces, start, count, e, Fw, Fv)`` stores the force of dof e, one of the ``count`` dofs from ``start``
    on. ``add_rows(target, target_first, target_adr, base, first, adr, start, count, Sw, Sv, forces, add_base)`` sets
    ``target[i, k] = base[i, k] + S_i . F_k`` for all k in the subtree of i, without ``base`` if ``add_base`` is 0.
    ``types`` is the target's precision, ``column_types`` that of base and S, ``force_types`` that of F and of the sum.
    """
    force_types = force_types or types
    scalar, column, F = types.scalar, column_types.vec3, force_types.scalar

    @wp.func
    def store_force(
        forces: wp.array(dtype=F), start: int, count: int, e: int, Fw: force_types.vec3, Fv: force_types.vec3
    ):
        i = 5 * start + e
        for k in range(3):
            forces[i + k * count] = Fw[k]
            forces[i + (k + 3) * count] = Fv[k]

    if native:
        snippet = _ADD_ROWS.replace("SCALAR_X", column_types.c_name).replace("SCALAR_F", force_types.c_name)

        @wp.func_native(snippet.replace("SCALAR_M", types.c_name))
        def add_rows(
            target: wp.array(dtype=scalar),
            target_first: wp.array(dtype=wp.int32),
            target_adr: wp.array(dtype=wp.int32),
            base: wp.array(dtype=column_types.scalar),
            first: wp.array(dtype=wp.int32),
            adr: wp.array(dtype=wp.int32),
            start: int,
            count: int,
            Sw: wp.array(dtype=column),
            Sv: wp.array(dtype=column),
            forces: wp.array(dtype=F),
            add_base: int,
        ): ...

        return SimpleNamespace(store_force=store_force, add_rows=add_rows)

    @wp.func
    def add_rows_plain(
        target: wp.array(dtype=scalar),
        target_first: wp.array(dtype=wp.int32),
        target_adr: wp.array(dtype=wp.int32),
        base: wp.array(dtype=column_types.scalar),
        first: wp.array(dtype=wp.int32),
        adr: wp.array(dtype=wp.int32),
        start: int,
        count: int,
        Sw: wp.array(dtype=column),
        Sv: wp.array(dtype=column),
        forces: wp.array(dtype=F),
        add_base: int,
    ):
        i_end = start + count
        i = int(start + lane())
        while i < i_end:
            k_end = i + 1
            k = int(first[i])
            while k < k_end:
                s = F(0.0)
                for c in range(3):
                    s += F(Sw[i][c]) * forces[5 * start + c * count + k]
                    s += F(Sv[i][c]) * forces[5 * start + (c + 3) * count + k]
                value = scalar(s)
                if add_base != 0:
                    value += scalar(base[adr[i] + k - first[i]])
                target[target_adr[i] + k - target_first[i]] = value
                k += 1
            i += wp.block_dim()
        barrier()

    return SimpleNamespace(store_force=store_force, add_rows=add_rows_plain)


@functools.cache
def make_copy(types: Types, source_types: Types, native: bool = True):
    """``copy(source, source_start, target, target_start, count)``: a contiguous copy that may change the precision."""
    snippet = _COPY.replace("SCALAR_X", source_types.c_name).replace("SCALAR", types.c_name)

    @wp.func_native(snippet)
    def copy(
        source: wp.array(dtype=source_types.scalar),
        source_start: int,
        target: wp.array(dtype=types.scalar),
        target_start: int,
        count: int,
    ): ...

    @wp.func
    def copy_plain(
        source: wp.array(dtype=source_types.scalar),
        source_start: int,
        target: wp.array(dtype=types.scalar),
        target_start: int,
        count: int,
    ):
        i = int(lane())
        while i < count:
            target[target_start + i] = types.scalar(source[source_start + i])
            i += wp.block_dim()

    return copy if native else copy_plain
