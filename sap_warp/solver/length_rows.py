"""Length and Jacobian of every transmission at the start of a step; see `length_data`.

All kinds but SUM are made of pieces: a body b contributes spin . w_b + push . v_b(p) to the rate of the length, with
v_b(p) the velocity of its point at p. A straight segment from p0 on body a to p1 on body b has push n on b and -n on a.
"""

import functools

import warp as wp

from ..kernels.lanes import lane
from ..kernels.launch import solver_kernel
from ..kernels.types import Types
from .layout import Layout
from .length_data import (
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
    Lengths,
)
from .motion_data import make_motion_data
from .wrapping import wrap_path

TINY = 1e-12


@functools.cache
def make_length_stage(pose: Types, dynamics: Types):
    """Struct of what the kernel works with and makes."""
    Motion = make_motion_data(pose, dynamics)

    @wp.struct
    class LengthStage:
        layout: Layout
        motion: Motion
        q: wp.array(dtype=wp.float64)
        lengths: Lengths

    return LengthStage


@functools.cache
def make_length_kernel(pose: Types, dynamics: Types):
    """The kernel: one block per world, a lane for each length."""
    Motion, Stage = make_motion_data(pose, dynamics), make_length_stage(pose, dynamics)
    F, vec3, quat = wp.float64, wp.vec3d, wp.quatd

    @wp.func
    def to_vec3(v: dynamics.vec3) -> vec3:
        return vec3(F(v[0]), F(v[1]), F(v[2]))

    @wp.func
    def rotation(d: wp.ref[Motion], b: int) -> quat:
        """Orientation of a body; -1 is the world."""
        if b < 0:
            return wp.quat_identity(dtype=F)
        r = d.r[b]
        return wp.normalize(quat(F(r[0]), F(r[1]), F(r[2]), F(r[3])))

    @wp.func
    def point(layout: wp.ref[Layout], d: wp.ref[Motion], b: int, p: vec3, o: vec3) -> vec3:
        """Position of a body-fixed point relative to o."""
        if b < 0:
            return p - o
        q = d.p[b]
        return vec3(F(q[0]), F(q[1]), F(q[2])) + wp.quat_rotate(rotation(d, b), p) + (d.origin[layout.body_root[b]] - o)

    @wp.func
    def add_piece(
        layout: wp.ref[Layout],
        d: wp.ref[Motion],
        k: wp.ref[Lengths],
        t: int,
        b: int,
        spin: vec3,
        push: vec3,
        p: vec3,
        o: vec3,
    ):
        """Let a body contribute spin . w + push . v(p) to the rate of length t; p is relative to o."""
        if b < 0:
            return
        root = layout.body_root[b]
        arm = p + (o - d.origin[root])
        chain = layout.body_chain[b]
        i = int(k.entry[t])
        i_end = k.entry[t + 1]
        while i < i_end:
            e = k.entry_dof[i]
            if chain >= layout.rows.first[e] and chain <= e:  # dofs of a subtree are a range that ends at its root
                sw = to_vec3(d.Sw[e])
                k.J[i] = k.J[i] + wp.dot(spin, sw) + wp.dot(push, to_vec3(d.Sv[e]) + wp.cross(sw, arm))
            i += 1
        if layout.body_prescribed[root] != 0:
            w = to_vec3(d.Vw[root])
            k.known[t] = k.known[t] + wp.dot(spin, w) + wp.dot(push, to_vec3(d.Vv[root]) + wp.cross(w, arm))

    @wp.func
    def add_segment(
        layout: wp.ref[Layout],
        d: wp.ref[Motion],
        k: wp.ref[Lengths],
        t: int,
        a: int,
        p0: vec3,
        b: int,
        p1: vec3,
        scale: F,
        o: vec3,
    ):
        """A straight piece of a path, times ``scale``."""
        distance = wp.length(p1 - p0)
        k.length[t] = k.length[t] + scale * distance
        if distance > F(wp.static(TINY)) and a != b:
            n = (p1 - p0) * (scale / distance)
            add_piece(layout, d, k, t, b, vec3(), n, p1, o)
            add_piece(layout, d, k, t, a, vec3(), -n, p0, o)

    @wp.func
    def add_sum(d: wp.ref[Motion], k: wp.ref[Lengths], t: int, q: wp.array(dtype=F), free_dofs: int):
        source = k.source[t]
        i = int(source.first)
        while i < source.last:
            part = k.part[i]
            k.length[t] = k.length[t] + part.factor * (q[part.coord] + part.ref)
            if part.dof >= free_dofs:
                k.known[t] = k.known[t] + part.factor * d.v0[part.dof]
            j = int(k.entry[t])
            while j < k.entry[t + 1]:
                if k.entry_dof[j] == part.dof:
                    k.J[j] = k.J[j] + part.factor
                j += 1
            i += 1

    @wp.func
    def add_path(layout: wp.ref[Layout], d: wp.ref[Motion], k: wp.ref[Lengths], t: int, o: vec3):
        source = k.source[t]
        scale = F(1.0)
        i = int(source.first)
        while i + 1 < source.last:
            here = k.part[i]
            after = k.part[i + 1]
            if here.kind == PULLEY:
                scale = F(1.0) / here.factor
                i += 1
            elif after.kind == PULLEY:
                i += 1
            else:
                p0 = point(layout, d, here.body, here.p, o)
                if after.kind == SITE:
                    add_segment(
                        layout, d, k, t, here.body, p0, after.body, point(layout, d, after.body, after.p, o), scale, o
                    )
                    i += 1
                else:
                    end = k.part[i + 2]
                    p1 = point(layout, d, end.body, end.p, o)
                    centre = point(layout, d, after.body, after.p, o)
                    r = rotation(d, after.body) * after.r
                    side = vec3()
                    if after.side != NO_SIDE:
                        side = wp.quat_rotate_inv(r, point(layout, d, after.side, after.side_p, o) - centre)
                    wrap = wrap_path(
                        wp.quat_rotate_inv(r, p0 - centre),
                        wp.quat_rotate_inv(r, p1 - centre),
                        after.factor,
                        after.kind == CYLINDER,
                        after.side != NO_SIDE,
                        side,
                    )
                    if wrap.length < F(0.0):
                        add_segment(layout, d, k, t, here.body, p0, end.body, p1, scale, o)
                    else:
                        w0 = centre + wp.quat_rotate(r, wrap.p0)
                        w1 = centre + wp.quat_rotate(r, wrap.p1)
                        add_segment(layout, d, k, t, here.body, p0, after.body, w0, scale, o)
                        k.length[t] = k.length[t] + scale * wrap.length
                        add_segment(layout, d, k, t, after.body, w1, end.body, p1, scale, o)
                    i += 2

    @wp.func
    def add_wrench(layout: wp.ref[Layout], d: wp.ref[Motion], k: wp.ref[Lengths], t: int, o: vec3):
        source = k.source[t]
        site = k.part[source.first]
        r = rotation(d, site.body) * site.r
        force = source.force
        torque = source.torque
        if (source.axes & FORCE_IN_WORLD) == 0:
            force = wp.quat_rotate(r, force)
        if (source.axes & TORQUE_IN_WORLD) == 0:
            torque = wp.quat_rotate(r, torque)
        add_piece(layout, d, k, t, site.body, torque, force, point(layout, d, site.body, site.p, o), o)

    @wp.func
    def add_between(layout: wp.ref[Layout], d: wp.ref[Motion], k: wp.ref[Lengths], t: int, o: vec3):
        """Positions and rotations of a site as the reference site has them; J as MuJoCo takes it."""
        source = k.source[t]
        site = k.part[source.first]
        other = k.part[source.first + 1]
        r = rotation(d, other.body) * other.r
        p1 = point(layout, d, site.body, site.p, o)
        p0 = point(layout, d, other.body, other.p, o)
        turn = wp.quat_inverse(r) * (rotation(d, site.body) * site.r)
        if turn[3] < F(0.0):
            turn = -turn
        axis = vec3(turn[0], turn[1], turn[2])
        sine = wp.length(axis)
        angle = F(2.0) * wp.atan2(sine, turn[3])
        if sine > F(wp.static(TINY)):
            axis = axis * (angle / sine)
        k.length[t] = wp.dot(source.force, wp.quat_rotate_inv(r, p1 - p0)) + wp.dot(source.torque, axis)
        force = wp.quat_rotate(r, source.force)
        torque = wp.quat_rotate(r, source.torque)
        add_piece(layout, d, k, t, site.body, torque, force, p1, o)
        add_piece(layout, d, k, t, other.body, -torque, -force, p0, o)

    @wp.func
    def add_crank(layout: wp.ref[Layout], d: wp.ref[Motion], k: wp.ref[Lengths], t: int, o: vec3):
        """With x from the slider to the crank and a the axis of the slider: a.x - sqrt((a.x)^2 + rod^2 - x^2)."""
        source = k.source[t]
        crank = k.part[source.first]
        slider = k.part[source.first + 1]
        p1 = point(layout, d, crank.body, crank.p, o)
        p0 = point(layout, d, slider.body, slider.p, o)
        a = wp.quat_rotate(rotation(d, slider.body) * slider.r, vec3(F(0.0), F(0.0), F(1.0)))
        x = p1 - p0
        along = wp.dot(a, x)
        square = along * along + source.rod * source.rod - wp.dot(x, x)
        k.length[t] = along
        by_x = a
        by_a = x
        if square > F(0.0):
            root = wp.sqrt(square)
            k.length[t] = along - root
            by_x = a * (F(1.0) - along / root) + x / root
            by_a = x * (F(1.0) - along / root)
        gear = source.force[0]
        k.length[t] = gear * k.length[t]
        add_piece(layout, d, k, t, crank.body, vec3(), by_x * gear, p1, o)
        add_piece(layout, d, k, t, slider.body, wp.cross(a, by_a) * gear, -by_x * gear, p0, o)

    @solver_kernel
    def measure_lengths(first_world: int, stage: wp.array(dtype=Stage), free_dofs: int):
        world = first_world + wp.tid() // wp.block_dim()
        k = stage[0].lengths
        t_end = k.world_length[world + 1]
        t = int(k.world_length[world] + lane())
        while t < t_end:
            k.length[t] = F(0.0)
            k.known[t] = F(0.0)
            i = int(k.entry[t])
            while i < k.entry[t + 1]:
                k.J[i] = F(0.0)
                i += 1
            source = k.source[t]
            o = vec3()  # a point near the bodies: fp64 keeps its digits, and so do bodies far from the origin
            body = k.part[source.first].body
            if source.kind != SUM and body >= 0:
                o = stage[0].motion.origin[stage[0].layout.body_root[body]]
            if source.kind == SUM:
                add_sum(stage[0].motion, k, t, stage[0].q, free_dofs)
            elif source.kind == PATH:
                add_path(stage[0].layout, stage[0].motion, k, t, o)
            elif source.kind == WRENCH:
                add_wrench(stage[0].layout, stage[0].motion, k, t, o)
            elif source.kind == BETWEEN:
                add_between(stage[0].layout, stage[0].motion, k, t, o)
            elif source.kind == CRANK:
                add_crank(stage[0].layout, stage[0].motion, k, t, o)
            t += wp.block_dim()

    return measure_lengths
