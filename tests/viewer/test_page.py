"""The page in a real browser: it loads, its buttons, sliders and the mouse act, and it shows what happens.

One headless Chromium serves all tests of this file.
"""

import numpy as np
import pytest

from sap_warp import Simulation
from sap_warp.look.viewer import Viewer
from tests.support.browser import open_session
from tests.support.pages import arm_and_box

pytest.importorskip("viser")


@pytest.fixture(scope="module")
def session():
    yield from open_session()


@pytest.fixture(scope="module")
def small(session):
    """Simulation and viewer of the small scene, open in the browser."""
    sim = Simulation.from_scene(arm_and_box(), notes=False)
    sim.prepare()  # compiling takes longer than a page should be waited for
    with sim, Viewer(sim, port=0, wait=True, shadows=False) as viewer:
        viewer.start()
        assert viewer.is_waiting and sim.step_count == 0
        session.open(viewer)
        session.until(lambda: sim.step_count > 0, "the first step of a viewer that waited for its page")
        yield sim, viewer


@pytest.fixture
def paused(small, session):
    """The small scene at its beginning, with nobody pulling."""
    sim, viewer = small
    viewer.pause()
    viewer.reset()
    session.until(lambda: sim.step_count == 0, "the reset")
    return sim, viewer


def test_the_page_loads_without_errors(small, session):
    session.picture()
    assert session.errors == []
    assert session.page.get_by_text("real-time ratio").count() == 1


def test_buttons_play_pause_step_and_reset(paused, session):
    sim, viewer = paused
    session.button("Step").click()
    session.until(lambda: sim.step_count == 1, "one step")
    session.button("Play").click()
    session.until(lambda: sim.step_count > 10, "steps")
    session.button("Pause").click()
    session.until(lambda: not viewer.is_running, "the pause")
    session.button("Reset").click()
    session.until(lambda: sim.step_count == 0, "the reset")
    assert not viewer.is_running


def test_a_slider_moves_the_target_of_its_joint(paused, session):
    sim, _ = paused
    session.page.get_by_role("tab", name="Joints").click()
    slider = session.page.get_by_role("slider").first
    slider.focus()
    before = float(sim.joint_target_q.numpy()[0, 0])
    session.page.keyboard.press("ArrowRight")
    session.until(lambda: sim.joint_target_q.numpy()[0, 0] > before, "the target to move")
    session.page.get_by_role("tab", name="Show").click()


def test_the_mouse_lifts_a_box_and_lets_it_go(paused, session):
    sim, viewer = paused
    box = next(i for i, label in enumerate(sim.model.body_label) if "box" in label)
    start = sim.body_q.flat()[box][:3].astype(float)
    x, y = on_screen(session, viewer, start)
    session.button("Play").click()
    mouse = session.page.mouse
    mouse.move(x, y)
    mouse.down()
    for k in range(1, 11):
        mouse.move(x, y - 12 * k)
    session.until(lambda: viewer.drag.is_active, "the mouse to take the box")
    session.until(lambda: sim.body_q.flat()[box][2] > start[2] + 0.05, "the box to rise")
    mouse.up()
    session.until(lambda: not viewer.drag.is_active, "the mouse to let go")
    assert not sim.body_f.flat().any()


def test_marks_appear_when_they_are_switched_on(paused, session):
    sim, viewer = paused
    viewer.step(100)
    session.until(lambda: sim.step_count == 100, "the steps")
    before = session.picture()
    session.page.get_by_label("Contact forces").check()
    session.until(lambda: "Contact forces" in viewer._controls.overlays._on, "the switch")
    session.until(lambda: is_different(session.picture(), before), "the arrows", 30.0)
    session.page.get_by_label("Contact forces").uncheck()
    assert session.errors == []


def test_the_page_shows_a_diagnosis(paused, session):
    session.page.get_by_role("tab", name="Diagnose").click()
    session.button("Diagnose").click()
    findings = paused[1]._controls.findings
    session.until(lambda: findings.content and "Advancing" not in findings.content, "the diagnosis")
    shown = "Nothing found" if "Nothing found" in findings.content else "Change:"
    session.page.get_by_text(shown).first.wait_for()
    session.page.get_by_role("tab", name="Show").click()


def test_the_simulation_goes_on_when_a_page_is_closed(paused, session):
    sim, viewer = paused
    session.button("Play").click()
    session.until(lambda: sim.step_count > 0, "steps")
    session.page.goto("about:blank")
    session.until(lambda: not viewer._server.get_clients(), "the page to go")
    count = sim.step_count
    session.until(lambda: sim.step_count > count + 10, "more steps")
    session.open(viewer)
    frames = viewer.frame_count
    session.until(lambda: viewer.frame_count > frames + 3, "frames for the page that came back")


def test_pictures_of_the_humanoid_are_not_blank_and_change_as_it_falls(session):
    sim = Simulation.from_scene("humanoid", notes=False)
    sim.prepare()
    with sim, Viewer(sim, port=0, paused=True, shadows=False) as viewer:
        viewer.start()
        session.open(viewer)
        session.until(lambda: is_blue(session.picture()) > 500, "the humanoid to be drawn")
        standing = session.picture()
        viewer.step(int(1.0 / sim.dt))
        session.until(lambda: sim.step_count > 0, "a second of falling")
        session.until(lambda: is_different(session.picture(), standing), "the picture to change")
        assert is_blue(session.picture()) > 500
        assert session.errors == []


def is_blue(picture):
    """Pixels of the humanoid's colour; ground and panel are grey."""
    red, _, blue = (picture[..., k].astype(int) for k in range(3))
    return int((blue - red > 40).sum())


def is_different(picture, other):
    """Whether at least a thousandth of the pixels have changed clearly."""
    return picture.shape == other.shape and (np.abs(picture.astype(int) - other).max(axis=2) > 40).mean() > 1e-3


def on_screen(session, viewer, point):
    """Pixel of a point [m], for the camera that the page has."""
    (client,) = viewer._server.get_clients().values()
    camera = client.camera
    forward = np.asarray(camera.look_at) - camera.position
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    ray = np.asarray(point) - camera.position
    area = session.page.locator("canvas").first.bounding_box()
    scale = 0.5 * area["height"] / np.tan(0.5 * camera.fov) / (ray @ forward)
    return (
        area["x"] + 0.5 * area["width"] + scale * (ray @ right),
        area["y"] + 0.5 * area["height"] - scale * (ray @ up),
    )
