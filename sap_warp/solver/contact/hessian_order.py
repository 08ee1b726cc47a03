"""In which order the Hessian has its trees, so that those in contact are near one another.

The factor of the Hessian fills each row from its first entry to the diagonal. With fifty boxes in a pile, numbered as
they were poured, nearly all of it is filled; numbered along the pile, a fortieth of the work is left. The order is that
of Cuthill and McKee, reversed: trees as they are met by a search, breadth first, through the contacts, from a tree at
the far end of the pile. Contacts change from step to step, so it is found anew in every step.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.template import device
from ..model.layout import Layout
from .data import ContactData


@device
def visit_neighbours(layout: wp.ref[Layout], contacts: wp.ref[ContactData], b: int, mark: int, queue_end: int) -> int:
    """Append the trees that body b touches to the queue, which ends at ``queue_end``; returns its new end."""
    end = int(queue_end)
    i = contacts.body_start[b]
    i_end = i + contacts.body_count[b]
    while i < i_end:
        row = contacts.body_row[i] // 2
        other = contacts.body_a[row]
        if contacts.body_row[i] % 2 == 0:
            other = contacts.body_b[row]
        if other >= 0:
            root = layout.body_root[other]
            if contacts.seen[root] < mark:
                contacts.seen[root] = mark
                contacts.queue[end] = root
                end += 1
        i += 1
    return end


@device
def search(layout: wp.ref[Layout], contacts: wp.ref[ContactData], world: int, root: int, mark: int, begin: int) -> int:
    """Put all trees that contacts connect with that of ``root`` into the queue from ``begin`` on; returns its end."""
    first_body = layout.world_body[world]
    last_body = layout.world_body[world + 1]
    contacts.queue[begin] = root
    contacts.seen[root] = mark
    end = begin + 1
    at = int(begin)
    while at < end:
        tree = contacts.queue[at]
        b = int(tree)  # bodies of a tree have neighbouring numbers
        while b < last_body and layout.body_root[b] == tree:
            end = visit_neighbours(layout, contacts, b, mark, end)
            b += 1
        b = tree - 1
        while b >= first_body and layout.body_root[b] == tree:
            end = visit_neighbours(layout, contacts, b, mark, end)
            b -= 1
        at += 1
    return end


@device
def order_trees(layout: wp.ref[Layout], contacts: wp.ref[ContactData], world: int):
    """Change `dof_position` of a world, which is the identity, by one lane; the lists by body are there already."""
    first_body = layout.world_body[world]
    last_body = layout.world_body[world + 1]
    trees = int(0)
    b = int(first_body)
    while b < last_body:
        contacts.seen[b] = 0
        if layout.body_root[b] == b:
            trees += 1
        b += 1
    if trees < 3:  # two that touch fill the same rows in either order
        return
    end = int(first_body)
    b = int(first_body)
    while b < last_body:
        if layout.body_root[b] == b and contacts.seen[b] == 0:
            farthest = contacts.queue[search(layout, contacts, world, b, 1, end) - 1]
            end = search(layout, contacts, world, farthest, 2, end)
        b += 1
    # from here on `seen` is the number of dofs of a tree, and then the position of its next one
    b = int(first_body)
    while b < last_body:
        contacts.seen[b] = 0
        b += 1
    e_end = layout.world_dof[world + 1]
    e = int(layout.world_dof[world])
    while e < e_end:
        root = layout.body_root[layout.dof_body[e]]
        contacts.seen[root] = contacts.seen[root] + 1
        e += 1
    position = int(layout.world_dof[world])
    while end > first_body:
        end -= 1
        root = contacts.queue[end]
        count = contacts.seen[root]
        contacts.seen[root] = position
        position += count
    e = int(layout.world_dof[world])
    while e < e_end:
        root = layout.body_root[layout.dof_body[e]]
        contacts.dof_position[e] = contacts.seen[root]
        contacts.seen[root] = contacts.seen[root] + 1
        e += 1
