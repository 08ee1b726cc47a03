"""The scenes that `compare.py` runs in several engines: built with Newton, from which the other engines' are made.

Lengths in m, masses in kg, stiffness in N/m, angles in rad.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from typing import Any

import newton
import newton.examples
import numpy as np

from sap_warp import SolverSAP
from sap_warp.scene.assets.hulls import replace_meshes

STIFFNESS, DISSIPATION, FRICTION, GAP = 1.0e5, 0.01, 0.8, 0.002
IDENTITY = (0.0, 0.0, 0.0, 1.0)
ROBOT = {
    "collapse_fixed_joints": True,
    "enable_self_collisions": False,
    "joint_damping_mode": "passive",
    "parse_visuals_as_colliders": False,
}
"""How URDF files are read."""
PANDA_POSE = (0.0, 0.3, 0.0, -2.0, 0.0, 2.3, 0.785, 0.03, 0.03)
PANDA_REACH, PANDA_TIP = (0.0, 0.62, 0.0, -2.2, 0.0, 2.82, 0.785, 0.034, 0.034), 0.54
"""Fingers on both sides of a cube on the ground, and the cube's place [m]."""
GO2_LEG = [0.0, 0.8, -1.6]
ALLEGRO_FINGER, ALLEGRO_THUMB = [0.0, 0.9, 0.8, 0.6], [1.2, 0.3, 0.4, 0.4]


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


def _use_hulls(world: Any) -> None:
    """Convex hulls in place of all meshes, as assets of a scene have them."""
    replace_meshes(world, range(world.shape_count))


def _cube(world: Any) -> None:
    body = world.add_body(xform=((0.0, 0.0, 0.3), IDENTITY), label="cube")
    world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)


def _stack(world: Any) -> None:
    for i in range(10):
        body = world.add_body(xform=((0.0, 0.0, 0.1 + 0.2 * i), IDENTITY), label=f"box_{i}")
        world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)


def _add_asset(world: Any, file: str, height: float) -> None:
    options = {"ignore_names": ["floor"], "parse_sites": False, "enable_self_collisions": False}
    world.add_mjcf(newton.examples.get_asset(file), xform=((0.0, 0.0, height), IDENTITY), **options)


def _humanoid(world: Any) -> None:
    """Newton's humanoid without motor torques; the joint springs of its file are drives towards zero."""
    _add_asset(world, "nv_humanoid.xml", 1.34)  # any orientation is clear of the ground
    springs = world.custom_attributes["mujoco:dof_passive_stiffness"]
    for dof, stiffness in (springs.values or {}).items():
        if stiffness > 0.0:
            world.joint_target_ke[dof] = float(stiffness)
            world.joint_target_mode[dof] = int(newton.JointTargetMode.POSITION)
    springs.values = {}


def _ant(world: Any) -> None:
    """Newton's ant, standing under drives in the middle of its joint ranges."""
    _add_asset(world, "nv_ant.xml", 0.0)
    for dof in range(6, world.joint_dof_count):
        world.joint_q[dof + 1] = 0.5 * (world.joint_limit_lower[dof] + world.joint_limit_upper[dof])
    _drive(world, 10.0, 0.5, 0.01, 6)


def _add_legged(world: Any, file: str, height: float) -> None:
    world.add_urdf(_robot_file(f"robots/{file}"), xform=((0.0, 0.0, height), IDENTITY), **ROBOT, floating=True)


def _add_g1(world: Any) -> None:
    _add_legged(world, "g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf", 0.793)


def _g1(world: Any) -> None:
    """Unitree G1 with hands: URDF shapes, meshes as bounding boxes, standing under stiff drives."""
    _add_g1(world)
    world.approximate_meshes("bounding_box")
    _drive(world, 400.0, 10.0, 0.02, 6)


def _g1_hulls(world: Any) -> None:
    """The same with the convex hulls of its meshes."""
    _add_g1(world)
    _use_hulls(world)
    _drive(world, 400.0, 10.0, 0.02, 6)


def _go2_hulls(world: Any) -> None:
    """Unitree Go2 with the convex hulls of its meshes, standing under drives."""
    _add_legged(world, "go2_description/urdf/go2.urdf", 0.338)
    _use_hulls(world)
    world.joint_q[7:] = GO2_LEG * 4
    _drive(world, 100.0, 3.0, 0.01, 6)


def _add_panda(world: Any, file: str, pose: tuple[float, ...], height: float = 0.0) -> None:
    place = ((0.0, 0.0, height), IDENTITY)
    world.add_urdf(_robot_file(f"robots/panda_description/urdf/{file}"), xform=place, **ROBOT, floating=False)
    world.joint_mimic_joint = [-1] * world.joint_count
    world.joint_q[:9] = pose
    _drive(world, 400.0, 40.0, 0.1, 0)


