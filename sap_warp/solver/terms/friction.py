"""Dry joint friction of constant magnitude, one dof: impulse -clamp(v / R, -bound, bound), a Huber-shaped cost."""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.types import Types


@functools.cache
def make_friction_term(types: Types):
    """``friction(v, bound, R)`` and ``friction_piece(v, bound, R)``; ``bound`` is h times friction."""
    scalar, vec3 = types.scalar, types.vec3

    @wp.func
    def friction(v: scalar, bound: scalar, R: scalar) -> vec3:
        """Cost [J], derivative [N s], second derivative."""
        if wp.abs(v) <= R * bound:
            return vec3(scalar(0.5) * v * v / R, v / R, scalar(1.0) / R)
        return vec3(bound * (wp.abs(v) - scalar(0.5) * R * bound), wp.sign(v) * bound, scalar(0.0))

    @wp.func
    def friction_piece(v: scalar, bound: scalar, R: scalar) -> int:
        """On which of three parabolas it is at v."""
        return wp.where(v > R * bound, 1, wp.where(-v > R * bound, 2, 0))

    return SimpleNamespace(friction=friction, friction_piece=friction_piece)
