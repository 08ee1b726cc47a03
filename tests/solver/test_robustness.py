"""What must hold when things go wrong: bad worlds, overflowing contacts, replays, statistics, and the stopping test."""

import newton
import numpy as np
import pytest
import warp as wp

import sap_warp
from sap_warp import SolveStatus
from tests.support.oracle import DenseWorld, OracleOptions, fill_newton_contacts
from tests.support.scenes import G, Stepper, add_box, allocations, box_on_ground, builder, material, one_joint
from tests.support.solver_cases import assign_controls, random_problem

H = 0.005
WORLDS, BAD = 4, 2


def arm_and_boxes(worlds=WORLDS):
    """Worlds with a driven arm, a box on the ground and a second box on top of it; the ground is shared."""
    local = builder()
    add_box(local, (0.0, 0.0, 0.1), cfg=material(gap=0.001))
    add_box(local, (0.02, 0.0, 0.3), mass=0.5, cfg=material(gap=0.001))
    links = [
        local.add_link(mass=1.0, com=wp.vec3(0.2, 0.0, 0.0), inertia=wp.mat33(*(0.05 * np.eye(3)).ravel()))
        for _ in "ab"
    ]
    drive = local.JointDofConfig(
        axis=newton.Axis.Y, actuator_mode=newton.JointTargetMode.POSITION, target_ke=50.0, target_kd=5.0, target_pos=0.5
    )
    root = wp.transform(wp.vec3(2.0, 0.0, 2.0))
    joints = [
        local.add_joint_revolute(-1, links[0], axis=drive, parent_xform=root),
        local.add_joint_revolute(links[0], links[1], axis=drive, parent_xform=wp.transform(wp.vec3(0.4, 0.0, 0.0))),
    ]
    local.add_articulation(joints)
    b = builder()
    b.add_ground_plane(cfg=material(gap=0.001))
    b.replicate(local, worlds)
    return b.finalize(device="cpu")


def by_world(values, worlds=WORLDS):
    return values.numpy().reshape(worlds, -1)


def snapshot(state, worlds=WORLDS):
    """joint_q, joint_qd, body_q, body_qd of every world, side by side."""
    names = ("joint_q", "joint_qd", "body_q", "body_qd")
    return np.concatenate([by_world(getattr(state, n), worlds) for n in names], axis=1)


# --- a bad world -----------------------------------------------------------------------------------------------


def poison(sim, kind):
    """Spoil one world."""
    dofs, coords, bodies = (
        n // WORLDS for n in (sim.model.joint_dof_count, sim.model.joint_coord_count, sim.model.body_count)
    )
    arrays = {
        "nan q": (sim.state.joint_q, BAD * coords + 2, np.nan),
        "nan quaternion": (sim.state.joint_q, BAD * coords + 4, np.nan),
        "nan qd": (sim.state.joint_qd, BAD * dofs + 1, np.nan),
        "inf qd": (sim.state.joint_qd, BAD * dofs + dofs - 1, np.inf),
        "huge spin": (sim.state.joint_qd, BAD * dofs + 4, 1e30),
        "huge arm speed": (sim.state.joint_qd, BAD * dofs + dofs - 1, 1e30),
        "inf joint_f": (sim.control.joint_f, BAD * dofs + dofs - 2, np.inf),
        "nan target": (sim.control.joint_target_pos, BAD * coords + coords - 1, np.nan),
        "inf body_f": (sim.state.body_f, (BAD * bodies, 0), np.inf),
    }
    array, index, value = arrays[kind]
    data = array.numpy()
    data[index] = value
    array.assign(data)


POISONS = (
    "nan q",
    "nan quaternion",
    "nan qd",
    "inf qd",
    "huge spin",
    "huge arm speed",
    "inf joint_f",
    "nan target",
    "inf body_f",
)


