"""Copies of the authored world, the ground that they share, and what comes before what."""

import json

import newton
import numpy as np
import pytest

import sap_warp
from tests.support.scene_files import BOX, boxes, chain, load, package


def positions(loaded):
    return loaded.sap_state.body_q.numpy()[:, :3].tolist()


# Number of worlds


BOTH = {"simulation": {"num_worlds": 3}, "replicate": {"num_worlds": 3}}


@pytest.mark.parametrize("sections", [{"simulation": BOTH["simulation"]}, {"replicate": BOTH["replicate"]}, BOTH])
def test_worlds_are_whole_copies(sections):
    loaded = load(chain(**sections))
    model = loaded.sap_model
    assert (loaded.num_worlds, model.world_count) == (3, 3)
    assert loaded.body_labels == 3 * ["base", "arm", "hand"]
    assert loaded.joint_labels == 3 * ["base_free", "robot/left/hinge", "robot/right/slider"]
    assert model.body_world.numpy().tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert model.shape_world.numpy().tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, -1]
    assert model.articulation_label == 3 * ["base_free"]
    assert np.allclose(model.body_mass.numpy().reshape(3, 3), model.body_mass.numpy()[:3])


def test_the_argument_wins_over_the_scene():
    assert load(boxes(simulation={"num_worlds": 3}), num_worlds=2).sap_model.world_count == 2
    assert load(boxes(), num_worlds=4).sap_model.world_count == 4
    assert load(boxes(replicate={"num_worlds": 3}), num_worlds=1).sap_model.world_count == 1


def test_contact_capacity_is_per_world_and_the_buffer_is_for_all():
    scene = boxes(simulation={"num_worlds": 3, "max_rigid_contact": 48})
    loaded = load(scene)
    assert (loaded.max_rigid_contact, loaded.rigid_contact_max) == (48, 144)
    assert loaded.solver_options["max_rigid_contact"] == 48
    assert load(scene, rigid_contact_max=1000).rigid_contact_max == 1000
    assert load(scene, num_worlds=5).rigid_contact_max == 240
    one, many = load(boxes()), load(boxes(), num_worlds=7)
    assert many.max_rigid_contact == one.max_rigid_contact
    assert many.rigid_contact_max == 7 * one.max_rigid_contact


# Spacing


def spaced(spacing, count):
    return positions(load(boxes(replicate={"spacing": spacing}), num_worlds=count))


def test_one_axis_makes_a_line():
    for axis in range(2):
        spacing = [0, 0, 0]
        spacing[axis] = 2
        line = np.array(spaced(spacing, 4))
        assert np.allclose(line[:, axis], [-3, -1, 1, 3]) and np.allclose(np.delete(line, axis, 1), 0)


def test_two_axes_make_a_centred_grid():
    grid = np.array(spaced([2, 3, 0], 9))
    assert {(x, y) for x, y, _ in grid.tolist()} == {(2 * i, 3 * j) for i in (-1, 0, 1) for j in (-1, 0, 1)}
    assert np.allclose(grid.mean(axis=0), 0)
    assert np.allclose(grid[:, 2], 0)


def test_without_spacing_worlds_share_one_place():
    assert spaced([0, 0, 0], 3) == [[0, 0, 0]] * 3
    assert positions(load(boxes(), num_worlds=2)) == [[0, 0, 0]] * 2


def test_height_is_not_centred_so_that_no_world_sinks_into_the_ground():
    assert np.array(spaced([0, 0, 2], 3))[:, 2].tolist() == [0, 2, 4]


def test_spacing_moves_all_that_stands_in_the_world():
    scene = {
        "bodies": [{"id": "link", "shapes": [BOX]}, {"id": "box", "shapes": [BOX]}],
        "joints": [
            {"id": "hinge", "type": "revolute", "child": "link", "axis": "x", "parent_xform": {"p": [0, 0, 1]}},
            {"id": "free", "type": "free", "child": "box"},
        ],
        "post_build": [{"op": "add_shape", "shape": {**BOX, "label": "wall"}}],
        "replicate": {"num_worlds": 2, "spacing": [4, 0, 0]},
    }
    loaded = load(scene)
    assert positions(loaded) == [[-2, 0, 1], [-2, 0, 0], [2, 0, 1], [2, 0, 0]]
    walls = [i for i, label in enumerate(loaded.shape_labels) if label == "wall"]
    assert loaded.sap_model.shape_transform.numpy()[walls, 0].tolist() == [-2, 2]
    assert loaded.sap_model.shape_world.numpy()[walls].tolist() == [0, 1]
    assert loaded.sap_model.joint_q.numpy()[[1, 9]].tolist() == [-2, 2]


