"""`sap-warp presets`: print what each preset chooses."""

from __future__ import annotations

import argparse
from typing import Any

from . import SUMMARIES
from .common import EXIT_OK, print_table


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("presets", help=SUMMARIES["presets"])
    parser.set_defaults(command=run)


def run(_: argparse.Namespace) -> int:
    """Run the command."""
    from dataclasses import fields

    from ..solver.settings.options import PRESETS

    names = [field.name for field in fields(next(iter(PRESETS.values())))]
    values = {name: [_shown(getattr(preset, name)) for preset in PRESETS.values()] for name in names}
    chosen = [(name, *row) for name, row in values.items() if len(set(row)) > 1]
    common = [(name, row[0]) for name, row in values.items() if len(set(row)) == 1]
    print_table("Chosen by the preset", ("option", *PRESETS), chosen)
    print_table("The same in all presets", ("option", "value"), common)
    return EXIT_OK


def _shown(value: Any) -> str:
    return "(automatic)" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
