"""The package as a user meets it: what an import loads, which names it offers, what its metadata and README promise."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import warnings
from importlib import metadata, resources
from pathlib import Path
from types import ModuleType

import pytest

import sap_warp
import sap_warp.model
import sap_warp.scene
import sap_warp.solver
from tests.support.markdown import blocks

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
LAZY = (sap_warp, sap_warp.model, sap_warp.scene, sap_warp.solver)
"""Packages that load their names on first use."""
HEAVY_MODULES = {"newton", "warp", "numpy", "pxr", "viser", "rich", "pydantic", "yaml", "trimesh", "scipy"}


@pytest.fixture(scope="module")
def pyproject() -> dict:
    """The parsed pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def readme() -> str:
    """The text of the README."""
    return README.read_text(encoding="utf-8")


def run_python(code: str, folder: Path | None = None) -> str:
    """Standard output of a fresh interpreter that runs `code`."""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=folder)
    assert result.returncode == 0, result.stderr
    return result.stdout


def first_python_block(markdown: str) -> str:
    """The code of the first fenced Python block."""
    block = re.search(r"^```python\n(.*?)^```", markdown, flags=re.DOTALL | re.MULTILINE)
    assert block, "no ```python block"
    return block[1]


def names_for_type_checkers(package: ModuleType) -> dict[str, str]:
    """Name -> submodule of the imports under `if TYPE_CHECKING:` in a package's __init__."""
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module or alias.name for node in imports for alias in node.names}


@pytest.mark.parametrize("action", ["", "; dir(sap_warp); sap_warp.__version__; sap_warp.__all__"])
def test_import_loads_nothing_heavy(action):
    """Importing the package, or looking at what it offers, loads none of the large libraries."""
    loaded = run_python(f"import sys, sap_warp{action}; print(*sys.modules)").split()
    assert HEAVY_MODULES.isdisjoint(loaded)


def test_public_names_are_unique():
    """No name is exported twice."""
    assert len(sap_warp.__all__) == len(set(sap_warp.__all__))


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_lists_of_public_names_agree(package):
    """The loading table, `__all__` and the imports for type checkers say the same."""
    assert set(package.__all__) == set(package._SUBMODULE_OF)
    assert names_for_type_checkers(package) == package._SUBMODULE_OF


@pytest.mark.parametrize("package, name", [(package, name) for package in LAZY for name in package.__all__])
def test_public_name_resolves(package, name):
    """Every public name can be had, and is the object its submodule defines."""
    value, submodule = getattr(package, name), package._SUBMODULE_OF[name]
    module = sys.modules[f"{package.__name__}.{submodule}"]
    assert value is (module if name == submodule else getattr(module, name))


def test_public_submodule_loads_on_attribute_access():
    """A public submodule needs no import of its own."""
    assert run_python("import sap_warp; print(sap_warp.conventions.__name__)").strip() == "sap_warp.conventions"


def test_dir_lists_exactly_the_public_names():
    """Tab completion offers the public names and nothing else without an underscore."""
    offered = [name for name in dir(sap_warp) if not name.startswith("_")]
    assert offered == sorted(sap_warp.__all__)


def test_unknown_attribute_is_named_in_the_error():
    """A misspelt name fails the way it does for any module."""
    with pytest.raises(AttributeError, match="'sap_warp' has no attribute 'SolverSap'"):
        _ = sap_warp.SolverSap


def test_version_matches_pyproject(pyproject):
    """The version is written down once, in pyproject.toml."""
    assert sap_warp.__version__ == pyproject["project"]["version"]


def test_type_information_is_shipped():
    """Type checkers find the marker that tells them to read our annotations."""
    assert resources.files("sap_warp").joinpath("py.typed").is_file()


def test_requirements_come_from_the_default_index(pyproject):
    """No requirement names a host, a file or a repository."""
    project = pyproject["project"]
    requirements = [*pyproject["build-system"]["requires"], *project["dependencies"]]
    requirements += [item for extra in project["optional-dependencies"].values() for item in extra]
    assert [item for item in requirements if "@" in item or "/" in item] == []


