"""Expand <attach>: parts of other models, with everything that belongs to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ....text.errors import Complaint
from ....text.nodes import Node, walk
from ..coordinates import cut_key
from ..names import REFERRING, kind_of, names_below, names_in, put_prefix, references

if TYPE_CHECKING:
    from ..reader import MjcfDocument

_OWN_COMPILER = (
    *("inertiafromgeom", "inertiagrouprange", "balanceinertia", "boundmass", "boundinertia", "settotalmass"),
    "fitaabb",
)
_OWN_OPTIONS = ("gravity", "density", "viscosity", "wind")


def attach_models(document: MjcfDocument, read: Callable[[Node], MjcfDocument]) -> None:
    """Replace every <attach> by a frame with the part of the model that it names.

    Args:
        document: Where they are.
        read: Gives the document of an <asset><model>.
    """
    root = document.root
    models = {node.get("name", ""): node for part in root.children("asset") for node in part.children("model")}
    brought: list[Node] = []
    for parent in list(walk(root)):
        for attach in parent.children("attach"):
            asset = models.get(attach.get("model", ""))
            if asset is None:
                raise Complaint(f"{attach.location()}: attaches the model {attach.get('model')!r}, which is no asset")
            child = read(asset)
            frame = _cut(attach, child.root)
            parent[list(parent).index(attach)] = frame
            brought += _bring_along(document, frame, child, attach.get("prefix", ""))
            document.mocap |= child.mocap
            document.notes += [*child.notes, *_differences(document, child, asset)]
    root.extend(brought)
    for part in root.children("asset"):
        for node in part.children("model"):
            part.remove(node)


def _cut(attach: Node, child: Node) -> Node:
    """Return a frame with the part that is attached, under its own names."""
    frame = Node("frame", None, attach)
    worlds = child.children("worldbody")
    for kind in ("body", "frame"):
        name = attach.get(kind)
        if name is not None:
            found = [node for world in worlds for node in walk(world) if node.tag == kind and node.get("name") == name]
            if not found:
                raise Complaint(f"{attach.location()}: the model {attach.get('model')!r} has no {kind} {name!r}")
            frame.append(found[0])
            return frame
    frame.extend([node for world in worlds for node in world])
    return frame


def _bring_along(document: MjcfDocument, frame: Node, child: MjcfDocument, prefix: str) -> list[Node]:
    """Copy assets, and elements that refer only to the attached part, into the model; all names get the prefix."""
    inside, whole = names_below(frame), names_in(child.root)
    sections, kept = [], set(walk(frame))
    for section in child.sections("asset", *REFERRING):
        part = Node(section.tag, None, section)
        for node in section:
            used = [(kind, name) for inner in walk(node) for _, kind, name in references(inner)]
            outside = [name for kind, name in used if name in whole.get(kind, ()) and name not in inside.get(kind, ())]
            if section.tag == "asset" or not outside:
                part.append(node)
                kept.add(node)
                if node.get("name"):
                    inside.setdefault(kind_of(node, section.tag), set()).add(node.get("name", ""))
        sections.append(part)
    document.keys += [cut_key(key, kept, prefix) for key in child.keys]
    for node in (node for part in (frame, *sections) for node in walk(part)):
        put_prefix(node, prefix)
    return sections


def _differences(document: MjcfDocument, child: MjcfDocument, asset: Node) -> list[str]:
    """List the settings of the attached model that the whole model does not take over."""
    found = []
    for name in _OWN_COMPILER:
        own, other = document.compiler.get(name), child.compiler.get(name)
        if other is not None and other != own:
            found.append(f"{asset.location()}: <attach>: compiler {name}={other!r} of the attached model is not used")
    for name in _OWN_OPTIONS:
        option, own_option = child.option(name), document.option(name)
        if option is not None and (own_option is None or own_option.get(name) != option.get(name)):
            value = option.get(name)
            found.append(f"{option.location()}: <attach>: option {name}={value!r} of the attached model is not used")
    return found
