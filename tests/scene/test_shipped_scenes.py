"""Every scene in assets/yaml: it validates, and the ones that need no network run and do what they say."""

from __future__ import annotations

import functools
import importlib.util
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import newton
import numpy as np
import pytest
import yaml

from sap_warp import SapCollisionPipeline, SolverSAP
from sap_warp.scene import load_sap_scene, load_sap_scene_config
from sap_warp.scene.assets.sources.package import resolve_package
from sap_warp.scene.shipped.scenes import build_scene
from tests.support.scene_files import SINGLE_BOX

ASSETS = Path(__file__).parents[2] / "assets"
SCENES = sorted((ASSETS / "yaml").glob("*.yaml"))
NAMES = [path.stem for path in SCENES]

FETCHED = ["anymal_c_urdf", "anymal_d_usd", "unitree_g1_usd", "unitree_h1_usd"]
"""Scenes whose robot is in a git repository."""
STANDING = {"anymal_c": 0.02, "ant": 0.01, "unitree_g1": 0.01, "unitree_go2": 0.02}
"""Robots that stand, and by how much the base may sink or rise [m]."""
HOLDING = {"allegro_hand": 0.02, "panda": 0.02, "so101": 0.02, "ur10": 0.03}
"""Arms and hands that hold their pose, and by how much a joint may give way [rad or m]."""
MOVING = [
    "box_stack",
    "cartpole",
    "double_pendulum",
    "franka_pick_cube",
    "free_cube",
    "humanoid",
    "multi_joints",
    "spheres",
]
"""Scenes in which something falls, swings or is moved."""
OFFLINE = [*STANDING, *HOLDING, *MOVING]

WORLDS = 2
HEADROOM = 1.3
"""Capacity over the largest number of contacts that ever was."""


@dataclass(eq=False)
class Run:
    """What came of a simulation; arrays are of all worlds."""

    loaded: object
    start_q: np.ndarray
    start_bodies: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    bodies: np.ndarray
    peak: float
    truncated: int
    converged: bool
    history: np.ndarray
    """Body poses after every tenth of a second."""

    @property
    def joint_drift(self) -> np.ndarray:
        """Change of the coordinates of joints with one degree of freedom."""
        model = self.loaded.sap_model
        starts, kinds = model.joint_q_start.numpy(), model.joint_type.numpy()
        single = (newton.JointType.REVOLUTE, newton.JointType.PRISMATIC)
        entries = [int(start) for start, kind in zip(starts[:-1], kinds, strict=True) if kind in single]
        return (self.q - self.start_q)[entries]

    def body(self, label: str) -> int:
        """First body whose label ends like this."""
        return next(i for i, name in enumerate(self.loaded.body_labels) if name.split("/")[-1] == label)


def load_now(source):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Inertia validation corrected")  # the robots' files, not ours
        return load_sap_scene(source, num_worlds=WORLDS, device="cpu")


load = functools.cache(load_now)
"""A scene file, loaded once for all tests; its state belongs to `run`."""


def simulate(loaded, seconds) -> Run:
    model = loaded.sap_model
    solver = SolverSAP(model, **loaded.solver_options)
    pipeline = SapCollisionPipeline(loaded.collision_model, rigid_contact_max=loaded.rigid_contact_max)
    contacts = pipeline.contacts()
    state, following = loaded.sap_state, model.state()
    start_q, start_bodies = state.joint_q.numpy().copy(), state.body_q.numpy().copy()
    peak = truncated = 0
    converged, history = True, []
    for i in range(round(seconds / loaded.dt)):
        if loaded.control_sequence is not None:
            loaded.control_sequence.apply(loaded.sap_control, loaded.dt)
        pipeline.collide(state, contacts)
        solver.step(state, following, loaded.sap_control, contacts, loaded.dt)
        state, following = following, state
        peak = max(peak, int(solver.contact_jacobian.contact_count.numpy().max()))
        truncated += solver.last_truncated_contact_count
        converged &= solver.last_converged
        if i % round(0.1 / loaded.dt) == 0:
            history.append(state.body_q.numpy().copy())
    return Run(
        loaded,
        start_q,
        start_bodies,
        state.joint_q.numpy(),
        state.joint_qd.numpy(),
        state.body_q.numpy(),
        peak,
        truncated,
        converged,
        np.array(history),
    )


