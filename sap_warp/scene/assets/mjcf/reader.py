"""Read an MJCF document and expand includes, attached models, replicas, frames, default classes and angles.

It means what the original means to MuJoCo, and every element still knows the file and line it comes from.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ...text.errors import Complaint
from ...text.nodes import Node, parse_xml, walk
from ..xml_masses import check_masses
from .bodies.attach import attach_models
from .bodies.frames import expand_replicas, flatten_frames, resolve_segment
from .bodies.poses import ALTERNATIVES, ORIENTATIONS, Angles, read_rotation
from .coordinates import Key, mocap_bodies, mocap_joint, read_keys
from .defaults import bake_defaults
from .names import check_references

_DIRECTORY_OF = {"mesh": "meshdir", "hfield": "meshdir", "texture": "texturedir"}
_DIRECTORIES = ("assetdir", "meshdir", "texturedir", "strippath")
_LIMITS = {
    "limited": "range",
    "ctrllimited": "ctrlrange",
    "forcelimited": "forcerange",
    "actlimited": "actrange",
    "actuatorfrclimited": "actuatorfrcrange",
}
_ALWAYS_LIMITED = ("damper", "adhesion")
"""Actuators whose control range acts whatever the switches say."""
_MAX_DEPTH = 32
"""Most files that include or attach one another."""

Check = Callable[[Path], Path]


@dataclass
class MjcfDocument:
    """An expanded MJCF document."""

    root: Node
    """The element <mujoco>."""
    compiler: dict[str, str]
    """Attributes of all <compiler> elements; a later one wins."""
    keys: list[Key] = field(default_factory=list)
    """Keyframes, those of attached models last."""
    mocap: dict[Node, Node] = field(default_factory=dict)
    """Mocap bodies with the free joints that `free_mocap_bodies` gives them; only the user moves them."""
    parts: set[Node] = field(default_factory=set)
    """Massless bodies that `split_joints` has put between the joints of one body."""
    notes: list[str] = field(default_factory=list)
    """What could not be expanded as MuJoCo would, each with its place."""

    @property
    def text(self) -> str:
        """Return the document as text for another reader."""
        return ElementTree.tostring(self.root, encoding="unicode")

    def sections(self, *tags: str) -> list[Node]:
        """Return the direct children of the root."""
        return self.root.children(*tags)

    def elements(self, section: str, *tags: str) -> list[Node]:
        """Return the elements of a section, wherever the document continues it."""
        return [node for part in self.sections(section) for node in part if not tags or node.tag in tags]

    def option(self, name: str) -> Node | None:
        """Return the last <option> that sets an attribute."""
        given = [node for node in self.sections("option") if node.get(name) is not None]
        return given[-1] if given else None

    def flag(self, name: str) -> Node | None:
        """Return the last <flag> that sets a switch."""
        given = [node for part in self.sections("option") for node in part.children("flag") if node.get(name)]
        return given[-1] if given else None

    def is_disabled(self, name: str) -> bool:
        """Return True if a flag disables something."""
        flag = self.flag(name)
        return flag is not None and flag.get(name) == "disable"


def read_mjcf(source: Path | str, check: Check = lambda path: path) -> MjcfDocument:
    """Read and expand a file or a text.

    Args:
        source: The file, or the text itself.
        check: Called with every file that the document refers to; raises for one that may not be read.

    Raises:
        Complaint: It is not MJCF, or a part of it cannot be found.
    """
    document = _read(source, check, 0)
    for world in document.sections("worldbody"):
        flatten_frames(world)
    _choose_inertias(document.root)
    check_references(document.root)
    check_masses(document.root)
    return document


def _read(source: Path | str, check: Check, depth: int) -> MjcfDocument:
    if depth > _MAX_DEPTH:
        raise Complaint("the files attach one another without end")
    files = _Files(source.parent if isinstance(source, Path) else None, check)
    root = files.load(source)
    compiler: dict[str, str] = {}
    for node in root.children("compiler"):
        compiler.update(node.attrib)
    files.make_absolute(root, compiler)
    document = MjcfDocument(root, compiler)
    if compiler.get("coordinate", "local") != "local":
        raise Complaint("compiler coordinate='global' is no longer part of MJCF; save the model with local coordinates")
    bake_defaults(root)
    angles = Angles(compiler.get("angle", "degree") == "degree", compiler.get("eulerseq", "xyz"))
    if len(angles.sequence) != 3 or set(angles.sequence.lower()) - set("xyz"):
        raise Complaint(f"compiler eulerseq is {angles.sequence!r}; it takes three of x, y, z, X, Y, Z")
    _use_radians(root, angles)
    _decide_limits(root, compiler.get("autolimits", "true") == "true")
    _inherit_ranges(root)
    attach_models(document, lambda node: _read(files.find_model(node), check, depth + 1))
    expand_replicas(root)
    document.mocap = {body: document.mocap.get(body) or mocap_joint(body) for body in mocap_bodies(root)}
    document.keys = [*read_keys(root, document.mocap), *document.keys]
    settings = Node("compiler")
    settings.inherited = {name: node for node in root.children("compiler") for name in node.attrib}
    for node in root.children("compiler", "keyframe"):
        root.remove(node)
    rest = {name: value for name, value in compiler.items() if name not in (*_DIRECTORIES, "angle", "eulerseq")}
    settings.attrib |= {**rest, "angle": "radian", "autolimits": "true"}
    root.insert(0, settings)
    return document


class _Files:
    """Finds the files that a document refers to."""

    def __init__(self, main: Path | None, check: Check):
        self._main, self._check = main, check
        self._folder_of: dict[Node, Path | None] = {}
        self._compiler_of: dict[Node, dict[str, str]] = {}
        self._included: set[Path] = set()

    def load(self, source: Path | str, depth: int = 0) -> Node:
        """Return the root of a file, with the content of included files in place of the <include> elements."""
        folder = source.parent if isinstance(source, Path) else None
        try:
            root = parse_xml(source.read_bytes(), source.name) if isinstance(source, Path) else parse_xml(source, "")
        except OSError as error:
            raise Complaint(f"cannot read {source}: {error.strerror}") from None
        if root.tag not in ("mujoco", "mujocoinclude") or (depth == 0 and root.tag != "mujoco"):
            raise Complaint(f"the XML starts with <{root.tag}>; an MJCF file starts with <mujoco>")
        own: dict[str, str] = {}
        for node in root.children("compiler"):
            own.update(node.attrib)
        for node in walk(root):
            self._folder_of[node], self._compiler_of[node] = folder, own
        for parent in list(walk(root)):
            for include in parent.children("include"):
                self._include(parent, include, folder, depth)
        return root

    def _include(self, parent: Node, include: Node, folder: Path | None, depth: int) -> None:
        path = self.find(include, include.get("file", ""), folder)
        if path in self._included or depth > _MAX_DEPTH:
            raise Complaint(f"{include.location()}: includes {path.name} a second time")
        self._included.add(path)
        index = list(parent).index(include)
        parent.remove(include)
        for i, child in enumerate(self.load(path, depth + 1)):
            parent.insert(index + i, child)

    def find(self, node: Node, name: str, folder: Path | None) -> Path:
        """Find a file from the folder of the main file, as MuJoCo does, or from that of the file that names it."""
        if not name:
            raise Complaint(f"{node.location()}: <{node.tag}> has no file")
        if Path(name).is_absolute():
            return self._check(Path(name).resolve())
        if self._main is None and folder is None:
            raise Complaint(f"the text refers to the file {name!r}; give an MJCF file, or an absolute path")
        files = [parent / name for parent in (self._main, folder) if parent is not None]
        return self._check(next((file for file in files if file.is_file()), files[0]).resolve())

    def find_model(self, node: Node) -> Path:
        """Return the file of an <asset><model>."""
        path = self.find(node, node.get("file", ""), self._folder_of[node])
        if not path.is_file():
            raise Complaint(f"{node.location()}: there is no file {path}")
        return path

    def make_absolute(self, root: Node, compiler: dict[str, str]) -> None:
        """Write the full path of every mesh, height field and texture into the document."""
        for node in (node for section in root.children("asset") for node in section if node.get("file")):
            if node.tag in _DIRECTORY_OF:
                node.set("file", str(self._find_asset(node, compiler)))

    def _find_asset(self, node: Node, compiler: dict[str, str]) -> Path:
        name, folder, own = node.get("file", ""), self._folder_of[node], self._compiler_of[node]
        if compiler.get("strippath", "false") == "true":
            name = name.replace("\\", "/").rsplit("/", 1)[-1]
        if self._main is None and folder is None:
            directory = _directory(node, compiler)
            return self.find(node, str(Path(directory, name)), None)
        tried = [
            self.find(node, str(Path(_directory(node, settings), name)), parent)
            for settings, parent in ((compiler, self._main), (own, folder))
        ]
        return next((path for path in tried if path.is_file()), tried[0])


def _directory(node: Node, compiler: dict[str, str]) -> str:
    return compiler.get(_DIRECTORY_OF[node.tag], compiler.get("assetdir", ""))


def _use_radians(root: Node, angles: Angles) -> None:
    """Turn orientations into quaternions, and angles into radians."""
    for node in walk(root):
        own = [name for name in ORIENTATIONS if node.get(name) is not None and name not in node.inherited]
        if own:  # an orientation of any kind takes the place of an inherited one
            node.drop(*(name for name in ORIENTATIONS if name not in own))
        if node.tag == "replicate":
            node.put("euler", node.numbers("euler", 3) * angles.unit if node.get("euler") is not None else [0.0] * 3)
            node.set("sequence", angles.sequence)
        elif node.get("fromto") is not None:
            resolve_segment(node)
        elif any(node.get(name) is not None for name in ALTERNATIVES):
            node.put("quat", read_rotation(node, angles))
            node.drop(*ALTERNATIVES)
    for body in (node for section in root.children("worldbody") for node in walk(section)):
        for joint in body.children("joint"):
            kind = joint.get("type", "hinge")
            for name in {"hinge": ("range", "ref", "springref"), "ball": ("range",)}.get(kind, ()):
                if joint.get(name) is not None:
                    joint.put(name, joint.numbers(name) * angles.unit)


def _decide_limits(root: Node, automatic: bool) -> None:
    """Remove ranges that do not limit anything: not every reader looks at the switch."""
    for node in walk(root):
        for switch, name in _LIMITS.items():
            if node.get(name) is None or (switch == "limited" and node.tag not in ("joint", "fixed", "spatial")):
                node.drop(switch)
                continue
            bounds = node.numbers(name, 2)
            if name == "ctrlrange" and node.tag in _ALWAYS_LIMITED:
                continue
            if not node.is_true(switch, auto=automatic and bool(bounds[0] < bounds[1])):
                node.drop(name, switch)
            elif node.get(switch) == "auto":
                node.drop(switch)


def _choose_inertias(root: Node) -> None:
    """With ``inertiafromgeom="true"``, keep <inertial> only for bodies without a geom in the groups that count."""
    for compiler in root.children("compiler"):
        if compiler.get("inertiafromgeom") != "true":
            continue
        first, last = (int(group) for group in compiler.get("inertiagrouprange", "0 5").split())
        for body in (node for part in root.children("worldbody") for node in walk(part) if node.tag == "body"):
            if any(first <= int(geom.get("group", "0")) <= last for geom in body.children("geom")):
                for inertial in body.children("inertial"):
                    body.remove(inertial)
        compiler.set("inertiafromgeom", "auto")


def _inherit_ranges(root: Node) -> None:
    """Set control ranges that actuators take from their joints."""
    joints = {
        node.get("name"): node for part in root.children("worldbody") for node in walk(part) if node.tag == "joint"
    }
    for node in (node for part in root.children("actuator") for node in part.children("position", "intvelocity")):
        joint, factor = joints.get(node.get("joint")), node.number("inheritrange", 0.0)
        if factor > 0.0 and joint is not None and joint.get("range") is not None:
            low, high = joint.numbers("range", 2)
            reach = 0.5 * (high - low) * factor
            middle = 0.5 * (low + high)
            node.put("ctrlrange" if node.tag == "position" else "actrange", [middle - reach, middle + reach])
            node.drop("inheritrange")
