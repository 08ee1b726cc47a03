"""One small simulation for all tests of pictures: the ray tracer is compiled once."""

import pytest

from tests.support.balls import make_balls


@pytest.fixture(scope="package")
def shared_sim():
    """Where it is made."""
    sim = make_balls()
    yield sim
    sim.close()


@pytest.fixture
def sim(shared_sim):
    """At the start."""
    shared_sim.reset()
    shared_sim.studio.forget()
    return shared_sim
