"""Presets and keyword options of `SolverSAP`, expanded into one frozen, checked dataclass.

A preset is a bundle of defaults; a keyword given explicitly wins over the preset. Presets are written as
changes to one another, so the differences are what you read.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypedDict, get_args

from ...core.kernels.precision import normalize_precision

ContactWeightMode = Literal["body_inertia", "diag_delassus", "delassus"]
ContactPointMode = Literal["witness_point", "contact_midpoint"]
PositionIntegration = Literal["midpoint", "sap_euler"]
LineSearch = Literal["monotone_decay", "armijo_decay", "exact_root", "loose_root"]
VelocityLimitMode = Literal["enforce", "ignore"]
StictionMode = Literal["velocity", "displacement"]
FloatingBodyPoint = Literal["origin", "center_of_mass"]
Precision = Literal["fp32", "fp64"]

CONTACT_WEIGHT_MODES: tuple[str, ...] = get_args(ContactWeightMode)
CONTACT_POINT_MODES: tuple[str, ...] = get_args(ContactPointMode)
POSITION_INTEGRATIONS: tuple[str, ...] = get_args(PositionIntegration)
LINE_SEARCHES: tuple[str, ...] = get_args(LineSearch)
VELOCITY_LIMIT_MODES: tuple[str, ...] = get_args(VelocityLimitMode)
STICTION_MODES: tuple[str, ...] = get_args(StictionMode)
FLOATING_BODY_POINTS: tuple[str, ...] = get_args(FloatingBodyPoint)

_EPS = {"fp32": 2.0**-23, "fp64": 2.0**-52}
_EXACT_ROOT_LINE_SEARCH_ITERATIONS = 100


@dataclass(frozen=True)
class SapOptions:
    """All numerical choices of a solver. Frequencies and shapes live in the model, choices live here."""

    # Discretization: what a preset chooses.
    contact_weight_mode: str = "body_inertia"
    """How the contact weight w is estimated: from the two bodies, from diag(A)^-1 (as Drake does), or from A^-1."""
    contact_point_mode: str = "witness_point"
    """Where a contact measures relative velocity: at both witnesses, or at one stiffness-weighted point."""
    position_integration: str = "midpoint"
    """Velocity that advances positions: the mean of old and new, or the new one."""
    free_motion_solve_precision: str = "fp32"
    """Precision of kinematics, A and v*."""
    contact_solve_precision: str = "fp64"
    """Precision of v, gradient, contact terms and cost."""
    contact_cost_precision: str | None = None
    """Precision in which costs are summed and compared; None is that of the contact solve. fp64 with a contact solve
    in fp32 leaves fp64 to the sums, for GPUs on which it is slow."""
    contact_linear_solve_precision: str = "fp32"
    """Precision of the Hessian's factorization and of the Newton direction."""
    sap_contact_weight_precision: str = "fp32"
    """Precision in which w is computed before it is stored for the contact solve."""
    use_f64_boundary_pose: bool = False
    """Prepare contacts with body poses in fp64 rather than fp32."""
    stiction_mode: str = "velocity"
    """What friction holds at zero: the slip velocity where the bodies are when the step begins, or the slip over the
    whole step, to second order in h, so that a body in a turning hand does not creep out of it."""
    floating_body_point: str = "origin"
    """Point of a floating body whose path and momentum the step follows: its origin (as Drake does), or its centre of
    mass, which then moves as forces say however the body, and one that it hangs below, turns."""

    # Newton iteration.
    line_search_variant: str = "monotone_decay"
    max_iterations: int = 100
    optimality_abs_tol: float = 1e-14
    optimality_rel_tol: float = 1e-6
    cost_abs_tol: float | None = None
    """Default 0 for monotone_decay, 1e-30 otherwise."""
    cost_rel_tol: float | None = None
    """Default 5e-3 for monotone_decay, 1e-15 otherwise."""
    line_search_max_iterations: int = 40
    """exact_root raises the default of 40 to 100."""
    armijo_c: float = 1e-4
    rho: float = 0.8
    line_search_relative_slop: float | None = None
    """Default 1000 eps of the contact solve precision."""

    # Contact law.
    contact_beta: float = 1.0
    """Near-rigid regularization R_n >= beta^2 / (4 pi^2) w [-]."""
    contact_sigma: float = 1e-3
    """Tangential regularization R_t = sigma w [-]."""
    contact_tau_d: float = 0.01
    """Dissipation time of a shape that has none of its own [s]; a pair uses the sum over both shapes."""
    fallback_mu: float = 1.0
    """Friction of a shape whose own coefficient is negative (unset) [-]."""
    fallback_stiffness: float = 1e10
    """Stiffness of a shape whose own stiffness is not positive [N/m]."""
    max_rigid_contact: int = 128
    """Contacts that one world can hold; more are dropped and counted."""

    # Joints.
    velocity_limit_mode: str = "enforce"
    """Whether joint_velocity_limit acts as a near-rigid one-sided term or is left out on request."""

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is {getattr(self, name)!r}; valid choices are {', '.join(choices)}.")
        for name in _PRECISIONS:
            object.__setattr__(self, name, normalize_precision(getattr(self, name), name))
        if self.contact_cost_precision is not None:
            value = normalize_precision(self.contact_cost_precision, "contact_cost_precision")
            object.__setattr__(self, "contact_cost_precision", value)
            if (value, self.contact_solve_precision) == ("fp32", "fp64"):
                raise ValueError(
                    "contact_cost_precision is 'fp32', less than contact_solve_precision 'fp64' of what it sums; "
                    "leave it out, or set contact_solve_precision to 'fp32' as well."
                )
        if not isinstance(self.use_f64_boundary_pose, bool):
            raise ValueError(f"use_f64_boundary_pose is {self.use_f64_boundary_pose!r}; valid choices are True, False.")
        for name, (low, high, closed) in _RANGES.items():
            value = getattr(self, name)
            _check_range(name, value, low, high, closed)
            object.__setattr__(self, name, None if value is None else float(value))
        for name in _COUNTS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
                raise ValueError(f"{name} is {value!r}; it must be a whole number of at least 1.")
            object.__setattr__(self, name, int(value))

    @property
    def cost_precision(self) -> str:
        """Precision of costs in force."""
        return self.contact_cost_precision or self.contact_solve_precision

    @property
    def cost_tolerances(self) -> tuple[float, float]:
        """Absolute and relative cost tolerance in force for the chosen line search."""
        absolute, relative = (0.0, 5e-3) if self.line_search_variant == "monotone_decay" else (1e-30, 1e-15)
        return (
            absolute if self.cost_abs_tol is None else self.cost_abs_tol,
            relative if self.cost_rel_tol is None else self.cost_rel_tol,
        )

    @property
    def line_search_iterations(self) -> int:
        """Candidate limit in force: exact_root promotes the default."""
        default = SapOptions.line_search_max_iterations
        if self.line_search_variant == "exact_root" and self.line_search_max_iterations == default:
            return _EXACT_ROOT_LINE_SEARCH_ITERATIONS
        return self.line_search_max_iterations

    @property
    def line_search_slop(self) -> float:
        """Near-flat tolerance in force, relative to the cost."""
        if self.line_search_relative_slop is not None:
            return self.line_search_relative_slop
        return 1000.0 * _EPS[self.contact_solve_precision]

    @property
    def needs_free_velocity(self) -> bool:
        """Return True if every world needs v* and the factorization of A in every step.

        - The exact contact weight is made from the factorization.
        - armijo_decay compares differences of the cost with its size at every trial.
        - The solve can factorize A where it factorizes the Hessian only if both have the same precision.
        """
        return (
            self.contact_weight_mode == "delassus"
            or self.line_search_variant == "armijo_decay"
            or self.free_motion_solve_precision != self.contact_linear_solve_precision
        )


