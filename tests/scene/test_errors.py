"""What users read when a scene is wrong: file, line, path, what was found and what is accepted."""
# ruff: noqa: E501 - a scene and its message on one line make a table

import json
import textwrap

import pytest

import sap_warp
from tests.support.scene_files import BOX, boxes, chain, free, load, problem_of, problems_of, with_joint, with_shape

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def error_in(tmp_path):
    """The whole message for a YAML text, with FILE in place of the path."""

    def read(text, **options):
        file = tmp_path / "scene.yaml"
        file.write_text(textwrap.dedent(text))
        with pytest.raises(sap_warp.SapSceneError) as caught:
            load(file, **options)
        return str(caught.value).replace(str(file), "FILE")

    return read


# Whole messages


def test_all_mistakes_come_at_once_in_the_order_of_the_file(error_in):
    message = error_in(
        """\
        schema_version: 1
        simulaton:
          dt: 0.01
        joints:
          - {id: j, type: revolut, child: box}
          - {id: k, type: hinge, child: box}
        bodies:
          - id: box
            mass: -1
            transform:
              q: [0, 0, 0, 2]
            shapes:
              - {type: box, hx: 0, hy: big, radius: 1}
              - radius: 1
          - mass: 1
        post_build:
          - op: set_array
            array: joint_q
            range: last:3
            value: 1
        """
    )
    assert message.splitlines() == [
        "FILE:2: simulaton: unknown key; did you mean 'simulation'?",
        "FILE:5: joints[0].type: found 'revolut'; did you mean 'revolute'? expected one of fixed, free, revolute, "
        "prismatic, ball, distance, d6",
        "FILE:6: joints[1].type: found 'hinge'; expected one of fixed, free, revolute, prismatic, ball, distance, d6",
        "FILE:9: bodies[0].mass: found -1; expected a number that is not negative",
        "FILE:11: bodies[0].transform.q: found a quaternion of length 2; a rotation [x, y, z, w] has length 1",
        "FILE:13: bodies[0].shapes[0].hx: found 0; expected a positive number",
        "FILE:13: bodies[0].shapes[0].hy: unexpected 'big' in 'big'; numbers, pi, + - * / and parentheses are accepted",
        "FILE:13: bodies[0].shapes[0].hz: is missing",
        "FILE:13: bodies[0].shapes[0].radius: unknown key; expected one of density, ke, tau, mu, margin, gap, "
        "collision_group, collision_filter_parent, has_shape_collision, has_particle_collision, is_solid, "
        "is_hydroelastic, is_visible, is_site, kd, kf, ka, restitution, mu_torsional, mu_rolling, kh, "
        "sdf_max_resolution, sdf_target_voxel_size, sdf_narrow_band_range, physics, shape, cfg, label, transform, "
        "color, type, hx, hy, hz",
        "FILE:14: bodies[0].shapes[1].type: is missing",
        "FILE:15: bodies[1].id: is missing",
        "FILE:19: post_build[0].range: found 'last:3'; expected all, head:N, tail:N, from:N or [start, end]",
    ]


def test_references_are_checked_all_at_once(error_in):
    message = error_in(
        """\
        bodies:
          - {id: base}
          - {id: arm}
          - {id: hand}
          - {id: arm}
          - {id: lost}
          - {id: world}
        joints:
          - {id: root, type: free, child: base}
          - {id: elbow, type: revolute, parent: bse, child: arm}
          - {id: wrist, type: revolute, parent: arm, child: hnd}
          - {id: elbow, type: fixed, parent: base, child: arm}
        articulations:
          - {id: robot, joints: [root, elbw]}
          - {id: robot, joints: []}
        """
    )
    assert message.splitlines() == [
        "FILE:5: bodies[3].id: 'arm' is already the id of bodies[1]",
        "FILE:7: bodies[5].id: 'world' stands for the world; choose another id",
        "FILE:10: joints[1].parent: unknown body 'bse'; did you mean 'base'?",
        "FILE:11: joints[2].child: unknown body 'hnd'; did you mean 'hand'?",
        "FILE:12: joints[3].id: 'elbow' is already the id of joints[1]",
        "FILE:12: joints[3].child: 'arm' is already the child of joint 'elbow'; joints form a tree",
        "FILE:14: articulations[0].joints[1]: unknown joint 'elbw'; did you mean 'elbow'?",
        "FILE:15: articulations[1].id: 'robot' is already the id of articulations[0]",
        "FILE:15: articulations[1].joints: found no joints; an articulation has at least one",
    ]


