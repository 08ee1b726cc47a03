"""What docs/loader.md shows works as shown."""
# ruff: noqa: E501 - texts of other formats on one line

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

import sap_warp
from sap_warp.scene import size
from sap_warp.scene.assets import decomposition
from sap_warp.scene.text.document import MAX_BYTES
from sap_warp.scene.text.yaml_text import MAX_NESTING, MAX_NODES
from tests.support import markdown
from tests.support.scene_files import boxes, load

PATH = markdown.ROOT / "docs" / "loader.md"
PAGE = PATH.read_text(encoding="utf-8")
ARM = """<robot name='arm'><link name='base'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0'
iyz='0'/></inertial><collision><geometry><sphere radius='0.1'/></geometry></collision></link></robot>"""


def blocks(kind):
    return [block.text for block in markdown.blocks(PATH, kind)]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the small scene of the page as box.yaml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "box.yaml").write_text(blocks("yaml")[0])
    return tmp_path


def test_the_asset_example_loads(here):
    (here / "robots").mkdir()
    (here / "robots" / "arm.urdf").write_text(ARM)
    (here / "arm.yaml").write_text(blocks("yaml")[1].replace("floating: false", "floating: true"))
    model = load(here / "arm.yaml").sap_model
    assert model.shape_material_mu.numpy()[0] == np.float32(0.8) and model.body_q.numpy()[0, 2] == 0.5


def test_the_example_of_convex_parts_parses():
    """And names what the code has."""
    (block,) = [block for block in blocks("yaml") if "decomposition" in block]
    (asset,) = sap_warp.load_sap_scene_config(yaml.safe_load(block)).assets
    assert (asset.meshes, asset.decomposition.threshold, asset.decomposition.max_parts) == ("parts", 0.02, 16)
    assert decomposition.FOLDER in PAGE and decomposition.INSTALL in PAGE
    assert f"{decomposition.PartOptions().threshold} if not given" in PAGE


def test_the_edits_parse_and_the_copies_of_the_words_do(here):
    edits = yaml.safe_load(next(block for block in blocks("yaml") if "post_build" in block))
    scene = sap_warp.load_sap_scene_config({**boxes(), **edits})
    assert len(scene.post_build) == 6


def test_the_example_of_problems_is_what_such_a_scene_gives(here):
    """The small scene with its three mistakes; lines are those of the file."""
    text = (here / "box.yaml").read_text()
    text = text.replace("hx: 0.5", "hx: -0.5").replace("child: box", "child: bx")
    text += "post_build:\n  - {op: set_array, array: joint_q, rang: [0, 1], value: 0}\n"
    (here / "box.yaml").write_text(text)
    with pytest.raises(sap_warp.SapSceneError) as caught:
        load("box.yaml")
    shown = next(block for block in blocks("text") if "box.yaml" in block)
    strip = re.compile(r"^box\.yaml:\d+: ", re.MULTILINE)
    found = [line for line in str(caught.value).splitlines() if "nothing is selected" not in line]
    assert strip.sub("", "\n".join(found)) == strip.sub("", shown.strip())
    for line in found:
        key = re.search(r"\.(\w+): ", line)[1]
        assert key in text.splitlines()[int(re.match(r"box\.yaml:(\d+)", line)[1]) - 1]


def test_limits_are_those_of_the_code():
    assert (
        f"{MAX_BYTES // 2**20} MB of text, {MAX_NODES:,} values, {MAX_NESTING} levels, 2^{size.MAX_WORLDS.bit_length() - 1} worlds"
        in PAGE
    )
    with pytest.raises(sap_warp.SapSceneError, match="at most 1048576 are possible"):
        load(boxes(), num_worlds=size.MAX_WORLDS + 1)


def test_words_are_read_as_the_page_says():
    from sap_warp.scene.text.yaml_text import resolve_plain

    sentence = PAGE[PAGE.index("Words without quotes") :].split("\n\n")[0]
    for word, value in re.findall(r"`(\w+)` is (\d+)", sentence):
        assert resolve_plain(word) == int(value)
    texts = re.search(r"((?:`[^`]+`(?:, | and )?)+) and dates are texts", sentence)[1]
    assert all(resolve_plain(word) == word for word in re.findall(r"`([^`]+)`", texts))


