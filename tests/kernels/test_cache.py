"""A kernel cache with broken files, or without room."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import warp as wp

from sap_warp.core.runtime.cache import KernelCacheError, with_kernels
from tests.support.simulations import make_sim


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A kernel that nobody has compiled, and a cache of its own."""
    wp.init()
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    number = wp.constant(int.from_bytes(os.urandom(3)))  # so that its module is loaded by nobody

    @wp.kernel(module="unique", enable_backward=False)
    def fill(values_out: wp.array[wp.int32]):
        values_out[wp.tid()] = number

    def run():
        values = wp.zeros(3, dtype=wp.int32, device="cpu")
        wp.launch(fill, dim=3, outputs=[values], device="cpu")
        return values.numpy()

    run.module, run.number = fill.module, number
    return run


@pytest.mark.parametrize("suffix", [".o", ".meta"])
def test_a_broken_file_is_built_again(kernel, tmp_path, suffix):
    """Cut off in the middle, as by a full disk: a warning names it, and the next start finds it whole."""
    kernel()
    (path,) = tmp_path.glob(f"wp_*/*{suffix}")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    kernel.module.unload()
    with pytest.warns(UserWarning, match=rf"in the cache {tmp_path} are compiled again: wp_.*fill"):
        np.testing.assert_array_equal(with_kernels(kernel), kernel.number)
    kernel.module.unload()
    np.testing.assert_array_equal(kernel(), kernel.number)
    assert json.loads(next(tmp_path.glob("wp_*/*.meta")).read_text())


def test_a_cache_that_cannot_be_written_is_named(kernel, monkeypatch):
    """With what to do about it."""
    monkeypatch.setattr(wp.config, "kernel_cache_dir", "/proc/no cache")
    with pytest.raises(KernelCacheError, match=r"cache /proc/no cache .*WARP_CACHE_PATH"):
        with_kernels(kernel)


def test_a_full_disk_is_named(kernel, tmp_path, monkeypatch):
    """Whatever the compiler says then."""

    def fail():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sap_warp.core.runtime.cache.shutil.disk_usage", lambda path: type("Usage", (), {"free": 0}))
    with pytest.raises(KernelCacheError, match=rf"cache {tmp_path} .*No space left.*Make room"):
        with_kernels(fail)


def test_other_errors_pass():
    """They are not the cache's."""
    calls = []

    def fail():
        calls.append(1)
        raise OSError(2, "No such file", "/somewhere/else")

    with pytest.raises(OSError, match="somewhere"):
        with_kernels(fail)
    assert len(calls) == 1


def test_a_simulation_starts_with_a_broken_cache(tmp_path):
    """Modules that are loaded for a step are cut off in the cache: they are built again by the first step."""
    make_sim(threads=2).step(3)  # now they are there
    real = Path(wp.config.kernel_cache_dir)
    cache = tmp_path / real.name
    cache.mkdir()
    for source in real.iterdir():
        if re.search(r"_p\d+_t\d+$", source.name):
            continue  # what another process is compiling, gone in a moment
        if not source.name.startswith(("wp_record_step", "wp_copy_rows")):
            (cache / source.name).symlink_to(source)
            continue
        shutil.copytree(source, cache / source.name)
        for file in (cache / source.name).glob("*.o"):
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    code = (
        "from tests.support.simulations import make_sim\n"
        "sim = make_sim(threads=2)\nsim.step(3)\nassert sim.statistics.world_steps == 15"
    )
    environment = {**os.environ, "WARP_CACHE_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("wp_record_step", "wp_copy_rows"):
        assert f"are compiled again: {name}" in done.stderr
