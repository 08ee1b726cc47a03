"""Compliant contact with regularized Coulomb friction (SAP; Castro et al., sections III and IV).

With vc the velocity of shape 1 relative to shape 0 at the contact, n the normal from 0 to 1, all in world axes:

    y_n = (vhat - n.vc) / R_n,   y_t = -vc_t / R_t,   y_r = |y_t|,   t = y_t / y_r
    stiction  y_r <= mu y_n            gamma = y_n n + y_t
    sliding   -mu_hat y_r < y_n        gamma_n = (y_n + mu_hat y_r) / (1 + mu_tilde^2),  gamma = gamma_n (n + mu t)
    apart     otherwise                gamma = 0
    l = 1/2 gamma^T R gamma,   dl/dvc = -gamma,   d2l/dvc2 = G

    R_n = max(beta^2/(4 pi^2) w, 1/(h k (h + tau))),   R_t = sigma w,   vhat = -phi0/(h + tau)
    k = k_a k_b/(k_a + k_b),   tau = tau_a + tau_b,   mu = 2 mu_a mu_b/(mu_a + mu_b)

with w the weight of the contact (`contact/weight.py`), phi0 its gap, mu_hat = mu R_t/R_n and mu_tilde^2 = mu^2 R_t/R_n.
The law is isotropic in the tangent plane, so no tangent axes are needed: everything is written with n and world
vectors. The norm of y_t is softened by EPSILON, y_r = sqrt(y_t.y_t + EPSILON^2) - EPSILON, so that t stays defined at
rest. `terms/near_rigid.py` says where beta comes from.
"""

from __future__ import annotations

from typing import Any

import warp as wp

from ...core.kernels.template import Template, device, device_struct
from ..settings.options import CONTACT_POINT_MODES, CONTACT_WEIGHT_MODES, SapOptions
from ..settings.precisions import solve
from .near_rigid import near_rigid

scalar, vec3 = solve.scalar, solve.vec3

EPSILON = 1e-7
"""Softening of the tangential norm [N s]."""
eps = Template(lambda variant: wp.constant(scalar.of(variant)(EPSILON)))

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
    near_rigid: wp.float64  # beta^2 / (4 pi^2): R_n is at least this times w
    sigma: wp.float64
    tau_d: wp.float64
    fallback_mu: wp.float64
    fallback_stiffness: wp.float64
    enforce_speed: int
    follows: int  # 1 if friction holds the slip of the whole step at zero
    follow_share: wp.float64  # share of h in the drift (`contact/rows.py`), by the way positions are integrated


def contact_law(options: SapOptions) -> Any:
    """Return the contact options as kernels read them."""
    law: Any = ContactLaw()
    law.weight_mode = CONTACT_WEIGHT_MODES.index(options.contact_weight_mode)
    law.point_mode = CONTACT_POINT_MODES.index(options.contact_point_mode)
    law.near_rigid = near_rigid(options.contact_beta)
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
    """The contact material of one shape, or of a contact between two."""

    k: wp.float64  # stiffness [N/m]
    mu: wp.float64  # coefficient of friction
    tau: wp.float64  # dissipation time [s]


@wp.func
def combine_materials(a: Material, b: Material) -> Material:
    """Return the material of a contact between two shapes."""
    both = Material()
    both.k = a.k * b.k / (a.k + b.k)
    both.mu = wp.float64(0.0)
    if a.mu + b.mu > wp.float64(0.0):
        both.mu = wp.float64(2.0) * a.mu * b.mu / (a.mu + b.mu)
    both.tau = a.tau + b.tau
    return both


@wp.func
def decay_rate(material: wp.ref[Material], h: wp.float64) -> wp.float64:
    """Return 1/(h + tau) [1/s]."""
    return wp.float64(1.0) / (h + material.tau)


@wp.func
def compliance(material: wp.ref[Material], h: wp.float64) -> wp.float64:
    """Return 1/(h k (h + tau)) [1/kg], the R_n that the stiffness alone asks for."""
    return wp.float64(1.0) / (h * material.k * (h + material.tau))


@device_struct
class Regularization:
    """What a contact's law depends on beside the velocity and mu."""

    weight: scalar  # w [1/kg]
    Rt: scalar  # [1/kg]
    Rn: scalar
    vhat: scalar  # [m/s]


@device
def at_least(x: scalar, bound: scalar) -> scalar:
    """Return the larger of both; NaN if x is NaN."""
    return wp.where(x < bound, bound, x)


@device
def regularize(law: wp.ref[ContactLaw], phi0: scalar, w: scalar, rate: scalar, soft: scalar) -> Regularization:
    """Return what follows from the gap phi0 and the weight w; ``rate`` is `decay_rate`, ``soft`` is `compliance`."""
    result = Regularization()
    result.weight = at_least(w, scalar(wp.static(WEIGHT_FLOOR)))
    result.Rt = scalar(law.sigma) * result.weight
    result.Rn = at_least(scalar(law.near_rigid) * result.weight, soft)
    result.vhat = -phi0 * rate
    return result


