"""The kernel of stage 3: contact rows of a world, the terms of its dofs, and which bodies and dofs have rows.

Each function opens the structs anew: pointers that are loaded where they are used take no registers before. What is
large is not inlined on the CPU; a parameter that is passed by value must not be handed on to it.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import barrier, is_native, lane, lane_count
from ...core.kernels.launch import kernel
from ...core.kernels.structs import argument, assume_contiguous, by_value
from ...core.kernels.template import Template, device
from ...core.kernels.types import Ints
from ...core.kernels.warps import count_lanes, is_warp, lanes_before
from ..contact.choice import keep_deepest
from ..contact.data import MOVED, ContactInput, ContactStage, DofInput
from ..contact.lanes import list_by_lanes, sort_by_lanes
from ..contact.lists import list_rows
from ..contact.rows import assign_contacts, place_contacts, refine_contact
from ..joints.distances import Bound, find_bound, store_bound
from ..joints.dofs import prepare_dof

OUT_OF_LINE_ON_CPU = Template(lambda variant: None if by_value.of(variant) else False)
"""``inline`` of large functions."""

StageArgument, read_stage = argument(ContactStage)
ContactArgument, read_contacts = argument(ContactInput)
DofArgument, read_dofs = argument(DofInput)
assume_contiguous_stage, assume_contiguous_contacts, assume_contiguous_dofs = (
    assume_contiguous(ContactStage),
    assume_contiguous(ContactInput),
    assume_contiguous(DofInput),
)


@device
def open_stage(stage_in: StageArgument) -> ContactStage:
    """A local copy of the struct, of whose arrays the compiler keeps only the pointers that are used."""
    stage = read_stage(stage_in)
    assume_contiguous_stage(stage)
    return stage


@device
def open_contacts(contacts_in: ContactArgument) -> ContactInput:
    """A local copy, see `open_stage`."""
    contacts = read_contacts(contacts_in)
    assume_contiguous_contacts(contacts)
    return contacts


@device
def open_dofs(dofs_in: DofArgument) -> DofInput:
    """A local copy, see `open_stage`."""
    dofs = read_dofs(dofs_in)
    assume_contiguous_dofs(dofs)
    return dofs


@wp.func
def sort_slots(slot: Ints, first: int, last: int):
    """Ascending contact order, whatever order the threads came in: results do not depend on scheduling."""
    i = int(first + 1)
    while i < last:
        value = slot[i]
        j = i - 1
        while j >= first and slot[wp.max(j, 0)] > value:
            slot[j + 1] = slot[j]
            j -= 1
        slot[j + 1] = value
        i += 1


@device
def prepare_dofs(stage_in: StageArgument, dofs_in: DofArgument, world: int, dt: wp.float64):
    """Prepare the terms of the dofs of a world."""
    stage = open_stage(stage_in)
    dofs = open_dofs(dofs_in)
    i_end = stage.layout.world_term[world + 1]
    i = int(stage.layout.world_term[world] + lane())
    while i < i_end:
        prepare_dof(stage, dofs, stage.layout.term_dof[i], dt)
        i += lane_count()


@device(inline=OUT_OF_LINE_ON_CPU)
def prepare_distances(stage_in: StageArgument, dofs_in: DofArgument, world: int, dt: wp.float64) -> int:
    """Make the rows of the distance joints of a world and count them. All lanes of a warp, or one lane of others."""
    stage = open_stage(stage_in)
    count = int(0)
    begin = stage.layout.world_distance[world]
    bounds = 2 * (stage.layout.world_distance[world + 1] - begin)
    if bounds > 0:
        dofs = open_dofs(dofs_in)
        first = int(0)
        while first < bounds:  # a bound per lane
            i = first + wp.where(is_warp(), lane(), 0)
            bound = Bound()
            if i < bounds:
                bound = find_bound(stage, dofs, stage.layout.distance_body[begin + i // 2], i % 2 != 0, dt)
            row = count + lanes_before(bound.takes_part != 0)
            count += count_lanes(bound.takes_part != 0)
            if bound.takes_part != 0:
                store_bound(stage, bound, world * stage.rows.capacity + row)
            first += wp.where(is_warp(), lane_count(), 1)
    return count


@device
def assign_rows(stage_in: StageArgument, contacts_in: ContactArgument, first: int, end: int, first_slot: int) -> int:
    """Find the bodies of the rows of a world.

    Returns flags of the rows, and other bits if all of them have to be refined.
    """
    stage = open_stage(stage_in)
    buffer = open_contacts(contacts_in)
    refines = stage.law.weight_mode | stage.law.point_mode | stage.law.follows
    refines = refines | buffer.has_overrides | buffer.has_surface_velocity
    return refines | assign_contacts(stage, buffer, first_slot - first, first + lane(), end)


@device(inline=OUT_OF_LINE_ON_CPU)
def place_rows(stage_in: StageArgument, contacts_in: ContactArgument, first: int, end: int, world: int, dt: wp.float64):
    """Find geometry, materials and weights of the rows of a world."""
    stage = open_stage(stage_in)
    buffer = open_contacts(contacts_in)
    place_contacts(stage, buffer, first + lane(), end, world, dt)


@device(inline=OUT_OF_LINE_ON_CPU)
def refine_rows(stage_in: StageArgument, contacts_in: ContactArgument, first: int, end: int, dt: wp.float64):
    """Do what only some contacts need."""
    stage = open_stage(stage_in)
    buffer = open_contacts(contacts_in)
    row = int(first + lane())
    while row < end:
        refine_contact(stage, buffer, row, dt)
        row += lane_count()


@device
def sort_world(stage_in: StageArgument, world: int, first: int, last: int):
    """Sort the slots of a world as `sort_slots` does, by all lanes; its rows are free for that."""
    stage = open_stage(stage_in)
    sort_by_lanes(stage.slot, first, last, stage.rows.source, world * stage.rows.capacity)


@device
def choose_contacts(stage_in: StageArgument, contacts_in: ContactArgument, world: int, first: int, last: int):
    """Let the slots of a world that is too full have the deepest contacts."""
    stage = open_stage(stage_in)
    buffer = open_contacts(contacts_in)
    overflow_head = stage.overflow_head[world]
    keep_deepest(buffer, stage.motion, stage.slot, first, last, overflow_head)
    if lane() == 0:
        stage.overflow_head[world] = 0


@device
def list_world(stage_in: StageArgument, world: int):
    """Fill the tables by body and the pattern of the Hessian."""
    stage = open_stage(stage_in)
    if wp.static(by_value):
        list_by_lanes(stage.layout, stage.rows, world)
    else:
        list_rows(stage.layout, stage.rows, world)


@kernel
def contact_data(
    first_world: int, stage_in: StageArgument, contacts_in: ContactArgument, dofs_in: DofArgument, dt: wp.float64
):
    """Prepare the contacts and the terms of the dofs of a world, one block per world."""
    world = first_world + wp.tid() // lane_count()
    prepare_dofs(stage_in, dofs_in, world, dt)
    stage = open_stage(stage_in)
    slots = stage.slots
    found = stage.found[world]
    kept = wp.min(found, slots)
    first_slot = world * slots
    if wp.static(by_value):  # on CUDA
        if found > kept:
            choose_contacts(stage_in, contacts_in, world, first_slot, first_slot + kept)
        sort_world(stage_in, world, first_slot, first_slot + kept)
    distances = int(0)
    if is_warp() or lane() == 0:
        distances = prepare_distances(stage_in, dofs_in, world, dt)
    if lane() == 0:
        if wp.static(not by_value):
            if stage.ordered == 0 or found > kept:
                sort_slots(stage.slot, first_slot, first_slot + kept)
        stage.rows.count[world] = distances + kept
        stage.contact_count[world] = kept
        stage.truncated[world] = found - kept
        if found > kept:
            stage.lost[world] += wp.int64(found - kept)
            stage.most_lost[world] = wp.max(stage.most_lost[world], found - kept)
    barrier()
    count = stage.rows.count[world]
    row_flags = int(0)
    if kept > 0:
        end = world * stage.rows.capacity + count
        row_flags = assign_rows(stage_in, contacts_in, end - kept, end, first_slot)
        place_rows(stage_in, contacts_in, end - kept, end, world, dt)
        if (row_flags & ~MOVED) != 0:
            refine_rows(stage_in, contacts_in, end - kept, end, dt)
    barrier()
    if lane() == 0:
        stage.found[world] = 0  # ready for the next step's binning
    if is_native():  # the lists depend on nothing but the bodies of the rows
        if stage.listed[world] == count + 1 and (row_flags & MOVED) == 0:
            return
        stage.listed[world] = wp.where(count > kept, 0, count + 1)  # bounds of distance joints come and go unnoticed
    if wp.static(by_value) or lane() == 0:
        list_world(stage_in, world)
