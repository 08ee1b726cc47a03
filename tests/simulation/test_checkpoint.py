"""Checkpoints: a simulation that was saved goes on to the bit, and nothing else is taken for one."""

import copy
import pickle
import signal
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest

from sap_warp import CheckpointError, Simulation, SimulationState
from sap_warp.scene.shipped.scene_files import shipped_scenes
from sap_warp.simulation.checkpoint import file as checkpoint_file
from tests.simulation.test_meshes import pile
from tests.support.simulations import STATE_ARRAYS, make_sim

OUTCOMES = ("status", "iterations", "contact_counts")


def ground(threads=1, **options):
    """Contacts with a plane, each world from its own pose."""
    return make_sim("cube", threads=threads, **options)


def bodies(threads=1):
    """Contacts of bodies with each other."""
    return make_sim("stack", worlds=3, threads=threads)


def meshes(threads=1):
    return Simulation(pile(4, "plane"), dt=0.005, max_rigid_contact=96, contact_tau_d=0.02, threads=threads)


def assert_same(one, other):
    for name in STATE_ARRAYS:
        np.testing.assert_array_equal(getattr(one, name).flat(), getattr(other, name).flat(), err_msg=name)
    for name in OUTCOMES:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("world_steps", "mean_contacts", "iterations", "line_search_trials", "unstable", "not_converged"):
        assert getattr(one.statistics, name) == getattr(other.statistics, name), name
    assert (one.time, one.step_count) == (other.time, other.step_count)
    assert [shard.solver.frame_id for shard in other.shards] == [one.step_count] * len(other.shards)


@pytest.mark.parametrize("make", [ground, bodies, meshes])
def test_a_saved_simulation_goes_on_to_the_bit(make, tmp_path):
    """In another simulation that did something else before, with another number of threads, and back again."""
    sim, other = make(), make(threads=2)
    sim.body_f.numpy()[0, 0, 0] = 3.0  # acts until it is changed
    sim.joint_f.numpy()[1] = 0.1
    sim.step(40)
    sim.save(tmp_path / "here.npz")
    other.joint_qd.numpy()[:] += 0.3
    other.step(7)
    other.set_state(tmp_path / "here.npz")
    for further in (1, 60):
        sim.step(further)
        other.step(further)
        assert_same(sim, other)
    assert sim.contact_counts.sum() > 0
    loaded = Simulation.load(other.get_state(), model=make().model, threads=1)
    sim.step(20)
    loaded.step(20)
    assert_same(sim, loaded)


def swing(file=None):
    """A pendulum that swings too fast for its time step; saved and loaded again on the way, if there is a file."""
    sim = Simulation.from_scene("pendulum", num_worlds=2, dt=0.05)
    sim.joint_qd.numpy()[0] = 20.0
    for i in range(30):
        sim.step()
        if file is not None and i % 4 == 3:
            sim.save(file)
            sim = Simulation.load(file)
    return sim


@pytest.mark.filterwarnings("ignore:The energy of worlds grows")
def test_a_loaded_simulation_judges_energy_like_one_that_was_not_interrupted(tmp_path):
    """Energy that grows without work is found over several steps: the solver's memory comes along."""
    whole = swing()
    assert whole.statistics.unstable > 2
    assert_same(whole, swing(tmp_path / "now.npz"))


KILLED = """
    import os, signal, sys
    from sap_warp import Simulation
    sim = Simulation.from_scene("ant", num_worlds=6, threads=2)
    sim.model.body_mass.numpy()[0] *= 1.5
    sim.notify_model_changed()
    sim.step(60)
    sim.save(sys.argv[1])
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    while True:
        sim.step(1000)
"""


def test_save_kill_load_continue(tmp_path):
    """A process saves and dies by SIGKILL in the middle of a step; the next one goes on, with a changed mass."""
    file = tmp_path / "ants.npz"
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), file], capture_output=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    sim = Simulation.load(file)
    assert (sim.name, sim.threads, sim.step_count) == ("ant", 2, 60)
    whole = Simulation.from_scene("ant", num_worlds=6)
    whole.model.body_mass.numpy()[0] *= 1.5
    whole.notify_model_changed()
    whole.step(100)
    sim.step(40)
    assert_same(whole, sim)


class Ramp:
    """A control sequence that pushes each sample a little harder."""

    dt = 0.02

    def write(self, control, time):
        control.joint_f.fill_(0.1 * round(time / self.dt))


