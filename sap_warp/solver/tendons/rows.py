"""Length and Jacobian of every transmission at the start of a step; see `data`.

All kinds but SUM are made of pieces: a body b contributes spin . w_b + push . v_b(p) to the rate of the length, with
v_b(p) the velocity of its point at p. A straight segment from p0 on body a to p1 on body b has push n on b and -n on a.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.launch import solver_kernel
from ...core.kernels.types import Types
from ..equations.data import make_row_input, make_row_points
from ..model.layout import moves
from .data import BETWEEN, CRANK, CYLINDER, FORCE_IN_WORLD, NO_SIDE, PATH, PULLEY, SITE, SUM, TORQUE_IN_WORLD, WRENCH
from .wrapping import wrap_path

TINY = 1e-12
F, vec3 = wp.float64, wp.vec3d


@functools.cache
def make_pieces(pose: Types, dynamics: Types) -> SimpleNamespace:
    """`RowInput`, points of bodies, and device functions that let pieces contribute to a length and to its J."""
    Input, points = make_row_input(pose, dynamics), make_row_points(pose, dynamics)
    to_vec3 = points.to_vec3

    @wp.func
    def add_piece(s: wp.ref[Input], t: int, b: int, spin: vec3, push: vec3, p: vec3, o: vec3):
        """Let a body contribute spin . w + push . v(p) to the rate of length t; p is relative to o."""
        if b < 0:
            return
        root = s.layout.body_root[b]
        arm = p + (o - s.motion.origin[root])
        i = int(s.lengths.entry[t])
        i_end = s.lengths.entry[t + 1]
        while i < i_end:
            e = s.lengths.entry_dof[i]
            if moves(s.layout, e, b):
                sw = to_vec3(s.motion.Sw[e])
                s.lengths.J[i] = (
                    s.lengths.J[i] + wp.dot(spin, sw) + wp.dot(push, to_vec3(s.motion.Sv[e]) + wp.cross(sw, arm))
                )
            i += 1
        if s.layout.body_prescribed[root] != 0:
            w = to_vec3(s.motion.Vw[root])
            s.lengths.prescribed[t] = (
                s.lengths.prescribed[t] + wp.dot(spin, w) + wp.dot(push, to_vec3(s.motion.Vv[root]) + wp.cross(w, arm))
            )

    @wp.func
    def add_segment(s: wp.ref[Input], t: int, a: int, p0: vec3, b: int, p1: vec3, scale: F, o: vec3):
        """A straight piece of a path, times ``scale``."""
        distance = wp.length(p1 - p0)
        s.lengths.length[t] = s.lengths.length[t] + scale * distance
        if distance > F(wp.static(TINY)) and a != b:
            n = (p1 - p0) * (scale / distance)
            add_piece(s, t, b, vec3(), n, p1, o)
            add_piece(s, t, a, vec3(), -n, p0, o)

    return SimpleNamespace(
        Input=Input, rotation=points.rotation, point=points.point, add_piece=add_piece, add_segment=add_segment
    )


@functools.cache
def make_add_path(pose: Types, dynamics: Types):
    """``add_path(s, t, o)``: the length of a string over sites, pulleys, spheres and cylinders."""
    pieces = make_pieces(pose, dynamics)
    Input, rotation, point, add_segment = pieces.Input, pieces.rotation, pieces.point, pieces.add_segment

    @wp.func
    def add_path(s: wp.ref[Input], t: int, o: vec3):
        source = s.lengths.source[t]
        scale = F(1.0)
        i = int(source.first)
        while i + 1 < source.last:
            here = s.lengths.part[i]
            after = s.lengths.part[i + 1]
            if here.kind == PULLEY:
                scale = F(1.0) / here.factor
                i += 1
            elif after.kind == PULLEY:
                i += 1
            else:
                p0 = point(s, here.body, here.p, o)
                if after.kind == SITE:
                    add_segment(s, t, here.body, p0, after.body, point(s, after.body, after.p, o), scale, o)
                    i += 1
                else:
                    end = s.lengths.part[i + 2]
                    p1 = point(s, end.body, end.p, o)
                    centre = point(s, after.body, after.p, o)
                    r = rotation(s, after.body) * after.r
                    side = vec3()
                    if after.side != NO_SIDE:
                        side = wp.quat_rotate_inv(r, point(s, after.side, after.side_p, o) - centre)
                    wrap = wrap_path(
                        wp.quat_rotate_inv(r, p0 - centre),
                        wp.quat_rotate_inv(r, p1 - centre),
                        after.factor,
                        after.kind == CYLINDER,
                        after.side != NO_SIDE,
                        side,
                    )
                    if wrap.length < F(0.0):
                        add_segment(s, t, here.body, p0, end.body, p1, scale, o)
                    else:
                        w0 = centre + wp.quat_rotate(r, wrap.p0)
                        w1 = centre + wp.quat_rotate(r, wrap.p1)
                        add_segment(s, t, here.body, p0, after.body, w0, scale, o)
                        s.lengths.length[t] = s.lengths.length[t] + scale * wrap.length
                        add_segment(s, t, after.body, w1, end.body, p1, scale, o)
                    i += 2

    return add_path


@functools.cache
def make_add_sites(pose: Types, dynamics: Types) -> SimpleNamespace:
    """Device functions for what acts at a site, between two of them, and along the rod of a slider-crank."""
    pieces = make_pieces(pose, dynamics)
    Input, rotation, point, add_piece = pieces.Input, pieces.rotation, pieces.point, pieces.add_piece

    @wp.func
    def add_wrench(s: wp.ref[Input], t: int, o: vec3):
        source = s.lengths.source[t]
        site = s.lengths.part[source.first]
        r = rotation(s, site.body) * site.r
        force = source.force
        torque = source.torque
        if (source.axes & FORCE_IN_WORLD) == 0:
            force = wp.quat_rotate(r, force)
        if (source.axes & TORQUE_IN_WORLD) == 0:
            torque = wp.quat_rotate(r, torque)
        add_piece(s, t, site.body, torque, force, point(s, site.body, site.p, o), o)

    @wp.func
    def add_between(s: wp.ref[Input], t: int, o: vec3):
        """Positions and rotations of a site as the reference site has them; J as MuJoCo takes it."""
        source = s.lengths.source[t]
        site = s.lengths.part[source.first]
        other = s.lengths.part[source.first + 1]
        r = rotation(s, other.body) * other.r
        p1 = point(s, site.body, site.p, o)
        p0 = point(s, other.body, other.p, o)
        turn = wp.quat_inverse(r) * (rotation(s, site.body) * site.r)
        if turn[3] < F(0.0):
            turn = -turn
        axis = vec3(turn[0], turn[1], turn[2])
        sine = wp.length(axis)
        angle = F(2.0) * wp.atan2(sine, turn[3])
        if sine > F(wp.static(TINY)):
            axis = axis * (angle / sine)
        s.lengths.length[t] = wp.dot(source.force, wp.quat_rotate_inv(r, p1 - p0)) + wp.dot(source.torque, axis)
        force = wp.quat_rotate(r, source.force)
        torque = wp.quat_rotate(r, source.torque)
        add_piece(s, t, site.body, torque, force, p1, o)
        add_piece(s, t, other.body, -torque, -force, p0, o)

    @wp.func
    def add_crank(s: wp.ref[Input], t: int, o: vec3):
        """With x from the slider to the crank and a the axis of the slider: a.x - sqrt((a.x)^2 + rod^2 - x^2)."""
        source = s.lengths.source[t]
        crank = s.lengths.part[source.first]
        slider = s.lengths.part[source.first + 1]
        p1 = point(s, crank.body, crank.p, o)
        p0 = point(s, slider.body, slider.p, o)
        a = wp.quat_rotate(rotation(s, slider.body) * slider.r, vec3(F(0.0), F(0.0), F(1.0)))
        x = p1 - p0
        along = wp.dot(a, x)
        square = along * along + source.rod * source.rod - wp.dot(x, x)
        s.lengths.length[t] = along
        by_x = a
        by_a = x
        if square > F(0.0):
            root = wp.sqrt(square)
            s.lengths.length[t] = along - root
            by_x = a * (F(1.0) - along / root) + x / root
            by_a = x * (F(1.0) - along / root)
        gear = source.force[0]
        s.lengths.length[t] = gear * s.lengths.length[t]
        add_piece(s, t, crank.body, vec3(), by_x * gear, p1, o)
        add_piece(s, t, slider.body, wp.cross(a, by_a) * gear, -by_x * gear, p0, o)

    return SimpleNamespace(add_wrench=add_wrench, add_between=add_between, add_crank=add_crank)


@functools.cache
def make_length_kernel(pose: Types, dynamics: Types):
    """The kernel: one block per world, a lane for each length."""
    Input, sites = make_row_input(pose, dynamics), make_add_sites(pose, dynamics)
    add_path = make_add_path(pose, dynamics)
    add_wrench, add_between, add_crank = sites.add_wrench, sites.add_between, sites.add_crank

    @wp.func
    def add_sum(s: wp.ref[Input], t: int):
        source = s.lengths.source[t]
        i = int(source.first)
        while i < source.last:
            part = s.lengths.part[i]
            s.lengths.length[t] = s.lengths.length[t] + part.factor * (s.q[part.coord] + part.ref)
            if part.dof >= s.free_dofs:
                s.lengths.prescribed[t] = s.lengths.prescribed[t] + part.factor * s.motion.v0[part.dof]
            j = int(s.lengths.entry[t])
            while j < s.lengths.entry[t + 1]:
                if s.lengths.entry_dof[j] == part.dof:
                    s.lengths.J[j] = s.lengths.J[j] + part.factor
                j += 1
            i += 1

    @solver_kernel
    def measure_lengths(first_world: int, stage: wp.array[Input]):
        world = first_world + wp.tid() // lane_count()
        k = stage[0].lengths
        t_end = k.world_length[world + 1]
        t = int(k.world_length[world] + lane())
        while t < t_end:
            k.length[t] = F(0.0)
            k.prescribed[t] = F(0.0)
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
                add_sum(stage[0], t)
            elif source.kind == PATH:
                add_path(stage[0], t, o)
            elif source.kind == WRENCH:
                add_wrench(stage[0], t, o)
            elif source.kind == BETWEEN:
                add_between(stage[0], t, o)
            elif source.kind == CRANK:
                add_crank(stage[0], t, o)
            t += lane_count()

    return measure_lengths
