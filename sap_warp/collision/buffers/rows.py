# mypy: disable-error-code="valid-type"
"""What one contact is, a row: the arrays of a `newton.Contacts` that a collision pass writes, as kernels see them."""

from typing import Any, TypeAlias

import newton
import warp as wp

from ...core.kernels.structs import StructCache, make_flat

LAST_ROWS = wp.constant(8)
"""Rows at the end of the buffer that a pass may leave unwritten though it counted them, generously."""


@wp.struct
class ContactRows:
    """The arrays of one buffer, by reference. Optional ones are empty if the buffer has none.

    Written as ``wp.array(dtype=...)``, which is what `make_flat` looks for.
    """

    counters: wp.array(dtype=wp.int32)  # rigid contacts found, soft contacts, flag of lost candidates
    generation: wp.array(dtype=wp.int32)
    shape0: wp.array(dtype=wp.int32)
    shape1: wp.array(dtype=wp.int32)
    point0: wp.array(dtype=wp.vec3f)
    point1: wp.array(dtype=wp.vec3f)
    offset0: wp.array(dtype=wp.vec3f)
    offset1: wp.array(dtype=wp.vec3f)
    normal: wp.array(dtype=wp.vec3f)
    margin0: wp.array(dtype=wp.float32)
    margin1: wp.array(dtype=wp.float32)
    tids: wp.array(dtype=wp.int32)
    stiffness: wp.array(dtype=wp.float32)
    damping: wp.array(dtype=wp.float32)
    friction: wp.array(dtype=wp.float32)
    surface_velocity: wp.array(dtype=wp.vec3f)


flat_rows = make_flat(ContactRows)

Rows: TypeAlias = wp.array[ContactRows]
"""A parameter of kernels: `ContactRows` in an array of one."""

_OWN_NAMES = {"counters": "contact_counters", "generation": "contact_generation"}


class RowArguments:
    """The `ContactRows` of buffers as arguments of kernels, made once for each buffer."""

    def __init__(self, device: Any):
        """Start without any."""
        self._structs = StructCache(device)

    def of(self, contacts: newton.Contacts) -> wp.array:
        """The `ContactRows` of ``contacts``."""
        struct: Any = ContactRows
        arrays = {name: getattr(contacts, _OWN_NAMES.get(name, f"rigid_contact_{name}")) for name in struct.vars}
        return self._structs.get(arrays, ContactRows)


@wp.func
def next_generation(generation: int) -> int:
    """Newton's counter of passes: it wraps to zero and never shows its reserved -1."""
    return wp.where(generation == 2147483647, 0, generation + 1)


@wp.func
def close_rows(rows: wp.ref[ContactRows], found: int, loss: int) -> None:
    """Say how many contacts the pass found and whether candidates were lost, and count the pass."""
    rows.counters[0] = found
    rows.counters[1] = 0
    rows.counters[2] = loss
    rows.generation[0] = next_generation(rows.generation[0])


@wp.func
def optional_fields(source: wp.ref[ContactRows], target: wp.ref[ContactRows]) -> int:
    """What `copy_row` has to copy beside what every buffer has: a sum of 1, 2 and 4. Not of flat rows."""
    fields = int(0)
    if target.stiffness.shape[0] > 0:
        fields += 1  # the target tells of overrides ...
        if source.stiffness.shape[0] > 0:
            fields += 2  # ... and so does the source
    if target.surface_velocity.shape[0] > 0 and source.surface_velocity.shape[0] > 0:
        fields += 4
    return fields


@wp.func
def clear_overrides(rows: wp.ref[ContactRows], i: int) -> None:
    """Let contact i say nothing of stiffness, damping and friction: the shapes' own count."""
    rows.stiffness[i] = float(0.0)
    rows.damping[i] = float(0.0)
    rows.friction[i] = float(0.0)


@wp.func
def copy_row(source: wp.ref[ContactRows], i: int, target: wp.ref[ContactRows], k: int, fields: int) -> None:
    """Contact i of ``source`` becomes contact k of ``target``."""
    target.shape0[k] = source.shape0[i]
    target.shape1[k] = source.shape1[i]
    target.point0[k] = source.point0[i]
    target.point1[k] = source.point1[i]
    target.offset0[k] = source.offset0[i]
    target.offset1[k] = source.offset1[i]
    target.normal[k] = source.normal[i]
    target.margin0[k] = source.margin0[i]
    target.margin1[k] = source.margin1[i]
    target.tids[k] = source.tids[i]
    if fields != 0:
        if (fields & 1) != 0:
            clear_overrides(target, k)
        if (fields & 2) != 0:
            target.stiffness[k] = source.stiffness[i]
            target.damping[k] = source.damping[i]
            target.friction[k] = source.friction[i]
        if (fields & 4) != 0:
            target.surface_velocity[k] = source.surface_velocity[i]


@wp.func
def copy_rows(source_in: Rows, target_in: Rows, first: int, end: int, stride: int) -> None:
    """Rows ``first``, ``first + stride``, ... before ``end``, each to its own place."""
    source = source_in[0]
    target = target_in[0]
    fields = optional_fields(source, target)
    flat_rows(source)
    flat_rows(target)
    i = int(first)
    while i < end:
        copy_row(source, i, target, i, fields)
        i += stride


@wp.func
def take_out_row(rows: wp.ref[ContactRows], i: int) -> None:
    """Mark contact i as none."""
    rows.shape0[i] = -1
    rows.shape1[i] = -1
    rows.normal[i] = wp.vec3f()
