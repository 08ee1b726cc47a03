"""Wrong arguments of the public objects: our own TypeError or ValueError, which names the argument."""

import math
import traceback

import newton
import numpy as np
import pytest
import warp as wp

import sap_warp
from sap_warp import SapCollisionPipeline, SapContacts, SapControl, SapModel, SapState, Simulation, SolverSAP
from sap_warp.scene.shipped.scenes import build_scene
from tests.support.simulations import make_sim

WORLDS, NAN, INF = 2, math.nan, math.inf
THING = object()
NOT_COUNTS = (-1, 0, 1.5, NAN, True, "2", (2,))
NOT_FLAGS = (None, 2, "yes", NAN, ())
NOT_STRINGS = (None, 3, NAN, (), THING)


@pytest.fixture(scope="module")
def parts():
    """One of everything."""
    model, scene = build_scene("cube", WORLDS, "cpu")
    other, _ = build_scene("cube", WORLDS + 1, "cpu")
    return {
        "model": model,
        "scene": scene,
        "sim": make_sim(worlds=WORLDS),
        "other": SapModel(other),
        "sap": SapModel(model),
        "solver": SolverSAP(model),
        "pipeline": SapCollisionPipeline(model),
    }


def floats(n, dtype=wp.float32):
    return wp.zeros(n, dtype=dtype, device="cpu")


def without(buffers, name, value=None):
    """A state or control with one array exchanged."""
    setattr(buffers, name, value)
    return buffers


def construct_simulation(p, **options):
    return Simulation(options.pop("model", p["model"]), **{"dt": 0.005, **options})


def step_solver(p, **options):
    state = p["sap"].state
    given = {"state_in": state(), "state_out": state(), "control": None, "contacts": None, "dt": 0.005}
    return p["solver"].step(**given | options)


def construct_solver(p, **options):
    return SolverSAP(options.pop("model", p["model"]), **options)


def construct_pipeline(p, **options):
    return SapCollisionPipeline(options.pop("collision_model", p["model"]), **options)


def collide(p, **options):
    given = {"state": p["sap"].state(), "contacts": p["pipeline"].contacts()}
    return p["pipeline"].collide(**given | options)


def reset(p, **options):
    return p["sim"].reset(**options)


def set_dt(p, dt):
    p["sim"].dt = dt


def assign_state(p, other):
    return p["sap"].state().assign(other)


STATES = {
    "a word": "abc",
    "a thing": THING,
    "of another model": lambda p: p["other"].state(),
    "without joint_q": lambda p: without(p["sap"].state(), "joint_q"),
    "with a list": lambda p: without(p["sap"].state(), "joint_qd", [0.0] * 12),
    "with integers": lambda p: without(p["sap"].state(), "joint_qd", floats(12, wp.int32)),
    "with a short body_q": lambda p: without(p["sap"].state(), "body_q", floats(1, wp.transformf)),
    "with gaps": lambda p: without(p["sap"].state(), "joint_qd", floats(24)[::2]),
}
CONTROLS = {
    "a word": "abc",
    "a state": lambda p: p["sap"].state(),
    "of another model": lambda p: p["other"].control(),
    "without joint_f": lambda p: without(p["sap"].control(), "joint_f"),
    "in fp64": lambda p: without(p["sap"].control(), "joint_act", floats(12, wp.float64)),
}
NOT_MODELS = (None, "cube", 3, THING, newton.ModelBuilder())
NOT_DT = (None, "fast", NAN, INF, 0.0, -1.0, True, [0.1])
NOT_MASKS = (3, "all", [True], np.ones(WORLDS), np.ones((WORLDS, 1), bool), [None] * WORLDS, THING)
NOT_COORDINATES = ("abc", np.zeros(5), np.zeros((WORLDS, 7, 1)), THING, [None] * 7)
SAME = object()  # the argument's name is what the message has to say