# The ground


def grounds(loaded):
    model = loaded.sap_model
    planes = np.flatnonzero(model.shape_type.numpy() == newton.GeoType.PLANE)
    return [
        (loaded.shape_labels[i], int(model.shape_world.numpy()[i]), int(model.shape_body.numpy()[i])) for i in planes
    ]


@pytest.mark.parametrize("ground", [True, {}, {"enabled": True}, None])
def test_there_is_one_shared_ground_by_default(ground):
    for scene in (boxes(), boxes(ground=ground)):
        assert grounds(load(scene, num_worlds=3)) == [("DEFAULT_GROUND", -1, -1)]
        assert grounds(load(scene)) == [("DEFAULT_GROUND", -1, -1)]


@pytest.mark.parametrize("ground", [False, {"enabled": False}, {"enabled": False, "label": "g", "mu": 0.5}])
def test_no_ground(ground):
    assert grounds(load(boxes(ground=ground))) == []


def test_settings_of_the_ground():
    fields = {
        "shape_ke": 2e5,
        "relaxation_time": 0.125,
        "mu": 0.25,
        "contact_margin": 0.5,
        "gap": 0.0625,
        "collision_group": -2,
    }
    loaded = load(boxes(ground={"label": "floor", "height": -1.5, **fields}))
    model = loaded.sap_model
    assert loaded.shape_labels[-1] == "floor"
    assert model.shape_transform.numpy()[-1][:3].tolist() == [0, 0, -1.5]
    assert (model.shape_material_ke.numpy()[-1], model.shape_material_tau.numpy()[-1]) == (2e5, 0.125)
    assert (model.shape_material_mu.numpy()[-1], model.shape_margin.numpy()[-1]) == (0.25, 0.5)
    assert (model.shape_gap.numpy()[-1], model.shape_collision_group.numpy()[-1]) == (0.0625, -2)
    for block in ("cfg", "shape", "physics"):
        assert load(boxes(ground={block: {"mu": 0.75}})).sap_model.shape_material_mu.numpy().tolist() == [1.0, 0.75]


def test_the_ground_takes_the_defaults_of_the_builder():
    shape = {"mu": 0.25, "tau": 0.125, "ke": 3e5, "margin": 0.0625}
    model = load(boxes(builder={"rigid_gap": 0.03125, "defaults": {"shape": shape}}), num_worlds=2).sap_model
    for name in ("shape_material_mu", "shape_material_tau", "shape_material_ke", "shape_margin", "shape_gap"):
        values = getattr(model, name).numpy()
        assert values[-1] == values[0] and len(set(values.tolist())) == 1


# Order


def test_edits_are_copied_into_every_world_and_spare_the_ground():
    operations = [
        {"op": "set_joint_targets", "joint": "hinge", "ke": 5},
        {"op": "set_joint_q", "joint": "hinge", "value": 0.5},
        {"op": "set_array", "array": "shape_margin", "range": "all", "value": 0.25},
        {"op": "set_array", "array": "shape_material_tau", "range": "all", "value": 0.125},
        {"op": "add_shape", "body": "hand", "shape": BOX},
        {"op": "set_attr", "attr": "gravity", "value": -2},
    ]
    loaded = load(chain(post_build=operations), num_worlds=2)
    model = loaded.sap_model
    assert model.joint_target_ke.numpy().tolist() == 2 * [0, 0, 0, 0, 0, 0, 5, 0]
    assert model.joint_q.numpy()[[7, 16]].tolist() == [0.5, 0.5]
    assert model.shape_margin.numpy().tolist() == 2 * [0.25, 0.25, 0.25, 0.0] + [0.0]
    assert model.shape_material_tau.numpy().tolist() == 2 * [0.125, 0.125, 0.125, -1.0] + [-1.0]
    assert model.gravity.numpy()[:2].tolist() == [[0, 0, -2]] * 2
    assert grounds(loaded) == [("DEFAULT_GROUND", -1, -1)]


def test_the_gap_of_shapes_that_are_added_later_is_that_of_the_ground_too():
    edit = {"op": "set_attr", "attr": "rigid_gap", "value": 0.25}
    assert load(boxes(post_build=[edit])).sap_model.shape_gap.numpy().tolist() == [np.float32(0.005), 0.25]


