"""Tasks as environments of Gymnasium: its own checks, seeds, ends of episodes and wrappers."""

import subprocess
import sys

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="the environments are Gymnasium's")

from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402
from gymnasium.wrappers.vector import DictInfoToList, DtypeObservation, RecordEpisodeStatistics  # noqa: E402

import sap_warp.envs  # noqa: E402, F401
from sap_warp.envs import Runner, Task, TaskVectorEnv, find_task, metric, observation, reward, termination  # noqa: E402
from sap_warp.envs.tasks.cartpole import CartPoleSwingUp  # noqa: E402

ID = "sap_warp/CartPoleSwingUp-v0"
SHARES = ((0, 3), (3, 1), (4, 1))
"""Five worlds in three parts: first world and number of worlds."""


class Short(CartPoleSwingUp):
    """Ends after half a second, or when the cart moves away."""

    time_limit = 0.5
    substeps = 4

    @termination
    def away(self):
        return abs(self.joint_q[:, 0]) > 0.52


@pytest.fixture(scope="module")
def env():
    return gymnasium.make_vec(ID, num_envs=4)


def actions_of(env, rng, count):
    return rng.uniform(-1.0, 1.0, (count, *env.action_space.shape)).astype(np.float32)


def test_registry_makes_many_worlds(env):
    """With spaces, time step and mode declared."""
    assert env.num_envs == 4 and env.spec.id == ID
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert env.metadata["render_fps"] == 25
    observation, infos = env.reset(seed=3)
    assert observation in env.observation_space and infos == {}
    results = env.step(env.action_space.sample())
    assert results[0] in env.observation_space
    assert [array.dtype.kind for array in results[1:4]] == ["f", "b", "b"]


def test_a_name_can_bring_its_import():
    """As other programs give it to Gymnasium, in a process that knows nothing of this package yet."""
    name = f"sap_warp.envs:{ID}"
    code = f"import gymnasium; print(gymnasium.make_vec({name!r}, num_envs=4).spec.id)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split()[-1] == ID


@pytest.mark.filterwarnings("error", "ignore:.*infinity:UserWarning")  # observations have no bounds, as in MuJoCo's
def test_a_single_world_passes_gymnasiums_checks():
    """Spaces, determinism, seeds, returned data and closing, without a warning."""
    env = gymnasium.make(ID)
    check_env(env.unwrapped)
    env.close()


def test_a_seed_decides_everything(env, rng):
    """Worlds take seed + i as in Gymnasium's own vector environments, and do not depend on each other."""
    actions = actions_of(env, rng, 5)

    def play(env, actions, **options):
        found = [env.reset(**options)[0], *(env.step(action)[0] for action in actions), env.reset()[0]]
        return np.stack(found, 1)

    first, second = play(env, actions, seed=7), play(env, actions, seed=7)
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, play(env, actions, seed=8))
    single = TaskVectorEnv(CartPoleSwingUp, 1)
    np.testing.assert_array_equal(play(single, actions[:, 2:3], seed=9), first[2:3])
    np.testing.assert_array_equal(play(env, actions, seed=[7, 8, 9, 10]), first)
    assert not np.array_equal(first[:, 0], first[:, -1])  # the next episode starts elsewhere


def test_final_observations_and_statistics(rng):
    """What worlds saw last, how much they earned and how long they took; compared with resets by hand."""
    env = RecordEpisodeStatistics(TaskVectorEnv(Short, 4))
    bare = TaskVectorEnv(Short, 4, autoreset_mode=AutoresetMode.DISABLED)
    actions = np.repeat(rng.uniform(-1.0, 1.0, (1, 4, 1)), 40, 0)
    now, _ = env.reset(seed=2)
    plain, _ = bare.reset(seed=2)
    np.testing.assert_array_equal(now, plain)
    returns, lengths, ends = np.zeros(4), np.zeros(4, int), 0
    for action in actions:
        now, reward, terminated, truncated, infos = env.step(action)
        plain, plain_reward, *plain_ends, plain_infos = bare.step(action)
        np.testing.assert_array_equal(reward, plain_reward)
        np.testing.assert_array_equal([terminated, truncated], plain_ends)
        returns, lengths, done = returns + reward, lengths + 1, terminated | truncated
        assert not (terminated & truncated).any()
        if done.any():
            ends += done.sum()
            np.testing.assert_array_equal(infos["_final_obs"], done)
            np.testing.assert_array_equal(np.stack(infos["final_obs"][done]), plain[done])
            assert all(row is None for row in infos["final_obs"][~done])
            np.testing.assert_allclose(infos["episode"]["r"][done], returns[done], rtol=1e-5)
            np.testing.assert_array_equal(infos["episode"]["l"][done], lengths[done])
            terms = infos["final_info"]["terms"]
            total = sum(terms[name] for name in env.unwrapped.task.weights)
            np.testing.assert_allclose(total[done], returns[done], rtol=1e-4)
            np.testing.assert_array_equal(terms["standing"], plain_infos["terms"]["standing"])
            returns[done], lengths[done] = 0.0, 0
            plain, _ = bare.reset(options={"reset_mask": done})
        np.testing.assert_array_equal(now, plain)
    assert ends > 4 and env.episode_count == ends
    assert {25} <= set(env.length_queue) and min(env.length_queue) < 25  # some ran out of time, some went away