@pytest.mark.parametrize("preset", ["approx32", "approx64"])
@pytest.mark.parametrize("kind", POISONS)
def test_bad_world_is_flagged_frozen_and_alone(kind, preset):
    """The spoiled world is marked and keeps its state; the others move bitwise as if it were well.

    The velocities of 1e30 are beyond what a state in fp32 survives, so they too must stop at once.
    """
    well, ill = (Stepper(arm_and_boxes(), H, preset, contact_max=256) for _ in range(2))
    for sim in (well, ill):
        sim.step(3)
    poison(ill, kind)
    frozen = snapshot(ill.state)[BAD]
    q_dofs = ill.model.joint_coord_count // WORLDS + ill.model.joint_dof_count // WORLDS
    for sim in (well, ill):
        sim.step(5)
    others = [w for w in range(WORLDS) if w != BAD]
    np.testing.assert_array_equal(snapshot(ill.state)[others], snapshot(well.state)[others])
    assert (ill.solver.status[others] == SolveStatus.CONVERGED).all()
    assert ill.solver.status[BAD] != SolveStatus.CONVERGED, f"status {ill.solver.status}"
    assert not ill.solver.last_converged
    np.testing.assert_array_equal(snapshot(ill.state)[BAD, :q_dofs], frozen[:q_dofs])


