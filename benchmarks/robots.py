"""The scenes that `compare.py` runs in several engines: built with Newton, from which the other engines' are made.

Lengths in m, masses in kg, stiffness in N/m, angles in rad.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import distribution
from typing import Any

import newton
import newton.examples
import numpy as np

from sap_warp import SolverSAP

STIFFNESS, DISSIPATION, FRICTION, GAP = 1.0e5, 0.01, 0.8, 0.002
IDENTITY = (0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class Scene:
    """A scene and how to compare it."""

    name: str
    summary: str
    fill: Callable[[Any], None]
    max_rigid_contact: int
    worlds: int
    """Worlds of the comparison of throughput."""
    settle: float
    """Time after which it is at rest [s]."""
    dt: float = 0.005
    tilt: float = 0.0
    """Largest random rotation of floating bases [rad]."""
    spread: float = 0.0
    """Part of the range of each hinge in which random positions lie."""
    shift: float = 0.0
    """Largest random displacement of floating bodies [m]."""
    tolerance: float = 0.01
    """Largest difference of heights at rest that counts as the same scene [m]."""
    height_of: str = "first"
    """Whose height is compared: of the ``first`` or the ``last`` body, or the ``mean`` over all bodies."""
    hydroelastic: bool = False
    """Whether Drake uses hydroelastic contact: its point contact has one point per pair, on which no box rests."""
    falls: bool = False
    """Whether the first two seconds are timed too."""


def new_builder() -> Any:
    """A builder with the materials of all scenes."""
    builder = newton.ModelBuilder()
    SolverSAP.register_custom_attributes(builder)
    builder.rigid_gap = GAP
    builder.default_shape_cfg.ke = STIFFNESS
    builder.default_shape_cfg.mu = FRICTION
    return builder


@functools.cache
def build_world(scene: Scene) -> Any:
    """A builder with one world; reading robots with meshes takes seconds."""
    world = new_builder()
    scene.fill(world)
    world.shape_material_ke = [STIFFNESS] * world.shape_count
    world.shape_material_mu = [FRICTION] * world.shape_count
    world.shape_margin = [0.0] * world.shape_count
    world.shape_gap = [GAP] * world.shape_count
    return world


@functools.lru_cache(maxsize=2)
def build(scene: Scene, worlds: int, seed: int = 1) -> newton.Model:
    """So many worlds, each from its own random pose. Engines share the model and do not change it."""
    builder = new_builder()
    builder.replicate(build_world(scene), worlds)
    builder.add_ground_plane()
    model = builder.finalize("cpu")
    model.sap.shape_material_tau.fill_(DISSIPATION)
    _scatter(model, scene, seed)
    return model


def _scatter(model: newton.Model, scene: Scene, seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, kinds = model.joint_q.numpy(), model.joint_type.numpy()
    starts, dofs = model.joint_q_start.numpy(), model.joint_qd_start.numpy()
    lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
    for joint, kind in enumerate(kinds):
        i = starts[joint]
        if kind == int(newton.JointType.FREE):
            q[i : i + 2] += rng.uniform(-scene.shift, scene.shift, 2)
            axis = rng.normal(size=3)
            axis /= np.linalg.norm(axis)
            half = 0.5 * rng.uniform(0.0, scene.tilt)
            if scene.tilt > 0.0:
                q[i + 3 : i + 7] = [*(np.sin(half) * axis), np.cos(half)]
        elif scene.spread > 0.0:
            d = slice(dofs[joint], dofs[joint + 1])
            middle, reach = 0.5 * (lower[d] + upper[d]), 0.5 * (upper[d] - lower[d])
            q[i : starts[joint + 1]] = middle + scene.spread * reach * rng.uniform(-1.0, 1.0, len(middle))
    model.joint_q.assign(q)
    state = model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    model.body_q.assign(state.body_q)


def _robot_file(name: str) -> str:
    """A file of the distribution example-robot-data, by the end of its path."""
    for file in distribution("example-robot-data").files or []:
        if str(file).endswith(name):
            return str(file.locate())
    raise FileNotFoundError(f"example-robot-data has no {name}")


def _drive(world: Any, stiffness: float, damping: float, armature: float, first_dof: int) -> None:
    """Position drives of all dofs from ``first_dof`` on, towards where they are now."""
    for dof in range(first_dof, world.joint_dof_count):
        world.joint_target_mode[dof] = int(newton.JointTargetMode.POSITION)
        world.joint_target_ke[dof], world.joint_target_kd[dof] = stiffness, damping
        world.joint_armature[dof] = armature
        world.joint_effort_limit[dof] = 1.0e6
        world.joint_velocity_limit[dof] = 1.0e6
        world.joint_friction[dof] = 0.0
    world.joint_target_q[:] = world.joint_q


def _cube(world: Any) -> None:
    body = world.add_body(xform=((0.0, 0.0, 0.3), IDENTITY), label="cube")
    world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)


def _stack(world: Any) -> None:
    for i in range(10):
        body = world.add_body(xform=((0.0, 0.0, 0.1 + 0.2 * i), IDENTITY), label=f"box_{i}")
        world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)


def _humanoid(world: Any) -> None:
    """Newton's humanoid without motor torques; the joint springs of its file are drives towards zero."""
    world.add_mjcf(
        newton.examples.get_asset("nv_humanoid.xml"),
        xform=((0.0, 0.0, 1.34), IDENTITY),  # any orientation is clear of the ground
        ignore_names=["floor"],
        parse_sites=False,
        enable_self_collisions=False,
    )
    springs = world.custom_attributes["mujoco:dof_passive_stiffness"]
    for dof, stiffness in (springs.values or {}).items():
        if stiffness > 0.0:
            world.joint_target_ke[dof] = float(stiffness)
            world.joint_target_mode[dof] = int(newton.JointTargetMode.POSITION)
    springs.values = {}


