"""How a page paces a simulation: by a clock that the test turns by hand."""

import math

import pytest

from sap_warp.look.viewer.clock import Clock


class Hand:
    """A clock's hand."""

    def __init__(self):
        self.time = 0.0

    def __call__(self):
        return self.time


@pytest.fixture
def hand():
    return Hand()


@pytest.mark.parametrize("speed", [0.1, 1.0, 2.5])
def test_steps_add_up_to_the_asked_speed(hand, speed):
    clock = Clock(30.0, speed, None, hand)
    steps = sum(clock.steps(0.007) for _ in range(3000))  # 100 s; a frame is no multiple of the step
    assert steps * 0.007 == pytest.approx(100.0 * speed, abs=0.01)


def test_as_fast_as_it_goes_fills_a_frame(hand):
    clock = Clock(50.0, math.inf, None, hand)
    assert clock.steps(0.01) == 1
    clock.took(1, 1e-4)
    assert clock.steps(0.01) == 160  # 0.8 of 20 ms
    clock.took(1, 6e-4)  # one slow step counts for a fifth: 0.2 ms
    assert clock.steps(0.01) == 80
    for _ in range(50):
        clock.took(10, 10.0)
    assert clock.steps(0.01) == 1  # never none


def test_steps_per_frame_win(hand):
    clock = Clock(50.0, 1.0, 7, hand)
    assert [clock.steps(0.01) for _ in range(3)] == [7, 7, 7]


def test_frames_are_due_at_even_times(hand):
    clock = Clock(10.0, 1.0, None, hand)
    for frame in range(1, 6):
        hand.time += 0.03  # the work of the frame
        assert clock.wait_time() == pytest.approx(0.07)
        hand.time = 0.1 * frame


def test_a_slow_simulation_does_not_run_after_its_lost_time(hand):
    clock = Clock(10.0, 1.0, None, hand)
    clock.steps(0.01)
    hand.time = 5.0
    assert clock.wait_time() == 0.0
    assert clock.steps(0.01) == 10  # of one frame, not of fifty
    assert clock.wait_time() == pytest.approx(0.1)


@pytest.mark.parametrize("time, wait", [(0.19, 0.01), (0.21, 0.1)])
def test_up_to_a_tenth_of_a_second_is_caught_up(hand, time, wait):
    clock = Clock(10.0, 1.0, None, hand)
    hand.time = time  # the frame was due at 0.1
    assert clock.wait_time() == 0.0
    assert clock.wait_time() == pytest.approx(wait)