def test_mistakes_that_show_while_building_have_their_lines_and_come_together(error_in):
    message = error_in(
        """\
        bodies:
          - id: box
            shapes:
              - {type: sphere, radius: 0.1}
        joints:
          - {id: root, type: free, child: box}
        initial_joint_q:
          - {joint: rot, value: 1}
          - {index: 7, value: 1}
          - joint: root
            offset: 9
            value: 1
        post_build:
          - op: set_joint_armature
            index: -7
            armature: 1
          - op: set_joint_armature
            range: all
            values: [1, 2]
          - {op: set_joint_targets, match: knee, ke: 1}
          - {op: add_shape, body: bx, shape: {type: sphere, radius: 1}}
          - op: set_array
            array: shape_margin
            range: [0, 3]
            value: 0.1
        """
    )
    assert message.splitlines() == [
        "FILE:8: initial_joint_q[0].joint: unknown joint 'rot'; did you mean 'root'?",
        "FILE:9: initial_joint_q[1].index: found 7, but the array has 7 entries",
        "FILE:11: initial_joint_q[2].offset: found 9, but joint 'root' has 7 coordinates",
        "FILE:15: post_build[0].index: found -7, but the array has 6 entries",
        "FILE:19: post_build[1].values: found 2 values for 6 selected dofs",
        "FILE:20: post_build[2].match: no label of the joints contains 'knee'; the joints are 'root'",
        "FILE:21: post_build[3].body: unknown body 'bx'; did you mean 'box'?",
        "FILE:24: post_build[4].range: covers entries 0 to 3, but the array has 1",
    ]


def test_assets_that_cannot_be_had_are_listed_together(error_in, tmp_path):
    (tmp_path / "robot.urdf").write_text("<robot name='r'><link name='a'></robot>")
    (tmp_path / "robot.usda").write_text("not a stage")
    message = error_in(
        """\
        assets:
          - type: urdf
            source: robt.urdf
          - type: urdf
            source: robot.urdf
          - type: usd
            source: {path: robot.usda}
          - {type: mjcf, source: {package: {name: newton, path: nothing.xml}}}
          - {type: urdf, source: "<robot name='empty'></robot>"}
          - {type: urdf, source: "<mujoco/>"}
        """
    ).splitlines()
    assert [line.split(": ")[:2] for line in message] == [
        [f"FILE:{line}", f"assets[{i}].source"] for i, line in enumerate((3, 5, 7, 8, 9, 10))
    ]
    assert "'robt.urdf' does not exist" in message[0] and "robot.urdf" in message[0]
    assert "not valid XML: mismatched tag" in message[1]
    assert "robot.usda is not a USD stage" in message[2]
    assert "has no file 'nothing.xml'" in message[3]
    assert message[4].endswith("the URDF has no links")
    assert message[5].endswith("the XML starts with <mujoco>; a URDF starts with <robot>")


def test_a_mistake_in_a_merged_mapping_is_reported_where_it_is_written(error_in):
    message = error_in(
        """\
        bodies:
          - id: a
            shapes:
              - &ball
                type: sphere
                radius: 0
          - id: b
            shapes:
              - <<: *ball
                radius: 1
                mu: -2
        joints:
          - {id: i, type: free, child: a}
          - {id: j, type: free, child: b}
        """
    )
    assert message.splitlines() == [
        "FILE:6: bodies[0].shapes[0].radius: found 0; expected a positive number",
        "FILE:11: bodies[1].shapes[0].mu: found -2; expected a number that is not negative",
    ]


def test_an_alias_is_reported_as_it_is_spelt(error_in):
    message = error_in(
        """\
        bodies:
          - id: a
            xform: {p: [0, 0]}
            shapes:
              - {type: sphere, radius: 1,
                 shape_mu: -1,
                 contact_margin: -2}
        joints:
          - {id: j, type: revolute, child: a,
             parent_transform: 3,
             target_q: x}
        post_build:
          - op: set_joint_armature
            range: all
            armature: -1
        """
    )
    assert [line.split(": ")[:2] for line in message.splitlines()] == [
        ["FILE:3", "bodies[0].xform.p"],
        ["FILE:6", "bodies[0].shapes[0].shape_mu"],
        ["FILE:7", "bodies[0].shapes[0].contact_margin"],
        ["FILE:10", "joints[0].parent_transform"],
        ["FILE:11", "joints[0].target_q"],
        ["FILE:15", "post_build[0].armature"],
    ]


def test_json_files_have_lines_too(tmp_path):
    file = tmp_path / "scene.json"
    file.write_text(json.dumps(with_shape({"type": "sphere", "radius": -1}), indent=2))
    line = next(i for i, text in enumerate(file.read_text().splitlines(), 1) if "radius" in text)
    assert problems_of(file) == [f"{file}:{line}: bodies[0].shapes[0].radius: found -1; expected a positive number"]


def test_the_error_lists_its_problems_as_data():
    with pytest.raises(sap_warp.SapSceneError) as caught:
        load({"bodis": [], "simulation": {"dt": 0}})
    problems = caught.value.problems
    assert {problem.path for problem in problems} == {("bodis",), ("simulation", "dt")}
    assert all(problem.file is None and problem.line is None for problem in problems)
    assert isinstance(caught.value, ValueError)


def test_a_scene_with_very_many_mistakes_shows_the_first_of_them():
    lines = problems_of({"bodies": [{"id": f"b{i}", "mas": 1} for i in range(3000)]})
    assert len(lines) == 51 and lines[-1] == "and 1050 more problems"
    assert lines[0] == "scene: bodies[0].mas: unknown key; did you mean 'mass'?"


# One message for each kind of mistake