@device_struct
class Projection:
    """Impulse, cost and curvature of a contact at one relative velocity.

    The curvature is G = across 1 + along_n n n^T, and for sliding also - across t t^T + along_s s s^T.
    """

    mode: int
    gamma: vec3  # impulse on body 1 [N s]
    s: vec3  # sliding: n + mu t
    t: vec3  # sliding: direction of y_t
    across: scalar
    along_n: scalar
    along_s: scalar
    cost: scalar  # [J]


@device
def impulse_of_stiction(vc: vec3, n: vec3, vhat: scalar, mobility_t: scalar, mobility_n: scalar):
    """Return y as its size along n and its vector across n."""
    vn = wp.dot(n, vc)
    return (vhat - vn) * mobility_n, (n * vn - vc) * mobility_t


@device
def project_sticking(vc: vec3, n: vec3, vhat: scalar, Rt: scalar, Rn: scalar) -> Projection:
    """Evaluate the law of stiction at relative velocity vc, however large the impulse is that it takes."""
    result = Projection()
    mobility_n = scalar(1.0) / Rn
    mobility_t = scalar(1.0) / Rt
    yn, yt = impulse_of_stiction(vc, n, vhat, mobility_t, mobility_n)
    result.mode = STICTION
    result.gamma = n * yn + yt
    result.across = mobility_t
    result.along_n = mobility_n - mobility_t
    result.cost = scalar(0.5) * (Rn * yn * yn + Rt * wp.dot(yt, yt))
    return result


@device
def project(vc: vec3, n: vec3, vhat: scalar, mu: scalar, Rt: scalar, Rn: scalar) -> Projection:
    """Evaluate the law at relative velocity vc: impulse, cost and curvature."""
    result = Projection()
    mobility_n = scalar(1.0) / Rn
    mobility_t = scalar(1.0) / Rt
    yn, yt = impulse_of_stiction(vc, n, vhat, mobility_t, mobility_n)
    yy = wp.dot(yt, yt)
    norm = wp.sqrt(yy + eps * eps)  # y_r + EPSILON
    yr = norm - eps
    mu_hat = mu * Rt * mobility_n
    if mu > scalar(0.0) and yn > scalar(0.0) and yr <= mu * yn:
        result = project_sticking(vc, n, vhat, Rt, Rn)
    elif yn > -mu_hat * yr:
        f = scalar(1.0) / (scalar(1.0) + mu * mu_hat)
        gn = f * (yn + mu_hat * yr)
        result.mode = SLIDING
        result.t = yt * (scalar(1.0) / norm)
        result.s = n + result.t * mu
        result.gamma = result.s * gn
        result.across = mu * gn * mobility_t / norm
        result.along_n = -result.across
        result.along_s = f * mobility_n
        result.cost = scalar(0.5) * Rn * gn * (yn + mu_hat * yr)
    return result


@device_struct
class LineContact:
    """A contact along a line vc + alpha d of relative velocities.

    The cost depends on nothing but n.vc and the square of vc_t, so no vectors are left.
    """

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


@device
def line_contact_at(vc: vec3, d: vec3, n: vec3, vhat: scalar, mu: scalar, Rt: scalar, Rn: scalar) -> LineContact:
    """Return a contact along the line from vc on in direction d."""
    line = LineContact()
    line.vn = wp.dot(n, vc)
    line.dn = wp.dot(n, d)
    vt = vc - n * line.vn
    dt = d - n * line.dn
    line.vv = wp.dot(vt, vt)
    line.vd = wp.dot(vt, dt)
    line.dd = wp.dot(dt, dt)
    line.vhat = vhat
    line.mu = mu
    line.mobility_n = scalar(1.0) / Rn
    line.mobility_t = scalar(1.0) / Rt
    line.mu_hat = mu * Rt * line.mobility_n
    return line


@device
def value_along(line: wp.ref[LineContact], alpha: scalar) -> vec3:
    """Return cost, slope and curvature in alpha of one contact: `project` at vc + alpha d, in scalars."""
    yn = (line.vhat - (line.vn + alpha * line.dn)) * line.mobility_n
    rate = (line.vd + alpha * line.dd) * line.mobility_t  # -y_t.d
    yy = wp.max(line.vv + alpha * (scalar(2.0) * line.vd + alpha * line.dd), scalar(0.0)) * line.mobility_t
    norm = wp.sqrt(yy * line.mobility_t + eps * eps)
    yr = norm - eps
    if line.mu > scalar(0.0) and yn > scalar(0.0) and yr <= line.mu * yn:
        return vec3(
            scalar(0.5) * (yn * yn / line.mobility_n + yy),
            rate - yn * line.dn,
            line.dn * line.dn * line.mobility_n + line.dd * line.mobility_t,
        )
    push = yn + line.mu_hat * yr
    if push > scalar(0.0):
        f = scalar(1.0) / (scalar(1.0) + line.mu * line.mu_hat)
        gn = f * push
        dt = -rate / norm  # t.d
        ds = line.dn + line.mu * dt
        return vec3(
            scalar(0.5) * gn * push / line.mobility_n,
            -gn * ds,
            f * line.mobility_n * ds * ds + line.mu * gn * line.mobility_t / norm * (line.dd - dt * dt),
        )
    return vec3()
