"""What the lanes of a block share of contact data on CUDA, where one lane on the CPU goes from row to row.

Each lane looks at all rows, or at all slots, for one body, or one slot, after the other, and no lane waits for what
another has found. The lists are those of `contact/lists.py`: the rows of a body in the order of the rows.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.template import device
from ...core.kernels.types import Ints
from ...core.kernels.warps import any_lane, fits_a_warp, is_warp
from ..model.layout import Layout
from .data import NOT_WIDENED_BY_CONTACTS, ROWS_OF_A, ROWS_WIDENED, WIDENED_BY_CONTACTS, ContactData
from .hessian_order import order_trees


@wp.func
def sort_by_lanes(slot: Ints, first: int, last: int, scratch: Ints, base: int):
    """Sort different numbers: each goes to where as many are smaller; ``scratch`` is free from ``base`` on.

    Binning's threads come in any order. Results do not depend on that.
    """
    i = int(first + lane())
    while i < last:
        value = slot[i]
        target = int(base)
        j = int(first)
        while j < last:
            target += wp.where(slot[j] < value, 1, 0)
            j += 1
        scratch[target] = value
        i += lane_count()
    barrier()
    i = int(first + lane())
    while i < last:
        slot[i] = scratch[base + i - first]
        i += lane_count()
    barrier()


@device
def list_body(contacts: wp.ref[ContactData], world: int, b: int):
    """Count and list the rows of one body."""
    base = world * contacts.capacity
    row_end = base + contacts.count[world]
    start = int(2 * base)  # after the rows of the bodies before
    count = int(0)
    row = int(base)
    while row < row_end:
        a = contacts.body_a[row]
        other = contacts.body_b[row]
        if a >= 0:
            start += wp.where(a < b, 1, 0)
            count += wp.where(a == b, 1, 0)
        if other >= 0:
            start += wp.where(other < b, 1, 0)
            count += wp.where(other == b, 1, 0)
        row += 1
    contacts.body_start[b] = start
    contacts.body_count[b] = count
    row = int(base)
    while count > 0:
        for side in range(2):
            if wp.where(side == 0, contacts.body_a[row], contacts.body_b[row]) == b:
                contacts.body_row[start] = 2 * row + side
                start += 1
                count -= 1
        row += 1


@device
def any_couples(contacts: wp.ref[ContactData], world: int) -> bool:
    """Return True, on all lanes, if a contact couples two moving bodies; the lanes of a warp share the rows."""
    base = world * contacts.capacity
    row_end = base + contacts.count[world]
    row = int(base + wp.where(is_warp(), lane(), 0))
    found = bool(False)
    while row < row_end:
        found = found or (contacts.body_a[row] >= 0 and contacts.body_b[row] >= 0)
        row += wp.where(is_warp(), lane_count(), 1)
    return any_lane(found)


@device
def mark_all_active(layout: wp.ref[Layout], contacts: wp.ref[ContactData], world: int):
    """Find the bodies whose subtrees have contacts: those that have some themselves tell all above them."""
    b = int(layout.world_body[world] + lane())
    last_body = layout.world_body[world + 1]
    while b < last_body:
        if contacts.body_count[b] > 0:
            above = int(b)
            while above >= 0:
                if wp.atomic_max(contacts.body_active, above, 1) != 0:
                    break
                above = layout.body_parent[above]
        b += lane_count()


@device
def reach_left(layout: wp.ref[Layout], contacts: wp.ref[ContactData], from_body: int, to_body: int):
    """Widen the rows of the chain of one body to the chain of another."""
    other = contacts.dof_position[layout.body_chain[to_body]]
    e = int(layout.body_chain[from_body])
    while e >= 0:
        wp.atomic_min(contacts.ordered_first, contacts.dof_position[e], other)
        e = layout.dof_parent[e]


@device
def give_entries(layout: wp.ref[Layout], contacts: wp.ref[ContactData], world: int):
    """Give the Hessian's rows their addresses, one after the other; each lane has a run of dofs."""
    start = layout.world_dof[world]
    end = layout.world_dof[world + 1]
    share = (end - start + lane_count() - 1) // lane_count()
    first = wp.min(start + lane() * share, end)
    last = wp.min(first + share, end)
    total = int(0)
    e = int(first)
    while e < last:
        total += contacts.dof_position[e] - contacts.ordered_first[contacts.dof_position[e]] + 1
        e += 1
    if first < last:
        contacts.ordered_entry[start + lane()] = total
    barrier()
    address = int(layout.world_hessian[world])
    k = int(0)
    while k < lane() and first < last:
        address += contacts.ordered_entry[start + k]
        k += 1
    barrier()
    e = int(first)
    while e < last:
        position = contacts.dof_position[e]
        width = position - contacts.ordered_first[position]
        contacts.hessian.first[e] = e - width
        contacts.hessian.entry[e] = address
        contacts.ordered_entry[position] = address
        address += width + 1
        e += 1


@device
def widen_by_lanes(layout: wp.ref[Layout], contacts: wp.ref[ContactData], world: int, by_contacts: bool):
    """Fill the pattern of the Hessian as `lists.widen_rows` does, by all lanes.

    The order of trees, which only large worlds have, is found by one lane.
    """
    start = layout.world_dof[world]
    end = layout.world_dof[world + 1]
    pattern = layout.world_coupled[world]
    e = int(start + lane())
    while e < end:
        contacts.dof_position[e] = e
        e += lane_count()
    barrier()
    if by_contacts and pattern == ROWS_OF_A and not fits_a_warp(end - start):
        if lane() == 0:
            order_trees(layout, contacts, world)
        barrier()
    e = int(start + lane())
    while e < end:
        contacts.ordered_first[contacts.dof_position[e]] = contacts.dof_position[e] - (e - layout.dof_reach[e])
        e += lane_count()
    barrier()
    base = world * contacts.capacity
    row_end = base + contacts.count[world]
    row = int(base + lane())
    while row < row_end:
        a = contacts.body_a[row]
        b = contacts.body_b[row]
        if a >= 0 and b >= 0:
            reach_left(layout, contacts, a, b)
            reach_left(layout, contacts, b, a)
        row += lane_count()
    barrier()
    give_entries(layout, contacts, world)
    if lane() == 0:
        contacts.coupled[world] = wp.where(by_contacts, ROWS_WIDENED, pattern)
        contacts.narrow[world] = wp.where(by_contacts, WIDENED_BY_CONTACTS, NOT_WIDENED_BY_CONTACTS)


@device
def list_by_lanes(layout: wp.ref[Layout], contacts: wp.ref[ContactData], world: int):
    """Fill the tables by body and the pattern of the Hessian, by all lanes; there was a barrier before."""
    b = int(layout.world_body[world] + lane())
    last_body = layout.world_body[world + 1]
    while b < last_body:
        contacts.body_active[b] = 0
        list_body(contacts, world, b)
        b += lane_count()
    narrow = contacts.narrow[world]
    coupled = any_couples(contacts, world)
    barrier()
    mark_all_active(layout, contacts, world)
    if coupled or narrow == WIDENED_BY_CONTACTS:
        widen_by_lanes(layout, contacts, world, coupled)
