"""How the cost of SAP Warp grows with worlds, dofs and contacts, and how much memory a world takes.

    python benchmarks/scaling.py [--quick] [--output FOLDER]

Times are processor time of one core, medians over repeats that alternate between the sizes; every scene has settled.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import robots
import warp as wp
from compare import describe_machine, existing_folder

from sap_warp import Simulation

WORLDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
REFERENCE_WORLDS, FLAT_FROM, FLATNESS = 64, 16, 0.15
"""From `FLAT_FROM` worlds up the cost per world is to stay within `FLATNESS` of that at `REFERENCE_WORLDS`."""
CONTACTS = (4, 8, 16, 32, 64)
LINKS = (2, 4, 8, 16, 32, 48)
SETTLING = 1.0
"""[s]"""


LEAST_STEPS = 32
"""Of one timed call, however many worlds there are: a call begins and ends with all of them together."""


def make_ball_plate(count: int) -> Callable[[Any], None]:
    """One free plate that stands on ``count`` small balls: so many contacts on one body."""

    def fill(world: Any) -> None:
        body = world.add_body(xform=((0.0, 0.0, 0.06), robots.IDENTITY), label="plate")
        columns = 2 ** math.ceil(0.5 * math.log2(count))
        for i in range(count):
            place = ((i % columns) / (columns - 1) - 0.5, (i // columns) / max(count // columns - 1, 1) - 0.5, -0.03)
            world.add_shape_sphere(body, xform=(place, robots.IDENTITY), radius=0.02)

    return fill


def make_chain(links: int) -> Callable[[Any], None]:
    """A floating chain of capsules on hinges, alternately about x and y, that lies on the ground."""

    def fill(world: Any) -> None:
        length = 0.2
        bodies = [world.add_link(xform=((length * i, 0.0, 0.1), robots.IDENTITY)) for i in range(links)]
        turned = (0.0, math.sqrt(0.5), 0.0, math.sqrt(0.5))  # the capsule's axis along x
        for body in bodies:
            pose = ((0.0, 0.0, 0.0), turned)
            world.add_shape_capsule(body, xform=pose, radius=0.03, half_height=0.5 * length - 0.03)
        joints = [world.add_joint_free(bodies[0])]
        for i in range(1, links):
            joints.append(
                world.add_joint_revolute(
                    bodies[i - 1],
                    bodies[i],
                    parent_xform=((0.5 * length, 0.0, 0.0), robots.IDENTITY),
                    child_xform=((-0.5 * length, 0.0, 0.0), robots.IDENTITY),
                    axis=(0.0, 0.0, 1.0) if i % 2 else (0.0, 1.0, 0.0),
                    target_ke=20.0,
                    target_kd=1.0,
                    actuator_mode=1,
                )
            )
        world.add_articulation(joints)

    return fill


def simulate(scene: robots.Scene, worlds: int, preset: str, settle: bool = True) -> Simulation:
    """A simulation, settled unless told otherwise."""
    sim = Simulation(
        robots.build(scene, worlds),
        dt=scene.dt,
        max_rigid_contact=scene.max_rigid_contact,
        statistics=False,
        contact_preset_variant=preset,
    )
    if settle:
        sim.step(round(scene.settle / scene.dt))
    return sim


def time_all(sims: dict[int, Simulation], repeats: int, seconds: float) -> dict[int, float]:
    """Median time per world and step of each [us]."""
    steps, samples = {}, {size: [] for size in sims}
    for size, sim in sims.items():
        start = time.process_time()
        sim.step(4)
        steps[size] = int(np.clip(seconds / max((time.process_time() - start) / 4, 1e-6), LEAST_STEPS, 4000))
    for _ in range(repeats):
        for size, sim in sims.items():
            start = time.process_time()
            sim.step(steps[size])
            samples[size].append(1e6 * (time.process_time() - start) / (steps[size] * sim.world_count))
    return {size: statistics.median(values) for size, values in samples.items()}


def over_worlds(name: str, counts: Sequence[int], arguments: argparse.Namespace) -> list[dict[str, float]]:
    """Cost and memory per world over the number of worlds.

    The worlds start from the same few settled states, so that from that number up each does the same work.
    """
    scene = robots.SCENES[name]
    settled = simulate(scene, FLAT_FROM, arguments.preset)
    q, qd = settled.joint_q.numpy().copy(), settled.joint_qd.numpy().copy()
    sims = {}
    for worlds in counts:
        sims[worlds] = sim = simulate(scene, worlds, arguments.preset, settle=False)
        chosen = np.arange(worlds) % FLAT_FROM
        sim.reset(joint_q=q[chosen], joint_qd=qd[chosen])
        sim.step(20)
    times = time_all(sims, arguments.repeats, arguments.seconds)
    return [
        {"worlds": worlds, "us": times[worlds], "bytes_per_world": sim.byte_count / worlds}
        for worlds, sim in sims.items()
    ]


def over_contacts(arguments: argparse.Namespace) -> list[dict[str, float]]:
    """Cost over the number of contacts on one body."""
    scenes = {n: robots.Scene(f"plate_{n}", "", make_ball_plate(n), n, arguments.many, SETTLING) for n in CONTACTS}
    sims = {n: simulate(scene, arguments.many, arguments.preset) for n, scene in scenes.items()}
    times = time_all(sims, arguments.repeats, arguments.seconds)
    return [{"contacts": float(sims[n].contact_counts.mean()), "us": times[n]} for n in CONTACTS]


def over_dofs(arguments: argparse.Namespace) -> list[dict[str, float]]:
    """Cost over the number of dofs of one tree."""
    scenes = {n: robots.Scene(f"chain_{n}", "", make_chain(n), 4 * n, arguments.many, 2.0) for n in LINKS}
    sims = {n: simulate(scene, arguments.many, arguments.preset) for n, scene in scenes.items()}
    times = time_all(sims, arguments.repeats, arguments.seconds)
    return [{"dofs": 5 + n, "us": times[n], "contacts": float(sims[n].contact_counts.mean())} for n in LINKS]


def slope(rows: list[dict[str, float]], x: str) -> tuple[float, float]:
    """Slope [us per unit] of a straight line through the costs, and the exponent of growth between the last two."""
    xs, ys = np.array([r[x] for r in rows]), np.array([r["us"] for r in rows])
    return float(np.polyfit(xs, ys, 1)[0]), float(np.log(ys[-1] / ys[-2]) / np.log(xs[-1] / xs[-2]))


def flatness(rows: list[dict[str, float]]) -> float:
    """Largest relative deviation of the cost per world from that at the reference, over all larger counts."""
    reference = next(r["us"] for r in rows if r["worlds"] == REFERENCE_WORLDS)
    return max(abs(r["us"] / reference - 1.0) for r in rows if r["worlds"] >= FLAT_FROM)


def plot(result: dict[str, Any], path: Path) -> None:
    """Three panels: worlds, dofs, contacts."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (one, two, three) = plt.subplots(1, 3, figsize=(12.5, 3.8))
    for name, rows in result["worlds"].items():
        one.plot([r["worlds"] for r in rows], [r["us"] for r in rows], "o-", label=name, markersize=4)
    one.set_xscale("log", base=2)
    one.set_xticks([4**i for i in range(7)], [f"{4**i:,}" for i in range(7)])
    one.set_xlabel("worlds")
    one.legend(frameon=False)
    two.plot(
        [r["dofs"] for r in result["dofs"]], [r["us"] for r in result["dofs"]], "o-", color="#2a6f97", markersize=4
    )
    two.set_xlabel("dofs of a chain on the ground, two contacts per link")
    contacts = [r["contacts"] for r in result["contacts"]]
    three.plot(contacts, [r["us"] for r in result["contacts"]], "o-", color="#bc6c25", markersize=4)
    three.set_xlabel("contacts on one body")
    for axis in (one, two, three):
        axis.set_ylabel("us per world and step")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
        axis.set_ylim(bottom=0)
    for axis in (two, three):
        axis.set_xlim(left=0)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def report(result: dict[str, Any]) -> list[str]:
    """Markdown."""
    lines = [f"Preset {result['preset']}, one core; {result['machine']}.", ""]
    names = list(result["worlds"])
    lines += ["| worlds | " + " | ".join(f"{n} us | {n} bytes per world" for n in names) + " |"]
    lines += ["|" + " --- |" * (1 + 2 * len(names))]
    for rows in zip(*result["worlds"].values(), strict=True):
        lines.append(
            f"| {rows[0]['worlds']} | "
            + " | ".join(f"{r['us']:.2f} | {r['bytes_per_world']:,.0f}" for r in rows)
            + " |"
        )
    for name in names:
        value = result["flatness"][name]
        verdict = f"goal {100 * FLATNESS:.0f} %: {'met' if value <= FLATNESS else 'missed'}"
        text = f"{name}: from {FLAT_FROM} worlds up within {100 * value:.0f} % of the cost at {REFERENCE_WORLDS} worlds"
        lines += ["", f"{text} ({verdict})."]
    lines += ["", "| dofs | contacts | us |", "| --- | --- | --- |"]
    lines += [f"| {r['dofs']} | {r['contacts']:.1f} | {r['us']:.2f} |" for r in result["dofs"]]
    lines += ["", "| contacts on one body | us |", "| --- | --- |"]
    lines += [f"| {r['contacts']:.0f} | {r['us']:.2f} |" for r in result["contacts"]]
    line, exponent = result["contact_slope"]
    verdict = "no faster than linearly" if exponent <= 1.0 else "faster than linearly"
    text = f"Slope {line:.3f} us per contact; between the last two the cost grows with the power {exponent:.2f}"
    lines += ["", f"{text}, {verdict}."]
    return lines


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="up to 256 worlds and fewer repeats")
    parser.add_argument("--scenes", nargs="+", choices=tuple(robots.SCENES), default=["cube", "humanoid"])
    parser.add_argument("--preset", default="approx64", help="default: %(default)s")
    parser.add_argument(
        "--output", type=existing_folder, metavar="FOLDER", help="write scaling.md, scaling.json and scaling.png"
    )
    arguments = parser.parse_args(argv)
    arguments.repeats, arguments.seconds = (3, 0.05) if arguments.quick else (7, 0.3)
    arguments.many = 64
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    wp.config.log_level = wp.LOG_WARNING
    counts = [w for w in WORLDS if w <= 256] if arguments.quick else list(WORLDS)
    worlds = {name: over_worlds(name, counts, arguments) for name in arguments.scenes}
    contacts = over_contacts(arguments)
    result = {
        "preset": arguments.preset,
        "machine": describe_machine(),
        "worlds": worlds,
        "flatness": {name: flatness(rows) for name, rows in worlds.items()},
        "dofs": over_dofs(arguments),
        "contacts": contacts,
        "contact_slope": slope(contacts, "contacts"),
    }
    print("\n".join(report(result)))
    if arguments.output:
        (arguments.output / "scaling.md").write_text("\n".join(report(result)) + "\n", encoding="utf-8")
        (arguments.output / "scaling.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        plot(result, arguments.output / "scaling.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
