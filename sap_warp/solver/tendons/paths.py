"""Length and Jacobian of every transmission at the start of a step; see `equations/transmissions.py` for the kinds.

All kinds but SUM are sums over bodies: a body b contributes spin . w_b + push . v_b(p) to the rate of the length, with
v_b(p) the velocity of its point at p. A straight segment from p0 on body a to p1 on body b has push n on b and -n on a.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.launch import kernel
from ...core.kernels.spatial import to_vec3
from ...core.kernels.template import Constant, device
from ...core.kernels.types import FP64
from ..equations.data import EquationInput, body_point, body_rotation
from ..equations.transmissions import (
    BETWEEN,
    CRANK,
    CYLINDER,
    FORCE_IN_WORLD,
    NO_SIDE,
    PATH,
    PULLEY,
    SITE,
    SUM,
    TORQUE_IN_WORLD,
    WRENCH,
)
from ..model.layout import moves
from .wrapping import wrap_path

F, vec3 = wp.float64, wp.vec3d
to_vec3_64 = to_vec3.on(number=Constant(FP64))

TINY = 1e-12


@device
def add_body_rate(given: wp.ref[EquationInput], t: int, b: int, spin: vec3, push: vec3, p: vec3, o: vec3):
    """Let body b contribute spin . w + push . v(p) to the rate of transmission t; p is relative to o."""
    if b < 0:
        return
    root = given.layout.body_root[b]
    arm = p + (o - given.motion.origin[root])
    i = int(given.transmissions.entry[t])
    i_end = given.transmissions.entry[t + 1]
    while i < i_end:
        e = given.transmissions.entry_dof[i]
        if moves(given.layout, e, b):
            sw = to_vec3_64(given.motion.Sw[e])
            given.transmissions.J[i] = (
                given.transmissions.J[i]
                + wp.dot(spin, sw)
                + wp.dot(push, to_vec3_64(given.motion.Sv[e]) + wp.cross(sw, arm))
            )
        i += 1
    if given.layout.body_kinematic[root] != 0:
        w = to_vec3_64(given.motion.Vw[root])
        given.transmissions.kinematic_rate[t] = (
            given.transmissions.kinematic_rate[t]
            + wp.dot(spin, w)
            + wp.dot(push, to_vec3_64(given.motion.Vv[root]) + wp.cross(w, arm))
        )


@device
def add_segment(given: wp.ref[EquationInput], t: int, a: int, p0: vec3, b: int, p1: vec3, scale: F, o: vec3):
    """Add a straight segment from p0 on body a to p1 on body b, times ``scale``."""
    distance = wp.length(p1 - p0)
    given.transmissions.length[t] = given.transmissions.length[t] + scale * distance
    if distance > F(wp.static(TINY)) and a != b:
        n = (p1 - p0) * (scale / distance)
        add_body_rate(given, t, b, vec3(), n, p1, o)
        add_body_rate(given, t, a, vec3(), -n, p0, o)


@device
def add_path(given: wp.ref[EquationInput], t: int, o: vec3):
    """Add the length of a string over sites, pulleys, spheres and cylinders."""
    source = given.transmissions.source[t]
    scale = F(1.0)
    i = int(source.first)
    while i + 1 < source.last:
        here = given.transmissions.part[i]
        after = given.transmissions.part[i + 1]
        if here.kind == PULLEY:
            scale = F(1.0) / here.factor
            i += 1
        elif after.kind == PULLEY:
            i += 1
        else:
            p0 = body_point(given, here.body, here.p, o)
            if after.kind == SITE:
                add_segment(given, t, here.body, p0, after.body, body_point(given, after.body, after.p, o), scale, o)
                i += 1
            else:
                end = given.transmissions.part[i + 2]
                p1 = body_point(given, end.body, end.p, o)
                centre = body_point(given, after.body, after.p, o)
                r = body_rotation(given, after.body) * after.r
                side = vec3()
                if after.side != NO_SIDE:
                    side = wp.quat_rotate_inv(r, body_point(given, after.side, after.side_p, o) - centre)
                wrap = wrap_path(
                    wp.quat_rotate_inv(r, p0 - centre),
                    wp.quat_rotate_inv(r, p1 - centre),
                    after.factor,
                    after.kind == CYLINDER,
                    after.side != NO_SIDE,
                    side,
                )
                if wrap.length < F(0.0):
                    add_segment(given, t, here.body, p0, end.body, p1, scale, o)
                else:
                    w0 = centre + wp.quat_rotate(r, wrap.p0)
                    w1 = centre + wp.quat_rotate(r, wrap.p1)
                    add_segment(given, t, here.body, p0, after.body, w0, scale, o)
                    given.transmissions.length[t] = given.transmissions.length[t] + scale * wrap.length
                    add_segment(given, t, after.body, w1, end.body, p1, scale, o)
                i += 2


@device
def add_wrench(given: wp.ref[EquationInput], t: int, o: vec3):
    """Add the power of a wrench that acts at a site."""
    source = given.transmissions.source[t]
    site = given.transmissions.part[source.first]
    r = body_rotation(given, site.body) * site.r
    force = source.force
    torque = source.torque
    if (source.axes & FORCE_IN_WORLD) == 0:
        force = wp.quat_rotate(r, force)
    if (source.axes & TORQUE_IN_WORLD) == 0:
        torque = wp.quat_rotate(r, torque)
    add_body_rate(given, t, site.body, torque, force, body_point(given, site.body, site.p, o), o)


@device
def add_between(given: wp.ref[EquationInput], t: int, o: vec3):
    """Add the pose of a site as the reference site sees it, weighted by a wrench; J is that of MuJoCo."""
    source = given.transmissions.source[t]
    site = given.transmissions.part[source.first]
    other = given.transmissions.part[source.first + 1]
    r = body_rotation(given, other.body) * other.r
    p1 = body_point(given, site.body, site.p, o)
    p0 = body_point(given, other.body, other.p, o)
    turn = wp.quat_inverse(r) * (body_rotation(given, site.body) * site.r)
    if turn[3] < F(0.0):
        turn = -turn
    axis = vec3(turn[0], turn[1], turn[2])
    sine = wp.length(axis)
    angle = F(2.0) * wp.atan2(sine, turn[3])
    if sine > F(wp.static(TINY)):
        axis = axis * (angle / sine)
    given.transmissions.length[t] = wp.dot(source.force, wp.quat_rotate_inv(r, p1 - p0)) + wp.dot(source.torque, axis)
    force = wp.quat_rotate(r, source.force)
    torque = wp.quat_rotate(r, source.torque)
    add_body_rate(given, t, site.body, torque, force, p1, o)
    add_body_rate(given, t, other.body, -torque, -force, p0, o)


@device
def add_crank(given: wp.ref[EquationInput], t: int, o: vec3):
    """Add the travel of a slider-crank.

    With x from the slider to the crank and a the axis of the slider it is a.x - sqrt((a.x)^2 + rod^2 - x^2).
    """
    source = given.transmissions.source[t]
    crank = given.transmissions.part[source.first]
    slider = given.transmissions.part[source.first + 1]
    p1 = body_point(given, crank.body, crank.p, o)
    p0 = body_point(given, slider.body, slider.p, o)
    a = wp.quat_rotate(body_rotation(given, slider.body) * slider.r, vec3(F(0.0), F(0.0), F(1.0)))
    x = p1 - p0
    along = wp.dot(a, x)
    square = along * along + source.rod * source.rod - wp.dot(x, x)
    given.transmissions.length[t] = along
    by_x = a
    by_a = x
    if square > F(0.0):
        root = wp.sqrt(square)
        given.transmissions.length[t] = along - root
        by_x = a * (F(1.0) - along / root) + x / root
        by_a = x * (F(1.0) - along / root)
    gear = source.force[0]
    given.transmissions.length[t] = gear * given.transmissions.length[t]
    add_body_rate(given, t, crank.body, vec3(), by_x * gear, p1, o)
    add_body_rate(given, t, slider.body, wp.cross(a, by_a) * gear, -by_x * gear, p0, o)


@device
def add_sum(given: wp.ref[EquationInput], t: int):
    """Add the weighted sum of joint coordinates of a fixed tendon or a joint."""
    source = given.transmissions.source[t]
    i = int(source.first)
    while i < source.last:
        part = given.transmissions.part[i]
        given.transmissions.length[t] = given.transmissions.length[t] + part.factor * (given.q[part.coord] + part.ref)
        if part.dof >= given.free_dofs:
            given.transmissions.kinematic_rate[t] = (
                given.transmissions.kinematic_rate[t] + part.factor * given.motion.v0[part.dof]
            )
        j = int(given.transmissions.entry[t])
        while j < given.transmissions.entry[t + 1]:
            if given.transmissions.entry_dof[j] == part.dof:
                given.transmissions.J[j] = given.transmissions.J[j] + part.factor
            j += 1
        i += 1


@kernel
def measure_lengths(first_world: int, given: wp.array[EquationInput]):
    """Find length and J of all transmissions: one block per world, a lane for each."""
    world = first_world + wp.tid() // lane_count()
    transmissions = given[0].transmissions
    t_end = transmissions.world_transmission[world + 1]
    t = int(transmissions.world_transmission[world] + lane())
    while t < t_end:
        transmissions.length[t] = F(0.0)
        transmissions.kinematic_rate[t] = F(0.0)
        i = int(transmissions.entry[t])
        while i < transmissions.entry[t + 1]:
            transmissions.J[i] = F(0.0)
            i += 1
        source = transmissions.source[t]
        o = vec3()  # a point near the bodies: fp64 keeps its digits, and so do bodies far from the origin
        body = transmissions.part[source.first].body
        if source.kind != SUM and body >= 0:
            o = given[0].motion.origin[given[0].layout.body_root[body]]
        if source.kind == SUM:
            add_sum(given[0], t)
        elif source.kind == PATH:
            add_path(given[0], t, o)
        elif source.kind == WRENCH:
            add_wrench(given[0], t, o)
        elif source.kind == BETWEEN:
            add_between(given[0], t, o)
        elif source.kind == CRANK:
            add_crank(given[0], t, o)
        t += lane_count()
