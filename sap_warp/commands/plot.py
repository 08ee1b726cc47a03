"""`sap-warp plot`: simulate a scene and write signals of it to a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from . import SUMMARIES
from .common import EXIT_OK, CommandError, add_run_arguments, asked_by_user, positive_int, scene_listing
from .run import advance, make_simulation, prepare, verdict
from .sources import find_source

DEFAULT_SIGNALS = "energy,contacts,iterations"


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("plot", help=SUMMARIES["plot"], **scene_listing())
    add_run_arguments(parser, num_worlds=1, duration=2.0)
    add = parser.add_argument
    text = "names with commas between them, such as joint_q:*knee,body_q:torso.z,energy (default: %(default)s)"
    add("--signals", default=DEFAULT_SIGNALS, metavar="S", help=text)
    add("--every", type=positive_int, default=1, metavar="N", help="steps between samples (default: %(default)s)")
    text = "file to write: .png, .svg, .pdf, .csv, .npz or .parquet (default: SCENE.png)"
    add("-o", "--output", type=Path, metavar="FILE", help=text)
    add("--list", action="store_true", help="print the names of all signals of the scene and stop")
    parser.set_defaults(command=plot)


def plot(arguments: argparse.Namespace) -> int:
    """Run the command."""
    find_source(arguments)  # fails before the slow imports
    from ..look.signals import list_signals
    from ..look.signals.files import check_signal_file

    target = arguments.output or Path(f"{arguments.robot or Path(arguments.scene).stem}.png")
    try:
        if not arguments.list:
            with asked_by_user():
                check_signal_file(target)
        sim = make_simulation(arguments)
        if arguments.list:
            print("\n".join(list_signals(sim)))
            return EXIT_OK
        with asked_by_user():
            record = sim.record(arguments.signals, every=arguments.every)
        prepare(sim)
        advance(sim, max(arguments.every, round(arguments.duration / sim.dt)))
        record.stop()
        with asked_by_user():
            record.save(target)
    except ImportError as error:
        raise CommandError(str(error)) from error
    print(f"{len(record)} samples of {len(record.names)} signals: {target.absolute()}")
    return verdict(sim)
