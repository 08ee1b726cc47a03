"""Robots made of random features of MJCF, for `tests.support.random_mjcf`.

Classes inside of classes, orientations in every notation, frames, replicas, included files, meshes of both kinds, all
kinds of joints, tendons, actuators and equalities, and the settings of the compiler that change masses.
"""

# ruff: noqa: E501 - MJCF on long lines

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull

CLASSES = ("main", "a", "b", "a_in", "a_in_in")
NOTED = ("condim", "priority", "<mesh>: geoms", "<mesh inertia", "<pair")
"""Words of what is listed as not simulated, and is no mistake: contact laws, and meshes with hollows."""


class Random:
    """Random words and numbers of a file."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.names = 0
        self.degrees = bool(rng.integers(2))
        self.limits_by_range = bool(rng.random() < 0.8)

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

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
        return " ".join(attribute for attribute in attributes if self.chance(0.5))

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

    def class_of(self, probability: float = 0.4) -> str:
        return f'class="{self.pick(*CLASSES[1:])}"' if self.chance(probability) else ""


class Defaults(Random):
    """Default classes."""

    def defaults(self) -> str:
        inner = f'<default class="a_in_in">{self.class_content()}</default>'
        inner = f'<default class="a_in">{self.class_content()}{inner}</default>'
        classes = f'<default class="a">{self.class_content()}{inner}</default>'
        return f'<default>{self.class_content()}{classes}<default class="b">{self.class_content()}</default></default>'

    def class_content(self) -> str:
        parts = [
            f"<joint {self.joint_attributes()}/>",
            f"<geom {self.some(self.weight('density'), self.masks(), self.contact())}/>",
            f'<mesh scale="{self.numbers(3, 0.5, 1.5)}"/>' if self.chance(0.3) else "",
            '<tendon stiffness="3" damping="0.1"/>' if self.chance(0.3) else "",
            '<equality solref="0.01 1"/>' if self.chance(0.2) else "",
            f'<site pos="{self.numbers(3, -0.05, 0.05)}" group="2"/>' if self.chance(0.2) else "",
            self.actuator_class(),
        ]
        return "".join(part for part in parts if self.chance(0.6))

    def masks(self) -> str:
        return self.pick('contype="2"', 'conaffinity="2"', 'contype="0" conaffinity="0"', 'contype="5"')

    def weight(self, kind: str) -> str:
        return f'density="{self.number(300, 2000)}"' if kind == "density" else f'mass="{self.number(0.1, 1)}"'

    def contact(self) -> str:
        return self.some(
            f'margin="{self.number(0, 0.01)}"',
            'solref="0.01 1.1"',
            'solimp="0.8 0.9 0.01"',
            f'condim="{self.pick("1", "3", "4", "6")}"',
            f'friction="{self.numbers(3, 0.1, 1)}"',
            f'priority="{self.pick("0", "1")}"',
        )

    def joint_attributes(self) -> str:
        low, high = self.angle(-1.5, -0.5), self.angle(0.5, 1.5)
        limited = "" if self.limits_by_range else f' limited="{self.pick("true", "false")}"'
        return self.some(
            f'damping="{self.number(0, 0.5)}"',
            f'armature="{self.number(0.01, 0.1)}"',
            f'stiffness="{self.number(0, 3)}"',
            f'springref="{self.angle(-0.3, 0.3):.5g}"',
            f'range="{low:.5g} {high:.5g}"{limited}',
            f'axis="{self.numbers(3, 0.2, 1)}"',
            f'frictionloss="{self.number(0, 0.1)}"',
        )

    def actuator_class(self) -> str:
        kinds = self.rng.permutation(["general", "position", "velocity", "motor"])[: self.rng.integers(1, 3)]
        return "".join(f"<{kind} {self.actuator_attributes(kind, False)}/>" for kind in kinds.tolist())

    def limit(self, name: str, low: str, high: str) -> str:
        """A range, and the switch that it needs where ranges alone limit nothing."""
        switch = {"ctrlrange": "ctrllimited", "forcerange": "forcelimited", "actrange": "actlimited"}[name]
        return f'{name}="{low} {high}"' + ("" if self.limits_by_range else f' {switch}="true"')

    def actuator_attributes(self, kind: str, dynamics: bool = True) -> str:
        shared = [
            self.limit("forcerange", f"-{self.number(1, 5)}", self.number(1, 5)),
            f'gear="{self.number(0.5, 3)}"',
        ]
        if kind == "damper":
            return self.some(f'kv="{self.number(0.1, 2)}"', *shared) + ' ctrlrange="0 2"'
        if kind == "muscle":
            given = f'lengthrange="{self.number(0.05, 0.2)} {self.number(0.5, 0.9)}"'
            return given + " " + self.some(f'force="{self.number(1, 9)}"', 'timeconst="0.02 0.05"', 'range="0.7 1.1"')
        if kind == "cylinder":
            own = (self.pick('diameter="0.3"', 'area="0.2"'), 'bias="0.1 -1 -0.2"', 'timeconst="0.2"')
            return self.some(*own, *shared)
        shared.append(self.limit("ctrlrange", self.number(-2, -1), self.number(1, 2)))
        if kind == "intvelocity":
            return self.limit("actrange", "-1", "1.5") + " " + self.some('kp="5"', 'kv="0.3"', *shared)
        dyntype = self.pick(
            'dyntype="filter" dynprm="0.1"', 'dyntype="filterexact" dynprm="0.1"', 'dyntype="integrator"'
        )
        if self.chance(0.3) and dynamics:
            dyntype += " " + self.limit("actrange", "-0.8", "0.9")
        own = {
            "position": [
                f'kp="{self.number(1, 20)}"',
                self.pick("kv", "dampratio") + f'="{self.number(0.1, 1)}"',
                'timeconst="0.1"' if dynamics and self.chance(0.3) else "",
            ],
            "velocity": [f'kv="{self.number(0.1, 2)}"'],
            "motor": [],
            "general": [
                f'gainprm="{self.number(1, 9)}"',
                f'biasprm="{self.number(-1, 1)} {self.number(-9, 0)} {self.number(-1, 0)}"',
                f'biastype="{self.pick("none", "affine")}"',
                dyntype if dynamics else "",
                'gaintype="affine" gainprm="2 0.3 0.1"' if dynamics and self.chance(0.2) else "",
            ],
        }[kind]
        chosen = self.some(*own, *shared)
        if chosen.count("gainprm") > 1:
            chosen = chosen.replace('gaintype="affine" gainprm="2 0.3 0.1"', 'gaintype="fixed"')
        return chosen


class RandomRobot(Defaults):
    """Writes one robot; every choice comes from the generator."""

    def __init__(self, rng: np.random.Generator):
        super().__init__(rng)
        self.joints: list[tuple[str, str]] = []
        """Name and kind."""
        self.sites: list[str] = []
        self.bodies: list[str] = []
        self.body_of: dict[str, str] = {}
        """Of sites."""
        self.here = ""
        self.geoms: list[str] = []
        self.meshes: list[str] = []
        self.wraps: list[str] = []
        self.files: dict[str, str] = {}
        """What the text refers to, by path."""
        self.moving = False
        """Whether the body at hand hangs on a joint."""

    def text(self) -> str:
        """The file."""
        option = self.pick(
            "",
            '<option integrator="implicitfast" cone="elliptic" impratio="10" solver="CG" jacobian="sparse"/>',
            '<option density="1.2" viscosity="2e-5" wind="0.5 0 0.1" solver="PGS" iterations="5"/>',
            '<option gravity="0.5 0 -9"><flag eulerdamp="disable" multiccd="enable"/></option>',
        )
        compiler, defaults, assets = self.compiler(), self.defaults(), self.assets()
        trees = [self.body(2, True) for _ in range(2)]
        if self.chance(0.4):
            self.files["part.xml"] = f"<mujocoinclude>{trees[1]}</mujocoinclude>"
            trees[1] = '<include file="part.xml"/>'
        if self.chance(0.3):
            self.files["sub/classes.xml"] = f"<mujoco>{defaults}</mujoco>"
            defaults = '<include file="sub/classes.xml"/>'
        tendons, names = self.tendons()
        equalities = self.equalities(names)
        actuators = "".join(self.actuator(names) for _ in range(self.rng.integers(3, 9)))
        floor = '<geom name="floor" type="plane" size="0 0 1" pos="0 0 -9"/>'
        worldbody = f"<worldbody>{floor}{self.replica()}{''.join(trees)}</worldbody>"
        rest = f"{tendons}{self.contacts()}<actuator>{actuators}</actuator>{equalities}"
        return f'<mujoco model="random">{compiler}{option}{defaults}{assets}{worldbody}{rest}</mujoco>'

    def compiler(self) -> str:
        axes = self.rng.permutation(list("xyz")).tolist()
        sequence = "".join(axis.upper() if self.chance(0.5) else axis for axis in axes)
        inertia = self.pick("auto", "auto", "auto", "true")
        chosen = self.some(
            f'eulerseq="{sequence}"',
            f'autolimits="{"true" if self.limits_by_range else "false"}"',
            'balanceinertia="true"' if self.chance(0.4) else "",
            'boundmass="0.3"' if self.chance(0.4) else "",
            'boundinertia="0.004"' if self.chance(0.4) else "",
            f'inertiafromgeom="{inertia}"',
            'settotalmass="7.5"' if self.chance(0.3) else "",
            'inertiagrouprange="0 3"' if self.chance(0.3) else "",
            'discardvisual="true"' if self.chance(0.3) else "",
            'fusestatic="true"' if self.chance(0.2) else "",
        )
        if "autolimits" not in chosen and not self.limits_by_range:
            chosen += ' autolimits="false"'
        self.directory = self.pick("", "", "meshes", "assets/shapes")
        folder = f' {self.pick("meshdir", "assetdir")}="{self.directory}"' if self.directory else ""
        return f'<compiler angle="{"degree" if self.degrees else "radian"}" {chosen}{folder}/>'

    def assets(self) -> str:
        parts = []
        for _ in range(self.rng.integers(0, 3)):
            self.meshes.append(self.name("mesh"))
            points = self.rng.uniform(-0.08, 0.08, (10, 3)).round(4)
            hull = ConvexHull(points)
            faces = np.where(  # seen from outside against the clock
                (np.einsum("ij,ij->i", _normals(points, hull.simplices), hull.equations[:, :3]) > 0)[:, None],
                hull.simplices,
                hull.simplices[:, ::-1],
            )
            pose = self.some(
                f'refpos="{self.numbers(3, -0.05, 0.05)}"', f'refquat="{self.numbers(4, 0.2, 1)}"', self.class_of()
            )
            pose += self.pick("", f' scale="{self.numbers(3, 0.6, 1.4)}"', ' inertia="exact"', ' inertia="convex"')
            content = f'vertex="{" ".join(f"{x:g}" for x in points.ravel())}"'
            if self.chance(0.4):
                content += f' face="{" ".join(map(str, faces.ravel()))}"'
            elif self.chance(0.5):
                vertices = "".join(f"v {x:g} {y:g} {z:g}\n" for x, y, z in points)
                triangles = "".join(f"f {a} {b} {c}\n" for a, b, c in faces + 1)
                file = f"{self.meshes[-1]}.obj"
                self.files[f"{self.directory}/{file}" if self.directory else file] = vertices + triangles
                content = f'file="{file}"'
            parts.append(f'<mesh name="{self.meshes[-1]}" {content} {pose}/>')
        return f"<asset>{''.join(parts)}</asset>"

    # Bodies

    def body(self, depth: int, root: bool = False) -> str:
        name = self.name("body")
        self.bodies.append(name)
        above, self.here = self.moving, name
        joints = self.pick(
            "<freejoint/>", f'<joint name="{self.name("free")}" type="free" stiffness="0" frictionloss="0"/>'
        )
        joints = joints if root and self.chance(0.4) else self.some_joints()
        self.moving = self.moving or bool(joints)
        child = self.pick("", f'childclass="{self.pick(*CLASSES[1:])}"')
        content = joints + self.inertial() + self.geom() + self.geom() + self.site()
        inside = "".join(self.body(depth - 1) for _ in range(self.rng.integers(1, 3))) if depth else ""
        inside = self.framed(inside) if self.chance(0.3) and inside else inside
        self.here = name
        if self.chance(0.2):
            content += self.framed(self.geom() + self.site())
        compensation = self.pick("", f'gravcomp="{self.number(0, 1)}"')
        pos = self.numbers(3, -0.3, 0.3)
        self.moving = above
        return f'<body name="{name}" pos="{pos}" {self.orientation()} {child} {compensation}>{content}{inside}</body>'

    def framed(self, content: str) -> str:
        child = self.pick("", f'childclass="{self.pick(*CLASSES[1:])}"')
        return f'<frame pos="{self.numbers(3, -0.1, 0.1)}" {self.orientation()} {child}>{content}</frame>'

    def replica(self) -> str:
        """Copies of a small arm, or nothing."""
        if not self.chance(0.3):
            return ""
        count, name = int(self.rng.integers(2, 4)), self.name("copy")
        turn = f'euler="{self.angle(-0.5, 0.5):.5g} 0 {self.angle(-0.5, 0.5):.5g}"' if self.chance(0.7) else ""
        content = (
            f'<body name="{name}" pos="1 0 0"><joint name="{name}j" axis="0 1 0" armature="0.01"/>{self.geom()}'
            f'<body name="{name}in" pos="0 0.1 0.2"><joint name="{name}jin" type="slide" axis="1 0 0.2" range="-0.5 0.5" armature="0.01"'
            f' limited="true" springref="0"/><geom name="{name}g" type="sphere" size="0.04"/></body></body>'
        )
        sep = self.pick("", 'sep="-"', 'sep="_r"')
        self.geoms.pop()  # its name gets an ending
        return f'<replicate count="{count}" offset="{self.numbers(3, 0.2, 0.5)}" {turn} {sep}>{content}</replicate>'

    def some_joints(self) -> str:
        kinds = self.pick("hinge", "hinge", "hinge", "slide", "hinge hinge", "slide hinge", "ball", "").split()
        axes = ["", 'axis="0.1 1 0.3"'] if len(kinds) == 1 else ['axis="1 0.2 0"', 'axis="-0.1 0 1"']
        return "".join(self.joint(kind, axes[i]) for i, kind in enumerate(kinds))

    def joint(self, kind: str, axis: str) -> str:
        name = self.name("joint")
        self.joints.append((name, kind))
        if kind == "ball":
            limited = "" if self.limits_by_range else ' limited="false"'
            return f'<joint name="{name}" type="ball" stiffness="0" range="0 0"{limited} frictionloss="0" armature="0.01"/>'
        limit = 'range="-0.5 0.5" springref="0"' if kind == "slide" else ""
        if limit and not self.limits_by_range:
            limit += ' limited="true"'
        position = self.pick("", f'pos="{self.numbers(3, -0.05, 0.05)}"')
        ref = self.pick("", "", f'ref="{self.angle(-0.3, 0.3) if kind == "hinge" else 0.1:.5g}"')
        return f'<joint name="{name}" type="{kind}" {self.class_of()} {limit} {position} {axis} {ref}/>'

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
            f'type="{self.pick("capsule", "cylinder", "box", "ellipsoid")}" size="0.03" fromto="0 0 0 {self.numbers(3, 0.05, 0.2)}"',
        )
        if self.meshes and self.chance(0.4):
            shape = f'type="mesh" mesh="{self.pick(*self.meshes)}"'
            if self.chance(0.2):  # a shape that is fitted to it
                shape = shape.replace('"mesh"', f'"{self.pick("box", "sphere", "capsule", "ellipsoid")}"', 1)
        turn = "" if "fromto" in shape else f'pos="{self.numbers(3, -0.1, 0.1)}" {self.orientation()}'
        self.geoms.append(self.name("geom"))
        more = self.some(self.pick(*map(self.weight, ("density", "mass"))), self.masks(), self.contact())
        more += f' group="{self.pick("0", "2", "4")}"' if self.chance(0.3) else ""
        return f'<geom name="{self.geoms[-1]}" {shape} {turn} {self.class_of()} {more}/>'

    def site(self) -> str:
        self.sites.append(self.name("site"))
        self.body_of[self.sites[-1]] = self.here
        site = f'<site name="{self.sites[-1]}" pos="{self.numbers(3, -0.1, 0.1)}" {self.orientation()}/>'
        if self.moving and self.chance(0.3):
            self.wraps.append(self.name("wrap"))
            size = self.pick('type="sphere" size="0.02"', 'type="cylinder" size="0.02 0.05"')
            site += f'<geom name="{self.wraps[-1]}" {size} pos="{self.numbers(3, 0.1, 0.2)}" {self.orientation()} contype="0" conaffinity="0"/>'
        return site

    def scalars(self) -> list[str]:
        return [name for name, kind in self.joints if kind in ("hinge", "slide")]

    # What refers to them

    def contacts(self) -> str:
        parts = []
        if self.chance(0.5):
            one, two = self.rng.choice(self.bodies, 2, replace=False)
            parts.append(f'<exclude body1="{one}" body2="{two}"/>')
        return f"<contact>{''.join(parts)}</contact>"

    def tendons(self) -> tuple[str, list[str]]:
        scalars, parts, names = self.scalars(), [], []
        attributes = self.some(
            'stiffness="4"', 'damping="0.3"', self.pick('springlength="0.1"', 'springlength="0.1 0.3"')
        )
        if len(scalars) > 1:
            chosen = self.rng.choice(scalars, 2, replace=False)
            joints = "".join(f'<joint joint="{joint}" coef="{self.number(-1, 1)}"/>' for joint in chosen)
            names.append(self.name("tendon"))
            more = self.some(self.class_of(1.0), 'range="-1 1" limited="true"', 'frictionloss="0.01"')
            parts.append(f'<fixed name="{names[-1]}" {more}>{joints}</fixed>')
        for _ in range(self.rng.integers(1, 3)):
            chosen = self.rng.choice(self.sites, 3, replace=False).tolist()
            names.append(self.name("tendon"))
            path = [f'<site site="{site}"/>' for site in chosen]
            if self.wraps and self.chance(0.5):
                side = f'sidesite="{self.pick(*self.sites)}"' if self.chance(0.4) else ""
                path.insert(1, f'<geom geom="{self.pick(*self.wraps)}" {side}/>')
            if self.chance(0.2):
                path += ['<pulley divisor="2"/>', *(f'<site site="{site}"/>' for site in chosen[:2])]

            parts.append(f'<spatial name="{names[-1]}" {attributes} {self.class_of(0.2)}>{"".join(path)}</spatial>')
        return f"<tendon>{''.join(parts)}</tendon>", names

    def equalities(self, tendons: list[str]) -> str:
        parts, scalars, active = [], self.scalars(), self.pick("", "", 'active="false"')
        polynomial = self.pick(
            "", f'polycoef="{self.numbers(5, -0.5, 0.5)}"', f'polycoef="{self.numbers(2, -0.5, 0.5)}"'
        )
        if self.chance(0.4):
            one, two = self.rng.choice(self.bodies, 2, replace=False)
            second = f'body2="{two}"' if self.chance(0.7) else ""
            parts.append(f'<connect body1="{one}" {second} anchor="{self.numbers(3, -0.1, 0.1)}" {active}/>')
        if self.chance(0.4):
            one, two = self.rng.choice(self.bodies, 2, replace=False)
            more = self.some(
                f'body2="{two}"',
                f'torquescale="{self.number(0.5, 2)}"',
                f'anchor="{self.numbers(3, -0.1, 0.1)}"',
                f'relpose="{self.numbers(3, -0.2, 0.2)} {self.numbers(4, 0.1, 1)}"',
            )
            more = more.replace("torquescale", 'solref="0.02 1" torquescale') if self.chance(0.8) else 'torquescale="0"'
            parts.append(f'<weld body1="{one}" {more} {self.class_of(0.2)}/>')
        if self.chance(0.3):
            one, two = self.rng.choice(self.sites, 2, replace=False)
            if self.body_of[one] != self.body_of[two]:
                parts.append(f'<{self.pick("connect", "weld")} site1="{one}" site2="{two}"/>')
        if self.chance(0.5) and len(scalars) > 1:
            one, two = self.rng.choice(scalars, 2, replace=False)
            second = f'joint2="{two}"' if self.chance(0.8) else ""
            parts.append(f'<joint joint1="{one}" {second} {polynomial}/>')
        if self.chance(0.3) and len(tendons) > 1:
            second = f'tendon2="{tendons[1]}"' if self.chance(0.7) else ""
            parts.append(f'<tendon tendon1="{tendons[0]}" {second} {polynomial}/>')
        return f"<equality>{''.join(parts)}</equality>"

    def actuator(self, tendons: list[str]) -> str:
        simple = (
            "general",
            "position",
            "velocity",
            "motor",
            "damper",
            "position",
            "general",
            "intvelocity",
            "cylinder",
        )
        kind = self.pick(*simple, "muscle")
        scalars, balls = self.scalars(), [name for name, of in self.joints if of == "ball"]
        where = self.pick("joint", "joint", "tendon", "site", "crank", "ball")
        target = f'tendon="{self.pick(*tendons)}"'
        if where == "joint" and scalars:
            target = f'{self.pick("joint", "joint", "jointinparent")}="{self.pick(*scalars)}"'
        elif where == "site" and kind in ("motor", "general"):
            target = f'site="{self.pick(*self.sites)}" gear="{self.numbers(6, -1, 1)}"'
            if self.chance(0.3):
                target += f' refsite="{self.pick(*self.sites)}"'
        elif where == "crank" and kind in ("motor", "general"):
            one, two = self.rng.choice(self.sites, 2, replace=False)
            target = f'cranksite="{one}" slidersite="{two}" cranklength="{self.number(1, 2)}"'
        elif where == "ball" and balls and kind == "motor":
            target = f'{self.pick("joint", "jointinparent")}="{self.pick(*balls)}" gear="{self.numbers(3, -1, 1)}"'
        given = self.class_of(0.5)
        attributes = "" if "gear=" in target else self.actuator_attributes(kind)  # which has a gear
        if "joint=" not in target:
            attributes = attributes.replace("dampratio", "kv")
            given = "" if kind == "position" else given  # whose class may have a damping ratio
        return f'<{kind} name="{self.name("actuator")}" {target} {given} {attributes}/>'


def _normals(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    a, b, c = (points[triangles[:, i]] for i in range(3))
    return np.cross(b - a, c - a)
