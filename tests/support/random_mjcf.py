"""Robots made of random features of MJCF: classes inside of classes, orientations in every notation, all kinds of
joints and actuators, tendons, media.

    python -m tests.support.random_mjcf --seeds 100 [--first 0]

compares that many of them with MuJoCo and writes the files of those that differ.
"""

# ruff: noqa: E501 - MJCF on long lines

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from tests.support import beside_mujoco as beside

CLASSES = ("main", "a", "b", "a_in", "a_in_in")


class RandomRobot:
    """Writes one robot; every choice comes from the generator."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.joints: list[tuple[str, str]] = []
        """Name and kind."""
        self.sites: list[str] = []
        self.names = 0
        self.degrees = bool(rng.integers(2))

    def text(self) -> str:
        """The file."""
        sequence = self.pick("xyz", "XYZ", "zyx", "ZXY")
        angle = "degree" if self.degrees else "radian"
        compiler = f'<compiler angle="{angle}" autolimits="true" eulerseq="{sequence}"/>'
        option = self.pick(
            "",
            '<option integrator="implicitfast" cone="elliptic" impratio="10" solver="CG" jacobian="sparse"/>',
            '<option density="1.2" viscosity="2e-5" wind="0.5 0 0.1" solver="PGS" iterations="5"/>',
            '<option gravity="0.5 0 -9"><flag eulerdamp="disable" multiccd="enable"/></option>',
        )
        defaults = self.defaults()
        trees = "".join(self.body(2, True) for _ in range(2))
        tendons, names = self.tendons()
        actuators = "".join(self.actuator(names) for _ in range(self.rng.integers(3, 9)))
        return (
            f'<mujoco model="random">{compiler}{option}{defaults}<worldbody><geom name="floor" type="plane" size="0 0 1"'
            f' pos="0 0 -9"/>{trees}</worldbody>{tendons}<actuator>{actuators}</actuator></mujoco>'
        )

    # Choices

    def pick(self, *choices: str) -> str:
        return str(self.rng.choice(np.array(choices, dtype=object)))

    def number(self, low: float, high: float) -> str:
        return f"{self.rng.uniform(low, high):.5g}"

    def numbers(self, count: int, low: float, high: float) -> str:
        return " ".join(self.number(low, high) for _ in range(count))

    def angle(self, low: float, high: float) -> float:
        value = float(self.rng.uniform(low, high))
        return float(np.rad2deg(value)) if self.degrees else value

    def some(self, *attributes: str) -> str:
        return " ".join(attribute for attribute in attributes if self.rng.random() < 0.5)

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.pick('_', '-', '')}{self.names}"

    def orientation(self) -> str:
        angles = " ".join(f"{self.angle(-1.5, 1.5):.6g}" for _ in range(3))
        return self.pick(
            "",
            f'quat="{self.numbers(4, -1, 1)}"',
            f'euler="{angles}"',
            f'axisangle="{self.numbers(3, 0.2, 1)} {self.angle(-1, 1):.6g}"',
            f'xyaxes="1 {self.numbers(2, -0.5, 0.5)} 0 1 {self.number(-0.5, 0.5)}"',
            f'zaxis="{self.numbers(3, -1, 1)}"',
        )

    # Sections

    def defaults(self) -> str:
        inner = f'<default class="a_in_in">{self.class_content()}</default>'
        inner = f'<default class="a_in">{self.class_content()}{inner}</default>'
        classes = f'<default class="a">{self.class_content()}{inner}</default>'
        return f'<default>{self.class_content()}{classes}<default class="b">{self.class_content()}</default></default>'

    def class_content(self) -> str:
        parts = [
            f"<joint {self.joint_attributes()}/>",
            f"<geom {self.some(f'density={chr(34)}{self.number(300, 2000)}{chr(34)}', self.masks())}/>",
            self.actuator_class(),
        ]
        return "".join(part for part in parts if self.rng.random() < 0.6)

    def masks(self) -> str:
        return self.pick('contype="2"', 'conaffinity="2"', 'contype="0" conaffinity="0"', 'contype="5"')

    def joint_attributes(self) -> str:
        low, high = self.angle(-1.5, -0.5), self.angle(0.5, 1.5)
        return self.some(
            f'damping="{self.number(0, 0.5)}"',
            f'armature="{self.number(0.01, 0.1)}"',
            f'stiffness="{self.number(0, 3)}"',
            f'springref="{self.angle(-0.3, 0.3):.5g}"',
            f'range="{low:.5g} {high:.5g}"',
            f'axis="{self.numbers(3, 0.2, 1)}"',
        )

    def actuator_class(self) -> str:
        kinds = self.rng.permutation(["general", "position", "velocity", "motor"])[: self.rng.integers(1, 3)]
        return "".join(f"<{kind} {self.actuator_attributes(kind, False)}/>" for kind in kinds.tolist())

    def actuator_attributes(self, kind: str, dynamics: bool = True) -> str:
        shared = [f'forcerange="-{self.number(1, 5)} {self.number(1, 5)}"', f'gear="{self.number(0.5, 3)}"']
        if kind == "damper":
            return self.some(f'kv="{self.number(0.1, 2)}"', *shared) + ' ctrlrange="0 2"'
        shared.append(f'ctrlrange="{self.number(-2, -1)} {self.number(1, 2)}"')
        own = {
            "position": [f'kp="{self.number(1, 20)}"', self.pick("kv", "dampratio") + f'="{self.number(0.1, 1)}"'],
            "velocity": [f'kv="{self.number(0.1, 2)}"'],
            "motor": [],
            "general": [
                f'gainprm="{self.number(1, 9)}"',
                f'biasprm="{self.number(-1, 1)} {self.number(-9, 0)} {self.number(-1, 0)}"',
                f'biastype="{self.pick("none", "affine")}"',
                self.pick('dyntype="filter" dynprm="0.1"', 'dyntype="filterexact" dynprm="0.1"') if dynamics else "",
            ],
        }[kind]
        return self.some(*own, *shared)

    def body(self, depth: int, root: bool = False) -> str:
        name = self.name("body")
        joints = "<freejoint/>" if root and self.rng.random() < 0.4 else self.some_joints()
        child = self.pick("", f'childclass="{self.pick(*CLASSES[1:])}"')
        inside = "".join(self.body(depth - 1) for _ in range(self.rng.integers(1, 3))) if depth else ""
        if self.rng.random() < 0.3 and inside:
            inside = f'<frame pos="{self.numbers(3, -0.1, 0.1)}" {self.orientation()}>{inside}</frame>'
        content = joints + self.inertial() + self.geom() + self.geom() + self.site() + inside
        compensation = self.pick("", f'gravcomp="{self.number(0, 1)}"')
        pos = self.numbers(3, -0.3, 0.3)
        return f'<body name="{name}" pos="{pos}" {self.orientation()} {child} {compensation}>{content}</body>'

    def some_joints(self) -> str:
        kinds = self.pick("hinge", "hinge", "hinge", "slide", "hinge hinge", "slide hinge", "ball", "").split()
        axes = ["", 'axis="0.1 1 0.3"'] if len(kinds) == 1 else ['axis="1 0.2 0"', 'axis="-0.1 0 1"']
        return "".join(self.joint(kind, axes[i]) for i, kind in enumerate(kinds))

    def joint(self, kind: str, axis: str) -> str:
        name = self.name("joint")
        self.joints.append((name, kind))
        if kind == "ball":
            return f'<joint name="{name}" type="ball" stiffness="0" range="0 0" armature="0.01"/>'
        given = f'class="{self.pick(*CLASSES[1:])}"' if self.rng.random() < 0.4 else ""
        limit = 'range="-0.5 0.5" springref="0"' if kind == "slide" else ""
        position = self.pick("", f'pos="{self.numbers(3, -0.05, 0.05)}"')
        return f'<joint name="{name}" type="{kind}" {given} {limit} {position} {axis}/>'

    def inertial(self) -> str:
        mass, moments = self.number(0.5, 2), self.numbers(3, 0.01, 0.015)
        return self.pick(
            "",
            "",
            f'<inertial pos="{self.numbers(3, -0.1, 0.1)}" mass="{mass}" diaginertia="{moments}" {self.orientation()}/>',
            f'<inertial pos="0 0 0" mass="{mass}" fullinertia="{moments} {self.numbers(3, -0.002, 0.002)}"/>',
        )

    def geom(self) -> str:
        shape = self.pick(
            'type="sphere" size="0.05"',
            'type="capsule" size="0.03 0.1"',
            'type="box" size="0.05 0.06 0.07"',
            'type="cylinder" size="0.04 0.08"',
            'type="ellipsoid" size="0.05 0.06 0.1"',
            f'type="capsule" size="0.03" fromto="0 0 0 {self.numbers(3, 0.05, 0.2)}"',
        )
        turn = "" if "fromto" in shape else f'pos="{self.numbers(3, -0.1, 0.1)}" {self.orientation()}'
        given = f'class="{self.pick(*CLASSES[1:])}"' if self.rng.random() < 0.4 else ""
        return f'<geom name="{self.name("geom")}" {shape} {turn} {given} {self.pick("", self.masks())}/>'

    def site(self) -> str:
        self.sites.append(self.name("site"))
        return f'<site name="{self.sites[-1]}" pos="{self.numbers(3, -0.1, 0.1)}" {self.orientation()}/>'

    def scalars(self) -> list[str]:
        return [name for name, kind in self.joints if kind in ("hinge", "slide")]

    def tendons(self) -> tuple[str, list[str]]:
        scalars, parts, names = self.scalars(), [], []
        attributes = self.some(
            'stiffness="4"', 'damping="0.3"', self.pick('springlength="0.1"', 'springlength="0.1 0.3"')
        )
        if len(scalars) > 1:
            chosen = self.rng.choice(scalars, 2, replace=False)
            joints = "".join(f'<joint joint="{joint}" coef="{self.number(-1, 1)}"/>' for joint in chosen)
            names.append(self.name("tendon"))
            parts.append(f'<fixed name="{names[-1]}">{joints}</fixed>')
        chosen = self.rng.choice(self.sites, 3, replace=False)
        names.append(self.name("tendon"))
        path = "".join(f'<site site="{site}"/>' for site in chosen)
        parts.append(f'<spatial name="{names[-1]}" {attributes}>{path}</spatial>')
        return f"<tendon>{''.join(parts)}</tendon>", names

    def actuator(self, tendons: list[str]) -> str:
        kind = self.pick("general", "position", "velocity", "motor", "damper", "position", "general")
        scalars = self.scalars()
        where = self.pick("joint", "joint", "tendon", "site")
        target = f'tendon="{self.pick(*tendons)}"'
        if where == "joint" and scalars:
            target = f'joint="{self.pick(*scalars)}"'
        elif where == "site" and kind in ("motor", "general"):
            target = f'site="{self.pick(*self.sites)}" gear="{self.numbers(6, -1, 1)}"'
        given = self.pick("", f'class="{self.pick(*CLASSES[1:])}"')
        attributes = "" if "site=" in target else self.actuator_attributes(kind)  # which has a gear
        if "joint=" not in target:
            attributes = attributes.replace("dampratio", "kv")
        return f'<{kind} name="{self.name("actuator")}" {target} {given} {attributes}/>'


def differences(seed: int) -> tuple[str, list[str]]:
    """A robot, and in what it is not as in MuJoCo: structure, contact rules, a random pose, motion from it."""
    rng = np.random.default_rng(seed)
    text = RandomRobot(rng).text()
    reference, loaded, files = beside.compile_mujoco(text), beside.load(text, 0.002), beside.Files(text)
    found = [str(feature) for feature in loaded.unsupported_features]
    found += beside.structure(reference, loaded) + beside.pair_differences(reference, loaded)
    start, end = beside.motion(files, rng, dt=1e-4, steps=100)
    for what, (off, where), most in (("pose", start, 1e-5), ("motion", end, 2e-5)):
        if not off < most:
            found.append(f"{what} of {where!r} is off by {off:.2g}")
    return text, found


def main() -> int:
    """Compare many."""
    parser = argparse.ArgumentParser(description="Compare random robots with MuJoCo.")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--output", type=Path, default=Path("."), help="where the files of those that differ go")
    arguments, wrong = parser.parse_args(), 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        text, found = differences(seed)
        if found:
            wrong += 1
            (arguments.output / f"random_{seed}.xml").write_text(text)
            print(f"seed {seed}:", *found, sep="\n    ")
    print(f"{wrong} of {arguments.seeds} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
