"""In which order the Hessian has its trees, so that those in contact are near one another.

The factor of the Hessian fills each row from its first entry to the diagonal. With fifty boxes in a pile, numbered as
they were poured, nearly all of it is filled; numbered along the pile, a fortieth of the work is left. The order is that
of Cuthill and McKee, reversed: trees as they are met by a search, breadth first, through the contacts, from a tree at
the far end of the pile. Contacts change from step to step, so it is found anew in every step.
"""

import functools

import warp as wp

from ...core.kernels.types import Types
from ..model.layout import Layout
from .data import make_contact_data


@functools.cache
def make_order_trees(types: Types):
    """``order_trees(layout, out, world)``: change out.place, the identity, of a world; one lane; rows by body."""
    Contacts = make_contact_data(types)

    @wp.func
    def meet_neighbours(layout: wp.ref[Layout], out: wp.ref[Contacts], b: int, mark: int, end: int) -> int:
        """Append the trees that body b touches to the queue, which ends at ``end``; returns its new end."""
        at = int(end)
        i = out.body_start[b]
        i_end = i + out.body_count[b]
        while i < i_end:
            row = out.body_row[i] // 2
            other = out.body_a[row]
            if out.body_row[i] % 2 == 0:
                other = out.body_b[row]
            if other >= 0:
                root = layout.body_root[other]
                if out.seen[root] < mark:
                    out.seen[root] = mark
                    out.queue[at] = root
                    at += 1
            i += 1
        return at

    @wp.func
    def search(layout: wp.ref[Layout], out: wp.ref[Contacts], world: int, root: int, mark: int, begin: int) -> int:
        """Put all trees that hang together with that of ``root`` into the queue from ``begin`` on; returns its end."""
        first_body = layout.world_body[world]
        last_body = layout.world_body[world + 1]
        out.queue[begin] = root
        out.seen[root] = mark
        end = begin + 1
        at = int(begin)
        while at < end:
            tree = out.queue[at]
            b = int(tree)  # bodies of a tree have neighbouring numbers
            while b < last_body and layout.body_root[b] == tree:
                end = meet_neighbours(layout, out, b, mark, end)
                b += 1
            b = tree - 1
            while b >= first_body and layout.body_root[b] == tree:
                end = meet_neighbours(layout, out, b, mark, end)
                b -= 1
            at += 1
        return end

    @wp.func
    def order_trees(layout: wp.ref[Layout], out: wp.ref[Contacts], world: int):
        first_body = layout.world_body[world]
        last_body = layout.world_body[world + 1]
        trees = int(0)
        b = int(first_body)
        while b < last_body:
            out.seen[b] = 0
            if layout.body_root[b] == b:
                trees += 1
            b += 1
        if trees < 3:  # two that touch fill the same rows in either order
            return
        end = int(first_body)
        b = int(first_body)
        while b < last_body:
            if layout.body_root[b] == b and out.seen[b] == 0:
                far = out.queue[search(layout, out, world, b, 1, end) - 1]
                end = search(layout, out, world, far, 2, end)
            b += 1
        # from here on `seen` is the number of dofs of a tree, and then the place of its next one
        b = int(first_body)
        while b < last_body:
            out.seen[b] = 0
            b += 1
        e_end = layout.world_dof[world + 1]
        e = int(layout.world_dof[world])
        while e < e_end:
            root = layout.body_root[layout.dof_body[e]]
            out.seen[root] = out.seen[root] + 1
            e += 1
        place = int(layout.world_dof[world])
        while end > first_body:
            end -= 1
            root = out.queue[end]
            count = out.seen[root]
            out.seen[root] = place
            place += count
        e = int(layout.world_dof[world])
        while e < e_end:
            root = layout.body_root[layout.dof_body[e]]
            out.place[e] = out.seen[root]
            out.seen[root] = out.seen[root] + 1
            e += 1

    return order_trees
