"""Steps begin, continue and end: whatever way, the same bits."""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import SolverSAP
from sap_warp.core.kernels.launch import WorldRange
from sap_warp.solver.model.layout import _runs
from tests.support.joint_types import add_all_joint_types
from tests.support.oracle import random_state
from tests.support.solver_cases import Case

DT = 0.005
WORLDS = 2
FIELDS = ("joint_q", "joint_qd", "body_q", "body_qd")
MOTION = ("origin", "p", "r", "Sw", "Sv", "v0", "impulse", "A", "Vw", "Vv", "aw", "av")


@pytest.fixture(scope="module")
def model():
    """All joint types on one another and a kinematic root that carries a body, in each of two worlds."""
    rng = np.random.default_rng(3)
    world = newton.ModelBuilder()
    add_all_joint_types(world, rng)
    inertia = wp.mat33(np.eye(3))
    links = [world.add_link(mass=1.0, inertia=inertia, is_kinematic=kinematic) for kinematic in (True, False)]
    joints = [world.add_joint_free(links[0]), world.add_joint_revolute(*links)]
    world.add_articulation(joints)
    scene = newton.ModelBuilder(gravity=(0.3, 0.2, -9.8))
    scene.replicate(world, WORLDS)
    return scene.finalize(device="cpu")


def make_solver(model, preset="approx64", lanes=1):
    return SolverSAP(model, contact_preset_variant=preset, block_dim=lanes)


def make_state(solver, seed, precision="fp64", order="public"):
    rng = np.random.default_rng(seed)
    state = solver.sap_model.state(precision)
    q, qd = random_state(rng, solver.model)
    state.joint_q.assign(q)
    state.joint_qd.assign(qd)
    state.joint_qd_order = order
    return state


def assert_same(solver, reference, states):
    for name in MOTION:
        values = getattr(solver.free_motion.data, name).numpy(), getattr(reference.free_motion.data, name).numpy()
        np.testing.assert_array_equal(*values, err_msg=name)
    for name in FIELDS:
        np.testing.assert_array_equal(*(getattr(state, name).numpy() for state in states), err_msg=name)


def make_forces(solver, state, seed):
    """Random forces on all joints and on every other body."""
    rng = np.random.default_rng(seed)
    control = solver.sap_model.control()
    control.joint_f.assign(rng.normal(size=solver.model.joint_dof_count))
    wrenches = rng.normal(size=(solver.model.body_count, 6))
    wrenches[::2] = 0.0
    state.body_f.assign(wrenches)
    return control


@pytest.mark.parametrize(
    ("preset", "precision", "order", "forced", "lanes"),
    [
        ("approx64", "fp64", "public", True, 1),
        ("approx64", "fp64", "public", True, 4),
        ("approx64", "fp32", "public", True, 1),
        ("approx64", "fp32", "public", False, 1),
        ("approx64", "fp64", "sap", True, 1),
        ("approx32", "fp32", "public", True, 1),
        ("approx32", "fp64", "public", True, 1),
    ],
)
def test_steps_that_continue_are_those_through_states(model, monkeypatch, preset, precision, order, forced, lanes):
    """Four steps of one world, then of the other: nothing but the last one leaves coordinates in the state."""
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", lanes > 1)
    count = 4
    solver, reference = make_solver(model, preset, lanes), make_solver(model, preset, lanes)
    state, through = (make_state(s, 12, precision, order) for s in (solver, reference))
    control = make_forces(solver, state, 13) if forced else solver.model_control
    through.body_f = state.body_f
    for _ in range(count):
        reference.step(through, through, control, None, DT)
    steps = solver.steps(control, DT)
    for worlds in (WorldRange(world, 1, lanes) for world in range(WORLDS)):
        steps.begin(state, worlds)
        for i in range(count):
            steps.solve(worlds)
            if i < count - 1:
                steps.continue_step(state, worlds)
        steps.end(state, worlds)
    assert (solver.status == 0).all()
    assert_same(solver, reference, (state, through))
    assert (solver.frame_id, solver.sim_time) == (reference.frame_id, reference.sim_time)


