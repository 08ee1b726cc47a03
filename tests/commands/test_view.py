"""`sap-warp view` and `run --viewer`: a page on the way, and mistakes that are explained."""

import json
import socket

import pytest

from sap_warp.cli import main
from tests.support.pages import arm_and_box

pytest.importorskip("viser")


@pytest.fixture
def scene(tmp_path):
    file = tmp_path / "arm_and_box.json"
    file.write_text(json.dumps(arm_and_box()))
    return str(file)


def run(capsys, *arguments):
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_view_serves_a_page_and_ends_after_its_duration(capsys, scene):
    given = (
        "--duration",
        "0.1",
        "--speed",
        "max",
        "--port",
        "0",
        "--no-browser",
        "--num-worlds",
        "3",
        "--worlds",
        "0,2",
    )
    code, out, _ = run(capsys, "view", scene, *given, "--worlds", "0,2")
    assert code == 0 and "viewer: http://localhost:" in out


def test_run_with_a_viewer_prints_its_summary(capsys, scene):
    given = ("--viewer", "viser", "--port", "0", "--no-browser", "--substeps-per-frame", "5", "--viewer-fps", "60")
    code, out, _ = run(capsys, "run", scene, "--num-worlds", "1", "--duration", "0.1", *given)
    assert code == 0 and "20 (0.1 s simulated)" in out


def test_without_a_display_the_page_is_only_named(capsys, scene, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    code, out, _ = run(capsys, "view", scene, "--duration", "0.01", "--port", "0")
    assert code == 0 and "no browser could be opened" in out


def test_a_port_in_use_ends_the_command(capsys, scene):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        code, _, err = run(capsys, "view", scene, "--port", str(other.getsockname()[1]))
    assert code == 2 and "in use" in err and "--port" in err


@pytest.mark.parametrize(
    "given, words",
    [
        (("--port", "70000"), "not a port"),
        (("--speed", "0"), "neither a positive number"),
        (("--viewer-fps", "x"), "frames per second"),
        (("--worlds", "3-1"), "list of worlds"),
        (("--worlds", "7"), "worlds 0 to 0"),
    ],
)
def test_mistakes_are_explained(capsys, scene, given, words):
    code, _, err = run(capsys, "view", scene, "--no-browser", *given)
    assert code == 2 and words in err and len(err.splitlines()) == 1


def test_without_viser_the_error_names_the_extra(capsys, scene, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "viser", None)
    code, _, err = run(capsys, "view", scene, "--port", "0")
    assert code == 2 and "sap-warp[viewer]" in err
