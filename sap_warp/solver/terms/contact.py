"""Compliant contact with regularized Coulomb friction (SAP; Castro et al., sections III and IV).

With vc the velocity of shape 1 relative to shape 0 at the contact, n the normal from 0 to 1, all in world axes:

    y_n = (vhat - n.vc) / R_n,   y_t = -vc_t / R_t,   y_r = |y_t|,   t = y_t / y_r
    stiction  y_r <= mu y_n            gamma = y_n n + y_t
    sliding   -mu_hat y_r < y_n        gamma_n = (y_n + mu_hat y_r) / (1 + mu_tilde^2),  gamma = gamma_n (n + mu t)
    apart     otherwise                gamma = 0
    l = 1/2 gamma^T R gamma,   dl/dvc = -gamma,   d2l/dvc2 = G

with mu_hat = mu R_t/R_n and mu_tilde^2 = mu^2 R_t/R_n. The law is isotropic in the tangent plane, so no tangent axes
are needed: everything is written with n and world vectors. The norm of y_t is softened by EPSILON, y_r =
sqrt(y_t.y_t + EPSILON^2) - EPSILON, so that t stays defined at rest.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...precision import Types

EPSILON = 1e-7
"""Softening of the tangential norm [N s]."""

APART = wp.constant(0)
STICTION = wp.constant(1)
SLIDING = wp.constant(2)


@functools.cache
def make_contact_term(types: Types) -> SimpleNamespace:
    """Device functions of the term for one precision."""
    scalar, vec3, mat33 = types.scalar, types.vec3, types.mat33
    eps = wp.constant(scalar(EPSILON))

    @wp.struct
    class Projection:
        mode: int
        gamma: vec3  # impulse on body 1 [N s]
        s: vec3  # sliding: n + mu t
        t: vec3  # direction of y_t
        a: scalar  # sliding: curvature along s
        c: scalar  # sliding: curvature across s in the tangent plane
        cost: scalar  # [J]

    @wp.func
    def project(vc: vec3, n: vec3, vhat: scalar, mu: scalar, Rt: scalar, Rn: scalar) -> Projection:
        """Impulse, cost and the ingredients of the curvature at relative velocity vc."""
        r = Projection()
        vn = wp.dot(n, vc)
        yn = (vhat - vn) / Rn
        yt = (n * vn - vc) / Rt
        norm = wp.sqrt(wp.dot(yt, yt) + eps * eps)  # y_r + EPSILON
        yr = norm - eps
        mu_hat = mu * Rt / Rn
        if mu > scalar(0.0) and yn > scalar(0.0) and yr <= mu * yn:
            r.mode = STICTION
            r.gamma = n * yn + yt
            r.cost = scalar(0.5) * (Rn * yn * yn + Rt * wp.dot(yt, yt))
        elif yn > -mu_hat * yr:
            f = scalar(1.0) / (scalar(1.0) + mu * mu_hat)
            gn = f * (yn + mu_hat * yr)
            r.mode = SLIDING
            r.t = yt / norm
            r.s = n + r.t * mu
            r.gamma = r.s * gn
            r.a = f / Rn
            r.c = mu * gn / (norm * Rt)
            r.cost = scalar(0.5) * Rn * gn * gn / f
        return r

    @wp.func
    def curvature_along(r: wp.ref[Projection], d: vec3, n: vec3, Rt: scalar, Rn: scalar) -> scalar:
        """d^T G d."""
        dn = wp.dot(n, d)
        if r.mode == STICTION:
            return dn * dn / Rn + (wp.dot(d, d) - dn * dn) / Rt
        if r.mode == SLIDING:
            ds = wp.dot(r.s, d)
            dt = wp.dot(r.t, d)
            return r.a * ds * ds + r.c * (wp.dot(d, d) - dn * dn - dt * dt)
        return scalar(0.0)

    @wp.func
    def curvature(r: wp.ref[Projection], n: vec3, Rt: scalar, Rn: scalar) -> mat33:
        """G in world axes."""
        if r.mode == STICTION:
            return wp.identity(n=3, dtype=scalar) * (scalar(1.0) / Rt) + wp.outer(n, n) * (
                scalar(1.0) / Rn - scalar(1.0) / Rt
            )
        if r.mode == SLIDING:
            tangent = wp.identity(n=3, dtype=scalar) - wp.outer(n, n) - wp.outer(r.t, r.t)
            return wp.outer(r.s, r.s) * r.a + tangent * r.c
        return mat33()

    return SimpleNamespace(Projection=Projection, project=project, curvature_along=curvature_along, curvature=curvature)
