"""Content of an MJCF document that Newton's importer leaves out: gravity, contact rules, drives, keyframes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import newton
import numpy as np

from ....core.printable import printable
from ....model.model import register_dof_labels
from ...text import bounds
from ...text.errors import Complaint
from ...text.nodes import Node
from .actuation.actuators import resolve_ratios
from .actuation.drives import set_drives
from .actuation.loops import set_loop_frames
from .actuation.tendons import keep_tendons
from .bodies.inertia import effective_inertia
from .bodies.keyframes import add_keyframes
from .bodies.masses import set_masses
from .bodies.pairs import add_pairs, filter_as_mujoco
from .coordinates import bodies_of, body_joints, joint_kind
from .reader import MjcfDocument
from .switches import is_off

if TYPE_CHECKING:
    from ...build import SceneBuild

_KIND_OF = {
    newton.JointType.FREE: "free",
    newton.JointType.BALL: "ball",
}
_LOADED_ACTUATORS = ("general", "motor", "position", "velocity", "intvelocity", "damper")


def count_actuators(builder: newton.ModelBuilder) -> int:
    """Return the number of MuJoCo's actuators in a builder."""
    attribute = builder.custom_attributes.get("mujoco:actuator_trnid")
    return len(attribute.values or ()) if attribute is not None else 0


@dataclass(frozen=True)
class JointIndex:
    """Where a joint of a document is in the builder."""

    kind: str
    """free, ball, hinge or slide."""
    coordinate: int
    """Its first entry of joint_q."""
    dof: int
    """Its first entry of joint_qd."""
    body: Node
    """The body that it moves."""


@dataclass
class Import:
    """An asset that Newton has just imported into ``build.builder``, and what is still missing."""

    build: SceneBuild
    number: int
    """Index of the asset in the scene."""
    asset: Any
    document: MjcfDocument
    first: dict[str, int]
    """Counts of bodies, shapes, joints and actuators before this asset, by kind."""

    def __post_init__(self) -> None:
        builder = self.build.builder
        self.bodies = dict(enumerate(bodies_of(self.document.root), start=self.first["body"]))
        if len(self.bodies) != builder.body_count - self.first["body"]:
            raise RuntimeError("Newton has imported other bodies than the file has")
        self.joint_of = {child: j for j, child in reversed(list(enumerate(builder.joint_child)))}
        """Joint that carries a body; a later one closes a loop."""
        self.joint_indices = self._find_joint_indices()
        loaded = [node for node in self.document.elements("actuator") if node.tag in _LOADED_ACTUATORS]
        self.actuators = dict(zip(loaded, range(self.first["actuator"], count_actuators(builder)), strict=True))
        """Number of every actuator that Newton knows."""

    @property
    def shapes(self) -> range:
        """Shapes of the asset."""
        return range(self.first["shape"], self.build.builder.shape_count)

    def inertia_at(self, dof: int) -> float:
        """Return the effective inertia of a dof of the asset in the pose of the file [kg m^2 or kg]."""
        return self._inertias[dof]

    @cached_property
    def _inertias(self) -> dict[int, float]:
        return effective_inertia(self.build.builder, self.bodies, self.joint_of)

    def note(self, message: str) -> None:
        """Record something that is understood but not simulated."""
        self.build.note_unsupported(("assets", self.number, "source"), message)

    def _find_joint_indices(self) -> dict[Node, JointIndex]:
        """Locate the joints of the file in the model: Newton makes one joint of all those of a body, slides first."""
        builder, found = self.build.builder, {}
        for body, node in self.bodies.items():
            joint = self.joint_of[body]
            q, qd = builder.joint_q_start[joint], builder.joint_qd_start[joint]
            of_body = body_joints(node)
            kinds = [joint_kind(inner) for inner in of_body]
            simple = _KIND_OF.get(newton.JointType(builder.joint_type[joint]))
            if simple in kinds:
                found[of_body[kinds.index(simple)]] = JointIndex(simple, q, qd, node)
            elif simple is None and len(kinds) == sum(builder.joint_dof_dim[joint]):
                for i, inner in enumerate(sorted(of_body, key=lambda inner: joint_kind(inner) != "slide")):
                    found[inner] = JointIndex(joint_kind(inner), q + i, qd + i, node)
        return found


