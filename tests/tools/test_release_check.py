"""`make release-check`: what its rules accept, and what they say about the rest."""

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "release_check.py"
TRACKED = ["README.md", "sap_warp/__init__.py", "sap_warp/core/native/rows.h", "assets/yaml/cube.yaml"]
PACKED = ["sap_warp/__init__.py", "sap_warp/core/native/rows.h", "sap_warp/assets/yaml/cube.yaml"]


@pytest.fixture(scope="module")
def check():
    """The tool as a module."""
    spec = importlib.util.spec_from_file_location("release_check", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_version_is_read_and_compared(check):
    """The version of the project table counts, not another one."""
    version = check.project_version('[tool.x]\nversion = "9"\n[project]\nname = "a"\nversion = "1.2.3"\n')
    assert version == "1.2.3"
    assert check.version_problems(version, "1.2.3") == []
    (problem,) = check.version_problems(version, "1.2.2")
    assert "1.2.3" in problem and "1.2.2" in problem and "install" in problem


@pytest.mark.parametrize(
    "text",
    [
        "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- Something.\n",
        "## [1.2.3] - 2024-02-29\n\n- Something.\n",
        "## Unreleased\n\n## 1.2.3 - 2024-02-29\n\n- Something.\n",
    ],
)
def test_changelog_with_the_version_passes(check, text):
    """A dated section or lines that are not released yet, with or without brackets."""
    assert check.changelog_problems(text, "1.2.3") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "neither"),
        ("## [1.2.30] - 2024-02-29\n\n- Something.\n", "neither"),
        ("## [Unreleased]\n\n### Added\n\n## [1.2.2] - 2024-02-29\n\n- Something.\n", "nothing about 1.2.3"),
        ("## [Unreleased]\n\n- Something.\n\n## [1.2.3] - 2024-02-29\n", "nothing about 1.2.3"),
        ("## [1.2.3]\n\n- Something.\n", "no date"),
        ("## [1.2.3] - soon\n\n- Something.\n", "no date"),
    ],
)
def test_changelog_without_the_version_is_refused(check, text, words):
    """Neither an empty section nor one of another version is enough."""
    (problem,) = check.changelog_problems(text, "1.2.3")
    assert words in problem


def test_tag_must_be_free(check):
    """Only the very same version is taken."""
    assert check.tag_problems(["v1.2.2", "v1.2.30", "1.2.3"], "1.2.3") == []
    assert "v1.2.3 exists" in check.tag_problems(["v1.2.2", "v1.2.3"], "1.2.3")[0]


def test_changed_files_are_named(check):
    """Changed and new files, but not hundreds of them."""
    assert check.tree_problems("") == []
    (problem,) = check.tree_problems(" M README.md\n?? new.py\n")
    assert "README.md, new.py" in problem
    (problem,) = check.tree_problems("".join(f"?? {i}.py\n" for i in range(9)))
    assert problem.endswith("4.py and 4 more")


def test_wheel_has_package_and_assets(check):
    """The assets lie inside the package, what is around it stays outside."""
    assert check.wheel_files(TRACKED) == set(PACKED)


@pytest.mark.parametrize("missing", PACKED)
def test_missing_file_is_named(check, missing):
    """Also a header or a scene, which no import would miss."""
    assert check.content_problems("a.whl", PACKED, PACKED) == []
    (problem,) = check.content_problems("a.whl", [name for name in PACKED if name != missing], PACKED)
    assert problem.startswith(f"a.whl lacks: {missing};")


@pytest.mark.parametrize(
    "name",
    [
        "sap_warp/__pycache__/model.cpython-311.pyc",
        "sap_warp/model.pyc",
        ".pytest_cache/README.md",
        "tests/.hypothesis/constants/0",
        ".warp_cache/kernel.o",
    ],
)
def test_caches_are_refused(check, name):
    """Whatever tools leave behind."""
    (problem,) = check.content_problems("a.whl", [*PACKED, name], PACKED)
    assert "caches" in problem and name in problem


def test_stray_files_are_refused(check):
    """What is in nobody's commit is in nobody's release."""
    (problem,) = check.content_problems("a.whl", [*PACKED, "sap_warp/notes.txt"], PACKED)
    assert "does not track: sap_warp/notes.txt" in problem


def test_this_changelog_passes(check):
    """The changelog of the repository has something to say about the next version."""
    root = TOOL.parents[1]
    version = check.project_version((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert check.changelog_problems((root / "CHANGELOG.md").read_text(encoding="utf-8"), version) == []
