"""`sap-warp robots`: list the robots of this machine by name."""

from __future__ import annotations

import argparse
from typing import Any

from . import SUMMARIES
from .common import EXIT_OK, print_table


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("robots", help=SUMMARIES["robots"])
    parser.set_defaults(command=run)


def run(_: argparse.Namespace) -> int:
    """Run the command."""
    from ..scene.robots import list_robots
    from ..scene.robots.catalogue import FOLDERS, MENAGERIE

    rows = [(robot.name, robot.place, robot.kind, robot.inside or str(robot.path)) for robot in list_robots()]
    print_table("Robots", ("name", "place", "format", "file"), rows)
    print(f"More: pip install 'sap-warp[robots]', folders in {FOLDERS}, a Menagerie in {MENAGERIE[0]}.")
    return EXIT_OK
