"""Control sequences: what their files may hold, and what is played when."""
# ruff: noqa: E501 - tables

import json
import re

import numpy as np
import pytest
import warp as wp

import sap_warp
from tests.support.scene_files import chain, load, problem_of

DT = 0.01
LABELS = ["hinge", "robot/right/slider"]
TARGETS = [[0.1, 1.0], [0.2, 2.0], [0.3, 3.0]]


@pytest.fixture
def play(tmp_path):
    """Load the chain under a sequence of the given content."""

    def load_with(content, *, name="motion.json", loop=None, **options):
        file = tmp_path / name
        if name.endswith(".npz"):
            np.savez(file, **content)
        else:
            file.write_text(content if isinstance(content, str) else json.dumps(content))
        control = {"source": str(file), **({} if loop is None else {"loop": loop})}
        return load(chain(control=control), **options)

    return load_with


def sequence(**changes):
    content = {"dt": DT, "joint_labels": LABELS, "joint_target_pos": TARGETS, **changes}
    return {name: value for name, value in content.items() if value is not None}


def targets(loaded):
    """Targets of hinge and slider in the first world."""
    return loaded.sap_control.joint_target_pos.numpy()[7:9].tolist()


def test_json_and_npz_hold_the_same(play):
    text = play(sequence()).control_sequence
    arrays = {"dt": np.float64(DT), "joint_labels": np.array(LABELS), "joint_target_pos": np.array(TARGETS)}
    binary = play(arrays, name="motion.npz").control_sequence
    for one in (text, binary):
        assert (one.dt, one.loop, one.joint_labels) == (DT, False, LABELS)
        assert one.duration == pytest.approx(3 * DT)
        assert np.allclose(one.samples["joint_target_pos"].numpy(), TARGETS)


def test_a_scene_without_control_has_no_sequence():
    assert load(chain()).control_sequence is None


def test_the_first_targets_are_in_the_control_after_loading(play):
    loaded = play(sequence())
    assert targets(loaded) == pytest.approx(TARGETS[0])
    assert loaded.control_sequence.time.numpy()[0] == 0.0


def test_a_sample_holds_from_its_time_until_the_next(play):
    loaded = play(sequence())
    played = []
    for _ in range(8):  # four steps for each sample
        loaded.control_sequence.apply(loaded.sap_control, DT / 4)
        played.append(targets(loaded)[0])
    assert played == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.2])


@pytest.mark.parametrize("steps", [1, 3, 7, 10])
def test_samples_change_exactly_at_their_times_whatever_the_step(play, steps):
    # A sum of many small steps does not hit the sample times exactly; the sample must not come a step late.
    loaded = play(sequence(joint_target_pos=[[float(i), 0.0] for i in range(200)]))
    for i in range(100 * steps):
        loaded.control_sequence.apply(loaded.sap_control, DT / steps)
        if i % 10 == 0 or i % steps == 0:
            assert targets(loaded)[0] == i // steps, i


def test_a_step_that_is_longer_than_a_sample_skips_samples(play):
    loaded = play(sequence(joint_target_pos=[[float(i), 0.0] for i in range(10)]))
    played = []
    for _ in range(4):
        loaded.control_sequence.apply(loaded.sap_control, 2.5 * DT)
        played.append(targets(loaded)[0])
    assert played == [0, 2, 5, 7]


def test_the_last_sample_stays_unless_the_sequence_loops(play):
    for loop, expected in ((False, [0.1, 0.2, 0.3, 0.3, 0.3, 0.3, 0.3]), (True, [0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1])):
        loaded = play(sequence(), loop=loop)
        assert loaded.control_sequence.loop is loop
        played = []
        for _ in range(7):
            loaded.control_sequence.apply(loaded.sap_control, DT)
            played.append(targets(loaded)[0])
        assert played == pytest.approx(expected)


def test_rewind_returns_to_the_start(play):
    loaded = play(sequence())
    for _ in range(3):
        loaded.control_sequence.apply(loaded.sap_control, DT)
    loaded.control_sequence.rewind()
    loaded.control_sequence.apply(loaded.sap_control, DT)
    assert targets(loaded) == pytest.approx(TARGETS[0])


