"""Scene of a robot: on the ground, in its home pose, held by its own gains or by those of `home`."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from .catalogue import Robot, find_robot
from .home import read_home

TIME_STEP = 0.002
"""Time step of robots whose file suggests none [s]; MuJoCo's default."""
MOUNT_HEIGHT = 1.0
"""Height of the lowest link of a fixed base without a pose, or one that would reach below the ground [m]."""
FLOOR = 0.01
"""Depth below the foot of its base that link origins of a robot on the ground may reach [m]."""
ARMATURE = 1e-3
"""Armature of joints of a URDF, which states none [kg m^2 or kg]: massless links may hang on them."""


def robot_scene(robot: str | Robot, **asset: Any) -> dict[str, Any]:
    """Return a scene document for `load_sap_scene` with one robot.

    Args:
        robot: Its name, or what `find_robot` returns.
        **asset: Keys of the asset that win, for example ``floating`` or ``meshes``.
    """
    found = find_robot(robot) if isinstance(robot, str) else robot
    return _mjcf_scene(found, asset) if found.kind == "mjcf" else _urdf_scene(found, asset)


def _scene(robot: Robot, **sections: Any) -> dict[str, Any]:
    shape = {"ke": 1.0e5, "tau": 0.01, "mu": 0.8}
    return {
        "schema_version": 1,
        "name": robot.name,
        "description": f"{robot.name} ({robot.place})",
        "simulation": {"dt": TIME_STEP},
        "builder": {"rigid_gap": 0.002, "defaults": {"shape": shape}},
        **sections,
    }


def _source(robot: Robot) -> Any:
    if robot.inside:
        return {"package": {"name": robot.place, "path": robot.inside}}
    return str(robot.path)


def _mjcf_scene(robot: Robot, asset: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": robot.name, "type": "mjcf", "source": _source(robot)}
    planes = _planes(robot.path)
    walls = [plane for plane in planes if robot.place == "newton" and plane.get("zaxis", "").split() == ["0", "1", "0"]]
    if walls:  # the ground of a y-up world, under a robot that stands along z
        entry["ignore_names"] = [plane.get("name", "") for plane in walls]
    from ..assets.robot_files import suggested_step  # only here: it takes a while

    settings = {"dt": TIME_STEP} if suggested_step(robot.path) is None else {}
    ground: dict[str, Any] = {"enabled": len(planes) == len(walls)}
    if not planes:
        ground["height"] = _floor_height(robot.path)
    return _scene(robot, assets=[entry | asset], ground=ground, simulation=settings)


def _floor_height(path: Path) -> float:
    """Return the height of the floor in a scene of the Menagerie that includes this file, 0 if there is none [m].

    A hand, for example, reaches below its origin, and its scene has the floor where it does not touch it.
    """
    for scene in sorted(path.parent.glob("scene*.xml")):
        try:
            root, planes = ElementTree.parse(scene).getroot(), _planes(scene)
        except ElementTree.ParseError:
            continue
        level = [plane for plane in planes if not {"zaxis", "quat", "euler", "axisangle", "xyaxes"} & set(plane.keys())]
        if level and any(include.get("file") == path.name for include in root.iter("include")):
            return float(level[0].get("pos", "0 0 0").split()[2])
    return 0.0


def _planes(path: Path) -> list[ElementTree.Element]:
    """Return the geoms of a file that are its ground."""
    world = ElementTree.parse(path).getroot().find("worldbody")
    return [geom for geom in world.iter("geom") if geom.get("type") == "plane"] if world is not None else []


def _urdf_scene(robot: Robot, asset: dict[str, Any]) -> dict[str, Any]:
    home = read_home(robot.path)
    entry: dict[str, Any] = {
        "id": robot.name,
        "type": "urdf",
        "source": _source(robot),
        "floating": home.base is not None or not home.gains,  # a drone has no joints
        "enable_self_collisions": False,  # shapes of neighbouring links overlap in most files
        "collapse_fixed_joints": True,
        "cfg": {"density": 0.0},  # a link without inertia has no mass, as the format says
    }
    if home.base is not None:
        entry["xform"] = {"p": home.base[:3], "q": home.base[3:]}
    elif not home.is_known or home.lowest < -FLOOR:  # nobody says how it stands: out of reach of the ground
        entry["xform"] = {"p": [0.0, 0.0, MOUNT_HEIGHT - home.lowest], "q": "identity"}
    edits: list[dict[str, Any]] = [
        {"op": "set_joint_targets", "joint": name, "mode": "position", "ke": ke, "kd": kd}
        for name, (ke, kd) in home.gains.items()
    ]
    first = 6 if home.base is not None else 0
    if home.gains:
        edits.append({"op": "set_joint_armature", "range": f"from:{first}", "value": ARMATURE})
        edits.append({"op": "copy_joint_q_to_joint_targets", "range": f"from:{first + (first > 0)}"})
    joints = [{"joint": name, "value": value} for name, value in home.joints.items()]
    return _scene(robot, assets=[entry | asset], initial_joint_q=joints, post_build=edits, ground={"enabled": True})
