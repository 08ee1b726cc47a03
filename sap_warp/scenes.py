"""Small scenes built in Python, and a way to run them: what the command line, tests and benchmarks share.

`BUILTIN_SCENES` is readable without Newton or Warp; both are imported when a scene is built.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .scene_files import UnknownSceneError

if TYPE_CHECKING:
    import newton
    import numpy as np

GAP = 0.002
"""Distance between two shapes at which the collision pipeline starts to report contacts, per shape [m]."""


@dataclass(frozen=True)
class BuiltinScene:
    """A scene and the settings it runs well with."""

    name: str
    summary: str
    """One line for listings."""
    fill: "Callable[[newton.ModelBuilder], None]"
    """Adds the content of one world to a builder; the ground is added once for all worlds."""
    dt: float
    """Time step [s]."""
    max_rigid_contact: int
    """Contacts that one world can hold."""
    tilt: float = 0.0
    """Largest rotation of a floating body in `randomize_start` [rad]."""
    shift: float = 0.0
    """Largest horizontal displacement of a floating body in `randomize_start` [m]."""


def find_scene(name: str) -> BuiltinScene:
    """Return the built-in scene called ``name``.

    Raises:
        UnknownSceneError: There is none; the message names the nearest one and lists all.
    """
    if name in BUILTIN_SCENES:
        return BUILTIN_SCENES[name]
    near = difflib.get_close_matches(name.lower(), BUILTIN_SCENES, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UnknownSceneError(f"unknown scene {name!r}.{hint} Built-in scenes: {', '.join(BUILTIN_SCENES)}.")


def build_scene(name: str, num_worlds: int = 1, device: Any = None) -> "tuple[newton.Model, BuiltinScene]":
    """Build ``num_worlds`` copies of a built-in scene.

    Args:
        name: A key of `BUILTIN_SCENES`.
        num_worlds: Independent copies, all at the same place: worlds do not see each other.
        device: Warp device; None is Warp's default.

    Returns:
        The model, and the scene with its time step and contact capacity.
    """
    scene = find_scene(name)
    world, builder = _new_builder(), _new_builder()
    scene.fill(world)
    builder.replicate(world, num_worlds)
    builder.add_ground_plane()
    model = builder.finalize(device)
    _set_dissipation(model)
    return model, scene


# The scenes. Lengths in m, masses in kg, stiffness in N/m.

_DISSIPATION_TIME = 0.01
"""tau of every shape [s]; a pair has the sum of both."""


def _new_builder() -> Any:
    import newton

    from .solver import SolverSAP

    builder = newton.ModelBuilder()
    SolverSAP.register_custom_attributes(builder)
    builder.rigid_gap = GAP
    builder.default_shape_cfg.ke = 1.0e5
    builder.default_shape_cfg.mu = 0.8
    return builder


def _set_dissipation(model: Any) -> None:
    """Importers and the ground plane take no custom attributes, so the value is set for all shapes alike."""
    model.sap.shape_material_tau.fill_(_DISSIPATION_TIME)


def _cube(world: Any) -> None:
    body = world.add_body(xform=((0.0, 0.0, 0.3), (0.0, 0.0, 0.0, 1.0)), label="cube")
    world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)


def _stack(world: Any) -> None:
    half = 0.1
    for i in range(10):
        body = world.add_body(xform=((0.0, 0.0, half + 2.0 * half * i), (0.0, 0.0, 0.0, 1.0)), label=f"box_{i}")
        world.add_shape_box(body, hx=half, hy=half, hz=half)


def _spheres(world: Any) -> None:
    """Twenty balls dropped into a square pen; every layer is shifted a little, so that they do not stay in columns."""
    radius, wall = 0.05, 0.13
    for x, y in ((wall, 0.0), (-wall, 0.0), (0.0, wall), (0.0, -wall)):
        hx, hy = (0.01, wall) if x else (wall, 0.01)
        world.add_shape_box(-1, xform=((x, y, 0.25), (0.0, 0.0, 0.0, 1.0)), hx=hx, hy=hy, hz=0.25)
    for i in range(20):
        layer, place = divmod(i, 4)
        x, y = (-1.0, 1.0)[place % 2] * 0.055, (-1.0, 1.0)[place // 2] * 0.055
        lean = 0.004 * (layer % 3 - 1)
        position = (x + lean, y - lean, radius + 0.01 + 0.11 * layer)
        world.add_shape_sphere(world.add_body(xform=(position, (0.0, 0.0, 0.0, 1.0)), label=f"ball_{i}"), radius=radius)


def _pendulum(world: Any) -> None:
    """Two links on hinges about y, released sideways: the first hits its limit, the second has a weak spring drive."""
    import newton

    length = 0.5
    identity = (0.0, 0.0, 0.0, 1.0)
    links = [world.add_link(label=name) for name in ("upper", "lower")]
    for link in links:
        world.add_shape_capsule(link, radius=0.02, half_height=0.5 * length - 0.02)
    joints = [
        world.add_joint_revolute(
            -1,
            links[0],
            parent_xform=((0.0, 0.0, 1.5), identity),
            child_xform=((0.0, 0.0, 0.5 * length), identity),
            axis=(0.0, 1.0, 0.0),
            limit_lower=-1.0,
            limit_upper=1.6,
            limit_ke=1.0e4,
            limit_kd=1.0e2,
            label="shoulder",
        ),
        world.add_joint_revolute(
            links[0],
            links[1],
            parent_xform=((0.0, 0.0, -0.5 * length), identity),
            child_xform=((0.0, 0.0, 0.5 * length), identity),
            axis=(0.0, 1.0, 0.0),
            limit_lower=-2.5,
            limit_upper=2.5,
            limit_ke=1.0e4,
            limit_kd=1.0e2,
            target_pos=0.0,
            target_ke=0.5,
            target_kd=0.05,
            effort_limit=5.0,
            actuator_mode=newton.JointTargetMode.POSITION,
            label="elbow",
        ),
    ]
    world.add_articulation(joints, label="pendulum")
    world.joint_q[0] = 1.4


HUMANOID_HEIGHT = 1.34
"""Initial height of the torso [m]: the soles are about 5 cm above the ground, and any orientation is clear of it."""


def humanoid_path() -> str:
    """Path of the humanoid's MJCF file, which comes with Newton."""
    import newton.examples

    return newton.examples.get_asset("nv_humanoid.xml")


