"""Callbacks that change what they were called from."""

import numpy as np
import pytest

from tests.support.simulations import STATE_ARRAYS, make_sim


def states(sim):
    """Copies of all arrays that a step writes."""
    return {name: getattr(sim, name).flat().copy() for name in STATE_ARRAYS}


def assert_equal(one, other):
    for name in STATE_ARRAYS:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_a_callback_may_reset_all_worlds():
    """Steps asked for are taken, whatever the clock says; the state is that of the steps since the last reset."""
    sim, other = make_sim(), make_sim()
    calls = []
    sim.add_callback(lambda s: (calls.append(s.step_count), s.reset()), every=10)
    sim.step(104)
    assert calls == [10] * 10
    assert sim.step_count == sim.solver.frame_id == 4
    other.step(4)
    assert_equal(states(sim), states(other))


def test_a_reset_does_not_make_other_callbacks_due():
    """Which are called is decided by the step that was taken, not by the clock after the first of them."""
    sim, calls = make_sim(), []
    sim.add_callback(lambda s: s.reset(), every=2)
    sim.add_callback(lambda s: calls.append("every 7"), every=7)
    sim.step(20)
    assert calls == []


@pytest.mark.parametrize("every", [1, 10])
def test_a_callback_may_change_time_step_and_model(every):
    """All steps are computed: with the time step and the mass in force, as by steps between which they were changed."""
    sim, other = make_sim(worlds=2), make_sim(worlds=2)
    changes = iter([0.001, 0.004])

    def change(s):
        dt = next(changes, None)
        if dt is None:
            return
        s.dt = dt
        s.model.body_mass.assign(2.0 * s.model.body_mass.numpy())
        s.notify_model_changed()

    sim.add_callback(change, every=every)
    sim.step(20 + 2 * every)
    for _ in range(2):
        other.step(every)
        change_dt = 0.001 if other.step_count == every else 0.004
        other.dt = change_dt
        other.model.body_mass.assign(2.0 * other.model.body_mass.numpy())
        other.notify_model_changed()
    other.step(20)
    assert sim.step_count == sim.solver.frame_id == 20 + 2 * every
    assert sim.time == pytest.approx(other.time)
    assert_equal(states(sim), states(other))


def test_callbacks_may_add_and_take_away_callbacks():
    """One that is taken away is not called any more, not even at this step; one that is added comes with the next."""
    sim, calls = make_sim(worlds=1), []

    def first(s):
        calls.append(("first", s.step_count))
        if s.step_count == 2:
            remove()
            s.add_callback(lambda s: calls.append(("third", s.step_count)))

    sim.add_callback(first)
    remove = sim.add_callback(lambda s: calls.append(("second", s.step_count)))
    sim.step(3)
    assert calls == [("first", 1), ("second", 1), ("first", 2), ("first", 3), ("third", 3)]


def test_an_error_of_a_callback_ends_the_steps_where_they_are():
    """The clock is that of the state, and one can go on."""
    sim, other = make_sim(worlds=1), make_sim(worlds=1)

    def fail(s):
        raise KeyError("mine")

    remove = sim.add_callback(fail, every=5)
    with pytest.raises(KeyError, match="mine"):
        sim.step(20)
    assert sim.step_count == sim.solver.frame_id == 5
    remove()
    sim.step(15)
    other.step(20)
    assert_equal(states(sim), states(other))


def test_a_callback_cannot_step():
    """It would call itself; afterwards the simulation goes on."""
    sim = make_sim(worlds=1)
    remove = sim.add_callback(lambda s: s.step())
    with pytest.raises(RuntimeError, match="by a callback"):
        sim.step(3)
    remove()
    sim.step(3)
    assert sim.step_count == 4
    sim.add_callback(lambda s: s.close(), every=5)
    with pytest.raises(RuntimeError, match="closed"):
        sim.step(3)


@pytest.mark.parametrize("dt, error", [(0.0, ValueError), (-1.0, ValueError), (np.nan, ValueError), ("1", TypeError)])
def test_the_time_of_a_sample_is_checked_at_construction(dt, error):
    """A sequence whose samples last for no time can never be followed."""

    class Sequence:
        def write(self, control, time):
            raise AssertionError("never written")

    with pytest.raises(TypeError, match=r"control_sequence is a Sequence; it must have dt"):
        make_sim(worlds=1, control_sequence=Sequence())
    Sequence.dt = dt
    with pytest.raises(error, match=r"control_sequence\.dt"):
        make_sim(worlds=1, control_sequence=Sequence())
