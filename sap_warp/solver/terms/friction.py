"""Dry joint friction of constant magnitude, one dof: impulse -clamp(v / R, -bound, bound), a Huber-shaped cost."""

import functools

import warp as wp

from ...kernels.types import Types


@functools.cache
def make_friction_term(types: Types):
    """``friction(v, bound, R)``: cost [J], derivative [N s], second derivative; ``bound`` is h times friction."""
    scalar, vec3 = types.scalar, types.vec3

    @wp.func
    def friction(v: scalar, bound: scalar, R: scalar) -> vec3:
        if wp.abs(v) <= R * bound:
            return vec3(scalar(0.5) * v * v / R, v / R, scalar(1.0) / R)
        return vec3(bound * (wp.abs(v) - scalar(0.5) * R * bound), wp.sign(v) * bound, scalar(0.0))

    return friction
