"""How easily a point of a body moves: the body's share of a contact's weight.

The mean over three orthogonal directions c of 1/m + (x x c)^T I^-1 (x x c), x the arm of the point in body axes. The
sum over c of (x x c)(x x c)^T is |x|^2 1 - x x^T, so this is a quadratic form in x, whose coefficients are kept:

    1/m + square . (x_i^2) - mixed . (x_2 x_3, x_3 x_1, x_1 x_2)
"""

import functools
from types import SimpleNamespace

import warp as wp

from ..kernels.launch import solver_kernel
from ..kernels.types import Types
from .kinematics import make_link


@functools.cache
def make_mobility(types: Types) -> SimpleNamespace:
    """The record ``Mobility`` of a body, ``body_mobility(m, point)`` and the kernel that packs the records."""
    scalar, vec3 = types.scalar, types.vec3
    Link = make_link(types)

    @wp.struct
    class Mobility:
        com: vec3  # centre of mass in the body frame [m]
        inv_mass: scalar
        square: vec3
        mixed: vec3

    @wp.func
    def body_mobility(m: wp.ref[Mobility], point: vec3) -> scalar:
        """Mobility [1/kg] of a point in the body frame."""
        x = point - m.com
        return (
            m.inv_mass
            + x[0] * (m.square[0] * x[0] - m.mixed[2] * x[1])
            + x[1] * (m.square[1] * x[1] - m.mixed[0] * x[2])
            + x[2] * (m.square[2] * x[2] - m.mixed[1] * x[0])
        )

    @solver_kernel
    def pack_mobility(links: wp.array(dtype=Link), mobility_out: wp.array(dtype=Mobility)):
        b = wp.tid()
        W = links[b].inv_inertia / scalar(3.0)
        m = Mobility()
        m.com = links[b].com
        m.inv_mass = scalar(1.0) / links[b].mass
        m.square = vec3(W[1, 1] + W[2, 2], W[2, 2] + W[0, 0], W[0, 0] + W[1, 1])
        m.mixed = vec3(W[1, 2] + W[2, 1], W[2, 0] + W[0, 2], W[0, 1] + W[1, 0])
        mobility_out[b] = m

    return SimpleNamespace(Mobility=Mobility, body_mobility=body_mobility, pack_mobility=pack_mobility)
