"""The pretended GPU, and what all tests of this folder have in common."""

from pathlib import Path

import pytest

from tests.cuda.emulator import build
from tests.cuda.emulator.device import Device
from tests.cuda.emulator.driver import pretended


def pytest_collection_modifyitems(items):
    """Mark the tests of this folder, and skip them where they cannot run.

    A short run leaves out those that are marked ``long_cuda`` in their files; the others take under two minutes on two
    cores, with nothing compiled before.
    """
    reason = build.missing()
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cuda)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module")
def driver():
    """Two pretended GPUs, with the driver below Warp."""
    with pretended(Device(), device_count=2) as made:
        yield made


@pytest.fixture
def gpu(driver):
    """The driver; a test fails if a kernel did what it must not do on a GPU."""
    driver.device.clear()
    driver.log.clear()
    driver.device.seed = 1
    yield driver
    assert not driver.device.faults, "\n".join(map(str, driver.device.faults))


@pytest.fixture
def faults(driver):
    """The driver, for tests that expect faults: a function that gives their names and forgets them."""
    driver.device.clear()
    driver.device.seed = 1

    def take() -> set[str]:
        found = {fault.what for fault in driver.device.faults}
        driver.device.clear()
        return found

    yield take
    driver.device.clear()
    driver.device.skipped = ("", 0)