def test_command_line_entry_point_resolves():
    """The `sap-warp` script points at something callable."""
    (script,) = metadata.entry_points(group="console_scripts", name="sap-warp")
    assert callable(script.load())


def test_readme_opens_with_the_commands_and_a_short_example(readme):
    """What a visitor needs stands on the first screen, and the example keeps to ten lines besides its imports."""
    first_screen = "\n".join(readme.splitlines()[:40])
    assert "make run" in first_screen
    assert "make test" in first_screen
    code = first_python_block(first_screen)
    lines = [line for line in code.splitlines() if line.strip() and not line.startswith(("#", "import "))]
    assert len(lines) <= 10
    assert ";" not in code


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_test_leaves_out_long_tests_of_cuda_and_ci_runs_all():
    """Arguments that somebody gives take the place of all others."""
    ours = ("ALL", "PYTEST_ARGS", "MAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL")  # of the make that runs this test
    env = {name: value for name, value in os.environ.items() if name not in ours}

    def pytest_arguments(*given):
        command = ["make", "--no-print-directory", "-n", "test", *given]
        made = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout
        return made.strip().splitlines()[-1].partition(" -m pytest ")[2]

    assert '-m "not long_cuda"' in pytest_arguments()
    assert "long_cuda" not in pytest_arguments("ALL=1")
    assert pytest_arguments("PYTEST_ARGS=tests/cuda -q") == "tests/cuda -q"
    assert (ROOT / ".ci/run").read_text(encoding="utf-8").endswith("\nmake test ALL=1\n")


@pytest.mark.slow
def test_the_first_example_of_the_readme_films_the_fall_and_resets_who_has_fallen(readme, tmp_path):
    """As printed, and it prints nothing else; most lie on the ground after two seconds, and nobody after the reset.

    A fresh interpreter runs it and warns of nothing, deprecations included.
    """
    head = "import warnings; caught = warnings.catch_warnings(record=True); seen = caught.__enter__()\n"
    tail = "\nassert not seen, [str(warning.message) for warning in seen]"
    after = '\nprint("lowest", sim.body_q["torso", 2].numpy().min())'
    code = f"{head}warnings.simplefilter('always')\n{first_python_block(readme)}{after}{tail}"
    out = run_python(code, tmp_path)
    said = re.fullmatch(r"(\d+) of 64 fell and stand again, fall.gif shows four of them\nlowest (\S+)\n", out)
    assert said, out
    assert 32 < int(said[1]) <= 64 and float(said[2]) >= 0.5
    assert (tmp_path / "fall.gif").stat().st_size > 1e5


@pytest.fixture
def said_by_examples(tmp_path, monkeypatch, capsys):
    """What the other examples of the README print, run as printed in a folder with its files; they warn of nothing."""
    monkeypatch.chdir(tmp_path)
    (scene,) = (block for block in blocks(README, "yaml") if block.title)
    Path(scene.title).write_text(scene.text, encoding="utf-8")
    said = []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for block in blocks(README, "python")[1:]:
            exec(compile("\n" * block.line + block.text, str(README), "exec"), {"__name__": "__main__"})
            said.append(capsys.readouterr().out)
    assert not seen, [str(warning.message) for warning in seen]
    return said


@pytest.mark.slow
def test_the_other_examples_of_the_readme_push_a_box_and_drop_one_onto_the_ground(said_by_examples):
    """The paddle arrives at 0.4 m behind the box that it pushes; the box comes to rest on the plane at half its height.

    Every example is one of these three: `documentation/test_code.py` runs those of all other pages.
    """
    pushed, dropped = said_by_examples
    assert float(re.fullmatch(r"the box was pushed to x = (\S+) m\n", pushed)[1]) > 0.4
    height = float(re.fullmatch(r"height of the box in world 0 \[m\]: (\S+)\n", dropped)[1])
    sink = 1.0 * 9.81 / (4.0 * 0.5e5)  # m g / (4 k): 1 kg on four corners, two shapes of 1e5 N/m in series
    assert height == pytest.approx(0.05 - sink, abs=1e-5)