def test_next_step_mode_resets_with_the_next_step(rng):
    """The step behind an end starts the next episode, without a reward."""
    env = TaskVectorEnv(Short, 3, autoreset_mode="NextStep")
    env.reset(seed=1)
    for _ in range(25):
        _, _, terminated, truncated, _ = env.step(np.zeros((3, 1)))
    assert truncated.all() and not terminated.any()
    first, reward, terminated, truncated, _ = env.step(np.ones((3, 1)))
    assert not reward.any() and not (terminated | truncated).any()
    assert (env.task.steps == 0).all() and (abs(first[:, 3:]) <= 0.1).all()  # as `start` draws it


def test_gymnasiums_wrappers_work():
    """Infos are nested with masks as Gymnasium's wrappers expect; those that change observations want the next step."""
    env = DictInfoToList(TaskVectorEnv(Short, 2))
    env.reset(seed=0)
    for _ in range(25):
        *_, infos = env.step(np.zeros((2, 1)))
    assert infos[1]["final_obs"].shape == (5,)
    assert infos[1]["final_info"]["terms"]["standing"] == 0.0
    env = DtypeObservation(TaskVectorEnv(Short, 2, autoreset_mode="NextStep"), np.float64)
    assert env.reset(seed=0)[0].dtype == np.float64


def test_disabled_mode_wants_a_reset():
    """A step after the end is an error that says how to go on."""
    env = TaskVectorEnv(Short, 2, autoreset_mode="Disabled")
    env.reset(seed=0)
    for _ in range(25):
        env.step(np.zeros((2, 1)))
    with pytest.raises(RuntimeError, match="reset_mask"):
        env.step(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="2 booleans"):
        env.reset(options={"reset_mask": np.ones(3, bool)})
    env.reset(options={"reset_mask": np.ones(2, bool)})
    env.step(np.zeros((2, 1)))


@pytest.mark.parametrize(
    "actions, message",
    [(np.zeros((4, 2)), r"shape \(4, 2\); expected \(4, 1\)"), (np.full((4, 1), np.nan), "not numbers")],
)
def test_wrong_actions_are_refused(env, actions, message):
    """Before they reach the simulation."""
    env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(actions)


def test_returned_arrays_are_not_used_again(env):
    """A learner may keep them."""
    env.reset(seed=0)
    kept = env.step(np.ones((4, 1)))[:4]
    copies = [array.copy() for array in kept]
    env.step(-np.ones((4, 1)))
    for array, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_pictures_are_those_of_the_simulation():
    """One of each world, from where the task is filmed; none unless they are asked for."""
    env = TaskVectorEnv(CartPoleSwingUp, 2, render_mode="rgb_array")
    env.reset(seed=0)
    pictures = env.render()
    assert [picture.dtype for picture in pictures] == [np.uint8] * 2
    assert (pictures[0] != pictures[1]).any(), "the worlds start in poses of their own"
    film = {name: env.task.film[name] for name in ("camera", "width", "height") if name in env.task.film}
    np.testing.assert_array_equal(pictures[1], env.sim.render(worlds=1, **film))
    env.render_mode = None
    assert env.render() is None
    env.close()
    single = gymnasium.make(ID, render_mode="rgb_array")
    single.reset(seed=0)
    assert single.render().shape == pictures[0].shape
    single.close()


def test_other_render_modes_are_refused_with_a_reason():
    """Nothing is accepted and ignored."""
    with pytest.raises(ValueError, match="render_mode"):
        TaskVectorEnv(CartPoleSwingUp, 1, render_mode="human")


def test_a_task_without_observation_says_so():
    """And one with a weight for a reward that is not there."""

    class Blind(Task):
        scene = CartPoleSwingUp.scene

    with pytest.raises(ValueError, match="no observation"):
        Blind(1)
    with pytest.raises(ValueError, match="did you mean 'upright'"):
        CartPoleSwingUp(1, weights={"uprigt": 1.0})


