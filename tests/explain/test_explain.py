"""`explain_contact`: names, sources and combined values, why a pair never collides, and predictions that come true."""

import json
import math
from dataclasses import replace

import newton
import numpy as np
import pytest
import warp as wp

import sap_warp
from sap_warp import SapOptions, cli, explain_contact
from sap_warp.judge.explain import FROM_MODEL, FROM_MODEL_DEFAULT, ShapeLookupError, find_shape
from sap_warp.judge.explain.pair import _Pair
from sap_warp.model.model import register_tau
from sap_warp.scene.shipped.scenes import build_scene
from sap_warp.solver.settings.options import APPROX64, CONTACT_WEIGHT_MODES, DRAKE
from tests.support.massless import CHAINS, box_on_massless_link
from tests.support.scenes import TAU, G, Stepper, add_ball, add_box, box_on_ground, builder, material, tilted

H = 0.005


def ball_on_ground(k, mass=2.0, radius=0.1, margin=0.0):
    b = builder()
    cfg = material(k)
    cfg.margin = margin
    b.add_ground_plane(cfg=cfg)
    add_ball(b, (0.0, 0.0, radius + 2.0 * margin), mass, radius, cfg)
    return b.finalize(device="cpu")


def labelled():
    """Two boxes with paths for labels in each of two worlds, one plane for all."""
    world = builder()
    for name in ("left", "right"):
        body = world.add_body(label=f"robot/{name}_leg")
        for part in ("shin", f"{name}_sole"):
            world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, label=f"robot/{name}_leg/{part}")
    world.add_shape_sphere(world.add_body(label="toys/ball"), radius=0.1)
    b = builder()
    b.replicate(world, 2)
    b.add_ground_plane()
    return b.finalize(device="cpu")


# --- names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, shape",
    [
        (3, 3),
        (np.int32(3), 3),
        ("3", 3),
        ("robot/left_leg/shin", 0),
        ("left_sole", 1),
        ("left_leg/shin", 0),
        ("ball", 4),
        ("toys/ball", 4),
        ("right_so", 3),
        ("ground", 10),
    ],
)
def test_shapes_are_found_by_index_label_end_body_and_part(name, shape):
    """Copies of a shape in other worlds do not make a name ambiguous."""
    assert find_shape(labelled(), name) == shape


def test_the_partner_is_looked_up_in_the_same_world():
    model = labelled()
    assert find_shape(model, "right_sole", beside=6) == 8
    explanation = explain_contact(model, 6, "right_sole", dt=H)
    assert (explanation.shape_a.world, explanation.shape_b.world) == (1, 1)


@pytest.mark.parametrize(
    "name, message",
    [
        ("shin", r"'shin' fits 4 shapes: 0 'robot/left_leg/shin' of world 0, 2 'robot/right_leg/shin' of world 0"),
        ("left_leg", r"'left_leg' fits 4 shapes"),
        ("sole", r"'sole' fits 4 shapes"),
        ("left_soul", r"there is no shape 'left_soul'\. Did you mean 'left_sole'"),
        ("xyz", r"there is no shape 'xyz'\. Shapes: robot/left_leg/shin, .*ground_plane\."),
        (11, r"there is no shape 11; the model has 11"),
        (-1, r"there is no shape -1"),
        (True, r"there is no shape True"),
        (1.0, r"there is no shape 1.0"),
    ],
)
def test_names_that_mean_nothing_or_too_much_are_refused(name, message):
    with pytest.raises(ShapeLookupError, match=message):
        find_shape(labelled(), name)


def test_arguments_are_checked():
    model = labelled()
    with pytest.raises(ShapeLookupError, match="are the same shape"):
        explain_contact(model, "ball", 4, dt=H)
    for dt in (0.0, -1.0, math.nan, True, "fast"):
        with pytest.raises(ValueError, match="dt is"):
            explain_contact(model, 0, 10, dt=dt)
    with pytest.raises(ValueError, match="contacts is 0"):
        explain_contact(model, 0, 10, dt=H, contacts=0)
    with pytest.raises(TypeError, match="options is a str"):
        explain_contact(model, 0, 10, dt=H, options="drake")


