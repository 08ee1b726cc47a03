"""Robots without a scene, and inverse kinematics for them."""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import Simulation
from sap_warp.cli import main

URDF = """<robot name="box"><link name="base"><inertial><mass value="2"/>
<inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><origin xyz="0 0 0.1"/><geometry><box size="0.2 0.2 0.2"/></geometry></collision></link></robot>"""
MJCF = """<mujoco model="arm"><worldbody>{floor}
<body name="a" pos="0 0 1"><joint name="j1" type="hinge" axis="0 0 1"/>
<geom type="capsule" fromto="0 0 0 0.5 0 0" size="0.03"/>
<body name="b" pos="0.5 0 0"><joint name="j2" type="hinge" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03"/>
<body name="c" pos="0.4 0 0"><joint name="j3" type="hinge" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/></body></body></body></worldbody></mujoco>"""
FLOOR = '<geom type="plane" size="5 5 0.1"/>'
USD = """#usda 1.0
(
    defaultPrim = "World"
    upAxis = "Z"
    metersPerUnit = 1
)
def Xform "World"
{
    def Cube "box" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"])
    {
        double size = 0.2
        float physics:mass = 1
        double3 xformOp:translate = (0, 0, 0.3)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
}
"""


@pytest.mark.parametrize(
    "name, text, planes", [("a.urdf", URDF, 1), ("a.xml", MJCF.format(floor=""), 1), ("b.usda", USD, 1)]
)
def test_robot_files_become_scenes(tmp_path, name, text, planes):
    """With a ground and defaults, and a note that says so."""
    path = tmp_path / name
    path.write_text(text)
    with Simulation.from_scene(path, num_worlds=2) as sim:
        assert (sim.model.shape_type.numpy() == int(newton.GeoType.PLANE)).sum() == planes
        assert sim.dt == 0.005 and sim.name == path.stem
        note = next(note for note in sim.notes if note.id == "robot-file")
        assert "a ground plane at height 0" in note.message and str(path) in str(note)
        np.testing.assert_allclose(sim.model.shape_material_ke.numpy(), 1e5)


def test_a_file_keeps_its_own_ground(tmp_path, caplog):
    """An MJCF floor is not doubled; the command line takes robot files as well."""
    path = tmp_path / "arm.xml"
    path.write_text(MJCF.format(floor=FLOOR))
    with Simulation.from_scene(path, num_worlds=1, notes=False) as sim:
        assert (sim.model.shape_type.numpy() == int(newton.GeoType.PLANE)).sum() == 1
        assert "the ground of the file" in sim.notes[0].message
    assert main(["run", str(path), "--num-worlds", "1", "--duration", "0.05"]) == 0
    assert "robot-file" in caplog.text


def test_inverse_kinematics_brings_the_hand_to_its_targets(tmp_path):
    """The recipe of docs/sensors.md: one problem for each world, and the simulation agrees about where the hand is."""
    from newton.ik import IKObjectivePosition, IKSolver

    path = tmp_path / "arm.xml"
    path.write_text(MJCF.format(floor=""))
    targets = np.array([[0.6, 0.5, 1.2], [0.7, -0.3, 0.7], [-0.5, 0.6, 1.4]], np.float32)
    with Simulation.from_scene(path, num_worlds=1, notes=False) as one:
        hand = int(one.find_bodies("c").indices[0])
        goal = wp.array(targets, dtype=wp.vec3)
        objective = IKObjectivePosition(link_index=hand, link_offset=wp.vec3(0.3, 0.0, 0.0), target_positions=goal)
        q = wp.array(np.tile([0.1, 0.2, 0.3], (3, 1)).astype(np.float32), dtype=wp.float32)
        solver = IKSolver(model=one.model, n_problems=3, objectives=[objective])
        solver.step(q, q, iterations=60)
    with Simulation.from_scene(path, num_worlds=3, notes=False) as sim:
        sim.reset(joint_q=q.numpy())
        poses = sim.body_q["c"].numpy()
        tips = [np.array(wp.transform_point(wp.transform(*pose), wp.vec3(0.3, 0.0, 0.0))) for pose in poses]
        np.testing.assert_allclose(tips, targets, atol=2e-3)
