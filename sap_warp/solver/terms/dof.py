"""All terms of one dof together: drive, motor, passive spring, position limit, speed limit, friction."""

import functools
from types import SimpleNamespace

import warp as wp

from ...precision import Types
from .drive import make_drive_term
from .friction import make_friction_term
from .limit import make_limit_term

DRIVE = wp.constant(1)
LIMIT = wp.constant(2)
SPEED = wp.constant(4)
FRICTION = wp.constant(8)
SPRING = wp.constant(16)
MOTOR = wp.constant(32)


@functools.cache
def make_dof_terms(types: Types) -> SimpleNamespace:
    """Struct of the terms' data, by dof in solver order, and their sum."""
    scalar, vec3 = types.scalar, types.vec3
    drive = make_drive_term(types).drive
    limits = make_limit_term(types)
    position_limit, speed_limit = limits.position_limit, limits.speed_limit
    friction = make_friction_term(types)

    @wp.struct
    class DofTerms:
        kind: wp.array(dtype=wp.int32)  # which terms the dof has, bits above
        drive_u0: wp.array(dtype=scalar)  # effort at v = 0 [N or N m]
        drive_g: wp.array(dtype=scalar)  # h kp + kd
        drive_limit: wp.array(dtype=scalar)
        motor_u0: wp.array(dtype=scalar)  # the same of MuJoCo's actuator on the dof
        motor_g: wp.array(dtype=scalar)
        motor_limit: wp.array(dtype=scalar)
        spring_u0: wp.array(dtype=scalar)  # the same of a passive spring, which has no limit
        spring_g: wp.array(dtype=scalar)  # h k
        limit_lower: wp.array(dtype=scalar)  # vhat of the lower bound [m/s or rad/s]
        limit_upper: wp.array(dtype=scalar)
        limit_R: wp.array(dtype=scalar)
        speed: wp.array(dtype=scalar)  # speed limit [m/s or rad/s]
        speed_R: wp.array(dtype=scalar)
        friction: wp.array(dtype=scalar)  # h times friction [N s or N m s]
        friction_R: wp.array(dtype=scalar)
        # dofs that have terms, packed at the start of each world's range
        list: wp.array(dtype=wp.int32)
        count: wp.array(dtype=wp.int32)  # by world

    @wp.func
    def evaluate(t: wp.ref[DofTerms], e: int, v: scalar, h: scalar) -> vec3:
        """Cost, derivative and second derivative of all terms of dof e at velocity v."""
        kind = t.kind[e]
        total = vec3()
        if (kind & DRIVE) != 0:
            total += drive(v, t.drive_u0[e], t.drive_g[e], t.drive_limit[e], h)
        if (kind & MOTOR) != 0:
            total += drive(v, t.motor_u0[e], t.motor_g[e], t.motor_limit[e], h)
        if (kind & SPRING) != 0:
            u = t.spring_u0[e] - t.spring_g[e] * v
            total += vec3(scalar(0.5) * h * u * u / t.spring_g[e], -h * u, h * t.spring_g[e])
        if (kind & LIMIT) != 0:
            total += position_limit(v, t.limit_lower[e], t.limit_upper[e], t.limit_R[e])
        if (kind & SPEED) != 0:
            total += speed_limit(v, t.speed[e], t.speed_R[e])
        if (kind & FRICTION) != 0:
            total += friction(v, t.friction[e], t.friction_R[e])
        return total

    return SimpleNamespace(DofTerms=DofTerms, evaluate=evaluate)
