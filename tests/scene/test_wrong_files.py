"""What is given as a scene and is none: other formats, pipes, devices, objects; and arguments of the wrong kind."""
# ruff: noqa: E501 - texts of other formats and messages on one line

import json
import os
import threading

import numpy as np
import pytest

import sap_warp
from sap_warp.cli import main
from sap_warp.scene.shipped.scene_files import UnknownSceneError, find_scene_file
from sap_warp.scene.shipped.scenes import build_scene
from tests.support.scene_files import boxes, load, package, problem_of

URDF = "<?xml version='1.0'?>\n<!-- a robot -->\n<robot name='r'><link name='a'/></robot>"


def error_of(file, **options):
    with pytest.raises(sap_warp.SapSceneError) as caught:
        load(file, **options)
    return str(caught.value).replace(str(file), "FILE")


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("arm.urdf", URDF, "this is a URDF file, not a scene; a scene names it: 'assets: [{type: urdf, source: arm.urdf}]' in a YAML file beside it"),
        ("arm.yaml", URDF, "this is a URDF file, not a scene;"),
        ("arm.json", URDF, "this is a URDF file, not a scene;"),
        ("arm.xml", "<mujoco model='m'></mujoco>", "this is an MJCF file, not a scene; a scene names it: 'assets: [{type: mjcf, source: arm.xml}]'"),
        ("arm.usda", '#usda 1.0\n(defaultPrim = "a")', "this is a USD stage, not a scene;"),
        ("arm.usd", b"PXR-USDC\0\0\xff\xfe", "this is a USD stage, not a scene;"),
        ("arm.usdz", b"PK\x03\x04\xff", "this is a USD stage, not a scene;"),
        ("page.yaml", "<html><body/></html>", "this is <html>, not a scene; a scene is YAML or JSON"),
        ("other.yaml", "<", "this is XML, not a scene;"),
    ],
)  # fmt: skip
def test_another_format_is_named_and_the_way_to_use_it(tmp_path, name, content, message):
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert error_of(file).startswith("FILE: " + message)


def test_the_schema_of_scenes_is_no_scene(tmp_path, capsys):
    assert main(["schema"]) == 0
    (tmp_path / "scene.schema.json").write_text(capsys.readouterr().out)
    assert error_of(tmp_path / "scene.schema.json") == "FILE: this is a JSON schema for editors, not a scene"


@pytest.fixture(params=["pipe", "device", "folder", "socket"])
def odd(request, tmp_path):
    """Something that is in the file system and is no regular file, with what messages call it."""
    path = tmp_path / "odd.yaml"
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "device":
        path = "/dev/zero"
    elif request.param == "folder":
        path.mkdir()
    else:
        import socket

        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    return str(path), request.param


def finishes(function):
    """The outcome of a function that must not wait for anything."""
    outcome = []
    worker = threading.Thread(target=lambda: outcome.append(function()), daemon=True)
    worker.start()
    worker.join(60.0)
    assert outcome, "it waits for ever"
    return outcome[0]


def test_what_is_no_regular_file_is_refused_at_once_by_the_api(odd):
    path, kind = odd

    def attempt():
        try:
            load(path)
        except sap_warp.SapSceneError as error:
            return str(error)

    assert finishes(attempt) == f"{path}: this is a {kind}; a scene is a YAML or JSON file"


@pytest.mark.parametrize("command", [["run"], ["check"], ["bench", "--scene"], ["explain"]])
def test_what_is_no_regular_file_is_refused_at_once_by_the_command_line(odd, command, capsys):
    path, kind = odd
    assert finishes(lambda: main([*command, path])) == 2
    word = "a folder" if kind == "folder" else "a pipe or device"
    assert capsys.readouterr().err == f"sap-warp: error: {path!r} is {word}; a scene is a YAML or JSON file.\n"


def test_a_folder_does_not_hide_a_shipped_scene(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "humanoid").mkdir()
    assert find_scene_file("humanoid").name == "humanoid.yaml"
    with pytest.raises(UnknownSceneError, match="there is no scene file"):
        find_scene_file("a\0b.yaml")


def test_an_asset_that_names_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "mesh.stl")
    text = "<mujoco><asset><mesh name='m' file='mesh.stl'/></asset><worldbody><body><freejoint/><geom type='mesh' mesh='m'/></body></worldbody></mujoco>"
    (tmp_path / "robot.xml").write_text(text)
    scene = {"assets": [{"type": "mjcf", "source": str(tmp_path / "robot.xml")}]}
    assert finishes(lambda: problem_of(scene)).endswith("mesh.stl, which is not a regular file")
    for kind in ("mjcf", "urdf", "usd"):
        source = {"assets": [{"type": kind, "source": str(tmp_path / "mesh.stl")}]}
        assert "which is not a regular file" in finishes(lambda source=source: problem_of(source))


# Arguments


@pytest.mark.parametrize("source", [None, 3, 2.5, True, b"scene.yaml", ["scene.yaml"], {1, 2}, object()])
def test_a_scene_is_a_path_or_a_mapping(source):
    for function in (sap_warp.load_sap_scene, sap_warp.load_sap_scene_config, sap_warp.Simulation.from_scene):
        with pytest.raises(TypeError, match="a scene is a path or a mapping, found "):
            function(source)
    with pytest.raises(TypeError, match="a scene is a path or the name of a shipped scene"):
        build_scene(source)


