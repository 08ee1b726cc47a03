"""Count what a GPU would execute for one world and one step, kernel by kernel, without a GPU.

    python -m benchmarks.cuda_counts [--scene humanoid] [--worlds 2] [--phase falling] [--machine 89] [--registers]
    python -m benchmarks.cuda_counts --scene cube --worlds 24 --block-dim 8
    python -m benchmarks.cuda_counts --distance

The CUDA build runs in the emulator of `tests/cuda`. A CPU simulation brings the worlds to where counting begins: during
the fall, and at rest, or every other world in the fall and the others at rest. Counts are of PTX instructions issued to
warps. ``--machine`` counts what ptxas makes of them (`tests/cuda/machine_code`), with ``--limit`` also where a lane may
have fewer registers; ``--registers`` adds what it says about registers and spills, for four architectures. No machine
disturbs the numbers.

``--distance`` counts nothing: it takes steps with the preset and with ``--cost-only``, each from the same states, and
tells how far the velocities are apart afterwards.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp

from sap_warp.core.kernels.lanes import block_size
from sap_warp.core.kernels.scratch import worlds_at_work
from sap_warp.scene.shipped.scenes import build_scene, randomize_start
from sap_warp.simulation import Simulation
from tests.cuda import machine_code, registers
from tests.cuda.emulator.device import Device
from tests.cuda.emulator.driver import Driver, pretended

COLUMNS = ("all", "moves", "fp64", "fp32", "loads", "stores", "atomics", "shuffles")
MACHINE_COLUMNS = ("all", "moves", "fp64", "fp32", "loads", "stores", "spills", "shuffles")
PHASES = {"falling": 110, "settled": 1600}
"""Steps before counting begins."""
MIXED = "mixed"
"""Every other world is in the first of these phases, the others in the last."""
COUNTED = 5
"""Steps that are counted."""
OF_BUFFER = {"repair_all", "bin_contacts", "stage_select", "stage_write", "record_step"}
"""Kernels whose blocks are no worlds, though there may be as many."""
COST_ONLY = {"contact_solve_precision": "fp32", "contact_cost_precision": "fp64"}
COMPARED_WORLDS, COMPARED_STEPS = 16, 20
"""Of ``--distance``."""


def make(scene: str, worlds: int, device: str, **options: Any) -> Simulation:
    """The scene with every world in a pose of its own."""
    model, built = build_scene(scene, worlds, device)
    randomize_start(model, 1)
    return Simulation.from_loaded(built, **options)


def count(q: Any, qd: Any, gpu: Simulation, driver: Driver, machine: Machine | None) -> None:
    """Print the counts of a few steps from coordinates of all worlds."""
    gpu.reset(joint_q=q, joint_qd=qd)
    gpu.step(2)
    gpu.statistics.clear()
    launches = []
    for steps in (1, COUNTED):
        driver.device.clear()
        driver.log.clear()
        gpu.step(steps)
        launches.append(Counter(name for kind, name in driver.log if kind == "launch"))
    per_step = (launches[1] - launches[0]).total() / (COUNTED - 1)
    if driver.device.faults:
        raise RuntimeError("\n".join(map(str, driver.device.faults)))
    found = gpu.statistics
    print(
        f"{gpu.world_count} worlds, {found.mean_contacts:.1f} contacts, {found.iterations.mean:.2f} iterations, "
        f"{found.line_search_trials.mean:.2f} trials; launches per step {per_step:g}"
    )
    world_steps = COUNTED * gpu.world_count
    counted = driver.device.counts.items()
    lanes = gpu.solver.block_dim
    blocks = -(-gpu.world_count * lanes // block_size(lanes, gpu.device))
    is_by_world = {n: c.events["blocks"] == c.events["launches"] * blocks and n not in OF_BUFFER for n, c in counted}
    by_world = {n: c for n, c in counted if is_by_world[n]}
    print_counts("per world and step", {name: row_of(c, world_steps) for name, c in by_world.items()})
    if machine is not None:
        machine.print_counts({name: driver.device.counts[name].passes for name in by_world}, world_steps)
    others = {name: row_of(c, c.events["launches"]) for name, c in driver.device.counts.items() if name not in by_world}
    print_counts("per launch, any worlds", others)


def row_of(counts: Any, shares: int) -> dict[str, float]:
    """Numbers of one kernel, divided by ``shares``."""
    row = {column: counts.warp[column] for column in COLUMNS}
    events = counts.events
    row["barriers"] = events["barriers"] + events["warp_barriers"]
    row["sectors"] = events["sectors_read"] + events["sectors_written"]
    return {name: value / shares for name, value in row.items()}


def print_counts(title: str, rows: dict[str, dict[str, float]]) -> None:
    """A table with sums."""
    totals: Counter[str] = Counter()
    for row in rows.values():
        totals.update(row)
    print(f"{title:28s}" + "".join(f"{name:>10s}" for name in totals))
    for name, row in (rows | {"sum": totals}).items():
        print(f"{name:28s}" + "".join(f"{value:10.0f}" for value in row.values()), flush=True)


class Machine:
    """What ptxas makes of the kernels that were loaded."""

    def __init__(self, driver: Driver, arch: int, limits: Sequence[int]):
        """Keep what ``driver`` loads; ``limits`` of registers are tried for each kernel."""
        self.arch, self.limits = arch, limits
        self._loaded: dict[str, tuple[str, str]] = {}
        self._files: dict[tuple[str, int | None], bytes] = {}
        driver.edit = self._keep

    def _keep(self, name: str, text: str) -> str:
        self._loaded[registers.short_name(name)] = name, text
        return text

    def print_counts(self, passes: dict[str, Mapping[int, int]], shares: int) -> None:
        """A table of instructions by kernel, divided by ``shares``; ``passes`` by kernel and line of its PTX."""
        rows = {name: self._row(name, None, found, shares) for name, found in passes.items()}
        print_counts(f"sm_{self.arch}, per world and step", rows)
        for limit in self.limits:
            rows = {name: self._row(name, limit, found, shares) for name, found in passes.items()}
            print_counts(f"with at most {limit} registers", rows)

    def _row(self, kernel: str, limit: int | None, passes: Mapping[int, int], shares: int) -> dict[str, float]:
        name, text = self._loaded[kernel]
        if (kernel, limit) not in self._files:
            self._files[kernel, limit] = machine_code.assemble(text, self.arch, limit)
        found = machine_code.count(text, self._files[kernel, limit], name, passes)
        return {column: found[column] / shares for column in MACHINE_COLUMNS}


def memory_per_world(scene: str, **options: Any) -> float:
    """What one more world takes [bytes]."""
    few = worlds_at_work(wp.get_device("cuda:0"), 8)  # more worlds share the scratch that these have
    many = 2 * few
    sizes = [make(scene, worlds, "cuda:0", **options).byte_count for worlds in (few, many)]
    return (sizes[1] - sizes[0]) / (many - few)


def print_distances(scene: str, preset: str) -> None:
    """How far a step with costs alone in fp64 ends from one of the preset, in both phases of the preset's motion."""
    options: list[dict[str, Any]] = [{"contact_preset_variant": preset}]
    options.append(options[0] | COST_ONLY)
    leader = make(scene, COMPARED_WORLDS, "cpu", **options[0])
    both = [make(scene, COMPARED_WORLDS, "cuda:0", **each) for each in options]
    for phase, steps in PHASES.items():
        leader.step(steps - leader.step_count)
        distances, speeds, iterations = [], [], np.zeros(2)
        for _ in range(COMPARED_STEPS):
            start = [np.array(view.numpy()) for view in (leader.joint_q, leader.joint_qd)]
            for sim in both:
                sim.reset(joint_q=start[0], joint_qd=start[1])
                sim.step()
            ours, theirs = (np.array(sim.joint_qd.numpy()) for sim in both)
            distances.append(np.abs(ours - theirs).max())
            speeds.append(np.abs(ours).max())
            iterations += [sim.iterations.mean() / COMPARED_STEPS for sim in both]
            leader.step()
        print(
            f"{scene}, {preset}, {COMPARED_WORLDS} worlds, {phase}, {COMPARED_STEPS} steps: costs alone in fp64 move "
            f"velocities by at most {max(distances):.1e}, median of the steps {np.median(distances):.1e}; the largest "
            f"is {max(speeds):.2g}; iterations {iterations[0]:.2f} and {iterations[1]:.2f}",
            flush=True,
        )


