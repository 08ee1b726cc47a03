"""`sap-warp explain`: say which values a pair of shapes uses in contact, and what to expect of it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from . import SUMMARIES
from .common import (
    EXIT_OK,
    CommandError,
    add_confine_argument,
    add_solver_arguments,
    asked_by_user,
    check_target,
    find_device,
    print_table,
    scene_listing,
    write_json,
)
from .sources import find_source, load_source


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("explain", help=SUMMARIES["explain"], **scene_listing())
    parser.add_argument("scene", help="scene file or name")
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help="two shapes by label, end of it, body or index")
    parser.add_argument("--preset", metavar="P", help="see 'sap-warp presets' (default: the scene's)")
    add_solver_arguments(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE")
    add_confine_argument(parser)
    parser.set_defaults(command=run, robot=None)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    source = find_source(arguments)
    shapes = arguments.shapes
    if len(shapes) not in (0, 2):
        raise CommandError(f"explain takes two shapes, or none to list them; got {len(shapes)}.")
    check_target(arguments.json)
    if arguments.json is not None and not shapes:
        raise CommandError("--json needs two shapes to explain.")
    device = find_device(arguments.device)
    from ..judge.explain import explain_contact, shape_names
    from ..scene.solver_options import PASSED_ON
    from ..solver.settings.options import expand_options, override_options

    with asked_by_user():
        if arguments.preset is not None:
            expand_options(arguments.preset)
        scene = load_source(source, device=device, num_worlds=1, confine=arguments.confine)
        chosen = {} if arguments.preset is None else {"contact_preset_variant": arguments.preset}
        given = {name: value for name, value in scene.solver_options.items() if name not in PASSED_ON}
        options = expand_options(**override_options(given, chosen))
    model = scene.sap_model.newton_model
    if not shapes:
        print_table(f"Shapes of {scene.name}", ("", "label", "geometry", "body"), shape_names(model))
        return EXIT_OK
    dt = scene.dt if arguments.dt is None else arguments.dt
    with asked_by_user():
        result = explain_contact(model, *shapes, dt=dt, options=options, source=scene.name, provenance=scene.provenance)
    for title, header, rows in result.tables():
        print_table(title, header, rows, show_header=any(header))
    write_json(arguments.json, result)
    return EXIT_OK
