"""Scene files that come with the product, and how a name becomes a file; imports nothing slow."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

from ...core.faq import see

SCENE_SUFFIXES = (".yaml", ".yml", ".json")
ROBOT_SUFFIXES = (".urdf", ".mjcf", ".xml", ".usd", ".usda", ".usdc", ".usdz")
SHORT_NAMES = {"cube": "free_cube", "stack": "box_stack", "pendulum": "double_pendulum"}
"""Other names of shipped scenes."""
_PACKAGE = Path(__file__).resolve().parents[2]


class UnknownSceneError(ValueError):
    """There is no scene of that name and no such file."""


def assets_folder() -> Path:
    """Return the folder of the shipped assets: inside the installed package, or beside it in a source tree."""
    installed = _PACKAGE / "assets"
    return installed if installed.is_dir() else _PACKAGE.parent / "assets"


def shipped_scenes() -> dict[str, Path]:
    """Return the file of every scene that comes with the product, by name."""
    return {file.stem: file for file in sorted((assets_folder() / "yaml").glob("*.yaml"))}


def scene_description(file: Path) -> str:
    """Read the ``description`` of a scene file without a YAML parser; empty if none stands on one line."""
    match = re.search(r"^description:[ \t]*(.+?)[ \t]*$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return match.group(1).strip("\"'") if match else ""


def find_scene_file(name: str | os.PathLike[str]) -> Path:
    """Return the file of a scene: ``name`` is a path, or the name of a shipped scene.

    Raises:
        UnknownSceneError: There is neither; the message names the nearest one.
    """
    if not isinstance(name, (str, os.PathLike)):
        raise TypeError(f"a scene is a path or the name of a shipped scene, found {name!r}.")
    name = str(name)
    try:
        path = Path(name).expanduser()
        kind = "a folder" if path.is_dir() else "a pipe or device" if path.exists() and not path.is_file() else None
        other = None if kind is None else f"{name!r} is {kind}; a scene is a YAML or JSON file."
    except (RuntimeError, ValueError, OSError) as error:  # ~name of nobody, a zero byte, too long a name
        raise UnknownSceneError(f"there is no scene file {name!r}: {error}") from None
    ending = path.suffix.lower()
    if ending in (*SCENE_SUFFIXES, *ROBOT_SUFFIXES) or path.is_file():
        if path.is_file():
            return path
        if other is not None:
            raise UnknownSceneError(other)
        shipped = shipped_scenes().get(path.stem)
        hint = f" There is a shipped scene of that name: {shipped.stem!r}." if shipped else ""
        what = "robot" if ending in ROBOT_SUFFIXES else "scene"
        raise UnknownSceneError(f"there is no {what} file {name!r}.{hint}{see('unknown-scene')}")
    scenes = shipped_scenes()
    if SHORT_NAMES.get(name, name) in scenes:
        return scenes[SHORT_NAMES.get(name, name)]
    if other is not None:
        raise UnknownSceneError(other)
    near = difflib.get_close_matches(name.lower(), [*scenes, *SHORT_NAMES], n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    known = f"Give a scene (YAML, JSON), a robot (URDF, MJCF, USD), or one of: {', '.join(scenes)}."
    raise UnknownSceneError(f"unknown scene {name!r}.{hint} {known}{see('unknown-scene')}")


def runs_offline(file: Path) -> bool:
    """Return True if a shipped scene needs nothing from a git repository."""
    return not re.search(r"^\s*(- )?(source: *\{ *)?git:", file.read_text(encoding="utf-8"), re.MULTILINE)
