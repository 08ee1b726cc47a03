"""Links without mass that carry the collision geometry, as URDF files often have them, through the scene loader."""

import json

import pytest

from sap_warp import Simulation, cli, load_sap_scene

ROBOT = """<robot name='stool'>
<link name='base'><inertial><mass value='1'/>
<inertia ixx='0.02' iyy='0.02' izz='0.02' ixy='0' ixz='0' iyz='0'/></inertial></link>
<link name='foot'><collision><geometry><box size='0.4 0.4 0.2'/></geometry></collision></link>
<joint name='weld' type='fixed'><parent link='{parent}'/><child link='{child}'/><origin xyz='0 0 {z}'/></joint>
</robot>"""
TREES = {"foot below": ("base", "foot", -0.4, 0.5), "foot is the root": ("foot", "base", 0.4, 0.1)}


def scene(tree, collapse=False):
    parent, child, z, height = TREES[tree]
    source = ROBOT.format(parent=parent, child=child, z=z)
    asset = {"type": "urdf", "source": source, "floating": True, "collapse_fixed_joints": collapse}
    place = {"transform": {"p": [0.0, 0.0, height + 0.001]}}
    return {
        "builder": {"defaults": {"shape": {"density": 0.0}}},
        "assets": [{**asset, **place}],
        "ground": True,
    }, height


@pytest.mark.parametrize("preset", ["approx32", "approx64", "drake"])
@pytest.mark.parametrize("collapse", [False, True])
@pytest.mark.parametrize("tree", TREES)
def test_a_massless_foot_rests_on_the_floor(tree, collapse, preset):
    """A base of 1 kg on a foot without mass rests where it stands, in every preset, welded or merged."""
    document, height = scene(tree, collapse)
    loaded = load_sap_scene(document, device="cpu")
    sim = Simulation.from_loaded(loaded, contact_preset_variant=preset)
    assert loaded.sap_model.body_mass.numpy().tolist() == (
        [1.0] if collapse else sorted([0.0, 1.0], reverse=tree == "foot below")
    )
    sim.step(200)
    assert sim.solver.last_converged
    assert sim.state.joint_q.numpy()[2] == pytest.approx(height, abs=2e-3)


def test_the_command_line_knows_them(tmp_path, capsys):
    """`check` and `explain` of the same scene: valid, and the weight of what carries the foot."""
    document, _ = scene("foot below")
    path = tmp_path / "stool.yaml"
    path.write_text(json.dumps(document))
    assert cli.main(["check", str(path)]) == 0
    assert cli.main(["explain", str(path), "foot", "DEFAULT_GROUND"]) == 0
    assert "has no mass: w is that of 'base'" in capsys.readouterr().out