def test_every_world_plays_the_same(play):
    loaded = play(sequence(joint_q=[0.5, 0.25], joint_qd=[1.5, 2.5]), num_worlds=3)
    loaded.control_sequence.apply(loaded.sap_control, DT)
    loaded.control_sequence.apply(loaded.sap_control, DT)
    values = loaded.sap_control.joint_target_pos.numpy().reshape(3, 9)
    assert np.allclose(values[:, 7:], TARGETS[1]) and np.allclose(values[:, :7], [0, 0, 0, 0, 0, 0, 1])
    assert np.allclose(loaded.sap_state.joint_q.numpy().reshape(3, 9)[:, 7:], [0.5, 0.25])
    assert np.allclose(loaded.sap_state.joint_qd.numpy().reshape(3, 8)[:, 6:], [1.5, 2.5])


def test_velocity_targets_are_played_too(play):
    speeds = [[-1.0, -2.0], [-3.0, -4.0], [-5.0, -6.0]]
    loaded = play(sequence(joint_target_vel=speeds))
    for expected in speeds:
        loaded.control_sequence.apply(loaded.sap_control, DT)
        assert loaded.sap_control.joint_target_vel.numpy()[6:].tolist() == expected


def test_initial_values_are_those_of_state_model_and_bodies(play):
    loaded = play(sequence(joint_q=[0.0, 0.75], joint_qd=[0.0, 0.5]))
    assert loaded.sap_state.joint_q.numpy()[7:].tolist() == [0.0, 0.75]
    assert loaded.sap_state.joint_qd.numpy()[6:].tolist() == [0.0, 0.5]
    assert loaded.sap_model.state().joint_q.numpy()[8] == 0.75
    # the hand has moved along the axis of the slider, in the state and in the model
    axis = int(np.argmax(np.abs(loaded.sap_model.joint_axis.numpy()[7])))
    assert loaded.sap_state.body_q.numpy()[2][axis] == 0.75
    assert loaded.collision_state.body_q.numpy()[2][axis] == 0.75
    assert loaded.sap_model.state().body_q.numpy()[2][axis] == 0.75


def test_columns_may_come_in_any_order_and_leave_joints_out(play):
    loaded = play(sequence(joint_labels=["slider", "hinge"]))
    assert targets(loaded) == pytest.approx([1.0, 0.1])
    loaded = play(sequence(joint_labels=["right/slider"], joint_target_pos=[[4.0]]))
    assert targets(loaded) == [0.0, 4.0]


def test_playback_is_captured_in_a_graph(play):
    loaded = play(sequence(), loop=True)
    sequence_, control = loaded.control_sequence, loaded.sap_control
    sequence_.apply(control, DT)  # compiles
    sequence_.rewind()
    with wp.ScopedCapture(device="cpu") as capture:
        sequence_.apply(control, DT)
    sequence_.rewind()
    played = []
    for _ in range(5):
        wp.capture_launch(capture.graph)
        played.append(targets(loaded)[0])
    assert played == pytest.approx([0.1, 0.2, 0.3, 0.1, 0.2])


