// Eight numbers at a time, for one lane on the CPU.
//
// Vectors are compiler extensions of eight entries, whatever registers the machine has. SAP_WIDE lets a function use the
// longest registers there are, which compilers avoid by default. Functions on plain pointers are SAP_CALL: compiled once
// for a module, however often they are called. Functions that take a kernel's structs are inlined: passed by address, a
// struct of hundreds of arrays would have to be in memory. A size that is a switch constant lets loops be unrolled.
#pragma once

#define SAP_INLINE __attribute__((always_inline))
#define SAP_WIDE min_vector_width(512)
#define SAP_CALL __attribute__((noinline, SAP_WIDE))
#define SAP_UNROLL _Pragma("clang loop unroll(full)")
#define SAP_ROLLED _Pragma("clang loop unroll(disable)")

namespace sap {

template <class T> struct Eight {
    typedef T Value __attribute__((vector_size(8 * sizeof(T))));
    // the same anywhere in memory, whatever else lies there
    typedef T Memory __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T)), may_alias));
    static_assert(sizeof(Value) == 8 * sizeof(T) && sizeof(Memory) == 8 * sizeof(T), "eight numbers without gaps");
};
template <class T> using Vec = typename Eight<T>::Value;
template <class T> using Mem = typename Eight<T>::Memory;

template <class T> inline SAP_INLINE Vec<T> load(const T* from) { return *(const Mem<T>*)from; }
template <class T> inline SAP_INLINE void store(T* to, Vec<T> v) { *(Mem<T>*)to = v; }

// Four partial sums: without them the compiler may not vectorize, because it would have to reorder additions.
template <class T> inline SAP_INLINE T dot(const T* a, const T* b, int n) {
    T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int k = 0;
    for (; k + 4 <= n; k += 4) {
        s0 += a[k] * b[k];
        s1 += a[k + 1] * b[k + 1];
        s2 += a[k + 2] * b[k + 2];
        s3 += a[k + 3] * b[k + 3];
    }
    for (; k < n; ++k) s0 += a[k] * b[k];
    return (s0 + s1) + (s2 + s3);
}

// Rows to columns of eight vectors, in place.
template <class V> inline SAP_INLINE void transpose(V* r) {
    V s[8], t[8];
    SAP_UNROLL
    for (int i = 0; i < 4; ++i) {
        s[i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        s[i + 4] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    SAP_UNROLL
    for (int i = 0; i < 4; ++i) {
        t[i] = __builtin_shufflevector(s[2 * i], s[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13);
        t[i + 4] = __builtin_shufflevector(s[2 * i], s[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    SAP_UNROLL
    for (int i = 0; i < 4; ++i) {
        r[i] = __builtin_shufflevector(t[2 * i], t[2 * i + 1], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = __builtin_shufflevector(t[2 * i], t[2 * i + 1], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

// The sums of eight vectors.
template <class V> inline SAP_INLINE V sum_entries(const V* a) {
    V s[4], t[2];
    SAP_UNROLL
    for (int i = 0; i < 4; ++i)
        s[i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14)
            + __builtin_shufflevector(a[2 * i], a[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    SAP_UNROLL
    for (int i = 0; i < 2; ++i)
        t[i] = __builtin_shufflevector(s[2 * i], s[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13)
            + __builtin_shufflevector(s[2 * i], s[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
    return __builtin_shufflevector(t[0], t[1], 0, 1, 2, 3, 8, 9, 10, 11)
        + __builtin_shufflevector(t[0], t[1], 4, 5, 6, 7, 12, 13, 14, 15);
}

// x with zeros before its last entries.
template <class V> inline SAP_INLINE V tail_of(V x, int entries) {
    V kept;
    SAP_UNROLL
    for (int l = 0; l < 8; ++l) kept[l] = l < 8 - entries ? 0 : x[l];
    return kept;
}

// Eight three-vectors that follow one another in a, b and c, by component.
template <class V> inline SAP_INLINE void thirds(V a, V b, V c, V* to) {
    to[0] = __builtin_shufflevector(
        __builtin_shufflevector(a, b, 0, 3, 6, 9, 12, 15, -1, -1), c, 0, 1, 2, 3, 4, 5, 10, 13);
    to[1] = __builtin_shufflevector(
        __builtin_shufflevector(a, b, 1, 4, 7, 10, 13, -1, -1, -1), c, 0, 1, 2, 3, 4, 8, 11, 14);
    to[2] = __builtin_shufflevector(
        __builtin_shufflevector(a, b, 2, 5, 8, 11, 14, -1, -1, -1), c, 0, 1, 2, 3, 4, 9, 12, 15);
}

// Eight three-vectors by component, to where they follow one another.
template <class T> inline SAP_INLINE void store3(T* to, Vec<T> x, Vec<T> y, Vec<T> z) {
    const Vec<T> a = __builtin_shufflevector(x, y, 0, 8, -1, 1, 9, -1, 2, 10);
    const Vec<T> b = __builtin_shufflevector(x, y, -1, 3, 11, -1, 4, 12, -1, 5);
    const Vec<T> c = __builtin_shufflevector(x, y, 13, -1, 6, 14, -1, 7, 15, -1);
    store(to, Vec<T>(__builtin_shufflevector(a, z, 0, 1, 8, 3, 4, 9, 6, 7)));
    store(to + 8, Vec<T>(__builtin_shufflevector(b, z, 10, 1, 2, 11, 4, 5, 12, 7)));
    store(to + 16, Vec<T>(__builtin_shufflevector(c, z, 0, 13, 2, 3, 14, 5, 6, 15)));
}

// A panel is up to six consecutive rows with the same first column, like the dofs of a joint and of the joints below it
// in a chain; larger panels take long to compile. `by_size` makes its size known to the compiler.
constexpr int most_rows = 6;

inline SAP_INLINE int panel_size(const int* first, int i, int end) {
    const int most = end - i < most_rows ? end - i : most_rows;
    int w = 1;
    while (w < most && first[i + w] == first[i]) ++w;
    return w;
}

template <class Step> inline SAP_INLINE void by_size(int size, Step step) {
    switch (size) {
        case 1: step(1); break;
        case 2: step(2); break;
        case 3: step(3); break;
        case 4: step(4); break;
        case 5: step(5); break;
        default: step(6);
    }
}

}  // namespace sap
