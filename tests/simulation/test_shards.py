"""Threads of the user, of the simulation, of a forked process, and what an interruption leaves."""

import os
import subprocess
import sys
import textwrap
import threading

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import Simulation, SolverSAP
from sap_warp.scene.shipped.scenes import build_scene
from tests.support.simulations import STATE_ARRAYS, make_sim


def run_script(body):
    """Run Python code in a process of its own; its output."""
    code = "import warnings, numpy as np\nfrom tests.support.simulations import *\n" + textwrap.dedent(body)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


def in_threads(*functions):
    """Run functions beside each other; the errors they raised."""
    errors, start = [], threading.Barrier(len(functions))

    def call(function):
        start.wait()
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def assert_same_state(one, other):
    for name in STATE_ARRAYS:
        np.testing.assert_array_equal(getattr(one, name).flat(), getattr(other, name).flat(), err_msg=name)


# Threads of the user.


def test_simulations_may_start_in_several_threads():
    """Captures wait for each other, and for launches of others: every simulation ends as if it were alone."""
    sims = [make_sim(seed=seed, threads=1 + seed % 2) for seed in range(4)]
    solver = SolverSAP(sims[0].model)
    states = sims[0].sap_model.state(), sims[0].sap_model.state()

    def launch():
        for _ in range(50):
            solver.step(*states, None, None, 0.001)
            solver.reset(states[0])

    def recapture(sim):
        for dt in (0.004, 0.005):
            sim.dt = dt
            sim.prepare()
            sim.reset()
        sim.step(30)

    errors = in_threads(launch, *(lambda sim=sim: recapture(sim) for sim in sims))
    assert errors == []
    for seed, sim in enumerate(sims):
        alone = make_sim(seed=seed)
        alone.step(30)
        assert_same_state(sim, alone)


def test_one_simulation_may_be_used_from_several_threads():
    """Steps, resets and new time steps wait for each other."""
    sim = make_sim()
    sim.step()

    def steps():
        for _ in range(30):
            sim.step(2)

    def resets():
        for _ in range(30):
            sim.reset([True, False, False, False, True])
            sim.update_bodies()

    def changes():
        for i in range(6):
            sim.dt = (0.004, 0.005)[i % 2]

    assert in_threads(steps, resets, changes) == []
    assert sim.step_count == sim.solver.frame_id == 61
    assert np.isfinite(sim.joint_q.numpy()).all()


# Interruptions.

INTERRUPTED = """
    import os, signal
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs tests in the background ignores it
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    for options in [{}, dict(threads=2), dict(name="humanoid", worlds=40, threads=2), dict(name="spheres")]:
        sim, other = make_sim(**options), make_sim(**options | dict(threads=1))
        sim.step(5)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            sim.step(3_000_000)
            raise SystemExit("was not interrupted")
        except KeyboardInterrupt:
            pass
        count = sim.step_count
        assert 5 <= count < 3_000_000, count
        assert [shard.solver.frame_id for shard in sim.shards] == [count] * len(sim.shards)
        assert abs(sim.time - count * sim.dt) < 1e-9 * sim.time
        for further in (0, 7):
            sim.step(further)
            other.step(sim.step_count - other.step_count)
            for name in STATE_ARRAYS:
                one, two = getattr(sim, name).flat(), getattr(other, name).flat()
                np.testing.assert_array_equal(one, two, err_msg=f"{options} {name}")
    print("same")
"""


def test_ctrl_c_leaves_all_worlds_at_the_step_that_the_clock_says():
    """A real SIGINT in the middle of a long run: the state is that of so many steps, to the bit, and one can go on."""
    assert run_script(INTERRUPTED) == "same"


@pytest.mark.parametrize("threads", [1, 2])
def test_an_exception_between_any_two_graphs_is_put_in_order(threads, monkeypatch):
    """Whatever has been replayed when it comes: clock, state and shards agree, and the rest gives the same end."""
    sim, other = make_sim(threads=threads), make_sim()
    sim.step(3)
    launch = wp.capture_launch
    left = 0

    def failing(graph):
        nonlocal left
        if threading.current_thread() is threading.main_thread():
            if left == 0:
                left = -1
                raise KeyboardInterrupt
            left -= 1
        launch(graph)

    for left in (0, 1, 2, 5, 70):
        with monkeypatch.context() as patch:
            patch.setattr(wp, "capture_launch", failing)
            with pytest.raises(KeyboardInterrupt):
                sim.step(4000)
        taken = sim.step_count
        assert [shard.solver.frame_id for shard in sim.shards] == [taken] * threads
        other.step(taken - other.step_count)
        assert_same_state(sim, other)
    sim.step(9)
    other.step(9)
    assert_same_state(sim, other)


def test_what_cannot_be_put_in_order_says_so():
    """A shard that fails again while the others wait for it: steps are refused until all worlds are reset."""
    sim, other = make_sim(threads=2), make_sim()
    sim.step(3)
    run = sim.shards[1].run
    run.replay = lambda steps: (_ for _ in ()).throw(RuntimeError("replay failed"))
    with pytest.raises(RuntimeError, match="replay failed") as caught:
        sim.step(5)
    assert "call reset()" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match=r"at different steps\. Call reset\(\)"):
        sim.step()
    del run.replay
    sim.reset()
    sim.step(20)
    other.step(20)
    assert_same_state(sim, other)


# Forks.

