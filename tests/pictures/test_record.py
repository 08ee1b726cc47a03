"""Recordings have the frames they should, and leave nothing behind when they fail."""

import errno

import numpy as np
import pytest
from PIL import Image

from sap_warp.cli import main
from sap_warp.look.pictures import RecordingError
from sap_warp.look.pictures import files as picture_files
from sap_warp.look.pictures.record import beside

SMALL = {"width": 64, "height": 48, "samples": 1}


def film_and_raise(sim, path, error):
    """Take a frame, then fail."""
    with sim.recorder(path, **SMALL) as film:
        film.capture()
        raise error


def test_film_has_all_frames_and_moves(sim, tmp_path):
    """MP4 of 0.5 s at 20 frames per second."""
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="the extra 'viewer' is not installed")
    path = tmp_path / "film.mp4"
    reports = []
    with sim.recorder(path, fps=20, **SMALL) as film:
        film.run(0.5, lambda done, total: reports.append((done, total)))
    assert film.frame_count == 10 and reports[-1] == (50, 50) and sim.step_count == 50
    reader = imageio_ffmpeg.read_frames(str(path))
    about = next(reader)
    frames = [np.frombuffer(frame, np.uint8).reshape(48, 64, 3).astype(int) for frame in reader]
    assert about["size"] == (64, 48) and about["fps"] == pytest.approx(20.0)
    assert len(frames) == 10
    assert np.abs(frames[0] - frames[-1]).max() > 60
    assert [file.name for file in tmp_path.iterdir()] == ["film.mp4"]


def test_gif_png_and_several_worlds(sim, tmp_path):
    """GIF repeats with its own time; PNG is the last picture; worlds are beside each other."""
    with sim.recorder(tmp_path / "film.gif", fps=10, orbit=90.0, **SMALL) as film:
        film.run(0.3)
    with Image.open(tmp_path / "film.gif") as image:
        assert image.n_frames == 3 and image.info["duration"] == 100 and image.info["loop"] == 0
    with sim.recorder(tmp_path / "last.png", worlds=[0, 1], **SMALL) as film:
        film.run(0.1)
    with Image.open(tmp_path / "last.png") as image:
        last = np.asarray(image)
    np.testing.assert_array_equal(last[:, :64], sim.render(**SMALL))
    assert last.shape == (48, 128, 3)


def test_page_replays_without_python(sim, tmp_path):
    """HTML holds the recording of all frames."""
    pytest.importorskip("viser", reason="the extra 'viewer' is not installed")
    import base64
    import re

    import msgspec
    import zstandard

    path = tmp_path / "page.html"
    with sim.recorder(path, fps=20, worlds=[0, 1]) as film:
        film.run(0.25)
    data = base64.b64decode(re.search(r'__VISER_EMBED_DATA__="([^"]*)"', path.read_text(encoding="utf-8"))[1])
    inner = zstandard.ZstdDecompressor().decompress(data[8:])
    length = int.from_bytes(inner[:8], "little")
    recording = msgspec.msgpack.decode(inner[8 : 8 + length])
    assert recording["durationSeconds"] == pytest.approx(0.25)
    moves = [
        m for t, m in recording["messages"] if m["type"] == "SetPositionMessage" and "body" in m["name"] and t > 0.0
    ]
    assert len(moves) == 2 * 4  # the first frame is at time 0


def test_usd_has_the_poses_of_every_frame(sim, tmp_path):
    """One time code for each frame, and the moving body where it was then; OpenUSD reads it back."""
    from pxr import Usd, UsdGeom

    path, seen = tmp_path / "film.usda", []
    with sim.recorder(path, fps=20) as film:
        for _ in range(4):
            film.capture()
            seen.append(sim.body_q.numpy()[0, :, :3].copy())
            sim.step(5)
    stage = Usd.Stage.Open(str(path))
    assert stage.GetTimeCodesPerSecond() == 20 and stage.GetEndTimeCode() == 3
    moving = [
        p for p in stage.Traverse() if p.IsA(UsdGeom.Xformable) and UsdGeom.Xformable(p).TransformMightBeTimeVarying()
    ]
    assert moving
    drop = np.ptp([s[:, 2] for s in seen], axis=0).max()
    heights = []
    for prim in moving:
        at = [UsdGeom.Xformable(prim).ComputeLocalToWorldTransform(k).ExtractTranslation()[2] for k in range(4)]
        heights.append(np.ptp(at))
    assert drop > 1e-4 and max(heights) == pytest.approx(drop, rel=0.05)
    assert [file.name for file in tmp_path.iterdir()] == ["film.usda"]


