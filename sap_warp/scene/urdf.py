"""Preparing URDF for import: every mesh is found on disk before Newton sees it, visuals can be left out."""

from __future__ import annotations

import warnings
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from .errors import Complaint
from .source_file import Fence, check_mesh


def prepare_urdf(source: Path | str, *, visuals: bool, fence: Fence | None = None) -> str:
    """URDF text whose mesh files are absolute paths.

    Newton drops a mesh that it cannot find with no more than a warning, and would download one that is named by an
    internet address; both are errors here.

    Args:
        source: A file, or the text itself.
        visuals: Whether to keep visual elements.
        fence: What mesh files must be inside of; None for anywhere.
    """
    try:
        root = ElementTree.fromstring(source.read_bytes() if isinstance(source, Path) else source.strip())
    except (ElementTree.ParseError, ValueError) as error:
        raise Complaint(f"not valid XML: {error}") from None
    if root.tag != "robot":
        raise Complaint(f"the XML starts with <{root.tag}>; a URDF starts with <robot>")
    _check_tree(root)
    if not visuals:
        for link in root.iter("link"):
            for visual in link.findall("visual"):
                link.remove(visual)
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
        raise Complaint(f"mesh files are missing: {shown}")
    _find_textures(root, source, fence)
    return ElementTree.tostring(root, encoding="unicode")


def _find_textures(root: ElementTree.Element, source: Path | str, fence: Fence | None) -> None:
    """Make textures absolute paths; those that are missing or on the internet are left out with a warning."""
    for material in root.iter("material"):
        for texture in material.findall("texture"):
            name = texture.get("filename", "")
            path = _find_mesh(name, source.parent if isinstance(source, Path) else None)
            if path is None:
                material.remove(texture)
                warnings.warn(f"the texture {name!r} is left out: there is no such file here", stacklevel=2)
            else:
                texture.set("filename", str(check_mesh(path, fence)))


def _check_tree(root: ElementTree.Element) -> None:
    """Names are unique and links form one tree; Newton would take what it finds first."""
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
    """The file of a mesh: absolute, relative to the URDF, or in the package that the URDF is part of."""
    if name.startswith(("http:", "https:", "model:")):
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
