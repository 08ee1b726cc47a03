"""What workers on Ray cost and gain: processor time and bytes of a step, environment steps per second.

    python benchmarks/scale.py             # ten minutes
    python benchmarks/scale.py --quick

A local Ray is started. All environments take turns in short blocks of one run, with the same seeds and actions; the
faster quarter of the blocks counts. Wall-clock times depend on what else the machine does, and on how many processors
it has for the workers; processor times do not, so the model of docs/scale.md is made of these:

    driver  = a + b * workers + c * bytes          processor time of the driver for a step
    worker  = d + compute of its share of the worlds
    seconds of a step = driver + worker, if there is a processor for each

a, b, c and d come from empty calls (no bytes and many, 1, 2 and 4 workers), the compute from an environment of that
many worlds in one process. What they predict is printed beside what the environments took.
"""

from __future__ import annotations

import argparse
import os
import pickle
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from sap_warp.envs import RayVectorEnv, TaskVectorEnv
from sap_warp.envs.shard import Shard
from sap_warp.scale.cluster import Pool, connect

WORKERS = (1, 2, 4)
LARGE = 4 * 2**20
"""Bytes of a large call, to and fro."""
CALLS = 20
"""Calls in a block."""


class Cost(NamedTuple):
    """Of the model [s]."""

    base: float
    each: float
    byte: float
    worker: float

    def driver(self, workers: int, size: float) -> float:
        return self.base + workers * self.each + size * self.byte


class Echo:
    """Answers with as many bytes as it is asked for."""

    def answer(self, given: np.ndarray, size: int) -> np.ndarray:
        return np.zeros(size, np.uint8)


class Spent(NamedTuple):
    """Time for one step [s]: on the wall, of the driver's processor, and of a worker's on average."""

    wall: float
    driver: float
    worker: float


