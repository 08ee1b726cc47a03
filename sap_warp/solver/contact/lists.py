"""Which contacts each body has, which subtrees have any, and which dofs contacts couple; by one lane."""

from __future__ import annotations

import warp as wp

from ...core.kernels.template import device
from ...core.kernels.warps import fits_a_warp
from ..model.layout import Layout
from .data import NOT_WIDENED_BY_CONTACTS, ROWS_OF_A, ROWS_WIDENED, WIDENED_BY_CONTACTS, ContactData
from .hessian_order import order_trees


@device
def mark_active(layout: wp.ref[Layout], contacts: wp.ref[ContactData], body: int):
    """Say of a body, and of all above it, that contacts act in their subtrees."""
    b = int(body)
    while b >= 0:
        if contacts.body_active[b] != 0:
            break
        contacts.body_active[b] = 1
        b = layout.body_parent[b]


@device
def sort_by_body(layout: wp.ref[Layout], contacts: wp.ref[ContactData], world: int) -> bool:
    """Fill the tables by body, whatever the rows are: a counting sort in row order.

    Returns True if a contact couples two moving bodies.
    """
    first_body = layout.world_body[world]
    last_body = layout.world_body[world + 1]
    b = int(first_body)
    while b < last_body:
        contacts.body_count[b] = 0
        b += 1
    coupled = bool(False)
    base = world * contacts.capacity
    row_end = base + contacts.count[world]
    row = int(base)
    while row < row_end:
        for side in range(2):
            b = wp.where(side == 0, contacts.body_a[row], contacts.body_b[row])
            if b >= 0:
                contacts.body_count[b] = contacts.body_count[b] + 1
                mark_active(layout, contacts, b)
        if contacts.body_a[row] >= 0 and contacts.body_b[row] >= 0:
            coupled = True
        row += 1
    total = 2 * base
    b = int(first_body)
    while b < last_body:
        contacts.body_start[b] = total
        total += contacts.body_count[b]
        contacts.body_count[b] = 0
        b += 1
    row = int(base)
    while row < row_end:
        for side in range(2):
            b = wp.where(side == 0, contacts.body_a[row], contacts.body_b[row])
            if b >= 0:
                contacts.body_row[contacts.body_start[b] + contacts.body_count[b]] = 2 * row + side
                contacts.body_count[b] = contacts.body_count[b] + 1
        row += 1
    return coupled


@device
def widen_rows(layout: wp.ref[Layout], contacts: wp.ref[ContactData], world: int, by_contacts: bool):
    """Fill the pattern of the Hessian: the subtree of a dof, and left of it what contacts of two bodies couple it with.

    Trees keep their order where equations couple dofs, and where a warp has the whole matrix in registers.
    """
    start = layout.world_dof[world]
    end = layout.world_dof[world + 1]
    base = world * contacts.capacity
    pattern = layout.world_coupled[world]
    narrow = int(NOT_WIDENED_BY_CONTACTS)
    e = int(start)
    while e < end:
        contacts.dof_position[e] = e
        e += 1
    if by_contacts and pattern == ROWS_OF_A and not fits_a_warp(end - start):
        order_trees(layout, contacts, world)
    e = int(start)
    while e < end:
        contacts.ordered_first[contacts.dof_position[e]] = contacts.dof_position[e] - (e - layout.dof_reach[e])
        e += 1
    row_end = base + contacts.count[world]
    row = int(base)
    while row < row_end:
        if contacts.body_a[row] >= 0 and contacts.body_b[row] >= 0:
            pattern = ROWS_WIDENED
            narrow = WIDENED_BY_CONTACTS
            chain_a = layout.body_chain[contacts.body_a[row]]
            chain_b = layout.body_chain[contacts.body_b[row]]
            for side in range(2):
                e = wp.where(side == 0, chain_a, chain_b)
                other = contacts.dof_position[wp.where(side == 0, chain_b, chain_a)]
                while e >= 0:
                    if other < contacts.ordered_first[contacts.dof_position[e]]:
                        contacts.ordered_first[contacts.dof_position[e]] = other
                    e = layout.dof_parent[e]
        row += 1
    address = layout.world_hessian[world]
    e = int(start)
    while e < end:
        position = contacts.dof_position[e]
        width = position - contacts.ordered_first[position]
        contacts.hessian.first[e] = e - width
        contacts.hessian.entry[e] = address
        contacts.ordered_entry[position] = address
        address += width + 1
        e += 1
    contacts.coupled[world] = pattern
    contacts.narrow[world] = narrow


@device
def list_rows(layout: wp.ref[Layout], contacts: wp.ref[ContactData], world: int):
    """Fill the tables by body and the pattern of the Hessian."""
    b = int(layout.world_body[world])
    last_body = layout.world_body[world + 1]
    while b < last_body:
        contacts.body_count[b] = 0
        contacts.body_active[b] = 0
        b += 1
    # mostly the other side does not move, and the rows of a body follow one another: the lists are the rows
    base = world * contacts.capacity
    row_end = base + contacts.count[world]
    last = int(-1)
    first = int(base)
    row = int(base)
    while row < row_end:
        a = contacts.body_a[row]
        b = contacts.body_b[row]
        if a >= 0 and b >= 0:
            break
        own = wp.max(a, b)
        if own != last:
            if contacts.body_count[own] != 0:
                break
            last = own
            first = row
            contacts.body_start[own] = base + row
            mark_active(layout, contacts, own)
        contacts.body_count[own] = row - first + 1
        contacts.body_row[base + row] = 2 * row + wp.where(b >= 0, 1, 0)
        row += 1
    if row < row_end or contacts.narrow[world] == WIDENED_BY_CONTACTS:
        coupled = sort_by_body(layout, contacts, world)
        if coupled or contacts.narrow[world] == WIDENED_BY_CONTACTS:
            widen_rows(layout, contacts, world, coupled)
