// Contact rows of a world, eight at a time, one lane: velocities, the law at them, and the law along a direction.
//
// The formulas are those of `terms/contact.py`, with the three modes as selections. Rows past the end are computed from
// whatever lies there and count nothing. Arrays that nothing reads after the solve have room for them behind their end
// (`core/kernels/structs.py`, PADDING); of others only true rows are written.
//
// Line contacts lie in groups of eight here, number by number: a group takes the memory of eight records.
#pragma once

namespace sap {

// What rows consist of, taken from the structs of a kernel.
template <class Number, class V3, class Row, class LineContact> struct ContactRows {
    typedef Number T;
    typedef V3 Vec3;
    const int *body_a, *body_b;
    const Vec3 *normal, *r_a, *r_b, *drift, *Vw, *Vv;
    const T *vhat, *mu, *Rt, *Rn;
    Vec3 *vc, *dvc;
    Row* projection;
    LineContact* line_contact;
};

template <class C, class D> inline SAP_INLINE auto contact_rows(const C& c, const D& s) {
    return ContactRows<typename Data_of<decltype(c.vhat)>::type, typename Data_of<decltype(c.normal)>::type,
        typename Data_of<decltype(s.projection)>::type, typename Data_of<decltype(s.line_contact)>::type>{c.body_a.data,
        c.body_b.data, c.normal.data, c.r_a.data, c.r_b.data, c.drift.data, s.Vw.data, s.Vv.data, c.vhat.data, c.mu.data,
        c.Rt.data, c.Rn.data, s.vc.data, s.dvc.data, s.projection.data, s.line_contact.data};
}

template <class T> struct Law {  // of eight rows
    Three<T> n;
    Vec<T> vhat, mu, Rt, Rn;
};

template <class T, class Rows> inline SAP_INLINE Law<T> law_of(const Rows& c, int row) {
    return {load3<T, T>(c.normal + row), load(c.vhat + row), load(c.mu + row), load(c.Rt + row), load(c.Rn + row)};
}

// Velocity at the points r of the bodies of eight rows; none of body -1 and of rows from `count` on.
template <class T, class Vec3>
inline SAP_INLINE Three<T> point_velocity(const int* body, int count, const Vec3* r, const Vec3* Vw, const Vec3* Vv) {
    static_assert(sizeof(Vec3) == 3 * sizeof(T), "three-vectors without gaps");
    Vec<T> V[8];
    SAP_UNROLL
    for (int l = 0; l < 8; ++l) {
        V[l] = Vec<T>{};
        if (l >= count || body[l] < 0) continue;
        const Vec<T> w = load((const T*)(Vw + body[l])), u = load((const T*)(Vv + body[l]));
        V[l] = __builtin_shufflevector(w, u, 0, 1, 2, 8, 9, 10, -1, -1);
    }
    transpose(V);
    return Three<T>{V[3], V[4], V[5]} + Three<T>{V[0], V[1], V[2]}.cross(load3<T, T>(r));
}

template <class T, class Rows> inline SAP_INLINE Three<T> relative_velocity(const Rows& c, int row, int count) {
    return point_velocity<T>(c.body_b + row, count, c.r_b + row, c.Vw, c.Vv)
        - point_velocity<T>(c.body_a + row, count, c.r_a + row, c.Vw, c.Vv);
}

// Three-vectors of the rows before `count`.
template <class T, class Vec3> inline SAP_INLINE void store_rows(Vec3* to, const Three<T>& v, int count) {
    if (count >= 8) {
        store3((T*)to, v.x, v.y, v.z);
        return;
    }
    T part[24];
    store3(part, v.x, v.y, v.z);
    for (int k = 0; k < 3 * count; ++k) ((T*)to)[k] = part[k];
}

// Impulse, cost and curvature of eight rows at vc; `Row` is the record `Projection`.
template <class T, class Row>
inline SAP_INLINE void project(Row* to, const Law<T>& c, const Three<T>& vc, T eps, int stiction, int sliding_mode) {
    typedef Vec<T> V;
    static_assert(__builtin_offsetof(Row, gamma) == sizeof(T) && __builtin_offsetof(Row, s) == 4 * sizeof(T)
            && __builtin_offsetof(Row, t) == 7 * sizeof(T) && __builtin_offsetof(Row, across) == 10 * sizeof(T)
            && __builtin_offsetof(Row, cost) == 13 * sizeof(T) && sizeof(Row) == 14 * sizeof(T),
        "fourteen numbers, of which the first one is the mode");
    const V none = {};
    const V mobility_n = T(1) / c.Rn, mobility_t = T(1) / c.Rt;
    const V vn = c.n.dot(vc);
    const V yn = (c.vhat - vn) * mobility_n;
    const Three<T> yt = (c.n * vn - vc) * mobility_t;
    const V yy = yt.dot(yt);
    const V norm = __builtin_elementwise_sqrt(yy + eps * eps);
    const V yr = norm - eps;
    const V mu_hat = c.mu * c.Rt * mobility_n;
    const auto sticks = (c.mu > none) & (yn > none) & (yr <= c.mu * yn);
    const auto slides = ~sticks & (yn > -mu_hat * yr);
    const V push = yn + mu_hat * yr;
    const V f = T(1) / (T(1) + c.mu * mu_hat);
    const V gn = f * push;
    const V inverse = T(1) / norm;
    const Three<T> t = yt * inverse;
    const Three<T> s = c.n + t * c.mu;
    const V across = c.mu * gn * mobility_t * inverse;
    auto either = [&](const V& stuck, const V& slid) SAP_INLINE { return sticks ? stuck : slides ? slid : none; };
    auto sliding = [&](const V& slid) SAP_INLINE { return slides ? slid : none; };
    union {
        V value;
        int bits[8 * sizeof(T) / sizeof(int)];
    } mode = {};
    SAP_UNROLL
    for (int l = 0; l < 8; ++l)
        mode.bits[l * (sizeof(T) / sizeof(int))] = sticks[l] ? stiction : slides[l] ? sliding_mode : 0;
    V low[8] = {mode.value, either(c.n.x * yn + yt.x, s.x * gn), either(c.n.y * yn + yt.y, s.y * gn),
        either(c.n.z * yn + yt.z, s.z * gn), sliding(s.x), sliding(s.y), sliding(s.z), sliding(t.x)};
    V high[8] = {sliding(t.y), sliding(t.z), either(mobility_t, across), either(mobility_n - mobility_t, -across),
        sliding(f * mobility_n), either(T(0.5) * (c.Rn * yn * yn + c.Rt * yy), T(0.5) * c.Rn * gn * push), none, none};
    transpose(low);
    transpose(high);
    T* at = (T*)to;
    SAP_UNROLL
    for (int l = 0; l < 8; ++l) {  // each ends in the next one, which is stored after it
        store(at + 14 * l, low[l]);
        store(at + 14 * l + 8, high[l]);
    }
}

// vc and projections of a world's rows at the velocities of the bodies.
template <class Rows> SAP_CALL void start_contacts(
    const Rows& c, int row, int row_end, typename Rows::T eps, int stiction, int sliding) {
    typedef typename Rows::T T;
    SAP_ROLLED
    for (; row < row_end; row += 8) {
        const Three<T> vc = load3<T, T>(c.drift + row) + relative_velocity<T>(c, row, row_end - row);
        store_rows(c.vc + row, vc, row_end - row);
        project(c.projection + row, law_of<T>(c, row), vc, eps, stiction, sliding);
    }
}

// vc + alpha dvc, and if asked to, projections there.
template <class Rows> SAP_CALL void advance_contacts(const Rows& c, int row, int row_end, typename Rows::T alpha,
    bool renew, typename Rows::T eps, int stiction, int sliding) {
    typedef typename Rows::T T;
    SAP_ROLLED
    for (; row < row_end; row += 8) {
        const Three<T> vc = load3<T, T>(c.vc + row) + load3<T, T>(c.dvc + row) * (Vec<T>{} + alpha);
        store_rows(c.vc + row, vc, row_end - row);
        if (renew) project(c.projection + row, law_of<T>(c, row), vc, eps, stiction, sliding);
    }
}

// dvc and line contacts of a world's rows from the velocities that the direction gives to the bodies.
template <class Rows> SAP_CALL void aim_contacts(const Rows& c, int row, int row_end) {
    typedef typename Rows::T T;
    typedef Vec<T> V;
    static_assert(sizeof(*c.line_contact) == 10 * sizeof(T), "a line contact is ten numbers");
    const V number = {0, 1, 2, 3, 4, 5, 6, 7};
    SAP_ROLLED
    for (; row < row_end; row += 8) {
        const Three<T> d = relative_velocity<T>(c, row, row_end - row);
        store3((T*)(c.dvc + row), d.x, d.y, d.z);
        const Three<T> vc = load3<T, T>(c.vc + row);
        const Law<T> law = law_of<T>(c, row);
        const V vn = law.n.dot(vc), dn = law.n.dot(d);
        const Three<T> vt = vc - law.n * vn, dt = d - law.n * dn;
        const V mobility_n = T(1) / law.Rn;
        const V line[10] = {vn, dn, vt.dot(vt), vt.dot(dt), dt.dot(dt), law.vhat, law.mu, mobility_n, T(1) / law.Rt,
            law.mu * law.Rt * mobility_n};
        const auto counts = number < V{} + T(row_end - row);
        T* to = (T*)(c.line_contact + row);
        SAP_UNROLL
        for (int k = 0; k < 10; ++k) {  // rows past the end are apart, whatever the step
            const V past = V{} + T(k == 5 ? -1 : k == 7 || k == 8 ? 1 : 0);
            store(to + 8 * k, V(counts ? line[k] : past));
        }
    }
}

// Sum over a world's rows of cost, slope and curvature in alpha, in the precision C.
template <class C, class T, class LineContact>
SAP_CALL void contacts_along(const LineContact* lines, int count, T alpha, T eps, C* out) {
    typedef Vec<T> V;
    typedef Vec<C> W;
    const V none = {};
    W total[8] = {};
    const T* r = (const T*)lines;
    SAP_ROLLED
    for (int row = 0; row < count; row += 8, r += 80) {
        const V vn = load(r), dn = load(r + 8), vv = load(r + 16), vd = load(r + 24), dd = load(r + 32);
        const V mu = load(r + 48), mobility_n = load(r + 56), mobility_t = load(r + 64), mu_hat = load(r + 72);
        const V yn = (load(r + 40) - (vn + alpha * dn)) * mobility_n;
        const V rate = (vd + alpha * dd) * mobility_t;
        const V square = vv + alpha * (T(2) * vd + alpha * dd);
        const V yy = (square > none ? square : none) * mobility_t;
        const V norm = __builtin_elementwise_sqrt(yy * mobility_t + eps * eps);
        const V yr = norm - eps;
        const V push = yn + mu_hat * yr;
        const auto sticks = (mu > none) & (yn > none) & (yr <= mu * yn);
        const auto slides = ~sticks & (push > none);
        const V f = T(1) / (T(1) + mu * mu_hat);
        const V gn = f * push;
        const V dt = -rate / norm;
        const V ds = dn + mu * dt;
        const V part[3] = {T(0.5) * ((sticks ? yn * yn : gn * push) / mobility_n + (sticks ? yy : none)),
            sticks ? rate - yn * dn : -gn * ds,
            sticks ? dn * dn * mobility_n + dd * mobility_t
                   : f * mobility_n * ds * ds + mu * gn * mobility_t / norm * (dd - dt * dt)};
        SAP_UNROLL
        for (int k = 0; k < 3; ++k) total[k] += __builtin_convertvector((sticks | slides) ? part[k] : none, W);
    }
    const W sums = sum_entries(total);
    SAP_UNROLL
    for (int k = 0; k < 3; ++k) out[k] = sums[k];
}

}  // namespace sap