def test_a_relative_path_starts_at_the_scene(tmp_path):
    (tmp_path / "motion.json").write_text(json.dumps(sequence()))
    file = tmp_path / "scene.json"
    file.write_text(json.dumps(chain(control={"source": {"path": "motion.json"}})))
    assert load(file).control_sequence.joint_labels == LABELS


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"joint_labels": ["hing", "slider"]}, "motion.json: joint 'hing' is unknown; did you mean 'hinge'?"),
        ({"joint_labels": ["base_free", "slider"]}, "motion.json: joint 'base_free' has more or less than one degree of freedom"),
        ({"joint_labels": ["hinge", "hinge"]}, "motion.json: joint_labels names a joint twice"),
        ({"joint_labels": ["hinge"]}, "motion.json: joint_target_pos has shape (3, 2); expected rows of 1 numbers, one for each joint label"),
        ({"joint_labels": None}, "motion.json: joint_labels must be a list of joint labels"),
        ({"joint_labels": [1, 2]}, "motion.json: joint_labels must be a list of joint labels"),
        ({"joint_target_pos": None}, "motion.json: joint_target_pos is missing"),
        ({"joint_target_pos": [[1, 2], [3]]}, "motion.json: joint_target_pos has shape (0,); expected rows of 2 numbers"),
        ({"joint_target_pos": [[1, "x"]]}, "motion.json: joint_target_pos has shape"),
        ({"joint_target_pos": []}, "motion.json: joint_target_pos has shape (0,)"),
        ({"joint_target_pos": [[1, float("nan")]]}, "motion.json: joint_target_pos has too many numbers, or some that are not finite"),
        ({"joint_target_vel": [[1, 2]]}, "motion.json: joint_target_pos and joint_target_vel have different numbers of samples"),
        ({"joint_q": [1]}, "motion.json: joint_q has shape (1,); expected 2 numbers, one for each joint label"),
        ({"dt": 0}, "motion.json: dt must be the time between samples, a positive number of seconds"),
        ({"dt": None}, "motion.json: dt must be the time between samples"),
        ({"dt": [1, 2]}, "motion.json: dt must be the time between samples"),
        ({"dt": "x"}, "motion.json: dt must be the time between samples"),
        ({"joint_targets": []}, "motion.json: unknown entry 'joint_targets'; did you mean 'joint_target_pos'?"),
    ],
)  # fmt: skip
def test_mistakes_in_a_sequence_are_explained(tmp_path, changes, message):
    (tmp_path / "motion.json").write_text(json.dumps(sequence(**changes)))
    scene = chain(control={"source": str(tmp_path / "motion.json")})
    assert problem_of(scene).startswith(f"control.source: {message}")


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("motion.json", '{"dt": 1,\n "joint_labels": }', "motion.json:2: not valid JSON: "),
        ("motion.json", "[1]", "motion.json: expected an object with dt, joint_labels,"),
        ("motion.json", "[" * 100_000, "motion.json: not valid JSON: "),
        ("motion.json", '{"dt": ' + 5000 * "9" + "}", "motion.json: not valid JSON: "),
        ("motion.npz", "not a zip file", "motion.npz: not a readable NPZ file: "),
    ],
)
def test_files_that_are_no_sequence_are_explained(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    assert problem_of(chain(control={"source": str(tmp_path / name)})).startswith(f"control.source: {message}")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"dt": 1e30}, "found 1e+30; a duration is 1e-09 to 1e+09 s"),
        (
            {"joint_target_pos": [[0.0, 1e29]]},
            "joint_target_pos has the entry 1e+29; a joint position or target is at most",
        ),
        ({"joint_qd": [0.0, -1e29]}, "joint_qd has the entry -1e+29; a speed is at most 1e+07 m/s or rad/s"),
    ],
)
def test_absurd_numbers_of_a_sequence_are_refused(play, changes, message):
    with pytest.raises(sap_warp.SapSceneError, match=re.escape(message)):
        play(sequence(**changes))


def test_pickled_objects_are_not_read(tmp_path):
    np.savez(tmp_path / "motion.npz", dt=0.01, joint_labels=np.array(["hinge", None], dtype=object))
    message = problem_of(chain(control={"source": str(tmp_path / "motion.npz")}))
    assert message.startswith("control.source: motion.npz: not a readable NPZ file: ")


def test_a_label_that_two_joints_have_is_ambiguous(tmp_path):
    scene = chain(control={"source": str(tmp_path / "motion.json")})
    for joint in scene["joints"][1:]:
        joint["label"] = "same"
    (tmp_path / "motion.json").write_text(json.dumps(sequence(joint_labels=["same"], joint_target_pos=[[1.0]])))
    assert problem_of(scene) == "control.source: motion.json: joint 'same' stands for 2 joints"


def test_the_drive_follows_the_sequence(play, tmp_path):
    (tmp_path / "motion.json").write_text(json.dumps(sequence(joint_target_pos=[[0.5, 0.25]])))
    scene = chain(
        control={"source": str(tmp_path / "motion.json")},
        ground=False,
        post_build=[
            {"op": "set_joint_targets", "range": "from:6", "mode": "position", "ke": 2e4, "kd": 2e3},
            {"op": "set_attr", "attr": "gravity", "value": 0},
        ],
        simulation={"solver": {"contact_preset_variant": "drake"}},
    )
    loaded = load(scene)
    solver = sap_warp.SolverSAP(loaded.sap_model, **loaded.solver_options)
    state, after = loaded.sap_state, loaded.sap_model.state()
    for _ in range(200):
        loaded.control_sequence.apply(loaded.sap_control, 0.01)
        solver.step(state, after, loaded.sap_control, None, 0.01)
        state, after = after, state
    assert state.joint_q.numpy()[7:].tolist() == pytest.approx([0.5, 0.25], abs=0.01)


def test_arguments_of_a_sequence_are_checked(play):
    loaded = play(sequence())
    playing = loaded.control_sequence
    for time in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"time is .*; it must be a number of seconds"):
            playing.write(loaded.sap_control, time)
    with pytest.raises(TypeError):
        playing.write(loaded.sap_control, "soon")
    with pytest.raises(ValueError, match="dt is"):
        playing.apply(loaded.sap_control, 0.0)
    with pytest.raises(TypeError, match="control is None; it must be a SapControl with joint_target_pos"):
        playing.write(None, 0.0)
