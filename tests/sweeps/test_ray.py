"""Sweeps on a Ray of two nodes: the bits of the threads, also when workers and nodes are lost in the middle."""

import os
import signal

import pytest

from sap_warp import SweepResult, sweep
from tests.sweeps.scene import PULL, SCENE

ray = pytest.importorskip("ray", reason="ray is not installed")

VARY = {"materials.ground.mu": "0.1:1.0:50", "dt": [0.004, 0.005], "gravity.x": [PULL]}
OPTIONS = {"seconds": 0.1, "seeds": 2, "record": "body_q:box.x"}
STORE = 80 * 2**20


@pytest.fixture(scope="module")
def cluster():
    """Two nodes with one processor each, on this machine."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    made.second = made.add_node(num_cpus=1, object_store_memory=STORE)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="module")
def threads(tmp_path_factory):
    """What threads give."""
    return sweep(SCENE, VARY, tmp_path_factory.mktemp("sweep") / "threads", workers=2, batch=50, **OPTIONS)


def lose_workers(monkeypatch, cluster):
    """Kill a worker that has just got the fourth task, stop one that has got the eighth, and take a node away."""
    from sap_warp.scale.sweeps.running.ray_engine import RayEngine

    give, given = RayEngine.give, []

    def disturb(engine, worker, task):
        give(engine, worker, task)
        given.append(task)
        if len(given) in (4, 8):
            process = ray.get(worker.handle.__ray_call__.remote(lambda _: os.getpid()))
            os.kill(process, signal.SIGKILL if len(given) == 4 else signal.SIGSTOP)
        elif len(given) == 14:
            cluster.remove_node(cluster.second, allow_graceful=False)

    monkeypatch.setattr(RayEngine, "give", disturb)
    return given


def test_two_nodes_give_the_bits_of_threads_although_workers_are_lost(cluster, threads, tmp_path, monkeypatch):
    """200 points; one worker is killed, one hangs, and one node leaves. Nothing is lost or counted twice."""
    given = lose_workers(monkeypatch, cluster)
    how = {"engine": "ray", "address": cluster.address, "workers": 2, "batch": 10, "timeout": 12.0}
    found = sweep(SCENE, VARY, tmp_path / "ray", **how, **OPTIONS)
    assert len(given) > 20  # tasks that were given again
    assert [row["point"] for row in found.table().to_pylist()] == list(range(200)) and not found.failures
    assert max(found["attempt"]) >= 2
    assert found.table(run_columns=False).equals(threads.table(run_columns=False))
    assert len({row["process"] for row in found.table().to_pylist()} - {os.getpid()}) >= 3
    assert same_when_resumed(threads, tmp_path, monkeypatch)


def same_when_resumed(threads, tmp_path, monkeypatch):
    """A sweep that threads began and Ray ends."""

    def interrupt(done, total, failed):
        if done >= 100:
            raise KeyboardInterrupt

    folder = tmp_path / "both"
    with pytest.raises(KeyboardInterrupt):
        sweep(SCENE, VARY, folder, workers=1, batch=50, progress=interrupt, **OPTIONS)
    assert 0 < len(SweepResult(folder)) < 200
    monkeypatch.undo()
    found = sweep(SCENE, VARY, folder, resume=True, engine="ray", workers=1, batch=50, **OPTIONS)
    return found.table(run_columns=False).equals(threads.table(run_columns=False))