def _ant(world: Any) -> None:
    """Newton's ant, standing under drives in the middle of its joint ranges."""
    world.add_mjcf(
        newton.examples.get_asset("nv_ant.xml"),
        xform=((0.0, 0.0, 0.0), IDENTITY),
        ignore_names=["floor"],
        parse_sites=False,
        enable_self_collisions=False,
    )
    for dof in range(6, world.joint_dof_count):
        world.joint_q[dof + 1] = 0.5 * (world.joint_limit_lower[dof] + world.joint_limit_upper[dof])
    _drive(world, 10.0, 0.5, 0.01, 6)


def _g1(world: Any) -> None:
    """Unitree G1 with hands: URDF shapes, meshes as bounding boxes, standing under stiff drives."""
    world.add_urdf(
        _robot_file("robots/g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf"),
        xform=((0.0, 0.0, 0.793), IDENTITY),
        floating=True,
        collapse_fixed_joints=True,
        enable_self_collisions=False,
        joint_damping_mode="passive",
        parse_visuals_as_colliders=False,
    )
    world.approximate_meshes("bounding_box")
    _drive(world, 400.0, 10.0, 0.02, 6)


PANDA_POSE = (0.0, 0.3, 0.0, -2.0, 0.0, 2.3, 0.785, 0.03, 0.03)


def _panda(world: Any) -> None:
    """Franka Panda that holds a pose above a cube on the ground; its fingers are two joints, not a mimic pair."""
    world.add_urdf(
        _robot_file("robots/panda_description/urdf/panda_collision.urdf"),
        floating=False,
        collapse_fixed_joints=True,
        enable_self_collisions=False,
        joint_damping_mode="passive",
        parse_visuals_as_colliders=False,
    )
    world.joint_mimic_joint = [-1] * world.joint_count
    world.joint_q[:9] = PANDA_POSE
    _drive(world, 400.0, 40.0, 0.1, 0)
    body = world.add_body(xform=((0.6, 0.0, 0.05), IDENTITY), label="cube")
    world.add_shape_box(body, hx=0.03, hy=0.03, hz=0.03)


def _clutter(world: Any) -> None:
    """Fifty balls and capsules poured into a square pen: shapes that every engine gives the same few contacts."""
    wall, height = 0.22, 0.4
    for x, y in ((wall, 0.0), (-wall, 0.0), (0.0, wall), (0.0, -wall)):
        hx, hy = (0.02, wall) if x else (wall, 0.02)
        world.add_shape_box(-1, xform=((x, y, height), IDENTITY), hx=hx, hy=hy, hz=height)
    for i in range(50):
        layer, place = divmod(i, 9)
        x, y = 0.12 * (place % 3 - 1), 0.12 * (place // 3 - 1)
        lean = 0.006 * (layer % 3 - 1)
        body = world.add_body(xform=((x + lean, y - lean, 0.07 + 0.12 * layer), IDENTITY), label=f"item_{i}")
        if i % 2:
            world.add_shape_capsule(body, radius=0.03, half_height=0.02)
        else:
            world.add_shape_sphere(body, radius=0.045)


SCENES = {
    scene.name: scene
    for scene in (
        Scene("cube", "free cube, 8 kg", _cube, 16, 256, 3.0, tilt=3.1416, hydroelastic=True),
        Scene(
            "stack",
            "tower of ten boxes",
            _stack,
            96,
            64,
            2.0,
            tolerance=0.02,
            height_of="mean",
            hydroelastic=True,
        ),
        Scene("ant", "ant, 14 dofs, standing", _ant, 48, 256, 4.0, tilt=0.3, spread=0.3, tolerance=0.02),
        Scene(
            "humanoid",
            "humanoid, 27 dofs, springs in its joints",
            _humanoid,
            64,
            256,
            8.0,
            tilt=3.1416,
            spread=0.5,
            tolerance=0.05,
            falls=True,
        ),
        Scene("g1", "Unitree G1 with hands, 49 dofs, standing", _g1, 96, 64, 2.0, tolerance=0.01),
        Scene(
            "panda",
            "Panda holding a pose, cube on the ground",
            _panda,
            48,
            64,
            2.0,
            height_of="last",
            hydroelastic=True,
        ),
        Scene("clutter", "fifty balls and capsules in a pen", _clutter, 400, 16, 5.0, tolerance=0.02, height_of="mean"),
    )
}
