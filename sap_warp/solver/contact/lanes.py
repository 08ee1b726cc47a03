"""What the lanes of a block share of contact data on CUDA, where one lane on the CPU goes from row to row.

Each lane looks at all rows, or at all slots, for one body, or one slot, after the other, and no lane waits for what
another has found. The lists are the same as those of `lists`: the rows of a body in the order of the rows.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.types import Ints, Types
from ...core.kernels.warps import any_lane, fits_a_warp, is_warp
from ..model.layout import Layout
from .data import make_contact_data
from .hessian_order import make_order_trees


@wp.func
def sort_by_lanes(slot: Ints, first: int, last: int, room: Ints, base: int):
    """Ascending order of different numbers: each goes to where as many are smaller; ``room`` from ``base`` on is free.

    Binning's threads come in any order. Results do not depend on that.
    """
    i = int(first + lane())
    while i < last:
        value = slot[i]
        place = int(base)
        j = int(first)
        while j < last:
            place += wp.where(slot[j] < value, 1, 0)
            j += 1
        room[place] = value
        i += lane_count()
    barrier()
    i = int(first + lane())
    while i < last:
        slot[i] = room[base + i - first]
        i += lane_count()
    barrier()


@functools.cache
def make_list_bodies(types: Types) -> SimpleNamespace:
    """Device functions for the tables by body."""
    Contacts = make_contact_data(types)

    @wp.func
    def list_body(out: wp.ref[Contacts], world: int, b: int):
        """Count and list the rows of one body."""
        base = world * out.capacity
        row_end = base + out.count[world]
        start = int(2 * base)  # after the rows of the bodies before
        count = int(0)
        row = int(base)
        while row < row_end:
            a = out.body_a[row]
            other = out.body_b[row]
            if a >= 0:
                start += wp.where(a < b, 1, 0)
                count += wp.where(a == b, 1, 0)
            if other >= 0:
                start += wp.where(other < b, 1, 0)
                count += wp.where(other == b, 1, 0)
            row += 1
        out.body_start[b] = start
        out.body_count[b] = count
        row = int(base)
        while count > 0:
            for side in range(2):
                if wp.where(side == 0, out.body_a[row], out.body_b[row]) == b:
                    out.body_row[start] = 2 * row + side
                    start += 1
                    count -= 1
            row += 1

    @wp.func
    def any_couples(out: wp.ref[Contacts], world: int) -> bool:
        """Whether any row couples two bodies, the same on all lanes: those of a warp share the rows."""
        base = world * out.capacity
        row_end = base + out.count[world]
        row = int(base + wp.where(is_warp(), lane(), 0))
        found = bool(False)
        while row < row_end:
            found = found or (out.body_a[row] >= 0 and out.body_b[row] >= 0)
            row += wp.where(is_warp(), lane_count(), 1)
        return any_lane(found)

    @wp.func
    def mark_active(layout: wp.ref[Layout], out: wp.ref[Contacts], world: int):
        """Bodies whose subtrees have rows: those that have some themselves tell all above them."""
        b = int(layout.world_body[world] + lane())
        last_body = layout.world_body[world + 1]
        while b < last_body:
            if out.body_count[b] > 0:
                above = int(b)
                while above >= 0:
                    if wp.atomic_max(out.body_active, above, 1) != 0:
                        break
                    above = layout.body_parent[above]
            b += lane_count()

    return SimpleNamespace(list_body=list_body, any_couples=any_couples, mark_active=mark_active)


@functools.cache
def make_widen_by_lanes(types: Types) -> Any:
    """``widen_rows(layout, out, world, by_contacts)``: the pattern of the Hessian."""
    Contacts, order_trees = make_contact_data(types), make_order_trees(types)

    @wp.func
    def reach_left(layout: wp.ref[Layout], out: wp.ref[Contacts], from_body: int, to_body: int):
        """Widen the rows of the chain of one body to the chain of another."""
        other = out.place[layout.body_chain[to_body]]
        e = int(layout.body_chain[from_body])
        while e >= 0:
            wp.atomic_min(out.placed_first, out.place[e], other)
            e = layout.dof_parent[e]

    @wp.func
    def give_entries(layout: wp.ref[Layout], out: wp.ref[Contacts], world: int):
        """Addresses of the Hessian's rows, one after the other; each lane has a run of dofs."""
        start = layout.world_dof[world]
        end = layout.world_dof[world + 1]
        share = (end - start + lane_count() - 1) // lane_count()
        first = wp.min(start + lane() * share, end)
        last = wp.min(first + share, end)
        total = int(0)
        e = int(first)
        while e < last:
            total += out.place[e] - out.placed_first[out.place[e]] + 1
            e += 1
        if first < last:
            out.placed_entry[start + lane()] = total
        barrier()
        address = int(layout.world_hessian[world])
        k = int(0)
        while k < lane() and first < last:
            address += out.placed_entry[start + k]
            k += 1
        barrier()
        e = int(first)
        while e < last:
            place = out.place[e]
            width = place - out.placed_first[place]
            out.hessian.first[e] = e - width
            out.hessian.entry[e] = address
            out.placed_entry[place] = address
            address += width + 1
            e += 1

    @wp.func
    def widen_rows(layout: wp.ref[Layout], out: wp.ref[Contacts], world: int, by_contacts: bool):
        """As that of `lists`. The order of trees, which only large worlds have, is found by one lane."""
        start = layout.world_dof[world]
        end = layout.world_dof[world + 1]
        coupled = layout.world_coupled[world]
        e = int(start + lane())
        while e < end:
            out.place[e] = e
            e += lane_count()
        barrier()
        if by_contacts and coupled == 0 and not fits_a_warp(end - start):
            if lane() == 0:
                order_trees(layout, out, world)
            barrier()
        e = int(start + lane())
        while e < end:
            out.placed_first[out.place[e]] = out.place[e] - (e - layout.dof_reach[e])
            e += lane_count()
        barrier()
        base = world * out.capacity
        row_end = base + out.count[world]
        row = int(base + lane())
        while row < row_end:
            a = out.body_a[row]
            b = out.body_b[row]
            if a >= 0 and b >= 0:
                reach_left(layout, out, a, b)
                reach_left(layout, out, b, a)
            row += lane_count()
        barrier()
        give_entries(layout, out, world)
        if lane() == 0:
            out.coupled[world] = wp.where(by_contacts, 1, coupled)
            out.narrow[world] = wp.where(by_contacts, 0, 1)

    return widen_rows


@functools.cache
def make_list_by_lanes(types: Types) -> Any:
    """``list_by_lanes(layout, out, world)``: as `lists.make_list_rows`, by all lanes; a barrier before it."""
    Contacts, widen_rows, bodies = make_contact_data(types), make_widen_by_lanes(types), make_list_bodies(types)
    list_body, any_couples, mark_active = bodies.list_body, bodies.any_couples, bodies.mark_active

    @wp.func
    def list_by_lanes(layout: wp.ref[Layout], out: wp.ref[Contacts], world: int):
        b = int(layout.world_body[world] + lane())
        last_body = layout.world_body[world + 1]
        while b < last_body:
            out.body_active[b] = 0
            list_body(out, world, b)
            b += lane_count()
        narrow = out.narrow[world]
        coupled = any_couples(out, world)
        barrier()
        mark_active(layout, out, world)
        if coupled or narrow == 0:
            widen_rows(layout, out, world, coupled)

    return list_by_lanes