def test_terms_are_found_replaced_and_taken_away():
    """Order of definition, base classes first; a method that replaces a term keeps its mark."""

    class Base(Task):
        @observation(noise=0.1)
        def seen(self):
            return None

        @reward(2.0)
        def good(self):
            return None

        @metric
        def measured(self):
            return None

    class Derived(Base):
        measured = None

        def good(self):
            return 1

        @reward(-1.0)
        def bad(self):
            return None

    from sap_warp.envs.terms import find_terms

    terms = find_terms(Derived)
    assert list(terms["reward"]) == ["good", "bad"] and terms["reward"]["good"].weight == 2.0
    assert terms["observation"]["seen"].noise == 0.1 and not terms["metric"]


def test_worlds_and_episodes_differ_as_the_randomization_says():
    """Parameters are drawn at the start and at resets of finished worlds alone, and the seed decides them."""
    from sap_warp.randomization import Randomize, Uniform

    class Worn(Short):
        randomization = (Randomize("joint_damping", Uniform(0.1, 0.9), names="hinge"),)

    env = TaskVectorEnv(Worn, 3)

    def damping():
        return env.sim.joint_damping.numpy()[:, 1].copy()

    env.reset(seed=1)
    first = damping()
    assert len(np.unique(first)) == 3 and (first >= 0.1).all() and (first <= 0.9).all()
    env.runner.set_steps(np.array([0, 24, 0]))
    *_, truncated, _ = env.step(np.zeros((3, 1)))
    np.testing.assert_array_equal(truncated, [False, True, False])
    np.testing.assert_array_equal(damping() != first, truncated)
    env.reset(seed=1)
    np.testing.assert_array_equal(damping(), first)


def test_a_seed_decides_factors_too():
    """Factors are for the values of the scene, however often the environment was seeded before."""
    from sap_warp.randomization import Randomize, Uniform

    class Heavy(Short):
        randomization = (Randomize("body_mass", Uniform(0.5, 2.0), how="scale"),)

    env = TaskVectorEnv(Heavy, 2)
    found = [env.sim.body_mass.numpy().copy() for seed in (1, 2, 1) if env.reset(seed=seed)]
    np.testing.assert_array_equal(found[0], found[2])
    assert (found[0] != found[1]).all()


@pytest.mark.parametrize("task", [Short, "Ant"])
def test_a_share_of_the_worlds_does_what_it_does_among_all(task, rng):
    """Observations, rewards and what is known of ended episodes, to the bit; one world alone is the hardest case."""
    worlds = 5
    runners = [Runner(find_task(task)(worlds)), *(Runner(find_task(task)(n), share=(i, worlds)) for i, n in SHARES)]
    whole, *parts = runners
    for runner in runners:
        runner.seed(11)
    seen = [runner.reset() for runner in runners]
    np.testing.assert_array_equal(np.concatenate(seen[1:]), seen[0])
    whole.set_steps(whole.task.step_limit - 4 - np.arange(worlds))
    for part, (first, count) in zip(parts, SHARES, strict=True):
        part.set_steps(whole.task.steps[first : first + count])
    ended = 0
    for _ in range(9):
        actions = rng.uniform(-1.0, 1.0, (worlds, whole.task.action_size))
        step = whole.step(actions)
        steps = [part.step(actions[i : i + n]) for part, (i, n) in zip(parts, SHARES, strict=True)]
        for one, *others in zip(step[:4], *(each[:4] for each in steps), strict=True):
            np.testing.assert_array_equal(np.concatenate(others), one)
        if step.ended is not None:
            ends = [(each.ended, first) for each, (first, _) in zip(steps, SHARES, strict=True) if each.ended]
            ended += len(step.ended.worlds)
            np.testing.assert_array_equal(np.concatenate([end.worlds + i for end, i in ends]), step.ended.worlds)
            np.testing.assert_array_equal(np.concatenate([end.returns for end, _ in ends]), step.ended.returns)
            for name, values in step.ended.terms.items():
                np.testing.assert_array_equal(np.concatenate([end.terms[name] for end, _ in ends]), values)
    assert ended >= worlds


def test_rewards_weigh_terms_by_time(rng):
    """Reward is the sum of weight times term times the time between actions."""
    env = TaskVectorEnv(CartPoleSwingUp, 3, weights={"away_from_the_middle": -0.3})
    env.reset(seed=4)
    seen, reward, *_ = env.step(actions_of(env, rng, 1)[0])
    x, cosine, speed = seen[:, 0], seen[:, 2], seen[:, 4]
    balanced = np.exp(-(1.0 - cosine) / 0.05 - 0.25 * speed**2)
    expected = 0.5 * cosine - 0.3 * x**2 + 2.0 * balanced
    np.testing.assert_allclose(reward, 0.04 * expected, rtol=1e-5, atol=1e-6)
