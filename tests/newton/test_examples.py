"""The examples run headless for 200 frames, and what they assert about physics holds."""

import importlib
import runpy
import sys
from pathlib import Path

import newton.viewer
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "newton"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "common")


@pytest.fixture
def load(monkeypatch):
    """Import an example as its own script does: with its folder on the path."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def load(name):
        for module in ("common", name):
            monkeypatch.delitem(sys.modules, module, raising=False)
        return importlib.import_module(name)

    return load


def example_class(module):
    common = sys.modules["common"]
    return next(c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__), common


def test_all_six_examples_are_there():
    """The list of examples is complete."""
    assert NAMES == ["box_stack", "cartpole", "gripper", "heterogeneous_worlds", "humanoid", "quadruped"]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_passes_its_own_checks(name, load):
    """200 frames with our solver and no window."""
    chosen, common = example_class(load(name))
    common.run(chosen, ["--viewer", "null", "--num-frames", "200"])


@pytest.mark.parametrize("name", ["box_stack", "cartpole"])
def test_an_example_runs_with_another_solver(name, load):
    """The same scene is stepped by a solver of Newton's; how well it does is its own to say."""
    chosen, common = example_class(load(name))
    example = chosen(newton.viewer.ViewerNull(num_frames=3), "featherstone")
    assert type(example.solver).__module__.startswith("newton")
    for _ in range(3):
        example.step()
        example.render()
    assert example.time == pytest.approx(3 / common.FPS)


def test_the_checks_of_an_example_can_fail(load):
    """A tower that is pushed over does not pass."""
    module = load("box_stack")
    example = module.BoxStack(newton.viewer.ViewerNull(num_frames=1))
    qd = example.state.joint_qd.numpy()
    qd[-6] = 3.0
    example.state.joint_qd.assign(qd)
    for _ in range(30):
        example.step()
    with pytest.raises(AssertionError, match="the tower"):
        example.test_final()


def test_an_example_is_a_script_that_writes_usd(tmp_path, monkeypatch, capsys):
    """Run with the arguments of a command line, the usd viewer leaves a file with the frames."""
    target = tmp_path / "stack.usda"
    script = EXAMPLES / "box_stack.py"
    arguments = ["--viewer", "usd", "--num-frames", "60", "--output-path", str(target)]
    monkeypatch.setattr(sys, "argv", [str(script), *arguments])
    monkeypatch.syspath_prepend(str(EXAMPLES))  # as Python does for a script
    monkeypatch.delitem(sys.modules, "common", raising=False)
    runpy.run_path(str(script), run_name="__main__")
    assert "all checks passed" in capsys.readouterr().out
    assert "timeSamples" in target.read_text()


@pytest.mark.parametrize("viewer", ["viser", "rerun"])
def test_interactive_viewers_show_our_states(viewer, load):
    """The other viewers log a state of ours, where their package is installed."""
    pytest.importorskip(viewer)
    chosen, common = example_class(load("cartpole"))
    common.run(chosen, ["--viewer", viewer, "--num-frames", "200"])
