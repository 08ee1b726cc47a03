"""The weight w of a contact: how easily its two bodies move relative to each other there [1/kg].

    body_inertia    mean over three orthogonal directions c of  1/m + (x x c)^T I^-1 (x x c),  summed over both bodies
    diag_delassus   |W|_F / 3 with W = J diag(A)^-1 J^T
    delassus        |W|_F / 3 with W = J A^-1 J^T

x is the arm of the witness in body axes, I the full tensor, which no choice of body axes changes. The sum over c of
(x x c)(x x c)^T is |x|^2 1 - x x^T, so a body's share is a quadratic form in x, whose coefficients are kept:
1/m + square . (x_i^2) - mixed . (x_2 x_3, x_3 x_1, x_1 x_2). A body without mass has the share of its carrier
(`topology.carriers`), and the one of diag_delassus where nothing that has mass carries it.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.launch import kernel
from ...core.kernels.spatial import to_vec3
from ...core.kernels.template import device, device_struct
from ...core.kernels.types import Bools, Ints
from ..model.layout import Layout
from ..model.links import Link
from ..model.motion_data import MotionData
from ..settings.options import CONTACT_WEIGHT_MODES
from ..settings.precisions import weight

scalar, vec3, mat33 = weight.scalar, weight.vec3, weight.mat33
WeightLink, to_weight = Link.on(number=weight), to_vec3.on(number=weight)

BODY_INERTIA = wp.constant(CONTACT_WEIGHT_MODES.index("body_inertia"))
DELASSUS = wp.constant(CONTACT_WEIGHT_MODES.index("delassus"))


@device_struct
class Mobility:
    """How easily a body moves at any of its points."""

    carrier: int  # body whose mobility this is, in solver order; -1 if there is none
    com: vec3  # centre of mass in the body frame [m]
    inv_mass: scalar
    square: vec3
    mixed: vec3


@device
def body_mobility(mobility: wp.ref[Mobility], point: vec3) -> scalar:
    """Mobility [1/kg] of a point in the carrier's frame."""
    x = point - mobility.com
    return (
        mobility.inv_mass
        + x[0] * (mobility.square[0] * x[0] - mobility.mixed[2] * x[1])
        + x[1] * (mobility.square[1] * x[1] - mobility.mixed[0] * x[2])
        + x[2] * (mobility.square[2] * x[2] - mobility.mixed[1] * x[0])
    )


@kernel
def pack_mobility(
    links: wp.array[WeightLink], carrier: Ints, body_world: Ints, mask: Bools, mobility_out: wp.array[Mobility]
):
    """Pack the mobilities of the worlds in ``mask``, or of all if it is empty, one thread per body."""
    if mask.shape[0] > 0:
        if not mask[body_world[wp.tid()]]:
            return
    mobility = Mobility()
    mobility.carrier = carrier[wp.tid()]
    if mobility.carrier >= 0:
        b = mobility.carrier
        # in fp64: the determinant of a small body is 0 in fp32
        W = mat33(wp.inverse(wp.mat33d(links[b].inertia))) / scalar(3.0)
        mobility.com = links[b].com
        mobility.inv_mass = scalar(1.0) / links[b].mass
        mobility.square = vec3(W[1, 1] + W[2, 2], W[2, 2] + W[0, 0], W[0, 0] + W[1, 1])
        mobility.mixed = vec3(W[1, 2] + W[2, 1], W[2, 0] + W[0, 2], W[0, 1] + W[1, 0])
    mobility_out[wp.tid()] = mobility


@device
def jacobian_column(motion: wp.ref[MotionData], e: int, on_a: bool, on_b: bool, r_a: vec3, r_b: vec3) -> vec3:
    """Dvc / dv_e in world axes."""
    # factors, not branches: a vector that branches change goes through memory
    a = wp.where(on_a, scalar(1.0), scalar(0.0))
    b = wp.where(on_b, scalar(1.0), scalar(0.0))
    return to_weight(motion.Sv[e]) * (b - a) + wp.cross(to_weight(motion.Sw[e]), r_b * b - r_a * a)