# --- values and their sources ----------------------------------------------------------------------------------


def unset_pair():
    """Shape 0 is complete, shape 1 leaves ke, tau and mu to the solver."""
    b = builder()
    register_tau(b)
    cfg = newton.ModelBuilder.ShapeConfig
    plane = cfg(ke=3e3, mu=0.9, margin=0.001, gap=0.003)
    b.add_shape_plane(cfg=plane, custom_attributes={"sap:shape_material_tau": 0.05})
    add_box(b, (0.0, 0.0, 0.1), cfg=cfg(ke=0.0, mu=-1.0, gap=0.001, density=0.0))
    return b.finalize(device="cpu")


def test_values_combine_as_in_the_solver():
    """Series stiffness, summed tau, harmonic mu, with the solver's fallbacks: the numbers of the solver's own rows."""
    model = unset_pair()
    options = {"contact_tau_d": 0.03, "fallback_mu": 0.3, "fallback_stiffness": 1e3}
    sim = Stepper(model, H, **options)
    explanation = explain_contact(sim.solver.sap_model, 0, 1, dt=H, options=sim.solver)
    assert explanation.k == pytest.approx(750.0)
    assert explanation.tau == pytest.approx(0.08)
    assert explanation.mu == pytest.approx(2.0 * 0.9 * 0.3 / 1.2)
    assert explanation.margin == pytest.approx(0.001)
    assert explanation.gap == pytest.approx(0.004)
    sim.step()
    rows = sim.rows()
    np.testing.assert_allclose(rows["mu"], explanation.mu, rtol=1e-12)
    np.testing.assert_allclose(rows["Rn"], explanation.R_n, rtol=1e-12)
    np.testing.assert_allclose(rows["weight"], explanation.weight, rtol=1e-5)
    np.testing.assert_allclose(rows["Rt"], explanation.R_t, rtol=1e-5)
    assert explanation == explain_contact(model, 0, 1, dt=H, options=replace(APPROX64, **options))


def test_sources_say_what_is_known_and_no_more():
    explanation = explain_contact(unset_pair(), 0, 1, dt=H, provenance={(0, "ke"): "asset", (1, "ke"): "asset"})
    plane, box = explanation.shape_a, explanation.shape_b
    assert plane.ke.source == "asset"
    assert plane.tau.source == plane.mu.source == plane.margin.source == plane.gap.source == FROM_MODEL
    assert plane.group.source == box.margin.source == FROM_MODEL_DEFAULT
    assert box.ke.source == "solver default (fallback_stiffness)", "an unset value has no other source"
    assert (box.ke.value, box.ke.stored) == (SapOptions().fallback_stiffness, 0.0)
    assert box.tau.source == "solver default (contact_tau_d)" and box.tau.stored < 0.0
    assert box.mu.source == "solver default (fallback_mu)"


def test_newton_defaults_are_recognized_and_a_model_without_tau_is_left_alone():
    b = builder()
    b.add_ground_plane()
    b.add_shape_sphere(b.add_body(), radius=0.1)
    model = b.finalize(device="cpu")
    explanation = explain_contact(model, 0, 1, dt=H)
    for side in (explanation.shape_a, explanation.shape_b):
        assert side.tau.source == "solver default (contact_tau_d)"
        assert {getattr(side, name).source for name in ("ke", "mu", "margin", "gap", "group")} == {FROM_MODEL_DEFAULT}
    assert not hasattr(model, "sap")
    assert explanation.shape_b.can_move and not explanation.shape_a.can_move
    assert "COLLIDE_SHAPES" in explanation.shape_b.flags


# --- who collides ----------------------------------------------------------------------------------------------


