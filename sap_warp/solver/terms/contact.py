"""Compliant contact with regularized Coulomb friction (SAP; Castro et al., sections III and IV).

With vc the velocity of shape 1 relative to shape 0 at the contact, n the normal from 0 to 1, all in world axes:

    y_n = (vhat - n.vc) / R_n,   y_t = -vc_t / R_t,   y_r = |y_t|,   t = y_t / y_r
    stiction  y_r <= mu y_n            gamma = y_n n + y_t
    sliding   -mu_hat y_r < y_n        gamma_n = (y_n + mu_hat y_r) / (1 + mu_tilde^2),  gamma = gamma_n (n + mu t)
    apart     otherwise                gamma = 0
    l = 1/2 gamma^T R gamma,   dl/dvc = -gamma,   d2l/dvc2 = G

    R_n = max(beta^2/(4 pi^2) w, 1/(h k (h + tau))),   R_t = sigma w,   vhat = -phi0/(h + tau)
    k = k_a k_b/(k_a + k_b),   tau = tau_a + tau_b,   mu = 2 mu_a mu_b/(mu_a + mu_b)

with w the weight of the contact (`contact.weight`), phi0 its gap, mu_hat = mu R_t/R_n and mu_tilde^2 = mu^2 R_t/R_n.
The law is isotropic in the tangent plane, so no tangent axes are needed: everything is written with n and world
vectors. The norm of y_t is softened by EPSILON, y_r = sqrt(y_t.y_t + EPSILON^2) - EPSILON, so that t stays defined at
rest.
"""

import functools
import math
from types import SimpleNamespace
from typing import Any

import warp as wp

from ...core.kernels.types import Types
from ..settings.options import CONTACT_POINT_MODES, CONTACT_WEIGHT_MODES

EPSILON = 1e-7
"""Softening of the tangential norm [N s]."""

APART = wp.constant(0)
STICTION = wp.constant(1)
SLIDING = wp.constant(2)


WEIGHT_FLOOR = 1e-12
"""Smallest contact weight [1/kg]."""


@wp.struct
class ContactLaw:
    """The contact options of the solver."""

    weight_mode: int
    point_mode: int
    near_rigid: wp.float64  # R_n is at least this times w: beta^2 / (4 pi^2)
    sigma: wp.float64
    tau_d: wp.float64
    fallback_mu: wp.float64
    fallback_stiffness: wp.float64
    enforce_speed: int
    follows: int  # 1 if friction holds the slip of the whole step at zero
    follow_share: wp.float64  # see `contact.rows`: share of h, by the way positions are integrated


def contact_law(options: Any) -> Any:
    """The contact options as kernels read them."""
    law: Any = ContactLaw()
    law.weight_mode = CONTACT_WEIGHT_MODES.index(options.contact_weight_mode)
    law.point_mode = CONTACT_POINT_MODES.index(options.contact_point_mode)
    law.near_rigid = options.contact_beta**2 / (4.0 * math.pi**2)
    law.sigma = options.contact_sigma
    law.tau_d = options.contact_tau_d
    law.fallback_mu = options.fallback_mu
    law.fallback_stiffness = options.fallback_stiffness
    law.enforce_speed = int(options.velocity_limit_mode == "enforce")
    law.follows = int(options.stiction_mode == "displacement")
    law.follow_share = 0.5 if options.position_integration == "sap_euler" else 1.0
    return law


@wp.struct
class Material:
    """Of a shape, or of a contact of two."""

    k: wp.float64  # stiffness [N/m]
    mu: wp.float64
    tau: wp.float64  # dissipation time [s]


@wp.func
def combine_materials(a: Material, b: Material) -> Material:
    """The material of a contact of two shapes."""
    m = Material()
    m.k = a.k * b.k / (a.k + b.k)
    m.mu = wp.float64(0.0)
    if a.mu + b.mu > wp.float64(0.0):
        m.mu = wp.float64(2.0) * a.mu * b.mu / (a.mu + b.mu)
    m.tau = a.tau + b.tau
    return m