@pytest.mark.parametrize(
    "scene, message",
    [
        # keys
        ({"bodys": []}, "bodys: unknown key; did you mean 'bodies'?"),
        ({"Ground": True}, "Ground: unknown key; did you mean 'ground'?"),
        ({7: 1}, "[7]: unknown key; expected one of schema_version, name,"),
        ({"a\x1b[31m": 1}, "'a\\x1b[31m': unknown key;"),
        (boxes(simulation={"max_contact": 3}), "simulation.max_contact: unknown key; did you mean 'max_rigid_contact'?"),
        (boxes(simulation={"solver": {"line_serch_variant": 1}}), "simulation.solver.line_serch_variant: unknown solver option; did you mean 'line_search_variant'?"),
        (boxes(simulation={"solver": {"line_search_variant": "x"}}), "simulation.solver.line_search_variant: "),
        (boxes(simulation={"solver": {"strict_capacity": 1}}), "simulation.solver.strict_capacity: found 1; expected true or false"),
        (boxes(simulation={"solver": []}), "simulation.solver: found []; expected a mapping"),
        (with_shape({**BOX, "cfg": {"densty": 1}}), "bodies[0].shapes[0].cfg.densty: unknown key; did you mean 'density'?"),
        (with_shape({**BOX, "mu": 1, "shape_mu": 1}), "bodies[0].shapes[0]: 'mu' and 'shape_mu' mean the same; give one of them"),
        (with_shape({**BOX, "transform": {"pos": [0, 0, 0]}}), "bodies[0].shapes[0].transform.pos: unknown key; a transform has p and q"),
        # types
        ({"schema_version": 2}, "schema_version: found 2; this loader reads schema version 1"),
        ({"schema_version": True}, "schema_version: found True; this loader reads schema version 1"),
        ({"name": 3}, "name: found 3; expected a text"),
        ({"name": ""}, "name: found ''; expected a text that is not empty"),
        ({"bodies": {"id": "a"}}, "bodies: found a mapping; expected a list"),
        ({"bodies": ["a"]}, "bodies[0]: found 'a'; expected a mapping"),
        ({"simulation": 3}, "simulation: found 3; expected a mapping"),
        ({"ground": "yes"}, "ground: found 'yes'; expected true, false or a mapping"),
        ({"ground": {"enabled": 1}}, "ground.enabled: found 1; expected true or false"),
        (boxes(simulation={"num_worlds": 2.5}), "simulation.num_worlds: found 2.5; expected a whole number"),
        (boxes(simulation={"num_worlds": 0}), "simulation.num_worlds: found 0; expected a whole number of at least 1"),
        (boxes(simulation={"dt": None}), "simulation.dt: found None; expected a number"),
        (boxes(simulation={"dt": [1]}), "simulation.dt: found [1]; expected a number"),
        (boxes(simulation={"dt": True}), "simulation.dt: found True; expected a number"),
        (boxes(simulation={"duration": 1, "frames": 2}), "simulation.frames: duration and frames both say how long to run; give one of them"),
        (boxes(simulation={"num_worlds": 2}, replicate={"num_worlds": 3}), "replicate.num_worlds: replicate.num_worlds is 3, but simulation.num_worlds is 2; give one of them"),
        (boxes(replicate={"spacing": [1, 2]}), "replicate.spacing: found a list of 2; expected three numbers [x, y, z]"),
        # numbers
        (boxes(simulation={"dt": NAN}), "simulation.dt: found nan; expected a finite number"),
        (boxes(simulation={"dt": INF}), "simulation.dt: found inf; expected a finite number"),
        (boxes(simulation={"dt": 1e31}), "simulation.dt: found 1e+31; expected a number of magnitude up to 1e+30"),
        (boxes(simulation={"dt": 10**400}), "simulation.dt: found 1000000"),
        (boxes(simulation={"dt": 10**5000}), "simulation.dt: found a very large number; expected a number of magnitude up to 1e+30"),
        (boxes(simulation={"dt": "1/0"}), "simulation.dt: division by zero in '1/0'; numbers, pi, + - * / and parentheses are accepted"),
        (boxes(simulation={"dt": "1" * 300}), "simulation.dt: an expression of 300 characters; at most 200 are read"),
        (boxes(simulation={"dt": "1e200*1e200"}), "simulation.dt: found inf; expected a finite number"),
        (boxes(simulation={"max_rigid_contact": 10**10}), "simulation.max_rigid_contact: found 1e+10; expected a whole number of magnitude up to 2147483647"),
        (with_shape({**BOX, "collision_group": 2**31}), "bodies[0].shapes[0].collision_group: found 2.14748e+09; expected a whole number of magnitude"),
        # transforms
        (with_shape({**BOX, "transform": 3}), "bodies[0].shapes[0].transform: found 3; expected identity or a mapping with p and q"),
        (with_shape({**BOX, "transform": {"p": [0, "x", 0]}}), "bodies[0].shapes[0].transform.p[1]: unexpected 'x' in 'x'"),
        (with_shape({**BOX, "transform": {"q": [0, 0, 0, 0]}}), "bodies[0].shapes[0].transform.q: found a quaternion of length 0; a rotation [x, y, z, w] has length 1"),
        (with_shape({**BOX, "transform": {"q": [0, 0, 1]}}), "bodies[0].shapes[0].transform.q: found a list of 3; expected identity, [x, y, z, w] or an axis_angle mapping"),
        (with_shape({**BOX, "transform": {"q": {"axis": "x", "angle": 1}}}), "bodies[0].shapes[0].transform.q: found a mapping; expected identity, [x, y, z, w] or {axis_angle: {axis: ..., angle: ...}}"),
        (with_shape({**BOX, "transform": {"q": {"axis_angle": {"axis": "x"}}}}), "bodies[0].shapes[0].transform.q.axis_angle: found axis; expected the keys axis and angle"),
        (with_shape({**BOX, "transform": {"q": {"axis_angle": {"axis": [0, 0, 0], "angle": 1}}}}), "bodies[0].shapes[0].transform.q.axis_angle.axis: found a vector of length 0; expected a direction"),
        # shapes
        (with_shape({"type": "torus"}), "bodies[0].shapes[0].type: found 'torus'; expected one of box, sphere, capsule, cylinder, cone, ellipsoid, mesh"),
        (with_shape({"type": ["box"]}), "bodies[0].shapes[0].type: found ['box']; expected one of"),
        (with_shape({"type": "sphere", "radius": -1}), "bodies[0].shapes[0].radius: found -1; expected a positive number"),
        (with_shape({**BOX, "color": [1, 2, 0]}), "bodies[0].shapes[0].color: found [1, 2, 0]; expected red, green and blue between 0 and 1"),
        (with_shape({"type": "mesh"}), "bodies[0].shapes[0]: a mesh has either a source, or vertices and indices"),
        (with_shape({"type": "mesh", "vertices": [[0, 0, 0]]}), "bodies[0].shapes[0]: vertices need indices, three for each triangle"),
        (with_shape({"type": "mesh", "vertices": [[0, 0, 0]], "indices": [0, 0, 1]}), "bodies[0].shapes[0].indices: found 1; expected vertex numbers from 0 to 0"),
        (with_shape({"type": "mesh", "vertices": [[0, 0, 0]], "indices": [0, 0]}), "bodies[0].shapes[0].indices: found 2 numbers; expected three for each triangle"),
        (with_shape({"type": "mesh", "vertices": [[0, 0, 0]], "indices": [[0, 0]]}), "bodies[0].shapes[0].indices[0]: found 2 numbers; a triangle has three"),
        (with_shape({"type": "mesh", "source": "x.obj", "indices": [0, 0, 0]}), "bodies[0].shapes[0].indices: a mesh from a file has no indices"),
        (with_shape({"type": "mesh", "source": "<x/>"}), "bodies[0].shapes[0].source: found a text; expected a mesh file"),
        (with_shape({"type": "mesh", "source": "x.obj"}), "bodies[0].shapes[0]: asset file 'x.obj' does not exist"),
        (with_shape({"type": "mesh", "source": {}}), "bodies[0].shapes[0].source: found none; expected exactly one of path, git, package and xml"),
        # bodies
        ({"bodies": [{"id": "a", "inertia": [1, 1, 3]}], "joints": [free("a")]}, "bodies[0].inertia: found principal moments 1, 1 and 3; those of a body are not negative, and none is larger than the sum of the other two"),
        ({"bodies": [{"id": "a", "inertia": [[1, 0, 0], [1, 1, 0], [0, 0, 1]]}], "joints": [free("a")]}, "bodies[0].inertia: found a matrix that is not symmetric; expected a symmetric inertia"),
        ({"bodies": [{"id": "a", "inertia": [[1, 0, 0], [1, 1], [0, 0, 1]]}], "joints": [free("a")]}, "bodies[0].inertia[1]: found a list of 2; expected three numbers [x, y, z]"),
        ({"bodies": [{"id": "a"}]}, "bodies[0]: body 'a' is the child of no joint; add a free joint for a body that moves freely, or a fixed one to hold it"),
        (with_shape({"type": "sphere", "radius": 1e20}), "bodies[0].shapes[0].radius: found 1e+20; a size is 1e-07 to 1e+07 m"),
        (with_shape({"type": "sphere", "radius": 1000, "density": 1e4}), "bodies[0]: 'body' has the mass 4.19e+13 kg and the inertia 1.68e+19 kg m^2; single precision takes up to 1e+15 kg and 1e+12 kg m^2, check densities and sizes"),
        (with_shape({"type": "sphere", "radius": 1e-30}), "bodies[0].shapes[0].radius: found 1e-30; a size is 1e-07 to 1e+07 m"),
        # joints
        (with_joint("revolute", limit_lower=1, limit_upper=-1), "joints[0]: limit_lower 1 is above limit_upper -1"),
        (with_joint("revolute", actuator_mode=5), "joints[0].actuator_mode: found 5; expected 0 to 4"),
        (with_joint("revolute", axis="w"), "joints[0].axis: found 'w'; expected x, y, z, -x, -y, -z, 0, 1, 2 or [x, y, z]"),
        (with_joint("revolute", axis=3), "joints[0].axis: found 3; expected 0 (x), 1 (y) or 2 (z)"),
        (with_joint("revolute", axis=[0, 0]), "joints[0].axis: found a list of 2; expected x, y, z, 0, 1, 2 or three numbers [x, y, z]"),
        (with_joint("free", axis="x"), "joints[0].axis: unknown key; "),
        (with_joint("fixed", limit_lower=1), "joints[0].limit_lower: unknown key; "),
        (with_joint("d6"), "joints[0]: a d6 joint needs at least one entry in linear_axes or angular_axes"),
        (with_joint("d6", linear_axes=[{"axis": "x"}] * 4), "joints[0].linear_axes: found 4 entries; at most 3 are accepted"),
        (with_joint("distance", min_distance=2, max_distance=1), "joints[0]: min_distance 2 is above max_distance 1"),
        ({**with_joint("revolute", limit_lower=2), "builder": {"defaults": {"joint": {"limit_upper": 1}}}}, "joints[0]: limit_lower 2 is above limit_upper 1; one of them comes from builder.defaults.joint"),
        ({**with_joint("ball"), "initial_joint_q": [{"joint": "hinge", "values": [0, 0, 0, 0]}]}, "initial_joint_q[0]: the rotation of joint 'hinge' in joint_q has length 0; a quaternion has length 1"),
        # sources and control
        ({"assets": [{"type": "urdf"}]}, "assets[0].source: is missing"),
        ({"assets": [{"type": "urdf", "source": {"path": "a", "xml": "b"}}]}, "assets[0].source: found path and xml; expected exactly one of path, git, package and xml"),
        ({"assets": [{"type": "urdf", "source": {"git": {"repo": "x", "rev": "y"}}}]}, "assets[0].source.git.path: is missing"),
        ({"assets": [{"type": "usd", "source": "<a/>"}]}, "assets[0].source: found a text; a USD asset needs a file"),
        ({"assets": [{"type": "urdf", "source": "x", "skip_mesh_approximation": True}]}, "assets[0].skip_mesh_approximation: unknown key"),
        ({"assets": [{"type": "urdf", "source": "x", "cfg": {"is_site": True}}]}, "assets[0].cfg.is_site: a whole asset cannot be a site"),
        ({"assets": [{"type": "urdf", "source": "x", "hide_collision_shapes": True, "force_show_colliders": True}]}, "assets[0]: hide_collision_shapes and force_show_colliders exclude each other; give one of them"),
        (boxes(control={"source": "nothing.json"}), "control.source: asset file 'nothing.json' does not exist"),
        (boxes(control={"source": "<a/>"}), "control.source: found a text; expected a JSON or NPZ file"),
        (boxes(control={"loop": True}), "control.source: is missing"),
        # size
        (boxes(simulation={"num_worlds": 2**20 + 1}), "simulation.num_worlds: found 1048577 worlds; at most 1048576 are possible"),
        (boxes(replicate={"num_worlds": 2**20 + 1}), "replicate.num_worlds: found 1048577 worlds; at most 1048576 are possible"),
        (boxes(simulation={"num_worlds": 2, "max_rigid_contact": 2**31 - 1}), "simulation.max_rigid_contact: found 2147483647 for each of 2 worlds; at most 2147483647 are possible"),
        ({}, "nothing can move: there are no joint degrees of freedom; add a joint that moves"),
        (with_joint("fixed"), "joints: nothing can move: there are no joint degrees of freedom; add a joint that moves"),
    ],
)  # fmt: skip
def test_a_mistake_is_explained(scene, message):
    assert problem_of(scene).startswith(message)