def obstacle_model():
    b = builder()
    cfg = newton.ModelBuilder.ShapeConfig
    first, second = b.add_body(label="first"), b.add_body(label="second")
    for body, label, options in (
        (-1, "wall", {}),
        (-1, "other wall", {}),
        (first, "one", {}),
        (first, "two", {}),
        (second, "zero group", {"collision_group": 0}),
        (second, "group 2", {"collision_group": 2}),
        (second, "group -2", {"collision_group": -2}),
        (second, "visual", {"has_shape_collision": False}),
        (second, "plain", {}),
        (second, "filtered", {}),
    ):
        b.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, cfg=cfg(**options), label=label)
    b.add_shape_collision_filter_pair(2, 9)
    return b.finalize(device="cpu")


NEVER = {
    ("wall", "other wall"): "both shapes are fixed to the world",
    ("one", "two"): "both shapes are on the body 'first'",
    ("one", "zero group"): "collision group 0 never collides",
    ("one", "group 2"): "collision groups 1 and 2 do not collide",
    ("one", "visual"): "B is without the flag COLLIDE_SHAPES",
    ("one", "filtered"): "the pair is filtered",
}


@pytest.mark.parametrize(("pair", "reason"), NEVER.items())
def test_the_reason_why_a_pair_never_collides_is_named(pair, reason):
    explanation = explain_contact(obstacle_model(), *pair, dt=H)
    assert not explanation.can_collide
    assert any(reason in text for text in explanation.obstacles)
    assert reason in str(explanation)


def test_verdicts_agree_with_the_pairs_that_newton_tests():
    """All pairs of both models, worlds included."""
    for model in (obstacle_model(), labelled(), build_scene("humanoid", 1, "cpu")[0]):
        tested = {tuple(pair) for pair in model.shape_contact_pairs.numpy().tolist()}
        for a in range(model.shape_count):
            for b in range(a + 1, model.shape_count):
                explanation = explain_contact(model, a, b, dt=H)
                assert explanation.can_collide == ((a, b) in tested), (a, b, explanation.obstacles)


def test_different_worlds_and_welded_bodies_do_not_meet():
    assert "different worlds, 0 and 1" in explain_contact(labelled(), 0, 7, dt=H).obstacles[0]
    b = builder()
    add_box(b, (0.0, 0.0, 1.0))
    welded = b.add_link(mass=1.0)
    b.add_articulation([b.add_joint_fixed(-1, welded)])
    b.add_shape_sphere(welded, radius=0.1)
    b.add_ground_plane()
    explanation = explain_contact(b.finalize(device="cpu"), 1, 2, dt=H)
    assert explanation.obstacles[0] == "neither side can move"
    assert explanation.weight is None and explanation.resting_depth() is None and explanation.regime is None


def test_a_pair_changed_after_the_build_is_pointed_out():
    model = obstacle_model()
    model.shape_collision_group.fill_(1)
    explanation = explain_contact(model, "one", "group 2", dt=H)
    assert explanation.can_collide
    assert any("'explicit' skips it" in note for note in explanation.notes)


# --- the regime ------------------------------------------------------------------------------------------------


def test_the_bounds_of_the_regime_are_where_it_changes():
    """At the stated stiffness, and at the stated dt, both terms of R_n are equal; on either side one of them wins."""
    explanation = explain_contact(ball_on_ground(1e6), 0, 1, dt=H)
    assert explanation.regime == "near-rigid"
    assert explanation.effective_stiffness == pytest.approx(explanation.largest_compliant_k)
    assert explanation.weight == pytest.approx((1.0 + 5.0 / 3.0) / 2.0, rel=1e-6), "a ball: 1/m + 2/3 r^2/(2/5 m r^2)"
    for factor, regime in ((0.999, "compliant"), (1.001, "near-rigid")):
        softer = ball_on_ground(factor * explanation.largest_compliant_k)
        assert explain_contact(softer, 0, 1, dt=H).regime == regime
        assert explain_contact(ball_on_ground(1e6), 0, 1, dt=factor * explanation.largest_compliant_dt).regime == regime
    never = explain_contact(ball_on_ground(1e6), 0, 1, dt=H, options=SapOptions(contact_beta=0.0))
    assert never.regime == "compliant" and math.isinf(never.largest_compliant_k) and "inf" in str(never)


