"""Every script in examples runs, in a short form, and does what it says."""

import importlib.util

import pytest

from tests.support.markdown import ROOT

EXAMPLES = ROOT / "examples"
ELSEWHERE = {"plan_cart_pole", "plan_push_box"}
"""Run by the tests of what they show."""


def load(name):
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_box():
    assert load("box").main(1.5) == pytest.approx(0.1, abs=1e-3)  # its half height


def test_robot(capsys):
    sim = load("robot").main(steps=40)
    assert sim.world_count == 4 and sim.step_count == 40
    assert "cart_to_pole" in capsys.readouterr().out


def test_pd_control():
    assert load("pd_control").main(1.0) < 0.1


def test_grasp():
    height, moved = load("grasp").main(6.0, ("robot",))["robot"]
    assert height > 0.25 and moved < 5e-4


def test_randomize():
    sim = load("randomize").main(num_worlds=8, rounds=2)
    assert len(set(sim.ground_mu.numpy().ravel())) == 8


def test_forces():
    carried, weight = load("forces").main()
    assert carried == pytest.approx(weight, rel=0.05)  # it is still settling


def test_presets():
    found = load("presets").main(steps=100)
    assert found["approx32"] == pytest.approx(found["approx64"], abs=1e-5)
    assert found["robot"] == pytest.approx(found["drake"], abs=1e-5) and found["drake"] < found["approx64"]


def test_stages():
    """The gap is that of contact forces in fp32."""
    assert load("stages").main() < 1e-6


def test_camera(tmp_path):
    files = load("camera").main(tmp_path, seconds=0.2, width=64)
    assert all(file.stat().st_size > 100 for file in files)


def test_train():
    returns = load("train").main(iterations=6, num_worlds=32)
    assert returns[-1] > returns[0]


def test_sweep(tmp_path):
    """Two of the points are on either side of what holds."""
    pytest.importorskip("pyarrow")
    example = load("sweep")
    least = example.main(tmp_path / "slope", points=6)
    assert example.HOLDS < least < example.HOLDS + 0.06  # they are 0.06 apart


def test_every_example_is_run():
    """A new script has a test here, or is named as one that another test runs."""
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == ELSEWHERE | tested - {"every_example_is_run"}
