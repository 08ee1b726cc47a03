# mypy: disable-error-code="valid-type"
"""The arrays of a `newton.Contacts` that a collision pass writes, as kernels see them: a row is one contact."""

from typing import Any, TypeAlias

import newton
import warp as wp

from ...core.kernels.structs import StructCache, assume_contiguous

LAST_ROWS = wp.constant(8)
"""Upper bound of the rows at the end of a buffer that a pass may count and leave unwritten."""


@wp.struct
class ContactRows:
    """The arrays of one buffer, by reference. Optional ones are empty if the buffer has none.

    Fields are written for `assume_contiguous`.
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


assume_contiguous_rows = assume_contiguous(ContactRows)

Rows: TypeAlias = wp.array[ContactRows]
"""Type of a kernel parameter: `ContactRows` in an array of one."""

_OWN_NAMES = {"counters": "contact_counters", "generation": "contact_generation"}


class RowArguments:
    """The `ContactRows` of buffers as arguments of kernels, made once for each buffer."""

    def __init__(self, device: Any):
        """Start with an empty cache."""
        self._structs = StructCache(device)

    def of(self, contacts: newton.Contacts) -> wp.array:
        """Return the `ContactRows` of ``contacts``."""
        struct: Any = ContactRows
        arrays = {name: getattr(contacts, _OWN_NAMES.get(name, f"rigid_contact_{name}")) for name in struct.vars}
        return self._structs.get(arrays, ContactRows)


@wp.func
def next_generation(generation: int) -> int:
    """Return the number of the next pass as Newton counts: it wraps to zero and is never the reserved -1."""
    return wp.where(generation == 2147483647, 0, generation + 1)


@wp.func
def close_rows(rows: wp.ref[ContactRows], found: int, loss: int) -> None:
    """Write how many contacts the pass found and the flag of lost candidates, and count the pass."""
    rows.counters[0] = found
    rows.counters[1] = 0
    rows.counters[2] = loss
    rows.generation[0] = next_generation(rows.generation[0])


@wp.func
def optional_fields(source: wp.ref[ContactRows], target: wp.ref[ContactRows]) -> int:
    """Return which optional arrays `copy_contact` must write: a sum of 1, 2 and 4. Rows must not be flat yet."""
    fields = int(0)
    if target.stiffness.shape[0] > 0:
        fields += 1  # the target has overrides ...
        if source.stiffness.shape[0] > 0:
            fields += 2  # ... and so does the source
    if target.surface_velocity.shape[0] > 0 and source.surface_velocity.shape[0] > 0:
        fields += 4
    return fields


@wp.func
def clear_overrides(rows: wp.ref[ContactRows], i: int) -> None:
    """Remove the overrides of contact i: stiffness, damping and friction are those of the shapes."""
    rows.stiffness[i] = float(0.0)
    rows.damping[i] = float(0.0)
    rows.friction[i] = float(0.0)


@wp.func
def copy_contact(source: wp.ref[ContactRows], i: int, target: wp.ref[ContactRows], k: int, fields: int) -> None:
    """Copy contact i of ``source`` to contact k of ``target``; ``fields`` is from `optional_fields`."""
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
def copy_contacts(source_in: Rows, target_in: Rows, first: int, end: int, stride: int) -> None:
    """Copy contacts ``first``, ``first + stride``, ... before ``end`` to the same rows of the other buffer."""
    source = source_in[0]
    target = target_in[0]
    fields = optional_fields(source, target)
    assume_contiguous_rows(source)
    assume_contiguous_rows(target)
    i = int(first)
    while i < end:
        copy_contact(source, i, target, i, fields)
        i += stride


@wp.func
def invalidate_contact(rows: wp.ref[ContactRows], i: int) -> None:
    """Mark contact i as invalid: nothing reads it any more."""
    rows.shape0[i] = -1
    rows.shape1[i] = -1
    rows.normal[i] = wp.vec3f()