TURNED = wp.quat_from_axis_angle(wp.normalize(wp.vec3(1.0, 2.0, -0.5)), 0.7)
GEOMETRIES = {
    "sphere": {"radius": 0.1},
    "box": {"hx": 0.1, "hy": 0.15, "hz": 0.05},
    "capsule": {"radius": 0.1, "half_height": 0.15},
    "cylinder": {"radius": 0.1, "half_height": 0.15},
    "cone": {"radius": 0.1, "half_height": 0.15},
    "ellipsoid": {"rx": 0.1, "ry": 0.15, "rz": 0.05},
    "mesh": {"mesh": newton.Mesh.create_box(0.1, 0.15, 0.05, compute_inertia=False)},
    "convex_hull": {"mesh": newton.Mesh.create_box(0.1, 0.15, 0.05, compute_inertia=False)},
}


def turned(kind, height):
    """A free body whose shape, centre of mass and principal axes are all off its own frame, above a plane."""
    b = builder()
    b.add_ground_plane(cfg=material(gap=0.001))
    body = b.add_body(
        xform=wp.transform(wp.vec3(0.3, 0.2, height), TURNED),
        mass=2.0,
        inertia=wp.mat33(0.02, 0.001, 0.0, 0.001, 0.03, 0.0, 0.0, 0.0, 0.04),
        com=wp.vec3(0.01, 0.02, -0.01),
        lock_inertia=True,
    )
    at = wp.transform(wp.vec3(0.02, -0.03, 0.01), wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), 0.4))
    getattr(b, f"add_shape_{kind}")(body, xform=at, cfg=material(gap=0.001), **GEOMETRIES[kind])
    return b.finalize(device="cpu")


@pytest.mark.parametrize(
    "kind, mode",
    [*((kind, "body_inertia") for kind in GEOMETRIES), *(("box", mode) for mode in CONTACT_WEIGHT_MODES[1:])],
)
def test_the_weight_is_the_solvers(kind, mode):
    """The lowest point of a geometry, and w there in every mode, agree with the deepest row of a step."""
    down = np.array([0.0, 0.0, -1.0])
    lowest = _Pair(turned(kind, 1.0), (0, 1), H, SapOptions(), {})._touching_point(1, down, 0.0)
    model = turned(kind, 1.0 - lowest[2])  # just touches
    sim = Stepper(model, H, contact_weight_mode=mode)
    sim.step()
    rows = sim.rows()
    deepest = np.argmin(rows["phi0"])
    assert rows["phi0"][deepest] == pytest.approx(0.0, abs=1e-5)
    explanation = explain_contact(model, 0, 1, dt=H, options=sim.solver)
    assert explanation.weight_mode == mode
    assert rows["weight"][deepest] == pytest.approx(explanation.weight, rel=1e-3)


@pytest.mark.parametrize("mode", CONTACT_WEIGHT_MODES)
@pytest.mark.parametrize("name", CHAINS)
def test_links_without_mass_are_explained(name, mode):
    """The weight of such a link is the solver's, or a note says what it is an estimate of; nothing fails."""
    model, foot = box_on_massless_link(name)
    explanation = explain_contact(model, 1, 0, dt=H, options=replace(APPROX64, contact_weight_mode=mode))
    assert explanation.weight > 0.0 and str(explanation)
    if mode == "body_inertia":
        assert any("no mass" in note or "has mass" in note for note in explanation.notes)
    if mode != "body_inertia" or CHAINS[name][1][foot] >= 0:
        weights = Stepper(model, H, contact_weight_mode=mode).step().rows()["weight"]
        assert len(weights) == 4 and np.abs(weights / explanation.weight - 1.0).min() < 1e-3


