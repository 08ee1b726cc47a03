"""How long files of tests take: workers begin with the longest, so that all end at about the same time.

``tests/durations.json`` has seconds by file. A run with ``--record-durations`` writes it, best with an empty kernel cache
on a quiet machine. Order is all it is for: nothing fails when it is old or an estimate, and a file that it does not know
is guessed by the number of its tests.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

RECORD = Path(__file__).parents[1] / "durations.json"
SHORT = 3.0
"""Files that take less are left to the guess [s]."""
GUESS = 0.02
"""Most tests take about that [s]."""


def file_of(nodeid: str) -> str:
    """The file of a test, from the top of the repository."""
    return nodeid.partition("::")[0]


class LongestFirst:
    """A plugin that sorts tests in workers, and records how long files take if it is asked to."""

    def __init__(self, config: pytest.Config, record: Path = RECORD) -> None:
        self.config, self.record = config, record
        self.seconds: Counter[str] = Counter()
        config.option.loadscopereorder = False  # xdist would sort files by the number of their tests

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Files stay together; the order inside a file stays."""
        if hasattr(self.config, "workerinput"):
            counts = Counter(file_of(item.nodeid) for item in items)
            seconds = {file: GUESS * n for file, n in counts.items()} | json.loads(self.record.read_text())
            items.sort(key=lambda item: -seconds[file_of(item.nodeid)])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up, also what workers report."""
        self.seconds[file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the record, if that is wanted, of what was run; other files keep theirs."""
        if self.config.getoption("--record-durations") and not hasattr(self.config, "workerinput"):
            known = json.loads(self.record.read_text()) | {file: round(s) for file, s in self.seconds.items()}
            kept = {f: s for f, s in known.items() if s >= SHORT and (self.config.rootpath / f).exists()}
            ordered = dict(sorted(kept.items(), key=lambda entry: (-entry[1], entry[0])))
            self.record.write_text(json.dumps(ordered, indent=1) + "\n")
