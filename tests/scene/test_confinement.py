"""Files that a fetched asset names stay inside its repository."""
# ruff: noqa: E501 - texts of other formats and messages on one line

import subprocess

import pytest

from sap_warp import SapSceneError, Simulation, load_sap_scene
from sap_warp.cli import main
from sap_warp.scene.shipped.scene_files import find_scene_file

URDF = """<robot name='r'><link name='a'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0'
iyz='0'/></inertial><collision><geometry><mesh filename='{mesh}'/></geometry></collision></link></robot>"""
MJCF = """<mujoco><asset><mesh name='m' file='{mesh}'/></asset><worldbody><body><freejoint/>
<geom type='mesh' mesh='m'/></body></worldbody></mujoco>"""
OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a robot whose mesh is inside of it and one whose mesh is outside."""
    monkeypatch.setenv("SAP_WARP_ASSET_CACHE", str(tmp_path / "cache"))
    outside = tmp_path / "secret.obj"
    outside.write_text(OBJ)
    folder = tmp_path / "repository"
    (folder / "robot").mkdir(parents=True)
    (folder / "robot" / "mesh.obj").write_text(OBJ)
    for name, text in (("urdf", URDF), ("xml", MJCF)):
        (folder / "robot" / f"good.{name}").write_text(text.format(mesh="mesh.obj"))
        (folder / "robot" / f"bad.{name}").write_text(text.format(mesh=outside))
    git = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@x"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "robots"], check=True)
    return folder


def scene(repository, path):
    kind = "urdf" if path.endswith("urdf") else "mjcf"
    source = {"git": {"repo": str(repository), "rev": "main", "sparse": ["robot"], "path": f"robot/{path}"}}
    return {"assets": [{"type": kind, "source": source, "floating": True}]}


@pytest.mark.parametrize("path", ["good.urdf", "good.xml"])
def test_a_mesh_inside_the_repository_loads(repository, path):
    assert load_sap_scene(scene(repository, path), device="cpu").sap_model.shape_count == 2


@pytest.mark.parametrize("path", ["bad.urdf", "bad.xml"])
def test_a_mesh_outside_the_repository_is_refused(repository, path):
    with pytest.raises(SapSceneError, match="not part of its repository"):
        load_sap_scene(scene(repository, path), device="cpu")


# A scene that is confined reads nothing outside of its own folder

BODY = "<link name='a'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial>"
PLAIN_URDF = f"<robot name='r'>{BODY}</link></robot>"
CONTROL = '{"dt": 0.1, "joint_labels": ["j"], "joint_target_pos": [[0.0]]}'


@pytest.fixture
def folder(tmp_path):
    """A scene folder with good files, and the same files outside of it."""
    inside = tmp_path / "scene"
    (inside / "robots").mkdir(parents=True)
    for place in (inside / "robots", tmp_path):
        (place / "robot.urdf").write_text(PLAIN_URDF)
        (place / "mesh.obj").write_text(OBJ)
        (place / "control.json").write_text(CONTROL)
        (place / "part.xml").write_text(
            "<mujoco><worldbody><body name='part'><freejoint/><geom size='1'/></body></worldbody></mujoco>"
        )
        (place / "deep.xml").write_text("<mujoco><include file='../part.xml'/></mujoco>")
        (place / "part.usda").write_text(
            '#usda 1.0\n(upAxis = "Z")\ndef Xform "b" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {\ndef Sphere "s" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}\n}'
        )
    (inside / "link.urdf").symlink_to(tmp_path / "robot.urdf")
    (inside / "good_link.urdf").symlink_to(inside / "robots" / "robot.urdf")
    (inside / "out").symlink_to(tmp_path)
    return inside


def write_scene(folder, text):
    file = folder / "scene.yaml"
    file.write_text(text)
    return file


def urdf(source):
    return f"assets: [{{type: urdf, source: {source}, floating: true}}]"


def mesh(source):
    return f"""\
bodies: [{{id: b, shapes: [{{type: mesh, source: {source}}}]}}]
joints: [{{id: j, type: free, child: b}}]"""


def control(source):
    return f"""\