@pytest.mark.parametrize(
    "operation, message",
    [
        ({"op": "set_arry"}, ".op: found 'set_arry'; did you mean 'set_array'? expected one of add_shape, set_array,"),
        ({}, ".op: is missing"),
        ({"op": "set_array", "array": "body_q", "index": 0, "value": 1}, ".array: found 'body_q'; expected one of shape_margin,"),
        ({"op": "set_array", "array": "joint_q", "value": 1}, ": nothing is selected; expected one of index, range, joint,"),
        ({"op": "set_array", "array": "joint_q", "index": 0, "match": "a", "value": 1}, ": found index and match; give one selector"),
        ({"op": "set_array", "array": "joint_q", "index": 0}, ": found none; expected one of value, values and from_array"),
        ({"op": "set_array", "array": "joint_q", "index": 0, "value": 1, "values": [1]}, ": found value and values; expected one of"),
        ({"op": "set_array", "array": "joint_q", "index": 9, "value": 1}, ".index: found 9, but the array has 9 entries"),
        ({"op": "set_array", "array": "joint_q", "index": -10, "value": 1}, ".index: found -10, but the array has 9 entries"),
        ({"op": "set_array", "array": "joint_qd", "range": "head:9", "value": 1}, ".range: covers entries 0 to 9, but the array has 8"),
        ({"op": "set_array", "array": "joint_qd", "range": "tail:9", "value": 1}, ".range: covers entries -1 to 8, but the array has 8"),
        ({"op": "set_array", "array": "joint_qd", "range": "from:9", "value": 1}, ".range: covers entries 9 to 8, but the array has 8"),
        ({"op": "set_array", "array": "joint_qd", "range": [3, 2], "value": 1}, ".range: covers entries 3 to 2, but the array has 8"),
        ({"op": "set_array", "array": "joint_qd", "range": [0, "x"], "value": 1}, ".range[1]: unexpected 'x'"),
        ({"op": "set_array", "array": "joint_qd", "range": "head:²", "value": 1}, ".range: found 'head:²'; expected all, head:N, tail:N, from:N or [start, end]"),
        ({"op": "set_array", "array": "joint_qd", "range": [None, 2], "value": 1}, ".range: found [None, 2]; expected all,"),
        ({"op": "set_array", "array": "joint_q", "range": "all", "values": [1]}, ".values: found 1 values for 9 selected entries"),
        ({"op": "set_array", "array": "shape_margin", "range": "all", "value": -1}, ".value: found -1; entries of shape_margin are not negative"),
        ({"op": "set_array", "array": "shape_material_ke", "range": "all", "value": 0}, ".value: found 0; entries of shape_material_ke are positive"),
        ({"op": "set_array", "array": "joint_target_mode", "range": "all", "value": 5}, ".value: found 5; entries of joint_target_mode are 0 to 4"),
        ({"op": "set_array", "array": "joint_target_mode", "range": "all", "value": 1.5}, ".value: found 1.5; entries of joint_target_mode are whole numbers"),
        ({"op": "set_array", "array": "shape_flags", "range": "all", "value": 32}, ".value: found 32; entries of shape_flags are sums of 1 visible, 2 collide_shapes, 4 collide_particles, 8 site, 16 hydroelastic"),
        ({"op": "set_array", "array": "shape_margin", "joint": "hinge", "value": 1}, ".joint: a joint selects no shapes; use index, range, label_prefix or match"),
        ({"op": "set_array", "array": "joint_q", "range": "all", "from_array": "shape_gap"}, ".from_array: shape_gap has an entry for each shape, joint_q for each coordinate; one cannot be copied to the other"),
        ({"op": "set_array", "array": "joint_qd", "range": "all", "from_array": "joint_q"}, ".from_array: joint_q has an entry for each coordinate, joint_qd for each dof; select joints by label, or use copy_array with from_range"),
        ({"op": "copy_array", "from_array": "joint_q", "to_array": "joint_qd"}, ".from_array: joint_q has an entry for each coordinate"),
        ({"op": "copy_array", "from_array": "joint_q", "to_array": "joint_qd", "from_range": "all"}, ".from_array: found 9 values for 8 selected entries"),
        ({"op": "copy_array", "from_array": "joint_q", "to_array": "joint_qd", "from_range": "head:10"}, ".from_range: covers entries 0 to 10, but the array has 9"),
        ({"op": "scale_sphere_shapes", "factor": 2}, ": there are no spheres"),
        ({"op": "scale_sphere_shapes", "factor": 0}, ".factor: found 0; expected a positive number"),
        ({"op": "approximate_meshes", "method": "bounding_box"}, ": there are no colliding meshes"),
        ({"op": "approximate_meshes", "method": "bounding_boxes"}, ".method: found 'bounding_boxes'; did you mean 'bounding_box'? expected one of bounding_box, bounding_sphere, convex_hull"),
        ({"op": "set_attr", "attr": "up_axis", "value": 1}, ".attr: found 'up_axis'; expected one of gravity, rigid_gap"),
        ({"op": "set_attr", "attr": "gravity", "value": [0, "x", 0]}, ".value[1]: unexpected 'x'"),
        ({"op": "set_attr", "attr": "rigid_gap", "value": -1}, ".value: found -1.0; expected a distance that is not negative"),
        ({"op": "set_joint_targets", "range": "all"}, ": nothing to set; expected some of mode, ke, kd, target_pos and target_vel"),
        ({"op": "set_joint_targets", "range": "all", "mode": "positon"}, ".mode: found 'positon'; expected none, position, velocity, position_velocity, effort, or 0 to 4"),
        ({"op": "set_joint_targets", "joint": "hing", "ke": 1}, ".joint: unknown joint 'hing'; did you mean 'hinge'?"),
        ({"op": "set_joint_targets", "joints": ["hinge", "x"], "ke": 1}, ".joints[1]: unknown joint 'x'; the joints are"),
        ({"op": "set_joint_targets", "label_prefix": "left", "ke": 1}, ".label_prefix: no label of the joints starts with 'left'; the joints are"),
        ({"op": "set_joint_targets", "index": 3, "target_pos": 1}, ".target_pos: dof 3 belongs to a joint with a quaternion, which one number cannot be a target for"),
        ({"op": "set_joint_q", "joint": "hinge", "offset": 1, "value": 1}, ".offset: found 1, but joint 'hinge' has 1 coordinates"),
        ({"op": "set_joint_q", "index": 0, "offset": 1, "value": 1}, ".offset: offset goes with joint, not with index"),
        ({"op": "set_joint_q", "value": 1}, ": found none; expected one of index, joint and joint_label"),
        ({"op": "set_joint_q", "index": 0}, ".value: is missing"),
        ({"op": "set_joint_armature", "range": "all"}, ": expected value, or values with one entry for each dof"),
        ({"op": "set_joint_armature", "range": "head:1", "values": [-1]}, ".values: found a negative armature"),
        ({"op": "add_shape", "shape": {"type": "box", "hx": 1, "hy": 1}}, ".shape.hz: is missing"),
        ({"op": "add_shape", "body": [1], "shape": {"type": "sphere", "radius": 1}}, ".body: found [1]; expected a body id or label, world, or the number of a body"),
        ({"op": "add_shape", "body": 3, "shape": {"type": "sphere", "radius": 1}}, ".body: found 3, but the array has 3 entries"),
        ({"op": "add_shape", "body": "palm", "shape": {"type": "sphere", "radius": 1}}, ".body: unknown body 'palm'; the bodies are 'base', 'arm', 'hand'"),
    ],
)  # fmt: skip
def test_a_mistake_in_an_edit_is_explained(operation, message):
    assert problem_of(chain(post_build=[operation])).startswith("post_build[0]" + message)


