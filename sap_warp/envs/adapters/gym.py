"""Tasks as environments of Gymnasium."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.faq import see
from ..registration import find_task
from ..runner import BOUND, Ended, Runner

try:
    import gymnasium
except ImportError as error:
    raise ImportError("This needs gymnasium: pip install 'sap-warp[rl]'" + see("missing-extra")) from error
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

RENDER_MODES = ("rgb_array",)


class TaskVectorEnv(VectorEnv):
    """A task in many worlds.

    Every array that is returned is new. With ``arrays="torch"`` they are tensors on the simulation's device, and
    ``final_obs`` is one tensor over all worlds, of which the rows in ``_final_obs`` count.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES)}  # noqa: RUF012 - Gymnasium reads it of the class

    def __init__(
        self,
        task: Any,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        render_mode: str | None = None,
        quiet: bool = False,
        **options: Any,
    ):
        """Build the task.

        Args:
            task: Its class, its name, or where it is; see `find_task`.
            num_envs: Number of worlds.
            autoreset_mode: When worlds whose episode ended begin the next one: within the same step, with the next
                step, or when ``reset(options={"reset_mask": mask})`` says so.
            render_mode: None, or ``"rgb_array"``: `render` then takes pictures, one of each world. They are those of
                ``env.unwrapped.sim.render()`` with the camera of the task's films.
            quiet: Whether observations have no noise.
            **options: Of the task: ``device``, ``arrays``, ``threads``, ``weights``, ...
        """
        if render_mode not in (None, *RENDER_MODES):
            raise ValueError(
                f"render_mode is {render_mode!r}; it is None or 'rgb_array'. To watch, use env.unwrapped.sim.view()."
            )
        self.render_mode = render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": list(RENDER_MODES)}
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        self.runner = self._make(task, num_envs, same_step, quiet, options)
        self.task = self.runner.task
        self.metadata["render_fps"] = round(1.0 / self.task.control_dt)
        self.metadata["torch"] = self.task.arrays.is_torch
        self.num_envs = self.task.num_worlds
        self.single_observation_space = box(np.inf, self.runner.observation_size)
        self.single_action_space = box(BOUND, self.task.action_size)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._waiting = np.zeros(self.num_envs, bool)
        self._seeded = False

    def _make(self, task: Any, num_envs: int, autoreset: bool, quiet: bool, options: dict[str, Any]) -> Any:
        """Make the runner of the task."""
        return Runner(find_task(task)(num_envs, **options), autoreset=autoreset, quiet=quiet)

    @property
    def sim(self) -> Any:
        """The simulation."""
        return self.task.sim

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in all worlds, or in those of ``options["reset_mask"]``.

        World i takes ``seed + i``, or the i-th of a list, as in Gymnasium's own; without a seed the random numbers go
        on, and the first time nobody can know them.
        """
        mask = _checked_mask((options or {}).get("reset_mask"), self.num_envs)
        if seed is not None:
            self._np_random, self._np_random_seed = seeding.np_random(seed if isinstance(seed, int) else seed[0])
            self.runner.seed(seed)
        elif not self._seeded:
            self.runner.seed(int(self.np_random.integers(2**31)))
        self._seeded = True
        self._waiting[... if mask is None else mask] = False
        return self.runner.reset(mask), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step in all worlds."""
        if self.autoreset_mode is AutoresetMode.DISABLED and self._waiting.any():
            worlds = np.flatnonzero(self._waiting)[:8].tolist()
            raise RuntimeError(f"Episodes of worlds {worlds} are over; reset them: options={{'reset_mask': mask}}.")
        observation, reward, terminated, truncated, ended = self.runner.step(actions)
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            return observation, reward, terminated, truncated, {} if ended is None else self._final(ended)
        if self._waiting.any():  # only in the mode NEXT_STEP
            begun = self.task.arrays.from_numpy(self._waiting)
            observation = self.runner.reset(self._waiting)
            reward[begun], terminated[begun], truncated[begun] = 0.0, False, False
        infos = {} if ended is None else self._episode_infos(ended)
        self._waiting = self.task.arrays.to_numpy(terminated | truncated).copy()
        return observation, reward, terminated, truncated, infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return a picture of each world, sRGB bytes of shape (height, width, 3); None without a render mode."""
        if self.render_mode is None:
            return None
        chosen = {name: self.task.film[name] for name in ("camera", "width", "height") if name in self.task.film}
        return tuple(self.sim.render(worlds=list(range(self.num_envs)), **chosen))

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the simulation's threads."""
        self.task.close()

    def _final(self, ended: Ended) -> dict[str, Any]:
        """Return what Gymnasium reports of worlds that were reset within the step."""
        arrays = self.task.arrays
        infos = self._episode_infos(ended)
        if arrays.is_torch:
            final = arrays.zeros(self.num_envs, self.runner.observation_size)
            final[ended.worlds] = ended.observation
        else:
            final = np.full(self.num_envs, None, object)
            for world, row in zip(ended.worlds.tolist(), ended.observation, strict=True):
                final[world] = row
        mask = infos["_terms"]
        return {"final_obs": final, "_final_obs": mask, "final_info": infos, "_final_info": mask}

    def _episode_infos(self, ended: Ended) -> dict[str, Any]:
        """Return sums of rewards and means of metrics over ended episodes, with Gymnasium's masks."""
        worlds = self.task.arrays.to_numpy(ended.worlds)
        mask = np.zeros(self.num_envs, bool)
        mask[worlds] = True
        values = np.zeros((len(ended.terms), self.num_envs), np.float32)
        values[:, worlds] = list(ended.terms.values())
        infos = dict(zip(ended.terms, values, strict=True)) | {f"_{name}": mask for name in ended.terms}
        return {"terms": infos, "_terms": mask}


class TaskEnv(gymnasium.Env):
    """A task in one world, for checks and for programs that support nothing else. Many worlds are far faster."""

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES)}  # noqa: RUF012 - as above

    def __init__(self, task: Any, *, render_mode: str | None = None, **options: Any):
        """See `TaskVectorEnv`."""
        mode = AutoresetMode.DISABLED
        self.many = TaskVectorEnv(task, 1, autoreset_mode=mode, render_mode=render_mode, **options)
        self.metadata = self.metadata | {"render_fps": self.many.metadata["render_fps"]}
        self.render_mode = render_mode
        self.observation_space = self.many.single_observation_space
        self.action_space = self.many.single_action_space

    @property
    def sim(self) -> Any:
        """The simulation."""
        return self.many.sim

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        observation, infos = self.many.reset(seed=seed, options=options)
        return observation[0], infos

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step."""
        observation, reward, terminated, truncated, infos = self.many.step(action[None])
        terms = {name: float(values[0]) for name, values in infos.get("terms", {}).items() if name[0] != "_"}
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), terms

    def render(self) -> np.ndarray | None:
        """Return a picture, sRGB bytes of shape (height, width, 3); None without a render mode."""
        pictures = self.many.render()
        return None if pictures is None else pictures[0]

    def close(self) -> None:
        """Stop the simulation's threads."""
        self.many.close()


def box(bound: float, size: int) -> gymnasium.spaces.Box:
    """Return the space of vectors within the bound."""
    return gymnasium.spaces.Box(-bound, bound, (size,), np.float32)


def _checked_mask(mask: Any, worlds: int) -> np.ndarray | None:
    if mask is None:
        return None
    mask = np.asarray(mask)
    if mask.dtype != bool or mask.shape != (worlds,) or not mask.any():
        raise ValueError(f"reset_mask must be {worlds} booleans, at least one of them true.")
    return mask