@wp.func
def decay_rate(m: wp.ref[Material], h: wp.float64) -> wp.float64:
    """1/(h + tau) [1/s]."""
    return wp.float64(1.0) / (h + m.tau)


@wp.func
def compliance(m: wp.ref[Material], h: wp.float64) -> wp.float64:
    """1/(h k (h + tau)) [1/kg]: R_n of the stiffness alone."""
    return wp.float64(1.0) / (h * m.k * (h + m.tau))


@functools.cache
def make_regularize(types: Types):
    """``regularize(law, phi0, w, rate, soft)``: weight, R_t, R_n and vhat of a contact, for one precision."""
    scalar = types.scalar

    @wp.struct
    class Regularization:
        weight: scalar  # w [1/kg]
        Rt: scalar  # [1/kg]
        Rn: scalar
        vhat: scalar  # [m/s]

    @wp.func
    def at_least(x: scalar, bound: scalar) -> scalar:
        """The larger one; nan if x is."""
        return wp.where(x < bound, bound, x)

    @wp.func
    def regularize(law: wp.ref[ContactLaw], phi0: scalar, w: scalar, rate: scalar, soft: scalar) -> Regularization:
        """Data of a contact with the gap phi0 and weight w; ``rate`` and ``soft`` are decay rate and compliance."""
        r = Regularization()
        r.weight = at_least(w, scalar(wp.static(WEIGHT_FLOOR)))
        r.Rt = scalar(law.sigma) * r.weight
        r.Rn = at_least(scalar(law.near_rigid) * r.weight, soft)
        r.vhat = -phi0 * rate
        return r

    return regularize


@functools.cache
def make_projection(types: Types) -> SimpleNamespace:
    """The law at one relative velocity, for one precision: `Projection`, and the device functions that find it."""
    scalar, vec3 = types.scalar, types.vec3
    eps = wp.constant(scalar(EPSILON))

    @wp.struct
    class Projection:
        mode: int
        gamma: vec3  # impulse on body 1 [N s]
        s: vec3  # sliding: n + mu t
        t: vec3  # sliding: direction of y_t
        # G = across 1 + along_n n n^T, and for sliding also - across t t^T + along_s s s^T
        across: scalar
        along_n: scalar
        along_s: scalar
        cost: scalar  # [J]

    @wp.func
    def impulse_of_stiction(vc: vec3, n: vec3, vhat: scalar, mobility_t: scalar, mobility_n: scalar):
        """y: its part along n, and across."""
        vn = wp.dot(n, vc)
        return (vhat - vn) * mobility_n, (n * vn - vc) * mobility_t

    @wp.func
    def held(vc: vec3, n: vec3, vhat: scalar, Rt: scalar, Rn: scalar) -> Projection:
        """The law of stiction, whatever impulse it takes."""
        r = Projection()
        mobility_n = scalar(1.0) / Rn
        mobility_t = scalar(1.0) / Rt
        yn, yt = impulse_of_stiction(vc, n, vhat, mobility_t, mobility_n)
        r.mode = STICTION
        r.gamma = n * yn + yt
        r.across = mobility_t
        r.along_n = mobility_n - mobility_t
        r.cost = scalar(0.5) * (Rn * yn * yn + Rt * wp.dot(yt, yt))
        return r

    @wp.func
    def project(vc: vec3, n: vec3, vhat: scalar, mu: scalar, Rt: scalar, Rn: scalar) -> Projection:
        """Impulse, cost and curvature at relative velocity vc."""
        r = Projection()
        mobility_n = scalar(1.0) / Rn
        mobility_t = scalar(1.0) / Rt
        yn, yt = impulse_of_stiction(vc, n, vhat, mobility_t, mobility_n)
        yy = wp.dot(yt, yt)
        norm = wp.sqrt(yy + eps * eps)  # y_r + EPSILON
        yr = norm - eps
        mu_hat = mu * Rt * mobility_n
        if mu > scalar(0.0) and yn > scalar(0.0) and yr <= mu * yn:
            r = held(vc, n, vhat, Rt, Rn)
        elif yn > -mu_hat * yr:
            f = scalar(1.0) / (scalar(1.0) + mu * mu_hat)
            gn = f * (yn + mu_hat * yr)
            r.mode = SLIDING
            r.t = yt * (scalar(1.0) / norm)
            r.s = n + r.t * mu
            r.gamma = r.s * gn
            r.across = mu * gn * mobility_t / norm
            r.along_n = -r.across
            r.along_s = f * mobility_n
            r.cost = scalar(0.5) * Rn * gn * (yn + mu_hat * yr)
        return r

    return SimpleNamespace(Projection=Projection, held=held, project=project)


