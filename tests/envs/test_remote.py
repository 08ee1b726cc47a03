"""The driver's side of an environment in workers: any number of them gives the bits of one process.

The workers are objects in this process here, and what they say is pickled; tests/cluster has real ones.
"""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="the environments are Gymnasium's")

from sap_warp.envs import RayVectorEnv, TaskVectorEnv
from sap_warp.envs.adapters import remote as remote_module
from sap_warp.scale.cluster import ClusterError
from tests.support.ray_tasks import Fragile

WORLDS = 5


class Forgetful(Fragile):
    """Keeps something that is no array, and has an effect."""

    def setup(self):
        super().setup()
        self.past = SimpleNamespace(steps=0)

    def apply(self, actions):
        self.past.steps += 1
        super().apply(actions * (0.5 if self.past.steps % 2 else 1.0))


class LocalPool:
    """Stands for `sap_warp.scale.cluster.Pool` in this process; `lose` lets a worker be lost before the next call."""

    def __init__(self, connection, make, given, texts, *, restore, **options):
        self.torn, self._lost, self._restore, self.members = "", [], restore, texts
        self._make = [lambda own=own: make(*pickle.loads(pickle.dumps(own))) for own in given]
        self.subjects = [make_one() for make_one in self._make]

    def ask(self, number, method, *given):
        answer = getattr(self.subjects[number], method)(*pickle.loads(pickle.dumps(given)))
        return pickle.loads(pickle.dumps(answer))

    def call(self, method, given, *, mend=False):
        for number in self._lost:
            self.subjects[number] = self._make[number]()
            self._restore(number)
        self._lost = []
        return [self.ask(number, method, *own) for number, own in enumerate(given)]

    def lose(self, number):
        self._lost.append(number)

    def close(self):
        pass


@pytest.fixture(autouse=True)
def _local_workers(monkeypatch):
    monkeypatch.setattr(remote_module, "Pool", LocalPool)
    monkeypatch.setattr(remote_module, "connect", lambda *_, **__: SimpleNamespace(close=lambda: None))


def play(envs, rng, steps):
    """The same actions for all; the first is compared with the others."""
    for _ in range(steps):
        actions = rng.uniform(-1.0, 1.0, (WORLDS, 1)).astype(np.float32)
        one, *others = (env.step(actions) for env in envs)
        for other in others:
            for x, y in zip(one[:4], other[:4], strict=True):
                assert type(x) is type(y)
                np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
            assert one[4].keys() == other[4].keys()
            if "final_obs" in one[4]:
                mask = one[4]["_final_obs"]
                np.testing.assert_array_equal(mask, other[4]["_final_obs"])
                for x, y in zip(one[4]["final_obs"][mask], other[4]["final_obs"][mask], strict=True):
                    np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


@pytest.mark.parametrize(
    "options", [{}, {"autoreset_mode": "NextStep"}, {"arrays": "torch"}], ids=["numpy", "next step", "torch"]
)
def test_any_number_of_workers_gives_the_same_bits(options, rng):
    """One, and three of which one has a single world; over the ends of episodes."""
    if "arrays" in options:
        pytest.importorskip("torch")
    envs = [TaskVectorEnv(Fragile, WORLDS, **options)]
    envs += [RayVectorEnv(Fragile, WORLDS, workers, **options) for workers in (1, 3)]
    seen = [env.reset(seed=4)[0] for env in envs]
    for other in seen[1:]:
        np.testing.assert_array_equal(np.asarray(other), np.asarray(seen[0]))
    play(envs, rng, 28)
    assert envs[-1].runner.taken == 28 * WORLDS


@pytest.mark.parametrize("behind", [0, 3])
def test_a_lost_worker_goes_on_from_its_checkpoint(behind, rng):
    """Or from the beginning, if there was none yet."""
    envs = TaskVectorEnv(Fragile, WORLDS), RayVectorEnv(Fragile, WORLDS, 2, checkpoint_every=6)
    for env in envs:
        env.reset(seed=4)
    play(envs, rng, 6 + behind if behind else 3)
    envs[1].runner.pool.lose(1)
    play(envs, rng, 8)


def test_memory_that_is_not_kept_is_noticed(rng):
    """The successor sees something else, and nobody goes on with it."""
    env = RayVectorEnv(Forgetful, WORLDS, 2, checkpoint_every=3)
    env.reset(seed=4)
    play([env], rng, 5)
    env.runner.pool.lose(0)
    with pytest.raises(ClusterError, match="sees something else after the same actions"):
        env.step(np.zeros((WORLDS, 1)))


def test_pictures_are_refused_where_the_worlds_are_elsewhere():
    """Nothing is accepted and ignored."""
    with pytest.raises(ValueError, match="render_mode is for environments in this process"):
        RayVectorEnv(Fragile, WORLDS, 2, render_mode="rgb_array")
