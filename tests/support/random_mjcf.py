"""Random robots (`random_robot`) beside MuJoCo.

    python -m tests.support.random_mjcf --seeds 1000 [--first 0] [--motion]

compares that many of them with what MuJoCo compiles: structure, contact rules, and in random states body poses, mass
matrix, tendons, forces and equalities. With ``--motion`` they also move for 10 ms, which takes longer. The files of
those that differ are written.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import mujoco
import numpy as np

from sap_warp import UnsupportedModelError
from tests.support import beside_mujoco as beside
from tests.support.random_robot import NOTED, RandomRobot
from tests.support.states import equality_differences, state_differences

STATES = 2


@dataclass
class Outcome:
    """Of one comparison."""

    text: str
    files: dict[str, str]
    refused: str = ""
    """Why MuJoCo does not compile it, or the solver does not simulate it."""
    found: list[str] = field(default_factory=list)
    """In what it is not as in MuJoCo."""

    def write(self, folder: Path) -> None:
        """The robot, with all that it refers to."""
        for name, content in (("robot.xml", self.text), *self.files.items()):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)


def differences(seed: int, motion: bool = False) -> Outcome:
    """A robot, and in what it is not as in MuJoCo."""
    rng = np.random.default_rng(seed)
    robot = RandomRobot(rng)
    outcome = Outcome(robot.text(), robot.files)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.xml"
        outcome.write(path.parent)
        try:
            reference = beside.compile_mujoco(path)
        except ValueError as error:
            outcome.refused = str(error).splitlines()[0]
            return outcome
        try:
            outcome.found = _compare(path, reference, rng, motion)
        except UnsupportedModelError as error:  # it says what it does not simulate
            outcome.refused = str(error)
        except Exception as error:  # a robot that does not load is a difference, too
            outcome.found.append(f"{type(error).__name__}: {error}")
    return outcome


def _compare(path: Path, reference: mujoco.MjModel, rng: np.random.Generator, motion: bool) -> list[str]:
    files, loaded = beside.Files.at(path), beside.load(path, 0.002)
    found = [str(what) for what in loaded.unsupported_features if not any(word in str(what) for word in NOTED)]
    if 'fusestatic="true"' not in files.text:  # which takes bodies away
        found += beside.structure(reference, loaded)
        found += [] if 'discardvisual="true"' in files.text else beside.pair_differences(reference, loaded)
    keys = [f"state_{i}" for i in range(STATES)]
    extra = "".join(beside.random_key(reference, rng, name=key) for key in keys)
    source = files.changed(beside.NO_CONSTRAINTS + extra)
    found += state_differences(beside.compile_mujoco(source), beside.load(source, 0.002), keys)
    found += equality_differences(reference, loaded)
    if motion:
        off, where = beside.motion(files, rng, dt=1e-4, steps=100)[1]
        found += [f"motion of {where!r} is off by {off:.2g}"] if not off < 2e-5 else []
    return found


def main() -> int:
    """Compare many."""
    parser = argparse.ArgumentParser(description="Compare random robots with MuJoCo.")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--motion", action="store_true", help="let them move, too")
    parser.add_argument("--output", type=Path, default=Path("."), help="where the files of those that differ go")
    arguments, wrong, refused = parser.parse_args(), 0, 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        outcome = differences(seed, arguments.motion)
        refused += bool(outcome.refused)
        if outcome.found:
            wrong += 1
            outcome.write(arguments.output / f"random_{seed}")
            print(f"seed {seed}:", *outcome.found, sep="\n    ", flush=True)
    print(f"{wrong} of {arguments.seeds - refused} differ; {refused} more are refused, most by MuJoCo")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