def test_indices_of_edits_count_one_world_and_no_ground():
    last = {"op": "set_array", "array": "shape_margin", "index": -1, "value": 0.5}
    model = load(boxes("a", "b", post_build=[last]), num_worlds=2).sap_model
    assert model.shape_margin.numpy().tolist() == [0, 0.5, 0, 0.5, 0]


def test_initial_positions_come_before_edits_and_assets_before_bodies():
    scene = chain(
        initial_joint_q=[{"joint": "hinge", "value": 0.25}, {"joint": "slider", "value": 0.5}],
        post_build=[
            {"op": "set_joint_q", "joint": "hinge", "value": 0.75},
            {"op": "copy_joint_q_to_joint_targets", "range": "from:7"},
        ],
    )
    assert load(scene).sap_model.joint_target_q.numpy()[7:].tolist() == [0.75, 0.5]
    scene = {**boxes(), "assets": [{"type": "urdf", "source": package("cartpole.urdf")}]}
    assert load(scene).body_labels[-1] == "box"


# Files, mappings and the result


def test_a_file_and_a_mapping_give_the_same_model(tmp_path):
    scene = chain(
        simulation={"num_worlds": 2},
        replicate={"spacing": [1.0, 0.0, 0.0]},
        builder={"defaults": {"shape": {"mu": 0.25}}},
        post_build=[{"op": "set_joint_targets", "range": "from:6", "mode": "position", "ke": 5.0}],
    )
    (tmp_path / "scene.json").write_text(json.dumps(scene))
    (tmp_path / "scene.yaml").write_text(json.dumps(scene, indent=1))
    loads = [load(scene), load(tmp_path / "scene.json"), load(str(tmp_path / "scene.yaml"))]
    names = ("joint_q", "joint_target_ke", "shape_material_mu", "body_mass", "body_inertia", "shape_transform")
    for other in loads[1:]:
        assert other.name == "scene" and other.path is not None
        for name in names:
            assert np.array_equal(getattr(loads[0].sap_model, name).numpy(), getattr(other.sap_model, name).numpy())


def test_states_and_controls_are_clones_in_public_order():
    loaded = load(chain(post_build=[{"op": "set_joint_targets", "joint": "hinge", "target_pos": 0.5}]))
    other = loaded.sap_model.state()
    assert other.joint_q.ptr != loaded.sap_state.joint_q.ptr != loaded.sap_model.joint_q.ptr
    assert loaded.sap_state.joint_qd_order == "public"
    assert loaded.sap_control.joint_target_pos.numpy()[7] == 0.5
    loaded.sap_control.clear()
    assert not loaded.sap_control.joint_target_pos.numpy().any()
    assert loaded.sap_model.control().joint_target_pos.numpy()[7] == 0.5


def test_the_config_is_checked_without_opening_assets():
    scene = sap_warp.load_sap_scene_config({"assets": [{"type": "usd", "source": "does/not/exist.usda"}]})
    assert scene.assets[0].source.path == "does/not/exist.usda"


def test_loaded_scenes_step_with_their_own_options(tmp_path):
    scene = chain(
        simulation={
            "dt": 0.002,
            "num_worlds": 2,
            "max_rigid_contact": 32,
            "solver": {"contact_preset_variant": "drake"},
        },
        replicate={"spacing": [3, 0, 0]},
    )
    scene["bodies"][0]["transform"] = {"p": [0, 0, 0.3]}
    for joint in scene["joints"][1:]:
        joint["parent_xform"] = {"p": [0, 1, 0]}  # boxes in the same place would push each other apart
    loaded = load(scene)
    solver = sap_warp.SolverSAP(loaded.sap_model, **loaded.solver_options)
    pipeline = sap_warp.SapCollisionPipeline(loaded.collision_model, rigid_contact_max=loaded.rigid_contact_max)
    contacts = pipeline.contacts()
    state, after = loaded.sap_state, loaded.sap_model.state()
    for _ in range(20):
        pipeline.collide(state, contacts)
        solver.step(state, after, loaded.sap_control, contacts, loaded.dt)
        state, after = after, state
    poses = state.body_q.numpy()
    assert np.isfinite(poses).all() and poses[0][2] == pytest.approx(0.3, abs=0.01)
    # the two worlds are copies: only their places differ
    assert np.allclose(poses[:3, 1:], poses[3:, 1:], atol=1e-4) and np.allclose(
        poses[3:, 0] - poses[:3, 0], 3, atol=1e-4
    )
