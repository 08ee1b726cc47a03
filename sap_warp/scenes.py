"""Small scenes built in Python, and a way to run them: what the command line, tests and benchmarks share.

`BUILTIN_SCENES` is readable without Newton or Warp; both are imported when a scene is built.
"""

import difflib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import newton
    import numpy as np

GAP = 0.002
"""Distance between two shapes at which the collision pipeline starts to report contacts, per shape [m]."""


class UnknownSceneError(ValueError):
    """There is no scene of that name."""


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
    """A scene with everything it needs to advance: states, contacts, pipeline, solver and the captured step.

    `advance` replays one graph that holds two whole steps, state 0 to 1 and back, collision included.
    """

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
        import warp as wp

        from .collision import SapCollisionPipeline
        from .solver import SolverSAP

        self.model, self.scene, self.preset = model, scene, preset
        self.dt = scene.dt if dt is None else dt
        options = {"max_rigid_contact": scene.max_rigid_contact, **options}
        self.solver = SolverSAP(model, contact_preset_variant=preset, **options)
        worlds = self.solver.sizes.world_count
        self.pipeline = SapCollisionPipeline(model, rigid_contact_max=worlds * scene.max_rigid_contact)
        self.contacts = self.pipeline.contacts()
        self.states = (model.state(), model.state())
        self.statistics = StepStatistics(self.solver)
        self.count = count
        self.graph: Any = None
        self._wp = wp

    @property
    def world_count(self) -> int:
        """Number of worlds."""
        return self.solver.sizes.world_count

    def step(self, source: int = 0) -> None:
        """Launch one step from state ``source`` to the other one."""
        now, after = self.states[source], self.states[1 - source]
        self.pipeline.collide(now, self.contacts)
        self.solver.step(now, after, None, self.contacts, self.dt)
        if self.count:
            self.statistics.record(self.contacts)

    def prepare(self) -> None:
        """Compile what is not in the kernel cache, capture the graph, and return to the initial state."""
        wp = self._wp
        self.step(0)
        self.step(1)
        with wp.ScopedCapture(self.model.device) as capture:
            self.step(0)
            self.step(1)
        self.graph = capture.graph
        self.restart()

    def restart(self) -> None:
        """Return all worlds to the model's initial state and forget the statistics."""
        for state in self.states:
            self.solver.reset(state)
        self.statistics.clear()

    def advance(self, pairs: int) -> None:
        """Replay ``2 * pairs`` steps; does not wait for the device."""
        for _ in range(pairs):
            self._wp.capture_launch(self.graph)

    def synchronize(self) -> None:
        """Wait until all steps are done."""
        self._wp.synchronize_device(self.model.device)

    def base_heights(self) -> "np.ndarray":
        """Height of the first body of each world [m]."""
        first = self.solver.layout.body_world.numpy()
        bodies = self.solver.layout.body_newton.numpy()
        height = self.states[0].body_q.numpy()[:, 2]
        return height[[bodies[first == world].min() for world in range(self.world_count)]]


ITERATION_BINS = 256
TRIAL_BINS = 2048


@dataclass(frozen=True)
class Distribution:
    """Summary of a count that every world has at every step."""

    mean: float
    p99: int
    max: int