@functools.cache
def make_track(types: Types) -> SimpleNamespace:
    """The law along a line of relative velocities, for one precision: `Track`, and the device functions about it."""
    scalar, vec3 = types.scalar, types.vec3
    eps = wp.constant(scalar(EPSILON))

    @wp.struct
    class Track:
        """A row along a line vc + alpha d: all that its cost depends on are n.vc and the square of vc_t."""

        vn: scalar  # n.vc
        dn: scalar  # n.d
        vv: scalar  # vc_t.vc_t
        vd: scalar  # vc_t.d_t
        dd: scalar  # d_t.d_t
        vhat: scalar
        mu: scalar
        mobility_n: scalar  # 1/R_n
        mobility_t: scalar  # 1/R_t
        mu_hat: scalar

    @wp.func
    def track(vc: vec3, d: vec3, n: vec3, vhat: scalar, mu: scalar, Rt: scalar, Rn: scalar) -> Track:
        """The row from vc on in direction d."""
        r = Track()
        r.vn = wp.dot(n, vc)
        r.dn = wp.dot(n, d)
        vt = vc - n * r.vn
        dt = d - n * r.dn
        r.vv = wp.dot(vt, vt)
        r.vd = wp.dot(vt, dt)
        r.dd = wp.dot(dt, dt)
        r.vhat = vhat
        r.mu = mu
        r.mobility_n = scalar(1.0) / Rn
        r.mobility_t = scalar(1.0) / Rt
        r.mu_hat = mu * Rt * r.mobility_n
        return r

    @wp.func
    def value_along(r: wp.ref[Track], alpha: scalar) -> vec3:
        """Cost, slope and curvature in alpha of one row: `project` at vc + alpha d, in scalars."""
        yn = (r.vhat - (r.vn + alpha * r.dn)) * r.mobility_n
        rate = (r.vd + alpha * r.dd) * r.mobility_t  # -y_t.d
        yy = wp.max(r.vv + alpha * (scalar(2.0) * r.vd + alpha * r.dd), scalar(0.0)) * r.mobility_t
        norm = wp.sqrt(yy * r.mobility_t + eps * eps)
        yr = norm - eps
        if r.mu > scalar(0.0) and yn > scalar(0.0) and yr <= r.mu * yn:
            return vec3(
                scalar(0.5) * (yn * yn / r.mobility_n + yy),
                rate - yn * r.dn,
                r.dn * r.dn * r.mobility_n + r.dd * r.mobility_t,
            )
        push = yn + r.mu_hat * yr
        if push > scalar(0.0):
            f = scalar(1.0) / (scalar(1.0) + r.mu * r.mu_hat)
            gn = f * push
            dt = -rate / norm  # t.d
            ds = r.dn + r.mu * dt
            return vec3(
                scalar(0.5) * gn * push / r.mobility_n,
                -gn * ds,
                f * r.mobility_n * ds * ds + r.mu * gn * r.mobility_t / norm * (r.dd - dt * dt),
            )
        return vec3()

    return SimpleNamespace(Track=Track, track=track, value_along=value_along)
