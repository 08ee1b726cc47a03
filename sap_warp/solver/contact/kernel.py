"""The kernel of stage 3: contact rows of a world, the terms of its dofs, and which bodies and dofs have rows.

Each function makes its own copy of the structs: pointers that are loaded where they are used take no room before. What
is large is not inlined on the CPU; a parameter that is passed by value must not be handed on to it.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from ...core.kernels.lanes import barrier, is_native, lane, lane_count
from ...core.kernels.launch import solver_kernel
from ...core.kernels.structs import make_flat, struct_parameter
from ...core.kernels.types import Ints
from ...core.kernels.warps import count_lanes, is_warp, lanes_before
from ..joints.terms import make_distance_rows, make_joint_terms
from ..model.layout import Layout
from .choice import make_keep_deepest
from .data import make_contact_data
from .input import ContactInput, DofInput
from .lanes import make_list_by_lanes, sort_by_lanes
from .lists import make_list_rows
from .rows import MOVED, make_assign_contacts, make_place_contacts, make_refine_contact
from .stage_data import ContactPrecisions, make_contact_stage


@functools.cache
def stage_access(precisions: ContactPrecisions, by_value: bool) -> tuple[Any, Any, Any]:
    """Type of the parameter for the stage, ``read(parameter)`` and ``flat(stage)``; see `struct_parameter`."""
    Stage = make_contact_stage(precisions)
    return *struct_parameter(Stage, by_value), make_flat(Stage)


def large(by_value: bool) -> Any:
    """The decorator of large functions."""
    return wp.func if by_value else wp.func(inline=False)


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


@functools.cache
def make_prepare_dofs(precisions: ContactPrecisions, by_value: bool) -> SimpleNamespace:
    """Device functions for terms and distance joints of a world."""
    prepare_dof = make_joint_terms(precisions)
    distances = make_distance_rows(precisions)
    Bound, find_bound, store_bound = distances.Bound, distances.find_bound, distances.store_bound
    stage_type, read_stage, flat_stage = stage_access(precisions, by_value)
    flat_dofs = make_flat(DofInput)
    dof_type, read_dofs = struct_parameter(DofInput, by_value)

    @wp.func
    def prepare_dofs(stage_in: stage_type, dofs_in: dof_type, world: int, dt: wp.float64):
        """Terms of the dofs of a world."""
        s = read_stage(stage_in)
        dofs = read_dofs(dofs_in)
        flat_stage(s)
        flat_dofs(dofs)
        i_end = s.layout.world_term[world + 1]
        i = int(s.layout.world_term[world] + lane())
        while i < i_end:
            prepare_dof(s, dofs, s.layout.term_dof[i], dt)
            i += lane_count()

    @large(by_value)
    def prepare_distances(stage_in: stage_type, dofs_in: dof_type, world: int, dt: wp.float64) -> int:
        """Rows of the distance joints of a world; returns how many. All lanes of a warp, or one lane of others."""
        s = read_stage(stage_in)
        flat_stage(s)
        count = int(0)
        begin = s.layout.world_distance[world]
        bounds = 2 * (s.layout.world_distance[world + 1] - begin)
        if bounds > 0:
            dofs = read_dofs(dofs_in)
            flat_dofs(dofs)
            first = int(0)
            while first < bounds:  # a bound per lane
                i = first + wp.where(is_warp(), lane(), 0)
                bound = Bound()
                if i < bounds:
                    bound = find_bound(s, dofs, s.layout.distance_body[begin + i // 2], i % 2 != 0, dt)
                place = count + lanes_before(bound.takes_part != 0)
                count += count_lanes(bound.takes_part != 0)
                if bound.takes_part != 0:
                    store_bound(s, bound, world * s.rows.capacity + place)
                first += wp.where(is_warp(), lane_count(), 1)
        return count

    return SimpleNamespace(prepare_dofs=prepare_dofs, prepare_distances=prepare_distances)


@functools.cache
def make_fill_rows(precisions: ContactPrecisions, by_value: bool) -> SimpleNamespace:
    """Device functions that fill the contact rows of a world."""
    assign_contacts = make_assign_contacts(precisions)
    place_contacts = make_place_contacts(precisions)
    refine_contact = make_refine_contact(precisions)
    stage_type, read_stage, flat_stage = stage_access(precisions, by_value)
    flat_contacts = make_flat(ContactInput)
    contact_type, read_contacts = struct_parameter(ContactInput, by_value)

    @wp.func
    def assign_rows(
        stage_in: stage_type,
        contacts_in: contact_type,
        first: int,
        end: int,
        first_slot: int,
        world: int,
        dt: wp.float64,
    ) -> int:
        """Bodies and materials; returns whether any row has to be refined, and `MOVED`."""
        s = read_stage(stage_in)
        c = read_contacts(contacts_in)
        flat_stage(s)
        flat_contacts(c)
        special = s.law.weight_mode | s.law.point_mode | s.law.follows | c.has_overrides | c.has_surface_velocity
        return special | assign_contacts(s, c, first_slot - first, first + lane(), end, world, dt)

    @large(by_value)
    def place_rows(stage_in: stage_type, contacts_in: contact_type, first: int, end: int):
        """Geometry and weights."""
        s = read_stage(stage_in)
        c = read_contacts(contacts_in)
        flat_stage(s)
        flat_contacts(c)
        place_contacts(s, c, first + lane(), end)

    @large(by_value)
    def refine_rows(stage_in: stage_type, contacts_in: contact_type, first: int, end: int, dt: wp.float64):
        """What only some contacts need."""
        s = read_stage(stage_in)
        c = read_contacts(contacts_in)
        flat_stage(s)
        flat_contacts(c)
        row = int(first + lane())
        while row < end:
            refine_contact(s, c, row, dt)
            row += lane_count()

    return SimpleNamespace(assign_rows=assign_rows, place_rows=place_rows, refine_rows=refine_rows)


@functools.cache
def make_sort_world(precisions: ContactPrecisions):
    """``sort_world(stage, world, first, last)``: `sort_slots` by all lanes, where structs are passed by value."""
    stage_type, read_stage, flat_stage = stage_access(precisions, True)

    @wp.func
    def sort_world(stage_in: stage_type, world: int, first: int, last: int):
        s = read_stage(stage_in)
        flat_stage(s)
        sort_by_lanes(s.slot, first, last, s.rows.source, world * s.rows.capacity)

    return sort_world


@functools.cache
def make_choose_contacts(precisions: ContactPrecisions, by_value: bool):
    """``choose_contacts(stage, contacts, world, first, last)``."""
    keep_deepest = make_keep_deepest(precisions.pose, precisions.contact_pose, precisions.dynamics)
    stage_type, read_stage, flat_stage = stage_access(precisions, by_value)
    flat_contacts = make_flat(ContactInput)
    contact_type, read_contacts = struct_parameter(ContactInput, by_value)

    @wp.func
    def choose_contacts(stage_in: stage_type, contacts_in: contact_type, world: int, first: int, last: int):
        """Let the slots of a world that is too full have the deepest contacts."""
        s = read_stage(stage_in)
        c = read_contacts(contacts_in)
        flat_stage(s)
        flat_contacts(c)
        newcomer = s.newcomer[world]
        keep_deepest(c, s.motion, s.slot, first, last, newcomer)
        if lane() == 0:
            s.newcomer[world] = 0

    return choose_contacts


@functools.cache
def make_list_world(precisions: ContactPrecisions, by_value: bool):
    """``list_world(stage, world)``."""
    types = precisions.types
    list_rows = make_list_by_lanes(types) if by_value else make_list_rows(types)
    flat_layout = make_flat(Layout)
    flat_rows = make_flat(make_contact_data(types))
    stage_type, read_stage, _ = stage_access(precisions, by_value)

    @wp.func
    def list_world(stage_in: stage_type, world: int):
        s = read_stage(stage_in)
        layout = s.layout
        out = s.rows
        flat_layout(layout)
        flat_rows(out)
        list_rows(layout, out, world)

    return list_world


@functools.cache
def make_contact_kernel(precisions: ContactPrecisions, by_value: bool):
    """The kernel of the stage: one block per world. ``by_value`` is that of `struct_parameter`."""
    dof_terms, rows = make_prepare_dofs(precisions, by_value), make_fill_rows(precisions, by_value)
    prepare_dofs, prepare_distances = dof_terms.prepare_dofs, dof_terms.prepare_distances
    assign_rows, place_rows, refine_rows = rows.assign_rows, rows.place_rows, rows.refine_rows
    choose_contacts, list_world = make_choose_contacts(precisions, by_value), make_list_world(precisions, by_value)
    stage_type, read_stage, _ = stage_access(precisions, by_value)
    contact_type, dof_type = (struct_parameter(struct, by_value)[0] for struct in (ContactInput, DofInput))
    sort_world = make_sort_world(precisions) if by_value else None

    @solver_kernel
    def contact_data(first_world: int, stage: stage_type, contacts: contact_type, dofs: dof_type, dt: wp.float64):
        world = first_world + wp.tid() // lane_count()
        prepare_dofs(stage, dofs, world, dt)
        s = read_stage(stage)
        slots = s.slots
        found = s.found[world]
        kept = wp.min(found, slots)
        first_slot = world * slots
        if wp.static(by_value):  # on CUDA
            if found > kept:
                choose_contacts(stage, contacts, world, first_slot, first_slot + kept)
            sort_world(stage, world, first_slot, first_slot + kept)
        distances = int(0)
        if is_warp() or lane() == 0:
            distances = prepare_distances(stage, dofs, world, dt)
        if lane() == 0:
            if wp.static(not by_value):
                if s.ordered == 0 or found > kept:
                    sort_slots(s.slot, first_slot, first_slot + kept)
            s.rows.count[world] = distances + kept
            s.contact_count[world] = kept
            s.truncated[world] = found - kept
            if found > kept:
                s.lost[world] += wp.int64(found - kept)
                s.most_lost[world] = wp.max(s.most_lost[world], found - kept)
        barrier()
        count = s.rows.count[world]
        special = int(0)
        if kept > 0:
            end = world * s.rows.capacity + count
            special = assign_rows(stage, contacts, end - kept, end, first_slot, world, dt)
            place_rows(stage, contacts, end - kept, end)
            if (special & ~MOVED) != 0:
                refine_rows(stage, contacts, end - kept, end, dt)
        barrier()
        if lane() == 0:
            s.found[world] = 0  # ready for the next step's binning
        if is_native():  # the lists depend on nothing but the bodies of the rows
            if s.listed[world] == count + 1 and (special & MOVED) == 0:
                return
            s.listed[world] = wp.where(count > kept, 0, count + 1)  # bounds of distance joints come and go unnoticed
        if wp.static(by_value) or lane() == 0:
            list_world(stage, world)

    return contact_data
