"""Asset sources that need no git: local files, installed packages, and what is shown while waiting."""

import importlib.metadata
import io
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sap_warp.scene.assets.sources import AssetSourceError, resolve_local, resolve_package
from sap_warp.scene.assets.sources.progress import PLAIN_INTERVAL, StreamReporter, parse_progress

LFS_POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 123456\n"


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A scene folder and a current directory, each with a file of its own and one of the same name."""
    scene, here = tmp_path / "scene", tmp_path / "here"
    for folder in (scene, here):
        folder.mkdir()
        (folder / "both.urdf").write_text(folder.name)
        (folder / f"only_{folder.name}.urdf").write_text(folder.name)
    monkeypatch.chdir(here)
    return scene, here


def test_a_local_path_is_looked_for_beside_the_scene_first(folders):
    scene, here = folders
    assert resolve_local("both.urdf", scene) == scene / "both.urdf"
    assert resolve_local("both.urdf", None) == here / "both.urdf"
    assert resolve_local("only_here.urdf", scene) == here / "only_here.urdf"
    assert resolve_local("../here/both.urdf", scene).read_text() == "here"
    assert resolve_local(str(here / "both.urdf"), scene) == here / "both.urdf"


def test_a_relative_scene_folder_gives_an_absolute_path(folders):
    scene, _ = folders
    found = resolve_local("only_scene.urdf", Path("../scene"))
    assert found.is_absolute() and found.samefile(scene / "only_scene.urdf")


def test_tilde_is_the_home_directory(folders, monkeypatch):
    scene, here = folders
    monkeypatch.setenv("HOME", str(here))
    assert resolve_local("~/both.urdf", scene) == here / "both.urdf"
    with pytest.raises(AssetSourceError, match=r"home"):
        resolve_local("~nobody_of_this_name/x.urdf", scene)


def test_a_link_is_kept_so_that_neighbours_are_found_beside_it(folders):
    scene, here = folders
    (scene / "link.urdf").symlink_to(here / "both.urdf")
    assert resolve_local("link.urdf", scene) == scene / "link.urdf"


def test_a_missing_local_file_names_the_places_and_its_neighbours(folders):
    scene, here = folders
    with pytest.raises(AssetSourceError) as error:
        resolve_local("only_sceen.urdf", scene)
    for text in ("'only_sceen.urdf'", str(scene / "only_sceen.urdf"), str(here), "Did you mean", "only_scene.urdf"):
        assert text in str(error.value)
    with pytest.raises(AssetSourceError, match=r"Did you mean '.*scene'"):
        resolve_local(str(scene.parent / "scenes/both.urdf"), None)


def test_a_folder_is_not_an_asset(folders):
    scene, _ = folders
    with pytest.raises(AssetSourceError, match=r"is a folder.*both\.urdf, only_scene\.urdf"):
        resolve_local(str(scene), None)


def test_a_pipe_is_not_an_asset(folders):
    scene, _ = folders
    os.mkfifo(scene / "pipe")
    with pytest.raises(AssetSourceError, match=r"not a regular file"):
        resolve_local("pipe", scene)


def test_a_local_lfs_pointer_is_recognised(folders):
    scene, _ = folders
    (scene / "mesh.usda").write_text(LFS_POINTER)
    with pytest.raises(AssetSourceError, match=r"LFS pointer to 123456 bytes.*git lfs pull"):
        resolve_local("mesh.usda", scene)


@given(text=st.one_of(st.text(), st.none(), st.integers(), st.lists(st.text()), st.just("a" * 300 + "/x")))
def test_any_local_path_is_found_or_refused_with_our_error(text):
    try:
        found = resolve_local(text, Path(__file__).parent)
    except AssetSourceError:
        return
    assert found.is_file()


@pytest.mark.parametrize(
    ("distribution", "path", "end"),
    [
        ("newton", "newton/examples/assets/nv_humanoid.xml", "newton/examples/assets/nv_humanoid.xml"),
        ("newton", "examples/assets/nv_humanoid.xml", "newton/examples/assets/nv_humanoid.xml"),
        ("newton", "nv_humanoid.xml", "newton/examples/assets/nv_humanoid.xml"),
        ("example-robot-data", "robots/panda_description/urdf/panda.urdf", "panda_description/urdf/panda.urdf"),
        ("Example_Robot.Data", "panda_description/urdf/panda.urdf", "panda_description/urdf/panda.urdf"),
        ("example-robot-data", "robots/ur_description/urdf/ur10_robot.urdf", "ur_description/urdf/ur10_robot.urdf"),
    ],
)
def test_a_file_of_an_installed_package_is_found_by_a_short_path(distribution, path, end):
    found = resolve_package(distribution, path)
    assert found.is_absolute() and found.is_file() and str(found).endswith("/" + end)


def test_all_files_around_a_packaged_robot_are_there():
    """The path leads into the real folder, where the importer finds the meshes."""
    urdf = resolve_package("example-robot-data", "robots/go2_description/urdf/go2.urdf")
    assert list((urdf.parents[1]).rglob("*.dae")) or list((urdf.parents[1]).rglob("*.stl"))


def test_an_ambiguous_package_path_lists_the_files():
    with pytest.raises(AssetSourceError, match=r"end of 2 files.*anymal_b_simple.*anymal_c_simple.*Give more"):
        resolve_package("example-robot-data", "anymal.urdf")


def test_a_missing_package_file_names_near_ones_in_their_short_form():
    with pytest.raises(AssetSourceError, match=r"has no file .*mean 'robots/panda_description/urdf/panda\.urdf'"):
        resolve_package("example-robot-data", "robots/panda_description/urdf/pandaa.urdf")


def test_a_package_that_is_not_installed_names_the_extra(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(AssetSourceError, match=r"pip install 'sap-warp\[robots\]'"):
        resolve_package("example_robot_data", "robots/panda_description/urdf/panda.urdf")


def test_an_unknown_package_suggests_an_installed_one_and_no_command_to_copy():
    with pytest.raises(AssetSourceError, match=r"not installed.*mean 'newton'") as error:
        resolve_package("newtom", "x.xml")
    assert "pip install" not in str(error.value)


@pytest.mark.parametrize(
    "path", ["../x", "newton/../../x", "/etc/passwd", "", ".", "a\\b", "a\nb", "newton\0", " a", 3, None]
)
def test_a_package_path_cannot_leave_the_package(path):
    with pytest.raises(AssetSourceError, match=r"package path"):
        resolve_package("newton", path)


@pytest.mark.parametrize("name", ["", "../newton", "newton/", "-newton", "a b", "newton\n", None, 1, "x" * 5000])
def test_a_package_name_is_only_a_name(name):
    with pytest.raises(AssetSourceError, match=r"package name"):
        resolve_package(name, "x.xml")


def _install(site: Path, name: str, files: dict[str, str], listed: list[str]) -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in listed))
    for file, text in files.items():
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).write_text(text)


def test_files_of_an_editable_installation_are_found_beside_its_sources(tmp_path, monkeypatch):
    """Such a distribution lists no data files; they stand beside the modules."""
    _install(tmp_path, "sap_test_robots", {"sap_test_robots/__init__.py": "", "sap_test_robots/a/r.urdf": "r"}, [])
    monkeypatch.syspath_prepend(str(tmp_path))
    for path in ("a/r.urdf", "sap_test_robots/a/r.urdf"):
        assert resolve_package("sap-test-robots", path) == tmp_path / "sap_test_robots/a/r.urdf"
    assert "sap_test_robots" not in sys.modules, "looking for a file must not run the package"


def test_scripts_outside_of_the_installation_are_not_assets(tmp_path, monkeypatch):
    """A distribution may list `../../bin/tool`; a scene may not reach it by its last part."""
    (tmp_path / "tool").write_text("x")
    _install(tmp_path / "site", "sap_test_tool", {}, ["../tool", "sap_test_tool/gone.urdf"])
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(AssetSourceError, match=r"has no file 'tool'"):
        resolve_package("sap-test-tool", "tool")
    with pytest.raises(AssetSourceError, match=r"does not exist; install the package again"):
        resolve_package("sap-test-tool", "gone.urdf")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("Receiving objects:  45% (9/20), 1.20 MiB | 300.00 KiB/s", "Receiving objects 45%, 1.20 MiB"),
        ("remote: Counting objects: 100% (9/9), done.", "Counting objects 100%"),
        ("Updating files:   7% (1/13)", "Updating files 7%"),
        ("fatal: not our ref 12% of all", None),
        ("From /some/where", None),
    ],
)
def test_progress_of_git_is_read(line, text):
    assert parse_progress(line) == text


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_one_line_that_is_rewritten():
    stream = _Terminal()
    reporter = StreamReporter(stream)
    for percent in (1, 2, 3):
        reporter(f"robots: Receiving objects {percent}%")
    reporter.close()
    assert stream.getvalue().count("\r\x1b[2K") == 3
    assert stream.getvalue().count("\n") == 1 and stream.getvalue().endswith("3%\n")


def test_a_log_gets_a_line_per_phase_and_then_one_at_intervals():
    stream, now = io.StringIO(), 0.0
    reporter = StreamReporter(stream, clock=lambda: now)
    for percent in range(100):
        now = percent * PLAIN_INTERVAL / 50
        reporter(f"robots: Receiving objects {percent}%, {percent}.0 MiB")
    reporter("robots: Resolving deltas 1%")
    reporter.close()
    assert stream.getvalue().splitlines() == [
        "robots: Receiving objects 0%, 0.0 MiB",
        "robots: Receiving objects 50%, 50.0 MiB",
        "robots: Resolving deltas 1%",
    ]