@pytest.mark.parametrize(
    "edit, message",
    [
        ({"value": 1}, ": found none; expected one of index, joint and joint_label"),
        ({"index": 0, "joint": "hinge", "value": 1}, ": found index and joint; expected one of index, joint and joint_label"),
        ({"index": 0}, ": expected value for one entry, or values for several"),
        ({"index": 8, "values": [1, 2]}, ".values: found 2 values, but there is room for 1"),
        ({"joint": "base_free", "offset": 6, "values": [1, 2]}, ".values: found 2 values, but there is room for 1"),
        ({"joint": "base_free", "offset": -1, "value": 1}, ".offset: found -1, but joint 'base_free' has 7 coordinates"),
        ({"joint_label": "elbow", "value": 1}, ".joint_label: unknown joint 'elbow'; the joints are 'base_free', 'hinge', 'slider', 'robot/left/hinge', 'robot/right/slider'"),
        ({"index": 0, "offset": 1, "value": 1}, ".offset: offset goes with joint, not with index"),
        ({"index": 0, "value": NAN}, ".value: found nan; expected a finite number"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_initial_positions_is_explained(edit, message):
    assert problem_of(chain(initial_joint_q=[edit])).startswith("initial_joint_q[0]" + message)


# Files that importers would take

LINKS = "".join(
    f"<link name='{n}'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial></link>"
    for n in "ab"
)
HINGE = "<joint name='j' type='revolute'><parent link='a'/><child link='b'/><axis xyz='0 0 1'/><limit lower='-1' upper='1' effort='1' velocity='1'/></joint>"


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "the URDF has no links"),
        (LINKS, "the links of a URDF form one tree, but no joint leads to any of 'a', 'b'"),
        (LINKS + LINKS + HINGE, "the URDF has several links called 'a'"),
        (LINKS + HINGE + HINGE, "the URDF has several joints called 'j'"),
        (LINKS + HINGE + "<joint name='k' type='fixed'><parent link='b'/><child link='a'/></joint>", "cannot be built: No root found in the joint graph."),
        (LINKS + HINGE.replace("'b'", "'c'"), "the links of a URDF form one tree"),
        (LINKS + HINGE.replace("lower='-1'", "lower='2'"), "joint 'r/j' has the limits 2 to 1"),
        (LINKS + HINGE.replace("0 0 1", "0 0 0"), "an axis of joint 'r/j' has length 0; a direction has length 1"),
        (LINKS + HINGE.replace("<axis", "<origin xyz='nan 0 0'/><axis"), "a frame of joint 'r/j' is not finite"),
        (LINKS.replace("<mass value='1'", "<mass value='nan'", 1) + HINGE, "line 1: <mass value=\"nan\"> is not possible; masses and densities are finite and not negative"),
        (LINKS.replace("ixx='1'", "ixx='1e30'", 1) + HINGE, "'r/a' has the mass 1 kg and the inertia 1e+30 kg m^2"),
        (LINKS.replace("</link>", "<collision><geometry><sphere radius='-1'/></geometry></collision></link>", 1) + HINGE, "a sphere of the URDF has the radius '-1'; sizes are not negative"),
        (LINKS.replace("</link>", "<collision><geometry><mesh filename='x.stl'/></geometry></collision></link>", 1) + HINGE, "mesh files are missing: x.stl"),
        (LINKS + HINGE.replace("revolute", "spherical"), "cannot be built: Unsupported joint type: spherical"),
    ],
)  # fmt: skip
def test_urdf_files_that_describe_nothing_real_are_explained(text, message):
    assert problem_of({"assets": [{"type": "urdf", "source": f"<robot name='r'>{text}</robot>"}]}).startswith(
        f"assets[0].source: {message}"
    )


