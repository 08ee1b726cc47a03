"""Robots by name: where they are found, and that they stand in their home pose."""

from __future__ import annotations

import numpy as np
import pytest

from sap_warp import Simulation
from sap_warp.cli import main
from sap_warp.robots import UnknownRobotError, find_robot, list_robots, robot_scene
from sap_warp.robots.home import DAMPING_TIME, PER_METRE, PER_RADIAN, read_home

ARM = """<mujoco><worldbody><body name="l"><joint name="j" range="-90 90"/>
<geom size="0.1" mass="1" pos="0.3 0 1"/></body>
</worldbody><actuator><position joint="j" kp="50" kv="5"/></actuator>
<keyframe><key name="other" qpos="0.1" ctrl="0.1"/><key name="home" qpos="0.5" ctrl="0.5"/></keyframe></mujoco>"""
URDF = """<robot name="r"><link name="base"/><link name="tip"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="slide" type="prismatic"><parent link="base"/><child link="tip"/><axis xyz="1 0 0"/>
<limit lower="0.1" upper="0.3" effort="{effort}" velocity="1"/></joint>
<transmission name="t"><joint name="slide"/></transmission></robot>"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of robots, and none of other places that this machine may have."""
    monkeypatch.setenv("SAP_WARP_ROBOTS", str(tmp_path / "own"))
    monkeypatch.setenv("SAP_WARP_MENAGERIE", str(tmp_path / "menagerie"))
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "lever.xml").write_text(ARM)
    (tmp_path / "own" / "slider").mkdir()
    (tmp_path / "own" / "slider" / "slider.urdf").write_text(URDF.format(effort=40))
    vendor = tmp_path / "menagerie" / "unitree_go2"
    vendor.mkdir(parents=True)
    for name in ("go2.xml", "go2_mjx.xml", "scene.xml"):
        (vendor / name).write_text(ARM)
    return tmp_path


def test_places_are_searched_in_order_and_can_be_named(folder):
    assert find_robot("lever").kind == "mjcf" and find_robot("slider").kind == "urdf"
    assert find_robot("go2").path.name == "go2.xml" and find_robot("go2").place == "menagerie"
    assert find_robot("unitree_go2") == find_robot("menagerie:unitree_go2")
    assert find_robot("example-robot-data:go2").path.name == "go2.urdf"
    assert find_robot("g1").name == "g1_29dof_rev_1_0" and find_robot("humanoid").place == "newton"


def test_unknown_robot_is_told_the_nearest_names(folder):
    with pytest.raises(UnknownRobotError, match=r"unknown robot 'panada'\..*'panda'"):
        find_robot("panada")
    with pytest.raises(TypeError, match="by its name"):
        find_robot(3)


def test_every_robot_has_a_scene_of_its_own():
    robots = list_robots()
    assert len({(robot.place, robot.name) for robot in robots}) == len(robots) > 40
    for robot in robots:
        assert robot_scene(robot)["assets"][0]["type"] == robot.kind


def test_gains_follow_from_the_strength_of_the_motor(folder):
    home = read_home(folder / "own" / "slider" / "slider.urdf")
    assert home.gains == {"slide": (40 * PER_METRE, 40 * PER_METRE * DAMPING_TIME)}
    assert home.joints == {"slide": pytest.approx(0.2)} and home.base is None  # zero is not within the limits
    go2 = read_home(find_robot("example-robot-data:go2").path)
    assert go2.base == [0, 0, 0.335, 0, 0, 0, 1] and go2.joints["FL_calf_joint"] == -1.44
    assert go2.gains["FL_hip_joint"][0] == pytest.approx(PER_RADIAN * 23.7, rel=0.1)


def test_mjcf_robot_starts_from_its_home_keyframe_and_holds_it(folder):
    sim = Simulation.from_robot("lever", dt=0.005)
    assert np.array(sim.joint_q).ravel() == pytest.approx(0.5)
    sim.step(200)
    assert np.array(sim.joint_q).ravel() == pytest.approx(0.5, abs=0.06)  # it carries its own weight


def test_quadruped_stands():
    sim = Simulation.from_robot("example-robot-data:go2", asset={"load_visual_shapes": False})
    start = np.array(sim.joint_q).ravel()
    sim.step(500)
    q = np.array(sim.joint_q).ravel()
    assert abs(q[2] - start[2]) < 0.02 and np.abs(q[7:] - start[7:]).max() < 0.05
    assert sim.statistics.not_converged == 0


def test_command_line_lists_and_runs_them(folder, capsys):
    assert main(["robots"]) == 0
    assert "lever" in capsys.readouterr().out
    assert main(["run", "--robot", "lever", "--num-worlds", "2", "--duration", "0.02"]) == 0
    assert main(["run", "--robot", "levr"]) == 2
    assert "Did you mean 'lever'" in capsys.readouterr().err
    assert main(["run", "free_cube", "--robot", "lever"]) == 2
    assert "not both" in capsys.readouterr().err