@pytest.mark.parametrize("name", ["strict", "confine"])
@pytest.mark.parametrize("value", ["yes", 1, 0, [], np.True_])
def test_switches_are_booleans(name, value):
    with pytest.raises(TypeError, match=f"{name} is .*; it must be True or False"):
        load(boxes(), **{name: value})


@pytest.mark.parametrize("device", [[], {}, 3.5, "cuda:99", "", object()])
def test_a_device_is_one_that_there_is(device):
    with pytest.raises((TypeError, ValueError), match=r"device is .*; it must be a Warp device|Invalid device"):
        sap_warp.load_sap_scene(boxes(), device=device)


def test_an_argument_that_is_too_large_has_no_line_of_the_file(tmp_path):
    (tmp_path / "scene.json").write_text(json.dumps(boxes()))
    assert error_of(tmp_path / "scene.json", num_worlds=2**21) == (
        "FILE: found 2097152 worlds; at most 1048576 are possible"
    )


def test_counts_may_be_numpy_integers():
    assert load(boxes(), num_worlds=np.int64(2)).num_worlds == 2


class Rude:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name):
        raise RuntimeError("no")

    def __repr__(self):
        raise RuntimeError("no")

    def __eq__(self, other):
        raise RuntimeError("no")

    def __hash__(self):
        return 1


class RudeMapping(dict):
    def items(self):
        raise KeyError("gone")


class RudeArray:
    def tolist(self):
        raise OSError("device lost")


def test_objects_that_raise_are_problems_of_the_scene():
    assert problem_of({"bodies": RudeMapping(a=1)}) == "bodies: this object cannot be read: KeyError('gone')"
    assert problem_of(boxes(replicate={"spacing": RudeArray()})) == (
        "replicate.spacing: this object cannot be read: OSError('device lost')"
    )
    assert "cannot be read" in problem_of(RudeMapping(a=1))
    assert "name: " in problem_of({"name": Rude()})
    assert problem_of({Rude(): 1}) == "this object cannot be read: RuntimeError('no')"


class Odd:
    def __eq__(self, other):
        raise RuntimeError("no")

    __hash__ = None

    def __repr__(self):
        raise RuntimeError("no")


def test_objects_that_no_scene_holds_are_shown():
    assert problem_of(boxes(simulation={"dt": 1j})) == "simulation.dt: found 1j; expected a number"
    assert problem_of(boxes(simulation={"dt": Odd()})) == (
        "simulation.dt: found an object of Odd that cannot be shown; expected a number"
    )
    for value in (Odd(), {1, 2}, b"x", range(3)):
        assert problem_of(
            {"bodies": [{"id": "a", "transform": value}], "joints": [{"id": "j", "type": "free", "child": "a"}]}
        )


def test_paths_in_a_mapping_may_be_path_objects(tmp_path):
    (tmp_path / "arm.urdf").write_text(
        "<robot name='r'><link name='a'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' "
        "iyz='0'/></inertial></link></robot>"
    )
    scene = {"assets": [{"type": "urdf", "source": tmp_path / "arm.urdf", "floating": True}]}
    assert load(scene).body_labels == ["r/a"]


# Names that would talk to the terminal


ESCAPE = "\x1b[2J\x1b]0;gone\x07"


@pytest.mark.parametrize("character", ["\x1b", "\x07", "\x9b", "\u202e", "\u2028", "\x7f", "\n"])
def test_names_with_control_characters_are_refused(character):
    name = f"a{character}b"
    for scene, path in (
        (boxes(name=name), "name"),
        (boxes(ground={"label": name}), "ground.label"),
        ({"bodies": [{"id": name}], "joints": [{"id": "j", "type": "free", "child": name}]}, "bodies[0].id"),
        (boxes(assets=[{"type": "usd", "source": name}]), "assets[0].source"),
    ):
        with pytest.raises(sap_warp.SapSceneError) as caught:
            load(scene)
        message = str(caught.value)
        assert f"{path}: " in message and f"U+{ord(character):04X}, which terminals obey; remove it" in message
        assert character not in message.replace("\n", "") or character == "\n"


def test_texts_of_several_lines_are_texts():
    text = "one\n\ttwo: \u00e4\U0001f600\n"
    assert load(boxes(description=text)).description == text


def test_labels_of_assets_cannot_talk_to_the_terminal(tmp_path, capsys, monkeypatch):
    """XML takes C1 control characters, which some terminals obey."""
    text = URDF.replace("'r'", "'\x9b2Jr'").replace(
        "<link name='a'/>",
        "<link name='\u202ea'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/>"
        "</inertial><collision><geometry><sphere radius='0.1'/></geometry></collision></link>",
    )
    (tmp_path / "arm.urdf").write_text(text, encoding="utf-8")
    file = tmp_path / f"scene{ESCAPE}.yaml"
    file.write_text(
        "assets: [{type: urdf, source: arm.urdf, floating: true}]\npost_build: [{op: add_shape, body: a, shape: {type: sphere, radius: 0.1}}]"
    )
    loaded = load({"assets": [{"type": "urdf", "source": str(tmp_path / "arm.urdf"), "floating": True}]})
    assert loaded.body_labels == ["\\x9b2Jr/\\u202ea"]
    for command in (["check", str(file)], ["explain", str(file)], ["run", str(file)[:-1]]):
        main(command)
        shown = capsys.readouterr()
        assert all(c.isprintable() or c == "\n" for c in shown.out + shown.err)
        assert shown.out + shown.err


def test_a_robot_of_a_package_is_found_by_a_scene_in_any_folder():
    assert load({"assets": [{"type": "mjcf", "source": package("nv_humanoid.xml")}]}).body_labels
