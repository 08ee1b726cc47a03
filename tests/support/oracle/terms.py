"""Convex terms of the SAP objective: value, first and second derivative of each, for one scalar or one contact.

Each function returns (cost, derivative, second derivative). The tests check them against one another by differences.
"""

from __future__ import annotations

import numpy as np

SOFT_NORM_EPS = 1e-7


def contact_projection(y, mu, Rt, Rn):
    """Impulse gamma(y), d gamma/dy and the region of the regularized cone projection (math 4.1).

    The tangential norm is Drake's soft norm y_r = sqrt(|y_t|^2 + eps^2) - eps with t = dy_r/dy_t = y_t/(y_r + eps).
    The cost consistent with it in the sliding region is 1/2 R_n (1 + mu_tilde^2) gamma_n^2 (with |t| = 1 that is
    1/2 gamma^T R gamma); see `contact_cost`.
    """
    yt, yn = y[:2], y[2]
    if mu <= 0.0:
        if yn <= 0.0:
            return np.zeros(3), np.zeros((3, 3)), "apart"
        return np.array([0.0, 0.0, yn]), np.diag([0.0, 0.0, 1.0]), "frictionless"
    soft = np.sqrt(yt @ yt + SOFT_NORM_EPS**2)
    yr = soft - SOFT_NORM_EPS
    t = yt / soft
    mu_hat, mu_tilde2 = mu * Rt / Rn, mu * mu * Rt / Rn
    if yr <= mu * yn:
        return y.copy(), np.eye(3), "stiction"
    if -mu_hat * yr < yn:
        f = 1.0 / (1.0 + mu_tilde2)
        gn = f * (yn + mu_hat * yr)
        D = np.empty((3, 3))
        D[2, 2] = f
        D[2, :2] = mu_hat * f * t
        D[:2, 2] = mu * f * t
        D[:2, :2] = mu * (mu_hat * f * np.outer(t, t) + gn / soft * (np.eye(2) - np.outer(t, t)))
        return np.append(mu * gn * t, gn), D, "sliding"
    return np.zeros(3), np.zeros((3, 3)), "apart"


def contact_cost(vc, vhat, mu, Rt, Rn):
    """(cost, d/dvc, d2/dvc2, region) of one contact."""
    R = np.array([Rt, Rt, Rn])
    gamma, D, region = contact_projection((vhat - vc) / R, mu, Rt, Rn)
    if region == "sliding":
        cost = 0.5 * Rn * (1.0 + mu * mu * Rt / Rn) * gamma[2] ** 2
    else:
        cost = 0.5 * gamma @ (R * gamma)
    return cost, -gamma, D / R, region


def unilateral(v, vhat, R):
    """gamma = max(0, (vhat - v)/R): the soft limit in velocity."""
    gamma = max(0.0, (vhat - v) / R)
    return 0.5 * R * gamma * gamma, -gamma, (1.0 / R if gamma > 0.0 else 0.0)


def drive(v, u0, K, effort, h):
    """force = clamp(u0 - K v, +-effort), cost = - integral from 0 to v of h force."""
    if K <= 0.0:
        force = np.clip(u0, -effort, effort)
        return -h * force * v, -h * force, 0.0

    def huber(u):
        return 0.5 * u * u if abs(u) <= effort else effort * (abs(u) - 0.5 * effort)

    u = u0 - K * v
    inside = abs(u) <= effort
    return h / K * (huber(u) - huber(u0)), -h * np.clip(u, -effort, effort), (h * K if inside else 0.0)


def dry_friction(v, limit, R):
    """Impulse -clamp(v/R, +-limit)."""
    if abs(v) <= R * limit:
        return 0.5 * v * v / R, v / R, 1.0 / R
    return limit * abs(v) - 0.5 * R * limit * limit, limit * np.sign(v), 0.0


def velocity_limit(v, vmax, R):
    """One-sided quadratic beyond +-vmax."""
    excess = abs(v) - vmax
    if excess <= 0.0:
        return 0.0, 0.0, 0.0
    return 0.5 * excess * excess / R, np.sign(v) * excess / R, 1.0 / R


def bilateral(v, vhat, R):
    """Cost, gradient and curvature of an equation that asks for the rate vhat."""
    return 0.5 * (vhat - v) ** 2 / R, (v - vhat) / R, 1.0 / R
