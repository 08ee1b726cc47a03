"""The examples of docs/learning.md run."""

import re
from importlib import metadata
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "learning.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
NEEDS = {
    "gymnasium": "gymnasium",
    "StableBaselines": "stable-baselines3",
    "RslRl": "rsl-rl-lib",
    "unitree": "example-robot-data",
}
"""Packages that an example with such a word needs."""


def is_installed(package):
    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False


@pytest.mark.parametrize("index", range(len(BLOCKS)))
def test_example_runs(index):
    """As it stands on the page; one whose packages are not installed is left out."""
    for word, package in NEEDS.items():
        if word in BLOCKS[index] and not is_installed(package):
            pytest.skip(f"the example needs {package}")
    exec(compile(BLOCKS[index], f"{PAGE.name}[{index}]", "exec"), {"__name__": "__main__"})


def test_there_are_examples():
    """A page without any would pass."""
    assert len(BLOCKS) >= 4
