"""Compare the results of this tree with those of another one, bit for bit.

    python benchmarks/same_bits.py OTHER_TREE [--quick] [--keep FILE] [--scenes A,B] [--presets A,B]

Each tree runs in a process of its own, with PYTHONPATH set to it: twelve scenes of three worlds with different
velocities, 200 steps each on the CPU. States and statistics are hashed after each of the first 20 steps and then after
every tenth, forces at the end. The table says for each scene and preset whether all hashes agree, or the step after
which they first do not, and by how much coordinates and velocities differ at the end. The exit code is 1 if anything
differs.

Hashes depend on the processor and on what compiles the kernels, so none belong into the repository. With
``--keep FILE`` those of the other tree are kept, with its content, the processor and the version of Warp: while these
stay the same, only this tree has to run. The first run of a tree compiles its kernels: three minutes for all presets on
two cores, one for ``--quick``. Later ones take half a minute and six seconds.
"""

from __future__ import annotations

import argparse
import base64
import functools
import hashlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
STEPS = [1] * 20 + [10] * 18
"""Steps between two hashes."""
WORLDS, SPEED = 3, 0.2
"""Worlds of a scene, and the standard deviation of what is added to their velocities [m/s, rad/s]."""
PRESETS: dict[str, dict[str, str]] = {
    "approx32": {"contact_preset_variant": "approx32"},
    "approx64": {"contact_preset_variant": "approx64"},
    "drake": {"contact_preset_variant": "drake"},
    "robot": {"contact_preset_variant": "robot"},
    "exact_root": {"contact_preset_variant": "approx64", "line_search_variant": "exact_root"},
}
QUICK_SCENES, QUICK_PRESETS = ("box_stack", "humanoid", "mechanism"), ("approx32", "drake")
MECHANISM = """<mujoco><option density="900" viscosity="0.1" wind="0.2 0 0"/>
<worldbody><geom type="plane" size="5 5 .1"/><site name="fixed" pos="0 0 1.6"/>
<body name="left" pos="0 0 1" gravcomp="0.5">
 <joint name="a" axis="0 1 0" range="-60 60" limited="true" frictionloss="0.1"/>
 <geom name="pulley" type="sphere" size="0.06" mass="1" pos="0 0 -0.2" contype="0" conaffinity="0"/>
 <site name="sa" pos="0.1 0 -0.2"/>
 <body name="tip" pos="0 0 -0.4"><joint name="b" axis="0 1 0" damping="0.1"/><geom size="0.05" mass="0.5"/>
  <site name="sb" pos="0 0.05 0"/></body></body>
<body name="right" pos="0.5 0 1"><joint name="c" axis="0 1 0" stiffness="3"/>
 <geom size="0.05" mass="1" pos="0 0 -0.2"/><site name="sc" pos="0 0 -0.3"/></body>
<body name="slide" pos="1 0 0.5"><joint name="s" type="slide" axis="0 0 1" range="-0.2 0.2" limited="true"/>
 <geom type="box" size="0.05 0.05 0.05" mass="0.4"/></body>
<body name="ball" pos="0 0.6 1"><joint name="d" type="ball" stiffness="5" damping="0.1"/>
 <geom size="0.05" mass="0.5" pos="0 0 -0.2"/></body>
<body name="box" pos="0.5 0.8 0.11"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="2"/></body>
<body name="can" pos="0.8 0.8 0.11"><freejoint/><geom type="cylinder" size="0.08 0.1" mass="1"/></body>
</worldbody>
<equality><connect body1="tip" body2="right" anchor="0.25 0 0"/><joint joint1="s" joint2="c" polycoef="0 0.1 0 0 0"/>
<weld body1="box" body2="can"/></equality>
<tendon><fixed name="sum" stiffness="30" damping="2" limited="true" range="-0.1 0.1" frictionloss="0.5">
 <joint joint="a" coef="0.3"/><joint joint="b" coef="-0.7"/></fixed>
 <spatial name="straight" stiffness="50" springlength="0.5 0.7" damping="3"><site site="fixed"/>
  <site site="sc"/></spatial>
 <spatial name="over"><site site="fixed"/><geom geom="pulley"/><site site="sb"/></spatial></tendon>
<actuator><motor joint="a" gear="3" ctrlrange="-1 1"/><position tendon="straight" kp="40" kv="3" forcerange="-10 10"/>
 <velocity tendon="over" kv="3"/><general joint="c" dyntype="filter" dynprm="0.3" gainprm="7"/>
 <motor site="sc" gear="1 2 3 0.4 0.5 0.6"/></actuator></mujoco>"""
