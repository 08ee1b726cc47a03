"""A page without a browser: addresses, options, what is shown where, what the mouse does, and what waits for whom."""

import socket
import threading
from pathlib import Path

import numpy as np
import pytest

from sap_warp import Simulation
from sap_warp.look.viewer import Viewer, ViewerError
from sap_warp.look.viewer.drawing.contacts import SEPARATES, SLIDES, STICKS, classify, deepest, read_contacts
from sap_warp.look.viewer.drawing.instances import turn_z
from sap_warp.look.viewer.drawing.joint_marks import limit_marks
from sap_warp.look.viewer.drawing.meshes import bounds, coarsen, make_templates
from sap_warp.look.viewer.drawing.overlays import inertia_boxes
from sap_warp.look.viewer.drawing.stage import world_offsets
from sap_warp.look.viewer.panels.drag import MOST_WEIGHTS, Drag
from sap_warp.look.viewer.panels.joints import articulations, driven_dofs
from sap_warp.look.visuals import find_visuals, rotate
from tests.support.pages import arm_and_box

pytest.importorskip("viser")


@pytest.fixture(scope="module")
def sim():
    with Simulation.from_scene(arm_and_box(), num_worlds=3, notes=False) as made:
        yield made


@pytest.fixture
def fresh(sim):
    sim.clear_forces()
    sim.gravity.flat()[:] = (0.0, 0.0, -9.81)
    sim.reset()
    return sim


def frame(viewer):
    """What the loop does, once."""
    viewer._frame()


# Where it is served.


def test_a_port_in_use_is_an_error_that_says_what_to_do(sim):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        with pytest.raises(ViewerError, match=r"in use.*--port.*0 for any"):
            Viewer(sim, port=other.getsockname()[1])


def test_a_host_that_is_not_ours_is_an_error(sim):
    with pytest.raises(ViewerError, match="host"):
        Viewer(sim, host="no.such.host.invalid", port=0)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="Linux lists what listens there")
def test_it_listens_at_this_computer_only(sim):
    with Viewer(sim, port=0, paused=True) as viewer:
        port = viewer._server.get_port()
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        listening = {line.split()[1] for line in lines if line.split()[3] == "0A"}
        assert f"0100007F:{port:04X}" in listening and f"00000000:{port:04X}" not in listening


def test_a_page_cannot_ask_for_a_public_address(sim):
    from viser import _messages

    with Viewer(sim, port=0, paused=True) as viewer:
        assert _messages.ShareUrlRequest not in viewer._server._websock_server._incoming_handlers


def test_the_port_is_free_again_after_close(sim):
    with Viewer(sim, port=0, paused=True) as viewer:
        port = viewer._server.get_port()
    with Viewer(sim, port=port, paused=True) as again:
        assert again._server.get_port() == port