def test_entities_that_multiply_are_refused():
    entities = "".join(f'<!ENTITY a{i} "' + 10 * f"&a{i - 1};" + '">' for i in range(1, 12))
    head = f'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a0 "xxxxxxxxxx">{entities}]>'
    for kind, text in (("urdf", "<robot name='&a11;'><link name='a'/></robot>"), ("mjcf", "<mujoco model='&a11;'/>")):
        assert "amplification" in problem_of({"assets": [{"type": kind, "source": {"xml": head + text}}]})


def test_mesh_files_without_triangles_are_explained(tmp_path):
    (tmp_path / "empty.obj").write_text("")
    scene = with_shape({"type": "mesh", "source": str(tmp_path / "empty.obj")})
    assert problem_of(scene) == "bodies[0].shapes[0].source: empty.obj has no triangles"


def test_an_inertia_of_a_file_that_newton_replaces_is_listed():
    links = LINKS.replace("izz='1'", "izz='5'", 1)
    scene = {"assets": [{"type": "urdf", "source": f"<robot name='r'>{links}{HINGE}</robot>"}]}
    assert load(scene).unsupported_features == [
        "scene: assets[0].source: 'r/a' has moments of inertia (1, 1, 5), which no body of its mass has; (4, 4, 8) are used [kg m^2]"
    ]


