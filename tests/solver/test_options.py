"""Presets, keyword overrides and the checks of every solver option."""

from dataclasses import FrozenInstanceError, asdict, fields

import numpy as np
import pytest

from sap_warp.solver.settings.options import OPTION_NAMES, SapOptions, expand_options, override_options

NAN, INF = float("nan"), float("inf")

# The preset matrix of the specification, written out here and not derived from the package.
PRESET_TABLE = {
    "approx32": {
        "contact_weight_mode": "body_inertia",
        "contact_point_mode": "witness_point",
        "position_integration": "midpoint",
        "free_motion_solve_precision": "fp32",
        "contact_solve_precision": "fp64",
        "contact_linear_solve_precision": "fp32",
        "sap_contact_weight_precision": "fp32",
        "use_f64_boundary_pose": False,
    },
    "approx64": {
        "contact_weight_mode": "body_inertia",
        "contact_point_mode": "witness_point",
        "position_integration": "midpoint",
        "free_motion_solve_precision": "fp64",
        "contact_solve_precision": "fp64",
        "contact_linear_solve_precision": "fp64",
        "sap_contact_weight_precision": "fp64",
        "use_f64_boundary_pose": True,
    },
    "drake": {
        "contact_weight_mode": "diag_delassus",
        "contact_point_mode": "contact_midpoint",
        "position_integration": "sap_euler",
        "free_motion_solve_precision": "fp64",
        "contact_solve_precision": "fp64",
        "contact_linear_solve_precision": "fp64",
        "sap_contact_weight_precision": "fp64",
        "use_f64_boundary_pose": True,
    },
}
SPEC_DEFAULTS = {
    "line_search_variant": "monotone_decay",
    "line_search_max_iterations": 40,
    "rho": 0.8,
    "cost_abs_tol": None,
    "cost_rel_tol": None,
    "line_search_relative_slop": None,
}
CHOICES = {
    "contact_weight_mode": ("body_inertia", "diag_delassus", "delassus"),
    "contact_point_mode": ("witness_point", "contact_midpoint"),
    "position_integration": ("midpoint", "sap_euler"),
    "line_search_variant": ("monotone_decay", "armijo_decay", "exact_root", "loose_root"),
    "velocity_limit_mode": ("enforce", "ignore"),
    "stiction_mode": ("velocity", "displacement"),
    "floating_body_point": ("origin", "center_of_mass"),
}
PRECISIONS = (
    "free_motion_solve_precision",
    "contact_solve_precision",
    "contact_linear_solve_precision",
    "sap_contact_weight_precision",
)
OPTIONAL_PRECISION = "contact_cost_precision"
NON_NEGATIVE = ("optimality_abs_tol", "optimality_rel_tol", "contact_beta", "contact_tau_d", "fallback_mu")
OPTIONAL_NON_NEGATIVE = ("cost_abs_tol", "cost_rel_tol", "line_search_relative_slop")
POSITIVE = ("contact_sigma", "fallback_stiffness")
FRACTIONS = ("armijo_c", "rho")
COUNTS = ("max_iterations", "line_search_max_iterations", "max_rigid_contact")


def test_every_option_is_covered_here():
    """A new option needs a line in one of the lists above."""
    covered = [*CHOICES, *PRECISIONS, *NON_NEGATIVE, *OPTIONAL_NON_NEGATIVE, *POSITIVE, *FRACTIONS, *COUNTS]
    assert sorted([*covered, OPTIONAL_PRECISION, "use_f64_boundary_pose"]) == sorted(OPTION_NAMES)
    assert set(OPTION_NAMES) == {f.name for f in fields(SapOptions)}


