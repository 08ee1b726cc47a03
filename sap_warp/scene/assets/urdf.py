"""Prepare URDF for import: every mesh is found on disk before Newton sees it, and visuals can be left out."""

from __future__ import annotations

import warnings
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from ...core.faq import see
from ..text.errors import Complaint
from ..text.nodes import Node, list_locations, parse_xml, walk
from .sources.source_file import Fence, check_mesh
from .xml_masses import check_masses

_OF_OTHER_SIMULATORS = {
    *("mu1", "mu2", "kp", "kd", "maxVel", "minDepth", "gravity", "turnGravityOff", "kinematic"),
    *("implicitSpringDamper", "springStiffness", "springReference", "stopKp", "stopKd", "maxContacts", "dampingFactor"),
}
"""Children of <gazebo> that would change the motion."""
_REMOTE = ("http:", "https:", "model:")
_GEOMETRIES = ("box", "sphere", "cylinder", "capsule", "mesh")


def prepare_urdf(
    source: Path | str, *, visuals: bool, colliding_visuals: bool = False, fence: Fence | None = None
) -> tuple[str, list[str]]:
    """Return the URDF text with absolute mesh paths, and a list of what in it nobody simulates.

    Newton drops a mesh that it cannot find with no more than a warning, and would download one that is named by an
    internet address; both are errors here, but for a missing file that is only for the eye, which is a warning.

    Args:
        source: A file, or the text itself.
        visuals: Whether to keep visual elements.
        colliding_visuals: Whether visual elements collide.
        fence: What mesh files must be inside of; None for anywhere.
    """
    root = parse_xml(source.read_bytes(), source.name) if isinstance(source, Path) else parse_xml(source, "")
    if root.tag != "robot":
        raise Complaint(f"the XML starts with <{root.tag}>; a URDF starts with <robot>")
    check_masses(root)
    _check_tree(root)
    notes = _drop_mimics(root)
    if not visuals:
        for link in root.iter("link"):
            for visual in link.findall("visual"):
                link.remove(visual)
    elif not colliding_visuals:
        _drop_visuals(root, source.parent if isinstance(source, Path) else None)
    missing = []
    for mesh in root.iter("mesh"):
        name = mesh.get("filename", "")
        path = _find_mesh(name, source.parent if isinstance(source, Path) else None)
        if path is None:
            missing.append(name)
        else:
            mesh.set("filename", str(check_mesh(path, fence)))
    if missing:
        shown = ", ".join(dict.fromkeys(missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise Complaint(f"mesh files are missing: {shown}{see('missing-meshes')}")
    _find_textures(root, source, fence)
    return ElementTree.tostring(root, encoding="unicode"), [*notes, *_list_unsupported(root)]


def _drop_mimics(root: Node) -> list[str]:
    """Remove couplings of joints that do not move, as reduced models have them; Newton refuses such a file."""
    moves = {joint.get("name"): joint.get("type") != "fixed" for joint in root.children("joint")}
    found: dict[str, list[str]] = {}
    for joint in root.children("joint"):
        for mimic in joint.children("mimic"):
            if not moves[joint.get("name")]:
                joint.remove(mimic)
            elif not moves.get(mimic.get("joint"), True):
                joint.remove(mimic)
                what = "<mimic>: the joint that it follows is fixed; the follower moves freely"
                found.setdefault(what, []).append(mimic.location())
    return list_locations(found)


def _drop_visuals(root: Node, directory: Path | None) -> None:
    """Leave out visual geometry that cannot be read, with a warning."""
    left_out: dict[str, str] = {}
    for link in root.iter("link"):
        for visual in link.findall("visual"):
            for name in (mesh.get("filename", "") for mesh in visual.iter("mesh")):
                if name.startswith(_REMOTE):
                    continue  # an error: the user may expect it to be fetched
                if name not in left_out:
                    path = _find_mesh(name, directory)
                    left_out[name] = "missing" if path is None else "" if _has_faces(path) else "unreadable"
                if left_out[name]:
                    link.remove(visual)
                    break
    for what in ("missing", "unreadable"):
        names = [name for name, reason in left_out.items() if reason == what]
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            warnings.warn(f"{what} visual meshes are left out: {names[0]}{more}", stacklevel=2)


def _has_faces(path: Path) -> bool:
    """Return True if a Collada file gives a mesh; Newton's importer stops at a file without one."""
    if path.suffix.lower() != ".dae":
        return True
    import trimesh

    try:
        scene = trimesh.load_scene(path)
    except Exception:  # whatever the reader stumbles over
        return False
    return any(len(getattr(part, "faces", ())) for part in scene.geometry.values())


def _list_unsupported(root: Node) -> list[str]:
    """List what Newton drops silently and would change the motion, each kind once with its first place."""
    found: dict[str, list[str]] = {}

    def note(node: Node, what: str) -> None:
        found.setdefault(what, []).append(node.location())

    for node in walk(root):
        if node.tag == "joint":
            for controller in node.children("safety_controller"):
                if _is_tighter(controller, node.children("limit")):
                    note(controller, "<safety_controller>: its soft limits do not act; the limits of the joint do")
        elif node.tag == "mechanicalReduction" and (node.text or "1").strip() not in ("1", "1.0", "1.00"):
            note(node, "<transmission>: reductions are not simulated; drives act on the joints themselves")
        elif node.tag == "gazebo" and (names := sorted({child.tag for child in node} & _OF_OTHER_SIMULATORS)):
            note(node, f"<gazebo>: {', '.join(names)} of another simulator do not act")
        elif node.tag == "link":
            for contact in node.children("contact"):
                note(contact, "<contact>: contact parameters of links do not act; give them in the scene")
        elif node.tag == "geometry":
            for shape in (shape for shape in node if shape.tag not in _GEOMETRIES):
                note(shape, f"<{shape.tag}>: not a shape that is known here; it is not loaded")
    return list_locations(found)


def _is_tighter(controller: Node, limits: list[Node]) -> bool:
    """Return True if soft limits lie within those of the joint."""
    if not limits or (controller.get("soft_lower_limit") is None and controller.get("soft_upper_limit") is None):
        return False
    inside = controller.number("soft_lower_limit", 0.0) - limits[0].number("lower", 0.0)
    return max(inside, limits[0].number("upper", 0.0) - controller.number("soft_upper_limit", 0.0)) > 1e-6


def _find_textures(root: Node, source: Path | str, fence: Fence | None) -> None:
    """Make paths of textures absolute; those that are missing or on the internet are left out with a warning."""
    for material in root.iter("material"):
        for texture in material.findall("texture"):
            name = texture.get("filename", "")
            path = _find_mesh(name, source.parent if isinstance(source, Path) else None)
            if path is None:
                material.remove(texture)
                warnings.warn(f"the texture {name!r} is left out: there is no such file here", stacklevel=2)
            else:
                texture.set("filename", str(check_mesh(path, fence)))


def _check_tree(root: Node) -> None:
    """Check that names are unique and links form one tree; Newton would take what it finds first."""
    links = [link.get("name", "") for link in root.findall("link")]
    if not links:
        raise Complaint("the URDF has no links")
    for kind, names in (("links", links), ("joints", [joint.get("name", "") for joint in root.findall("joint")])):
        double = [name for name, count in Counter(names).items() if count > 1]
        if double:
            raise Complaint(f"the URDF has several {kind} called {double[0]!r}")
    children = {child.get("link") for child in root.findall("joint/child")}
    roots = [name for name in links if name not in children]
    if len(roots) > 1:
        shown = ", ".join(map(repr, roots[:5]))
        raise Complaint(f"the links of a URDF form one tree, but no joint leads to any of {shown}")
    for shape in (*root.iter("box"), *root.iter("sphere"), *root.iter("cylinder"), *root.iter("capsule")):
        for name in ("size", "radius", "length", "height"):
            if "-" in shape.get(name, "").lower().replace("e-", ""):
                raise Complaint(f"a {shape.tag} of the URDF has the {name} {shape.get(name)!r}; sizes are not negative")


def _find_mesh(name: str, directory: Path | None) -> Path | None:
    """Return the file of a mesh: absolute, relative to the URDF, or in the package that the URDF is part of."""
    if name.startswith(_REMOTE):
        return None
    if name.startswith("package://"):
        package, _, inside = name.removeprefix("package://").partition("/")
        for folder in (directory, *directory.parents) if directory is not None else ():
            for root in (folder / package, folder if folder.name == package else None):
                if root is not None and (root / inside).is_file():
                    return (root / inside).resolve()
        return None
    path = Path(name.removeprefix("file://"))
    if not path.is_absolute():
        if directory is None:
            return None
        path = directory / path
    return path.resolve() if path.is_file() else None