def apply_mjcf(build: SceneBuild, number: int, asset: Any, document: MjcfDocument, first: dict[str, int]) -> None:
    """Add to the builder what Newton has left out of an asset that it has just imported.

    Args:
        build: The scene.
        number: Of the asset in the scene.
        asset: Its entry in the scene.
        document: What Newton has read.
        first: Number of bodies and shapes before the import, by kind.
    """
    done = Import(build, number, asset, document, first)
    for body, node in done.bodies.items():
        if node in document.mocap:
            build.builder.body_flags[body] = int(newton.BodyFlags.KINEMATIC)
    set_loop_frames(done)
    set_masses(done)
    _set_free_joints(done)
    _set_gravity(done)
    _suggest_time_step(done)
    if is_off(document, "contact"):
        for shape in done.shapes:
            build.builder.shape_flags[shape] &= ~int(newton.ShapeFlags.COLLIDE_SHAPES)
    else:
        filter_as_mujoco(done)
        if asset.enable_self_collisions:
            add_pairs(done)
    _note_meshes(done)
    set_drives(done)
    if done.actuators:
        resolve_ratios(done)
    keep_tendons(done)
    add_keyframes(done)
    _name_dofs(done)


def _name_dofs(done: Import) -> None:
    """Keep the names of joints that share a body: Newton merges them into one joint with a combined name."""
    by_body: dict[Node, list[tuple[Node, JointIndex]]] = {}
    for joint, index in done.joint_indices.items():
        by_body.setdefault(index.body, []).append((joint, index))
    for together in by_body.values():
        if len(together) > 1 and all(joint.get("name") for joint, _ in together):
            labels = register_dof_labels(done.build.builder)
            labels.update({index.dof: printable(joint.get("name", "")) for joint, index in together})


def _set_free_joints(done: Import) -> None:
    """Set armature and damping of <joint type="free">, which act on the body origin's velocity and on the rotation."""
    builder = done.build.builder
    for joint, index in done.joint_indices.items():
        if index.kind == "free" and joint.tag == "joint":
            for name, values in (("armature", builder.joint_armature), ("damping", builder.joint_damping)):
                value = joint.number(name, 0.0)
                if value > 0.0:
                    values[index.dof : index.dof + 6] = [value] * 6


def _set_gravity(done: Import) -> None:
    """Take gravity from the file, in world axes; a scene that sets it does so later."""
    document = done.document
    option, flag = document.option("gravity"), document.flag("gravity")
    off = document.is_disabled("gravity")
    source = flag if off else option
    if source is None:
        return
    value = np.zeros(3) if off or option is None else option.numbers("gravity", 3)
    done.build.take_gravity(done.number, value, source.location("gravity"))


def _suggest_time_step(done: Import) -> None:
    """Take the time step of the file [s] for scenes that have none."""
    option = done.document.option("timestep")
    if option is not None:
        location, value = option.location("timestep"), option.number("timestep", 0.0)
        if not value > 0.0:
            raise Complaint(f"{location}: the timestep is {value:g}; it must be positive")
        done.build.take_time_step(done.number, bounds.TIME_STEP.check(value), location)


def check_joints(document: MjcfDocument) -> None:
    """Complain about joints that MuJoCo does not accept either."""
    for body in bodies_of(document.root):
        joints = body_joints(body)
        kinds = [joint_kind(joint) for joint in joints]
        if len(joints) > 1 and "free" in kinds:
            what = f"body {body.get('name', '')!r} has a free joint beside another one"
            raise Complaint(f"{joints[1].location()}: {what}; put a body between them")
        if "ball" in kinds and {"ball", "hinge"} & set(kinds[kinds.index("ball") + 1 :]):
            what = f"body {body.get('name', '')!r} has a ball joint with a rotation after it"
            raise Complaint(f"{joints[-1].location()}: {what}; put a body between them")


def _note_meshes(done: Import) -> None:
    """Note meshes with hollows: MuJoCo's default mass of them exceeds density times volume, which Newton uses."""
    builder = done.build.builder
    if all(mesh.get("inertia") == "exact" for mesh in done.document.elements("asset", "mesh")):
        return
    heavier = []
    for shape in done.shapes:
        body, mesh = builder.shape_body[shape], builder.shape_source[shape]
        if builder.shape_type[shape] == newton.GeoType.MESH and body >= 0 and not builder.body_lock_inertia[body]:
            corners = np.asarray(mesh.vertices, np.float64)[np.asarray(mesh.indices).reshape(-1, 3)]
            normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
            areas = np.linalg.norm(normals, axis=1)
            centres = corners.mean(axis=1)
            volumes = np.sum((centres - areas @ centres / max(areas.sum(), 1e-30)) * normals, axis=1)
            if np.abs(volumes).sum() > 1.01 * abs(volumes.sum()):  # mirrored meshes are inside out
                heavier.append(builder.shape_label[shape].rsplit("/", 1)[-1])
    if heavier:
        shown = ", ".join(map(repr, heavier[:3])) + (f" and {len(heavier) - 3} more" if len(heavier) > 3 else "")
        done.note(f"<mesh>: geoms {shown} have the mass of their volume; MuJoCo's is larger unless inertia='exact'")