def _humanoid(world: Any) -> None:
    """Newton's humanoid without motor torques: the joint springs of its file become drives towards zero."""
    import newton

    world.add_mjcf(
        humanoid_path(),
        xform=((0.0, 0.0, HUMANOID_HEIGHT), (0.0, 0.0, 0.0, 1.0)),
        ignore_names=["floor"],
        parse_sites=False,
        enable_self_collisions=False,
    )
    # The file's soft ke makes it sink by a millimetre; stiffness decides little here, the near-rigid bound acts first.
    world.shape_material_ke = [1.0e5] * world.shape_count
    springs = world.custom_attributes["mujoco:dof_passive_stiffness"].values or {}
    for dof, stiffness in springs.items():
        if stiffness > 0.0:
            world.joint_target_ke[dof] = float(stiffness)
            world.joint_target_mode[dof] = int(newton.JointTargetMode.POSITION)


BUILTIN_SCENES: dict[str, BuiltinScene] = {
    scene.name: scene
    for scene in (
        BuiltinScene("humanoid", "27-dof humanoid that falls over, no motors", _humanoid, 0.005, 64, 3.1416, 0.0),
        BuiltinScene("cube", "a free box dropped on the ground", _cube, 0.005, 16, 3.1416, 0.0),
        BuiltinScene("stack", "a tower of ten boxes", _stack, 0.005, 96, 0.0, 0.01),
        BuiltinScene("pendulum", "double pendulum with joint limits and a drive", _pendulum, 0.005, 16),
        BuiltinScene("spheres", "twenty balls dropped into a pen", _spheres, 0.005, 192, 3.1416, 0.001),
    )
}
DEFAULT_SCENE = "humanoid"


