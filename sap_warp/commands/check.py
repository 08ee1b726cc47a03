"""`sap-warp check`: is a scene valid, what is in it, and what looks odd."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from ..notes import show_notes
from ..scene_files import find_scene_file, printable
from .common import add_confine_argument, find_device, positive_int, print_summary, scene_listing

if TYPE_CHECKING:
    from ..scene import SapLoadedScene, SapSceneError


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("check", help="validate a scene file and say what is in it", **scene_listing())
    parser.add_argument("scene", help="a YAML or JSON file, or the name of a shipped scene")
    parser.add_argument("--strict", action="store_true", help="fail if the scene asks for something unsupported")
    parser.add_argument("--num-worlds", type=positive_int, metavar="N", help="worlds (default: the scene's)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_confine_argument(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command: 0 for a valid scene, 1 for one that is not."""
    file = find_scene_file(arguments.scene)
    find_device("cpu")
    from ..scene import SapSceneError, load_sap_scene

    try:
        options = {"num_worlds": arguments.num_worlds, "strict": arguments.strict, "confine": arguments.confine}
        scene = load_sap_scene(file, device="cpu", **options)
    except SapSceneError as error:
        if arguments.json:
            print(json.dumps({"valid": False, "findings": _problems(error)}, indent=2))
            return 1
        print(error, file=sys.stderr)
        count = len(error.problems)
        print(f"sap-warp: {count} problem{'s' if count > 1 else ''} in {printable(arguments.scene)}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps(_describe(scene), indent=2))
    else:
        _print(scene)
    return 0


def _print(scene: SapLoadedScene) -> None:
    from ..scene.summary import summarize_scene

    print_summary("Scene", summarize_scene(scene))
    for feature in scene.unsupported_features:
        print(f"unsupported: {feature}")
    sys.stdout.flush()
    show_notes(scene.notes)
    print("valid" if not scene.unsupported_features else "valid, but not everything in it is simulated")


def _problems(error: SapSceneError) -> list[dict[str, Any]]:
    from ..scene.errors import format_path

    return [
        {"kind": "error", "message": p.message, "path": format_path(p.path), "file": p.file, "line": p.line}
        for p in error.problems
    ]


def _describe(scene: SapLoadedScene) -> dict[str, Any]:
    from ..scene.summary import summarize_scene

    unsupported = [{"kind": "unsupported", "message": feature} for feature in scene.unsupported_features]
    notes = [{"kind": "note", **note.as_dict()} for note in scene.notes]
    return {"valid": True, "findings": unsupported + notes, "summary": dict(summarize_scene(scene))}