class SolverOptions(TypedDict, total=False):
    """Every field of `SapOptions` as a keyword, for editors and type checkers; a test keeps the two equal."""

    contact_weight_mode: ContactWeightMode
    contact_point_mode: ContactPointMode
    position_integration: PositionIntegration
    free_motion_solve_precision: Precision
    contact_solve_precision: Precision
    contact_cost_precision: Precision | None
    contact_linear_solve_precision: Precision
    sap_contact_weight_precision: Precision
    use_f64_boundary_pose: bool
    stiction_mode: StictionMode
    floating_body_point: FloatingBodyPoint
    line_search_variant: LineSearch
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
    velocity_limit_mode: VelocityLimitMode


_CHOICES = {
    "contact_weight_mode": CONTACT_WEIGHT_MODES,
    "contact_point_mode": CONTACT_POINT_MODES,
    "position_integration": POSITION_INTEGRATIONS,
    "line_search_variant": LINE_SEARCHES,
    "velocity_limit_mode": VELOCITY_LIMIT_MODES,
    "stiction_mode": STICTION_MODES,
    "floating_body_point": FLOATING_BODY_POINTS,
}
_PRECISIONS = (
    "free_motion_solve_precision",
    "contact_solve_precision",
    "contact_linear_solve_precision",
    "sap_contact_weight_precision",
)
_INF = math.inf
_RANGES = {  # name: (lowest, highest, whether the lowest value itself is allowed)
    "optimality_abs_tol": (0.0, _INF, True),
    "optimality_rel_tol": (0.0, _INF, True),
    "cost_abs_tol": (0.0, _INF, True),
    "cost_rel_tol": (0.0, _INF, True),
    "armijo_c": (0.0, 1.0, False),
    "rho": (0.0, 1.0, False),
    "line_search_relative_slop": (0.0, _INF, True),
    "contact_beta": (0.0, _INF, True),
    "contact_sigma": (0.0, _INF, False),
    "contact_tau_d": (0.0, _INF, True),
    "fallback_mu": (0.0, _INF, True),
    "fallback_stiffness": (0.0, _INF, False),
}
_COUNTS = ("max_iterations", "line_search_max_iterations", "max_rigid_contact")


