"""Bilateral rows inside the Newton iteration: slack, impulse, stiffness and the parabola along a direction.

Called by all lanes of a block. Rows may share dofs, so they take turns and the lanes share the entries of one.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ..kernels.lanes import barrier, lane
from ..kernels.types import Types
from .constraint_data import make_constraint_data
from .terms.bilateral import make_bilateral_term


@functools.cache
def make_constraint_terms(types: Types, linear: Types) -> SimpleNamespace:
    """Device functions; ``linear`` is the precision of the Hessian."""
    Rows = make_constraint_data(types)
    bilateral = make_bilateral_term(types)
    scalar, vec3, lscalar = types.scalar, types.vec3, linear.scalar

    @wp.func
    def row_count(k: wp.ref[Rows], world: int) -> int:
        return k.world_row[world + 1] - k.world_row[world]

    @wp.func
    def rate(k: wp.ref[Rows], row: int, v: wp.array(dtype=scalar)) -> scalar:
        """J v of one row."""
        total = scalar(0.0)
        i_end = k.row_entry[row + 1]
        i = int(k.row_entry[row])
        while i < i_end:
            total += k.J[i] * v[k.entry_dof[i]]
            i += 1
        return total

    @wp.func
    def start_rows(k: wp.ref[Rows], world: int, v: wp.array(dtype=scalar)) -> scalar:
        """Slack of all rows at v; returns this lane's share of their cost."""
        cost = scalar(0.0)
        row_end = k.world_row[world + 1]
        row = int(k.world_row[world] + lane())
        while row < row_end:
            slack = k.vhat[row] - rate(k, row, v)
            k.slack[row] = slack
            if k.R[row] > scalar(0.0):
                cost += bilateral(slack, k.R[row])[0]
            row += wp.block_dim()
        return cost

    @wp.func
    def aim_rows(k: wp.ref[Rows], world: int, dv: wp.array(dtype=scalar)) -> vec3:
        """Change of the slack along dv; returns this lane's share of the slope and curvature of the cost."""
        total = vec3()
        row_end = k.world_row[world + 1]
        row = int(k.world_row[world] + lane())
        while row < row_end:
            change = -rate(k, row, dv)
            k.dslack[row] = change
            if k.R[row] > scalar(0.0):
                term = bilateral(k.slack[row], k.R[row])
                total += vec3(term[1] * change, term[2] * change * change, scalar(0.0))
            row += wp.block_dim()
        return total

    @wp.func
    def advance_rows(k: wp.ref[Rows], world: int, alpha: scalar):
        row_end = k.world_row[world + 1]
        row = int(k.world_row[world] + lane())
        while row < row_end:
            k.slack[row] = k.slack[row] + alpha * k.dslack[row]
            row += wp.block_dim()

    @wp.func
    def add_impulses(k: wp.ref[Rows], world: int, first: int, last: int, out: wp.array(dtype=scalar)):
        """J^T gamma of all rows into ``out``, whose dofs first .. last - 1 are set to zero before."""
        e = int(first + lane())
        while e < last:
            out[e] = scalar(0.0)
            e += wp.block_dim()
        barrier()
        row_end = k.world_row[world + 1]
        row = int(k.world_row[world])
        while row < row_end:
            if k.R[row] > scalar(0.0):
                gamma = bilateral(k.slack[row], k.R[row])[1]
                i_end = k.row_entry[row + 1]
                i = int(k.row_entry[row] + lane())
                while i < i_end:
                    e = k.entry_dof[i]
                    out[e] = out[e] + k.J[i] * gamma
                    i += wp.block_dim()
            barrier()
            row += 1

    @wp.func
    def add_stiffness(
        k: wp.ref[Rows],
        world: int,
        first: wp.array(dtype=wp.int32),
        entry: wp.array(dtype=wp.int32),
        H: wp.array(dtype=lscalar),
    ):
        """J^T J / R of all rows into the packed rows of H."""
        row_end = k.world_row[world + 1]
        row = int(k.world_row[world])
        while row < row_end:
            if k.R[row] > scalar(0.0):
                weight = bilateral(k.slack[row], k.R[row])[2]
                start = k.row_entry[row]
                i_end = k.row_entry[row + 1]
                i = int(start + lane())
                while i < i_end:
                    e = k.entry_dof[i]
                    address = entry[e] - first[e]
                    j_end = i + 1
                    j = int(start)
                    while j < j_end:
                        a = address + k.entry_dof[j]
                        H[a] = H[a] + lscalar(weight * k.J[i] * k.J[j])
                        j += 1
                    i += wp.block_dim()
            barrier()
            row += 1

    return SimpleNamespace(
        Rows=Rows,
        row_count=row_count,
        start_rows=start_rows,
        aim_rows=aim_rows,
        advance_rows=advance_rows,
        add_impulses=add_impulses,
        add_stiffness=add_stiffness,
    )
