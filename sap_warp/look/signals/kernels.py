"""Kernels that compute signals and collect their samples."""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import dtype
from ...core.kernels.launch import plain_kernel
from ...core.kernels.spatial import number
from ...core.kernels.types import Doubles, Floats, Ints, Vectors

scalar, vec3, transform = number.scalar, number.vec3, number.transform


@wp.kernel(enable_backward=False, module="unique")
def store_force(wrench_in: wp.array[wp.spatial_vectorf], out: Floats):
    """Write the force of each wrench, followed by its magnitude."""
    b = wp.tid()
    w = wrench_in[b]
    f = wp.vec3f(w[0], w[1], w[2])
    for i in range(3):
        out[4 * b + i] = f[i]
    out[4 * b + 3] = wp.length(f)


@plain_kernel
def penetration(capacity: int, count_in: Ints, source_in: Ints, phi0_in: wp.array[scalar], out: Doubles):
    """Write the deepest overlap of the contacts of each world [m]; 0 if there is none."""
    world = wp.tid()
    deepest = wp.float64(0.0)
    for row in range(world * capacity, world * capacity + count_in[world]):
        if source_in[row] >= 0:  # distance joints are no contacts
            deepest = wp.max(deepest, -wp.float64(phi0_in[row]))
    out[world] = deepest


@plain_kernel
def slip(
    capacity: int,
    count_in: Ints,
    source_in: Ints,
    normal_in: wp.array[vec3],
    vhat_in: wp.array[scalar],
    mu_in: wp.array[scalar],
    vc_in: wp.array[vec3],
    out: Doubles,
):
    """Write the largest tangential speed of the contacts of each world that press [m/s]; 0 if there is none.

    A contact presses unless it is in the region "apart" of `terms.contact`: vhat - n.vc + mu |vc_t| > 0.
    """
    world = wp.tid()
    fastest = scalar(0.0)
    for row in range(world * capacity, world * capacity + count_in[world]):
        if source_in[row] >= 0:  # distance joints are no contacts
            vn = wp.dot(normal_in[row], vc_in[row])
            speed = wp.length(vc_in[row] - vn * normal_in[row])
            if vhat_in[row] - vn + mu_in[row] * speed > scalar(0.0):
                fastest = wp.max(fastest, speed)
    out[world] = wp.float64(fastest)


@plain_kernel
def energy(
    start_in: Ints,
    pose_in: wp.array[transform],
    twist_in: wp.array[wp.spatial_vectorf],
    mass_in: Floats,
    inertia_in: wp.array[wp.mat33f],
    com_in: Vectors,
    gravity_in: Vectors,
    out: Doubles,
):
    """Write the kinetic energy of each world, then that of gravity, then their sums [J]."""
    world = wp.tid()
    worlds = start_in.shape[0] - 1
    kinetic = wp.float64(0.0)
    potential = wp.float64(0.0)
    g = gravity_in[wp.min(world, gravity_in.shape[0] - 1)]
    for b in range(start_in[world], start_in[world + 1]):
        m = wp.float64(mass_in[b])
        t = twist_in[b]
        p = wp.transform_get_translation(pose_in[b])
        q = wp.transform_get_rotation(pose_in[b])
        c = com_in[b]
        # world frame to the body's: the inertia is given there
        com = p + wp.quat_rotate(q, vec3(scalar(c[0]), scalar(c[1]), scalar(c[2])))
        w = wp.quat_rotate_inv(q, vec3(scalar(t[3]), scalar(t[4]), scalar(t[5])))
        local = wp.vec3d(wp.float64(w[0]), wp.float64(w[1]), wp.float64(w[2]))
        inertia = wp.mat33d(inertia_in[b])
        speed = wp.float64(t[0] * t[0] + t[1] * t[1] + t[2] * t[2])
        kinetic += wp.float64(0.5) * (m * speed + wp.dot(local, inertia * local))
        for i in range(3):
            potential -= m * wp.float64(g[i]) * wp.float64(com[i])
    out[world] = kinetic
    out[worlds + world] = potential
    out[2 * worlds + world] = kinetic + potential


@plain_kernel
def gather(row: int, source_in: wp.array[dtype], entry_in: Ints, column_in: Ints, sample_out: wp.array2d[wp.float64]):
    """Copy chosen entries of an array into a row of samples."""
    i = wp.tid()
    sample_out[row, column_in[i]] = wp.float64(source_in[entry_in[i]])