def test_problems_of_assets_and_bodies_come_together_and_before_those_of_edits(here):
    scene = boxes(
        assets=[{"type": "urdf", "source": "missing.urdf"}],
        post_build=[{"op": "set_joint_q", "joint": "nobody", "value": 1.0}],
    )
    scene["bodies"][0]["shapes"].append({"type": "mesh", "source": "missing.obj"})
    with pytest.raises(sap_warp.SapSceneError) as caught:
        load(scene)
    assert {problem.path[0] for problem in caught.value.problems} == {"assets", "bodies"}


# Sentences about assets

LINK = "<link name='{name}'>{inertial}<collision><geometry><box size='1 1 1'/></geometry></collision></link>"
INERTIAL = "<inertial><mass value='3'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial>"


def robot(links, **options):
    return {"assets": [{"type": "urdf", "source": f"<robot name='r'>{links}</robot>", "floating": True, **options}]}


def test_density_acts_where_the_file_gives_no_mass():
    bare = robot(LINK.format(name="a", inertial=""), cfg={"density": 7.0})
    assert load(bare).sap_model.body_mass.numpy()[0] == pytest.approx(7.0)
    given = robot(LINK.format(name="a", inertial=INERTIAL), cfg={"density": 7.0})
    assert load(given).sap_model.body_mass.numpy()[0] == pytest.approx(3.0)


def test_collision_can_be_taken_away_but_not_given():
    visual = LINK.format(name="a", inertial=INERTIAL + "<visual><geometry><sphere radius='1'/></geometry></visual>")

    def colliding(**cfg):
        return [bool(flags & 2) for flags in load(robot(visual, cfg=cfg)).sap_model.shape_flags.numpy()[:2]]

    assert sorted(colliding()) == [False, True]
    assert colliding(has_shape_collision=False) == [False, False]
    assert colliding(has_shape_collision=True) == colliding()


def test_meshes_are_not_downloaded():
    mesh = "<link name='a'><visual><geometry><mesh filename='{}'/></geometry></visual></link>"
    for address in ("https://example.com/a.stl", "http://example.com/a.stl", "model://a/a.stl"):
        with pytest.raises(sap_warp.SapSceneError, match="mesh files are missing"):
            load(robot(mesh.format(address)))


def test_damping_of_a_urdf_joint_is_viscous_and_no_drive():
    joint = "<joint name='j' type='continuous'><parent link='a'/><child link='b'/><axis xyz='0 0 1'/><dynamics damping='0.5'/></joint>"
    links = "".join(LINK.format(name=name, inertial=INERTIAL) for name in "ab")
    model = load(robot(links + joint)).sap_model
    assert model.joint_damping.numpy()[-1] == 0.5 and model.joint_target_kd.numpy()[-1] == 0.0


def test_a_free_joint_starts_where_its_body_is():
    scene = boxes()
    scene["bodies"][0]["transform"] = {"p": [1, 2, 3]}
    assert load(scene).sap_model.joint_q.numpy().tolist() == [1, 2, 3, 0, 0, 0, 1]


def test_defaults_are_those_of_the_table():
    loaded = load(boxes())
    model = loaded.sap_model
    assert loaded.dt == 0.003 and model.shape_gap.numpy()[0] == np.float32(0.005)
    assert model.shape_material_ke.numpy()[0] == 1e6 and model.shape_material_tau.numpy()[0] < 0.0  # the solver's
    assert sap_warp.SapOptions().contact_tau_d == 0.01 and loaded.max_rigid_contact >= 4


def test_the_printed_schema_is_the_page(capsys):
    from sap_warp.cli import main

    assert main(["schema"]) == 0
    page = Path(__file__).resolve().parents[2] / "docs" / "scene.schema.json"
    assert json.loads(capsys.readouterr().out) == json.loads(page.read_text())