# Trees of joints


def tree(*pairs, articulations=()):
    """Revolute joints between bodies named by single letters, each pair a parent and a child."""
    names = sorted({child for _, child in pairs})
    joints = [
        {"id": f"{parent}-{child}", "type": "revolute", "parent": parent, "child": child} for parent, child in pairs
    ]
    groups = [{"id": f"g{i}", "joints": list(group)} for i, group in enumerate(articulations)]
    return {"bodies": [{"id": n, "shapes": [BOX]} for n in names], "joints": joints, "articulations": groups}


@pytest.mark.parametrize(
    "scene, message",
    [
        (tree(("a", "a")), "joints[0]: the joints form a cycle: a -> a; one of them must have the world as parent"),
        (tree(("b", "a"), ("a", "b")), "joints[0]: the joints form a cycle: a -> b -> a; one of them must have the world"),
        (tree(("world", "z"), ("c", "a"), ("a", "b"), ("b", "c")), "joints[1]: the joints form a cycle: a -> c -> b -> a;"),
        (tree(("b", "a"), ("a", "b"), ("a", "c")), "joints[0]: the joints form a cycle: a -> b -> a;"),
        (tree(("world", "a"), ("b", "a"), ("world", "b")), "joints[1].child: 'a' is already the child of joint 'world-a'; joints form a tree"),
        (tree(("a", "b"), ("world", "a")), "joints[0]: comes before joint 'world-a', which holds its parent; list joints from the root outwards"),
        (tree(("world", "a"), ("world", "b"), ("a", "c")), "joints[0]: joints of the tree that starts with 'world-a' must stand next to each other"),
        (tree(("world", "a"), ("a", "b"), articulations=[["world-a"], ["a-b"]]), "articulations[1].joints[0]: joint 'a-b' is disconnected: its parent 'a' is not part of this articulation"),
        (tree(("world", "a"), ("a", "b"), articulations=[["world-a"]]), "joints[1]: is in no articulation, but its parent 'a' is; list it there"),
        (tree(("world", "a"), ("a", "b"), articulations=[["a-b", "world-a"]]), "articulations[0].joints: its joints must stand next to each other in 'joints' and in the same order"),
        (tree(("world", "a"), articulations=[["world-a"], ["world-a"]]), "articulations[1].joints[0]: joint 'world-a' is already in articulation 'g0'"),
        (tree(("world", "a"), articulations=[["world-a", "world-a"]]), "articulations[0].joints[1]: joint 'world-a' is already in articulation 'g0'"),
        (tree(("world", "a"), articulations=[["b"]]), "articulations[0].joints[0]: unknown joint 'b'; the joints are 'world-a'"),
    ],
)  # fmt: skip
def test_joints_that_form_no_tree_are_explained(scene, message):
    lines = problems_of(scene)
    assert lines[0].removeprefix("scene: ").startswith(message)


