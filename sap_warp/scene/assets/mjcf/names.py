"""Names of MJCF elements, and which attributes refer to them."""

from __future__ import annotations

from pathlib import Path

from ...text.errors import Complaint
from ...text.nodes import Node, walk

_KIND_OF = {
    **dict.fromkeys(("joint", "jointinparent", "joint1", "joint2"), "joint"),
    **dict.fromkeys(("body", "body1", "body2", "target", "subtree1", "subtree2"), "body"),
    **dict.fromkeys(("geom", "geom1", "geom2"), "geom"),
    **dict.fromkeys(("site", "site1", "site2", "refsite", "cranksite", "slidersite", "sidesite"), "site"),
    **dict.fromkeys(("tendon", "tendon1", "tendon2"), "tendon"),
    **{kind: kind for kind in ("actuator", "camera", "mesh", "hfield", "material", "texture", "flex")},
}
"""Kind of element that an attribute names."""
_BY_TYPE = {"objname": "objtype", "refname": "reftype"}
_TYPES = {"xbody": "body"}
_SECTION_KIND = {"actuator": "actuator", "tendon": "tendon", "sensor": "sensor"}
_MOVED = ("joint", "body", "site", "tendon")
_CHECKED = ("joint", "body", "geom", "site", "tendon", "mesh", "hfield")
_LABELLED = ("body", "joint", "geom", "site", "tendon")
REFERRING = ("contact", "tendon", "equality", "actuator", "sensor")
"""Sections whose elements refer to things in bodies, in an order in which they may also refer to each other."""


def kind_of(node: Node, section: str) -> str:
    """Return what an element is called by those that refer to it."""
    return "joint" if node.tag == "freejoint" else _SECTION_KIND.get(section, node.tag)


def references(node: Node) -> list[tuple[str, str, str]]:
    """Yield attribute, kind and name of everything that an element itself refers to."""
    found = [(name, _KIND_OF[name], value) for name, value in node.attrib.items() if name in _KIND_OF]
    for name, type_name in _BY_TYPE.items():
        if node.get(name) is not None:
            kind = node.get(type_name, "")
            found.append((name, _TYPES.get(kind, kind), node.get(name, "")))
    return found


def put_prefix(node: Node, prefix: str) -> None:
    """Put a prefix before the name of an element and before all names that it refers to."""
    if node.get("name") is not None:
        node.set("name", prefix + node.get("name", ""))
    for attribute, _, name in references(node):
        node.set(attribute, " ".join(prefix + part for part in name.split(" ")))


def names_in(root: Node) -> dict[str, set[str]]:
    """Return the names of all elements of a document by kind."""
    found: dict[str, set[str]] = {"body": {"world"}}
    for section in root:
        for node in walk(section):
            if node.get("name"):
                found.setdefault(kind_of(node, ""), set()).add(node.get("name", ""))
        for node in section if section.tag in _SECTION_KIND else ():
            found.setdefault(kind_of(node, section.tag), set()).add(node.get("name", ""))
        for node in section.children("mesh", "hfield") if section.tag == "asset" else ():
            found.setdefault(node.tag, set()).add(node.get("name") or Path(node.get("file", "")).stem)
    return found


def check_references(root: Node) -> None:
    """Complain about the first name that the model uses and no element has."""
    names = names_in(root)
    for node in (node for section in root.children("actuator") for node in section if node.tag != "plugin"):
        if not any(kind in _MOVED for _, kind, _ in references(node)):
            raise Complaint(f"{node.location()}: <{node.tag}> does not say what it acts on, for example a joint")
    for section in root.children("worldbody", "contact", "tendon", "equality", "actuator"):
        for node in walk(section):
            for attribute, kind, name in references(node):
                if kind in _CHECKED and name not in names.get(kind, ()):
                    what = f"<{node.tag}> refers to the {kind} {name!r}, which the model does not have"
                    raise Complaint(f"{node.location(attribute)}: {what}")


def names_below(node: Node) -> dict[str, set[str]]:
    """Return the names within a part of a body tree by kind."""
    found: dict[str, set[str]] = {}
    for inner in walk(node):
        if inner.get("name"):
            found.setdefault(kind_of(inner, ""), set()).add(inner.get("name", ""))
    return found


def copy_references(root: Node, inside: dict[str, set[str]], endings: list[str]) -> None:
    """Replace every element that refers to a name in ``inside`` by one copy for each ending."""
    for tag in REFERRING:
        moved: list[Node] = []
        for section in root.children(tag):
            for node in list(section):
                if any(name in inside.get(kind, ()) for inner in walk(node) for _, kind, name in references(inner)):
                    section.remove(node)
                    moved.append(node)
                    if node.get("name"):
                        inside.setdefault(kind_of(node, tag), set()).add(node.get("name", ""))
        copies = [copy_with_ending(node, inside, ending) for ending in endings for node in moved]
        if copies:  # MuJoCo puts them behind the others
            root.children(tag)[-1].extend(copies)


def copy_with_ending(node: Node, inside: dict[str, set[str]], ending: str) -> Node:
    """Copy an element; its name, and references to names ``inside``, get an ending."""
    twin = node.copy()
    for inner in walk(twin):
        if inner.get("name"):
            inner.set("name", inner.get("name", "") + ending)
        for attribute, kind, name in references(inner):
            if name in inside.get(kind, ()):
                inner.set(attribute, name + ending)
    return twin


def with_plain_names(root: Node) -> tuple[Node, dict[str, str]]:
    """Copy a document with names that Newton keeps (it turns - into _), and map each new name to the original."""
    names = names_in(root)
    taken = {name for kind in _LABELLED for name in names.get(kind, ())}
    renamed: dict[str, str] = {}
    for name in sorted(name for name in taken if "-" in name):
        plain = name.replace("-", "_")
        while plain in taken:
            plain += "_"
        taken.add(plain)
        renamed[name] = plain
    twin = root.copy()
    for section in twin if renamed else ():
        for node in walk(section) if section.tag in ("worldbody", *REFERRING) else ():
            is_named = section.tag in ("worldbody", "tendon")
            if is_named and node.get("name") in renamed:
                node.set("name", renamed[node.get("name", "")])
            for attribute, kind, name in references(node):
                if kind in _LABELLED and name in renamed:
                    node.set(attribute, renamed[name])
    return twin, {plain: name for name, plain in renamed.items()}


def restore_names(labels: list[str], indices: range, originals: dict[str, str]) -> None:
    """Put the names of the file back into labels, which are paths of names."""
    for index in indices if originals else ():
        labels[index] = "/".join(originals.get(part, part) for part in labels[index].split("/"))
