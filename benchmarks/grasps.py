"""What it takes to hold something: slip and cost of presets, line searches and time steps, beside MuJoCo C.

    python benchmarks/grasps.py [--dt 2,10] [--bodies ball,cube,bottle] [--seconds 20] [--output grasps.json]
    python benchmarks/grasps.py --show a.json b.json [--plot docs/images/grasps.png]

The arm of `validation.cases.shake`: a Panda swings all its joints with a ball, a cube or a bottle in its hand, in
four worlds that differ by their swings. Every solver gets the same model, drives and targets; MuJoCo's is made from
Newton's model by `export`, once as it comes and once tuned for grasps. All of them take their steps in turns in one
program, on one processor; the cost of a step is the median of its processor time while the shaking begins (1 to 3 s),
when nothing is lost yet, of one world. Slip is the largest of all worlds, from the moment when the shaking begins.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from export import to_mujoco

from sap_warp.judge.validation.cases import shake

WORLDS = 4
SEARCHES = ("monotone_decay", "armijo_decay", "exact_root")
SOLVERS: dict[str, dict[str, Any]] = {
    **{
        f"{preset}, {search}": {"contact_preset_variant": preset, "line_search_variant": search}
        for preset in ("approx32", "approx64", "drake", "robot")
        for search in SEARCHES
    },
    "robot": {"contact_preset_variant": "robot"},
}
"""Name: options; tolerances are those that preset and line search bring. `robot` comes with a search of its own."""
MUJOCO = {
    "MuJoCo, defaults": {},
    "MuJoCo, elliptic cone, impratio 100, noslip": {"cone": 1, "impratio": 100.0, "noslip_iterations": 10},
}
STIFF = "MuJoCo, the same with solref -25000 -500"
MUJOCO[STIFF] = MUJOCO["MuJoCo, elliptic cone, impratio 100, noslip"] | {"solref": (-25000.0, -500.0)}
"""Its default contact is soft where a finger is light: 5 mm deep here. Of the values tried this one slips least."""
SAMPLE = 0.005
"""Seconds between two looks at the bodies; at least a step."""


class Ours:
    """All worlds of one setting of our solver."""

    def __init__(self, name: str, dt: float, options: dict[str, Any]):
        self.shaken = shake.Shaken(name, dt, WORLDS, notes=False, **options)
        self.held = self.shaken.held

    def step(self, t: float) -> float:
        """Take a step; returns the processor time of one world [s]."""
        self.shaken.aim(t)
        start = time.process_time()
        self.shaken.sim.step()
        return (time.process_time() - start) / WORLDS

    @property
    def work(self) -> tuple[float, int]:
        """Iterations per step, world-steps that did not converge."""
        statistics = self.shaken.sim.statistics
        return statistics.iterations.mean, statistics.not_converged


class Mujoco:
    """The same worlds in MuJoCo C."""

    def __init__(self, name: str, dt: float, options: dict[str, Any]):
        one = shake.Shaken(name, dt, 1, notes=False)
        self.model = to_mujoco(one.sim.model, dt)
        self.model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        for option, value in options.items():
            if option == "solref":
                self.model.geom_solref[:] = value
            else:
                setattr(self.model.opt, option, value)
        self.bodies = [self.model.body(f"body_{i}").id for i in (*one.fingers, one.sim.model.body_count - 1)]
        self.swing, self.iterations, self.steps = shake.swings(WORLDS), 0, 0
        self.model.qpos_spring[7:9] = one.targets[0, 7:9]
        self.data = [mujoco.MjData(self.model) for _ in range(WORLDS)]
        for data in self.data:
            data.qpos[:] = one.start
            data.qpos[-4:] = one.start[[-1, -4, -3, -2]]  # quaternion with the scalar first
            mujoco.mj_forward(self.model, data)

    def step(self, t: float) -> float:
        """Take a step; returns the processor time of one world [s]."""
        spent, targets = 0.0, self.swing(t)
        for data, target in zip(self.data, targets, strict=True):
            self.model.qpos_spring[:7] = target
            start = time.process_time()
            mujoco.mj_step(self.model, data)
            spent += time.process_time() - start
            self.iterations += int(data.solver_niter[0])
            self.steps += 1
        return spent / WORLDS

    def held(self) -> np.ndarray:
        """Where the bodies are, seen from the hands [m], (worlds, 3)."""
        for data in self.data:
            mujoco.mj_kinematics(self.model, data)
        position = np.array([data.xpos[self.bodies] for data in self.data])
        turn = np.array([data.xquat[self.bodies][:, [1, 2, 3, 0]] for data in self.data])
        return shake.seen_from_hand(np.concatenate([position, turn], axis=2)[:, :2], position[:, 2])

    @property
    def work(self) -> tuple[float, int]:
        """Iterations per step, and 0: MuJoCo does not say whether it converged."""
        return self.iterations / self.steps, 0


def measure(name: str, dt: float, seconds: float, chosen: Sequence[str]) -> list[dict[str, Any]]:
    """One row for each of the solvers that are chosen."""
    solvers: dict[str, Any] = {label: Ours(name, dt, options) for label, options in SOLVERS.items() if label in chosen}
    solvers |= {label: Mujoco(name, dt, options) for label, options in MUJOCO.items() if label in chosen}
    times: dict[str, list[float]] = {label: [] for label in solvers}
    seen: dict[str, list[np.ndarray]] = {label: [] for label in solvers}
    every, order = max(1, round(SAMPLE / dt)), list(solvers.items())
    for i in range(round(seconds / dt)):
        t = i * dt
        order = order[1:] + order[:1]  # nobody always comes first
        for label, solver in order:
            spent = solver.step(t)
            if 1.0 <= t < 3.0:
                times[label].append(spent)
            if t >= 1.0 and i % every == 0:
                seen[label].append(solver.held())
    rows = []
    for label, solver in solvers.items():
        iterations, failed = solver.work
        slip, cost = float(np.nan_to_num(shake.largest_slip(seen[label]), nan=1e9).max()), np.median(times[label])
        row = {"solver": label, "dt": dt, "body": name, "seconds": seconds, "slip": slip, "cost": 1e6 * float(cost)}
        rows.append(row | {"iterations": float(iterations), "failed": failed})
    return rows


def show_slip(slip: float) -> str:
    """Text of a cell [mm]."""
    return "lost" if slip > shake.LOST else f"{slip:.2f}" if slip < 9.995 else f"{slip:.1f}"


def table(rows: list[dict[str, Any]]) -> str:
    """Slip and cost of every solver, in Markdown: one line each, one column for each step and body."""
    steps = sorted({row["dt"] for row in rows})
    bodies = [name for name in shake.SHAPES if any(row["body"] == name for row in rows)]
    found = {(row["solver"], row["dt"], row["body"]): row for row in rows}
    head = ["solver", *(f"{1e3 * dt:g} ms" for dt in steps), *(f"us at {1e3 * dt:g} ms" for dt in steps)]
    lines = [head, ["---"] * len(head)]
    for label in dict.fromkeys(row["solver"] for row in rows):
        line = [label]
        for dt in steps:
            cells = [found.get((label, dt, name)) for name in bodies]
            line.append(" / ".join(show_slip(cell["slip"]) for cell in cells if cell) or "–")
        for dt in steps:
            cells = [found.get((label, dt, name)) for name in bodies]
            line.append(" / ".join(f"{cell['cost']:.0f}" for cell in cells if cell) or "–")
        lines.append(line)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Slip against cost, one panel for each body; a line joins the time steps of a solver."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    bodies = [name for name in shake.SHAPES if any(row["body"] == name for row in rows)]
    shown = ["approx32, monotone_decay", "approx64, monotone_decay", "drake, monotone_decay", "drake, exact_root"]
    shown += ["robot", *(label for label in MUJOCO if any(row["solver"] == label for row in rows))]
    figure, panels = pyplot.subplots(
        1, len(bodies), figsize=(4.2 * len(bodies), 4.0), sharey=True, layout="constrained"
    )
    for name, panel in zip(bodies, np.atleast_1d(panels), strict=True):
        for label in shown:
            points = sorted(
                (r["dt"], min(r["slip"], shake.LOST)) for r in rows if (r["solver"], r["body"]) == (label, name)
            )
            steps, slips = 1e3 * np.array([p[0] for p in points]), [p[1] for p in points]
            panel.plot(steps, slips, marker="os^vDx+*"[shown.index(label)], label=label.replace(", monotone_decay", ""))
        panel.set(title=name, xlabel="time step [ms]", xscale="log", yscale="log")
        panel.set_xticks(
            sorted({1e3 * r["dt"] for r in rows}), [f"{1e3 * dt:g}" for dt in sorted({r["dt"] for r in rows})]
        )
        panel.minorticks_off()
        panel.axhline(shake.LOST, color="0.6", linestyle=":")
        panel.grid(alpha=0.3)
    np.atleast_1d(panels)[0].set_ylabel(f"largest slip [mm]; {shake.LOST:g} is lost")
    figure.legend(
        *np.atleast_1d(panels)[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8
    )
    figure.savefig(path, dpi=110)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write rows, or show those of files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dt", default="1,2,5,10", help="time steps [ms] (default: %(default)s)")
    parser.add_argument("--bodies", default=",".join(shake.SHAPES), help="default: %(default)s")
    parser.add_argument("--solvers", default="*", help="patterns of names, such as 'robot*;MuJoCo*' (default: all)")
    parser.add_argument("--seconds", type=float, default=20.0, help="default: %(default)s")
    parser.add_argument("--output", type=Path, help="file for the rows, JSON")
    parser.add_argument("--show", nargs="+", type=Path, metavar="FILE", help="measure nothing, show the rows of files")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="slip against time step")
    options = parser.parse_args(argv)
    wanted = [part.strip() for part in options.solvers.split(";")]
    chosen = [label for label in (*SOLVERS, *MUJOCO) if any(fnmatch.fnmatch(label, pattern) for pattern in wanted)]
    rows: list[dict[str, Any]] = []
    for file in options.show or ():
        rows += json.loads(file.read_text())
    for dt in [] if options.show else options.dt.split(","):
        for name in options.bodies.split(","):
            rows += measure(name, 1e-3 * float(dt), options.seconds, chosen)
            if options.output:
                options.output.write_text(json.dumps(rows, indent=1))
            print(f"{name} at {dt} ms done", file=sys.stderr, flush=True)
    print(table(rows))
    if options.plot:
        plot(rows, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
