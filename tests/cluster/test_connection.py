"""Ray is missing, too old, or cannot be what the caller means: the message says what to do. No cluster is started."""

import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from sap_warp.scale.cluster import Connection, connect, require_ray


def fake_ray(version, **others):
    ray = ModuleType("ray")
    ray.__version__ = version
    for name, value in others.items():
        setattr(ray, name, value)
    return ray


def running(monkeypatch, nodes, address="10.0.0.1:6379"):
    """A Ray that this process is connected to, with such nodes."""
    context = SimpleNamespace(gcs_address=address)
    listed = [{"Alive": alive, "Resources": resources} for alive, resources in nodes]
    ray = fake_ray("2.50.1", is_initialized=lambda: True, get_runtime_context=lambda: context, nodes=lambda: listed)
    ray.shutdown = lambda: pytest.fail("a Ray that somebody else started was stopped")
    monkeypatch.setitem(sys.modules, "ray", ray)


def test_missing_names_the_extra(monkeypatch):
    """None in the list of modules is how Python says that there is no such package."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"This needs Ray: pip install 'sap-warp\[scale\]'"):
        connect()


@pytest.mark.parametrize("version", ["2.39.0", "1.13.1"])
def test_too_old_names_both_versions(monkeypatch, version):
    """What is needed, what is there, and what to install."""
    monkeypatch.setitem(sys.modules, "ray", fake_ray(version))
    with pytest.raises(ImportError, match=rf"Ray 2\.40 or later, and {version} is installed: pip install 'sap-warp"):
        require_ray()


@pytest.mark.parametrize("version", ["2.40.0", "2.100.1", "3.0.0.dev0"])
def test_new_enough_is_taken(monkeypatch, version):
    """Versions are compared as numbers."""
    monkeypatch.setitem(sys.modules, "ray", fake_ray(version))
    assert require_ray().__version__ == version


def test_the_present_connection_is_used_and_left_alone(monkeypatch):
    """Whoever calls `connect` behind `ray.init` gets that Ray, and does not stop it."""
    running(monkeypatch, [(True, {"CPU": 2.0})])
    for address in (None, "auto", "10.0.0.1:6379"):
        with connect(address) as found:
            assert (found.address, found.started) == ("10.0.0.1:6379", False)
    with pytest.raises(ValueError, match=r"connected to the Ray at 10\.0\.0\.1:6379, and cannot join 10\.0\.0\.2:6379"):
        connect("10.0.0.2:6379")


def test_remote_drivers_are_told_where_to_run(monkeypatch):
    """Ray's client would send every array through one socket."""
    running(monkeypatch, [])
    with pytest.raises(ValueError, match="run this on a node of the cluster"):
        connect("ray://10.0.0.1:10001")


def test_workers_that_can_never_run_are_refused(monkeypatch):
    """Nodes that left do not count; processors and GPUs are looked at both."""
    running(monkeypatch, [(True, {"CPU": 2.0, "GPU": 1.0}), (True, {"CPU": 1.0}), (False, {"CPU": 64.0, "GPU": 8.0})])
    found = Connection("10.0.0.1:6379", started=False)
    found.require(3, cpus=1.0, gpus=0.25)
    with pytest.raises(ValueError, match=r"4 workers with 1 CPU each need 4 CPU; the 2 nodes .* have 3"):
        found.require(4)
    with pytest.raises(ValueError, match=r"2 workers with 1 GPU each need 2 GPU; the 2 nodes .* have 1"):
        found.require(2, gpus=1.0)
    assert str(found) == "Ray at 10.0.0.1:6379 (joined): 2 nodes, 3 CPUs"


def test_ray_is_not_loaded_before_it_is_used():
    """Looking for it, making a setup or listing names needs none."""
    code = "import sys, sap_warp.scale.cluster as c; c.worker_environment(); c.machine_id()"
    code += "; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
