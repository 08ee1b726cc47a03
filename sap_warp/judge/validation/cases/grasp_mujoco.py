"""Grasps of `grasp` in MuJoCo, with equal masses, drives, shapes, friction coefficient, time step and motion."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import grasp

SHAPES = {
    "cube": '<geom type="box" size="0.025 0.025 0.025" density="1000"/>',
    "ball": '<geom type="sphere" size="0.03" density="1000"/>',
    "bottle": '<geom type="cylinder" size="0.03 0.06" density="1000"/>'
    f'<geom type="cylinder" size="{grasp.NECK_RADIUS} {grasp.NECK_HALF}" pos="0 0 {0.06 + grasp.NECK_HALF}" '
    'density="1000"/>',
}


def mjcf(name: str, dt: float, option: str) -> str:
    """Return the model; ``option`` are further attributes of MuJoCo's option element."""
    tip = " ".join(map(str, grasp.TIP))
    fingers = "".join(
        f'<body name="finger{i}" pos="0 {side * grasp.TIP[1]} 0"><inertial mass="0.015" pos="0 {-side * grasp.TIP[1]} '
        f'0.04525" diaginertia="2.375e-6 2.375e-6 7.5e-7"/><joint name="f{i}" type="slide" axis="0 {side} 0" '
        f'range="0 0.04" damping="0.3"/><geom type="box" size="{tip}" density="0" contype="2" conaffinity="1"/></body>'
        for i, side in enumerate((1.0, -1.0))
    )
    light, heavy = (
        f'<inertial mass="{m}" pos="0 0 0" diaginertia="{m * 0.005 / 3} {m * 0.005 / 3} {m * 0.005 / 3}"/>'
        for m in (0.1, 0.73)
    )
    motors = "".join(
        f'<position joint="{j}" kp="{kp}" kv="{kv}" forcerange="{-f} {f}"/>'
        for j, kp, kv, f in [(a, grasp.HAND_KP, grasp.HAND_KD, 1e9) for a in "xyz"]
        + [(f"f{i}", grasp.FINGER_KP, grasp.FINGER_KD, grasp.FINGER_LIMIT) for i in range(2)]
    )
    height = grasp.HALF_HEIGHT[name]
    return f"""<mujoco><option timestep="{dt}" integrator="implicitfast" gravity="0 0 -9.81" {option}/>
<compiler autolimits="true"/><default><geom friction="{grasp.DEFAULT_MU} 0.005 0.0001"/></default><worldbody>
<geom type="plane" size="0 0 1" contype="1" conaffinity="1"/>
<body pos="0 0 {height}">{light}<joint name="x" type="slide" axis="1 0 0" armature="{grasp.HAND_INERTIA}"/>
<body>{light}<joint name="y" type="slide" axis="0 1 0" armature="{grasp.HAND_INERTIA}"/>
<body name="hand">{heavy}<joint name="z" type="slide" axis="0 0 1" armature="{grasp.HAND_INERTIA}"/>{fingers}
</body></body></body>
<body name="object" pos="0 0 {height}"><freejoint/>{SHAPES[name]}</body>
</worldbody><actuator>{motors}</actuator></mujoco>"""


def run_mujoco(name: str, dt: float, seconds: float, option: str = "") -> grasp.Grasp:
    """Run one body through the whole motion."""
    import mujoco

    model: Any = mujoco.MjModel.from_xml_string(mjcf(name, dt, option))
    data: Any = mujoco.MjData(model)
    hand, body = (mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, n) for n in ("hand", "object"))
    for i in range(2):
        data.qpos[model.jnt_qposadr[mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, f"f{i}")]] = 0.04
    seen = []
    for i, (position, force) in enumerate(zip(*grasp.hand_motion(dt, seconds), strict=True)):
        data.ctrl[:] = [*position, *[grasp.finger_target(name, i * dt)] * 2]
        data.qfrc_applied[:3] = force
        mujoco.mj_step(model, data)
        if i * dt >= grasp.CLOSE + grasp.LIFT:
            mujoco.mj_kinematics(model, data)
            seen.append(data.xpos[body] - data.xpos[hand])
    return grasp.summarize(np.array(seen), dt)
