"""`sap-warp check`: is a scene valid, and what is in it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..scene_files import find_scene_file
from .common import find_device, positive_int, print_summary, scene_listing


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("check", help="validate a scene file and say what is in it", **scene_listing())
    parser.add_argument("scene", help="a YAML or JSON file, or the name of a shipped scene")
    parser.add_argument("--strict", action="store_true", help="fail if the scene asks for something unsupported")
    parser.add_argument("--num-worlds", type=positive_int, metavar="N", help="worlds (default: the scene's)")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command: 0 for a valid scene, 1 for one that is not."""
    file = find_scene_file(arguments.scene)
    find_device("cpu")
    from ..scene import SapSceneError, load_sap_scene
    from ..scene.summary import summarize_scene

    try:
        scene = load_sap_scene(file, device="cpu", num_worlds=arguments.num_worlds, strict=arguments.strict)
    except SapSceneError as error:
        print(error, file=sys.stderr)
        count = len(error.problems)
        print(f"sap-warp: {count} problem{'s' if count > 1 else ''} in {arguments.scene}", file=sys.stderr)
        return 1
    print_summary("Scene", summarize_scene(scene))
    for feature in scene.unsupported_features:
        print(f"unsupported: {feature}")
    print("valid" if not scene.unsupported_features else "valid, but not everything in it is simulated")
    return 0
