"""`sap-warp check`: validate a scene, and list its content and notes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core.notes import show_notes
from ..core.printable import printable
from . import SUMMARIES
from .common import add_confine_argument, find_device, positive_int, print_summary, print_table, scene_listing
from .sources import find_source, load_source

if TYPE_CHECKING:
    from ..scene import SapLoadedScene, SapSceneError


_LISTS = {
    "joints": "list joints and dofs of a world with their columns, drives and limits, and actuators",
    "bodies": "list the bodies of a world with their columns",
    "shapes": "list the shapes of a world with their columns",
}


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("check", help=SUMMARIES["check"], **scene_listing())
    parser.add_argument("scene", nargs="?", help="scene file or name, or a URDF, MJCF or USD file")
    parser.add_argument("--robot", metavar="NAME", help="a robot in place of a scene, see 'sap-warp robots'")
    parser.add_argument("--strict", action="store_true", help="fail if the scene asks for something unsupported")
    parser.add_argument("--num-worlds", type=positive_int, metavar="N", help="worlds (default: the scene's)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    for name, what in _LISTS.items():
        parser.add_argument(f"--{name}", action="store_true", help=what)
    add_confine_argument(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command: 0 for a valid scene, 1 for one that is not."""
    source = find_source(arguments)
    find_device("cpu")
    from ..scene import SapSceneError

    try:
        options = {"num_worlds": arguments.num_worlds, "strict": arguments.strict, "confine": arguments.confine}
        scene = load_source(source, device="cpu", **options)
    except SapSceneError as error:
        if arguments.json:
            print(json.dumps({"valid": False, "findings": _problems(error)}, indent=2))
            return 1
        print(error, file=sys.stderr)
        count = len(error.problems)
        where = printable(arguments.scene or arguments.robot)
        print(f"sap-warp: {count} problem{'s' if count > 1 else ''} in {where}", file=sys.stderr)
        return 1
    lists = _lists(scene, [name for name in _LISTS if getattr(arguments, name)])
    if arguments.json:
        tables = {
            name: [dict(zip(listing.header, row, strict=True)) for row in listing.rows]
            for name, listing in lists.items()
        }
        print(json.dumps(_describe(scene) | tables, indent=2))
    else:
        for name, listing in lists.items():
            rows = _blank_repeats(listing.rows) if name == "joints" else listing.rows
            print_table(name.capitalize(), listing.header, rows)
        _print(scene)
    return 0


def _blank_repeats(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Show the name of a joint only in the first of its lines."""
    before = [(), *(row[:3] for row in rows)]
    return [("", "", "", *row[3:]) if row[:3] == last else row for row, last in zip(rows, before, strict=False)]


def _lists(scene: SapLoadedScene, wanted: list[str]) -> dict[str, Any]:
    """Return tables of the first world; those of joints bring the actuators if there are any."""
    from ..simulation.views.inventory import Inventory

    inventory = Inventory(scene.sap_model.newton_model)
    tables = {name: getattr(inventory, name)() for name in wanted}
    if "joints" in tables and (actuators := inventory.actuators()).rows:
        tables["actuators"] = actuators
    return tables


def _print(scene: SapLoadedScene) -> None:
    from ..scene.summary import summarize_scene

    print_summary("Scene", summarize_scene(scene))
    for feature in scene.unsupported_features:
        print(f"unsupported: {feature}")
    sys.stdout.flush()
    show_notes(scene.notes)
    print("valid" if not scene.unsupported_features else "valid, but not everything in it is simulated")


def _problems(error: SapSceneError) -> list[dict[str, Any]]:
    from ..scene.text.errors import format_path

    return [
        {"kind": "error", "message": p.message, "path": format_path(p.path), "file": p.file, "line": p.line}
        for p in error.problems
    ]


def _describe(scene: SapLoadedScene) -> dict[str, Any]:
    from ..scene.summary import summarize_scene

    unsupported = [{"kind": "unsupported", "message": feature} for feature in scene.unsupported_features]
    notes = [{"kind": "note", **note.as_dict()} for note in scene.notes]
    return {"valid": True, "findings": unsupported + notes, "summary": dict(summarize_scene(scene))}