def test_what_fails_leaves_nothing_behind(sim, tmp_path, monkeypatch):
    """Neither an exception, nor a full disk, nor a recording without frames; an older file stays."""
    path = tmp_path / "film.gif"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError):
        film_and_raise(sim, path, ZeroDivisionError)
    with pytest.raises(ValueError, match="no frames"):
        sim.recorder(path, **SMALL).close()

    def full(self, *_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full)
    film = sim.recorder(path, **SMALL)
    film.capture()
    with pytest.raises(RecordingError, match=r"film.gif: the disk is full; make room"):
        film.close()
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_interrupted_films_are_kept(sim, tmp_path):
    """Who stops a film with Ctrl-C wants to see it."""
    with pytest.raises(KeyboardInterrupt):
        film_and_raise(sim, tmp_path / "film.gif", KeyboardInterrupt)
    assert (tmp_path / "film.gif").stat().st_size > 100


def test_what_cannot_be_written_is_said_first(sim, tmp_path, monkeypatch):
    """Before anything is simulated."""
    for name, words in (("film.avi", "one of .mp4"), ("none/film.gif", "there is no folder"), ("film", "ending")):
        with pytest.raises(RecordingError, match=words):
            sim.recorder(tmp_path / name)
    with pytest.raises(ValueError, match="fps is 0"):
        sim.recorder(tmp_path / "film.gif", fps=0)
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    with pytest.raises(RecordingError, match=r"pip install 'sap-warp\[viewer\]'"):
        sim.recorder(tmp_path / "film.mp4")
    monkeypatch.setitem(__import__("sys").modules, "viser", None)
    with pytest.raises(RecordingError, match=r"pip install 'sap-warp\[viewer\]'"):
        sim.recorder(tmp_path / "page.html")


def test_pictures_beside_each_other():
    """Row by row; what is missing is white."""
    pictures = np.stack([np.full((2, 3, 3), value, np.uint8) for value in (1, 2, 3)])
    grid = beside(pictures)
    assert grid.shape == (4, 6, 3)
    assert [grid[0, 0, 0], grid[0, 3, 0], grid[2, 0, 0], grid[2, 3, 0]] == [1, 2, 3, 255]


def test_command(tmp_path, capsys):
    """`sap-warp run` records, takes a picture and says where; complaints come in one line."""
    shape = ["--num-worlds", "1", "--duration", "0.1", "--record-width", "48", "--record-height", "32"]
    assert main(["run", "cube", *shape, "--record", str(tmp_path / "a.gif"), "--picture", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"recorded 3 frames to {tmp_path / 'a.gif'}" in out and str(tmp_path / "free_cube.png") in out
    with Image.open(tmp_path / "free_cube.png") as image:
        assert image.size == (48, 32)
    assert main(["run", "cube", "--record", str(tmp_path / "a.avi")]) == 2
    assert main(["run", "cube", "--camera", "foo"]) == 2
    errors = capsys.readouterr().err
    assert "must be one of .mp4, .gif, .png, .html" in errors and "camera preset 'foo' is not known" in errors


def test_full_disk_behind_ffmpeg(tmp_path, monkeypatch):
    """A program that stops without a word is asked about by looking at the disk."""
    monkeypatch.setattr(picture_files.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 0})())
    with pytest.raises(RecordingError, match="the disk is full"), picture_files.explained(tmp_path / "a.mp4"):
        raise OSError("broken pipe")
    with pytest.raises(RecordingError, match="Permission denied"), picture_files.explained(tmp_path / "a.mp4"):
        raise OSError(errno.EACCES, "Permission denied")
