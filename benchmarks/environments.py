"""How much of the speed of `sim.step` environments keep, and how they compare with Gymnasium's own Ant.

All rates are environment steps per second of processor time of one thread, measured side by side: short blocks of the
two programs take turns, from the same states and with the same actions. The faster quarter of the blocks counts: others
were disturbed by whatever else runs on the machine. Episodes are spread, so that worlds end one by one.

    python benchmarks/environments.py            # about a minute
    python benchmarks/environments.py --quick
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import warp as wp

from sap_warp.envs import TaskVectorEnv
from sap_warp.envs.tasks.ant import SCENE, Ant
from sap_warp.envs.tasks.cartpole import CartPoleSwingUp
from sap_warp.envs.terms import JointEfforts


class OftenActing(CartPoleSwingUp):
    """The cart-pole with half the time between actions: Python has half the time, too."""

    substeps = 4


class GymnasiumAnt(Ant):
    """The ant of Gymnasium's Ant-v5: its file, five time steps of 10 ms for an action, torques up to 150 N m.

    Contacts are this engine's; self-collision is off in the file, too.
    """

    scene = SCENE | {
        "assets": [
            SCENE["assets"][0]
            | {"source": str(Path(gymnasium.__file__).parent / "envs/mujoco/assets/ant.xml"), "xform": {"p": [0, 0, 0]}}
        ]
    }
    actions = JointEfforts(["hip_*", "ankle_*"], scale=150.0)
    time_limit = 50.0


def processor_time(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def fast(times: Sequence[float]) -> float:
    """Lower quartile."""
    return sorted(times)[len(times) // 4]


def keep_share(name: str, env: TaskVectorEnv, rounds: int, steps: int) -> float:
    """Speed of the environment over that of `sim.step` alone."""
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1.0, 1.0, (steps, *env.action_space.shape)).astype(np.float32)
    sim, substeps = env.sim, env.task.substeps
    env.reset(seed=0)
    env.runner.spread()
    q, qd, force = (view.numpy() for view in (sim.joint_q, sim.joint_qd, sim.joint_f))
    columns = env.task.action_terms[0]._columns
    forces = actions * np.float32(env.task.action_terms[0].scale)
    everything = np.ones(env.num_envs, bool)

    def learn() -> None:
        for action in actions:
            env.step(action)

    def simulate() -> None:
        for values in forces:
            force[:, columns] = values
            sim.step(substeps)

    learn()
    times = []
    for _ in range(rounds):
        start = q.copy(), qd.copy()
        simulated = processor_time(simulate)
        sim.reset(everything, *start)
        times.append((processor_time(learn), simulated))
    rate = [env.num_envs * steps / fast(column) for column in zip(*times, strict=True)]
    ratio = rate[0] / rate[1]
    print(f"{name}: {rate[0]:,.0f} environment steps per processor second, sim.step alone {rate[1]:,.0f}: {ratio:.2f}")
    return ratio


def compare_ants(rounds: int, steps: int, worlds: int = 256) -> float:
    """Ours over Gymnasium's, which steps MuJoCo world by world in one process."""
    rng = np.random.default_rng(0)
    mine = TaskVectorEnv(GymnasiumAnt, worlds)
    few = 16  # its speed for a world does not depend on how many there are
    other = gymnasium.make_vec("Ant-v5", num_envs=few, vectorization_mode="sync", include_cfrc_ext_in_observation=False)
    actions = rng.uniform(-1.0, 1.0, (steps, worlds, 8)).astype(np.float32)
    mine.reset(seed=0)
    other.reset(seed=0)

    def run_mine() -> None:
        for action in actions:
            mine.step(action)

    def run_other() -> None:
        for action in actions:
            other.step(action[:few])

    run_mine(), run_other()
    times = [(processor_time(run_mine) / worlds, processor_time(run_other) / few) for _ in range(rounds)]
    rate = [steps / fast(column) for column in zip(*times, strict=True)]
    ratio = rate[0] / rate[1]
    print(
        f"Gymnasium's ant: {rate[0]:,.0f} environment steps per processor second in {worlds} worlds, "
        f"Gymnasium with MuJoCo {rate[1]:,.0f}: {ratio:.1f} x"
    )
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    share = 4 if parser.parse_args().quick else 1
    wp.config.log_level = wp.LOG_ERROR
    keep_share("64 cart-poles at 25 Hz", TaskVectorEnv(CartPoleSwingUp, 64), 160 // share, 50)
    keep_share("64 cart-poles at 50 Hz", TaskVectorEnv(OftenActing, 64), 160 // share, 50)
    keep_share("256 ants", TaskVectorEnv(Ant, 256), 40 // share, 10)
    compare_ants(32 // share, 10)


if __name__ == "__main__":
    main()
