"""Robots by name: where their files are, and a scene with ground, home pose and gains for each.

`catalogue` finds them in installed distributions and local folders, `home` reads poses and gains from what lies beside
a URDF, `scenes` writes the scene. Only the standard library is imported.
"""

from .catalogue import Robot, UnknownRobotError, find_robot, list_robots
from .scenes import robot_scene

__all__ = ["Robot", "UnknownRobotError", "find_robot", "list_robots", "robot_scene"]
