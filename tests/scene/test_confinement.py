"""Files that a fetched asset names stay inside its repository."""

import subprocess

import pytest

from sap_warp import SapSceneError, load_sap_scene

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