CASES = [
    (construct_simulation, "model", NOT_MODELS, "newton.Model"),
    (construct_simulation, "dt", NOT_DT, SAME),
    (construct_simulation, "max_rigid_contact", NOT_COUNTS, SAME),
    (construct_simulation, "rigid_contact_max", NOT_COUNTS, SAME),
    (construct_simulation, "precision", (*NOT_STRINGS, "fp16"), SAME),
    (construct_simulation, "threads", (None, *NOT_COUNTS, 3), SAME),
    (construct_simulation, "state", STATES, SAME),
    (construct_simulation, "control", CONTROLS, SAME),
    (construct_simulation, "control_sequence", ("abc", 3, THING), SAME),
    (construct_simulation, "statistics", NOT_FLAGS, SAME),
    (construct_simulation, "strict", NOT_FLAGS, SAME),
    (construct_simulation, "pipeline_options", ("abc", 3, [1], {"no_such": 1}, {"broad_phase": "no"}), None),
    (construct_simulation, "name", NOT_STRINGS, SAME),
    (construct_simulation, "contact_preset_variant", NOT_STRINGS, SAME),
    (construct_simulation, "no_such_option", (1,), SAME),
    (construct_simulation, "block_dim", NOT_COUNTS, SAME),
    (lambda p, **o: Simulation.from_scene(**{"scene": "cube"} | o), "scene", (None, 3, THING), SAME),
    (lambda p, **o: Simulation.from_scene("cube", **o), "num_worlds", NOT_COUNTS, SAME),
    (lambda p, **o: Simulation.from_scene("cube", **o), "strict", NOT_FLAGS, SAME),
    (lambda p, **o: Simulation.from_scene("cube", **o), "dt", NOT_DT[1:], SAME),
    (lambda p, **o: Simulation.from_scene("cube", **o), "max_rigid_contact", NOT_COUNTS, SAME),
    (lambda p, loaded: Simulation.from_loaded(loaded), "loaded", (None, "cube", 3, THING, {}), SAME),
    (lambda p, **o: Simulation.from_loaded(p["scene"], **o), "max_rigid_contact", NOT_COUNTS, SAME),
    (set_dt, "dt", NOT_DT, SAME),
    (lambda p, n: p["sim"].step(n), "n", (-1, 1.5, NAN, True, "2", None), SAME),
    (lambda p, function: p["sim"].add_callback(function), "function", (None, 3, "abc"), SAME),
    (lambda p, every: p["sim"].add_callback(print, every), "every", (None, *NOT_COUNTS), SAME),
    (reset, "world_mask", NOT_MASKS, SAME),
    (reset, "joint_q", NOT_COORDINATES, SAME),
    (reset, "joint_qd", NOT_COORDINATES, SAME),
    (reset, "keyframe", (3, "home", ["home"], THING), SAME),
    (lambda p, world_mask: p["sim"].update_bodies(world_mask), "world_mask", NOT_MASKS, SAME),
    (lambda p, flags: p["sim"].notify_model_changed(flags), "flags", (None, "abc", 1.5, NAN, True), SAME),
    (lambda p, values: p["sim"].joint_f.assign(values), "values", NOT_COORDINATES, "joint_f"),
    (lambda p, index: p["sim"].joint_q.world(index), "index", (None, "abc", 1.5, NAN), SAME),
    (construct_solver, "model", NOT_MODELS, "newton.Model"),
    (construct_solver, "contact_preset_variant", NOT_STRINGS, SAME),
    (construct_solver, "block_dim", NOT_COUNTS, SAME),
    (construct_solver, "strict_capacity", NOT_FLAGS, SAME),
    (construct_solver, "collision_pipeline", ("abc", 3, THING), SAME),
    (construct_solver, "max_iterations", (None, *NOT_COUNTS), SAME),
    (construct_solver, "max_rigid_contact", (None, *NOT_COUNTS), SAME),
    (construct_solver, "contact_tau_d", (None, -1.0, NAN, INF, "1", True), SAME),
    (construct_solver, "line_search_variant", NOT_STRINGS[:-1], SAME),
    (construct_solver, "use_f64_boundary_pose", NOT_FLAGS, SAME),
    (construct_solver, "contact_solve_precision", NOT_STRINGS, SAME),
    (step_solver, "state_in", {**STATES, "nothing": None}, SAME),
    (step_solver, "state_out", {**STATES, "nothing": None}, SAME),
    (step_solver, "control", CONTROLS, SAME),
    (step_solver, "contacts", ("abc", 3, THING), SAME),
    (step_solver, "dt", NOT_DT, SAME),
    (lambda p, state: p["solver"].reset(state), "state", {**STATES, "nothing": None}, SAME),
    (
        lambda p, world_mask: p["solver"].reset(p["sap"].state(), world_mask),
        "world_mask",
        ("abc", [True] * WORLDS, np.ones(WORLDS, bool), floats(WORLDS), floats(1, wp.bool)),
        SAME,
    ),
    (lambda p, flags: p["solver"].reset(p["sap"].state(), flags=flags), "flags", ("abc", 1.5, NAN), SAME),
    (lambda p, control: p["solver"].reset(p["sap"].state(), control=control), "control", CONTROLS, SAME),
    (lambda p, flags: p["solver"].notify_model_changed(flags), "flags", (None, "abc", 1.5, NAN, True), SAME),
    (lambda p, contacts: p["solver"].update_contacts(contacts), "contacts", (None, "abc", THING), SAME),
    (lambda p, state: p["solver"].compute_free_motion(state, None, 0.005), "state", STATES, SAME),
    (lambda p, dt: p["solver"].compute_free_motion(p["sap"].state(), None, dt), "dt", NOT_DT, SAME),
    (construct_pipeline, "collision_model", NOT_MODELS, "newton.Model"),
    (construct_pipeline, "rigid_contact_max", NOT_COUNTS, SAME),
    (construct_pipeline, "broad_phase", (3, "no", NAN, ()), SAME),
    (construct_pipeline, "narrow_phase", (3, "no", THING), SAME),
    (construct_pipeline, "deterministic", NOT_FLAGS[1:], SAME),
    (construct_pipeline, "strict_capacity", NOT_FLAGS, SAME),
    (construct_pipeline, "unsupported_pairs", NOT_STRINGS, SAME),
    (construct_pipeline, "no_such_option", (1,), SAME),
    (collide, "state", (None, "abc", THING), SAME),
    (collide, "contacts", (None, "abc", THING), SAME),
    (collide, "dt", ("fast", NAN, -1.0, THING), SAME),
    (lambda p, model: SapModel(model), "model", NOT_MODELS, "newton.Model"),
    (lambda p, precision: p["sap"].state(precision), "precision", (*NOT_STRINGS, "fp16"), SAME),
    (assign_state, "other", (None, "abc", THING, lambda p: p["other"].state()), None),
    (lambda p, joint_qd_order: SapState(joint_qd_order=joint_qd_order), "joint_qd_order", (*NOT_STRINGS, "x"), SAME),
    (lambda p, joint_f_order: SapControl(joint_f_order=joint_f_order), "joint_f_order", (*NOT_STRINGS, "x"), SAME),
    (lambda p, contacts: SapContacts(contacts), "contacts", (None, "abc", THING), "newton.Contacts"),
    (lambda p, state: sap_warp.sap_state_from_newton(state), "state", (None, "abc", THING), "newton.State"),
    (lambda p, control: sap_warp.sap_control_from_newton(control), "control", (None, "abc"), "newton.Control"),
    (lambda p, model: sap_warp.sap_model_from_newton(model), "model", NOT_MODELS, "newton.Model"),
]


def label(case):
    return f"{getattr(case[0], '__name__', '')}-{case[1]}".replace("<lambda>", "call")


@pytest.mark.parametrize("call, name, values, says", CASES, ids=[label(case) for case in CASES])
def test_a_wrong_argument_is_named(parts, call, name, values, says):
    """Not accepted, and not passed on until something inside fails."""
    wrong = []
    for value in values.values() if isinstance(values, dict) else values:
        given = value
        try:
            given = value(parts) if callable(value) else value
            call(parts, **{name: given})
        except (TypeError, ValueError) as error:
            frames = traceback.extract_tb(error.__traceback__)
            ours = "sap_warp" in frames[-1].filename
            if not ours or (name if says is SAME else says or "") not in str(error):
                wrong.append(f"{given!r}: {type(error).__name__} of {frames[-1].filename}:{frames[-1].lineno}: {error}")
        except Exception as error:
            wrong.append(f"{given!r}: {type(error).__name__}: {error}")
        else:
            wrong.append(f"{given!r} was accepted")
    assert not wrong, "\n".join(wrong)