"""Loops, couplings, welds, tendons, springs, actuators of several kinds and a fluid: no shipped scene has them."""


def rough_ground() -> dict[str, Any]:
    """An ant among stairs."""
    return {
        "schema_version": 1,
        "name": "rough_ground",
        "simulation": {"dt": 0.005, "max_rigid_contact": 64},
        "builder": {"rigid_gap": 0.002, "defaults": {"shape": {"ke": 1.0e5, "tau": 0.01, "mu": 0.8}}},
        "ground": {"terrain": {"kind": "steps", "height": 0.2, "width": 0.3, "flat": 0.2, "size": 6.0}},
        "assets": [
            {
                "id": "ant",
                "type": "mjcf",
                "source": {"package": {"name": "newton", "path": "examples/assets/nv_ant.xml"}},
                "ignore_names": ["floor"],
                "parse_sites": False,
                "enable_self_collisions": False,
            }
        ],
    }


def lie_down(sim: Any, q: Any, qd: Any) -> None:
    """Turn each world's first free body onto its back, close to the ground, in place."""
    q[:, 2] = 0.25
    q[:, 3:7] = (0.0, -(0.5**0.5), 0.0, 0.5**0.5)


@dataclass(frozen=True)
class Case:
    """A scene and how it starts."""

    scene: str = ""
    """Name of a shipped scene; empty for one of those that `source` makes."""
    start: Callable[[Any, Any, Any], None] | None = None
    """Changes coordinates and velocities of all worlds in place."""


SCENES = {
    "free_cube": Case("free_cube"),
    "box_stack": Case("box_stack"),
    "spheres": Case("spheres"),
    "humanoid": Case("humanoid"),
    "humanoid_lying": Case("humanoid", lie_down),
    "allegro_hand": Case("allegro_hand"),
    "franka_pick_cube": Case("franka_pick_cube"),
    "unitree_go2": Case("unitree_go2"),
    "double_pendulum": Case("double_pendulum"),
    "multi_joints": Case("multi_joints"),
    "mechanism": Case(),
    "rough_ground": Case(),
}


def make_simulation(name: str, preset: str, device: str, worlds: int = WORLDS) -> Any:
    """A scene with a preset; needs nothing but `sap_warp.Simulation`."""
    import sap_warp

    options: dict[str, Any] = {"num_worlds": worlds, "device": device} | PRESETS[preset]
    if name == "rough_ground":
        return sap_warp.Simulation.from_scene(rough_ground(), **options)
    if name == "mechanism":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "mechanism.xml"
            path.write_text(MECHANISM)
            return sap_warp.Simulation.from_scene(path, dt=0.005, **options)
    return sap_warp.Simulation.from_scene(SCENES[name].scene, **options)


# --- in the process of one tree ---


def set_start(sim: Any, name: str) -> None:
    """Give every world its own velocities."""
    import numpy as np

    q, qd = (np.array(view.numpy()).reshape(WORLDS, -1) for view in (sim.joint_q, sim.joint_qd))
    qd += np.random.default_rng(7).normal(size=qd.shape) * SPEED
    start = SCENES[name].start
    if start is not None:
        start(sim, q, qd)
    sim.reset(joint_q=q, joint_qd=qd)


def hash_state(sim: Any) -> str:
    """States and what the last step tells."""
    import numpy as np

    arrays = [view.numpy() for view in (sim.joint_q, sim.joint_qd, sim.body_q, sim.body_qd)]
    arrays += [sim.iterations, sim.status, sim.contact_counts]
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    found.update(repr(sim.statistics).encode())
    return found.hexdigest()[:16]