def test_long_chains_and_many_wrong_names_are_checked_quickly():
    # Each of these took minutes when every joint looked at all others.
    names = [f"b{i}" for i in range(4000)]
    joints = [
        {"id": f"j{i}", "type": "revolute", "parent": names[i - 1] if i else "world", "child": name}
        for i, name in enumerate(names)
    ]
    bodies = [{"id": name} for name in names]
    scene = sap_warp.load_sap_scene_config({"bodies": bodies, "joints": joints})
    assert len(scene.joints) == 4000
    loop = [{**joints[0], "parent": names[-1]}, *joints[1:]]
    message = problem_of({"bodies": bodies, "joints": loop})
    assert message.startswith("joints[0]: the joints form a cycle: b0 -> b3999 -> b3998 -> ") and "... -> b0" in message
    wrong = [{**joint, "child": f"x{joint['child']}"} for joint in joints]
    assert len(problems_of({"bodies": bodies, "joints": wrong})) == 51


# Arguments


def test_wrong_arguments_are_errors_of_the_caller():
    for name in ("num_worlds", "rigid_contact_max"):
        for value, kind in ((0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError), ("2", TypeError)):
            with pytest.raises(kind, match=name):
                load(boxes(), **{name: value})
    with pytest.raises(ValueError, match="nonsense"):
        sap_warp.load_sap_scene(boxes(), device="nonsense")
    assert problem_of(boxes(), num_worlds=2**21) == "found 2097152 worlds; at most 1048576 are possible"


def test_nothing_is_left_behind_by_a_scene_that_fails():
    scene = boxes(post_build=[{"op": "set_joint_q", "index": 99, "value": 1}])
    before = json.dumps(scene)
    problems_of(scene)
    assert json.dumps(scene) == before