@functools.cache
def run(name: str) -> Run:
    """Simulate a scene once: its own duration, or four seconds."""
    path = ASSETS / "yaml" / f"{name}.yaml"
    return simulate(load(path), load(path).duration or 4.0)


def check_sound(result: Run) -> None:
    assert np.isfinite(result.q).all() and np.isfinite(result.qd).all()
    assert result.converged
    assert result.truncated == 0
    assert HEADROOM * result.peak <= result.loaded.max_rigid_contact
    one, other = np.split(result.q - result.start_q, WORLDS)
    np.testing.assert_allclose(one, other, atol=1e-4)  # worlds are alike, up to the round-off of their places


# What a file says


def test_every_scene_has_a_place_in_these_tests():
    assert sorted([*FETCHED, *OFFLINE]) == NAMES


def test_every_scene_is_in_the_documentation():
    text = (ASSETS.parent / "docs" / "scenes.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in text] == []


@pytest.mark.parametrize("path", SCENES, ids=NAMES)
def test_scene_validates_and_says_what_it_is(path):
    scene = load_sap_scene_config(path)
    assert scene.name == path.stem
    assert scene.description and "\n" not in scene.description and len(scene.description) < 120
    written = yaml.safe_load(path.read_text())["simulation"]
    assert {"dt", "max_rigid_contact", "solver"} <= set(written)
    assert {"contact_preset_variant", "line_search_variant"} <= set(written["solver"])
    assert "#" in path.read_text()  # some value is explained


@pytest.mark.parametrize("name", OFFLINE)
def test_scene_needs_nothing_unsupported(name):
    assert load(ASSETS / "yaml" / f"{name}.yaml").unsupported_features == []


def test_fetched_scenes_are_pinned_to_a_commit():
    for name in FETCHED:
        (asset,) = load_sap_scene_config(ASSETS / "yaml" / f"{name}.yaml").assets
        assert len(asset.source.git.rev) == 40 and int(asset.source.git.rev, 16)
        assert any(asset.source.git.path.startswith(folder + "/") for folder in asset.source.git.sparse)


# What a scene does


@pytest.mark.slow
@pytest.mark.parametrize("name", OFFLINE)
def test_scene_runs_without_trouble(name):
    check_sound(run(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", STANDING)
def test_robot_stays_up(name):
    result = run(name)
    assert abs(result.bodies[0, 2] - result.start_bodies[0, 2]) < STANDING[name]
    upright = 1.0 - 2.0 * (result.bodies[0, 3] ** 2 + result.bodies[0, 4] ** 2)  # z axis of the base along z
    assert upright > np.cos(0.05)
    assert np.linalg.norm(result.bodies[0, :2] - result.start_bodies[0, :2]) < 0.03
    assert np.abs(result.qd).max() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("name", HOLDING)
def test_arm_holds_its_pose(name):
    result = run(name)
    assert 1e-4 < np.abs(result.joint_drift).max() < HOLDING[name]  # drives carry the weight; nothing is locked
    assert np.abs(result.qd).max() < 1e-3


@pytest.mark.slow
def test_allegro_hand_keeps_the_cube():
    result = run("allegro_hand")
    cube = result.body("cube")
    assert np.linalg.norm(result.bodies[cube, :3] - result.start_bodies[cube, :3]) < 0.015


@pytest.mark.slow
def test_free_cube_comes_to_rest_on_a_face():
    result = run("free_cube")
    assert result.bodies[0, 2] == pytest.approx(0.1, abs=1e-3)
    assert np.abs(result.qd).max() < 1e-3


@pytest.mark.slow
def test_box_stack_stays():
    result = run("box_stack")
    moved = np.abs(result.bodies[:10, :3] - result.start_bodies[:10, :3])
    assert moved[:, :2].max() < 1e-4
    assert moved[:, 2].max() < 5e-3  # ten layers settle under their weight


@pytest.mark.slow
def test_cart_stays_in_the_middle_while_the_poles_fall():
    result = run("cartpole")
    assert abs(result.q[0]) < 0.2
    pole = result.history[:, result.body("pole2"), 2]
    assert pole[0] > 3.4 and pole.min() < 1.7


@pytest.mark.slow
def test_humanoid_falls_over_and_lies_down():
    result = run("humanoid")
    head = result.history[:, 0, 2]
    assert head[0] == pytest.approx(1.34, abs=0.01) and head[-1] < 0.4


def test_humanoid_scene_is_the_built_in_humanoid():
    loaded = load_sap_scene(ASSETS / "yaml" / "humanoid.yaml", device="cpu")
    model, scene = build_scene("humanoid", 1, "cpu")
    assert loaded.dt == scene.dt and loaded.max_rigid_contact == scene.max_rigid_contact
    names = [
        *("body_mass", "body_com", "body_inertia", "joint_q", "joint_armature", "joint_damping", "joint_X_p"),
        *("joint_limit_lower", "joint_limit_upper", "joint_target_mode", "joint_target_ke", "joint_target_kd"),
        *("shape_scale", "shape_transform", "shape_material_ke", "shape_material_mu", "shape_gap"),
    ]
    for name in names:
        np.testing.assert_array_equal(getattr(loaded.sap_model, name).numpy(), getattr(model, name).numpy(), name)
    np.testing.assert_array_equal(loaded.sap_model.sap.shape_material_tau.numpy(), model.sap.shape_material_tau.numpy())


@pytest.mark.slow
def test_multi_joints_lift_hinge_and_ball_end_where_they_should():
    result = run("multi_joints")
    lift, hinge = result.q[0], result.q[1]
    assert lift == pytest.approx(0.45, abs=0.02)  # the drive carries the weight with some sag
    assert hinge == pytest.approx(np.pi / 2, abs=0.05)  # hangs down
    assert result.bodies[result.body("ball"), 2] == pytest.approx(0.55, abs=1e-3)  # on the table
    np.testing.assert_allclose(result.bodies[0], result.start_bodies[0], atol=1e-6)  # the table is fixed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["franka_pick_cube"])
def test_franka_lifts_the_cube_and_holds_it(name):
    result = run(name)
    path = result.history[:, result.body("cube"), :3]
    assert path[0, 2] == pytest.approx(0.025, abs=1e-3)
    assert path[-1, 2] - path[0, 2] > 0.25
    assert np.linalg.norm(path[-1] - path[-10]) < 2e-3  # held for the last second
    sideways = np.abs(path[:, :2] - path[0, :2])
    assert sideways.max() < 0.01


def test_pick_sequence_is_what_its_script_writes(tmp_path, monkeypatch):
    script = ASSETS / "control" / "franka_pick_cube.py"
    spec = importlib.util.spec_from_file_location("franka_pick_cube", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "OUTPUT", tmp_path / "again.json")
    module.main()
    again, shipped = (yaml.safe_load(p.read_text()) for p in (module.OUTPUT, script.with_suffix(".json")))
    assert again["joint_labels"] == shipped["joint_labels"] and again["dt"] == shipped["dt"]
    np.testing.assert_allclose(again["joint_target_pos"], shipped["joint_target_pos"], atol=2e-5)


@pytest.mark.slow
def test_fetched_anymal_scene_runs_on_the_same_robot_from_a_package():
    """The robot of anymal_c_urdf.yaml, from a package: all that the scene does to it works without the network."""
    content = yaml.safe_load((ASSETS / "yaml" / "anymal_c_urdf.yaml").read_text())
    path = "robots/anymal_c_simple_description/urdf/anymal.urdf"
    content["assets"][0]["source"] = {"package": {"name": "example-robot-data", "path": path}}
    result = simulate(load_now(content), 4.0)
    check_sound(result)
    assert result.bodies[0, 2] > 0.45


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="urdf-usd-converter is for Python up to 3.12")
def test_fetched_g1_scene_runs_on_the_same_robot_converted_to_usd(tmp_path):
    """The robot of unitree_g1_usd.yaml, made from the URDF file in a package."""
    import urdf_usd_converter

    file = resolve_package("example-robot-data", "robots/g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf")
    packages = [{"name": "example-robot-data", "path": str(file.parents[3])}]
    converter = urdf_usd_converter.Converter(layer_structure=False, scene=False, ros_packages=packages)
    content = yaml.safe_load((ASSETS / "yaml" / "unitree_g1_usd.yaml").read_text())
    (asset,) = content["assets"]
    asset["source"] = str(converter.convert(str(file), str(tmp_path)).path)
    asset["floating"] = True  # the converter fixes the base
    asset["xform"]["p"][2] = 0.793  # its origin is the pelvis, not the ground
    result = simulate(load_now(content), 2.0)
    check_sound(result)
    assert result.loaded.sap_model.joint_dof_count == WORLDS * (6 + 43)
    assert abs(result.bodies[0, 2] - result.start_bodies[0, 2]) < 0.02


# The examples of the specification

HINGE_AND_PAYLOAD = """\
simulation:
  dt: 0.003
  num_worlds: 1
  max_rigid_contact: 48
  solver:
    contact_preset_variant: drake
    line_search_variant: armijo_decay

bodies:
  - id: link
    mass: 1.0
    inertia: [0.01, 0.01, 0.01]
    transform:
      p: [0.0, 0.0, 0.62]
      q:
        axis_angle:
          axis: [0.0, 0.0, 1.0]
          angle: pi * 0.5
  - id: payload
    transform:
      p: [0.0, 0.0, 1.0]
      q: identity
    shapes:
      - type: box
        hx: 0.2
        hy: 0.2
        hz: 0.2
        cfg:
          density: 500.0
          mu: 0.8
          gap: 0.004

joints:
  - id: hinge
    type: revolute
    parent: world
    child: link
    axis: [0.0, 0.0, 1.0]
    limit_lower: -1.57
    limit_upper: 1.57
  - id: box_free
    type: free
    parent: world
    child: payload

articulations:
  - id: hinge_articulation
    joints: [hinge]
  - id: box_articulation
    joints: [box_free]

initial_joint_q:
  - joint: hinge
    value: pi * 0.5
  - joint: box_free
    offset: 2
    value: 1.25

post_build:
  - op: set_array
    array: joint_q
    range: [1, 4]
    values: [0.0, 0.0, 0.67]

  - op: set_joint_targets
    range: head:1
    mode: position
    ke: 500.0
    kd: 10.0

  - op: set_joint_targets
    label_prefix: hin
    mode: position
    ke: 1000.0
    kd: 20.0

replicate:
  spacing: [2.0, 2.0, 0.0]
"""


def test_minimal_scene_of_the_specification_falls_onto_the_ground(tmp_path):
    path = tmp_path / "single_box.yaml"
    path.write_text(SINGLE_BOX)
    result = simulate(load_now(path), 1.0)
    check_sound(result)
    assert result.loaded.name == "single_box"
    mass, stiffness = 1.0 + 1000.0, 4 * 0.5e6  # its own and the shape's; four contacts, each in series with the ground
    assert result.loaded.sap_model.body_mass.numpy()[0] == pytest.approx(mass)
    assert result.bodies[0, 2] == pytest.approx(0.5 - mass * 9.81 / stiffness, abs=1e-4)


def test_snippets_of_the_specification_load_and_step(tmp_path):
    path = tmp_path / "snippets.yaml"
    path.write_text(HINGE_AND_PAYLOAD)
    loaded = load_sap_scene(path, num_worlds=4, device="cpu")
    model = loaded.sap_model
    assert model.joint_q.numpy()[0] == pytest.approx(np.pi / 2)
    np.testing.assert_allclose(model.joint_target_ke.numpy()[0], 1000.0)
    assert sorted(set(np.round(model.body_q.numpy()[1::2, 0], 3))) == [-1.0, 1.0]  # a centred grid of four worlds
    result = simulate(load_now(path), 0.3)
    check_sound(result)
    # The drive aims at zero; the payload, set to 0.67 m, falls to its half height of 0.2 m.
    assert result.q[0] < 0.5 and result.bodies[1, 2] < 0.5
