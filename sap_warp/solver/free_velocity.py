"""The unconstrained velocity itself, v* = v0 + A^-1 impulse, and the factorization of A that leads to it.

The minimum of the objective does not depend on knowing v*: A (v - v*) follows from the impulse of free motion, and a
constant in the cost moves no minimum. So a step leaves v* to the solve, which finds it only for the worlds that ask
for it (`contact_solve`). This kernel is for the rest: options under which every world asks, and a user who looks.
"""

import functools

import warp as wp

from ..kernels.lanes import barrier, lane
from ..kernels.launch import solver_kernel
from ..kernels.structs import make_flat
from ..kernels.types import Types
from .block import make_cholesky, make_copy
from .layout import Layout
from .options import SapOptions
from .status import FREE_MOTION_FAILED


def is_needed_by_all(options: SapOptions, distance_rows: int) -> bool:
    """Whether every world needs v* in every step.

    - The exact contact weight is made from the factorization.
    - A distance joint takes part or not by the speed of its anchors in free motion.
    - armijo_decay compares differences of the cost with its size at every trial. The other line searches need the size
      for one comparison before and one after them, where a lower bound often decides.
    - The solve can factorize A where it factorizes the Hessian only if both have the same precision.
    """
    return (
        options.contact_weight_mode == "delassus"
        or distance_rows > 0
        or options.line_search_variant == "armijo_decay"
        or options.free_motion_solve_precision != options.contact_linear_solve_precision
    )


@functools.cache
def make_free_velocity_kernel(types: Types, Data):
    """The kernel: one block per world. ``Data`` is the struct of free motion."""
    cholesky, copy = make_cholesky(types), make_copy(types, types)
    factor, solve = cholesky.factor, cholesky.solve
    scalar = types.scalar
    flat_layout, flat_data = make_flat(Layout), make_flat(Data)

    @solver_kernel
    def free_velocity(
        first_world: int,
        layout_in: wp.array(dtype=Layout),
        data_in: wp.array(dtype=Data),
        A_factor: wp.array(dtype=scalar),
        rhs: wp.array(dtype=scalar),
        status: wp.array(dtype=wp.int32),
    ):
        world = first_world + wp.tid() // wp.block_dim()
        layout = layout_in[0]
        d = data_in[0]
        flat_layout(layout)
        flat_data(d)
        start = layout.world_dof[world]
        end = layout.world_dof[world + 1]
        first_entry = layout.world_entry[world]
        copy(d.A, first_entry, A_factor, first_entry, layout.world_entry[world + 1] - first_entry)
        e = int(start + lane())
        while e < end:
            rhs[e] = d.impulse[e]
            e += wp.block_dim()
        barrier()
        ok = factor(
            A_factor,
            layout.dof_first,
            layout.dof_entry,
            layout.dof_above,
            layout.dof_above_start,
            start,
            end - start,
            0,
        )
        if ok != 0:
            solve(
                A_factor,
                layout.dof_first,
                layout.dof_entry,
                layout.dof_above,
                layout.dof_above_start,
                start,
                end - start,
                0,
                rhs,
            )
        e = int(start + lane())
        while e < end:
            d.v_star[e] = scalar(d.v0[e])
            if ok != 0:
                d.v_star[e] = d.v_star[e] + rhs[e]
            e += wp.block_dim()
        if lane() == 0 and ok == 0 and status[world] == 0:
            status[world] = FREE_MOTION_FAILED

    return free_velocity
