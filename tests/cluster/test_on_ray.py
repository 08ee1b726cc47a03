"""Environments and rollouts on a Ray of two nodes: the bits of one process, also when workers are lost."""

import os
import signal

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="the environments are Gymnasium's")
ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster  # noqa: E402

from sap_warp import Rollouts  # noqa: E402
from sap_warp.envs import RayVectorEnv, TaskVectorEnv  # noqa: E402
from sap_warp.scale.cluster import ClusterError, Pool, connect  # noqa: E402
from tests.support.counter import Counter  # noqa: E402
from tests.support.ray_tasks import HANG, RAISE, Fragile  # noqa: E402

WORLDS = 5
CART = {"joint_f": ["slider_to_cart"]}


@pytest.fixture(scope="module")
def cluster():
    """Two nodes on this machine, each with two processors and what it takes for a GPU."""
    node = {"num_cpus": 2, "num_gpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        cluster.add_node(**node)
        with connect(cluster.address):
            yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(scope="module")
def address(cluster):
    return cluster.address


@pytest.fixture(scope="module")
def env(address):
    """Two workers, each with a GPU of its own, which they do not use."""
    made = RayVectorEnv(
        Fragile, WORLDS, workers=2, address=address, gpus_per_worker=1, device="cpu", checkpoint_every=4
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def local():
    return TaskVectorEnv(Fragile, WORLDS)


def assert_equal(one, two):
    """Arrays, numbers and containers of them, to the bit."""
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for name in one:
            assert_equal(one[name], two[name])
    elif isinstance(one, tuple) or getattr(one, "dtype", None) == np.dtype(object):
        assert len(one) == len(two)
        for x, y in zip(one, two, strict=True):
            assert_equal(x, y)
    elif one is None:
        assert two is None
    else:
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)


def play(env, local, rng, steps):
    """Take the same steps with both; returns how many episodes ended."""
    ended = 0
    for _ in range(steps):
        actions = rng.uniform(-1.0, 1.0, (WORLDS, 1)).astype(np.float32)
        found = env.step(actions)
        assert_equal(found, local.step(actions))
        ended += int((found[2] | found[3]).sum())
    return ended


def test_every_bit_is_that_of_one_process(env, local, rng):
    """Observations, rewards, ends and infos, over several episodes, with seeds and without."""
    assert env.observation_space == local.observation_space and env.action_space == local.action_space
    assert env.metadata == local.metadata
    assert [place.gpus for place in env.places] == ["0", "0"]  # each sees the one of its node
    assert len({place.node for place in env.places}) == 2
    assert_equal(env.reset(seed=3), local.reset(seed=3))
    assert play(env, local, rng, 30) >= WORLDS
    assert_equal(env.reset(seed=[9, 1, 1, 0, 4]), local.reset(seed=[9, 1, 1, 0, 4]))
    play(env, local, rng, 2)
    assert_equal(env.reset(), local.reset())
    some = {"reset_mask": np.array([False, False, False, True, False])}  # none of the first worker's
    assert_equal(env.reset(options=some), local.reset(options=some))
    with pytest.raises(ValueError, match=r"worlds \[3\] are not numbers"):
        env.step(np.where(np.arange(WORLDS) == 3, np.nan, 0.0)[:, None])
    play(env, local, rng, 1)  # nobody took the step that was refused
    with pytest.raises(AttributeError, match="in other processes"):
        _ = env.sim


def test_a_killed_worker_is_replaced_and_nothing_is_lost(env, local, rng):
    """Two steps behind a checkpoint, from which its successor goes on."""
    assert_equal(env.reset(seed=7), local.reset(seed=7))
    play(env, local, rng, 26)
    env.runner.checkpoint()
    play(env, local, rng, 2)
    before, lost = env.places, env.runner.pool.lost
    os.kill(before[1].process, signal.SIGKILL)
    play(env, local, rng, 12)
    assert env.runner.pool.lost == lost + 1
    assert env.places[0] == before[0] and env.places[1].process != before[1].process


def test_a_worker_that_hangs_or_raises_is_named_and_a_reset_goes_on(env, local, rng, monkeypatch):
    """Steps are refused until then; seeds decide everything behind it."""
    env.reset(seed=1)
    actions = np.zeros((WORLDS, 1), np.float32)
    actions[-1] = RAISE
    with pytest.raises(ValueError, match="this action is not liked"):
        env.step(actions)
    with pytest.raises(ClusterError, match="not liked Worlds are at different points now; reset all of them"):
        env.step(0.0 * actions)
    env.reset(seed=2)
    actions[-1] = HANG
    with monkeypatch.context() as patch:
        patch.setattr(env.runner.pool, "_timeout", 5.0)
        with pytest.raises(ClusterError, match=r"No answer within 5 s.*Worker 1 \(worlds 2 to 4, process \d+ on "):
            env.step(actions)
    with pytest.raises(ClusterError, match="reset all of them"):
        env.step(0.0 * actions)
    assert_equal(env.reset(seed=5), local.reset(seed=5))
    play(env, local, rng, 6)


@pytest.mark.filterwarnings("ignore:Worlds could not take a step")
def test_rollouts_go_where_they_go_in_one_process(address, rng):
    """To the bit, from one state or from one for each; also when a worker is killed; warnings of workers arrive."""
    controls = rng.normal(0.0, 20.0, (5, 6, 1))
    states = rng.normal(0.0, 0.1, (2, 5, 3)).astype(np.float32)
    here = Rollouts("cartpole", 5, inputs=CART, hold=4)
    there = Rollouts("cartpole", 5, inputs=CART, hold=4, workers=2, address=address)
    try:
        assert there.input_names == here.input_names
        for state in (states, states[:, 0]):
            one, two = here(*state, controls), there(*state, controls)
            assert_equal((one.time, one.values, one.failed), (two.time, two.values, two.failed))
        os.kill(there._pool.places[0].process, signal.SIGKILL)
        controls[3] = np.nan
        with pytest.warns(RuntimeWarning, match=r"Worker 1 \(candidates 2 to 4, .*: Worlds could not take a step"):
            two = there(*states, controls)
        one = here(*states, controls)
        assert_equal((one.time, one.values, one.failed), (two.time, two.values, two.failed))
        assert two.failed.tolist() == [False, False, False, True, False]
    finally:
        there.close()


def test_work_of_a_node_that_leaves_goes_on_elsewhere(cluster, address):
    """The worker needs so many processors that it is on the node that leaves, and then on one that came later."""
    leaving = cluster.add_node(num_cpus=8)
    cluster.wait_for_nodes()
    reached = 0
    pool = Pool(connect(address), Counter, [()], ["a number"], cpus=6, restore=lambda i: pool.ask(i, "add", reached))
    coming = None
    try:
        assert pool.places[0].node == leaving.node_id
        coming = cluster.add_node(num_cpus=8)
        cluster.remove_node(leaving)
        for number in range(100_000):  # until Ray has noticed
            assert pool.call("add", [(number,)]) == [reached + number]
            reached += number
            if pool.lost:
                break
        assert pool.places[0].node == coming.node_id and pool.lost == 1
    finally:
        pool.close()
        if coming is not None:
            cluster.remove_node(coming)


def test_workers_without_room_are_refused(address):
    """Before any of them starts."""
    with pytest.raises(ValueError, match=r"9 workers with 1 CPU each need 9 CPU; the 2 nodes .* have 4"):
        RayVectorEnv(Fragile, 16, workers=9, address=address)
    with pytest.raises(ValueError, match=r"2 workers with 2 GPU each need 4 GPU; the 2 nodes .* have 2"):
        RayVectorEnv(Fragile, 16, workers=2, address=address, gpus_per_worker=2)
    with pytest.raises(ValueError, match="from 1 to the number of worlds, 4"):
        RayVectorEnv(Fragile, 4, workers=5, address=address)
    with pytest.raises(ValueError, match="Did you mean PandaReach"):
        RayVectorEnv("panda_reech", 4, workers=1, address=address)
    with pytest.raises(ValueError, match="gpus_per_worker says how many"):
        RayVectorEnv(Fragile, 4, workers=1, address=address, device="cuda")
