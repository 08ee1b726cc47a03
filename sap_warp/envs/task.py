"""Task: what is simulated, observed, rewarded and ended, as one class."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from copy import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .arrays import Arrays
from .terms import ActionTerm, find_terms

if TYPE_CHECKING:
    from ..simulation import Simulation
    from .draws import Draws


class Task:
    """Base class of tasks.

    Example:
        ```python
        class Balance(Task):
            scene = "cartpole.yaml"
            actions = JointEfforts("slider_to_cart", scale=20.0)

            @observation
            def state(self):
                return self.joint_q, self.joint_qd

            @reward(1.0)
            def upright(self):
                return self.xp.cos(self.joint_q[:, 1])

            @termination
            def at_the_end_of_the_rail(self):
                return abs(self.joint_q[:, 0]) > 2.0

            def start(self, worlds, draw):
                return draw.uniform(-0.1, 0.1, 2), None
        ```

    Terms are methods without arguments that return arrays over all worlds. They read the arrays below, which share the
    memory of the simulation: NumPy or torch, and ``self.xp`` is that library. Keep results of your own in attributes
    that `setup` makes.
    """

    scene: ClassVar[Any] = None
    """Name of a shipped scene, path of a scene file, or its content; see `build`."""
    dt: ClassVar[float] = 0.005
    """Time step of the simulation [s]."""
    substeps: ClassVar[int] = 4
    """Time steps between two actions."""
    time_limit: ClassVar[float] = 10.0
    """Length of an episode that nothing else ends [s]."""
    actions: ClassVar[ActionTerm | Sequence[ActionTerm]] = ()
    """Meaning of the columns of an action."""
    options: ClassVar[Mapping[str, Any]] = {}
    """Further options of `Simulation`."""
    randomization: ClassVar[Sequence[Any]] = ()
    """Variation between worlds and episodes beside their start: terms of `Simulation.randomize`."""
    film: ClassVar[Mapping[str, Any]] = {}
    """Options of `Simulation.recorder` for films, for example a camera."""
    training: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Defaults of ``sap-warp train``: for each algorithm num_worlds, iterations, settings."""

    sim: Simulation
    """The simulation."""
    xp: Any
    """The array library: NumPy or torch."""
    joint_q: Any
    """Generalized positions [m or rad, quaternions xyzw], shape (worlds, coords)."""
    joint_qd: Any
    """Generalized velocities [m/s or rad/s], free joints [v_C, w], shape (worlds, dofs)."""
    body_q: Any
    """Body poses in world frame [m, quaternion xyzw], shape (worlds, bodies, 7)."""
    body_qd: Any
    """Body twists [v_C, w] in world frame [m/s, rad/s], shape (worlds, bodies, 6)."""
    initial_q: Any
    """Positions that the scene starts from, shape (worlds, coords)."""
    initial_qd: Any
    """Velocities that the scene starts from, shape (worlds, dofs)."""
    action: Any
    """What the policy asked for in this step, between -1 and 1, shape (worlds, actions)."""
    previous_action: Any
    """Action of the step before; zero at the start of an episode."""
    steps: Any
    """Control steps taken in the episode, whole numbers of shape (worlds,)."""
    terminated: Any
    """True for worlds that reached an end in this step, for rewards; shape (worlds,)."""

    def __init__(
        self,
        num_worlds: int,
        *,
        device: Any = None,
        arrays: str = "numpy",
        weights: Mapping[str, float] | None = None,
        **options: Any,
    ):
        """Build the scene and find all terms.

        Args:
            num_worlds: Number of worlds.
            device: Warp device; None is Warp's default.
            arrays: ``"numpy"``, which needs the CPU, or ``"torch"``.
            weights: Weights of rewards that are to differ from the class.
            **options: Of `Simulation`, for example ``threads``; they win over the class's.

        Raises:
            ValueError: A weight belongs to no reward, a joint is not there, or an option has no valid value.
        """
        self.terms = find_terms(type(self))
        self.control_dt = self.dt * self.substeps
        """Time between two actions [s]."""
        self.step_limit = max(1, round(self.time_limit / self.control_dt))
        """Control steps of an episode that nothing else ends."""
        self.weights = {name: term.weight for name, term in self.terms["reward"].items()}
        """Weights of the rewards [1/s]."""
        for name, weight in (weights or {}).items():
            if name not in self.weights:
                near = difflib.get_close_matches(name, self.weights, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there is: {', '.join(self.weights)}."
                raise ValueError(f"{type(self).__name__} has no reward {name!r}; {hint}")
            self.weights[name] = float(weight)
        if not self.terms["observation"]:
            raise ValueError(f"{type(self).__name__} has no observation; mark methods with @observation.")
        self.sim = self.build(num_worlds, device, {"statistics": True, **self.options, **options})
        self.num_worlds = self.sim.world_count
        self.arrays = Arrays(arrays, self.sim.device)
        self.xp = self.arrays.xp
        self.worlds = self.arrays.from_numpy(np.arange(self.num_worlds))
        """All worlds, the numbers from 0."""
        for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
            setattr(self, name, self.arrays.view(getattr(self.sim, name)))
        self.initial_q, self.initial_qd = _copy(self.joint_q), _copy(self.joint_qd)
        self.steps = self.arrays.zeros(self.num_worlds, dtype="int64")
        self.terminated = self.arrays.zeros(self.num_worlds, dtype="bool")
        given = [self.actions] if isinstance(self.actions, ActionTerm) else self.actions
        self.action_terms = [copy(term) for term in given]  # the class's own must not know arrays of this task
        for term in self.action_terms:
            term.bind(self)
        ends = np.cumsum([0, *(term.size for term in self.action_terms)])
        self._action_parts = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self.action_size = int(ends[-1])
        self.action = self.arrays.zeros(self.num_worlds, self.action_size)
        self.previous_action = self.arrays.zeros(self.num_worlds, self.action_size)
        self.setup()

    # What a task may define.

    def build(self, num_worlds: int, device: Any, options: dict[str, Any]) -> Simulation:
        """Make the simulation; the default loads `scene`."""
        from ..simulation import Simulation

        if self.scene is None:
            raise ValueError(f"{type(self).__name__} has no scene; set it, or define build().")
        return Simulation.from_scene(self.scene, num_worlds=num_worlds, device=device, dt=self.dt, **options)

    def setup(self) -> None:
        """Find bodies and make arrays, once, when the simulation is there."""

    def start(self, worlds: Any, draw: Draws) -> tuple[Any, Any]:
        """Set where worlds begin an episode; the default is where the scene starts.

        Args:
            worlds: Their numbers, shape (n,), for arrays of the task's own.
            draw: Random numbers, a row for each of them.

        Returns:
            Positions of shape (n, coords) and velocities of shape (n, dofs); None leaves those of the scene.
        """
        return None, None

    def advance(self, draw: Draws) -> None:
        """Advance arrays of the task by one control step, after the simulation; for all worlds."""

    def derive(self) -> None:
        """Compute what several terms need, once after every step, and again after worlds were reset."""

    # What tasks use.

    def apply(self, actions: Any) -> None:
        """Write the inputs of the simulation for clipped actions, shape (worlds, actions)."""
        if len(self.action_terms) == 1:
            self.action_terms[0].apply(actions)
            return
        for term, part in zip(self.action_terms, self._action_parts, strict=True):
            term.apply(actions[:, part])

    def get_memory(self) -> dict[str, Any]:
        """Return what decides the task's future beside the simulation: all attributes that are arrays or numbers.

        A task that keeps something else extends it, and `set_memory`, with what can be pickled.
        """
        from .memory import get_attributes

        return get_attributes(self)

    def set_memory(self, saved: dict[str, Any]) -> None:
        """Continue from what `get_memory` returned, maybe in another process."""
        from .memory import set_attributes

        set_attributes(self, saved)

    def close(self) -> None:
        """Stop the simulation's threads."""
        self.sim.close()


def _copy(values: Any) -> Any:
    return values.clone() if hasattr(values, "clone") else values.copy()
