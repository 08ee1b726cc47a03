"""Where the values of shapes in a scene come from, as `sap-warp explain` tells it."""

import pytest

from sap_warp import explain_contact, load_sap_scene

URDF = """<robot name='r'><link name='a'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0'
iyz='0'/></inertial><collision><geometry><sphere radius='0.1'/></geometry></collision></link></robot>"""
SCENE = {
    "builder": {"rigid_gap": 0.002, "defaults": {"shape": {"mu": 0.5, "tau": 0.02}}},
    "ground": {"ke": 3e5},
    "assets": [{"type": "urdf", "source": URDF, "floating": True, "cfg": {"margin": 0.001}}],
    "bodies": [
        {
            "id": "box",
            "ke": 1e5,
            "shapes": [
                {"type": "box", "hx": 1, "hy": 1, "hz": 1, "cfg": {"mu": 0.7}},
                {"type": "sphere", "radius": 1, "gap": 0.003},
            ],
        }
    ],
    "joints": [{"id": "free", "type": "free", "child": "box"}],
    "post_build": [{"op": "set_array", "array": "shape_material_mu", "index": 2, "value": 0.9}],
}


@pytest.mark.parametrize("worlds", [1, 3])
def test_every_level_of_a_scene_is_named(worlds):
    """Defaults, asset, body, shape, edit, ground and what nobody gave; the ground comes after all worlds."""
    scene = load_sap_scene(SCENE, device="cpu", num_worlds=worlds)
    ground = 3 * worlds
    found = {key: source for key, source in scene.provenance.items() if key[1] != "group"}
    assert found == {
        (0, "ke"): "loader default",
        (0, "tau"): "builder.defaults.shape",
        (0, "mu"): "builder.defaults.shape",
        (0, "margin"): "assets[0]",
        (0, "gap"): "builder.rigid_gap",
        (1, "ke"): "bodies[0]",
        (1, "tau"): "builder.defaults.shape",
        (1, "mu"): "bodies[0].shapes[0]",
        (1, "margin"): "Newton default",
        (1, "gap"): "builder.rigid_gap",
        (2, "ke"): "bodies[0]",
        (2, "tau"): "builder.defaults.shape",
        (2, "mu"): "post_build[0]",
        (2, "margin"): "Newton default",
        (2, "gap"): "bodies[0].shapes[1]",
        (ground, "ke"): "ground",
        (ground, "tau"): "builder.defaults.shape",
        (ground, "mu"): "builder.defaults.shape",
        (ground, "margin"): "Newton default",
        (ground, "gap"): "builder.rigid_gap",
    }
    explanation = explain_contact(scene.sap_model, 2, ground, dt=0.005, provenance=scene.provenance)
    assert explanation.shape_a.mu.source == "post_build[0]"
    assert explanation.shape_a.mu.value == pytest.approx(0.9)


def test_a_file_that_says_more_than_the_default_is_named():
    """Materials of an MJCF file win over the defaults of the scene and are told as the file's."""
    text = """<mujoco><worldbody><body><freejoint/><geom type='sphere' size='0.1' friction='0.3 0 0'/></body>
    </worldbody></mujoco>"""
    scene = load_sap_scene({"assets": [{"type": "mjcf", "source": text}]}, device="cpu")
    assert scene.provenance[0, "mu"] == "file of assets[0]"
