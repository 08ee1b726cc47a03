"""Values that win over those of a scene, by their path."""

import numpy as np
import pytest

from sap_warp import SapSceneError, load_sap_scene, load_sap_scene_config
from sap_warp.scene.overrides import parse_path
from sap_warp.scene.shipped.scenes import build_scene, randomize_start, randomize_worlds

SCENE = """\
simulation: {dt: 0.01}
ground: true
bodies:
  - id: ball
    xform: {p: [0.0, 0.0, 1.0]}
    shapes:
      - {type: sphere, radius: 0.1, mu: 0.5}
joints:
  - {id: fall, type: free, parent: world, child: ball}
"""


@pytest.fixture
def scene(tmp_path):
    """A file with a ball."""
    file = tmp_path / "ball.yaml"
    file.write_text(SCENE)
    return file


@pytest.mark.parametrize(
    "text, parts",
    [
        ("ground.mu", ("ground", "mu")),
        ("bodies[2].shapes[0].hx", ("bodies", 2, "shapes", 0, "hx")),
        ("bodies['my.ball'].mass", ("bodies", "my.ball", "mass")),
        ('a["b c"][1]', ("a", "b c", 1)),
    ],
)
def test_paths_are_read_as_messages_write_them(text, parts):
    """With indices, and names in quotes where they have dots."""
    assert parse_path(text) == parts


@pytest.mark.parametrize("text", ["", ".a", "a..b", "a[", "a[-1]", "a[b]", "a]"])
def test_what_is_no_path_is_refused(text):
    """Nothing is skipped in silence."""
    with pytest.raises(ValueError, match="no path into a scene"):
        parse_path(text)


def test_values_arrive(scene):
    """By index, by name, in another spelling, in a section that is only switched on, in one that is not there."""
    found = load_sap_scene_config(
        scene,
        overrides={
            "simulation.dt": 0.002,
            "simulation.solver.contact_sigma": 1e-4,
            "ground.mu": 0.25,
            "bodies.ball.shapes[0].radius": 0.3,
            "bodies[0].transform.p[2]": 2.0,
        },
    )
    assert (found.simulation.dt, found.simulation.solver) == (0.002, {"contact_sigma": 1e-4})
    assert found.ground.given()["mu"] == 0.25
    assert found.bodies[0].shapes[0].radius == 0.3
    assert load_sap_scene_config(scene).simulation.dt == 0.01  # the file is as it was
    model = load_sap_scene(scene, overrides={"bodies.ball.transform.p[2]": 2.0}, device="cpu").sap_model.newton_model
    np.testing.assert_allclose(model.joint_q.numpy()[:3], [0.0, 0.0, 2.0])


@pytest.mark.parametrize(
    "path, value, message",
    [
        ("grond.mu", 1.0, "ball.yaml: grond: unknown key; did you mean 'ground'?"),
        ("bodies.box.mass", 1.0, "ball.yaml:3: bodies: has no item 'box'; there is: ball"),
        ("bodies[3].mass", 1.0, "ball.yaml:3: bodies: has 1 items; there is no [3]"),
        (
            "bodies.ball.shapes[0].radius",
            -1.0,
            "ball.yaml:7: bodies[0].shapes[0].radius: found -1; expected a positive",
        ),
        ("bodies.ball.shapes[0].mu.x", 1.0, "ball.yaml:7: bodies[0].shapes[0].mu: is 0.5 here and has no part 'x'"),
        ("simulation.dt", "soon", "ball.yaml:1: simulation.dt: "),
        ("a[b]", 1.0, "'a[b]' is no path into a scene"),
    ],
)
def test_mistakes_have_file_and_line(scene, path, value, message):
    """As if the value stood in the scene."""
    with pytest.raises(SapSceneError) as caught:
        load_sap_scene_config(scene, overrides={path: value})
    assert message in str(caught.value)


def test_worlds_with_seeds_start_like_models_of_their_own():
    """A world's start is the one that a model of it alone has with the same seed; None leaves it alone."""
    many, _ = build_scene("pendulum", 3, "cpu")
    plain = many.joint_q.numpy().reshape(3, -1)[1].copy()
    randomize_worlds(many, [5, None, 7])
    expected = []
    for seed in (5, 7):
        one, _ = build_scene("pendulum", 1, "cpu")
        randomize_start(one, seed)
        expected.append((one.joint_q.numpy(), one.body_q.numpy()))
    found = many.joint_q.numpy().reshape(3, -1), many.body_q.numpy().reshape(3, -1, 7)
    np.testing.assert_array_equal(found[0], [expected[0][0], plain, expected[1][0]])
    np.testing.assert_array_equal(found[1][[0, 2]], [expected[0][1], expected[1][1]])
