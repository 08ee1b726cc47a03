"""One small simulation for all tests of pictures: the ray tracer is compiled once."""

import pytest

from tests.support.balls import make_balls
from tests.support.simulations import shared_simulation

shared_sim = shared_simulation(make_balls, "package")


@pytest.fixture
def sim(shared_sim):
    """At the start."""
    shared_sim.reset()
    shared_sim.studio.forget()
    return shared_sim
