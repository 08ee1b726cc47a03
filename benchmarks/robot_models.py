"""Robots for MuJoCo C: an MJCF file as it is, a URDF with ground, base, armature and drives of `scene.robots`."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import trimesh

from sap_warp.scene.assets.urdf import prepare_urdf
from sap_warp.scene.robots import Robot, robot_scene

HOMES = ("home", "stand", "standing", "default")


def mujoco_of(robot: Robot, dt: float) -> tuple[Any, Any]:
    """Model and data of a robot, in its home pose under its gains.

    Args:
        robot: As `list_robots` gives it.
        dt: Time step [s].

    Raises:
        ValueError: MuJoCo does not read the file; a mesh of a format that it does not know, for example.
    """
    values: dict[str, float] = {}
    if robot.kind == "mjcf":
        model = _from_mjcf(robot)
    else:
        model, values = _from_urdf(robot)
    model.opt.timestep = dt
    data = mujoco.MjData(model)
    for name, value in values.items():
        data.joint(name).qpos = value
        data.actuator(name).ctrl = value
    if model.nkey:
        names = [model.key(i).name.lower() for i in range(model.nkey)]
        mujoco.mj_resetDataKeyframe(model, data, next((i for i, name in enumerate(names) if name in HOMES), 0))
    mujoco.mj_forward(model, data)
    return model, data


def _from_mjcf(robot: Robot) -> Any:
    """The model, on the ground that the scene has where the file has none."""
    scene = robot_scene(robot)
    spec = mujoco.MjSpec.from_file(str(robot.path))
    for geom in spec.geoms:
        if geom.name in scene["assets"][0].get("ignore_names", ()):
            spec.delete(geom)
    if scene["ground"]["enabled"]:
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], friction=[0.8, 0.005, 0.0001])
    return spec.compile()


def _from_urdf(robot: Robot) -> tuple[Any, dict[str, float]]:
    """The model, and the positions that it is to hold."""
    scene = robot_scene(robot)
    asset = scene["assets"][0]
    text, _ = prepare_urdf(robot.path, visuals=False)
    settings = 'meshdir="/" strippath="false" fusestatic="false" discardvisual="true" balanceinertia="true"'
    text = text.replace("</robot>", f"<mujoco><compiler {settings}/></mujoco></robot>")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "robot.urdf"
        file.write_text(_convert_meshes(text, Path(folder)))
        spec = mujoco.MjSpec.from_file(str(file))
        _finish(spec, scene, asset)
        model = spec.compile()
    return model, {entry["joint"]: entry["value"] for entry in scene["initial_joint_q"]}


def _convert_meshes(text: str, folder: Path) -> str:
    """Collada, which MuJoCo does not read, becomes STL."""
    for i, name in enumerate(dict.fromkeys(re.findall(r'filename="([^"]*\.dae)"', text, re.IGNORECASE))):
        path = folder / f"{i}.stl"
        trimesh.load(name, force="mesh").export(path)
        text = text.replace(name, str(path))
    return text


def _finish(spec: Any, scene: dict[str, Any], asset: dict[str, Any]) -> None:
    """Ground, base, drives; meshes do not weigh anything, since the links do."""
    spec.compiler.boundmass, spec.compiler.boundinertia = 1e-9, 1e-12  # links without mass
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    for mesh in spec.meshes:
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
    for geom in spec.geoms:  # they meet the ground alone, as in the scene
        geom.contype, geom.conaffinity, geom.friction[0], geom.density = 1, 0, 0.8, 0.0
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], contype=0, conaffinity=1)
    base = spec.worldbody.first_body()
    pose = asset.get("xform", {"p": [0.0, 0.0, 0.0], "q": "identity"})
    base.pos = pose["p"]
    if pose["q"] != "identity":
        base.quat = np.roll(pose["q"], 1)
    if asset["floating"]:
        base.add_freejoint()
    _add_drives(spec, scene)


def _add_drives(spec: Any, scene: dict[str, Any]) -> None:
    """Drives with the gains of the scene, and its armature."""
    joints = {joint.name: joint for joint in spec.joints}
    for edit in scene["post_build"]:
        if edit["op"] == "set_joint_targets" and edit["joint"] in joints:
            joint = joints[edit["joint"]]
            ke, kd = edit["ke"], edit["kd"]
            drive = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            drive.gainprm[0], drive.biasprm[:3] = ke, [0.0, -ke, -kd]
            drive.biastype = mujoco.mjtBias.mjBIAS_AFFINE
        elif edit["op"] == "set_joint_armature":
            for joint in spec.joints:
                if joint.type != mujoco.mjtJoint.mjJNT_FREE:
                    joint.armature = edit["value"]