def test_control_sequence_clock_and_time_step_go_on(tmp_path):
    """The next sample is written when its time comes, inputs of the user stay until then, dt may have changed."""
    sim = ground(control_sequence=Ramp())
    sim.step(5)
    sim.dt = 0.004
    sim.step(4)
    sim.joint_f.numpy()[:] = 0.7  # within a sample
    sim.save(tmp_path / "s.npz")
    with pytest.raises(CheckpointError, match=r"control sequence, one that holds a sample for 0.02 s; .* none"):
        Simulation.load(tmp_path / "s.npz", model=ground().model)
    other = Simulation.load(tmp_path / "s.npz", model=ground().model, control_sequence=Ramp())
    assert other.dt == 0.004
    for further in (1, 2, 9):
        sim.step(further)
        other.step(further)
        assert_same(sim, other)
        np.testing.assert_array_equal(sim.joint_f.numpy(), other.joint_f.numpy())


def test_a_state_can_be_returned_to_again_and_again():
    """Also the parameters of the model that were changed after it was taken; and it can be pickled."""
    sim = ground()
    sim.step(20)
    start = pickle.loads(pickle.dumps(sim.get_state()))
    assert (start.step_count, start.world_count, start.time) == (20, 5, sim.time) and "5 worlds" in repr(start)
    sim.step(30)
    end = sim.joint_q.numpy().copy()
    sim.model.shape_material_mu.numpy()[:] = 0.01
    sim.model.body_mass.numpy()[:] *= 3.0
    sim.notify_model_changed()
    sim.step(10)
    sim.set_state(start)
    assert sim.step_count == 20
    sim.step(30)
    np.testing.assert_array_equal(sim.joint_q.numpy(), end)


def test_another_model_is_refused_with_what_differs(tmp_path):
    file = tmp_path / "cube.npz"
    ground().save(file)
    with pytest.raises(CheckpointError, match="world_count is 3 here and 5 in the checkpoint"):
        make_sim("cube", worlds=3).set_state(file)
    with pytest.raises(CheckpointError, match=r"another model:\n- body_count is"):
        make_sim("stack").set_state(file)
    other = ground()
    other.model.shape_source[0] = pile(1, "plane").shape_source[1]
    with pytest.raises(CheckpointError, match="meshes are others"):
        other.set_state(file)
    heavier = ground().model
    heavier.body_mass.numpy()[2] = 7.0
    with pytest.raises(CheckpointError, match=r"body_mass\[2\] \(.+\) is 7\. here and .* in the checkpoint"):
        Simulation.load(file, model=heavier)
    with pytest.raises(CheckpointError, match=r"max_iterations is 3 here and .* there"):
        ground(max_iterations=3).set_state(file)
    with pytest.raises(CheckpointError, match="precision is 'fp64' here"):
        ground(precision="fp64").set_state(file)
    with pytest.raises(CheckpointError, match="model=model"):
        Simulation.load(file)
    with pytest.raises(TypeError, match="get_state"):
        ground().set_state({})


def test_a_refused_state_leaves_the_simulation_as_it_was(tmp_path):
    sim = ground()
    sim.step(3)
    before = sim.get_state()
    with pytest.raises(CheckpointError):
        sim.set_state(make_sim("stack").get_state())
    after = sim.get_state()
    assert before.meta == after.meta
    for name, array in before.arrays.items():
        np.testing.assert_array_equal(array, after.arrays[name])


def test_a_damaged_file_is_refused(tmp_path, rng):
    """Cut off anywhere, one bit changed anywhere, no archive, of a later version."""
    file = tmp_path / "cube.npz"
    ground().save(file)
    data = file.read_bytes()
    for length in (0, 10, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match="no complete checkpoint"):
            SimulationState.read(file)
    refused = 0
    for place in rng.integers(0, len(data), 60):
        file.write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])
        try:
            read = SimulationState.read(file)
        except CheckpointError:
            refused += 1
        else:  # a date or a flag of the archive that nobody reads: the content is whole
            for name, array in SimulationState(*_original(data, tmp_path)).arrays.items():
                np.testing.assert_array_equal(array, read.arrays[name])
    assert refused > 50
    with pytest.raises(FileNotFoundError):
        Simulation.load(tmp_path / "none.npz")
    checkpoint_file.write_checkpoint(file, {"version": 99}, {})
    with pytest.raises(CheckpointError, match="version 99"):
        SimulationState.read(file)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("something.txt", "else")
    with pytest.raises(CheckpointError, match="no checkpoint"):
        SimulationState.read(file)


