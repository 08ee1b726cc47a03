# mypy: disable-error-code="valid-type"
"""The soles of hulls that meet a box or another hull: up to eight vertices around, remembered from pass to pass.

Which vertices these are depends on the direction alone in which the sole is looked at, one of some that are a quarter
of a degree apart (`ground.view_of`). So a pair remembers the direction and the vertices, and looks for them again
only when the direction is another one. Contacts depend on the poses alone, whatever was looked at before.
"""

from typing import Any

import warp as wp

from .ground import BAND, LISTED, VIEWS, Around, choose_around, find_sole, view_of
from .supports import Supports, low_vertices

UNKNOWN = wp.constant(-1)
"""In the place of a direction: nothing is remembered."""


@wp.struct
class Soles:
    """What is remembered, two entries for each pair. ``wp.array(dtype=...)`` is what `make_flat` looks for."""

    view: wp.array(dtype=wp.int32)  # the direction, as a number
    count: wp.array(dtype=wp.int32)  # of the vertices that are candidates
    around: wp.array(dtype=Around)  # what `choose_around` chose of them
    touched: wp.array(dtype=wp.int32)  # by pair: whether it had contacts when it was last looked at


@wp.func
def number_of(view: wp.vec3f) -> int:
    """A number for each of the directions in which soles are looked at; `UNKNOWN` for what is none."""
    at = VIEWS * view
    if not wp.length_sq(at) < 4.0 * VIEWS * VIEWS:
        return UNKNOWN
    return (int(at[0]) + 256) | ((int(at[1]) + 256) << 9) | ((int(at[2]) + 256) << 18)


@wp.func
def look_at_sole(
    m: wp.ref[Soles],
    place: int,
    t: wp.ref[Supports],
    shape: int,
    mesh: wp.uint64,
    scale: wp.vec3f,
    up: wp.vec3f,
    lower: wp.vec3f,
    upper: wp.vec3f,
) -> None:
    """Let entry ``place`` be the sole of a hull that stands in the direction ``up``.

    Args:
        m: What is remembered.
        place: Twice the number of the pair, and one more for the first one of its shapes.
        t: The lists of vertices.
        shape: Whose hull; always the same one for a place.
        mesh: Its mesh.
        scale: Its scale.
        up: Away from the ground that it stands on, in the frame of the hull.
        lower: Corner of the box around the hull, in its frame [m].
        upper: The opposite one [m].
    """
    view = view_of(up)
    number = number_of(view)
    if number == UNKNOWN or m.view[place] != number:
        listed = wp.zeros(shape=(LISTED,), dtype=wp.int32)
        vertices = low_vertices(t, shape, mesh, scale, view)
        sole = find_sole(vertices, view, scale, 0.0, 3.0e38, 0.5 * BAND * wp.length(upper - lower), listed)
        m.view[place] = number
        m.count[place] = sole.count
        m.around[place] = choose_around(vertices, sole, listed, view, 0.5 * (lower + upper))


def make_soles(pairs: int, device: Any) -> Any:
    """The `Soles` of so many pairs, of which nothing is remembered yet."""
    table: Any = Soles()
    for name, variable in table._cls.vars.items():
        setattr(table, name, wp.zeros(2 * pairs, dtype=variable.type.dtype, device=device))
    table.view.fill_(UNKNOWN)
    return table