@pytest.mark.parametrize("preset", PRESET_TABLE)
def test_presets_expand_to_the_table_of_the_specification(preset):
    """A preset sets exactly what the specification's matrix says and leaves all other options at their defaults."""
    options = asdict(expand_options(preset))
    assert {name: options[name] for name in PRESET_TABLE[preset]} == PRESET_TABLE[preset]
    defaults = asdict(SapOptions())
    others = set(options) - set(PRESET_TABLE[preset])
    assert {name: options[name] for name in others} == {name: defaults[name] for name in others}
    assert {name: options[name] for name in SPEC_DEFAULTS} == SPEC_DEFAULTS


def test_default_preset_is_approx32():
    """Without a preset the fast mixed-precision one is used."""
    assert expand_options() == expand_options("approx32") == SapOptions()


@pytest.mark.parametrize(
    ("alias", "name"),
    [("approx_32", "approx32"), ("approx-32", "approx32"), ("approx_64", "approx64"), ("approx-64", "approx64")],
)
def test_preset_aliases(alias, name):
    """Spellings with an underscore or a hyphen mean the same preset."""
    assert expand_options(alias) == expand_options(name)


@pytest.mark.parametrize("bad", ["", "approx", "approx16", "Drake", "APPROX32", None, 32, ["drake"]])
def test_unknown_preset_lists_the_valid_ones(bad):
    """Anything but a preset's name is refused with the list of names, whatever its type."""
    with pytest.raises(ValueError, match="contact_preset_variant") as error:
        expand_options(bad)
    for name in (*PRESET_TABLE, "approx_32", "approx-32", "approx_64", "approx-64"):
        assert name in str(error.value)


@pytest.mark.parametrize("preset", PRESET_TABLE)
@pytest.mark.parametrize("name", PRESET_TABLE["drake"])
def test_an_explicit_keyword_changes_one_factor_only(preset, name):
    """An override acts after the expansion of the preset and touches nothing else."""
    before = asdict(expand_options(preset))
    value = before[name]
    if isinstance(value, bool):
        other = not value
    else:
        candidates = CHOICES.get(name, ("fp32", "fp64"))
        other = next(c for c in candidates if c != value)
    after = asdict(expand_options(preset, **{name: other}))
    assert {key for key in after if after[key] != before[key]} == {name}
    assert after[name] == other


def test_an_explicit_keyword_equal_to_another_presets_value_wins():
    """approx64 with Delassus weights is the specification's one-factor experiment."""
    options = expand_options("approx64", contact_weight_mode="diag_delassus")
    assert asdict(options) == {**asdict(expand_options("approx64")), "contact_weight_mode": "diag_delassus"}


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize(
    ("alias", "normalized"), [("f32", "fp32"), ("f64", "fp64"), ("fp32", "fp32"), ("fp64", "fp64")]
)
def test_precision_aliases(name, alias, normalized):
    """f32 and f64 are accepted and normalized, so that options given either way compare equal."""
    assert getattr(expand_options("drake", **{name: alias}), name) == normalized


@pytest.mark.parametrize("name", [*CHOICES, *PRECISIONS])
@pytest.mark.parametrize("bad", ["", "nonsense", "FP32", None, 1, 64.0, True, ["fp32"]])
def test_bad_choices_name_the_option_and_the_valid_ones(name, bad):
    """A wrong word is refused with the option's name, the value and all valid words."""
    with pytest.raises(ValueError, match=name) as error:
        expand_options(**{name: bad})
    for choice in CHOICES.get(name, ("fp32", "fp64", "f32", "f64")):
        assert choice in str(error.value)
    assert repr(bad) in str(error.value)


@pytest.mark.parametrize("bad", [0, 1, None, "True", 1.0])
def test_bad_flag_names_the_option_and_the_valid_values(bad):
    """The one boolean option takes booleans only."""
    with pytest.raises(ValueError, match=r"use_f64_boundary_pose.*True, False"):
        expand_options(use_f64_boundary_pose=bad)


