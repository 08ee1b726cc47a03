"""Imported robots against other programs that read the same file: Drake for URDF, MuJoCo for MJCF, OpenUSD for USD.

Masses, centres of mass, inertias, joint limits, and link poses at a random configuration.
"""

from __future__ import annotations

import functools
import logging
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from importlib import metadata
from pathlib import Path

import mujoco
import newton
import newton.examples
import numpy as np
import pytest
import warp as wp

from sap_warp.scene import load_sap_scene
from tests.support.oracle.kinematics import matrix_from_quat

TOLERANCE = 1e-5
"""Of masses [kg], inertias [kg m^2], angles [rad], lengths [m]; the model is in single precision."""

ROBOTS = {
    "g1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "anymal_c": "anymal_c_simple_description/urdf/anymal.urdf",
    "go2": "go2_description/urdf/go2.urdf",
    "panda": "panda_description/urdf/panda.urdf",
    "ur10": "ur_description/urdf/ur10_robot.urdf",
    "so101": "so_arm_description/urdf/so101.urdf",
    "allegro": "allegro_hand_description/urdf/allegro_right_hand.urdf",
}
UNPHYSICAL = {
    "anymal_c": {"hatch", *(f"depth_camera_{side}_camera" for side in ("front", "rear", "left", "right"))},
    "so101": {"gripper_frame_link"},
    "allegro": {"link_3.0", "link_7.0", "link_11.0", "link_15.0"},
}
"""Links whose inertia in the file no body can have; Newton and Drake replace it, each in its way."""


def robot_data() -> Path:
    """Folder that ``package://example-robot-data`` stands for."""
    marker = "share/example-robot-data/robots/"
    file = next(file for file in metadata.files("example-robot-data") if marker in str(file))
    return Path(str(file.locate()).split("/robots/")[0])


def load(kind, source, **options):
    """Import one robot, without shapes that are only for the eye."""
    asset = {"type": kind, "source": source, "load_visual_shapes": False, **options}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Inertia validation corrected")
        return load_sap_scene({"assets": [asset], "ground": False}, device="cpu")


@functools.cache
def load_urdf(name):
    source = {"package": {"name": "example-robot-data", "path": f"robots/{ROBOTS[name]}"}}
    # Density 0: a link without inertia in the file has no mass, as the URDF format says.
    return load("urdf", source, floating=False, cfg={"density": 0.0})


class Robot:
    """What a model says about its bodies and joints, by the last part of their labels."""

    def __init__(self, loaded):
        self.model = loaded.sap_model
        self.bodies = {label.rsplit("/", 1)[-1]: i for i, label in enumerate(loaded.body_labels)}
        self.joints = {label.rsplit("/", 1)[-1]: i for i, label in enumerate(loaded.joint_labels)}
        self.q_start = self.model.joint_q_start.numpy()
        self.dof = self.model.joint_qd_start.numpy()
        for name in ("body_mass", "body_com", "body_inertia"):
            setattr(self, name, getattr(self.model, name).numpy())

    def moving(self):
        """Names of the joints that have one degree of freedom."""
        return [name for name, joint in self.joints.items() if self.dof[joint + 1] - self.dof[joint] == 1]

    def of_joint(self, array, name):
        return float(getattr(self.model, array).numpy()[self.dof[self.joints[name]]])

    def poses(self, angles):
        """Positions and rotation matrices of all bodies with these joint positions."""
        q = self.model.joint_q.numpy()
        for name, angle in angles.items():
            q[self.q_start[self.joints[name]]] = angle
        state = self.model.state()
        newton.eval_fk(self.model, wp.array(q, dtype=wp.float32, device="cpu"), self.model.joint_qd, state)
        poses = state.body_q.numpy()
        return {name: (poses[body, :3], matrix_from_quat(poses[body, 3:])) for name, body in self.bodies.items()}

    def random_angles(self, rng):
        return {
            name: rng.uniform(
                max(self.of_joint("joint_limit_lower", name), -2.0), min(self.of_joint("joint_limit_upper", name), 2.0)
            )
            for name in self.moving()
        }


def close(actual, expected, what):
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)


