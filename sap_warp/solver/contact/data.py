"""The contact problem of every world, as the solve reads it."""

import functools

import warp as wp

from ...core.kernels.packed_rows import RowPattern
from ...core.kernels.types import Types

NO_BODY = wp.constant(-1)


@functools.cache
def make_contact_data(types: Types):
    """Struct of contact rows: world w owns the rows ``w * capacity`` on, of which the first ``count[w]`` are in use.

    A row is a contact, or one bound of a distance joint, which is a contact without friction.
    """
    scalar, vec3 = types.scalar, types.vec3

    @wp.struct
    class ContactData:
        capacity: int
        count: wp.array(dtype=wp.int32)  # rows in use, by world
        source: wp.array(dtype=wp.int32)  # index in the contact buffer, -1 for a distance row
        body_a: wp.array(dtype=wp.int32)  # moving body of shape 0 in solver order, or NO_BODY
        body_b: wp.array(dtype=wp.int32)  # moving body of shape 1
        normal: wp.array(dtype=vec3)  # from shape 0 to shape 1, world axes
        r_a: wp.array(dtype=vec3)  # velocity point relative to the reference point of a's tree [m]
        r_b: wp.array(dtype=vec3)
        phi0: wp.array(dtype=scalar)  # signed gap at the start of the step [m]
        vhat: wp.array(dtype=scalar)  # -phi0 / (h + tau) [m/s]
        mu: wp.array(dtype=scalar)
        weight: wp.array(dtype=scalar)  # w [1/kg]
        Rt: wp.array(dtype=scalar)  # [1/kg]
        Rn: wp.array(dtype=scalar)
        drift: wp.array(dtype=vec3)  # prescribed part of the relative velocity [m/s]
        # rows by body: entries 2 row + side, side 0 for a and 1 for b
        body_start: wp.array(dtype=wp.int32)
        body_count: wp.array(dtype=wp.int32)
        body_row: wp.array(dtype=wp.int32)
        body_active: wp.array(dtype=wp.int32)  # 1 if the body's subtree has a contact
        coupled: wp.array(dtype=wp.int32)  # by world: 1 if any row of the Hessian is wider than A's
        narrow: wp.array(dtype=wp.int32)  # by world: 1 if no contact widens the rows in the table below
        hessian: RowPattern  # like A's, widened by contacts between moving bodies; of a row's columns left of those of
        # A only the number counts, since trees have another order there, see `hessian_order`:
        place: wp.array(dtype=wp.int32)  # of a dof among the columns
        placed_first: wp.array(dtype=wp.int32)  # place of the first column of the row with this place
        placed_entry: wp.array(dtype=wp.int32)  # address of that entry
        queue: wp.array(dtype=wp.int32)  # trees in this order, by their roots
        seen: wp.array(dtype=wp.int32)  # by body, for whoever finds the order

    return ContactData
