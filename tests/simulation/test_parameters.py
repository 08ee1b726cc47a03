"""Parameters of worlds as views: what is assigned acts in the next step, as in a simulation built with it."""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import Simulation
from sap_warp.simulation.parameters import MASSES, PARAMETERS, model_array
from tests.support.massless import chain
from tests.support.scenes import box_inertia
from tests.support.simulations import STATE_ARRAYS, make_sim, new_builder

WORLDS = 4
CHOSEN = np.array([False, True, True, False])


def robots(worlds=WORLDS):
    """A box that slides over the ground, with three joints: driven, falling into a limit, and spinning."""
    one, scene = new_builder(), new_builder()
    base = one.add_link(xform=wp.transform((0.0, 0.0, 0.0995), wp.quat_identity()))
    one.add_shape_box(base, hx=0.2, hy=0.2, hz=0.1)
    axes = newton.ModelBuilder.JointDofConfig
    driven = axes(axis=newton.Axis.Y, target_pos=1.0, target_ke=60.0, target_kd=2.0, effort_limit=3.0, armature=0.02,
                  actuator_mode=newton.JointTargetMode.POSITION, limit_lower=-3.0, limit_upper=3.0)  # fmt: skip
    falling = axes(axis=newton.Axis.Z, limit_lower=-0.01, limit_upper=0.015, damping=0.3, limit_ke=1e4, limit_kd=10.0)
    spinning = axes(axis=newton.Axis.X, velocity_limit=4.0, friction=0.01, armature=0.01, limit_lower=-9, limit_upper=9)
    joints = [one.add_joint_free(base)]
    for i, (axis, add) in enumerate([
        (driven, one.add_joint_revolute), (falling, one.add_joint_prismatic), (spinning, one.add_joint_revolute)
    ]):  # fmt: skip
        link = one.add_link(mass=1.0, inertia=box_inertia(1.0, (0.05, 0.03, 0.08)), com=wp.vec3(0.01, 0.0, 0.02))
        frame = wp.transform((0.2 * (i - 1), 0.0, 0.3), wp.quat_identity())
        joints.append(add(base, link, axis=axis, parent_xform=frame))
    one.add_articulation(joints)
    scene.replicate(one, worlds)
    scene.add_ground_plane()
    model = scene.finalize(device="cpu")
    qd = model.joint_qd.numpy().reshape(worlds, -1)
    qd[:, 0], qd[:, -1], qd[:, -2] = 1.5, 3.0, 0.3
    return model


def simulate(model, threads=1):
    return Simulation(model, dt=0.004, threads=threads, max_rigid_contact=16, contact_tau_d=0.02, notes=False)


def other_values(name, values, rng):
    """Values that a parameter might have instead of ``values``, by world."""
    factors = rng.uniform(0.3, 0.7, values.shape).astype(np.float32)
    if name == "body_inertia":
        return values * factors[..., :1, :1]
    if name == "body_com":
        return values + 0.05 * factors
    if name == "shape_scale":
        return values * np.float32(1.02)
    if name == "joint_limit_lower":
        return values + np.float32(0.004) * factors
    if name == "joint_limit_upper":
        return np.minimum(values, factors)
    return np.where(values > 0.0, values * factors, 0.0 if name == "joint_friction" else 0.01 * factors)


def assert_same_state(one, other):
    for name in STATE_ARRAYS:
        np.testing.assert_array_equal(getattr(one, name).flat(), getattr(other, name).flat(), err_msg=name)
    np.testing.assert_array_equal(one.iterations, other.iterations)


def copy_motion(source, target):
    for name in ("joint_q", "joint_qd"):
        getattr(target, name)[...] = getattr(source, name)
    target.update_bodies()


@pytest.fixture(scope="module")
def started():
    """A simulation on its way, its state there, and where it is 30 steps later if nothing changes."""
    sim = simulate(robots())
    sim.step(10)
    start = sim.get_state()
    sim.step(30)
    return sim, start, sim.joint_q.numpy().copy()


