"""Recording and pictures for sub-commands that simulate."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .common import CommandError, asked_by_user, positive_int, positive_number, show_progress

if TYPE_CHECKING:
    from ..look.pictures import Recorder
    from ..simulation import Simulation


_ENDINGS = (".mp4", ".gif", ".png", ".html", ".usd", ".usda", ".usdc")
"""File endings of `pictures.files`, which is not loaded here."""


def add_recording_arguments(parser: argparse.ArgumentParser) -> None:
    """Add arguments for files that are written while the scene is simulated."""
    group = parser.add_argument_group("pictures")
    add = group.add_argument
    text = "film: .mp4, .gif; .png the last picture; .html a page to replay; .usd, .usda, .usdc for other tools"
    add("--record", type=Path, metavar="FILE", help=text)
    rate = "frames per second (default: %(default)g)"
    add("--record-fps", type=positive_number, default=30.0, metavar="F", help=rate)
    add(
        "--record-width",
        type=positive_int,
        default=640,
        metavar="N",
        help="of one world [pixels] (default: %(default)s)",
    )
    add("--record-height", type=positive_int, default=480, metavar="N", help="likewise (default: %(default)s)")
    add("--record-worlds", type=positive_int, default=1, metavar="N", help="worlds to show (default: %(default)s)")
    text = "auto, iso, front, back, side, top; or settings: side,follow=torso,fov=30 or eye=2/-2/1,target=0/0/0.5"
    add("--camera", default="auto", metavar="C", help=text)
    add("--orbit", type=float, default=0.0, metavar="D", help="let the camera go around [degrees/s]")
    text = "write the last picture and print its path; a folder gets SCENE.png (default: this folder)"
    add("--picture", type=str, nargs="?", const=f".{os.sep}", metavar="FILE", help=text)


def check_recording(arguments: argparse.Namespace) -> None:
    """Check the arguments before the slow imports."""
    target = arguments.record
    if target is not None and target.suffix.lower() not in _ENDINGS:
        raise CommandError(f"cannot record to {target}: the ending of the name must be one of {', '.join(_ENDINGS)}.")
    if target is not None and not target.absolute().parent.is_dir():
        raise CommandError(f"cannot write {target}: there is no folder {target.absolute().parent}.")
    if not math.isfinite(arguments.orbit):
        raise CommandError(f"--orbit is {arguments.orbit}; it must be a finite number.")


@contextmanager
def _one_line() -> Iterator[None]:
    from ..look.pictures import RecordingError

    try:
        yield
    except RecordingError as error:
        raise CommandError(str(error)) from error


def open_recorder(sim: Simulation, arguments: argparse.Namespace) -> Recorder | None:
    """Return the recording that was asked for, if any."""
    with _one_line(), asked_by_user():
        from ..look.pictures import as_camera

        camera = as_camera(arguments.camera)
        if arguments.record is None:
            return None
        if arguments.record_worlds > sim.world_count:
            raise CommandError(f"--record-worlds is {arguments.record_worlds}; there are {sim.world_count} worlds.")
        return sim.recorder(
            arguments.record,
            fps=arguments.record_fps,
            width=arguments.record_width,
            height=arguments.record_height,
            camera=camera,
            orbit=arguments.orbit,
            worlds=range(arguments.record_worlds),
        )


def record(recorder: Recorder, duration: float, steps: int) -> float:
    """Simulate and record; returns the time spent on steps [s]."""
    with _one_line(), asked_by_user(), show_progress(steps) as report, recorder:
        recorder.run(duration, lambda done, _: report(done))
    print(f"recorded {recorder.frame_count} frames to {recorder.path.absolute()}")
    return recorder.stepping_seconds


def write_last_picture(sim: Simulation, arguments: argparse.Namespace) -> None:
    """Write a picture of the first world, if it was asked for."""
    if arguments.picture is None:
        return
    from ..look.pictures.files import write_picture

    target = Path(arguments.picture)
    with _one_line(), asked_by_user():
        if arguments.picture.endswith(os.sep) or target.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            name = "".join(c if c.isalnum() or c in "-_." else "_" for c in sim.name) or "scene"
            target = target / f"{name}.png"
        size: dict[str, Any] = {"width": arguments.record_width, "height": arguments.record_height}
        write_picture(target, sim.render(arguments.camera, **size))
    print(f"picture of the first world: {target.absolute()}")
