# mypy: disable-error-code="valid-type"
"""The planes of a hull's faces: how high a point is above each of them, and which of them can separate.

On the CPU eight planes are computed together (`core/native/planes.h`).
"""

import warp as wp

from ....core.kernels.lanes import with_native
from ....core.kernels.template import device
from ....core.kernels.types import Floats, Ints

PADDING = 8
"""Entries after the end of arrays that may be read, and written in scratch."""


@with_native(
    "planes",
    "return sap::plane_heights(x.data + first, y.data + first, z.data + first, offset.data + first, count,"
    " at[0], at[1], at[2], heights.data);",
    otherwise="return 0;",
)
@device
def plane_heights(
    x: Floats, y: Floats, z: Floats, offset: Floats, first: int, count: int, at: wp.vec3f, heights: Floats
) -> int:
    """Compute the heights of a point above planes [m]; return the number of the highest one.

    Args:
        x: First components of the normals.
        y: Second components of the normals.
        z: Third components of the normals.
        offset: Distances of the planes from the origin along their normals [m].
        first: First plane; results are counted from it.
        count: Number of planes.
        at: The point [m].
        heights: Receives the heights, from its first entry on.
    """
    top = int(0)
    highest = float(-3.0e38)
    f = int(0)
    while f < count:
        k = first + f
        height = x[k] * at[0] + y[k] * at[1] + z[k] * at[2] - offset[k]
        heights[f] = height
        if height > highest:
            highest = height
            top = f
        f += 1
    return top


@wp.func
def stretched(height: float, stretch: float) -> float:
    """Upper bound of a height along all directions between the normals of two faces, see `Hulls.stretch`."""
    return wp.where(height > 0.0, height * stretch, height)


@with_native(
    "planes",
    "return sap::steep_planes(heights.data, stretch.data + first, count, limit, listed.data);",
    otherwise="return 0;",
)
@device
def steep_planes(heights: Floats, stretch: Floats, first: int, count: int, limit: float, listed: Ints) -> int:
    """List the planes whose `stretched` heights are above a limit, in increasing order; return how many there are."""
    found = int(0)
    f = int(0)
    while f < count:
        if stretched(heights[f], stretch[first + f]) > limit:
            listed[found] = f
            found += 1
        f += 1
    return found
