"""The convex problem of a world, which no solve changes, and what the Newton iteration changes."""

import functools
from typing import Any, NamedTuple

import warp as wp

from ...core.kernels.scratch import Slot
from ...core.kernels.types import Types
from ..contact.data import make_contact_data
from ..equations.data import make_constraint_data
from ..model.layout import Layout
from ..model.motion_data import make_motion_data
from ..terms.contact import make_projection, make_track
from ..terms.dof import make_dof_terms


@wp.struct
class NewtonOptions:
    """Limits and tolerances of the iteration, and constants of the chosen line search."""

    max_iterations: int
    abs_tol: wp.float64
    rel_tol: wp.float64
    cost_abs_tol: wp.float64
    cost_rel_tol: wp.float64
    line_search: int
    line_iterations: int
    armijo_c: wp.float64
    rho: wp.float64
    slop: wp.float64
    widest: wp.float64  # dofs of the largest tree
    longest: wp.float64  # step that the line search may try
    is_tight: int  # 1 if the criterion of optimality ends the iteration, not that of the cost
    is_predicted: int  # 1 if contacts that slid begin as they did, see `warm_start`


class Precisions(NamedTuple):
    """Precisions of a solve: all that its device functions depend on."""

    dynamics: Types
    """Of free motion."""
    types: Types
    """Of v, gradient and terms."""
    linear: Types
    """Of the Hessian and its factorization."""
    pose: Types
    """Of poses."""
    cost: Types
    """Of costs, slopes and steps of the line search."""


@functools.cache
def make_problem(precisions: Precisions) -> tuple[Any, Any]:
    """Structs ``Problem`` and ``Data``."""
    dynamics, types, linear, pose = precisions.dynamics, precisions.types, precisions.linear, precisions.pose
    scalar, vec3 = types.scalar, types.vec3
    Projection, Track = make_projection(types).Projection, make_track(types).Track
    Motion, Contacts, Rows = make_motion_data(pose, dynamics), make_contact_data(types), make_constraint_data(types)
    Terms = make_dof_terms(types).DofTerms

    @wp.struct
    class Problem:
        layout: Layout
        motion: Motion  # A, impulse, motion columns
        contacts: Contacts
        terms: Terms  # of the dofs
        bilateral: Rows
        options: NewtonOptions
        # of the world that is solved
        world: int
        first: int  # its dofs
        last: int
        row: int  # its contact rows
        row_end: int
        h: scalar  # time step [s]

    @wp.struct
    class Data:
        slot: Slot  # of the fields in SCRATCH
        # by dof, solver order
        v: wp.array(dtype=scalar)
        momentum: wp.array(dtype=scalar)  # A (v - v*)
        A_v_star: wp.array(dtype=scalar)
        gradient: wp.array(dtype=scalar)
        impulse: wp.array(dtype=scalar)  # generalized impulse of all terms
        dv: wp.array(dtype=scalar)
        A_dv: wp.array(dtype=scalar)
        direction: wp.array(dtype=linear.scalar)
        active_terms: wp.array(dtype=wp.int32)  # terms of the dof that take part
        bounded: wp.array(dtype=wp.int32)  # dofs that have terms with bounds, packed at the start of a world's range
        nonquadratic: wp.array(
            dtype=wp.int32
        )  # of those, dofs that are no parabola along the Newton direction; one lane
        term: wp.array(dtype=vec3)  # cost, derivative and curvature of a dof's terms at v, where it has any
        # by contact row
        vc: wp.array(dtype=vec3)  # relative velocity at v [m/s]
        dvc: wp.array(dtype=vec3)  # its change along the Newton direction
        projection: wp.array(dtype=Projection)  # impulse and curvature at v
        line_contact: wp.array(dtype=Track)  # the row along the Newton direction
        # by bilateral row
        slack: wp.array(dtype=scalar)  # vhat - J v
        dslack: wp.array(dtype=scalar)  # its change along the Newton direction
        # Hessian rows
        widened: wp.array(dtype=wp.int32)  # by world: 1 if they are those of `ContactData.hessian`, 0 if A's; one lane
        H: wp.array(dtype=linear.scalar)
        column_force: wp.array(
            dtype=linear.scalar
        )  # stiffness of the subtree times motion column, six runs for each world
        # by body, solver order
        Vw: wp.array(dtype=vec3)
        Vv: wp.array(dtype=vec3)
        fw: wp.array(dtype=vec3)
        fv: wp.array(dtype=vec3)
        K: wp.array(dtype=linear.scalar)  # contact stiffness of the subtree, see `stiffness`
        scratch: wp.array(dtype=vec3)  # one entry per lane of each world
        cost_scratch: wp.array(dtype=wp.vec3d)  # the same for costs, where they are summed in fp64 and all else is not
        # of the world that is solved
        bounded_count: int
        nonquadratic_count: int
        term_count: int  # dofs with any term
        # outcome, by world
        status: wp.array(dtype=wp.int32)  # `SolveStatus`
        iterations: wp.array(dtype=wp.int32)
        line_iterations: wp.array(dtype=wp.int32)
        residual: wp.array(dtype=wp.float64)
        velocity: wp.array(dtype=wp.float64)  # the minimizer, sap order, Newton's dofs
        energy: wp.array(dtype=wp.vec3d)  # kinetic, work of impulses and applied forces, excess [J], see `stability`

    return Problem, Data


SCRATCH = (
    *((name, "dof") for name in ("momentum", "A_v_star", "impulse", "A_dv", "direction", "active_terms")),
    *((name, "dof") for name in ("bounded", "nonquadratic", "term")),
    *((name, "row") for name in ("dvc", "projection", "line_contact")),
    *((name, "body") for name in ("Vw", "Vv", "fw", "fv")),
    ("K", "48 * body"),
    ("column_force", "6 * dof"),
    ("H", "hessian"),
)
"""Fields of Data that nothing reads after the solve, and where a world's entries begin."""
