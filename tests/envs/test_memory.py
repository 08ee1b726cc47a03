"""What decides the future of a task that runs can be carried into another process; tested in this one."""

import pickle

import numpy as np
import pytest

from sap_warp.envs import Runner, Task, find_task
from sap_warp.envs.memory import get_memory, set_memory
from sap_warp.envs.shard import Shard
from sap_warp.randomization import Randomize, Uniform


class Worn(find_task("CartPoleSwingUp")):
    """With memory of its own of several kinds, and parameters that differ between episodes."""

    time_limit = 0.3
    randomization = (Randomize("body_mass", Uniform(0.5, 2.0), how="scale"),)

    def setup(self):
        self.count, self.past, self.by_name = 0, [self.arrays.zeros(self.num_worlds)], {"sum": 0.0}

    def advance(self, draw):
        self.count += 1
        self.past[0] = self.past[0] + draw.uniform()
        self.by_name["sum"] += float(self.past[0][0])


def play(runner, actions):
    return [runner.step(action) for action in actions]


@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_another_runner_goes_on_with_the_same_bits(arrays, rng):
    """In the middle of episodes that end later, with what is summed over them, and through a pickle."""
    if arrays == "torch":
        pytest.importorskip("torch")
    actions = rng.uniform(-1.0, 1.0, (12, 3, 1)).astype(np.float32)
    first, second = (Runner(Worn(3, arrays=arrays)) for _ in range(2))
    first.seed(5)
    first.reset()
    play(first, actions[:5])
    saved = pickle.loads(pickle.dumps(get_memory(first)))
    play(second, actions[:2])  # it has been elsewhere
    set_memory(second, saved)
    for one, two in zip(play(first, actions[5:]), play(second, actions[5:]), strict=True):
        for x, y in zip(one[:4], two[:4], strict=True):
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
        assert (one.ended is None) == (two.ended is None)
        if one.ended is not None:
            np.testing.assert_array_equal(one.ended.returns, two.ended.returns)
    assert first.task.count == second.task.count == 12
    assert first.task.by_name == second.task.by_name
    np.testing.assert_array_equal(np.asarray(first.task.past[0]), np.asarray(second.task.past[0]))
    np.testing.assert_array_equal(first.task.sim.body_mass.numpy(), second.task.sim.body_mass.numpy())


def test_a_task_extends_what_is_kept():
    """Objects are constant unless the task says otherwise."""

    class Dice(Worn):
        def setup(self):
            super().setup()
            self.generator = np.random.default_rng(0)

        def get_memory(self):
            return super().get_memory() | {"generator": self.generator.bit_generator.state}

        def set_memory(self, saved):
            self.generator.bit_generator.state = saved.pop("generator")
            super().set_memory(saved)

    assert issubclass(Dice, Task)
    first, second = (Runner(Dice(1)) for _ in range(2))
    first.task.generator.random(3)
    set_memory(second, get_memory(first))
    assert first.task.generator.random() == second.task.generator.random()


def test_doing_the_same_again_is_recognised(rng):
    """A shard that went through the same calls has the same digests; through others, it has others."""
    calls = [("reset", (None, [1, 2, 3]))] + [("step", (rng.uniform(-1.0, 1.0, (2, 1)),)) for _ in range(3)]
    shards = [Shard(Worn, 2, (1, 3), True, False, {}) for _ in range(2)]
    seen = shards[0].replay(calls)
    assert len(set(seen)) == len(calls)
    assert shards[1].replay(calls[:2]) == seen[:2]
    assert shards[1].replay(calls[2:]) == seen[2:]
    assert shards[1].replay(calls[:1]) == seen[:1]
    assert shards[1].replay([("step", (-calls[1][1][0],))]) != seen[1:2]
