"""Files of pictures: films and single frames, written completely or not at all."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...core.faq import see

USD = (".usd", ".usda", ".usdc")
SUFFIXES = (".mp4", ".gif", ".png", ".html", *USD)
_LEAST_FREE = 1 << 20


class RecordingError(RuntimeError):
    """A file of pictures cannot be written; the message says why and what to do."""


class FrameWriter(Protocol):
    """Writer of a film that takes one frame after another."""

    def add(self, frame: np.ndarray) -> None:
        """Append sRGB bytes of shape (height, width, 3)."""

    def close(self) -> None:
        """Finish the file."""


def check_file(path: Path, *, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """Check the name and folder of a file before the work begins.

    Raises:
        RecordingError: The kind of file is not known, a package for it is missing, or its folder does not exist.
    """
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        kinds = ", ".join(suffixes)
        raise RecordingError(f"cannot record to {path}: the ending of the name says what is written, one of {kinds}.")
    if not path.absolute().parent.is_dir():
        raise RecordingError(f"cannot write {path}: there is no folder {path.absolute().parent}.")
    if path.is_dir():
        raise RecordingError(f"cannot write {path}: it is a folder.")
    if suffix == ".mp4":
        _find_ffmpeg()
    elif suffix == ".html":
        import_viser()


def import_viser() -> Any:
    """Import the package viser.

    Raises:
        RecordingError: It is not installed.
    """
    try:
        import viser
    except ImportError as error:
        raise RecordingError(
            f"pages need viser, which does not load ({error}): pip install 'sap-warp[viewer]'." + see("missing-extra")
        ) from None
    return viser


def _find_ffmpeg() -> Any:
    try:
        import imageio_ffmpeg
    except ImportError as error:
        what = f"MP4 needs imageio-ffmpeg, which does not load ({error})"
        advice = "pip install 'sap-warp[viewer]', or record a .gif."
        raise RecordingError(f"{what}: {advice}{see('missing-extra')}") from None
    try:
        imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as error:
        what = f"MP4 needs the program ffmpeg ({error})"
        raise RecordingError(f"{what}: install it or set IMAGEIO_FFMPEG_EXE, or record a .gif.") from None
    return imageio_ffmpeg


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an OSError inside into an error that says which file could not be written, and why.

    Raises:
        RecordingError: In place of an OSError.
    """
    try:
        yield
    except OSError as error:
        folder = path.absolute().parent
        untold = error.errno in (None, errno.EIO, errno.EPIPE)  # ffmpeg cannot say why it stopped
        full = error.errno == errno.ENOSPC or (untold and shutil.disk_usage(folder).free < _LEAST_FREE)
        reason = f"the disk is full; make room in {folder}" if full else " ".join(str(error).split())[-400:]
        raise RecordingError(f"cannot write {path}: {reason}.") from error


def part_of(path: Path) -> Path:
    """Return the temporary name of a file while it is written."""
    return path.with_name(f".{path.stem}.part{path.suffix}")


class _Film:
    """MP4 file with H.264, which browsers play."""

    def __init__(self, path: Path, fps: float, size: tuple[int, int]):
        self._path, self._even = path, (size[0] - size[0] % 2, size[1] - size[1] % 2)
        self._writer = _find_ffmpeg().write_frames(
            str(part_of(path)),
            self._even,
            fps=fps,
            codec="libx264",
            quality=8,
            macro_block_size=2,
            ffmpeg_log_level="error",
            output_params=["-movflags", "+faststart"],
        )
        with explained(path):
            self._writer.send(None)

    def add(self, frame: np.ndarray) -> None:
        with explained(self._path):
            self._writer.send(np.ascontiguousarray(frame[: self._even[1], : self._even[0]]))

    def close(self) -> None:
        with explained(self._path):
            self._writer.close()
            part = part_of(self._path)
            if not part.is_file() or part.stat().st_size == 0:
                raise OSError(errno.EIO, "ffmpeg wrote nothing; does it have the codec libx264?")


class _Gif:
    """GIF file that repeats."""

    def __init__(self, path: Path, fps: float):
        self._path, self._milliseconds = path, max(20, round(100.0 / fps) * 10)  # players are slow below 20 ms
        self._frames: list[Any] = []

    def add(self, frame: np.ndarray) -> None:
        from PIL import Image

        self._frames.append(Image.fromarray(frame).quantize(256, method=Image.Quantize.MEDIANCUT))

    def close(self) -> None:
        first, *others = self._frames
        with explained(self._path):
            first.save(
                part_of(self._path),
                save_all=True,
                append_images=others,
                duration=self._milliseconds,
                loop=0,
                optimize=False,
            )


def open_film(path: Path, fps: float, size: tuple[int, int]) -> FrameWriter:
    """Open a writer of the kind that the ending of ``path`` says; ``size`` is width and height [pixels].

    It writes to `part_of` the path, which is not there before and to be moved when it is closed.
    """
    return _Gif(path, fps) if path.suffix.lower() == ".gif" else _Film(path, fps, size)


def write_picture(path: Path, picture: np.ndarray) -> None:
    """Write a picture in a format that Pillow knows, for example PNG.

    Raises:
        RecordingError: It cannot be written.
    """
    from PIL import Image

    part = part_of(path)
    with explained(path):
        try:
            Image.fromarray(picture).save(part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