@pytest.mark.parametrize("name", [*NON_NEGATIVE, *OPTIONAL_NON_NEGATIVE, *POSITIVE, *FRACTIONS])
@pytest.mark.parametrize("bad", [-1e-9, -1, NAN, INF, -INF, "0.1", True, [0.1], 1j])
def test_bad_numbers_name_the_option_and_its_range(name, bad):
    """No number option takes a negative, a non-finite value or something that is no number."""
    with pytest.raises(ValueError, match=rf"{name}.*must be a number in [\[\(]0, "):
        expand_options(**{name: bad})


@pytest.mark.parametrize("name", POSITIVE + FRACTIONS)
def test_zero_is_refused_where_it_would_divide(name):
    """Options that divide or multiply away a term must be positive."""
    with pytest.raises(ValueError, match=rf"{name}.*\(0, "):
        expand_options(**{name: 0.0})


@pytest.mark.parametrize("name", FRACTIONS)
@pytest.mark.parametrize("bad", [1, 1.0, 1.5])
def test_fractions_stay_below_one(name, bad):
    """Decay and Armijo factors lie strictly between 0 and 1, and the message says so."""
    with pytest.raises(ValueError, match=rf"{name}.*1"):
        expand_options(**{name: bad})


@pytest.mark.parametrize("name", NON_NEGATIVE + OPTIONAL_NON_NEGATIVE)
def test_zero_is_a_value(name):
    """Zero is kept as given, not taken as unset."""
    assert getattr(expand_options(**{name: 0.0}), name) == 0.0


@pytest.mark.parametrize("name", NON_NEGATIVE + POSITIVE + FRACTIONS)
def test_none_is_refused_where_there_is_no_derived_default(name):
    """Only options with a derived default can be unset."""
    with pytest.raises(ValueError, match=name):
        expand_options(**{name: None})


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("bad", [0, -1, 1.0, 2.5, NAN, "10", None, True])
def test_bad_counts_name_the_option_and_its_range(name, bad):
    """Counts are whole numbers of at least 1."""
    with pytest.raises(ValueError, match=rf"{name}.*whole number of at least 1"):
        expand_options(**{name: bad})


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_of_one_is_allowed(name):
    """The smallest count is kept, not repaired."""
    assert getattr(expand_options(**{name: 1}), name) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_rigid_contact", np.int64(64)), ("contact_tau_d", np.float32(0.25)), ("rho", np.float64(0.5))],
)
def test_numpy_scalars_are_numbers(name, value):
    """A value that comes out of a NumPy array is as good as a Python number."""
    assert getattr(expand_options(**{name: value}), name) == value


def test_unknown_options_are_listed_with_the_valid_ones():
    """A misspelt keyword is a TypeError that names it and every option there is."""
    with pytest.raises(TypeError, match="contact_tau") as error:
        expand_options("drake", contact_tau=0.1, linesearch="exact_root")
    for name in ("'contact_tau'", "'linesearch'", *OPTION_NAMES):
        assert name in str(error.value)


@pytest.mark.parametrize(
    ("variant", "expected"),
    [("monotone_decay", (0.0, 5e-3)), ("armijo_decay", (1e-30, 1e-15)), ("exact_root", (1e-30, 1e-15))],
)
@pytest.mark.parametrize("preset", PRESET_TABLE)
def test_cost_tolerances_follow_the_line_search(preset, variant, expected):
    """Unset cost tolerances depend on the line search, not on the preset."""
    assert expand_options(preset, line_search_variant=variant).cost_tolerances == expected


@pytest.mark.parametrize("variant", CHOICES["line_search_variant"])
def test_explicit_cost_tolerances_win(variant):
    """Each tolerance can be given alone, also as zero; the other keeps its default."""
    default = expand_options(line_search_variant=variant).cost_tolerances
    given = expand_options(line_search_variant=variant, cost_abs_tol=1e-7)
    assert given.cost_tolerances == (1e-7, default[1])
    given = expand_options(line_search_variant=variant, cost_rel_tol=0.0)
    assert given.cost_tolerances == (default[0], 0.0)


