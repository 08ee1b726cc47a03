"""Which rows each body has, which subtrees have any, and which dofs contacts couple."""

import functools

import warp as wp

from ...core.kernels.types import Types
from ...core.kernels.warps import fits_a_warp
from ..model.layout import Layout
from .data import make_contact_data
from .hessian_order import make_order_trees


@functools.cache
def make_mark_active(types: Types):
    """``mark_active(layout, out, body)``: say of a body, and of all above it, that rows act below them."""
    Contacts = make_contact_data(types)

    @wp.func
    def mark_active(layout: wp.ref[Layout], out: wp.ref[Contacts], body: int):
        b = int(body)
        while b >= 0:
            if out.body_active[b] != 0:
                break
            out.body_active[b] = 1
            b = layout.body_parent[b]

    return mark_active


@functools.cache
def make_sort_by_body(types: Types):
    """``sort_by_body(layout, out, world) -> bool``: fill the tables by body."""
    Contacts, mark_active = make_contact_data(types), make_mark_active(types)

    @wp.func
    def sort_by_body(layout: wp.ref[Layout], out: wp.ref[Contacts], world: int) -> bool:
        """Rows of each body, whatever they are: a counting sort in row order. Returns whether rows couple bodies."""
        first_body = layout.world_body[world]
        last_body = layout.world_body[world + 1]
        b = int(first_body)
        while b < last_body:
            out.body_count[b] = 0
            b += 1
        coupled = bool(False)
        base = world * out.capacity
        row_end = base + out.count[world]
        row = int(base)
        while row < row_end:
            for side in range(2):
                b = wp.where(side == 0, out.body_a[row], out.body_b[row])
                if b >= 0:
                    out.body_count[b] = out.body_count[b] + 1
                    mark_active(layout, out, b)
            if out.body_a[row] >= 0 and out.body_b[row] >= 0:
                coupled = True
            row += 1
        total = 2 * base
        b = int(first_body)
        while b < last_body:
            out.body_start[b] = total
            total += out.body_count[b]
            out.body_count[b] = 0
            b += 1
        row = int(base)
        while row < row_end:
            for side in range(2):
                b = wp.where(side == 0, out.body_a[row], out.body_b[row])
                if b >= 0:
                    out.body_row[out.body_start[b] + out.body_count[b]] = 2 * row + side
                    out.body_count[b] = out.body_count[b] + 1
            row += 1
        return coupled

    return sort_by_body


@functools.cache
def make_widen_rows(types: Types):
    """``widen_rows(layout, out, world, by_contacts)``: fill the pattern of the Hessian."""
    Contacts, order_trees = make_contact_data(types), make_order_trees(types)

    @wp.func
    def widen_rows(layout: wp.ref[Layout], out: wp.ref[Contacts], world: int, by_contacts: bool):
        """Hessian rows: the subtree of a dof, and left of it whatever contacts between moving bodies couple it with.

        Trees keep their order where constraints couple dofs, and where a warp has the whole matrix in registers.
        """
        start = layout.world_dof[world]
        end = layout.world_dof[world + 1]
        base = world * out.capacity
        coupled = layout.world_coupled[world]
        narrow = int(1)
        e = int(start)
        while e < end:
            out.place[e] = e
            e += 1
        if by_contacts and coupled == 0 and not fits_a_warp(end - start):
            order_trees(layout, out, world)
        e = int(start)
        while e < end:
            out.placed_first[out.place[e]] = out.place[e] - (e - layout.dof_reach[e])
            e += 1
        row_end = base + out.count[world]
        row = int(base)
        while row < row_end:
            if out.body_a[row] >= 0 and out.body_b[row] >= 0:
                coupled = 1
                narrow = 0
                chain_a = layout.body_chain[out.body_a[row]]
                chain_b = layout.body_chain[out.body_b[row]]
                for side in range(2):
                    e = wp.where(side == 0, chain_a, chain_b)
                    other = out.place[wp.where(side == 0, chain_b, chain_a)]
                    while e >= 0:
                        if other < out.placed_first[out.place[e]]:
                            out.placed_first[out.place[e]] = other
                        e = layout.dof_parent[e]
            row += 1
        address = layout.world_hessian[world]
        e = int(start)
        while e < end:
            place = out.place[e]
            width = place - out.placed_first[place]
            out.hessian.first[e] = e - width
            out.hessian.entry[e] = address
            out.placed_entry[place] = address
            address += width + 1
            e += 1
        out.coupled[world] = coupled
        out.narrow[world] = narrow

    return widen_rows


@functools.cache
def make_list_rows(types: Types):
    """``list_rows(layout, out, world)``: fill the tables by body and the pattern of the Hessian; one lane."""
    Contacts, mark_active = make_contact_data(types), make_mark_active(types)
    sort_by_body, widen_rows = make_sort_by_body(types), make_widen_rows(types)

    @wp.func
    def list_rows(layout: wp.ref[Layout], out: wp.ref[Contacts], world: int):
        b = int(layout.world_body[world])
        last_body = layout.world_body[world + 1]
        while b < last_body:
            out.body_count[b] = 0
            out.body_active[b] = 0
            b += 1
        # mostly the other side does not move, and the rows of a body follow one another: the lists are the rows
        base = world * out.capacity
        row_end = base + out.count[world]
        last = int(-1)
        first = int(base)
        row = int(base)
        while row < row_end:
            a = out.body_a[row]
            b = out.body_b[row]
            if a >= 0 and b >= 0:
                break
            own = wp.max(a, b)
            if own != last:
                if out.body_count[own] != 0:
                    break
                last = own
                first = row
                out.body_start[own] = base + row
                mark_active(layout, out, own)
            out.body_count[own] = row - first + 1
            out.body_row[base + row] = 2 * row + wp.where(b >= 0, 1, 0)
            row += 1
        if row < row_end or out.narrow[world] == 0:
            coupled = sort_by_body(layout, out, world)
            if coupled or out.narrow[world] == 0:
                widen_rows(layout, out, world, coupled)

    return list_rows
