"""All terms of one dof together: drive, motor, passive spring, position limit, speed limit, friction.

What has no bound, a spring or a drive that may push as hard as it likes, is a parabola in v; all of these are added up
beforehand. With efforts u_i = a_i - g_i v:

    l = sum h/2 u_i^2/g_i = h/2 (c - 2 a v + g v^2),   a = sum a_i,   g = sum g_i,   c = sum a_i^2/g_i
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.types import Types
from .drive import make_drive_term
from .friction import make_friction_term
from .limit import NO_LIMIT, make_limit_term

DRIVE = wp.constant(1)
LOWER = wp.constant(2)
UPPER = wp.constant(4)
SPEED = wp.constant(8)
FRICTION = wp.constant(16)
PARABOLA = wp.constant(32)
MOTOR = wp.constant(64)
FAR_LOWER = wp.constant(128)
FAR_UPPER = wp.constant(256)
"""Terms that a dof can have. A far bound is none as long as no result crosses it, see `limit`."""
TERMS = wp.constant(127)
"""Those that count."""


@functools.cache
def make_dof_terms(types: Types) -> SimpleNamespace:
    """Struct of the terms' data, by dof in solver order, and their sum."""
    scalar, vec3 = types.scalar, types.vec3
    drives, limits, frictions = make_drive_term(types), make_limit_term(types), make_friction_term(types)
    drive, position_limit, speed_limit = drives.drive, limits.position_limit, limits.speed_limit
    drive_piece, position_piece, speed_piece = drives.drive_piece, limits.position_piece, limits.speed_piece
    friction, friction_piece = frictions.friction, frictions.friction_piece

    @wp.struct
    class Efforts:
        u0: wp.array(dtype=scalar)  # effort at v = 0 [N or N m]
        g: wp.array(dtype=scalar)  # h kp + kd
        limit: wp.array(dtype=scalar)

    @wp.struct
    class DofTerms:
        term_mask: wp.array(dtype=wp.int32)  # which terms the dof has, bits above
        drive: Efforts
        motor: Efforts  # of MuJoCo's actuator on the dof
        parabola: wp.array(dtype=vec3)  # c, a and g of the terms without a bound
        limit_lower: wp.array(dtype=scalar)  # vhat of the lower bound [m/s or rad/s]
        limit_upper: wp.array(dtype=scalar)
        limit_R: wp.array(dtype=scalar)
        limit_reach: wp.array(dtype=scalar)
        speed: wp.array(dtype=scalar)  # speed limit [m/s or rad/s]
        speed_R: wp.array(dtype=scalar)
        friction: wp.array(dtype=scalar)  # h times friction [N s or N m s]
        friction_R: wp.array(dtype=scalar)

    @wp.func
    def evaluate_parabola(t: wp.ref[DofTerms], e: int, v: scalar, h: scalar) -> vec3:
        """Cost, derivative and second derivative of the terms of dof e that have no bound."""
        f = t.parabola[e]
        slope = f[2] * v - f[1]
        return vec3(scalar(0.5) * (f[0] + v * (slope - f[1])), slope, f[2]) * h

    @wp.func
    def evaluate_bounded(t: wp.ref[DofTerms], kind: int, e: int, v: scalar, h: scalar) -> vec3:
        """Cost, derivative and second derivative of the other terms of dof e, of those in ``kind``."""
        total = vec3()
        if (kind & DRIVE) != 0:
            total += drive(v, t.drive.u0[e], t.drive.g[e], t.drive.limit[e], h)
        if (kind & MOTOR) != 0:
            total += drive(v, t.motor.u0[e], t.motor.g[e], t.motor.limit[e], h)
        if (kind & (LOWER | UPPER)) != 0:
            none = scalar(wp.static(NO_LIMIT))
            lower = wp.where((kind & LOWER) != 0, t.limit_lower[e], none)
            upper = wp.where((kind & UPPER) != 0, t.limit_upper[e], none)
            total += position_limit(v, lower, upper, t.limit_R[e])
        if (kind & SPEED) != 0:
            total += speed_limit(v, t.speed[e], t.speed_R[e])
        if (kind & FRICTION) != 0:
            total += friction(v, t.friction[e], t.friction_R[e])
        return total

    @wp.func
    def piece(t: wp.ref[DofTerms], kind: int, e: int, v: scalar) -> int:
        """On which parabola the terms with bounds of dof e are together at v.

        A parabola of a term reaches over an interval, so where two velocities have the same one, all between them do.
        """
        at = int(0)
        if (kind & DRIVE) != 0:
            at = drive_piece(v, t.drive.u0[e], t.drive.g[e], t.drive.limit[e])
        if (kind & MOTOR) != 0:
            at = 3 * at + drive_piece(v, t.motor.u0[e], t.motor.g[e], t.motor.limit[e])
        if (kind & (LOWER | UPPER)) != 0:
            none = scalar(wp.static(NO_LIMIT))
            lower = wp.where((kind & LOWER) != 0, t.limit_lower[e], none)
            upper = wp.where((kind & UPPER) != 0, t.limit_upper[e], none)
            at = 4 * at + position_piece(v, lower, upper)
        if (kind & SPEED) != 0:
            at = 3 * at + speed_piece(v, t.speed[e])
        if (kind & FRICTION) != 0:
            at = 3 * at + friction_piece(v, t.friction[e], t.friction_R[e])
        return at

    @wp.func
    def evaluate(t: wp.ref[DofTerms], kind: int, e: int, v: scalar, h: scalar) -> vec3:
        """Cost, derivative and second derivative of the terms in ``kind`` of dof e at velocity v."""
        total = vec3()
        if (kind & PARABOLA) != 0:
            total = evaluate_parabola(t, e, v, h)
        if (kind & ~PARABOLA) != 0:
            total += evaluate_bounded(t, kind, e, v, h)
        return total

    return SimpleNamespace(
        DofTerms=DofTerms,
        Efforts=Efforts,
        evaluate=evaluate,
        evaluate_bounded=evaluate_bounded,
        evaluate_parabola=evaluate_parabola,
        piece=piece,
    )