def file_inertia(name, link):
    """Inertia of a link as the file has it, in the axes of its inertial frame; None if it has none."""
    root = ElementTree.parse(robot_data() / "robots" / ROBOTS[name]).getroot()
    numbers = root.find(f"link[@name='{link}']/inertial/inertia")
    if numbers is None:
        return None
    xx, xy, xz, yy, yz, zz = (float(numbers.get(key)) for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def is_possible(inertia):
    """Whether some body has this inertia: moments are positive, and none exceeds the sum of the others."""
    moments = np.linalg.eigvalsh(np.asarray(inertia, dtype=float))
    return moments[0] > 0.0 and moments[2] <= (moments[0] + moments[1]) * (1.0 + 1e-5)


# URDF against Drake


@functools.cache
def drake_plant(name):
    from pydrake.multibody.parsing import Parser
    from pydrake.multibody.plant import MultibodyPlant

    plant = MultibodyPlant(0.0)
    parser = Parser(plant)
    parser.package_map().Add("example-robot-data", str(robot_data()))
    level = logging.getLogger("drake").level
    logging.getLogger("drake").setLevel(logging.ERROR)  # it has no geometry engine here, and says so for every mesh
    try:
        (instance,) = parser.AddModels(str(robot_data() / "robots" / ROBOTS[name]))
    finally:
        logging.getLogger("drake").setLevel(level)
    root = next(iter(Robot(load_urdf(name)).bodies))
    if root != "world":  # UR10's root is the world already
        plant.WeldFrames(plant.world_frame(), plant.GetFrameByName(root, instance))
    plant.Finalize()
    return plant, instance


def drake_bodies(name):
    """Bodies of both, by name; a root called world is not a body in Drake."""
    plant, instance = drake_plant(name)
    robot = Robot(load_urdf(name))
    for body, index in robot.bodies.items():
        if body != "world":
            yield body, index, plant.GetBodyByName(body, instance)


@pytest.mark.parametrize("name", ROBOTS)
def test_urdf_masses_and_inertias_are_those_of_drake(name):
    plant, _ = drake_plant(name)
    robot = Robot(load_urdf(name))
    close(robot.body_mass.sum(), plant.CalcTotalMass(plant.CreateDefaultContext()), "total mass")
    repaired = set()
    for body, index, theirs in drake_bodies(name):
        close(robot.body_mass[index], theirs.default_mass(), body)
        if theirs.default_mass() == 0.0:
            continue
        spatial = theirs.default_spatial_inertia()
        center = spatial.get_com()
        inertia = spatial.Shift(center).CalcRotationalInertia().CopyToFullMatrix3()
        close(robot.body_com[index], center, body)
        if is_possible(file_inertia(name, body)):
            close(robot.body_inertia[index], inertia, body)
            scale = np.abs(inertia).max()  # small links have inertias below the tolerance
            np.testing.assert_allclose(robot.body_inertia[index], inertia, atol=TOLERANCE * scale, err_msg=body)
        else:
            repaired.add(body)
            assert is_possible(robot.body_inertia[index])
    assert repaired == UNPHYSICAL.get(name, set())


@pytest.mark.parametrize("name", ROBOTS)
def test_urdf_joint_limits_are_those_of_drake(name):
    plant, instance = drake_plant(name)
    robot = Robot(load_urdf(name))
    assert len(robot.moving()) == plant.num_positions(instance)
    efforts = {
        plant.get_joint_actuator(index).joint().name(): plant.get_joint_actuator(index).effort_limit()
        for index in plant.GetJointActuatorIndices(instance)
    }
    for joint in robot.moving():
        theirs = plant.GetJointByName(joint, instance)
        close(robot.of_joint("joint_limit_lower", joint), theirs.position_lower_limits()[0], joint)
        close(robot.of_joint("joint_limit_upper", joint), theirs.position_upper_limits()[0], joint)
        close(robot.of_joint("joint_velocity_limit", joint), theirs.velocity_upper_limits()[0], joint)
        if joint in efforts:
            close(robot.of_joint("joint_effort_limit", joint), efforts[joint], joint)


@pytest.mark.parametrize("name", ROBOTS)
def test_urdf_link_poses_are_those_of_drake(name, rng):
    plant, instance = drake_plant(name)
    robot = Robot(load_urdf(name))
    angles = robot.random_angles(rng)
    context = plant.CreateDefaultContext()
    positions = plant.GetPositions(context)
    for joint, angle in angles.items():
        positions[plant.GetJointByName(joint, instance).position_start()] = angle
    plant.SetPositions(context, positions)
    poses = robot.poses(angles)
    for body, _, theirs in drake_bodies(name):
        pose = plant.EvalBodyPoseInWorld(context, theirs)
        close(poses[body][0], pose.translation(), body)
        close(poses[body][1], pose.rotation().matrix(), body)


# MJCF against MuJoCo

MJCF = ["nv_ant.xml", "nv_humanoid.xml"]


def newton_asset(file):
    return Path(newton.examples.get_asset(file))


@functools.cache
def load_mjcf(file):
    source = {"package": {"name": "newton", "path": f"examples/assets/{file}"}}
    return load("mjcf", source, ignore_names=["floor"], parse_sites=False)


@functools.cache
def mujoco_model(file):
    root = ElementTree.parse(newton_asset(file)).getroot()
    for sensors in root.findall("sensor"):
        root.remove(sensors)  # the humanoid's name a site that the file does not have, which MuJoCo refuses
    return mujoco.MjModel.from_xml_string(ElementTree.tostring(root, encoding="unicode"))


@pytest.mark.parametrize("file", MJCF)
def test_mjcf_masses_and_inertias_are_those_of_mujoco(file):
    theirs, robot = mujoco_model(file), Robot(load_mjcf(file))
    assert theirs.nbody - 1 == len(robot.bodies)
    close(robot.body_mass.sum(), theirs.body_mass.sum(), "total mass")
    for body, index in robot.bodies.items():
        other = theirs.body(body)
        principal = matrix_from_quat(np.roll(other.iquat, -1))
        inertia = principal @ np.diag(other.inertia) @ principal.T
        close(robot.body_mass[index], other.mass[0], body)
        close(robot.body_com[index], other.ipos, body)
        close(robot.body_inertia[index], inertia, body)


@pytest.mark.parametrize("file", MJCF)
def test_mjcf_joints_are_those_of_mujoco(file):
    """Newton makes one joint of all joints of a body; its degrees of freedom are in the order of the file."""
    theirs, robot = mujoco_model(file), Robot(load_mjcf(file))
    arrays = ("joint_limit_lower", "joint_limit_upper", "joint_armature", "joint_damping")
    lower, upper, armature, damping = (getattr(robot.model, name).numpy() for name in arrays)
    assert len(lower) == theirs.nv
    for joint in range(1, theirs.njnt):  # 0 is the free joint
        dof, name = int(theirs.jnt_dofadr[joint]), theirs.joint(joint).name
        close([lower[dof], upper[dof]], theirs.jnt_range[joint], name)
        close([armature[dof], damping[dof]], [theirs.dof_armature[dof], theirs.dof_damping[dof]], name)


@pytest.mark.parametrize("file", MJCF)
def test_mjcf_body_poses_are_those_of_mujoco(file, rng):
    theirs, robot = mujoco_model(file), Robot(load_mjcf(file))
    data = mujoco.MjData(theirs)
    data.qpos[7:] = rng.uniform(-0.5, 0.5, theirs.nq - 7)
    mujoco.mj_kinematics(theirs, data)
    q = robot.model.joint_q.numpy()
    q[:3] = data.qpos[:3]
    q[3:7] = np.roll(data.qpos[3:7], -1)  # wxyz to xyzw
    q[7:] = data.qpos[7:]
    state = robot.model.state()
    newton.eval_fk(robot.model, wp.array(q, dtype=wp.float32, device="cpu"), robot.model.joint_qd, state)
    poses = state.body_q.numpy()
    for body, index in robot.bodies.items():
        close(poses[index, :3], data.body(body).xpos, body)
        close(matrix_from_quat(poses[index, 3:]), data.body(body).xmat.reshape(3, 3), body)


# USD against what OpenUSD says about the stage

USD = ["ant.usda", "humanoid.usda", "cartpole.usda"]


@functools.cache
def load_usd(file):
    return load("usd", {"package": {"name": "newton", "path": f"examples/assets/{file}"}})


@pytest.mark.parametrize("file", USD)
def test_usd_bodies_and_joints_are_those_of_the_stage(file):
    from pxr import Usd, UsdGeom, UsdPhysics

    stage = Usd.Stage.Open(str(newton_asset(file)))
    loaded = load_usd(file)
    model, labels = loaded.sap_model, loaded.body_labels
    masses, poses = model.body_mass.numpy(), model.body_q.numpy()
    cache = UsdGeom.XformCache()
    bodies = joints = 0
    for prim in stage.Traverse():
        path = str(prim.GetPath())
        if prim.HasAPI(UsdPhysics.RigidBodyAPI):
            index = labels.index(path)
            bodies += 1
            place = cache.GetLocalToWorldTransform(prim).RemoveScaleShear()
            turn = place.ExtractRotationQuat()
            # Poses come from the joint frames, which the humanoid's file rounds to four digits.
            np.testing.assert_allclose(poses[index, :3], place.ExtractTranslation(), atol=1e-4, err_msg=path)
            expected = matrix_from_quat([*turn.GetImaginary(), turn.GetReal()])
            np.testing.assert_allclose(matrix_from_quat(poses[index, 3:]), expected, atol=1e-4, err_msg=path)
            mass = UsdPhysics.MassAPI(prim).GetMassAttr() if prim.HasAPI(UsdPhysics.MassAPI) else None
            if mass is not None and mass.HasAuthoredValue() and mass.Get() > 0.0:
                close(masses[index], mass.Get(), path)
        if prim.IsA(UsdPhysics.RevoluteJoint):
            joints += 1
            joint = UsdPhysics.RevoluteJoint(prim)
            dof = int(model.joint_qd_start.numpy()[loaded.joint_labels.index(path)])
            for array, angle in (
                ("joint_limit_lower", joint.GetLowerLimitAttr().Get()),
                ("joint_limit_upper", joint.GetUpperLimitAttr().Get()),
            ):
                if np.isfinite(angle):
                    close(getattr(model, array).numpy()[dof], np.deg2rad(angle), path)
    assert bodies == len(labels)
    assert joints or file == "humanoid.usda"


def test_humanoid_from_usd_and_from_mjcf_weigh_the_same():
    usd, mjcf = Robot(load_usd("humanoid.usda")), Robot(load_mjcf("nv_humanoid.xml"))
    close(usd.body_mass.sum(), mjcf.body_mass.sum(), "total mass")


# USD that was made from URDF against URDF

CONVERTED = ["g1", "go2", "panda", "ur10", "so101"]


@pytest.fixture(scope="module")
def convert(tmp_path_factory):
    """Robot from the USD file that the converter makes of a URDF file."""
    import urdf_usd_converter

    @functools.cache
    def convert(name):
        folder = tmp_path_factory.mktemp(name)
        packages = [{"name": "example-robot-data", "path": str(robot_data())}]
        converter = urdf_usd_converter.Converter(layer_structure=False, scene=False, ros_packages=packages)
        file = converter.convert(str(robot_data() / "robots" / ROBOTS[name]), str(folder)).path
        return Robot(load("usd", str(file), floating=False))

    return convert


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="urdf-usd-converter is for Python up to 3.12")
@pytest.mark.parametrize("name", CONVERTED)
def test_converted_usd_is_the_same_robot_as_its_urdf(name, convert, rng):
    """The converter leaves out links without mass and shape, and effort limits, for which USD has no place."""
    usd, urdf = convert(name), Robot(load_urdf(name))
    assert set(usd.bodies) <= set(urdf.bodies)
    for body in set(urdf.bodies) - set(usd.bodies):
        assert urdf.body_mass[urdf.bodies[body]] == 0.0
    for body, index in usd.bodies.items():
        other = urdf.bodies[body]
        if (
            urdf.body_mass[other] == 0.0
        ):  # the UR10's end effector: USD gives its shape, a cube of 1 cm, the density of water
            assert usd.body_mass[index] <= 1.001e-3
            continue
        close(usd.body_mass[index], urdf.body_mass[other], body)
        close(usd.body_com[index], urdf.body_com[other], body)
        close(usd.body_inertia[index], urdf.body_inertia[other], body)
    assert set(usd.moving()) == set(urdf.moving())
    for joint in urdf.moving():
        for array in ("joint_limit_lower", "joint_limit_upper", "joint_velocity_limit", "joint_damping"):
            close(usd.of_joint(array, joint), urdf.of_joint(array, joint), f"{array} of {joint}")
    angles = urdf.random_angles(rng)
    ours, theirs = usd.poses(angles), urdf.poses(angles)
    for body in usd.bodies:
        close(ours[body][0], theirs[body][0], body)
        close(ours[body][1], theirs[body][1], body)


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="urdf-usd-converter is for Python up to 3.12")
@pytest.mark.parametrize("name", ["anymal_c", "allegro"])
def test_converted_usd_has_the_same_mass_and_joints(name, convert):
    """Of ANYmal the converter merges links, of the Allegro hand it changes names; sums and ranges stay."""
    usd, urdf = convert(name), Robot(load_urdf(name))
    close(usd.body_mass.sum(), urdf.body_mass.sum(), "total mass")
    assert len(usd.moving()) == len(urdf.moving())
    for array in ("joint_limit_lower", "joint_limit_upper", "joint_velocity_limit", "joint_friction", "joint_damping"):
        ours, theirs = (np.sort([robot.of_joint(array, joint) for joint in robot.moving()]) for robot in (usd, urdf))
        close(ours, theirs, array)