@pytest.mark.parametrize("preset", ["approx32", "approx64"])
def test_huge_velocity_of_a_free_body_does_not_spread(preset):
    """A body at 1e30 m/s either moves on or is flagged, but no other world notices and nothing becomes nan."""
    well, ill = (Stepper(arm_and_boxes(), H, preset, contact_max=256) for _ in range(2))
    data = ill.state.joint_qd.numpy()
    data[BAD * ill.model.joint_dof_count // WORLDS] = 1e30
    ill.state.joint_qd.assign(data)
    for sim in (well, ill):
        sim.step(5)
    others = [w for w in range(WORLDS) if w != BAD]
    np.testing.assert_array_equal(snapshot(ill.state)[others], snapshot(well.state)[others])
    flagged = ill.solver.status[BAD] != SolveStatus.CONVERGED
    assert flagged or np.isfinite(snapshot(ill.state)[BAD]).all()


@pytest.mark.parametrize("extra", [0, 1])
def test_reset_revives_exactly_the_masked_worlds(extra):
    """A mask with or without the entry for global entities resets the marked worlds and no other."""
    sim = Stepper(arm_and_boxes(), H, contact_max=256)
    initial = snapshot(sim.state)
    sim.step(3)
    poison(sim, "nan qd")
    sim.step(2)
    before = snapshot(sim.state)
    mask = np.zeros(WORLDS + extra, dtype=bool)
    mask[[0, BAD]] = True
    sim.solver.reset(sim.state, wp.array(mask, dtype=wp.bool, device="cpu"))
    after = snapshot(sim.state)
    np.testing.assert_array_equal(after[[0, BAD]], initial[[0, BAD]])
    np.testing.assert_array_equal(after[[1, 3]], before[[1, 3]])
    assert (sim.solver.status == SolveStatus.CONVERGED).all()
    assert sim.solver.frame_id == 5 and sim.solver.sim_time == pytest.approx(5 * H), "a partial reset keeps the clock"
    sim.step(3)
    assert (sim.solver.status == SolveStatus.CONVERGED).all()
    reference = Stepper(arm_and_boxes(), H, contact_max=256).step(3)
    np.testing.assert_array_equal(snapshot(sim.state)[[0, BAD]], snapshot(reference.state)[[0, BAD]])


def test_full_reset_restores_everything():
    """reset(state) gives back the initial state, the clock and the frame count."""
    sim = Stepper(arm_and_boxes(), H, contact_max=256)
    initial = snapshot(sim.state)
    sim.state.body_f.fill_(1.0)
    sim.step(3)
    poison(sim, "nan q")
    sim.step()
    sim.solver.reset(sim.state)
    np.testing.assert_array_equal(snapshot(sim.state), initial)
    assert (sim.state.body_f.numpy() == 0.0).all()
    assert sim.solver.sim_time == 0.0 and sim.solver.frame_id == 0
    sim.step(3)
    np.testing.assert_array_equal(
        snapshot(sim.state), snapshot(Stepper(arm_and_boxes(), H, contact_max=256).step(3).state)
    )


# --- contacts --------------------------------------------------------------------------------------------------


def boxes_in_worlds(counts):
    """World w holds counts[w] separate boxes on the shared ground: four contacts each."""
    b = builder()
    b.add_ground_plane(cfg=material(gap=0.001))
    for count in counts:
        b.begin_world()
        for i in range(count):
            add_box(b, (0.5 * i, 0.0, 0.0999), cfg=material(gap=0.001))
        b.end_world()
    return b.finalize(device="cpu")


def test_contact_overflow_is_counted_and_stays_in_its_world():
    """A full world drops what does not fit, says how many, and takes nothing from the others."""
    counts = (1, 3, 1)
    wide = Stepper(boxes_in_worlds(counts), H, contact_max=64)
    tight = Stepper(boxes_in_worlds(counts), H, contact_max=64, max_rigid_contact=5)
    for sim in (wide, tight):
        sim.step()
    assert wide.solver.last_contact_count == 20 and wide.solver.last_truncated_contact_count == 0
    np.testing.assert_array_equal(tight.solver.contact_jacobian.contact_count.numpy(), [4, 5, 4])
    np.testing.assert_array_equal(tight.solver.contact_jacobian.truncated_count.numpy(), [0, 7, 0])
    assert tight.solver.last_truncated_contact_count == 7
    for sim in (wide, tight):
        sim.step(20)
    rows = [0, 4]  # bodies of the first and the last world
    np.testing.assert_array_equal(tight.state.body_q.numpy()[rows], wide.state.body_q.numpy()[rows])
    assert np.isfinite(tight.position).all()


def test_two_contacts_of_four_still_step():
    """max_rigid_contact=2 under a box with four contacts: two are dropped, every step, and the state stays finite."""
    sim = Stepper(box_on_ground(height=0.0999), H, max_rigid_contact=2)
    sim.step()
    assert sim.solver.last_contact_count == 2 and sim.solver.last_truncated_contact_count == 2
    sim.step(50)
    assert np.isfinite(sim.position).all()


def test_overflow_of_the_collision_buffer_is_reported():
    """Contacts that the pipeline found but could not store count as truncated too."""
    sim = Stepper(boxes_in_worlds((1, 1)), H)
    buffer = newton.Contacts(5, 0, device="cpu")
    sim.pipeline.collide(sim.state, sim.contacts)
    for side in ("shape0", "shape1", "point0", "point1", "offset0", "offset1", "normal", "margin0", "margin1"):
        getattr(buffer, f"rigid_contact_{side}").assign(getattr(sim.contacts, f"rigid_contact_{side}").numpy()[:5])
    buffer.contact_counters.assign(np.array([8, 0, 0], dtype=np.int32))
    sim.solver.step(sim.state, sim.state, sim.control, buffer, H)
    assert sim.solver.last_contact_count == 5 and sim.solver.last_truncated_contact_count == 3


def test_contacts_and_control_may_be_none():
    """Without contacts a box falls; without a control the model's own targets act."""
    sim = Stepper(box_on_ground(), H)
    sim.solver.step(sim.state, sim.state, None, None, H)
    assert sim.solver.last_contact_count == 0
    assert sim.velocity[5] == pytest.approx(-G * H, rel=1e-12)
    drive = {"actuator_mode": newton.JointTargetMode.POSITION, "target_ke": 100.0, "target_kd": 10.0, "target_pos": 0.5}
    given, none = (Stepper(one_joint(**drive), H, precision="fp64") for _ in range(2))
    given.step(5)
    for _ in range(5):
        none.solver.step(none.state, none.state, None, None, H)
    np.testing.assert_array_equal(none.q, given.q)
    assert none.q[0] != pytest.approx(-G * (5 * H) ** 2 / 2.0, rel=0.5), "the drive acted"


# --- statistics ------------------------------------------------------------------------------------------------


def test_statistics_of_free_fall_and_rest():
    """Free fall takes no iteration; an impact takes some; rest takes at most one."""
    sim = Stepper(box_on_ground(height=0.15, gap=0.0), H)
    sim.step(10)
    solver = sim.solver
    assert solver.last_contact_count == 0 and solver.last_truncated_contact_count == 0
    assert solver.last_solve_iterations == 0 and solver.last_line_search_iterations == 0
    assert solver.last_converged and (solver.residual == 0.0).all()
    assert solver.frame_id == 10 and solver.sim_time == pytest.approx(10 * H, rel=1e-12)
    while solver.last_contact_count == 0:
        sim.step()
    assert solver.last_solve_iterations >= 1 and solver.last_line_search_iterations >= 1
    sim.run(2.0)
    assert solver.last_contact_count == 4
    assert solver.last_solve_iterations <= 1
    assert solver.last_converged and solver.status.tolist() == [SolveStatus.CONVERGED]
    assert solver.iterations.shape == solver.residual.shape == solver.status.shape == (1,)
    assert isinstance(solver.last_contact_count, int) and isinstance(solver.sim_time, float)


def test_iteration_limit_is_reported_and_the_step_goes_on():
    """With one allowed iteration an impact stops early, says so, and still moves the world."""
    sim = Stepper(box_on_ground(height=0.0999, mu=0.3), H, max_iterations=1, optimality_rel_tol=1e-14, cost_rel_tol=0.0)
    sim.set(qd=[1.0, 0.3, -1.0, 2.0, 1.0, 0.5])
    sim.step()
    assert sim.solver.status[0] == SolveStatus.ITERATION_LIMIT and not sim.solver.last_converged
    assert sim.solver.iterations[0] == 1 and sim.solver.residual[0] > 1e-14
    assert sim.solver.frame_id == 1 and sim.position[0, 0] > 0.0


# --- replay and repetition -------------------------------------------------------------------------------------


def test_step_allocates_nothing():
    """No Warp array is made by a step once it has seen the buffers it is given, be they Sap* or Newton objects."""
    sim = Stepper(arm_and_boxes(), H, contact_max=256).step(2)
    assert allocations(lambda: wp.zeros(8, device="cpu")) > 0, "the counter must work"
    newton_control = sim.model.control()
    sim.solver.step(sim.state, sim.state, newton_control, sim.contacts, H)
    sim.solver.step(sim.state, sim.state, None, None, H)
    assert allocations(lambda: sim.solver.step(sim.state, sim.state, newton_control, sim.contacts, H)) == 0
    assert allocations(lambda: sim.solver.step(sim.state, sim.state, None, None, H)) == 0


@pytest.mark.parametrize("preset", ["approx32", "drake"])
def test_replayed_graph_is_bitwise_the_plain_step(preset):
    """A captured step, replayed, gives the same bits; clock and statistics follow."""
    plain, replayed = (Stepper(arm_and_boxes(), H, preset, contact_max=256) for _ in range(2))
    plain.step(41)
    replayed.run(steps=41)
    np.testing.assert_array_equal(snapshot(replayed.state), snapshot(plain.state))
    assert replayed.solver.frame_id == plain.solver.frame_id == 41
    assert replayed.solver.sim_time == plain.solver.sim_time
    np.testing.assert_array_equal(replayed.solver.residual, plain.solver.residual)


def test_same_inputs_give_the_same_bits():
    """Two solvers on two models built alike agree bit by bit."""
    first, second = (Stepper(arm_and_boxes(), H, contact_max=256).step(30) for _ in range(2))
    np.testing.assert_array_equal(snapshot(first.state), snapshot(second.state))


def test_contact_order_in_the_buffer_does_not_matter_to_the_binning():
    """Contacts are handled in buffer order per world, whichever worlds they are interleaved with."""
    model = boxes_in_worlds((1, 1))
    first = Stepper(model, H)
    first.pipeline.collide(first.state, first.contacts)
    names = ("shape0", "shape1", "point0", "point1", "offset0", "offset1", "normal", "margin0", "margin1")
    shuffled = newton.Contacts(8, 0, device="cpu")
    worlds = model.shape_world.numpy()
    shapes = np.maximum(
        first.contacts.rigid_contact_shape0.numpy()[:8], first.contacts.rigid_contact_shape1.numpy()[:8]
    )
    zero, one = (np.flatnonzero(worlds[shapes] == w) for w in (0, 1))
    order = np.ravel(np.column_stack([one, zero]))  # interleaved, each world's own order kept
    for name in names:
        getattr(shuffled, f"rigid_contact_{name}").assign(
            getattr(first.contacts, f"rigid_contact_{name}").numpy()[:8][order]
        )
    shuffled.contact_counters.assign(np.array([8, 0, 0], dtype=np.int32))
    second = Stepper(model, H)
    first.solver.step(first.state, first.state, None, first.contacts, H)
    second.solver.step(second.state, second.state, None, shuffled, H)
    np.testing.assert_array_equal(second.velocity, first.velocity)


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_step_in_place_is_bitwise_the_step_between_two_states(precision):
    """state_out may be state_in."""
    model = arm_and_boxes()
    sim = Stepper(model, H, contact_max=256)
    solvers = [sap_warp.SolverSAP(model, contact_preset_variant="approx64") for _ in range(2)]
    states = [solvers[0].sap_model.state(precision) for _ in range(3)]
    sim.pipeline.collide(sim.state, sim.contacts)
    here, a, b = states
    for state in (here, a):
        state.body_f.fill_(0.5)
    b.body_f.fill_(0.5)
    for _ in range(4):
        solvers[0].step(here, here, None, sim.contacts, H)
        solvers[1].step(a, b, None, sim.contacts, H)
        a, b = b, a
    np.testing.assert_array_equal(snapshot(here), snapshot(a))


# --- the stopping test -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("search", ["monotone_decay", "armijo_decay", "exact_root"])
def test_residual_is_below_the_tolerance_in_a_thousand_random_worlds(search, thousand_worlds):
    """Every world meets |D g| <= 1e-6 max(|D A v|, |D j|), by its own account, and twenty by the oracle's."""
    model, q, qd, records, controls = thousand_worlds
    solver = sap_warp.SolverSAP(
        model,
        contact_preset_variant="approx64",
        line_search_variant=search,
        optimality_rel_tol=1e-6,
        optimality_abs_tol=1e-14,
        cost_abs_tol=0.0,
        cost_rel_tol=0.0,
        contact_tau_d=0.01,
        max_rigid_contact=8,
    )
    state, out = (solver.sap_model.state("fp64") for _ in range(2))
    state.joint_q.assign(q)
    state.joint_qd.assign(qd)
    poses = model.state()  # forces of floating joints are turned by the poses of their parents
    newton.eval_fk(model, wp.array(q, dtype=float, device="cpu"), wp.array(qd, dtype=float, device="cpu"), poses)
    state.body_q.assign(poses.body_q.numpy())
    control = solver.sap_model.control()
    assign_controls(control, controls)
    contacts = fill_newton_contacts(model, [record for world in records for record in world])
    solver.step(state, out, control, contacts, H)
    assert solver.last_truncated_contact_count == 0
    iterations = solver.iterations
    failed = np.flatnonzero(solver.status != SolveStatus.CONVERGED)
    tail = f"99 % {np.percentile(iterations, 99):.0f}, max {iterations.max()}"
    trials = solver.last_line_search_iterations / 1000
    print(f"\n  {search}: iterations mean {iterations.mean():.2f}, {tail}; trials per world {trials:.1f}")
    print(f"  failed {len(failed)}, worst residual {solver.residual.max():.2e}")
    assert len(failed) == 0, [(int(w), SolveStatus(solver.status[w]).name, solver.residual[w]) for w in failed[:5]]
    assert solver.residual.max() <= 1e-6
    layout, velocity = solver.layout, solver.contact_solve.velocity.numpy()
    for w in range(0, 1000, 50):
        options = OracleOptions("body_inertia", "witness_point", contact_tau_d=0.01)
        passed = {k: v for k, v in controls.items() if k != "body_f"}
        world = DenseWorld(model, q, qd, H, world=w, contacts=records[w], options=options, **passed)
        start, end = layout.world_dof.numpy()[w : w + 2]
        v = velocity[np.sort(layout.dof_newton.numpy()[start:end])]
        # 1e-6 requested; fp32 rotations that are unit only to 1e-7 are normalized at different places
        assert world.residual(v) < 3e-6, f"world {w}: {world.residual(v)}"


@pytest.fixture(scope="module")
def thousand_worlds():
    """1,000 small worlds that differ in everything."""
    return random_problem(1000, 1000, 6, trees=2, max_bodies=3, max_dofs=18)