@pytest.mark.parametrize("name", [*PARAMETERS, "ground_mu", "gravity"])
def test_a_change_of_some_worlds_is_that_of_a_simulation_built_with_it(name, started, rng):
    """Bitwise; other worlds go on as before; graphs stay; and there is something to see."""
    sim, start, end = started
    sim.set_state(start)
    graphs = [shard.run for shard in sim.shards]
    view = getattr(sim, name)
    values = view.numpy().copy()
    values[CHOSEN] = other_values(name, values, rng)[CHOSEN]
    view.assign(values, CHOSEN)
    np.testing.assert_array_equal(view.numpy(), values)
    sim.step(30)
    assert [shard.run for shard in sim.shards] == graphs
    np.testing.assert_array_equal(sim.joint_q.numpy()[~CHOSEN], end[~CHOSEN])
    assert (sim.joint_q.numpy()[CHOSEN] != end[CHOSEN]).any(axis=1).all(), "nothing changed"
    if name == "ground_mu":
        return  # no model has it; see below
    model = robots()
    attribute = PARAMETERS[name].attribute if name in PARAMETERS else name
    array = model_array(model, attribute) if attribute != "sap:shape_material_tau" else None
    fresh = None
    if array is None:  # made by the simulation
        fresh = simulate(model)
        array = model_array(model, attribute)
    target = array.numpy()
    values = values.reshape(-1, *target.shape[1:])
    target[: len(values)] = values  # what belongs to no world comes behind
    fresh = simulate(model) if fresh is None else fresh
    sim.set_state(start)
    view.assign(values)
    copy_motion(sim, fresh)
    sim.step(30)
    fresh.step(30)
    assert_same_state(sim, fresh)


def test_threads_need_no_notification(rng):
    """All parameters at once, with one and two threads."""
    sims = [simulate(robots(), threads) for threads in (1, 2)]
    for round_ in range(2):
        for sim in sims:
            sim.step(7)
        for name in [*PARAMETERS, "ground_mu"]:
            values = other_values(name, getattr(sims[0], name).numpy(), rng)
            for sim in sims:
                getattr(sim, name).assign(values, CHOSEN if round_ else None)
        for sim in sims:
            sim.step(20)
        assert_same_state(*sims)


def test_ground_friction_of_a_world_is_that_of_a_ground_with_it():
    """Each world as if its ground had that friction for all; the ground of the others stays as it is."""
    frictions = np.array([[0.0], [0.05], [0.3], [1.0]], np.float32)
    for threads in (1, 2):
        sim = simulate(robots(), threads)
        assert sim.ground_mu.shape == (WORLDS, 1)
        sim.ground_mu[...] = frictions
        sim.step(60)
        for world, mu in enumerate(frictions[:, 0]):
            model = robots()
            model.shape_material_mu.numpy()[-1] = mu
            other = simulate(model)
            other.step(60)
            np.testing.assert_array_equal(sim.joint_q.numpy()[world], other.joint_q.numpy()[world])
    x = sim.joint_q.numpy()[:, 0]
    assert (np.diff(x) < 0.0).all(), "more friction, less way"


def test_without_its_own_friction_a_world_has_the_ground_of_the_model():
    """As before: what is written into the model acts."""
    sim, other = simulate(robots()), simulate(robots())
    sim.step(5)
    sim.model.shape_material_mu.numpy()[-1] = 0.05
    sim.step(30)
    other.step(5)
    other.ground_mu[...] = 0.05
    other.step(30)
    assert_same_state(sim, other)


@pytest.mark.filterwarnings("ignore:.*shape pairs have an ellipsoid")  # none of them meets
def test_bounds_follow_sizes():
    """Newton's bounds of every simple shape are those of a model that was built with the size."""

    def shapes(factor):
        builder = new_builder()
        sizes = {"sphere": ("radius",), "box": ("hx", "hy", "hz"), "ellipsoid": ("rx", "ry", "rz")}
        sizes |= dict.fromkeys(("capsule", "cylinder", "cone"), ("radius", "half_height"))
        for i, (kind, names) in enumerate(sizes.items()):
            body = builder.add_body(xform=wp.transform((3.0 * i, 0.0, 2.0), wp.quat_identity()), mass=1.0)
            given = {name: factor * (0.1 + 0.05 * k) for k, name in enumerate(names)}
            getattr(builder, f"add_shape_{kind}")(body, **given)
        scene = new_builder()
        scene.replicate(builder, 2)
        return scene.finalize(device="cpu")

    sim, other = Simulation(shapes(1.0), dt=0.01, notes=False), shapes(2.0)
    before = sim.model.shape_collision_radius.numpy()[:6].copy()
    sim.shape_scale[1] *= 2.0
    for name in ("shape_collision_radius", "shape_collision_aabb_lower", "shape_collision_aabb_upper"):
        found, expected = getattr(sim.model, name).numpy(), getattr(other, name).numpy()
        np.testing.assert_allclose(found[6:], expected[6:], rtol=1e-6, err_msg=name)
    np.testing.assert_array_equal(sim.model.shape_collision_radius.numpy()[:6], before)