def test_solving_twice_gives_the_same_bits():
    """What a solve needs is prepared before and not changed by it: contacts, limits, drives, couplings."""
    case = Case(3, contacts=8).step()
    solve = case.solver.contact_solve
    names = ("v", "vc", "slack", "velocity", "iterations", "line_iterations", "residual", "status")
    first = {name: getattr(solve.data, name).numpy().copy() for name in names}
    assert first["iterations"].max() > 1
    for _ in range(2):
        solve.solve(0.01, case.solver.all_worlds)
        for name, values in first.items():
            np.testing.assert_array_equal(getattr(solve.data, name).numpy(), values, err_msg=name)


def test_several_states_of_one_solver_do_not_mix(model):
    """Two trajectories in turn, and a look at a third state in between, end as each alone."""
    solver = make_solver(model)
    states, alone = ([make_state(solver, seed) for seed in (5, 6)] for _ in range(2))
    other = make_state(solver, 7)
    for _ in range(3):
        for state in states:
            solver.step(state, state, None, None, DT)
            solver.compute_free_motion(other, None, DT)
    for state in alone:
        single = make_solver(model)
        for _ in range(3):
            single.step(state, state, None, None, DT)
    for state, expected in zip(states, alone, strict=True):
        assert_same(single, single, (state, expected))


def test_after_a_step_the_motion_is_that_of_its_start(model):
    """What a step leaves in `free_motion.data` belongs to the state that came in, not to the one that goes out."""
    solver, look = make_solver(model), make_solver(model)
    state = make_state(solver, 8)
    for _ in range(2):
        look.compute_free_motion(state, None, DT)
        solver.step(state, state, None, None, DT)
        assert_same(solver, look, (state, state))


@pytest.mark.parametrize("name", ["joint_X_p", "joint_X_c", "joint_axis"])
def test_a_changed_model_is_not_mistaken_for_the_old_one(model, name):
    """Joint frames and axes change between steps: nothing is left of before."""
    array = getattr(model, name)
    before = array.numpy().copy()
    try:
        solver = make_solver(model)
        state = make_state(solver, 9)
        solver.step(state, state, None, None, DT)
        array.assign(np.roll(before, 1, axis=0))
        solver.notify_model_changed(newton.ModelFlags.JOINT_PROPERTIES)
        reference, expected = make_solver(model), make_state(solver, 9)
        for field in FIELDS:
            getattr(expected, field).assign(getattr(state, field))
        solver.step(state, state, None, None, DT)
        reference.step(expected, expected, None, None, DT)
        assert_same(solver, reference, (state, expected))
    finally:
        array.assign(before)


def test_a_reset_world_starts_afresh(model):
    """After a reset of one world a step is that of another solver from the same state."""
    solver = make_solver(model)
    state = make_state(solver, 10)
    solver.step(state, state, None, None, DT)
    solver.reset(state, wp.array([True, False], dtype=wp.bool, device="cpu"))
    reference, expected = make_solver(model), make_state(solver, 10)
    for field in FIELDS:
        getattr(expected, field).assign(getattr(state, field))
    for s, each in ((solver, state), (reference, expected)):
        s.step(each, each, None, None, DT)
    assert_same(solver, reference, (state, expected))


def test_a_failed_world_keeps_its_state(model):
    """A coordinate that is not finite stops its world alone, in every step."""
    solver = make_solver(model)
    state = make_state(solver, 11)
    values = state.joint_q.numpy()
    values[0] = np.nan
    state.joint_q.assign(values)
    for _ in range(2):
        solver.step(state, state, None, None, DT)
        np.testing.assert_array_equal(solver.status != 0, [True, False])
    assert np.isnan(state.joint_q.numpy()[0])


def test_runs_of_coordinates_cover_each_world_once():
    """Joints of two worlds that alternate, with a joint of no world and a joint without coordinates between them."""
    start = np.array([0, 1, 8, 8, 9, 10, 17, 18])
    worlds = ([0, 1, 2, 6], [5, 3])  # joint 4 belongs to none, joint 2 has no coordinates
    runs = _runs(start, np.concatenate(worlds), np.array([len(joints) for joints in worlds]))
    np.testing.assert_array_equal(runs["world"], [0, 2, 4])
    np.testing.assert_array_equal(runs["first"], [0, 17, 8, 10])
    np.testing.assert_array_equal(runs["end"], [8, 18, 9, 17])