@pytest.mark.parametrize("mode", CONTACT_WEIGHT_MODES[1:])
def test_the_weight_of_a_jointed_link_is_the_solvers(mode):
    """A ball at the end of two hinges with armature and damping, where a free ball would count a hundred times more."""
    b = builder()
    links = [
        b.add_link(mass=m, inertia=wp.mat33(*(0.02 * m * np.eye(3)).ravel()), lock_inertia=True) for m in (3, 0.02)
    ]
    at = wp.transform((0.5, 0.0, 0.0))
    b.add_articulation(
        [
            b.add_joint_revolute(
                -1, links[0], axis=newton.Axis.Y, parent_xform=wp.transform((0, 0, 0.0999)), damping=2.0
            ),
            b.add_joint_revolute(links[0], links[1], axis=newton.Axis.Y, parent_xform=at, armature=0.1),
        ]
    )
    b.add_shape_sphere(links[1], xform=wp.transform((0.3, 0.1, 0.0)), radius=0.1, cfg=material(gap=0.01))
    b.add_ground_plane(cfg=material(gap=0.01))
    model = b.finalize(device="cpu")
    newton.eval_fk(model, model.joint_q, model.joint_qd, model)
    explanation = explain_contact(model, 0, 1, dt=H, options=replace(APPROX64, contact_weight_mode=mode))
    rows = Stepper(model, H, contact_weight_mode=mode).step().rows()
    assert explanation.weight_mode == mode
    assert rows["weight"] == pytest.approx([explanation.weight], rel=1e-3)
    free = explain_contact(model, 0, 1, dt=H)
    assert free.weight > 10.0 * explanation.weight


def test_the_friction_of_the_ground_is_that_of_the_world():
    """`ground_mu` wins over the shape's own, in its world."""
    b = builder()
    world = builder()
    add_ball(world, (0.0, 0.0, 0.1), cfg=material(mu=0.8))
    b.replicate(world, 2)
    b.add_ground_plane(cfg=material(mu=0.5))
    sim = sap_warp.Simulation(b.finalize(device="cpu"), dt=H, notes=False)
    solver = sim.shards[0].solver
    ball = find_shape(sim.model, 1)
    before = explain_contact(sim.model, ball, 2, dt=H, options=solver)
    assert before.mu == pytest.approx(2.0 * 0.8 * 0.5 / 1.3)
    sim.ground_mu.assign(np.array([[0.3], [0.2]], np.float32))
    after = explain_contact(sim.model, ball, 2, dt=H, options=solver)
    assert after.mu == pytest.approx(2.0 * 0.8 * 0.2 / 1.0)
    assert after.shape_b.mu.source == "ground_mu of world 1"


# --- predictions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k, regime", [(1e3, "compliant"), (1e6, "near-rigid")])
@pytest.mark.parametrize("margin", [0.0, 0.01])
def test_a_ball_rests_at_the_predicted_depth(k, regime, margin):
    model = ball_on_ground(k, margin=margin)
    sim = Stepper(model, H)
    explanation = explain_contact(model, 1, 0, dt=H, options=sim.solver)
    assert explanation.regime == regime and explanation.contacts == 1
    sim.run(2.0)
    assert 0.1 + 2.0 * margin - sim.position[0, 2] == pytest.approx(explanation.resting_depth(), rel=1e-3, abs=1e-7)


@pytest.mark.parametrize("k, regime", [(1e3, "compliant"), (1e6, "near-rigid")])
def test_a_box_rests_at_the_predicted_depth(k, regime):
    model = box_on_ground(k, mass=2.0)
    sim = Stepper(model, H)
    explanation = explain_contact(model, "ground_plane", 1, dt=H, options=sim.solver)
    assert explanation.regime == regime and explanation.contacts == 4
    sim.run(2.0)
    assert 0.1 - sim.position[0, 2] == pytest.approx(explanation.resting_depth(), rel=0.01)
    assert explanation.resting_depth(1) == pytest.approx(4.0 * explanation.resting_depth())