def test_a_body_without_mass_finds_the_heaviest_that_carries_it(rng):
    """Masses of two links that a fixed joint connects with one without: which of them is heavier changes."""

    def model():
        one, scene = new_builder(), new_builder()
        bodies = chain(one, ("free", 1, 0), ("fixed", 0, 0), ("fixed", 2, 0))
        for body in bodies:
            one.add_shape_box(body, hx=0.05, hy=0.05, hz=0.05, cfg=newton.ModelBuilder.ShapeConfig(density=0.0))
        scene.replicate(one, 2)
        scene.add_ground_plane()
        return scene.finalize(device="cpu")

    sim, changed = simulate(model()), model()
    sim.body_mass[1, [0, 2]] = [3.0, 1.0]
    changed.body_mass.numpy()[[3, 5]] = 3.0, 1.0
    other = simulate(changed)
    for each in (sim, other):
        each.step(150)
    assert sim.contact_counts.sum() > 0
    assert_same_state(sim, other)


def test_newtons_inverse_masses_follow():
    sim = simulate(robots())
    sim.body_mass[1] *= 2.0
    sim.body_inertia[1] *= 4.0
    model = sim.model
    np.testing.assert_allclose(model.body_inv_mass.numpy(), 1.0 / model.body_mass.numpy(), rtol=1e-6)
    found = model.body_inv_inertia.numpy() @ model.body_inertia.numpy()
    np.testing.assert_allclose(found, np.broadcast_to(np.eye(3), found.shape), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("body_mass", 0.0, "positive, or stay zero"),
        ("body_mass", np.nan, "positive"),
        ("body_inertia", 0.0, "symmetric and positive definite"),
        ("shape_mu", np.inf, "finite"),
        ("joint_armature", -1.0, "finite and not negative"),
        ("joint_limit_lower", np.nan, "a number"),
        ("joint_friction", 0.5, "zero on free and distance joints"),
        ("ground_mu", -0.1, "not negative"),
        ("shape_scale", 0.0, "positive where it is so"),
    ],
)
def test_a_number_that_cannot_be_is_refused_and_changes_nothing(name, value, rule, started):
    sim, start, end = started
    sim.set_state(start)
    before = getattr(sim, name).numpy().copy()
    with pytest.raises(
        ValueError, match=rf"(?s){name} has to be .*{rule}.*: that of world 2, column 0 would be .*changed"
    ):
        getattr(sim, name)[2] = value
    np.testing.assert_array_equal(getattr(sim, name).numpy(), before)
    sim.step(30)
    np.testing.assert_array_equal(sim.joint_q.numpy(), end)


def test_host_arrays_are_read_only_and_other_memory_is_taken_on_demand(started):
    sim, start, _ = started
    sim.set_state(start)
    with pytest.raises(ValueError, match="read-only"):
        sim.body_mass.numpy()[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        sim.body_mass[:, 0].numpy()[0] = 1.0
    twin = simulate(robots())
    twin.set_state(start)
    for name in MASSES:
        getattr(sim, name).warp().numpy()[...] *= 1.5
    sim.take_parameters(*MASSES)
    for name in MASSES:
        getattr(twin, name)[...] = getattr(sim, name)
    for each in (sim, twin):
        each.step(20)
    assert_same_state(sim, twin)
    with pytest.raises(ValueError, match="'body_maß' is no parameter of this simulation; there are ground_mu"):
        sim.take_parameters("body_maß")


def test_parameters_by_name_and_in_checkpoints(tmp_path):
    """The views have the names of bodies, shapes and dofs; what they changed is in a checkpoint, the ground too."""
    sim = Simulation.from_scene("ant", num_worlds=3)
    sim.body_mass["torso"] = [[3.0], [4.0], [5.0]] if sim.body_mass["torso"].ndim == 2 else [3.0, 4.0, 5.0]
    sim.joint_damping["*hip*"] *= 2.0
    sim.ground_mu[1] = 0.1
    sim.step(30)
    sim.save(tmp_path / "ants.npz")
    other = Simulation.load(tmp_path / "ants.npz", threads=2)
    np.testing.assert_array_equal(other.body_mass.numpy(), sim.body_mass.numpy())
    np.testing.assert_array_equal(other.ground_mu.numpy(), sim.ground_mu.numpy())
    for each in (sim, other):
        each.step(50)
        each.body_mass[0] *= 1.1
        each.step(10)
    assert_same_state(sim, other)


def test_a_model_of_one_world_has_no_ground_of_its_own():
    model = newton.ModelBuilder()
    model.add_ground_plane()
    model.add_shape_box(model.add_body(xform=wp.transform((0, 0, 1), wp.quat_identity())))
    sim = Simulation(model.finalize(device="cpu"), dt=0.01, notes=False)
    assert sim.shape_mu.shape == (1, 2)
    with pytest.raises(AttributeError, match="no ground_mu"):
        _ = sim.ground_mu


def test_new_arrays_of_the_model_are_seen():
    sim = make_sim("cube")
    sim.model.body_mass = wp.clone(sim.model.body_mass)
    sim.notify_model_changed()
    sim.body_mass[...] = 3.0
    assert (sim.model.body_mass.numpy() == 3.0).all()
