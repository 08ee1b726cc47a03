"""Keywords of `SolverSAP` and `Simulation` for editors and type checkers, which complete and check them.

What each of them means stands at the field of that name in `SapOptions`, the arguments of `SolverSAP` and those of
`SapCollisionPipeline`. A test keeps the lists equal.
"""

from __future__ import annotations

from typing import Literal, TypedDict


class SolverOptions(TypedDict, total=False):
    """Every field of `SapOptions`."""

    contact_weight_mode: Literal["body_inertia", "diag_delassus", "delassus"]
    contact_point_mode: Literal["witness_point", "contact_midpoint"]
    position_integration: Literal["midpoint", "sap_euler"]
    free_motion_solve_precision: Literal["fp32", "fp64"]
    contact_solve_precision: Literal["fp32", "fp64"]
    contact_cost_precision: Literal["fp32", "fp64"] | None
    contact_linear_solve_precision: Literal["fp32", "fp64"]
    sap_contact_weight_precision: Literal["fp32", "fp64"]
    use_f64_boundary_pose: bool
    stiction_mode: Literal["velocity", "displacement"]
    floating_body_point: Literal["origin", "center_of_mass"]
    line_search_variant: Literal["monotone_decay", "armijo_decay", "exact_root", "loose_root"]
    max_iterations: int
    optimality_abs_tol: float
    optimality_rel_tol: float
    cost_abs_tol: float | None
    cost_rel_tol: float | None
    line_search_max_iterations: int
    armijo_c: float
    rho: float
    line_search_relative_slop: float | None
    contact_beta: float
    contact_sigma: float
    contact_tau_d: float
    fallback_mu: float
    fallback_stiffness: float
    max_rigid_contact: int | None
    velocity_limit_mode: Literal["enforce", "ignore"]


class SimulationOptions(SolverOptions, total=False):
    """What `Simulation` hands on to solver and pipeline."""

    contact_preset_variant: str
    block_dim: int | None
    strict_capacity: bool
    rigid_contact_max: int | None
