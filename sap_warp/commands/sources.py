"""Source of a command's simulation: a scene file, a shipped scene, the file of a robot, or a robot by its name."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..scene.shipped.scene_files import find_scene_file
from .common import DEFAULT_SCENE, CommandError

if TYPE_CHECKING:
    from ..scene import SapLoadedScene


def find_source(arguments: argparse.Namespace) -> Any:
    """Return the file that ``arguments`` name, or the scene of a robot; fails before the slow imports."""
    if arguments.robot is None:
        if arguments.scene is None:
            raise CommandError("give a scene or --robot")
        return find_scene_file(arguments.scene)
    if arguments.scene not in (None, DEFAULT_SCENE):
        raise CommandError("give a scene or --robot, not both")
    from ..scene.robots import UnknownRobotError, robot_scene

    try:
        return robot_scene(arguments.robot)
    except UnknownRobotError as error:
        raise CommandError(str(error)) from None


def load_source(source: Any, **options: Any) -> SapLoadedScene:
    """Load what `find_source` found. The file of a robot is a scene of its own, and a note says what that adds."""
    from ..scene import load_sap_scene
    from ..scene.assets.robot_files import scene_of_robot

    robot = scene_of_robot(source) if isinstance(source, Path) else None
    if robot is None:
        return load_sap_scene(source, **options)
    content, note = robot
    scene = load_sap_scene(content, **options)
    scene.notes.insert(0, note)
    return scene
