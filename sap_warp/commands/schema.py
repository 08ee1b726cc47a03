"""`sap-warp schema`: print the JSON schema of scene files, for editors."""

from __future__ import annotations

import argparse
import json
from typing import Any

from . import SUMMARIES


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("schema", help=SUMMARIES["schema"])
    parser.set_defaults(command=run)


def run(_: argparse.Namespace) -> int:
    """Run the command."""
    from ..scene.json_schema import scene_json_schema

    print(json.dumps(scene_json_schema(), indent=2))
    return 0