class StepStatistics:
    """Sums over steps kept on the device, so that a replayed graph counts too and nothing waits for a read."""

    def __init__(self, solver: Any):
        """Count for ``solver``."""
        import warp as wp

        self._solver, self._wp = solver, wp
        device = solver.model.device
        self._iterations = wp.zeros(ITERATION_BINS, dtype=wp.int64, device=device)
        self._trials = wp.zeros(TRIAL_BINS, dtype=wp.int64, device=device)
        self._totals = wp.zeros(4, dtype=wp.int64, device=device)  # world-steps, contacts, truncated, not converged
        self._maxima = wp.zeros(2, dtype=wp.int32, device=device)

    def record(self, contacts: Any) -> None:
        """Count the step that was just launched."""
        solver = self._solver
        self._wp.launch(
            _make_record_kernel(),
            dim=solver.sizes.world_count,
            inputs=[
                solver.contact_solve.iterations,
                solver.contact_solve.line_search_iterations,
                solver.contact_jacobian.contact_count,
                solver.contact_jacobian.truncated_count,
                solver._status,
                contacts.rigid_contact_count,
                contacts.rigid_contact_max,
            ],
            outputs=[self._iterations, self._trials, self._totals, self._maxima],
            device=solver.model.device,
        )

    def clear(self) -> None:
        """Start again from zero."""
        for array in (self._iterations, self._trials, self._totals, self._maxima):
            array.zero_()

    @property
    def world_steps(self) -> int:
        """Steps times worlds."""
        return int(self._totals.numpy()[0])

    @property
    def mean_contacts(self) -> float:
        """Contacts per world and step."""
        return int(self._totals.numpy()[1]) / max(self.world_steps, 1)

    @property
    def truncated_contacts(self) -> int:
        """Contacts that found no place, in a world or in the collision pipeline's buffer, over all steps."""
        return int(self._totals.numpy()[2])

    @property
    def not_converged(self) -> int:
        """World-steps that met no stopping criterion."""
        return int(self._totals.numpy()[3])

    @property
    def iterations(self) -> Distribution:
        """Newton iterations per world and step."""
        return _summarize(self._iterations.numpy(), int(self._maxima.numpy()[0]))

    @property
    def line_search_trials(self) -> Distribution:
        """Evaluations of the cost along Newton directions, per world and step."""
        return _summarize(self._trials.numpy(), int(self._maxima.numpy()[1]))


def _summarize(histogram: "np.ndarray", largest: int) -> Distribution:
    import numpy as np

    total = int(histogram.sum())
    if total == 0:
        return Distribution(0.0, 0, 0)
    mean = float(histogram @ np.arange(len(histogram))) / total
    return Distribution(mean, int(np.searchsorted(np.cumsum(histogram), 0.99 * total)), largest)


@functools.cache
def _make_record_kernel() -> Any:
    import warp as wp

    @wp.kernel(module="unique", enable_backward=False)
    def record_step(
        iterations_in: wp.array(dtype=wp.int32),  # type: ignore[valid-type]
        trials_in: wp.array(dtype=wp.int32),  # type: ignore[valid-type]
        contact_count_in: wp.array(dtype=wp.int32),  # type: ignore[valid-type]
        truncated_in: wp.array(dtype=wp.int32),  # type: ignore[valid-type]
        status_in: wp.array(dtype=wp.int32),  # type: ignore[valid-type]
        found_in: wp.array(dtype=wp.int32),  # type: ignore[valid-type]
        found_max: int,
        iterations_out: wp.array(dtype=wp.int64),  # type: ignore[valid-type]
        trials_out: wp.array(dtype=wp.int64),  # type: ignore[valid-type]
        totals_out: wp.array(dtype=wp.int64),  # type: ignore[valid-type]
        maxima_out: wp.array(dtype=wp.int32),  # type: ignore[valid-type]
    ) -> None:
        world = wp.tid()
        wp.atomic_add(iterations_out, wp.min(iterations_in[world], wp.static(ITERATION_BINS - 1)), wp.int64(1))
        wp.atomic_add(trials_out, wp.min(trials_in[world], wp.static(TRIAL_BINS - 1)), wp.int64(1))
        truncated = truncated_in[world]
        if world == 0:
            truncated += wp.max(found_in[0] - found_max, 0)
        wp.atomic_add(totals_out, 0, wp.int64(1))
        wp.atomic_add(totals_out, 1, wp.int64(contact_count_in[world]))
        wp.atomic_add(totals_out, 2, wp.int64(truncated))
        if status_in[world] != 0:
            wp.atomic_add(totals_out, 3, wp.int64(1))
        wp.atomic_max(maxima_out, 0, iterations_in[world])
        wp.atomic_max(maxima_out, 1, trials_in[world])

    return record_step