@device
def chain_start(layout: wp.ref[Layout], body: int) -> int:
    """The last dof that moves a body, or -1; the others are its `dof_parent`, and so on."""
    if body < 0:
        return -1
    return layout.body_chain[body]


@device
def is_above(layout: wp.ref[Layout], start: int, dof: int) -> bool:
    """Return True if ``dof`` is on the chain from ``start`` to the root."""
    return layout.rows.first[dof] <= start and start <= dof


@device_struct
class SymmetricSum:
    """Six entries of a symmetric matrix."""

    diagonal: vec3
    across: vec3  # yz, zx, xy


@device
def add_column(sum: wp.ref[SymmetricSum], c: vec3, factor: scalar):
    """Add factor c c^T."""
    f = c * factor
    sum.diagonal += wp.cw_mul(c, f)
    sum.across += vec3(c[1] * f[2], c[2] * f[0], c[0] * f[1])


@device
def diagonal_weight(layout: wp.ref[Layout], motion: wp.ref[MotionData], a: int, b: int, r_a: vec3, r_b: vec3) -> scalar:
    """|W|_F / 3 with W = J diag(A)^-1 J^T of a contact of the bodies a and b; -1 is one that cannot move."""
    W = SymmetricSum()
    i = int(chain_start(layout, a))
    j = int(chain_start(layout, b))
    while i >= 0:  # dofs that move a alone, where the sign of a column does not matter
        if is_above(layout, j, i):
            break
        add_column(
            W, to_weight(motion.Sv[i]) + wp.cross(to_weight(motion.Sw[i]), r_a), scalar(motion.inverse_diagonal[i])
        )
        i = layout.dof_parent[i]
    while j != i:  # b alone
        add_column(
            W, to_weight(motion.Sv[j]) + wp.cross(to_weight(motion.Sw[j]), r_b), scalar(motion.inverse_diagonal[j])
        )
        j = layout.dof_parent[j]
    arm = r_b - r_a
    while i >= 0:  # both
        add_column(W, wp.cross(to_weight(motion.Sw[i]), arm), scalar(motion.inverse_diagonal[i]))
        i = layout.dof_parent[i]
    square = wp.dot(W.diagonal, W.diagonal) + scalar(2.0) * wp.dot(W.across, W.across)
    return wp.sqrt(square) / scalar(3.0)


@device
def delassus_weight(
    layout: wp.ref[Layout], motion: wp.ref[MotionData], a: int, b: int, r_a: vec3, r_b: vec3, y: wp.array[vec3]
) -> scalar:
    """|W|_F / 3 with W = J A^-1 J^T of a contact of the bodies a and b; -1 is one that cannot move.

    W is Y^T Y with Y = L^-1 J^T: forward substitution along the chains, which reach the root in growing order. ``y``
    is scratch for Y's rows: for each dof a vector of each lane.
    """
    lanes = lane_count()
    W = mat33()
    start_a = chain_start(layout, a)
    start_b = chain_start(layout, b)
    i = int(start_a)
    j = int(start_b)
    while i >= 0 or j >= 0:
        e = wp.where(j < 0 or (i >= 0 and i < j), i, j)
        on_a = i == e
        on_b = j == e
        column = jacobian_column(motion, e, on_a, on_b, r_a, r_b)
        first = layout.rows.first[e]
        address = layout.rows.entry[e] - first
        k = start_a
        while k >= 0 and k < e:
            if k >= first:
                column -= y[k * lanes + lane()] * scalar(motion.A_factor[address + k])
            k = layout.dof_parent[k]
        k = start_b
        while k >= 0 and k < e:
            # what the two chains share was counted above
            if k >= first and not (start_a >= 0 and k >= start_a and is_above(layout, start_a, k)):
                column -= y[k * lanes + lane()] * scalar(motion.A_factor[address + k])
            k = layout.dof_parent[k]
        column = column * scalar(motion.A_factor[address + e])
        y[e * lanes + lane()] = column
        W += wp.outer(column, column)
        if on_a:
            i = layout.dof_parent[i]
        if on_b:
            j = layout.dof_parent[j]
    return wp.sqrt(wp.ddot(W, W)) / scalar(3.0)
