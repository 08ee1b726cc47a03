"""Settings and fixtures for all tests."""

import zlib

import numpy as np
import pytest
import warp as wp

# Compilation messages would bury the output of a failing test.
wp.config.log_level = wp.LOG_WARNING
pytest.register_assert_rewrite("tests.support")  # failures there show their values too


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of our own."""
    text = "write tests/durations.json: how long files of tests took"
    parser.addoption("--record-durations", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Let the workers of this run share what they compile, and share the work well."""
    from tests.support.compiling import CompileOnce
    from tests.support.durations import LongestFirst
    from tests.support.newton_kernels import MakeKernelsOnce

    config.pluginmanager.register(CompileOnce(config))
    config.pluginmanager.register(LongestFirst(config))
    config.pluginmanager.register(MakeKernelsOnce())


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator seeded by the test's name: the same numbers in any order, on any worker and in any file."""
    name = request.node.nodeid.partition("::")[2]
    return np.random.default_rng(zlib.crc32(name.encode()))


@pytest.fixture
def cpu_blocks(monkeypatch):
    """Blocks of several lanes on the CPU, as cooperative fibers with real barriers."""
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)


@pytest.fixture
def report(record_property, request):
    """Puts measured numbers into the summary at the end of the run."""

    def say(**values):
        text = "  ".join(f"{k}={v:.6g}" if isinstance(v, float) else f"{k}={v}" for k, v in values.items())
        record_property(request.node.name, text)

    return say


def pytest_terminal_summary(terminalreporter):
    """Print what tests recorded with ``record_property``, also when they ran in a worker process."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    lines = [
        f"{name}: {value}"
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if report.when == "call"
    ]
    if lines:
        terminalreporter.section("measured")
        for line in lines:
            terminalreporter.write_line(line)