bodies: [{{id: b, mass: 1, inertia: [1, 1, 1]}}]
joints: [{{id: j, type: revolute, child: b}}]
control: {{source: {source}}}"""


@pytest.mark.parametrize(
    "scene",
    [
        urdf("robots/robot.urdf"),
        urdf("{{path: robots/../robots/robot.urdf}}".replace("{{", "{").replace("}}", "}")),
        urdf("good_link.urdf"),
        urdf("'{inside}/robots/robot.urdf'"),
        mesh("robots/mesh.obj"),
        control("robots/control.json"),
        "assets: [{type: mjcf, source: {package: {name: newton, path: examples/assets/nv_humanoid.xml}}}]",
    ],
)
def test_a_confined_scene_reads_its_own_folder_and_packages(folder, scene):
    file = write_scene(folder, scene.replace("{inside}", str(folder)))
    load_sap_scene(file, device="cpu", confine=True)


@pytest.mark.parametrize(
    "scene",
    [
        urdf("../robot.urdf"),
        urdf("'{outside}/robot.urdf'"),
        urdf("link.urdf"),
        urdf("out/robot.urdf"),
        urdf("robots/../../robot.urdf"),
        urdf("~/robot.urdf"),
        mesh("../mesh.obj"),
        control("../control.json"),
    ],
)
def test_a_confined_scene_is_kept_out_of_other_folders(folder, scene, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    file = write_scene(folder, scene.replace("{outside}", str(folder.parent)))
    load_sap_scene(file, device="cpu")  # as its user, it may
    with pytest.raises(SapSceneError, match=r"leads out of the folder of the scene, which is confined") as caught:
        load_sap_scene(file, device="cpu", confine=True)
    assert caught.value.problems[0].line is not None


@pytest.mark.parametrize(
    "name, kind, text",
    [
        ("a.urdf", "urdf", URDF.format(mesh="../mesh.obj")),
        ("b.urdf", "urdf", URDF.format(mesh="package://scene/../mesh.obj")),
        ("a.xml", "mjcf", MJCF.format(mesh="../mesh.obj")),
        ("b.xml", "mjcf", "<mujoco><include file='../part.xml'/></mujoco>"),
        (
            "c.xml",
            "mjcf",
            "<mujoco><asset><model name='m' file='../part.xml'/></asset><worldbody><frame><attach model='m' body='part' prefix='p'/></frame></worldbody></mujoco>",
        ),
        ("d.xml", "mjcf", "<mujoco><include file='robots/deep.xml'/></mujoco>"),
        ("a.usda", "usd", '#usda 1.0\n(upAxis = "Z"\nsubLayers = [@../part.usda@])\n'),
        ("b.usda", "usd", '#usda 1.0\n(upAxis = "Z")\ndef "x" (references = @../part.usda@</b>) {}\n'),
    ],
)
def test_what_the_files_of_a_confined_scene_name_is_in_its_folder_too(folder, name, kind, text):
    (folder / name).write_text(text)
    file = write_scene(folder, f"assets: [{{type: {kind}, source: {name}, floating: true}}]")
    load_sap_scene(file, device="cpu")
    with pytest.raises(SapSceneError, match=r"not part of the folder of the scene, which is confined"):
        load_sap_scene(file, device="cpu", confine=True)


TEXTURED = """#usda 1.0
(upAxis = "Z")
def Xform "b" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
    def Sphere "s" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}
    custom asset picture = @NAME@
    custom asset[] pictures = [@NAME@]
}
"""


def test_textures_of_a_confined_scene_are_in_its_folder(folder):
    (folder.parent / "secret.png").write_bytes(b"png")
    (folder / "own.png").write_bytes(b"png")
    material = "<visual><geometry><sphere radius='1'/></geometry><material name='m'><texture filename='NAME'/></material></visual>"
    textured = "<mujoco><asset><texture type='2d' file='NAME'/></asset><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>"
    files = {"a.usda": TEXTURED, "a.urdf": PLAIN_URDF.replace("</link>", material + "</link>"), "a.xml": textured}
    for file, text in files.items():
        kind = {"a.usda": "usd", "a.urdf": "urdf", "a.xml": "mjcf"}[file]
        scene = write_scene(folder, f"assets: [{{type: {kind}, source: {file}, floating: true}}]")
        (folder / file).write_text(text.replace("NAME", "own.png"))
        load_sap_scene(scene, device="cpu", confine=True)
        (folder / file).write_text(text.replace("NAME", "../secret.png"))
        load_sap_scene(scene, device="cpu")
        with pytest.raises(SapSceneError, match=r"secret.png, which is not part of the folder of the scene"):
            load_sap_scene(scene, device="cpu", confine=True)
    (folder / "a.usda").write_text(TEXTURED.replace("NAME", "https://example.com/a.png"))
    with pytest.raises(SapSceneError, match=r"https://example.com/a.png, which is not part of"):
        load_sap_scene(
            write_scene(folder, "assets: [{type: usd, source: a.usda, floating: true}]"), device="cpu", confine=True
        )


@pytest.mark.parametrize("name", ["https://example.com/a.png", "http://example.com/a.png", "missing.png"])
def test_textures_of_a_urdf_are_not_downloaded(folder, name):
    material = f"<visual><geometry><sphere radius='1'/></geometry><material name='m'><texture filename='{name}'/></material></visual>"
    (folder / "a.urdf").write_text(PLAIN_URDF.replace("</link>", material + "</link>"))
    with pytest.warns(UserWarning, match=f"the texture '{name}' is left out"):
        load_sap_scene(write_scene(folder, urdf("a.urdf")), device="cpu")


@pytest.mark.parametrize(
    "files",
    [
        {"m.obj": "mtllib ../secret.mtl\n" + OBJ},
        {"m.obj": "mtllib m.mtl\n" + OBJ, "m.mtl": "newmtl a\nmap_Kd ../secret.mtl\n"},
        {"m.gltf": '{"asset": {"version": "2.0"}, "buffers": [{"uri": "../secret.mtl", "byteLength": 4}]}'},
    ],
)
def test_materials_and_buffers_that_a_mesh_names_are_in_the_folder_too(folder, files):
    (folder.parent / "secret.mtl").write_text("newmtl a\n")
    for name, text in files.items():
        (folder / name).write_text(text)
    for text in (mesh(next(iter(files))), urdf("r.urdf")):
        (folder / "r.urdf").write_text(URDF.format(mesh=next(iter(files))))
        with pytest.raises(SapSceneError, match=r"secret.mtl, which is not part of the folder of the scene"):
            load_sap_scene(write_scene(folder, text), device="cpu", confine=True)


def test_texts_inside_a_confined_scene_name_no_files_outside(folder):
    text = URDF.format(mesh=folder.parent / "mesh.obj").replace("\n", " ").replace("'", '"')
    file = write_scene(folder, f"assets: [{{type: urdf, source: '{text}', floating: true}}]")
    load_sap_scene(file, device="cpu")
    with pytest.raises(SapSceneError, match="not part of the folder of the scene"):
        load_sap_scene(file, device="cpu", confine=True)


def test_a_confined_mapping_has_no_files(folder):
    source = {"assets": [{"type": "urdf", "source": str(folder / "robots" / "robot.urdf"), "floating": True}]}
    load_sap_scene(source, device="cpu")
    with pytest.raises(SapSceneError, match="a confined scene that is not a file has no files"):
        load_sap_scene(source, device="cpu", confine=True)


@pytest.mark.parametrize("address", ["{path}", "file://{path}", "git@example.com:a/b.git", "ssh://example.com/a/b"])
def test_a_confined_scene_takes_repositories_by_https_only(repository, address):
    source = scene(repository, "good.urdf")
    source["assets"][0]["source"]["git"]["repo"] = address.format(path=repository)
    with pytest.raises(SapSceneError, match="a confined scene takes repositories by https:// only"):
        load_sap_scene(source, device="cpu", confine=True)


def test_a_shipped_scene_may_use_all_shipped_assets(monkeypatch):
    """Its control sequence stands in a folder beside that of the scenes."""
    file = find_scene_file("franka_pick_cube")
    assert "source: ../control/" in file.read_text()
    assert load_sap_scene(file, device="cpu", num_worlds=1, confine=True).control_sequence is not None


def test_the_environment_and_the_command_line_confine(folder, monkeypatch, capsys):
    file = str(write_scene(folder, urdf("../robot.urdf")))
    assert main(["check", file]) == 0
    for command in (["check"], ["run", "--duration", "0.01"], ["explain"], ["bench", "--frames", "1", "--scene"]):
        assert main([*command, file, "--confine"]) in (1, 2)
        assert "leads out of the folder of the scene, which is confined" in capsys.readouterr().err
    with pytest.raises(SapSceneError, match="confined"):
        Simulation.from_scene(file, device="cpu", confine=True)
    monkeypatch.setenv("SAP_WARP_CONFINE", "1")
    assert main(["check", file]) == 1
    with pytest.raises(SapSceneError, match="confined"):
        Simulation.from_scene(file, device="cpu")
    load_sap_scene(file, device="cpu", confine=False)
    monkeypatch.setenv("SAP_WARP_CONFINE", "0")
    assert main(["check", file]) == 0