def test_a_box_on_a_slope_creeps_at_the_predicted_speed():
    """Half the friction cone is a slope of half the coefficient; gravity along the plane's normal is less there."""
    angle = math.atan(0.25)
    model = box_on_ground(mu=0.5, gap=0.05, half=(0.1, 0.1, 0.02), gravity=tilted(angle))
    sim = Stepper(model, H)
    explanation = explain_contact(model, 0, 1, dt=H, options=sim.solver)
    assert explanation.gravity == pytest.approx(G * math.cos(angle), rel=1e-6)
    sim.run(1.0)
    start = sim.position[0, 0]
    sim.run(1.0)
    assert sim.position[0, 0] - start == pytest.approx(explanation.slip_speed(), rel=0.05)


def test_a_sliding_box_floats_at_the_gliding_gap():
    """On a slope of exactly the friction angle it keeps its speed, above the plane by (h + tau) mu v less its depth."""
    model = box_on_ground(mu=0.3, gap=0.05, half=(0.1, 0.1, 0.01), gravity=tilted(math.atan(0.3)))
    sim = Stepper(model, H)
    explanation = explain_contact(model, 0, 1, dt=H, options=sim.solver)
    sim.set(qd=[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]).run(1.0)
    height = sim.position[0, 2] - 0.01
    assert height == pytest.approx(explanation.gliding_gap(sim.qd[0]) - explanation.resting_depth(), rel=0.05)
    assert explanation.gliding_gap() == pytest.approx((H + TAU) * 0.3)
    assert explanation.recommended_gap() == explanation.gliding_gap() < explanation.gap


def test_a_box_on_a_box_carries_its_own_weight():
    """Both sides enter w, the upper one is the load, whichever is named first."""
    b = builder()
    b.add_ground_plane(cfg=material(gap=0.001))
    add_box(b, (0.0, 0.0, 0.1), mass=3.0, cfg=material(gap=0.001))
    add_box(b, (0.0, 0.0, 0.3), mass=1.0, cfg=material(gap=0.001))
    model = b.finalize(device="cpu")
    sim = Stepper(model, H)
    upper, lower = (explain_contact(model, *pair, dt=H, options=sim.solver) for pair in ((2, 1), (1, 2)))
    assert upper.load_mass == lower.load_mass == 1.0
    assert upper.weight == pytest.approx(lower.weight) == pytest.approx(4.0 * (1.0 + 1.0 / 3.0), rel=1e-5)
    sim.run(2.0)
    depth = 0.2 - (sim.position[1, 2] - sim.position[0, 2])
    assert depth == pytest.approx(upper.resting_depth(), rel=0.1)


def test_the_load_of_a_mechanism():
    """A floating robot stands with all its mass, a hanging link is taken alone, parts of one robot too."""
    humanoid, _ = build_scene("humanoid", 1, "cpu")
    foot = explain_contact(humanoid, "right_right_foot", "DEFAULT_GROUND", dt=H)
    assert foot.load_mass == pytest.approx(float(humanoid.body_mass.numpy().sum()), rel=1e-6)
    assert "all 13 bodies" in foot.load and foot.contacts == 2
    hands = explain_contact(humanoid, "right_hand", "left_hand", dt=H, options=DRAKE)
    assert "both shapes belong to one mechanism" in hands.load
    assert hands.weight_mode == "diag_delassus" and 0.0 < hands.weight < 2.0 / humanoid.body_mass.numpy().min()
    pendulum, _ = build_scene("pendulum", 1, "cpu")
    link = explain_contact(pendulum, "lower", "DEFAULT_GROUND", dt=H)
    assert link.load_mass == pytest.approx(float(pendulum.body_mass.numpy()[1]))


