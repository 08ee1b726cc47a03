"""Settings and fixtures for all tests."""

import zlib

import numpy as np
import pytest
import warp as wp

# Compilation messages would bury the output of a failing test.
wp.config.log_level = wp.LOG_WARNING


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator seeded by the test's own id: the same numbers in any order and on any worker."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))