@pytest.mark.parametrize(
    "options, words",
    [
        ({"port": -1}, "port"),
        ({"viewer_fps": 0.0}, "viewer_fps"),
        ({"speed": -1.0}, "speed"),
        ({"substeps_per_frame": 0}, "substeps_per_frame"),
        ({"worlds": [3]}, "worlds 0 to 2"),
        ({"worlds": []}, "empty"),
        ({"colour": 1}, "no option 'colour'"),
    ],
)
def test_options_that_cannot_be_met(sim, options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        Viewer(sim, **{"port": 0} | options)


# What the loop does.


def test_pause_step_and_reset(fresh):
    with Viewer(fresh, port=0, paused=True) as viewer:
        frame(viewer)
        assert fresh.step_count == 0
        viewer.step(3)
        frame(viewer)
        assert fresh.step_count == 3 and not viewer.is_running
        viewer.reset()
        frame(viewer)
        assert fresh.step_count == 0
        viewer.play()
        frame(viewer)
        assert fresh.step_count > 0


def test_time_can_wait_for_a_page(fresh):
    with Viewer(fresh, port=0, wait=True) as viewer:
        frame(viewer)
        assert fresh.step_count == 0 and viewer.is_running
        viewer.play()  # whoever asks for it need not open one
        frame(viewer)
        assert fresh.step_count > 0


def test_a_run_ends_after_its_duration(fresh):
    with Viewer(fresh, port=0, speed=float("inf")) as viewer:
        viewer.run(duration=0.5)
    assert fresh.time == pytest.approx(0.5) and viewer.is_closed


def test_what_goes_wrong_on_the_page_does_not_end_the_simulation(fresh, capsys, monkeypatch):
    with Viewer(fresh, port=0) as viewer:
        monkeypatch.setattr(viewer.stage, "update", lambda body_q: 1 / 0)
        frame(viewer)
        frame(viewer)
        assert fresh.step_count > 0
    assert "division by zero" in capsys.readouterr().err


def test_a_thousand_requests_are_enough(fresh):
    with Viewer(fresh, port=0, paused=True) as viewer:
        done = []
        for i in range(5000):
            viewer.ask(lambda i=i: done.append(i))
        frame(viewer)
        assert done == list(range(1000))


def test_frames_are_replaced_and_not_queued_for_a_page_that_does_not_read(fresh):
    """A client that connects and reads nothing: what waits for it must not grow with the frames."""
    import viser
    from websockets.sync.client import connect

    with Viewer(fresh, port=0, speed=0.5) as viewer:
        address = viewer.url.replace("http", "ws")
        with connect(address, subprotocols=[f"viser-v{viser.__version__}"], open_timeout=20):
            buffer = viewer._server._websock_server._broadcast_buffer
            for _ in range(20):
                viewer._changed = True
                frame(viewer)
            waiting = len(buffer.message_from_id)
            for _ in range(200):
                viewer._changed = True
                frame(viewer)
            assert len(buffer.message_from_id) <= waiting + 2
            assert viewer.frame_count == 220


# What is shown.


def test_worlds_that_lie_in_one_place_are_shown_side_by_side(fresh):
    with Viewer(fresh, port=0, paused=True) as viewer:
        spread = viewer.stage.offsets[:3]
        near = [np.linalg.norm(spread[i] - spread[j]) for i in range(3) for j in range(i)]
        low, high = viewer.stage.world_bounds()
        assert min(near) > (high - low)[:2].max()
        assert (viewer.stage.offsets[-1] == 0.0).all()
        viewer.stage.choose([1])
        assert (viewer.stage.offsets[1] == 0.0).all() and viewer.stage.offsets[0][2] < -1e5


def test_worlds_that_begin_differently_in_one_place_are_shown_side_by_side(fresh):
    """As with random starts: the box of one world lies elsewhere, so that the worlds reach over other areas."""
    fresh.joint_q[1, "box_free.x"] = -0.8
    templates = make_templates(find_visuals(fresh, range(3)))
    offsets = world_offsets(fresh, range(3), templates)
    low, high = bounds(
        [part for template in templates if (part := template.only([1]))], fresh.body_q.flat(), 0 * offsets
    )
    assert np.linalg.norm(offsets[0] - offsets[1]) > (high - low)[0] > 1.4


def test_worlds_that_a_scene_has_put_side_by_side_stay_there():
    scene = arm_and_box() | {"replicate": {"num_worlds": 3, "spacing": [2.0, 2.0, 0.0]}}
    with Simulation.from_scene(scene, notes=False) as made:
        offsets = world_offsets(made, range(3), make_templates(find_visuals(made, range(3))))
        assert not offsets.any()


def test_bodies_that_look_alike_are_instances_of_one_mesh(fresh):
    templates = make_templates(find_visuals(fresh))
    assert all(len(template.body) % 3 == 0 for template in templates)
    bodies = np.concatenate([template.body for template in templates])
    assert sorted(bodies[bodies >= 0]) == list(range(fresh.model.body_count))
    low, high = bounds(templates, fresh.body_q.flat().astype(float), np.zeros((4, 3)))
    assert low[2] == pytest.approx(0.0, abs=0.01) and high[2] == pytest.approx(1.0, abs=0.2)


def test_bodies_of_several_colours_are_one_mesh_with_colours_at_its_vertices():
    """viser 1.1.1 breaks the page when the mouse can take hold of a body of several meshes."""
    import io

    import trimesh

    from sap_warp.look.visuals import Geometry, VisualBatch

    box = trimesh.creation.box()
    batches = [
        VisualBatch(
            Geometry(np.asarray(box.vertices, np.float32), np.asarray(box.faces), False),
            kind="box",
            label="box",
            body=np.array([0, 1]),
            world=np.array([0, 1]),
            pose=np.tile([x, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], (2, 1)),
            color=np.tile(color, (2, 1)),
            shape=np.array([0, 1]),
        )
        for x, color in ((0.0, (1.0, 0.0, 0.0)), (2.0, (0.0, 0.5, 0.0)))
    ]
    (template,) = make_templates(batches)
    assert template.body.tolist() == [0, 1]
    (mesh,) = trimesh.load(io.BytesIO(template.glb), file_type="glb").geometry.values()
    color = mesh.visual.vertex_attributes["color"]
    assert np.unique(color[mesh.vertices[:, 0] < 1.0], axis=0).tolist() == [[255, 0, 0, 255]]
    assert np.unique(color[mesh.vertices[:, 0] > 1.0], axis=0).tolist() == [[0, 55, 0, 255]]  # 0.5 is 0.214 of light
    assert mesh.volume == pytest.approx(2.0)


def test_coarse_meshes_keep_their_place(rng):
    import trimesh

    fine = trimesh.creation.icosphere(subdivisions=5, radius=0.3)
    points, faces = coarsen(np.asarray(fine.vertices), np.asarray(fine.faces), 500)
    assert 100 < len(faces) <= 500
    assert np.linalg.norm(points[np.unique(faces)], axis=1) == pytest.approx(0.3, rel=0.1)


# Contacts.


def test_a_resting_box_is_held_by_forces_that_stick(fresh):
    fresh.step(200)
    contacts = read_contacts(fresh, [0, 2], fresh.body_q.flat().astype(float))
    assert set(contacts.world) == {0, 2}
    for world in (0, 2):
        own = contacts.world == world
        total = contacts.force[own].sum(axis=0)
        assert total == pytest.approx([0.0, 0.0, 8.0 * 9.81], abs=0.2)  # the box weighs 8 kg
        assert contacts.normal[own] == pytest.approx(np.tile([0.0, 0.0, 1.0], (own.sum(), 1)), abs=1e-5)
        assert np.abs(contacts.point[own][:, 2]).max() < 1e-3
    assert (contacts.state == STICKS).all() and contacts.mu == pytest.approx(0.8)
    assert deepest(fresh) == pytest.approx(contacts.depth.max(), rel=1e-3) and deepest(fresh) > 0.0


def test_a_box_on_ground_that_is_too_steep_slides(fresh):
    fresh.gravity.flat()[:] = (9.81, 0.0, -9.81)  # tan of the angle is 1, mu is 0.8
    fresh.step(60)
    contacts = read_contacts(fresh, [0], fresh.body_q.flat().astype(float))
    pressed = contacts.force[:, 2] > 1.0
    assert pressed.any() and (contacts.state[pressed] == SLIDES).all()


def test_states_of_contacts():
    normal = np.tile([0.0, 0.0, 1.0], (4, 1))
    force = np.array([[0.0, 0.0, 10.0], [5.0, 0.0, 10.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    mu = np.array([0.5, 0.5, 0.5, 0.0])
    assert classify(force, normal, mu).tolist() == [STICKS, SLIDES, SEPARATES, SLIDES]


# The mouse.


def test_the_spring_carries_a_box_to_the_pointer_and_lets_go(fresh):
    box = next(i for i, name in enumerate(fresh.model.body_label) if "box" in name)
    drag = Drag(fresh)
    point = fresh.body_q.flat()[box][:3].astype(float)
    drag.start(box, 0, point)
    drag.move(point + (0.0, 0.0, 0.5))
    for _ in range(600):
        drag.apply()
        fresh.step(1)
    height = fresh.body_q.flat()[box][2]
    sag = 8.0 * 9.81 / (8.0 * 64.0)  # weight over stiffness
    assert height - point[2] == pytest.approx(0.5 - sag, abs=0.01)
    assert drag.force == pytest.approx([0.0, 0.0, 8.0 * 9.81], abs=0.5)
    drag.end()
    assert not fresh.body_f.flat().any()
    fresh.step(400)
    assert fresh.body_q.flat()[box][2] == pytest.approx(point[2], abs=0.01)  # it fell back
    other = fresh.body_q.world(1)
    assert other == pytest.approx(fresh.body_q.world(2))  # nobody pulled there


def test_the_mouse_cannot_pull_without_bound(fresh):
    box = next(i for i, name in enumerate(fresh.model.body_label) if "box" in name)
    drag = Drag(fresh)
    drag.start(box, 0, fresh.body_q.flat()[box][:3].astype(float))
    drag.move(np.array([0.0, 0.0, 1e9]))
    drag.apply()
    assert np.linalg.norm(drag.force) <= MOST_WEIGHTS * 9.81 * 8.0 * 1.001
    drag.move(np.array([np.nan, 0.0, 0.0]))
    drag.apply()
    assert np.isfinite(fresh.body_f.flat()).all()


def test_what_acted_before_acts_again(fresh):
    drag = Drag(fresh)
    fresh.body_f.flat()[0] = (1.0, 2.0, 3.0, 0.0, 0.0, 0.0)
    drag.start(0, 0, fresh.body_q.flat()[0][:3].astype(float))
    drag.move(np.zeros(3))
    drag.apply()
    drag.end()
    assert fresh.body_f.flat()[0].tolist() == [1.0, 2.0, 3.0, 0.0, 0.0, 0.0]


# Joints.


def test_drives_have_sliders_with_the_range_of_their_joints(fresh):
    names = articulations(fresh.model, 1)
    (arm,) = [number for name, number in names.items() if "arm" in name]
    lift, swing = driven_dofs(fresh.model, arm)
    assert "lift" in lift.label and (lift.low, lift.high) == pytest.approx((-1.5, 1.0))
    assert "swing" in swing.label and not swing.is_position
    assert lift.entry == fresh.joint_q.offsets[1] + 0


def test_a_slider_writes_targets_in_one_world_or_in_all(fresh):
    with Viewer(fresh, port=0, paused=True) as viewer:
        panel = viewer._controls.joints
        before = fresh.joint_target_q.numpy().copy()
        panel.set_world(1)
        dof = panel._sliders[0][1]
        panel._everywhere.value = False
        panel._write(dof, 0.25)
        changed = np.argwhere(fresh.joint_target_q.numpy() != before)
        assert changed.tolist() == [[1, 0]]
        panel._everywhere.value = True
        panel._write(dof, 0.5)
        assert fresh.joint_target_q.numpy()[:, 0] == pytest.approx(0.5)
        fresh.joint_target_q.numpy()[:] = before


def test_limits_are_drawn_from_end_to_end():
    anchor, axis, side = np.zeros((2, 3)), np.array([[0.0, 0, 1], [1, 0, 0]]), np.array([[1.0, 0, 0], [0, 1, 0]])
    turns, q = np.array([1.0, 0.0]), np.array([0.5, 0.1])
    low, high = np.array([-0.5, -0.2]), np.array([1.0, 0.4])
    points, colors = limit_marks(anchor, axis, side, turns, q, low, high, 1.0)
    assert len(points) == len(colors)
    angles = np.arctan2(points[:16, :, 1], points[:16, :, 0])
    assert (angles.min(), angles.max()) == pytest.approx((-0.5, 1.0))
    assert np.arctan2(*points[16, 1, 1::-1]) == pytest.approx(0.5)
    assert points[17][:, 0] == pytest.approx([-0.3, 0.3])  # from -0.2 - 0.1 to 0.4 - 0.1


# Small things.


def test_boxes_have_the_inertia_they_stand_for(rng):
    sides = np.array([0.1, 0.4, 0.7])
    moments = 3.0 / 12.0 * (np.sum(sides**2) - sides**2)
    turned = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    found, axes = inertia_boxes(np.array([3.0]), (turned @ np.diag(moments) @ turned.T)[None])
    assert np.sort(found[0]) == pytest.approx(sides)
    for k in range(3):
        along = rotate(axes[0], np.eye(3)[k])
        which = int(np.argmin(np.abs(sides - found[0][k])))
        assert abs(along @ turned[:, which]) == pytest.approx(1.0)


def test_many_worlds_are_sent_less_often():
    """30 frames per second for up to 64 shown worlds, 12 for more, and what was asked for in any case."""
    from sap_warp.look.viewer.options import make_options

    assert make_options(64).viewer_fps == 30.0 and make_options(65).viewer_fps == 12.0
    assert make_options(256, worlds=[0, 1]).viewer_fps == 30.0 and make_options(256, viewer_fps=20.0).viewer_fps == 20.0


def test_z_is_turned_into_any_direction(rng):
    unit = rng.normal(size=(20, 3))
    unit = np.concatenate([unit / np.linalg.norm(unit, axis=1, keepdims=True), [[0.0, 0.0, -1.0]], [[0.0, 0.0, 1.0]]])
    q = turn_z(unit)
    assert rotate(q[:, (1, 2, 3, 0)], np.tile([0.0, 0.0, 1.0], (22, 1))) == pytest.approx(unit)


def test_a_solver_can_be_changed_while_it_runs(fresh):
    fresh.step(5)
    q = fresh.joint_q.numpy().copy()
    fresh.change_solver(contact_preset_variant="drake")
    assert fresh.preset == "drake" and fresh.shards[0].solver.options.contact_weight_mode != "body_inertia"
    assert (fresh.joint_q.numpy() == q).all() and fresh.step_count == 5
    fresh.step(5)
    assert fresh.step_count == 10 and not fresh.diverged.any()
    with pytest.raises(ValueError, match="no_such"):
        fresh.change_solver(contact_preset_variant="no_such")
    assert fresh.preset == "drake"
    fresh.change_solver(contact_preset_variant="approx32")


def test_what_diagnose_finds_is_listed_on_the_page(fresh):
    """A lift drive that may push with 1 N m cannot carry the arm to its target."""
    limit = fresh.model.joint_effort_limit.numpy()
    with Viewer(fresh, port=0, paused=True, worlds=[0]) as viewer:
        controls = viewer._controls
        fresh.model.joint_effort_limit.fill_(0.2)
        fresh.joint_target_q.numpy()[:, 0] = 1.0
        controls._diagnose()
        assert "drive" in controls.findings.content and "lift" in controls.findings.content
        fresh.model.joint_effort_limit.assign(limit)
        fresh.joint_target_q.numpy()[:, 0] = 0.0


def test_a_viewer_in_a_thread_ends_when_it_is_closed(fresh):
    viewer = Viewer(fresh, port=0).start()
    viewer.close()
    assert viewer.is_closed and "sap-warp-viewer" not in {thread.name for thread in threading.enumerate()}