@pytest.mark.parametrize(
    ("variant", "given", "expected"),
    [
        ("monotone_decay", None, 40),
        ("armijo_decay", None, 40),
        ("exact_root", None, 100),
        ("exact_root", 41, 41),
        ("exact_root", 7, 7),
        ("armijo_decay", 100, 100),
        ("monotone_decay", 39, 39),
    ],
)
def test_exact_root_promotes_the_default_limit_only(variant, given, expected):
    """exact_root raises the default of 40 to 100; any other number stays."""
    explicit = {} if given is None else {"line_search_max_iterations": given}
    assert expand_options(line_search_variant=variant, **explicit).line_search_iterations == expected


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
@pytest.mark.parametrize("linear", ["fp32", "fp64"])
def test_slop_follows_the_contact_solve_precision(precision, linear):
    """The default slop is 1000 eps of the contact solve, whatever the other precisions are."""
    dtype = {"fp32": np.float32, "fp64": np.float64}[precision]
    options = expand_options(contact_solve_precision=precision, contact_linear_solve_precision=linear)
    assert options.line_search_slop == 1000.0 * float(np.finfo(dtype).eps)


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_costs_are_summed_in_the_precision_of_the_contact_solve(precision):
    """Unless fp64 is asked for where the rest is fp32; less than that of what is summed is refused."""
    options = expand_options(contact_solve_precision=precision)
    assert options.contact_cost_precision is None and options.cost_precision == precision
    assert expand_options(contact_solve_precision=precision, contact_cost_precision="f64").cost_precision == "fp64"
    if precision == "fp64":
        with pytest.raises(ValueError, match="contact_cost_precision is 'fp32', less than"):
            expand_options(contact_cost_precision="fp32")
    with pytest.raises(ValueError, match="contact_cost_precision is 'double'"):
        expand_options(contact_cost_precision="double")


@pytest.mark.parametrize("slop", [0.0, 1e-5])
def test_explicit_slop_wins(slop):
    """A slop of zero is a slop."""
    assert expand_options(line_search_relative_slop=slop).line_search_slop == slop


def test_options_are_frozen():
    """Options cannot change behind the solver's back, and their equality is by value."""
    options = expand_options("drake")
    with pytest.raises(FrozenInstanceError):
        options.contact_tau_d = 0.5
    assert options == expand_options("drake") and hash(options) == hash(expand_options("drake"))
    assert options != expand_options("drake", contact_tau_d=0.5)


def test_keywords_for_editors_are_those_of_the_solver():
    """What editors complete and type checkers accept is what solver and simulation take, with the same choices."""
    from typing import Literal, get_args, get_origin, get_type_hints

    from sap_warp.solver.settings import keywords, options

    hints = get_type_hints(keywords.SolverOptions)
    assert tuple(hints) == options.OPTION_NAMES
    choices = {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}
    assert choices == options._CHOICES | dict.fromkeys(options._PRECISIONS, ("fp32", "fp64"))
    further = set(get_type_hints(keywords.SimulationOptions)) - set(hints)
    assert further == {"contact_preset_variant", "block_dim", "strict_capacity", "rigid_contact_max"}


def test_a_users_preset_brings_what_it_sets():
    """`robot` on a scene that names its line search takes its own, unless the user names one; `drake` names none."""
    scene = {"contact_preset_variant": "approx32", "line_search_variant": "armijo_decay", "max_rigid_contact": 8}
    robot = override_options(scene, {"contact_preset_variant": "robot"})
    assert robot == {"contact_preset_variant": "robot", "max_rigid_contact": 8}
    assert expand_options(**robot).line_search_variant == "loose_root"
    named = override_options(scene, {"contact_preset_variant": "robot", "line_search_variant": "exact_root"})
    assert expand_options(**named).line_search_variant == "exact_root"
    drake = override_options(scene | {"contact_weight_mode": "body_inertia"}, {"contact_preset_variant": "drake"})
    assert drake == {**scene, "contact_preset_variant": "drake"}
    assert override_options(scene, {}) == scene