def _check_range(name: str, value: Any, low: float, high: float, closed: bool) -> None:
    optional = getattr(SapOptions, name, None) is None
    if value is None and optional:
        return
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or math.isnan(value) or value > high or value < low or (value == low and not closed) or value == _INF:
        left = "[" if closed else "("
        also = ", or None for the default" if optional else ""
        raise ValueError(f"{name} is {value!r}; it must be a number in {left}{low:g}, {high:g}){also}.")
    if high != _INF and value == high:
        raise ValueError(f"{name} is {value!r}; it must be below {high:g}.")


APPROX32 = SapOptions()
APPROX64 = replace(
    APPROX32,
    use_f64_boundary_pose=True,
    free_motion_solve_precision="fp64",
    contact_linear_solve_precision="fp64",
    sap_contact_weight_precision="fp64",
)
DRAKE = replace(
    APPROX64,
    contact_weight_mode="diag_delassus",
    contact_point_mode="contact_midpoint",
    position_integration="sap_euler",
)
ROBOT = replace(
    APPROX32,
    contact_weight_mode="diag_delassus",
    contact_point_mode="contact_midpoint",
    position_integration="sap_euler",
    stiction_mode="displacement",
    floating_body_point="center_of_mass",
    line_search_variant="loose_root",
    optimality_rel_tol=1e-4,
    cost_rel_tol=0.0,
    contact_sigma=3e-4,
)
"""Ours, not the specification's: light links count with the mechanism that carries them, as in Drake, grasped bodies
stay where they are held, and free bodies keep their momentum, at the cost of approx32."""
PRESETS = {"approx32": APPROX32, "approx64": APPROX64, "drake": DRAKE, "robot": ROBOT}
_PRESET_ALIASES = {"approx_32": "approx32", "approx-32": "approx32", "approx_64": "approx64", "approx-64": "approx64"}
OPTION_NAMES = tuple(field.name for field in fields(SapOptions))


def override_options(given_before: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of `SolverSAP` that a scene gives, with what a user gives beside it.

    What the user names wins. A preset that the user names brings all that it sets, such as `robot` its line search,
    whatever the scene says of that; what the preset leaves alone stays as the scene has it.
    """
    name = given.get("contact_preset_variant")
    preset = PRESETS.get(_PRESET_ALIASES.get(name, name) if isinstance(name, str) else "", SapOptions())
    own = [f.name for f in fields(SapOptions) if getattr(preset, f.name) != getattr(SapOptions(), f.name)]
    return {n: value for n, value in given_before.items() if n not in own} | dict(given)


def expand_options(contact_preset_variant: str = "approx32", **overrides: Any) -> SapOptions:
    """Expand a preset, then apply every keyword that was given explicitly.

    Raises:
        ValueError: Unknown preset, or a value that is not a valid choice.
        TypeError: Unknown option.
    """
    known = isinstance(contact_preset_variant, str)
    name = _PRESET_ALIASES.get(contact_preset_variant, contact_preset_variant) if known else ""
    if name not in PRESETS:
        valid = ", ".join([*PRESETS, *_PRESET_ALIASES])
        raise ValueError(f"contact_preset_variant is {contact_preset_variant!r}; valid choices are {valid}.")
    unknown = sorted(set(overrides) - set(OPTION_NAMES))
    if unknown:
        raise TypeError(
            f"Unknown solver option {', '.join(map(repr, unknown))}; valid options are {', '.join(OPTION_NAMES)}."
        )
    return replace(PRESETS[name], **overrides)
