"""Kernels of the sensors."""

from __future__ import annotations

import warp as wp

from ...core.kernels.launch import plain_kernel
from ...core.kernels.spatial import number
from ...core.kernels.types import Ints, Poses, Vectors

transform = number.transform

BY_BODY, BY_YAW, BY_WORLD = wp.constant(0), wp.constant(1), wp.constant(2)
"""Rotation of a sensor's frame: that of its body, the body's heading only, or none."""


@wp.kernel(enable_backward=False, module="unique")
def add_pair_forces(
    count_in: Ints,
    shape0_in: Ints,
    shape1_in: Ints,
    force_in: Vectors,
    world_in: Ints,
    row_in: Ints,
    column_in: Ints,
    force_out: wp.array3d[wp.vec3f],
    contacts_out: wp.array3d[wp.int32],
):
    """Sum the forces on shapes with a row by shapes with a column; tables are by shape, -1 for neither."""
    i = wp.tid()
    if i >= count_in[0]:
        return
    f = force_in[i]  # on shape 1 by shape 0
    a = shape0_in[i]
    b = shape1_in[i]
    if a < 0 or b < 0:
        return
    for side in range(2):
        on = b
        by = a
        g = f
        if side == 1:
            on = a
            by = b
            g = -f
        row = row_in[on]
        column = column_in[by]
        if row >= 0 and column >= 0:
            world = wp.max(wp.max(world_in[on], world_in[by]), 0)  # the ground belongs to none
            wp.atomic_add(force_out, world, row, column, g)
            wp.atomic_add(contacts_out, world, row, column, 1)


@plain_kernel
def place_frames(body_in: Ints, turn: int, offset: wp.transformf, pose_in: wp.array[transform], frame_out: Poses):
    """Place a sensor in every world: at a body, or at the origin."""
    world = wp.tid()
    p = wp.vec3f(0.0)
    q = wp.quat_identity()
    b = body_in[world]
    if b >= 0:
        t = wp.transform_get_translation(pose_in[b])
        r = wp.transform_get_rotation(pose_in[b])
        p = wp.vec3f(wp.float32(t[0]), wp.float32(t[1]), wp.float32(t[2]))
        q = wp.quatf(wp.float32(r[0]), wp.float32(r[1]), wp.float32(r[2]), wp.float32(r[3]))
        if turn == BY_YAW:
            x = wp.quat_rotate(q, wp.vec3f(1.0, 0.0, 0.0))
            q = wp.quat_from_axis_angle(wp.vec3f(0.0, 0.0, 1.0), wp.atan2(x[1], x[0]))
        elif turn == BY_WORLD:
            q = wp.quat_identity()
    frame_out[world] = wp.transformf(p, q) * offset


@wp.kernel(enable_backward=False, module="unique")
def find_hits(
    frame_in: Poses,
    rays_in: wp.array4d[wp.vec3f],
    found_in: wp.array3d[wp.float32],
    longest: wp.float32,
    distance_out: wp.array2d[wp.float32],
    point_out: wp.array2d[wp.vec3f],
):
    """Write the length of each ray and its end, in world frame [m]; ``found_in`` is 0 where it hits nothing."""
    world, i = wp.tid()
    distance = found_in[world, 0, i]
    if distance <= 0.0 or distance > longest:
        distance = longest
    distance_out[world, i] = distance
    origin = wp.transform_point(frame_in[world], rays_in[0, i, 0, 0])
    direction = wp.transform_vector(frame_in[world], rays_in[0, i, 0, 1])
    point_out[world, i] = origin + direction * distance


@wp.kernel(enable_backward=False)
def difference(after_in: wp.array[wp.spatial_vectorf], rate: wp.float32, change: wp.array[wp.spatial_vectorf]):
    """Turn ``change``, which holds the earlier values, into the rate of change."""
    b = wp.tid()
    change[b] = (after_in[b] - change[b]) * rate
