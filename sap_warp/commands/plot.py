"""`sap-warp plot`: simulate a scene and write signals of it to a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..scene_files import find_scene_file
from .common import (
    EXIT_OK,
    CommandError,
    add_confine_argument,
    add_solver_arguments,
    asked_by_user,
    find_device,
    positive_int,
    positive_seconds,
    scene_listing,
)
from .run import advance, verdict

DEFAULT_SIGNALS = "energy,contacts,iterations"


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("plot", help="simulate a scene and draw or write signals over time", **scene_listing())
    add = parser.add_argument
    add("scene", help="scene file or name")
    text = "names with commas between them, such as joint_q:*knee,body_q:torso.z,energy (default: %(default)s)"
    add("--signals", default=DEFAULT_SIGNALS, metavar="S", help=text)
    add("--seconds", type=positive_seconds, default=2.0, metavar="S", help="simulated time [s] (default: %(default)s)")
    add("--every", type=positive_int, default=1, metavar="N", help="steps between samples (default: %(default)s)")
    add("--num-worlds", type=positive_int, default=1, metavar="N", help="worlds (default: %(default)s)")
    text = "file to write: .png, .svg, .pdf, .csv, .npz or .parquet (default: SCENE.png)"
    add("-o", "--output", type=Path, metavar="FILE", help=text)
    add("--list", action="store_true", help="print the names of all signals of the scene and stop")
    add_solver_arguments(parser)
    add_confine_argument(parser)
    parser.set_defaults(command=plot)


def plot(arguments: argparse.Namespace) -> int:
    """Run the command."""
    file = find_scene_file(arguments.scene)  # fails before the slow imports
    device = find_device(arguments.device)
    from ..signals import list_signals
    from ..signals.files import check_signal_file
    from ..simulation import Simulation

    options: dict[str, Any] = {"num_worlds": arguments.num_worlds, "confine": arguments.confine, "dt": arguments.dt}
    try:
        with asked_by_user():
            target = arguments.output or Path(f"{file.stem}.png")
            if not arguments.list:
                check_signal_file(target)
            sim = Simulation.from_scene(file, device=device, **options)
            if arguments.list:
                print("\n".join(list_signals(sim)))
                return EXIT_OK
            record = sim.record(arguments.signals, every=arguments.every)
        sim.prepare()
        advance(sim, max(arguments.every, round(arguments.seconds / sim.dt)))
        record.stop()
        with asked_by_user():
            record.save(target)
    except ImportError as error:
        raise CommandError(str(error)) from error
    print(f"{len(record)} samples of {len(record.names)} signals: {target.absolute()}")
    return verdict(sim)