def _original(data, folder):
    (folder / "whole.npz").write_bytes(data)
    return checkpoint_file.read_checkpoint(folder / "whole.npz")


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "cube.npz"
    sim = ground()
    sim.save(file)
    sim.step(5)

    def full(handle):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="space"):
        sim.save(file)
    assert [path.name for path in tmp_path.iterdir()] == ["cube.npz"]
    assert SimulationState.read(file).step_count == 0


def test_numpy_reads_the_file(tmp_path):
    sim = ground()
    sim.save(tmp_path / "cube.npz")
    with np.load(tmp_path / "cube.npz") as found:
        np.testing.assert_array_equal(found["state/joint_q"], sim.joint_q.flat())


def test_a_simulation_of_a_scene_can_be_pickled_and_copied(tmp_path):
    """From its scene: a name, a file or a content; and one of a model says what to do instead."""
    sim = Simulation.from_scene("cube", num_worlds=3)
    sim.step(10)
    twin, again = copy.deepcopy(sim), pickle.loads(pickle.dumps(sim))
    sim.step(50)
    assert twin.step_count == 10
    for other in (twin, again):
        other.step(50)
        assert_same(sim, other)
    with pytest.raises(TypeError, match="get_state"):
        pickle.dumps(ground())
    with pytest.raises(TypeError, match="get_state"):
        copy.deepcopy(ground())


def test_a_scene_that_was_changed_or_moved_says_so(tmp_path):
    shipped = Simulation.from_scene("cube")._origin["scene"]
    assert shipped == "free_cube"
    text = shipped_scenes()["free_cube"].read_text(encoding="utf-8")
    scene, file = tmp_path / "mine.yaml", tmp_path / "c.npz"
    scene.write_text(text)
    Simulation.from_scene(scene, num_worlds=2).save(file)
    assert Simulation.load(file).world_count == 2
    scene.rename(tmp_path / "moved.yaml")
    with pytest.raises(CheckpointError, match=r"mine\.yaml, is gone; say where it is now: scene="):
        Simulation.load(file)
    assert Simulation.load(file, scene=tmp_path / "moved.yaml", threads=2).threads == 2
    changed = text.replace("density: 1000.0", "density: 1100.0")
    assert changed != text
    (tmp_path / "moved.yaml").write_text(changed)
    with pytest.raises(CheckpointError, match=r"body_(inertia|mass|inv_mass|inv_inertia)\[0\]"):
        Simulation.load(file, scene=tmp_path / "moved.yaml")


def test_options_that_a_file_cannot_hold_are_asked_for(tmp_path):
    model = ground().model
    pairs = {"shape_pairs_filtered": model.shape_contact_pairs}
    sim = Simulation(model, dt=0.005, pipeline_options=pairs)
    sim.save(tmp_path / "c.npz")
    with pytest.raises(CheckpointError, match=r"pipeline_options\.shape_pairs_filtered \(array\); pass it to load"):
        Simulation.load(tmp_path / "c.npz", model=model)
    assert Simulation.load(tmp_path / "c.npz", model=model, pipeline_options=pairs).step_count == 0


def test_another_version_is_told(monkeypatch):
    state = ground().get_state()
    state.meta["written_by"]["newton"] = "0.0.1"
    with pytest.warns(RuntimeWarning, match=r"newton 0\.0\.1 \(here"):
        ground().set_state(state)


def test_activations_of_actuators_are_part_of_the_state(tmp_path):
    """A filtered actuator goes on from its activation; at rest it would start again from zero."""
    text = """<mujoco><worldbody><body pos="0 0 1"><joint name="hinge" axis="0 1 0" damping="0.1"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.4"/></body></worldbody>
    <actuator><general name="filtered" joint="hinge" dyntype="filter" dynprm="0.5" gainprm="3"/></actuator></mujoco>"""
    (tmp_path / "arm.xml").write_text(text)
    assets = [{"id": "arm", "type": "mjcf", "source": str(tmp_path / "arm.xml")}]
    sim = Simulation.from_scene({"schema_version": 1, "simulation": {"dt": 0.005}, "assets": assets}, num_worlds=2)
    sim.ctrl[...] = [[1.0], [-1.0]]
    sim.step(20)
    state = sim.get_state()
    sim.step(20)
    expected = sim.joint_q.numpy().copy()
    sim.reset()
    sim.set_state(state)
    sim.step(20)
    np.testing.assert_array_equal(sim.joint_q.numpy(), expected)
    assert np.ptp(expected) > 1e-3
    sim.dt = 0.004  # captured anew, activations stay
    before = sim.solver.tendons.actuation.act.numpy().copy()
    sim.prepare()
    np.testing.assert_array_equal(sim.solver.tendons.actuation.act.numpy(), before)