def fast(times: Sequence[float]) -> float:
    """Lower quartile."""
    return sorted(times)[len(times) // 4]


def take_turns(blocks: dict[Any, tuple[Callable[[], Any], Pool | None]], steps: int, rounds: int) -> dict[Any, Spent]:
    """Times of each block, which takes so many steps."""
    times: dict[Any, list[Spent]] = {name: [] for name in blocks}
    for block, _ in blocks.values():
        block()
    for _ in range(rounds):
        for name, (block, pool) in blocks.items():
            workers = pool.processor_seconds if pool else [0.0]
            wall, driver = time.perf_counter(), time.process_time()
            block()
            used = [time.perf_counter() - wall, time.process_time() - driver]
            used.append(float(np.mean(np.subtract(pool.processor_seconds if pool else [0.0], workers))))
            times[name].append(Spent(*(value / steps for value in used)))
    return {name: Spent(*map(fast, zip(*values, strict=True))) for name, values in times.items()}


def measure_calls(rounds: int) -> Cost:
    """What calls cost in which nothing is computed."""
    connection = connect()
    pools = {n: Pool(connection, Echo, [()] * n, [f"echo {i}" for i in range(n)]) for n in WORKERS}
    empty, large = np.zeros(0, np.uint8), np.zeros(LARGE // 2, np.uint8)

    def block(pool: Pool, given: np.ndarray) -> Callable[[], None]:
        def run() -> None:
            for _ in range(CALLS):
                pool.call("answer", [(given, len(given))] * len(pool.members))

        return run

    blocks: dict[Any, Any] = {n: (block(pool, empty), pool) for n, pool in pools.items()}
    blocks["large"] = block(pools[1], large), pools[1]
    spent = take_turns(blocks, CALLS, rounds)
    each, base = np.polyfit(WORKERS, [spent[n].driver for n in WORKERS], 1)
    byte = max(0.0, spent["large"].driver - spent[1].driver) / LARGE
    print("\nempty calls   wall [ms]  driver  a worker")
    for name, value in spent.items():
        text = f"{name} workers" if isinstance(name, int) else f"1, {LARGE >> 20} MiB"
        print(f"{text:12}{1e3 * value.wall:11.2f}{1e3 * value.driver:8.2f}{1e3 * value.worker:10.2f}")
    for pool in pools.values():
        pool.close()
    return Cost(float(base), float(each), byte, float(np.mean([spent[n].worker for n in WORKERS])))


def bytes_of_a_step(task: str, worlds: int, workers: int, actions: np.ndarray) -> int:
    """What travels in a step of all workers: pickled arguments and answers, arrays as they are."""
    share = worlds // workers
    shard = Shard(task, share, (0, worlds), True, False, {})
    shard.reset(None, list(range(worlds)))
    sent = len(pickle.dumps(("step", actions[:share]), protocol=5))
    return workers * (sent + len(pickle.dumps((shard.step(actions[:share]), []), protocol=5)))


def measure_environment(task: str, worlds: int, rounds: int, steps: int, cost: Cost) -> None:
    """Environments of one process and of workers."""
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1.0, 1.0, (steps, worlds, TaskVectorEnv(task, 1).task.action_size)).astype(np.float32)

    def block(env: Any) -> Callable[[], None]:
        env.reset(seed=0)

        def run() -> None:
            for action in actions:
                env.step(action[: env.num_envs])

        return run

    envs: dict[str, Any] = {f"{n} threads": TaskVectorEnv(task, worlds, threads=n) for n in (1, 2)}
    envs |= {f"{worlds // n} worlds": TaskVectorEnv(task, worlds // n) for n in WORKERS}
    for n in WORKERS:
        begin = time.perf_counter()
        envs[f"{n} workers"] = RayVectorEnv(task, worlds, workers=n, checkpoint_every=10**9)
        print(f"{task}: {n} workers started in {time.perf_counter() - begin:.1f} s")
    pools = {name: getattr(env.runner, "pool", None) for name, env in envs.items()}
    spent = take_turns({name: (block(env), pools[name]) for name, env in envs.items()}, steps, rounds)
    print(f"\n{worlds} worlds of {task}, ms of a step, predicted in brackets")
    print(f"{'':12}{'steps/s':>9}{'wall':>8}{'driver':>16}{'a worker':>18}{'bytes':>9}")
    for name, value in spent.items():
        n, kind = int(name.split()[0]), name.split()[1]
        count = envs[name].num_envs
        line = f"{name:12}{count / value.wall:9.0f}{1e3 * value.wall:8.2f}{1e3 * value.driver:8.2f}"
        if kind == "workers":
            size = bytes_of_a_step(task, worlds, n, actions[0])
            driver, worker = cost.driver(n, size), cost.worker + spent[f"{worlds // n} worlds"].driver
            line += f" ({1e3 * driver:5.2f}){1e3 * value.worker:10.2f} ({1e3 * worker:5.2f}){size:9}"
        print(line)
    runner = envs["2 workers"].runner
    begin = time.perf_counter()
    runner.checkpoint()
    took = time.perf_counter() - begin
    size = len(pickle.dumps(runner._memory, protocol=5))
    kernels = runner.pool._ray.get(runner.pool.members[0].actor.pack.remote()).nbytes
    print(f"a checkpoint of 2 workers: {1e3 * took:.0f} ms, {size / 1e6:.2f} MB; their kernels: {kernels / 1e6:.2f} MB")
    for env in envs.values():
        env.close()


def predict(cost: Cost, network: float = 1.25e9) -> None:
    """What the model says of 100 nodes with 1.25 GB/s (10 Gbit/s) into the driver's node."""
    print("\n100 workers, one on each node; share of the time that they compute:")
    byte = cost.byte + 1.0 / network
    for compute in (0.01, 0.1, 1.0):
        for size in (40_000, 1_000_000):
            step = cost.driver(100, 0) + 100 * size * byte + cost.worker + compute
            share = 100 * compute / step
            print(f"  compute {compute:5.2f} s, {size:9,} bytes a worker: step {step:6.3f} s, {share:3.0f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, ants only")
    quick = parser.parse_args().quick
    rounds = 6 if quick else 16
    wp.config.log_level = wp.LOG_ERROR
    with connect(cpus=max(8, os.cpu_count() or 1)) as connection:
        print(f"{connection}; this machine has {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        cost = measure_calls(rounds)
        print("a {:.2f} ms, b {:.2f} ms, c {:.2f} ns, d {:.2f} ms".format(*np.array(cost) * (1e3, 1e3, 1e9, 1e3)))
        if not quick:
            measure_environment("CartPoleSwingUp", 256, rounds, 20, cost)
        measure_environment("Ant", 256, rounds, 10, cost)
        predict(cost)


if __name__ == "__main__":
    main()
