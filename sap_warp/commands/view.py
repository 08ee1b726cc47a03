"""`sap-warp view`: simulate a scene in a page of the browser."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from . import SUMMARIES
from .common import CommandError, add_run_arguments, positive_int, scene_listing

if TYPE_CHECKING:
    from ..simulation import Simulation


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("view", help=SUMMARIES["view"], **scene_listing())
    add_run_arguments(parser, num_worlds=1, duration=None)
    parser.add_argument("--paused", action="store_true", help="wait for Play")
    add_viewer_arguments(parser)
    parser.set_defaults(command=run)


def add_viewer_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a page."""
    add = parser.add_argument
    add("--viewer-fps", type=_rate, metavar="F", help="frames per second (default: 30, or 12 for more than 64 worlds)")
    add("--substeps-per-frame", type=positive_int, metavar="N", help="steps per frame (default: as the speed needs)")
    add("--speed", type=_speed, default=1.0, metavar="X", help="times real time, or 'max' (default: 1)")
    add("--worlds", type=_worlds, metavar="W", help="worlds to show, for example 0,3,8-15 (default: all, up to 1024)")
    add("--host", default="127.0.0.1", metavar="H", help="address to listen at (default: this computer only)")
    add("--port", type=_port, default=8080, metavar="P", help="0 takes a free one (default: %(default)s)")
    add("--no-shadows", action="store_true", help="draw faster where there is no graphics card")
    add("--no-browser", action="store_true", help="do not open a browser")


def _rate(text: str) -> float:
    value = _number(text)
    if not 0.0 < value <= 240.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of frames per second from above 0 to 240")
    return value


def _speed(text: str) -> float:
    value = math.inf if text == "max" else _number(text)
    if not value > 0.0:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a positive number nor 'max'")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a whole number from 0 to 65535")
    return int(text)


def _worlds(text: str) -> tuple[int, ...]:
    """Read numbers and ranges: ``0,3,8-15``."""
    chosen: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise argparse.ArgumentTypeError(f"{text!r} is not a list of worlds such as 0,3,8-15")
        if dash and int(last) - int(first) > 100_000:
            raise argparse.ArgumentTypeError(f"{part!r} is more worlds than a page can show")
        chosen += range(int(first), int(last if dash else first) + 1)
    return tuple(chosen)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from .run import make_simulation, prepare, verdict

    sim = make_simulation(arguments)
    wait = arguments.duration is None  # else it ends by itself, whether somebody looks or not
    viewer = open_viewer(sim, arguments, paused=arguments.paused, wait=wait)
    prepare(sim)
    print_address(viewer)
    viewer.run(arguments.duration)
    return verdict(sim)


def open_viewer(sim: Simulation, arguments: argparse.Namespace, **options: bool) -> Any:
    """Return the page that ``arguments`` ask for; it does not run yet."""
    from ..look.viewer import Viewer, ViewerError

    try:
        return Viewer(
            sim,
            host=arguments.host,
            port=arguments.port,
            viewer_fps=arguments.viewer_fps,
            substeps_per_frame=arguments.substeps_per_frame,
            speed=arguments.speed,
            worlds=arguments.worlds,
            shadows=False if arguments.no_shadows else None,
            open_browser=not arguments.no_browser,
            **options,
        )
    except (ViewerError, ValueError) as error:
        raise CommandError(str(error)) from error


def print_address(viewer: Any) -> None:
    """Print where the page is."""
    from ..look.viewer.show import announce

    announce(viewer)
