"""Robots on this machine, and where their files are.

    folder              folders in the environment variable SAP_WARP_ROBOTS: name.xml, name.urdf, or a folder with one
    menagerie           a checkout of MuJoCo's Menagerie: SAP_WARP_MENAGERIE, MUJOCO_MENAGERIE_PATH, or the cache of the
                        package robot_descriptions
    example-robot-data  URDF files of the distribution of that name
    newton              Newton's own MJCF assets

The first place that has a name decides; ``place:name`` asks for another one.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ...core.faq import see

FOLDERS, MENAGERIE = "SAP_WARP_ROBOTS", ("SAP_WARP_MENAGERIE", "MUJOCO_MENAGERIE_PATH")
_CACHE = "~/.cache/robot_descriptions/mujoco_menagerie"
_HEAD = 4096
_DATA = "example-robot-data"
_DATA_FOLDER = "share/example-robot-data/robots/"
_ENDING = re.compile(r"(_simple)?_(description|data)$")
_VENDORS = [
    "unitree",
    "franka_emika",
    "franka",
    "universal_robots",
    "ufactory",
    "kuka",
    "agility",
    "anybotics",
    "boston_dynamics",
    "google",
    "robotis",
    "google_barkour",
    "trs",
    "trossen",
    "rethink_robotics",
    "kinova",
    "hello_robot",
    "shadow",
    "wonik",
    "leap",
    "robotiq",
    "skydio",
    "bitcraze",
    "pal",
    "booster",
    "agilex",
    "i2rt",
    "rainbow_robotics",
    "pndbotics",
    "berkeley",
    "dynamixel",
    "apptronik",
    "arx",
    "fourier",
    "iit",
    "robotstudio",
    "stanford",
    "tetheria",
    "realsense",
]
"""Vendor names at the beginning of the Menagerie's folders, which names of robots leave out."""
_NEWTON = {"ant": "nv_ant.xml", "humanoid": "nv_humanoid.xml"}
_SHORT = {"g1": "g1_29dof_rev_1_0", "ur3": "ur3_robot", "ur5": "ur5_robot", "ur10": "ur10_robot", "so_arm": "so101"}
_SHORT |= {"allegro_hand": "allegro_right_hand", "talos": "talos_reduced", "romeo": "romeo_small", "simple": "human"}


class UnknownRobotError(ValueError):
    """There is no robot of that name here."""


@dataclass(frozen=True)
class Robot:
    """A robot that can be loaded."""

    name: str
    place: str
    """``folder``, ``menagerie``, ``example-robot-data`` or ``newton``."""
    kind: str
    """``mjcf`` or ``urdf``."""
    path: Path
    """The file."""
    inside: str = ""
    """Its path in the distribution, if it comes with one."""


def list_robots() -> list[Robot]:
    """Return all robots, sorted by name; where several have one name, the first place comes first."""
    found = [*_in_folders(), *_in_menagerie(), *_in_example_robot_data(), *_in_newton()]
    return sorted(found, key=lambda robot: robot.name)  # a stable sort


def find_robot(name: str) -> Robot:
    """Return the robot of a name, or of ``place:name``.

    Raises:
        UnknownRobotError: There is none; the message names the nearest ones.
    """
    if not isinstance(name, str):
        raise TypeError(f"a robot is asked for by its name, found {name!r}.")
    place, _, short = name.rpartition(":")
    robots = [robot for robot in list_robots() if not place or robot.place == place]
    for wanted in (short, _SHORT.get(short, short)):
        for robot in robots:
            if robot.name == wanted:
                return robot
    names = list(dict.fromkeys(robot.name for robot in robots))
    near = difflib.get_close_matches(short, names, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    if not names:
        hint = f" No robots are installed: pip install 'sap-warp[robots]', or set {FOLDERS} to a folder with some."
    listed = "'sap-warp robots' lists those of this machine."
    raise UnknownRobotError(f"unknown robot {name!r}.{hint} {listed}{see('unknown-robot')}")


def _in_folders() -> Iterator[Robot]:
    for folder in filter(None, os.environ.get(FOLDERS, "").split(os.pathsep)):
        root = Path(folder).expanduser()
        for entry in sorted(root.iterdir()) if root.is_dir() else ():
            if entry.is_dir():
                file = _main_file(entry)
                if file is not None:
                    yield Robot(entry.name, "folder", _kind(file), file)
            elif entry.suffix in (".xml", ".urdf"):
                yield Robot(entry.stem, "folder", _kind(entry), entry)


def _in_menagerie() -> Iterator[Robot]:
    given = [os.environ[name] for name in MENAGERIE if os.environ.get(name)]
    root = next((path for path in (Path(p).expanduser() for p in (*given, _CACHE)) if path.is_dir()), None)
    for entry in sorted(root.iterdir()) if root is not None else ():
        file = _main_file(entry) if entry.is_dir() else None
        if file is None:
            continue
        yield Robot(entry.name, "menagerie", _kind(file), file)
        short = next((entry.name[len(v) + 1 :] for v in _VENDORS if entry.name.startswith(f"{v}_")), None)
        if short:
            yield Robot(short, "menagerie", _kind(file), file)


def _main_file(folder: Path) -> Path | None:
    """Return the model of a folder: the file named like it, or the one with the shortest name that is no scene."""
    files = [file for file in sorted(folder.glob("*.xml")) if not file.stem.startswith("scene")]
    files += sorted(folder.glob("*.urdf"))
    files = [file for file in files if b"<robot" in _head(file) or (b"<mujoco" in _head(file) and _has_bodies(file))]
    if not files:
        return None
    return min(files, key=lambda file: (not folder.name.endswith(file.stem), len(file.stem), file.stem))


def _has_bodies(file: Path) -> bool:
    """Return True if a file has bodies, unlike files of keyframes, actuators or meshes that others include."""
    return b"<worldbody" in file.read_bytes()


def _head(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(_HEAD)


def _is_empty(file: Path) -> bool:
    """Return True if a URDF has no links; such files are short."""
    return file.stat().st_size < _HEAD and b"<link" not in _head(file)


def _kind(file: Path) -> str:
    return "urdf" if file.suffix == ".urdf" or b"<robot" in _head(file) else "mjcf"


def _in_example_robot_data() -> Iterator[Robot]:
    try:
        distribution = metadata.distribution(_DATA)
    except metadata.PackageNotFoundError:
        return
    files = [
        str(file) for file in distribution.files or () if str(file).endswith(".urdf") and _DATA_FOLDER in str(file)
    ]
    inside = [file.partition(_DATA_FOLDER)[2] for file in files]
    folders = [path.partition("/")[0] for path in inside]
    for file, path, folder in zip(files, inside, folders, strict=True):
        if _is_empty(Path(str(distribution.locate_file(file)))):
            continue
        base, stem = _ENDING.sub("", folder), Path(path).stem
        name = base if folders.count(folder) == 1 or base.startswith(stem) else stem
        yield Robot(name, _DATA, "urdf", Path(str(distribution.locate_file(file))), f"robots/{path}")


def _in_newton() -> Iterator[Robot]:
    spec = find_spec("newton")
    if spec is None or spec.origin is None:
        return
    for name, file in _NEWTON.items():
        path = Path(spec.origin).parent / "examples" / "assets" / file
        if path.is_file():
            yield Robot(name, "newton", "mjcf", path)