def hash_forces(sim: Any) -> str:
    """Forces of contacts and joints in the last step."""
    found = hashlib.sha256()
    forces = sim.joint_forces()
    views: dict[str, Any] = {"on bodies": sim.contact_forces()} | {
        n: getattr(forces, n) for n in dir(forces) if not n.startswith("_")
    }
    for name, view in sorted(views.items()):
        if callable(getattr(view, "numpy", None)):
            found.update(name.encode() + view.numpy().tobytes())
    return found.hexdigest()[:16]


def run_case(name: str, preset: str) -> dict[str, Any]:
    """Hashes of one scene, and how it ended."""
    import numpy as np

    sim = make_simulation(name, preset, "cpu")
    set_start(sim, name)
    hashes = []
    for count in STEPS:
        sim.step(count)
        hashes.append(hash_state(sim))
    hashes.append(hash_forces(sim))
    end = np.concatenate([np.ravel(view.numpy()).astype(np.float64) for view in (sim.joint_q, sim.joint_qd)])
    return {"hashes": hashes, "end": base64.b64encode(end.tobytes()).decode(), "statistics": repr(sim.statistics)}


def run_tree(tree: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Print a line of JSON for every scene and preset."""
    import warp as wp

    import sap_warp

    check_tree(tree, sap_warp.__file__)
    wp.config.log_level = wp.LOG_WARNING
    warnings.simplefilter("ignore")
    for name, preset in pairs:
        try:
            result = run_case(name, preset)
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"[:300]}
        print("RESULT " + json.dumps({"scene": name, "preset": preset, "result": result}), flush=True)


def check_tree(tree: Path, file: str | None) -> None:
    """Refuse to compare a tree with itself by accident."""
    if tree.resolve() not in Path(file or "").resolve().parents:
        raise SystemExit(f"sap_warp comes from {file}, not from {tree}.")


# --- in the process that compares ---


def environment(tree: Path) -> dict[str, str]:
    """Environment variables in which `import sap_warp` and `import tests` mean those of a tree."""
    return os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}


@functools.cache
def describe(tree: Path) -> dict[str, str]:
    """What results of a tree depend on."""
    from importlib.metadata import version

    content = hashlib.sha256()
    for folder in ("sap_warp", "assets"):
        for path in sorted((tree / folder).rglob("*")):
            if path.is_file() and path.suffix in (".py", ".h", ".yaml", ".json", ".xml"):
                content.update(str(path.relative_to(tree)).encode() + path.read_bytes())
    commit = subprocess.run(["git", "-C", str(tree), "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    found = {"commit": commit.strip(), "content": content.hexdigest()[:16], "cpu": processor}
    made_by = [rough_ground, lie_down, make_simulation, set_start, hash_state, hash_forces, run_case]
    text = repr((STEPS, WORLDS, SPEED, PRESETS, MECHANISM, [inspect.getsource(each) for each in made_by]))
    found |= {"warp": version("warp-lang"), "script": hashlib.sha256(text.encode()).hexdigest()[:16]}
    return found


@dataclass
class Results:
    """What one tree computed, by scene and preset."""

    tree: Path
    keep: Path | None = None
    found: dict[str, Any] = field(default_factory=dict)

    def load(self) -> None:
        """Read what was kept, if it is of this tree and this machine."""
        if self.keep is None or not self.keep.exists():
            return
        kept, now = json.loads(self.keep.read_text()), describe(self.tree)
        changed = [name for name, value in now.items() if name != "commit" and kept["of"].get(name) != value]
        if changed:
            print(f"{self.keep} is of another {', '.join(changed)}: it is made anew.", file=sys.stderr)
        else:
            self.found = kept["results"]

    def run(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Run those that are missing."""
        missing = [pair for pair in pairs if " ".join(pair) not in self.found]
        if not missing:
            print(f"{self.tree}: all {len(pairs)} results are kept", file=sys.stderr)
            return
        start = time.perf_counter()
        for i, (key, result) in enumerate(stream_results(self.tree, missing), 1):
            self.found[key] = result
            note = result.get("error", "")
            elapsed = time.perf_counter() - start
            print(f"{self.tree}: {i}/{len(missing)} {key} {elapsed:.0f} s {note}", file=sys.stderr, flush=True)
            self._save()

    def _save(self) -> None:
        if self.keep is not None:
            kept = {key: value for key, value in self.found.items() if "error" not in value}
            self.keep.parent.mkdir(parents=True, exist_ok=True)
            self.keep.write_text(json.dumps({"of": describe(self.tree), "results": kept}, indent=1))


def stream_results(tree: Path, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Any]]:
    """Run a tree in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), str(tree), "--run", json.dumps(pairs)]
    with subprocess.Popen(command, env=environment(tree), cwd=tree, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            if line.startswith("RESULT "):
                told = json.loads(line.removeprefix("RESULT "))
                yield f"{told['scene']} {told['preset']}", told["result"]
    if process.returncode:
        raise SystemExit(f"The process of {tree} ended with {process.returncode}.")


def verdict(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """``equal``, or what differs."""
    import numpy as np

    if "error" in ours or "error" in theirs:
        return "FAILED"
    if ours == theirs:
        return "equal"
    pairs = zip(ours["hashes"], theirs["hashes"], strict=True)
    first = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if first is None:
        return "end differs"
    ends = [np.frombuffer(base64.b64decode(each["end"])) for each in (ours, theirs)]
    largest = float(np.abs(ends[0] - ends[1]).max()) if ends[0].shape == ends[1].shape else np.inf
    return f"step {sum(STEPS[: first + 1])}: {largest:.0e}" if first < len(STEPS) else "forces at the end"


def print_table(scenes: Sequence[str], presets: Sequence[str], ours: Results, theirs: Results) -> bool:
    """Scenes by presets; returns whether all are equal."""
    print(f"{'':18s}" + "".join(f"{preset:>18s}" for preset in presets))
    words = {(s, p): verdict(ours.found[f"{s} {p}"], theirs.found[f"{s} {p}"]) for s in scenes for p in presets}
    for scene in scenes:
        print(f"{scene:18s}" + "".join(f"{words[scene, preset]:>18s}" for preset in presets))
    for results in (ours, theirs):
        for key, result in results.found.items():
            if "error" in result and tuple(key.split()) in words:
                print(f"{results.tree}: {key}: {result['error']}")
    count = sum(word != "equal" for word in words.values())
    print(f"{len(words) - count} of {len(words)} equal")
    return not count


def choose(given: str | None, known: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """Names of a list with commas."""
    names = given.split(",") if given else list(known)
    unknown = set(names) - set(known)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; returns 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, metavar="OTHER_TREE", help="a checkout to compare with")
    parser.add_argument("--tree", type=Path, default=HERE, help="the tree that is compared (default: this one)")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK_SCENES)} with two presets")
    parser.add_argument("--scenes", metavar="A,B", help=f"of {', '.join(SCENES)}")
    parser.add_argument("--presets", metavar="A,B", help=f"of {', '.join(PRESETS)}")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where results of OTHER_TREE are kept")
    parser.add_argument("--run", help=argparse.SUPPRESS)  # in the process of a tree: what to run
    given = parser.parse_args(arguments)
    if given.run:
        run_tree(given.other, json.loads(given.run))
        return 0
    for tree in (given.tree, given.other):
        if not (tree / "sap_warp").is_dir():
            parser.error(f"{tree} has no folder sap_warp")
    scenes = choose(given.scenes, QUICK_SCENES if given.quick and not given.scenes else list(SCENES), parser)
    presets = choose(given.presets, QUICK_PRESETS if given.quick and not given.presets else list(PRESETS), parser)
    pairs = [(scene, preset) for preset in presets for scene in scenes]
    ours, theirs = Results(given.tree.resolve()), Results(given.other.resolve(), given.keep)
    theirs.load()
    for results in (theirs, ours):
        results.run(pairs)
    return 0 if print_table(scenes, presets, ours, theirs) else 1


if __name__ == "__main__":
    sys.exit(main())
