"""What a simulation says by itself when a result cannot be right."""

import warnings

import newton
import numpy as np
import pytest

from sap_warp import Simulation, SolveStatus, WorldFailedError
from tests.support.simulations import make_sim


def failing(threads=1, **options):
    """A simulation whose worlds 1 and 4 will not be able to take the next step."""
    sim = make_sim(threads=threads, **options)
    sim.step(2)
    sim.joint_f.numpy()[[1, 4], 0] = np.nan
    return sim


@pytest.mark.parametrize("threads", [1, 2])
def test_worlds_that_cannot_take_a_step_are_named_once(threads):
    """After the step, with their numbers in the whole simulation, and not again."""
    sim = failing(threads)
    with pytest.warns(RuntimeWarning, match=r"2 worlds \(1, 4\).*sim\.reset\(sim\.diverged\)") as found:
        sim.step(3)
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.step(3)
        assert sim.diverged.tolist() == [False, True, False, False, True]
        assert sim.statistics.failed == 2 * 6


def test_without_counting_the_next_read_tells():
    """Statistics are off: a view, the status or a statistic says it."""
    sim = failing(statistics=False)
    sim.step(3)
    with pytest.warns(RuntimeWarning, match="could not take a step"):
        sim.joint_q.numpy()


def test_strict_raises_each_time():
    """The steps are counted, the worlds named; a healthy simulation goes on."""
    sim = failing(strict=True)
    for count in (5, 6):
        with pytest.raises(WorldFailedError, match=r"2 worlds \(1, 4\)"):
            sim.step(count - sim.step_count)
        assert sim.step_count == count
    sim.joint_f.numpy()[:] = 0.0
    sim.reset(sim.diverged)
    sim.step(3)
    assert sim.step_count == 9


def chain(links):
    """Links of 0.1 m and 0.1 kg in a row, level, on a hinge at one end."""
    builder = newton.ModelBuilder()
    joints, parent = [], -1
    for i in range(links):
        body = builder.add_link(mass=0.1, inertia=np.diag([1e-5, 8e-5, 8e-5]).tolist())
        at = ((0.0, 0.0, 5.0), (0.0, 0.0, 0.0, 1.0)) if i == 0 else ((0.05, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
        end = ((-0.05, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
        joints.append(builder.add_joint_revolute(parent, body, parent_xform=at, child_xform=end, axis=(0, 1, 0)))
        parent = body
    builder.add_articulation(joints)
    return builder.finalize("cpu")


def test_a_chain_too_long_for_fp32_says_what_to_set():
    """The world stands still in fp32; the warning names the option, and with it the chain falls."""
    model = chain(120)
    sim = Simulation(model, dt=0.001)
    with pytest.warns(RuntimeWarning, match=r'FREE_MOTION_FAILED in world 0.*free_motion_solve_precision="fp64"'):
        sim.step(20)
    assert sim.status[0] == SolveStatus.FREE_MOTION_FAILED
    better = Simulation(model, dt=0.001, free_motion_solve_precision="fp64", strict=True)
    better.step(20)
    assert better.joint_qd.numpy()[0, 0] > 0.01