FORKED = """
    import multiprocessing
    context = multiprocessing.get_context("fork")
    for threads in (1, 2):
        sim = make_sim(threads=threads)
        sim.step(20)
        queue = context.SimpleQueue()
        child = context.Process(target=lambda: (sim.step(30), queue.put((sim.step_count, sim.joint_q.flat().copy()))))
        child.start()
        child.join(60)
        assert child.exitcode == 0, child.exitcode
        count, q = queue.get()
        assert count == 50
        sim.step(30)
        np.testing.assert_array_equal(sim.joint_q.flat(), q)
    print("same")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_process_goes_on_with_threads_of_its_own():
    """It takes the same steps as the parent, which does not notice."""
    assert run_script(FORKED) == "same"


# The model of the shards.

CHANGES = {  # attributes that act in a scene of a humanoid on the ground, and what is done to them
    "joint_target_ke": lambda a: a * 0.5 + 3.0,
    "joint_target_kd": lambda a: a * 0.5 + 3.0,
    "joint_damping": lambda a: a + 0.5,
    "joint_armature": lambda a: a + 0.02,
    "joint_friction": lambda a: a + 0.3,
    "joint_effort_limit": lambda a: a * 0.0 + 0.5,
    "joint_velocity_limit": lambda a: a * 0.0 + 0.2,
    "joint_limit_lower": lambda a: a * 0.0 - 0.01,
    "joint_limit_upper": lambda a: a * 0.0 + 0.01,
    "joint_limit_ke": lambda a: a * 0.1 + 10.0,
    "joint_X_p": lambda a: a * np.float32([1.1, 1.1, 1.1, 1, 1, 1, 1]),
    "joint_q": lambda a: a + np.float32(0.03),
    "joint_qd": lambda a: a + np.float32(0.5),
    "body_mass": lambda a: a * 1.5,
    "body_inertia": lambda a: a * 1.5,
    "body_com": lambda a: a + np.float32(0.01),
    "shape_material_mu": lambda a: a * 0.1,
    "shape_material_ke": lambda a: a * 0.01,
    "shape_transform": lambda a: a + np.float32([0, 0, 0.02, 0, 0, 0, 0]),
    "shape_margin": lambda a: a + np.float32(0.01),
    "sap:shape_material_tau": lambda a: a * 0.0 + 0.5,
    "gravity": lambda a: a * 0.5,
}
PACKED = ("joint_X_p", "body_mass", "body_inertia", "body_com")  # need a notification
STARTS = ("joint_q", "joint_qd")  # need a reset


def change(model, name, worlds, replace):
    """Let an attribute of some worlds have other values, in place or in another array; a function that undoes it."""
    namespace, _, attribute = name.rpartition(":")
    owner = getattr(model, namespace) if namespace else model
    array = getattr(owner, attribute)
    old = array.numpy().copy()
    row = np.arange(len(old))
    each = len(old) // model.world_count  # worlds are equal, the ground comes last
    chosen = np.isin(row // each, worlds)
    if len(old) == model.joint_dof_count:
        chosen &= row % each >= 6  # the free joint has neither drives nor limits
    new = np.where(chosen.reshape(-1, *[1] * (old.ndim - 1)), CHANGES[name](old), old)
    if replace:
        setattr(owner, attribute, wp.array(new, dtype=array.dtype, device="cpu"))
    else:
        array.assign(new)

    def undo():
        array.assign(old)
        setattr(owner, attribute, array)

    return undo


@pytest.fixture(scope="module")
def pair():
    """The same driven humanoids on the ground in one thread and in two, and where they are."""
    sims = []
    for threads in (1, 2):
        model, scene = build_scene("humanoid", 4, "cpu")
        mode = model.joint_target_mode.numpy().reshape(4, -1)
        mode[:, 6:] = int(newton.JointTargetMode.POSITION_VELOCITY)
        model.joint_target_ke.fill_(20.0)
        model.joint_target_kd.fill_(2.0)
        sims.append(Simulation(model, dt=scene.dt, max_rigid_contact=scene.max_rigid_contact, threads=threads))
        sims[-1].joint_target_q.numpy()[:] = 0.3
        sims[-1].step(150)
    assert (sims[0].contact_counts > 2).all()
    return sims, sims[0].joint_q.numpy().copy(), sims[0].joint_qd.numpy().copy()


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_model_acts_with_every_number_of_threads(pair, name, replace):
    """In place at once (what is packed: after a notification), a replaced array after one; by world, to the bit."""
    sims, q, qd = pair
    results = []
    for sim in sims:
        ends = []
        for changed in (False, True):
            undo = change(sim.model, name, [1, 2] if changed else [], replace)
            try:
                if replace or name in PACKED:
                    sim.notify_model_changed()
                sim.reset(joint_q=None if name in STARTS else q, joint_qd=None if name in STARTS else qd)
                sim.step(12)
                ends.append(sim.joint_q.numpy().copy())
            finally:
                undo()
                sim.notify_model_changed()
        results.append(ends)
    (before, after), others = results
    np.testing.assert_array_equal([before, after], others)
    assert (before[1:3] != after[1:3]).any(axis=1).all()
    np.testing.assert_array_equal(before[[0, 3]], after[[0, 3]])


def test_an_array_of_another_kind_is_refused():
    """Before anything is taken over."""
    sim = make_sim(threads=2)
    mu = sim.model.shape_material_mu
    sim.model.shape_material_mu = wp.zeros(3, dtype=wp.float32, device="cpu")
    with pytest.raises(ValueError, match=r"model\.shape_material_mu was replaced: it is \(\(3,\)"):
        sim.notify_model_changed()
    sim.model.shape_material_mu = mu
    sim.notify_model_changed()
