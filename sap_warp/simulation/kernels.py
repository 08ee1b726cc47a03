"""Small kernels of `Simulation`: counting steps, and setting some of the worlds."""

from typing import Any

import warp as wp

from ..core.kernels.types import Bools, Floats, Ints, Longs, Vectors
from ..model.shapes import BOX, CAPSULE, CONE, CYLINDER, ELLIPSOID, SPHERE
from ..solver.settings.status import FREE_MOTION_FAILED, UNSTABLE

ITERATION_BINS = 256
TRIAL_BINS = 2048


@wp.kernel(module="unique", enable_backward=False)
def record_step(
    first_world: int,
    iterations_in: Ints,
    trials_in: Ints,
    contact_count_in: Ints,
    truncated_in: Ints,
    status_in: Ints,
    found_in: Ints,
    found_max: int,
    iterations_out: Longs,
    trials_out: Longs,
    totals_out: Longs,
    maxima_out: Ints,
) -> None:
    """Add one step of one world to the counters."""
    world = first_world + wp.tid()
    wp.atomic_add(iterations_out, wp.min(iterations_in[world], wp.static(ITERATION_BINS - 1)), wp.int64(1))
    wp.atomic_add(trials_out, wp.min(trials_in[world], wp.static(TRIAL_BINS - 1)), wp.int64(1))
    truncated = truncated_in[world]
    if world == 0:
        truncated += wp.max(found_in[0] - found_max, 0)
    wp.atomic_add(totals_out, 0, wp.int64(1))
    wp.atomic_add(totals_out, 1, wp.int64(contact_count_in[world]))
    wp.atomic_add(totals_out, 2, wp.int64(truncated))
    if status_in[world] != 0:
        wp.atomic_add(totals_out, 3, wp.int64(1))
    if status_in[world] >= FREE_MOTION_FAILED:
        wp.atomic_add(totals_out, 4, wp.int64(1))
    if status_in[world] == UNSTABLE:
        wp.atomic_add(totals_out, 5, wp.int64(1))
    wp.atomic_max(maxima_out, 0, iterations_in[world])
    wp.atomic_max(maxima_out, 1, trials_in[world])


@wp.kernel(module="unique", enable_backward=False)
def assign_chosen(mask_in: Bools, owner_in: Ints, values_in: wp.array3d[Any], values_out: wp.array3d[Any]) -> None:
    """Copy the rows whose worlds are chosen."""
    i, j, k = wp.tid()
    if mask_in[owner_in[i]]:
        values_out[i, j, k] = values_out.dtype(values_in[i, j, k])


@wp.kernel(module="unique", enable_backward=False)
def scatter(
    row_in: Ints, column_in: Ints, component_in: Ints, values_in: wp.array3d[Any], values_out: wp.array3d[Any]
) -> None:
    """Copy values to the entries of a grid of indices."""
    i, j, k = wp.tid()
    values_out[row_in[i], column_in[j], component_in[k]] = values_out.dtype(values_in[i, j, k])


@wp.kernel(module="unique", enable_backward=False)
def invert_masses(
    mask_in: Bools,
    world_in: Ints,
    mass_in: Floats,
    inertia_in: wp.array[wp.mat33f],
    inv_mass_out: Floats,
    inv_inertia_out: wp.array[wp.mat33f],
) -> None:
    """Set Newton's inverse masses and inertias of bodies in chosen worlds; zero for a body without mass."""
    i = wp.tid()
    if mask_in[wp.max(world_in[i], 0)]:
        m = mass_in[i]
        inv_mass_out[i] = wp.where(m > 0.0, 1.0 / m, 0.0)
        inv_inertia_out[i] = wp.where(m > 0.0, wp.inverse(inertia_in[i]), wp.mat33f())


@wp.kernel(module="unique", enable_backward=False)
def bound_shapes(
    mask_in: Bools,
    world_in: Ints,
    kind_in: Ints,
    size_in: Vectors,
    radius_out: Floats,
    lower_out: Vectors,
    upper_out: Vectors,
) -> None:
    """Set Newton's bounds of simple shapes in chosen worlds: bounding sphere, and box in the shape's frame."""
    i = wp.tid()
    world = world_in[i]
    if world < 0:
        return
    if not mask_in[world]:
        return
    kind = kind_in[i]
    size = size_in[i]
    reach = wp.vec3f(size[0], size[0], size[1])  # cylinder and cone
    radius = size[0] + size[1]
    if kind == SPHERE:
        reach = wp.vec3f(size[0], size[0], size[0])
        radius = size[0]
    elif kind == CAPSULE:
        reach = wp.vec3f(size[0], size[0], size[0] + size[1])
    elif kind == BOX:
        reach = size
        radius = wp.length(size)
    elif kind == ELLIPSOID:
        reach = size
        radius = wp.max(size[0], wp.max(size[1], size[2]))
    elif kind != CYLINDER and kind != CONE:
        return
    radius_out[i] = radius
    lower_out[i] = -reach
    upper_out[i] = reach


@wp.func_native("memcpy((char*)target + size * run[1], (const char*)source + size * run[0], size_t(size) * run[2]);")
def copy_run(source: wp.uint64, target: wp.uint64, size: wp.int64, run: wp.vec3i) -> None:
    """Copy rows of ``size`` bytes."""


@wp.kernel(module="unique", enable_backward=False)
def copy_rows(
    runs_in: wp.array[wp.vec3i], sources_in: wp.array[wp.uint64], targets_in: wp.array[wp.uint64], sizes_in: Ints
) -> None:
    """Copy runs of rows (from, to, count) of several arrays, given by addresses and bytes per row."""
    i = wp.tid()
    for k in range(runs_in.shape[0]):
        copy_run(sources_in[i], targets_in[i], wp.int64(sizes_in[i]), runs_in[k])
