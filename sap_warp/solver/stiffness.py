"""Contact stiffness of a body, a symmetric 6x6 matrix about its tree's reference point, angular part first.

    K = sum over rows  X^T G X,   X = (-[r]x, 1),   G = sum of k u u^T

A stiffness k along u adds k w w^T with w = (r x u, u). A matrix lies in six columns of eight numbers, of which the last
two are zero: on the CPU a column is one vector (a compiler extension, whatever registers the machine has), and adding a
direction, a child's matrix, or multiplying a motion column are six instructions each. KEEP hides from the compiler what
is in a result that is taken apart; it would compute each of the parts by itself. The snippets have plain Warp twins,
which tests compare them with.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ..kernels.types import Types
from .block import INLINE, UNROLL
from .terms.contact import SLIDING, make_contact_term

SIZE = 48
"""Numbers of one matrix."""

_COLUMN = """
    typedef SCALAR T;
#ifdef __CUDA_ARCH__
    struct V {
        T x[6];
        INLINE_CUDA V operator*(T s) const { V r; for (int i = 0; i < 6; ++i) r.x[i] = x[i] * s; return r; }
        INLINE_CUDA V operator+(const V& o) const { V r; for (int i = 0; i < 6; ++i) r.x[i] = x[i] + o.x[i]; return r; }
        INLINE_CUDA T operator[](int i) const { return x[i]; }
    };
    auto column = [](T a, T b, T c, T d, T e, T f) { return V{{a, b, c, d, e, f}}; };
    auto load = [](const T* from) { return *(const V*)from; };
    auto store = [](T* to, const V& v) { *(V*)to = v; };
    #define KEEP(x)
#else
    struct Wide { static __attribute__((always_inline, min_vector_width(512))) void allow() {} };
    Wide::allow();
    typedef T V __attribute__((vector_size(8 * sizeof(T))));
    typedef T U __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T)), may_alias));
    auto column = [](T a, T b, T c, T d, T e, T f) INLINE { return V{a, b, c, d, e, f, 0, 0}; };
    auto load = [](const T* from) INLINE { return V(*(const U*)from); };
    auto store = [](T* to, V v) INLINE { *(U*)to = v; };
    #define KEEP(x) asm("" : "+m"(x))
#endif
"""

_GATHER = (
    _COLUMN
    + """
    V k[6];
    UNROLL
    for (int c = 0; c < 6; ++c) k[c] = column(0, 0, 0, 0, 0, 0);
    for (int i = start; i < start + count; ++i) {
        const int side = body_row.data[i] & 1;
        const int row = body_row.data[i] >> 1;
        const auto& r = projection.data[row];
        if (r.mode == 0) continue;
        const auto& a = side ? r_b.data[row] : r_a.data[row];
        const auto& n = normal.data[row];
        auto add = [&](T x, T y, T z, T s) INLINE {
            const V w = column(a[1] * z - a[2] * y, a[2] * x - a[0] * z, a[0] * y - a[1] * x, x, y, z);
            const V ws = w * s;
            UNROLL
            for (int c = 0; c < 6; ++c) k[c] = k[c] + w * ws[c];
        };
        add(1, 0, 0, r.across);
        add(0, 1, 0, r.across);
        add(0, 0, 1, r.across);
        add(n[0], n[1], n[2], r.along_n);
        if (r.mode == SLIDING) {
            add(r.t[0], r.t[1], r.t[2], -r.across);
            add(r.s[0], r.s[1], r.s[2], r.along_s);
        }
    }
    UNROLL
    for (int c = 0; c < 6; ++c) store(K.data + 48 * b + 8 * c, k[c]);
"""
)

_ADD_CHILD = (
    _COLUMN
    + """
    T* to = K.data + 48 * b;
    const T* from = K.data + 48 * child;
    UNROLL
    for (int c = 0; c < 6; ++c) store(to + 8 * c, load(to + 8 * c) + load(from + 8 * c));
"""
)

_MULTIPLY = (
    _COLUMN
    + """
    V k[6];
    UNROLL
    for (int c = 0; c < 6; ++c) k[c] = load(K.data + 48 * b + 8 * c);
    for (int e = first; e < last; ++e) {
        const auto& w = Sw.data[e];
        const auto& u = Sv.data[e];
        const V f = (k[0] * T(w[0]) + k[1] * T(w[1]) + k[2] * T(w[2]))
            + (k[3] * T(u[0]) + k[4] * T(u[1]) + k[5] * T(u[2]));
        T part[8];
        store(part, f);
        KEEP(part);
        T* to = forces.data + 5 * start + e;
        UNROLL
        for (int c = 0; c < 6; ++c) to[c * count] = part[c];
    }
"""
)


def _complete(snippet: str, types: Types) -> str:
    text = snippet + "#undef KEEP\n"
    text = text.replace("SCALAR", types.c_name).replace("SLIDING", str(int(SLIDING)))
    return text.replace("INLINE_CUDA", "__device__").replace("INLINE", INLINE).replace("UNROLL", UNROLL)


@functools.cache
def make_stiffness(dynamics: Types, types: Types, native: bool = True) -> SimpleNamespace:
    """Device functions on arrays of such matrices; ``dynamics`` is the precision of motion columns.

    ``gather`` sums up the rows of a body, ``add_child`` adds another body's matrix, ``multiply`` writes the forces
    K S of dofs, in six runs for each world, as `block.make_add_rows` takes them.
    """
    scalar, vec3 = types.scalar, types.vec3
    Projection = make_contact_term(types).Projection
    column = dynamics.vec3

    if native:

        @wp.func_native(_complete(_GATHER, types))
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
        ): ...

        @wp.func_native(_complete(_ADD_CHILD, types))
        def add_child(K: wp.array(dtype=scalar), b: int, child: int): ...

        @wp.func_native(_complete(_MULTIPLY, types))
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
        ): ...

        return SimpleNamespace(gather=gather, add_child=add_child, multiply=multiply)

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
    def gather_plain(
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
    def add_child_plain(K: wp.array(dtype=scalar), b: int, child: int):
        for i in range(48):
            K[48 * b + i] = K[48 * b + i] + K[48 * child + i]

    @wp.func
    def multiply_plain(
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
        for e in range(first, last):
            for r in range(6):
                f = scalar(0.0)
                for c in range(3):
                    f += K[48 * b + 8 * c + r] * scalar(Sw[e][c])
                    f += K[48 * b + 8 * (c + 3) + r] * scalar(Sv[e][c])
                forces[5 * start + e + r * count] = f

    return SimpleNamespace(gather=gather_plain, add_child=add_child_plain, multiply=multiply_plain)
