"""The order in which workers take files of tests."""

import json
from types import SimpleNamespace

import pytest

from tests.support.durations import LongestFirst


@pytest.fixture
def make(tmp_path):
    """A function that makes the plugin, in a worker or not, with a record of two files."""
    record = tmp_path / "durations.json"
    record.write_text(json.dumps({"a.py": 5, "b.py": 70, "gone.py": 9}))
    for name in ("a.py", "b.py", "c.py", "d.py"):
        (tmp_path / name).touch()

    def make(**config):
        option = SimpleNamespace()
        getoption = {"--record-durations": True}.get
        return LongestFirst(SimpleNamespace(option=option, getoption=getoption, rootpath=tmp_path, **config), record)

    return make


def test_workers_begin_with_long_files(make):
    names = ["a.py::x", "c.py::x", "c.py::y", "b.py::z", "b.py::y", "d.py::x[1]", "d.py::x[0]", "d.py::a"]
    items = [SimpleNamespace(nodeid=name) for name in names]
    plugin = make(workerinput={})
    plugin.pytest_collection_modifyitems(items)
    sorted_names = [item.nodeid for item in items]
    assert sorted_names == [names[i] for i in (3, 4, 0, 5, 6, 7, 1, 2)]
    assert plugin.config.option.loadscopereorder is False
    alone = [SimpleNamespace(nodeid=name) for name in names]
    make().pytest_collection_modifyitems(alone)
    assert [item.nodeid for item in alone] == names


def test_a_record_keeps_what_was_not_run_and_forgets_what_is_gone(make):
    plugin = make()
    for nodeid, duration in (("a.py::x", 7.4), ("a.py::y", 8.0), ("c.py::x", 0.1), ("d.py::x", 99.0)):
        plugin.pytest_runtest_logreport(SimpleNamespace(nodeid=nodeid, duration=duration))
    plugin.pytest_sessionfinish()
    assert list(json.loads(plugin.record.read_text()).items()) == [("d.py", 99), ("b.py", 70), ("a.py", 15)]
