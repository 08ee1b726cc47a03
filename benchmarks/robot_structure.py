"""Every robot of this machine as MuJoCo compiles it: dofs, mass, limits, and the mass matrix in the home pose.

    python benchmarks/robot_structure.py [--robots go2,panda]

Joints are compared by name. Entries of the mass matrix are relative to its diagonal. Links whose moments of inertia no
body has are corrected, by Newton in one way and by MuJoCo (``balanceinertia``) in another, and are counted.
"""

from __future__ import annotations

import argparse
from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np
from robot_models import mujoco_of
from robot_table import SCALAR, scalar_joints

from sap_warp import Simulation
from sap_warp.scene.robots import Robot, list_robots

TINY = 1e-9
"""A step so short that drives and damping add nothing to the mass matrix [s]."""


def impossible_links(robot: Robot) -> int:
    """Links of a URDF whose largest moment of inertia is more than the two others together."""
    found = 0
    for inertia in ElementTree.parse(robot.path).getroot().iterfind("link/inertial/inertia"):
        xx, xy, xz, yy, yz, zz = (float(inertia.get(name, 0)) for name in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
        moments = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        found += bool(moments[0] + moments[1] < (1.0 - 1e-7) * moments[2])
    return found


def compare(robot: Robot) -> str:
    """One line about a robot."""
    options: dict[str, Any] = {"asset": {"load_visual_shapes": False}, "notes": False}
    sim = Simulation.from_robot(f"{robot.place}:{robot.name}", contact_preset_variant="drake", **options)
    try:
        model, data = mujoco_of(robot, sim.dt)
    except ValueError as error:
        return f"{robot.name}: MuJoCo refuses it: {str(error).splitlines()[0][:60]}"
    ours, newton_model = {name: dof for name, _, dof in scalar_joints(sim)}, sim.model
    joints = [model.joint(int(j)) for j in np.flatnonzero(np.isin(model.jnt_type, SCALAR))]
    missing = [joint.name for joint in joints if joint.name not in ours]
    joints = [joint for joint in joints if joint.name in ours]
    a, b = [ours[joint.name] for joint in joints], [int(joint.dofadr[0]) for joint in joints]
    found = sim.solver.compute_free_motion(sim.shards[0].state, None, TINY).dynamics_matrix()[np.ix_(a, a)]
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    M = M[np.ix_(b, b)]
    off = np.abs(found - M) / np.sqrt(np.outer(M.diagonal(), M.diagonal()))
    limits = np.column_stack([newton_model.joint_limit_lower.numpy(), newton_model.joint_limit_upper.numpy()])
    wrong = [
        joint.name
        for joint, dof in zip(joints, a, strict=True)
        if model.jnt_limited[joint.id] and not np.allclose(limits[dof], joint.range, rtol=1e-6, atol=1e-6)
    ]
    mass = float(newton_model.body_mass.numpy().sum())
    moving = float(model.body_mass[model.body_weldid != 0].sum())
    return (
        f"{robot.name}: dofs {newton_model.joint_dof_count} ({model.nv}), mass {mass:.5f} kg ({moving:.5f}), "
        f"mass matrix off by {off.max(initial=0.0):.1e}"
        + (f", {impossible_links(robot)} impossible inertias" if robot.kind == "urdf" else "")
        + (f", no joint {missing[0]!r}" if missing else "")
        + (f", other limits of {wrong[0]!r}" if wrong else "")
    )


def main() -> None:
    """Compare all robots, or some."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", help="names, separated by commas (default: all)")
    wanted = parser.parse_args().robots
    for robot in list_robots():
        if wanted is None or robot.name in wanted.split(","):
            print(compare(robot), flush=True)


if __name__ == "__main__":
    main()
