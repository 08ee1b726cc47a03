"""Workers have the driver's code and compiled kernels; tested in processes of their own, without Ray."""

import io
import os
import pickle
import subprocess
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from sap_warp.scale.cluster import ClusterError, prepare_worker, unpack_kernels, worker_environment, worker_setup
from sap_warp.scale.cluster import workers as workers_module

SIMULATE = """
from sap_warp import Simulation
Simulation.from_scene("cartpole", num_worlds=2).step(2)
"""
DRIVER = f"""
import pathlib, sys
from sap_warp.scale.cluster import pack_kernels
{SIMULATE}
pathlib.Path(sys.argv[1]).write_bytes(pack_kernels().tobytes())
"""
WORKER = f"""
import pathlib, pickle, sys
from sap_warp.scale.cluster import prepare_worker
setup, kernels = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
prepare_worker(setup, kernels)
if kernels is not None:
    {SIMULATE.replace(chr(10), chr(10) + "    ")}
import warp as wp
print(wp.config.kernel_cache_dir, len(list(pathlib.Path(wp.config.kernel_cache_dir).glob("wp_*"))))
"""


def run(code, path, **environment):
    """What a process of its own prints last."""
    own = {**os.environ, **worker_environment()["env_vars"], **environment}
    found = subprocess.run([sys.executable, "-c", code, path], env=own, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout.split()[-2:]


def run_worker(tmp_path, setup, kernels=None):
    """Cache and number of modules in it, of a process with an empty cache of its own; with kernels it simulates."""
    given = tmp_path / "given.pkl"
    given.write_bytes(pickle.dumps((setup, kernels)))
    cache, count = run(WORKER, given, WARP_CACHE_PATH=str(tmp_path / "cache"))
    return cache, int(count)


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """Kernels of a cart-pole, from a process that loaded no others."""
    path = tmp_path_factory.mktemp("kernels") / "kernels.zip"
    run(DRIVER, path)
    return np.fromfile(path, np.uint8)


def test_a_worker_on_the_same_machine_uses_the_drivers_cache(tmp_path):
    """Whatever its environment says."""
    setup = worker_setup()
    assert run_worker(tmp_path, setup)[0] == setup.cache


def test_a_worker_on_another_machine_compiles_nothing(tmp_path, packed):
    """What the driver loaded suffices: the cache has the modules that were shipped and no other."""
    elsewhere = replace(worker_setup(), machine="elsewhere")
    cache, count = run_worker(tmp_path, elsewhere, packed)
    assert cache.startswith(str(tmp_path))
    with zipfile.ZipFile(io.BytesIO(packed.tobytes())) as archive:
        assert count == len({name.split("/")[0] for name in archive.namelist()})
    assert not list((tmp_path / "cache").rglob("*.cpp"))  # what compiling leaves behind


def test_kernels_that_are_there_are_left_alone(packed):
    """Files of a machine's cache are not written twice."""
    assert unpack_kernels(packed) == 0


def test_an_archive_cannot_write_elsewhere():
    """Names are checked before anything is written."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("../outside.o", b"")
    with pytest.raises(ValueError, match="outside of the cache"):
        unpack_kernels(np.frombuffer(buffer.getvalue(), np.uint8))


def test_other_code_is_refused(monkeypatch):
    """Both versions and the place are named."""
    setup = worker_setup()
    monkeypatch.setattr(workers_module, "code_id", lambda: "sap-warp 0.0.1, files 123")
    with pytest.raises(
        ClusterError, match=r"has other code than the driver: sap-warp 0\.0\.1, files 123 in .* instead"
    ):
        prepare_worker(setup)