def register_table(scene: str, **options: Any) -> None:
    """Print registers and bytes of spills of each kernel."""
    if registers.ptxas() is None:
        print("There is no ptxas to tell registers.")
        return
    found = registers.measure(scene=scene, **options)
    print(f"{'registers / spilled bytes':28s}" + "".join(f"{arch:>12s}" for arch in next(iter(found.values()))))
    for name, row in found.items():
        print(f"{name:28s}" + "".join(f"{f'{used} / {spilled}':>12s}" for used, spilled in row.values()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", default="humanoid")
    parser.add_argument("--worlds", type=int, default=2)
    parser.add_argument("--preset", default="approx32")
    parser.add_argument("--cost-only", action="store_true", help="costs in fp64, all else of the solve in fp32")
    parser.add_argument("--block-dim", type=int, metavar="N", help="lanes that share a world (default: the solver's)")
    parser.add_argument("--phase", choices=[*PHASES, MIXED], action="append", help="what to count (default: all)")
    parser.add_argument("--machine", type=int, metavar="ARCH", help="count machine code for sm_ARCH, too")
    parser.add_argument(
        "--limit", type=int, action="append", default=[], help="the same with so many registers at most"
    )
    parser.add_argument("--registers", action="store_true", help="registers and spills by ptxas")
    parser.add_argument(
        "--distance", action="store_true", help="how far --cost-only leads from the preset, instead of counts"
    )
    given = parser.parse_args(arguments)
    wp.config.log_level = wp.LOG_WARNING
    with pretended(Device()) as driver:
        if given.distance:
            print_distances(given.scene, given.preset)
            return
        machine = Machine(driver, given.machine, given.limit) if given.machine else None
        options: dict[str, Any] = {"contact_preset_variant": given.preset}
        if given.cost_only:
            options |= COST_ONLY
        cpu = make(given.scene, given.worlds, "cpu", contact_preset_variant=given.preset)
        options["block_dim"] = given.block_dim
        gpu = make(given.scene, given.worlds, "cuda:0", **options)
        starts = {}
        for phase, steps in PHASES.items():
            cpu.step(steps - cpu.step_count)
            starts[phase] = np.array(cpu.joint_q.numpy()), np.array(cpu.joint_qd.numpy())
        first, *_, last = starts.values()
        is_odd = np.arange(given.worlds)[:, None] % 2
        starts[MIXED] = tuple(np.where(is_odd, a, b) for a, b in zip(first, last, strict=True))
        for phase in given.phase or PHASES:
            print(f"\n{given.scene}, {given.preset}, {gpu.solver.block_dim} lanes, {phase}: ", end="")
            count(*starts[phase], gpu, driver, machine)
        print(f"\nmemory: {memory_per_world(given.scene, **options) / 1e3:.1f} kB per world, where there are many")
    if given.registers:
        register_table(given.scene, **options)


if __name__ == "__main__":
    main()