def _panda(world: Any) -> None:
    """Franka Panda that holds a pose above a cube on the ground; its fingers are two joints, not a mimic pair."""
    _add_panda(world, "panda_collision.urdf", PANDA_POSE)
    body = world.add_body(xform=((0.6, 0.0, 0.05), IDENTITY), label="cube")
    world.add_shape_box(body, hx=0.03, hy=0.03, hz=0.03)


def _panda_hulls(world: Any) -> None:
    """The convex hulls of the Panda's meshes, its fingers around a cube on the ground; its palm comes to rest on it."""
    _add_panda(world, "panda.urdf", PANDA_REACH, 0.03)
    _use_hulls(world)
    body = world.add_body(xform=((PANDA_TIP, 0.0, 0.03), IDENTITY), label="cube")
    world.add_shape_box(body, hx=0.03, hy=0.03, hz=0.03)


def _allegro_hulls(world: Any) -> None:
    """The Allegro hand with the convex hulls of its visual meshes, palm up; a cube lies in it."""
    tilt = -0.5 * (0.5 * np.pi + 0.2)
    world.add_urdf(
        _robot_file("robots/allegro_hand_description/urdf/allegro_right_hand.urdf"),
        xform=((0.0, 0.0, 0.3), (0.0, float(np.sin(tilt)), 0.0, float(np.cos(tilt)))),
        **ROBOT | {"parse_visuals_as_colliders": True},
        floating=False,
    )
    _use_hulls(world)
    world.joint_q[:16] = ALLEGRO_FINGER * 3 + ALLEGRO_THUMB
    _drive(world, 5.0, 0.1, 0.001, 0)
    lean = (0.0, float(np.sin(-0.1)), 0.0, float(np.cos(-0.1)))
    body = world.add_body(xform=((0.005, 0.0, 0.36), lean), label="cube")
    world.add_shape_box(body, hx=0.025, hy=0.025, hz=0.025, cfg=newton.ModelBuilder.ShapeConfig(density=300.0))


def _pen(world: Any, wall: float, height: float) -> None:
    """Four walls around the origin."""
    for x, y in ((wall, 0.0), (-wall, 0.0), (0.0, wall), (0.0, -wall)):
        hx, hy = (0.02, wall) if x else (wall, 0.02)
        world.add_shape_box(-1, xform=((x, y, height), IDENTITY), hx=hx, hy=hy, hz=height)


def _poured(count: int) -> Iterator[tuple[int, int, tuple[float, float, float]]]:
    """Number, layer and place of items that fall into a pen in layers of nine."""
    for i in range(count):
        layer, place = divmod(i, 9)
        x, y = 0.12 * (place % 3 - 1), 0.12 * (place // 3 - 1)
        lean = 0.006 * (layer % 3 - 1)
        yield i, layer, (x + lean, y - lean, 0.07 + 0.12 * layer)


def _pile(world: Any) -> None:
    """Fifty boxes of several sizes poured into a square pen."""
    _pen(world, 0.22, 0.4)
    for i, layer, place in _poured(50):
        half = 0.25 * layer
        turn = (0.0, float(np.sin(half)), 0.0, float(np.cos(half)))
        body = world.add_body(xform=(place, turn), label=f"box_{i}")
        world.add_shape_box(body, hx=0.025 + 0.005 * (i % 3), hy=0.03, hz=0.02 + 0.005 * (i % 4))


def _clutter(world: Any) -> None:
    """Fifty balls and capsules poured into a square pen: shapes that every engine gives the same few contacts."""
    _pen(world, 0.22, 0.4)
    for i, _, place in _poured(50):
        body = world.add_body(xform=(place, IDENTITY), label=f"item_{i}")
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
        Scene("pile", "fifty boxes in a pen", _pile, 900, 16, 5.0, tolerance=0.02, height_of="mean"),
        Scene("g1_hulls", "Unitree G1 with hands, hulls of its meshes", _g1_hulls, 96, 64, 2.0),
        Scene("go2_hulls", "Unitree Go2, hulls of its meshes", _go2_hulls, 96, 64, 2.0),
        Scene(
            "panda_hulls",
            "Panda about to grasp a cube, hulls",
            _panda_hulls,
            48,
            64,
            2.0,
            height_of="last",
            hydroelastic=True,
        ),
        Scene("allegro_hulls", "Allegro hand with a cube, hulls", _allegro_hulls, 96, 64, 2.0, height_of="last"),
    )
}

HULL_SCENES = tuple(name for name in SCENES if name.endswith("_hulls"))
"""Robots with the convex hulls of their meshes."""
