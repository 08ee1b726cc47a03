"""Robots by name: where they are found, and that they stand in their home pose."""

from __future__ import annotations

import re

import mujoco
import numpy as np
import pytest

from sap_warp import Simulation
from sap_warp.cli import main
from sap_warp.scene import SapSceneError
from sap_warp.scene.robots import UnknownRobotError, find_robot, list_robots, robot_scene
from sap_warp.scene.robots.home import DAMPING_TIME, FIXED_BASE, PER_METRE, PER_RADIAN, read_home

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


@pytest.mark.parametrize(
    ("scene", "height"),
    [
        ('<include file="hand.xml"/><worldbody><geom type="plane" pos="0 0 -0.1" size="0 0 1"/></worldbody>', -0.1),
        ('<include file="hand.xml"/><worldbody><geom type="plane" pos="0 0 -2" zaxis="1 0 0"/></worldbody>', 0.0),
        ('<include file="other.xml"/><worldbody><geom type="plane" pos="0 0 -0.1"/></worldbody>', 0.0),
        ("<unfinished>", 0.0),
    ],
)
def test_the_ground_is_where_the_scene_beside_the_robot_has_it(folder, scene, height):
    """A hand may reach below its origin; the Menagerie's scene of it has a lower floor."""
    hand = folder / "menagerie" / "some_gripper"
    hand.mkdir()
    (hand / "hand.xml").write_text(ARM)
    (hand / "key.xml").write_text("<mujoco><keyframe/></mujoco>")  # is included by others, and no robot
    (hand / "scene_left.xml").write_text(f"<mujoco>{scene}</mujoco>")
    assert find_robot("some_gripper").path.name == "hand.xml"
    assert robot_scene("some_gripper")["ground"] == {"enabled": True, "height": height}


def test_gains_follow_from_the_strength_of_the_motor(folder):
    home = read_home(folder / "own" / "slider" / "slider.urdf")
    stiffness = 40 * PER_METRE * FIXED_BASE
    assert home.gains == {"slide": (stiffness, stiffness * DAMPING_TIME)}
    assert home.joints == {"slide": pytest.approx(0.2)} and home.base is None  # zero is not within the limits
    go2 = read_home(find_robot("example-robot-data:go2").path)
    assert go2.base == [0, 0, 0.335, 0, 0, 0, 1] and go2.joints["FL_calf_joint"] == -1.44
    assert go2.gains["FL_hip_joint"][0] == pytest.approx(PER_RADIAN * 23.7, rel=0.1)


def test_angles_of_a_home_pose_are_turned_into_the_limits():
    """The SRDF of this arm writes -1.57 where the joint moves from 0.33 to 5.95."""
    home = read_home(find_robot("example-robot-data:kinova").path)
    assert home.joints["j2s6s200_joint_3"] == pytest.approx(-1.57 + 2 * np.pi, abs=0.01)


def test_fixed_robot_that_reaches_below_its_base_is_mounted_higher():
    """Its legs would stand in the ground; heights of links are those of MuJoCo's kinematics."""
    path = find_robot("example-robot-data:romeo_small").path
    home, text = read_home(path), path.read_text()
    text = re.sub(r"(?s)<(visual|collision)>.*?</\1>", "", text)
    reference = mujoco.MjModel.from_xml_string(
        text.replace("</robot>", '<mujoco><compiler fusestatic="false" balanceinertia="true"/></mujoco></robot>')
    )
    data = mujoco.MjData(reference)
    for name, value in home.joints.items():
        data.joint(name).qpos = value
    mujoco.mj_kinematics(reference, data)
    assert home.lowest == pytest.approx(data.xpos[:, 2].min(), abs=1e-6) and home.lowest < -0.5
    scene = robot_scene("example-robot-data:romeo_small")
    assert scene["assets"][0]["xform"]["p"][2] == pytest.approx(1.0 - home.lowest)


def test_urdf_without_links_is_no_robot():
    assert find_robot("ur3").name == "ur3_robot"


def test_time_step_of_the_file_is_used_and_said(folder):
    text = ARM.replace("<worldbody>", '<option timestep="0.004"/><worldbody>', 1)
    (folder / "own" / "slow.xml").write_text(text)
    (folder / "own" / "part.xml").write_text("<mujoco><include file='slow.xml'/></mujoco>")
    for name in ("slow", "part"):
        sim = Simulation.from_robot(name)
        assert sim.dt == 0.004
        assert any(note.id == "time-step" and "slow.xml:1" in note.message for note in sim.notes)
    chosen = Simulation.from_robot("slow", dt=0.001)
    assert chosen.dt == 0.001 and not any(note.id == "time-step" for note in chosen.notes)
    assert Simulation.from_robot("lever").dt == 0.002
    file = folder / "own" / "slow.xml"
    assert Simulation.from_scene(file).dt == 0.004
    scene = {"assets": [{"type": "mjcf", "source": {"path": str(file)}}]}
    assert Simulation.from_scene(scene).dt == 0.004
    assert Simulation.from_scene(scene | {"simulation": {"dt": 0.002}}).dt == 0.002
    file.write_text(text.replace("0.004", "0"))
    with pytest.raises(SapSceneError, match=r"slow.xml:1: the timestep is 0; it must be positive"):
        Simulation.from_scene(file)


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


def test_ant_stands_although_the_ground_of_its_file_is_a_wall():
    sim = Simulation.from_robot("newton:ant", dt=0.005)
    sim.step(200)
    q = np.array(sim.joint_q).ravel()
    assert 0.2 < q[2] < 0.8 and np.abs(q[:2]).max() < 0.3


def test_command_line_lists_and_runs_them(folder, capsys):
    assert main(["robots"]) == 0
    assert "lever" in capsys.readouterr().out
    assert main(["run", "--robot", "lever", "--num-worlds", "2", "--duration", "0.02"]) == 0
    assert main(["run", "--robot", "levr"]) == 2
    assert "Did you mean 'lever'" in capsys.readouterr().err
    assert main(["run", "free_cube", "--robot", "lever"]) == 2
    assert "not both" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["finger_edu", "alex_nub_hands", "xarm"])
def test_a_fixed_base_keeps_its_links_out_of_the_ground(name):
    """Their files say how the joints are, and not that hands or tips hang below the base."""
    sim = Simulation.from_robot(f"example-robot-data:{name}", num_worlds=1, asset={"load_visual_shapes": False})
    sim.step(3)
    assert not sim.contact_counts.any() and "overlap" not in {note.id for note in sim.notes}
