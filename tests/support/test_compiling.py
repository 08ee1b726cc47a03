"""What workers of a test run share when they compile."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import warp._src.build as warp_build
from warp._src.context import Module

from tests.support import compiling


@pytest.fixture
def workers(tmp_path, monkeypatch):
    """Two of them, with one folder."""
    # Those of the run stay out of it, and are back afterwards.
    monkeypatch.setattr(Module, "_compile", compiling._compile)
    monkeypatch.setattr(Module, "__init__", compiling._make_module)
    monkeypatch.setattr(warp_build, "build_cpu", compiling._build_cpu)
    config = SimpleNamespace(workerinput={"compiling": str(tmp_path)})
    return [compiling.CompileOnce(config) for _ in range(2)]


def test_who_needs_the_same_module_waits_for_it(workers, tmp_path, monkeypatch):
    """While one compiles it, another comes and waits, and a third one compiles another module."""
    compiled, others = [], []
    second_waits = threading.Event()
    flock = compiling.fcntl.flock

    def compile_(module, device, output_dir, output_name):
        target = Path(output_dir, output_name)
        if target.exists():  # Warp's own begins like this too
            return False
        if module == "a":
            others.append(threading.Thread(target=ask, args=(1, "a")))
            others[-1].start()
            assert second_waits.wait(20.0), "the second worker does not wait"
            other_module = threading.Thread(target=ask, args=(1, "b"))
            other_module.start()
            other_module.join(20.0)
        compiled.append(module)
        target.touch()
        return True

    def watched_flock(file, operation):
        if others:
            second_waits.set()
        flock(file, operation)

    def ask(worker, module):
        folder = tmp_path / f"wp_{module}"
        folder.mkdir(exist_ok=True)
        once[worker](module, None, str(folder), "x.o")

    monkeypatch.setattr(compiling, "_compile", compile_)
    monkeypatch.setattr(compiling.fcntl, "flock", watched_flock)
    once = []
    for worker in workers:
        worker.pytest_sessionstart()
        once.append(Module._compile)
    ask(0, "a")
    others[0].join(20.0)
    assert compiled == ["b", "a"]


def test_headers_are_prepared_once_for_each_set_of_options(workers, tmp_path, monkeypatch):
    prepared, found = [], []

    def build_cpu(obj_path, cpp_path, **options):
        own = Path(options["pch_dir"], f"{options['block_dim']}.pch")
        if not own.exists():
            prepared.append(options["block_dim"])
            own.write_text("")
        found.append(sorted(path.name for path in Path(options["pch_dir"]).glob("*.pch")))

    monkeypatch.setattr(compiling, "_build_cpu", build_cpu)
    for i, worker in enumerate([*workers, workers[0]]):
        own = tmp_path / f"thread{i}"
        own.mkdir()
        worker.pytest_sessionstart()
        for block_dim in (1, 32, 1):
            options = {"use_precompiled_headers": True, "pch_dir": str(own), "block_dim": block_dim}
            warp_build.build_cpu("x.o", "x.cpp", **options)
        assert found[-1] == ["1.pch", "32.pch"]
    assert prepared == [1, 32]


def test_newtons_modules_have_no_backward_passes(workers):
    """All others have what they ask for."""
    names = ("newton._src.sim.x", "sap_warp.x", "new_kernel_1234")
    before = [Module(name, None).options["enable_backward"] for name in names]
    workers[0].pytest_sessionstart()
    assert before == [True, True, True]
    assert [Module(name, None).options["enable_backward"] for name in names] == [False, True, True]
