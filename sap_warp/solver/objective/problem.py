"""The convex problem of a world, which no solve changes, and what the Newton iteration changes."""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import is_native
from ...core.kernels.scratch import ScratchShare
from ...core.kernels.template import device, device_struct, sized
from ..contact.data import ContactData
from ..equations.data import Equations
from ..model.layout import Layout
from ..model.motion_data import MotionData
from ..settings.options import LINE_SEARCHES
from ..settings.precisions import cost, linear, solve
from ..terms.contact import LineContact, Projection
from ..terms.dof import DofTerms

scalar, vec3, linear_scalar = solve.scalar, solve.vec3, linear.scalar
energy, energy3 = cost.scalar, cost.vec3

MONOTONE_DECAY = wp.constant(LINE_SEARCHES.index("monotone_decay"))

# What an array of `Data` has an entry for. Scratch serves one world after the other.
by_dof, by_contact, by_equation, by_world = sized("dof"), sized("contact"), sized("equation"), sized("world")
by_lane, by_newton_dof = sized("lane"), sized("newton_dof")
dof_scratch, contact_scratch, body_scratch = sized("dof", True), sized("row", True), sized("body", True)
hessian_scratch, block_scratch, column_scratch = (
    sized("hessian", True),
    sized("48 * body", True),
    sized("6 * dof", True),
)


@wp.struct
class NewtonOptions:
    """Limits and tolerances of the iteration, and constants of the chosen line search.

    A field that is named like one of `SapOptions` gets its number, without a line of code (`minimize/solve.py`).
    """

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


@device_struct
class Problem:
    """What a solve reads: the world at hand, its mass matrix, contacts, equations and terms of dofs."""

    layout: Layout
    motion: MotionData  # A, impulse, motion columns
    contacts: ContactData
    terms: DofTerms
    bilateral: Equations
    options: NewtonOptions
    # of the world that is solved
    world: int
    first: int  # its dofs
    last: int
    row: int  # its contacts
    row_end: int
    h: scalar  # time step [s]


@device_struct
class Data:
    """What a solve changes."""

    share: ScratchShare  # of the scratch
    # by dof, solver order
    v: by_dof(scalar)
    momentum: dof_scratch(scalar)  # A (v - v*)
    A_v_star: dof_scratch(scalar)
    gradient: by_dof(scalar)
    impulse: dof_scratch(scalar)  # generalized impulse of all terms
    dv: by_dof(scalar)
    A_dv: dof_scratch(scalar)
    direction: dof_scratch(linear_scalar)
    active_terms: dof_scratch(wp.int32)  # terms of the dof that take part
    bounded: dof_scratch(wp.int32)  # dofs that have terms with bounds, packed at the start of a world's range
    nonquadratic: dof_scratch(wp.int32)  # of those, the dofs whose cost has a kink along the direction; one lane
    term: dof_scratch(vec3)  # cost, derivative and curvature of a dof's terms at v, where it has any
    # by contact
    vc: by_contact(vec3)  # relative velocity at v [m/s]
    dvc: contact_scratch(vec3)  # its change along the Newton direction
    projection: contact_scratch(Projection)  # impulse and curvature at v
    line_contact: contact_scratch(LineContact)  # the contact along the Newton direction
    # by equation
    slack: by_equation(scalar)  # vhat - J v
    dslack: by_equation(scalar)  # its change along the Newton direction
    # Hessian rows
    widened: by_world(wp.int32)  # 1 if they are those of `ContactData.hessian`, 0 if A's; one lane
    H: hessian_scratch(linear_scalar)
    column_force: column_scratch(linear_scalar)  # stiffness of the subtree times motion column, six runs for each world
    # by body, solver order
    Vw: body_scratch(vec3)
    Vv: body_scratch(vec3)
    fw: body_scratch(vec3)
    fv: body_scratch(vec3)
    K: block_scratch(linear_scalar)  # contact stiffness of the subtree, see `stiffness`
    scratch: by_lane(vec3)
    cost_scratch: by_lane(wp.vec3d)  # for costs, where they are summed in fp64 and all else is not
    # of the world that is solved
    bounded_count: int
    nonquadratic_count: int
    term_count: int  # dofs with any term
    # outcome, by world
    status: by_world(wp.int32)  # `SolveStatus`
    iterations: by_world(wp.int32)
    line_iterations: by_world(wp.int32)
    residual: by_world(wp.float64)
    velocity: by_newton_dof(wp.float64)  # the minimizer, sap order, Newton's dofs
    energy: by_world(wp.vec3d)  # kinetic, work of impulses and applied forces, excess [J], see `stability`


@device_struct
class Line:
    """The cost along a Newton direction: what is known of it before any step is tried.

    Momentum, equations without bounds and dofs whose cost has no kink on the way are a parabola in the step alpha.
    """

    m0: energy  # cost at alpha = 0 of momentum and of all else that is a parabola [J]
    m1: energy
    m2: energy
    b0: energy  # the bounded dofs that are a parabola along this direction; one lane
    b1: energy
    b2: energy
    cost: energy  # phi(0)
    slope: energy  # phi'(0)


@device
def cost_scratch(data: wp.ref[Data]) -> wp.array(dtype=energy3):
    """Where a block sum in the precision of the cost may work."""
    if wp.static(cost is solve):
        return data.scratch
    else:
        return data.cost_scratch


@device
def folds(problem: wp.ref[Problem]) -> bool:
    """Return True if it pays to find the bounded dofs that are a parabola: for searches of several trials."""
    return is_native() and problem.options.line_search != MONOTONE_DECAY