def randomize_start(model: "newton.Model", scene: BuiltinScene, seed: int) -> None:
    """Give every world of ``model`` its own initial pose, in place; the same seed gives the same poses.

    Floating bodies are turned and shifted as far as the scene allows. Hinges go to the middle half of their range.
    """
    import newton
    import numpy as np

    rng = np.random.default_rng(seed)
    q = model.joint_q.numpy()
    kinds, starts = model.joint_type.numpy(), model.joint_q_start.numpy()
    dof_starts = model.joint_qd_start.numpy()
    lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
    for joint, kind in enumerate(kinds):
        start = starts[joint]
        if kind == int(newton.JointType.FREE):
            q[start : start + 2] += rng.uniform(-scene.shift, scene.shift, 2)
            q[start + 3 : start + 7] = _random_rotation(rng, scene.tilt)
        elif kind in (int(newton.JointType.REVOLUTE), int(newton.JointType.D6)):
            dofs = slice(dof_starts[joint], dof_starts[joint + 1])
            middle, reach = 0.5 * (lower[dofs] + upper[dofs]), 0.5 * (upper[dofs] - lower[dofs])
            q[start : starts[joint + 1]] = middle + 0.5 * reach * rng.uniform(-1.0, 1.0, len(middle))
    model.joint_q.assign(q)
    state = model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    model.body_q.assign(state.body_q)


def _random_rotation(rng: "np.random.Generator", largest: float) -> "np.ndarray":
    """Unit quaternion xyzw of a turn by up to ``largest`` [rad] about a random axis."""
    import numpy as np

    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    angle = rng.uniform(0.0, largest)
    return np.append(np.sin(0.5 * angle) * axis, np.cos(0.5 * angle))


# Running a scene.


class SceneRun:
    """A built-in scene and its `Simulation`, advanced in pairs of steps."""

    def __init__(
        self,
        model: "newton.Model",
        scene: BuiltinScene,
        dt: float | None = None,
        preset: str = "approx32",
        count: bool = True,
        **options: Any,
    ):
        """Allocate everything; nothing is compiled yet.

        Args:
            model: From `build_scene`.
            scene: The scene it was built from.
            dt: Time step [s]; None takes the scene's.
            preset: ``contact_preset_variant`` of the solver.
            count: Whether every step adds to `statistics`, which costs one small kernel.
            **options: Further options of the solver.
        """
        from .simulation import Simulation

        self.model, self.scene, self.preset = model, scene, preset
        options = {"max_rigid_contact": scene.max_rigid_contact, **options}
        self.sim = Simulation(
            model,
            dt=scene.dt if dt is None else dt,
            name=scene.name,
            statistics=count,
            contact_preset_variant=preset,
            **options,
        )
        self.dt = self.sim.dt
        self.solver, self.pipeline, self.contacts = self.sim.solver, self.sim.pipeline, self.sim.contacts
        self.states, self.statistics = self.sim.states, self.sim.statistics

    @property
    def world_count(self) -> int:
        """Number of worlds."""
        return self.sim.world_count

    def step(self, source: int = 0) -> None:
        """Launch one step from state ``source`` to the other one, without a graph."""
        self.sim.shards[0].launch(source, self.dt)

    def prepare(self) -> None:
        """Compile what is not in the kernel cache, capture the graph, and return to the initial state."""
        self.sim.prepare()
        self.restart()

    def restart(self) -> None:
        """Return all worlds to the model's initial state and forget the statistics."""
        self.sim.reset()
        self.statistics.clear()

    def advance(self, pairs: int) -> None:
        """Replay ``2 * pairs`` steps; does not wait for the device."""
        self.sim.step(2 * pairs)

    def synchronize(self) -> None:
        """Wait until all steps are done."""
        self.sim.synchronize()

    def base_heights(self) -> "np.ndarray":
        """Height of the first body of each world [m]."""
        return self.sim.base_heights()