# --- output ----------------------------------------------------------------------------------------------------


def test_text_and_dictionary_hold_the_same_and_survive_json():
    explanation = explain_contact(ball_on_ground(1e6), 0, 1, dt=H, source="a ball")
    text = str(explanation)
    assert text.splitlines() == explanation.lines()
    assert text.startswith("a ball: A = shape 0 'ground_plane'")
    for part in ("near-rigid", "in series", "compliance acts", "resting penetration", "gliding gap", "time constant"):
        assert part in text
    result = json.loads(json.dumps(explanation.as_dict(), allow_nan=False))
    assert result["regime"] == "near-rigid"
    assert result["resting_depth"] == result["resting_depth_1"] == explanation.resting_depth()
    assert result["shape_b"]["ke"] == {"value": 2e6, "stored": 2e6, "source": "model"}
    frictionless = explain_contact(box_on_ground(mu=0.0), 0, 1, dt=H)
    assert "no friction" in str(frictionless)
    assert json.loads(json.dumps(frictionless.as_dict(), allow_nan=False))["gap_speed"] is None


def run_command(capsys, *arguments):
    code = cli.main(["explain", *arguments])
    return code, *capsys.readouterr()


def test_the_command_prints_the_explanation_and_writes_it(tmp_path, capsys):
    target = tmp_path / "pair.json"
    options = ("--device", "cpu", "--dt", "0.05", "--preset", "drake", "--json", str(target))
    code, out, _ = run_command(capsys, "cube", "cube", "DEFAULT_GROUND", *options)
    assert code == 0
    model, scene = build_scene("cube", 1, "cpu")
    told = scene.provenance
    expected = explain_contact(model, 0, 1, dt=0.05, options=DRAKE, source="free_cube", provenance=told)
    assert out == f"{expected}\nwritten to {target}\n"
    assert json.loads(target.read_text()) == expected.as_dict()
    assert expected.regime == "near-rigid"


def test_shapes_may_stand_behind_options(capsys):
    """Wherever they stand, the answer is the same; what nobody knows is still refused."""
    code, out, _ = run_command(capsys, "cube", "--preset", "robot", "cube", "DEFAULT_GROUND")
    assert (code, out) == run_command(capsys, "cube", "cube", "DEFAULT_GROUND", "--preset", "robot")[:2]
    code, _, err = run_command(capsys, "cube", "--preset", "robot", "cube", "--nonsense")
    assert code == 2 and "unrecognized arguments" in err


def test_the_command_lists_shapes(capsys):
    code, out, _ = run_command(capsys, "pendulum", "--device", "cpu")
    assert code == 0
    assert [line.split() for line in out.splitlines()[2:]] == [
        ["0", "shape_0", "capsule", "upper"],
        ["1", "shape_1", "capsule", "lower"],
        ["2", "DEFAULT_GROUND", "plane", "(world)"],
    ]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["cubes", "cube", "DEFAULT_GROUND"], "Did you mean 'cube'"),
        (["cube", "cube"], "explain takes two shapes"),
        (["cube", "cube", "DEFAULT_GROND"], "Did you mean 'DEFAULT_GROUND'"),
        (["stack", "shape", "DEFAULT_GROUND"], "'shape' fits 10 shapes"),
        (["cube", "cube", "shape_0"], "are the same shape"),
        (["cube", "cube", "DEFAULT_GROUND", "--preset", "drake2"], "valid choices are approx32"),
        (["cube", "cube", "DEFAULT_GROUND", "--dt", "0"], "positive number of seconds"),
        (["cube", "--json", "x.json"], "needs two shapes"),
    ],
)
def test_mistakes_are_explained_in_one_line(capsys, arguments, message):
    code, out, err = run_command(capsys, *arguments)
    assert code == 2 and out == ""
    assert message in err and len(err.splitlines()) == 1


def test_public_name():
    assert sap_warp.explain_contact is explain_contact
