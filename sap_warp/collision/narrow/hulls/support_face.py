# mypy: disable-error-code="valid-type"
"""Support faces of hulls that touch a box or another hull: up to eight vertices around, remembered from pass to pass.

Which vertices these are depends only on the direction, rounded to a grid of directions a quarter of a degree apart
(`ground.rounded_direction`). So a pair remembers the direction and the vertices, and searches them again only when the
rounded direction is another one. Contacts depend on the poses alone, whatever was searched before.
"""

from typing import Any

import warp as wp

from .ground import BAND, DIRECTION_STEPS, MAX_LISTED, Ring, choose_ring, collect_candidates, rounded_direction
from .supports import Supports, low_vertices

UNKNOWN = wp.constant(-1)
"""Instead of a direction: nothing is remembered."""


@wp.struct
class SupportFaces:
    """What is remembered, two entries for each pair. Fields are written for `assume_contiguous`."""

    direction: wp.array(dtype=wp.int32)  # the rounded direction, see `direction_code`
    count: wp.array(dtype=wp.int32)  # of candidates
    ring: wp.array(dtype=Ring)  # what `choose_ring` chose of them
    touched: wp.array(dtype=wp.int32)  # by pair: 1 if it had contacts when it was last tested


@wp.func
def direction_code(direction: wp.vec3f) -> int:
    """A number for each rounded direction; `UNKNOWN` for NaN."""
    steps = DIRECTION_STEPS * direction
    if not wp.length_sq(steps) < 4.0 * DIRECTION_STEPS * DIRECTION_STEPS:
        return UNKNOWN
    return (int(steps[0]) + 256) | ((int(steps[1]) + 256) << 9) | ((int(steps[2]) + 256) << 18)


@wp.func
def find_support_face(
    faces: wp.ref[SupportFaces],
    slot: int,
    supports: wp.ref[Supports],
    shape: int,
    mesh: wp.uint64,
    scale: wp.vec3f,
    up: wp.vec3f,
    lower: wp.vec3f,
    upper: wp.vec3f,
) -> None:
    """Let entry ``slot`` be the support face of a hull that stands in the direction ``up``.

    Args:
        faces: What is remembered.
        slot: Twice the number of the pair, and one more for the first one of its shapes.
        supports: The lists of vertices.
        shape: The shape with the hull; always the same one for a slot.
        mesh: Its mesh.
        scale: Its scale.
        up: Away from the ground that it stands on, in the frame of the hull.
        lower: Lower corner of the hull's bounding box, in its frame [m].
        upper: Upper corner [m].
    """
    direction = rounded_direction(up)
    code = direction_code(direction)
    if code == UNKNOWN or faces.direction[slot] != code:
        listed = wp.zeros(shape=(MAX_LISTED,), dtype=wp.int32)
        vertices = low_vertices(supports, shape, mesh, scale, direction)
        face = collect_candidates(
            vertices, direction, scale, 0.0, 3.0e38, 0.5 * BAND * wp.length(upper - lower), listed
        )
        faces.direction[slot] = code
        faces.count[slot] = face.count
        faces.ring[slot] = choose_ring(vertices, face, listed, direction, 0.5 * (lower + upper))


def make_support_faces(pairs: int, device: Any) -> Any:
    """The `SupportFaces` of so many pairs, of which nothing is remembered yet."""
    table: Any = SupportFaces()
    for name, variable in table._cls.vars.items():
        setattr(table, name, wp.zeros(2 * pairs, dtype=variable.type.dtype, device=device))
    table.direction.fill_(UNKNOWN)
    return table
