"""Disturbances for environments: noise on observations and delayed actions, on the device, independent per world."""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from ...core.kernels.types import Bools, Ints
from ...core.runtime.capture import launches
from ...model.model import check_count
from ...randomization import Choice, Distribution
from ..views.arrays import as_mask, is_tensor
from .streams import Stream, draw_number
from .terms import make_stream


@wp.kernel(module="unique", enable_backward=False)
def add_noise(stream: Stream, draw: int, values: wp.array2d[wp.float32]) -> None:
    """Add a random number to each value of each world."""
    world, index = wp.tid()
    values[world, index] = values[world, index] + wp.float32(draw_number(stream, world, draw, index))


@wp.kernel(module="unique", enable_backward=False)
def draw_latency(mask: Bools, stream: Stream, most: int, draws: Ints, steps: Ints, age: Ints) -> None:
    """Draw a new latency in the chosen worlds and empty their ring."""
    world = wp.tid()
    if mask[world]:
        draws[world] = draws[world] + 1
        steps[world] = wp.clamp(int(wp.round(draw_number(stream, world, draws[world], 0))), 0, most)
        age[world] = 0


@wp.kernel(module="unique", enable_backward=False)
def delay(
    values: wp.array2d[wp.float32],
    head: int,
    steps: Ints,
    age: Ints,
    ring: wp.array3d[wp.float32],
    out: wp.array2d[wp.float32],
) -> None:
    """Store the newest values of a world, and return those from its latency ago, or the first ones there were."""
    world = wp.tid()
    depth = ring.shape[0]
    at = (head - wp.min(steps[world], age[world]) + depth) % depth
    for j in range(values.shape[1]):
        ring[head, world, j] = values[world, j]
        out[world, j] = ring[at, world, j]
    age[world] = wp.min(age[world] + 1, depth)


class ObservationNoise:
    """Adds noise to observations, in place.

    Example:
        ```python
        noise = ObservationNoise(Normal(0.0, 0.01), seed=3)
        noise(observations)  # float32, shape (worlds, numbers): NumPy, torch or Warp
        ```
    """

    def __init__(self, distribution: Distribution, *, seed: int = 0, stream: str = "observation"):
        """Store the settings; nothing is drawn yet.

        Args:
            distribution: Of what is added, in the unit of the observation.
            seed: Of the stream.
            stream: Its name; two of the same seed need different ones to be independent.
        """
        self.distribution, self._seed, self._name = distribution, check_count("seed", seed, 0), stream
        self._streams: dict[str, Any] = {}
        self.count = 0
        """Calls so far; with the seed it decides the numbers of the next one. To be kept in checkpoints."""

    @launches
    def __call__(self, values: Any) -> Any:
        """Add noise to ``values`` and return them.

        Raises:
            TypeError: They are no float32 array of shape (worlds, numbers) whose memory can be shared.
        """
        array = _share(values, "values")
        device = str(array.device)
        if device not in self._streams:
            self._streams[device] = make_stream(self.distribution, self._seed, self._name, device)
        self.count += 1
        inputs = [self._streams[device], self.count]
        wp.launch(add_noise, dim=array.shape, inputs=inputs, outputs=[array], device=array.device)
        return values


class ActionLatency:
    """Delays actions by some control steps, in each world by its own number of them.

    Example:
        ```python
        latency = ActionLatency(sim.world_count, 12, Choice((0, 1, 2)), seed=3)
        sim.joint_target_q["*leg*"] = latency(actions)
        latency.reset(done)  # with sim.reset(done)
        ```
    """

    def __init__(
        self,
        worlds: int,
        width: int,
        steps: Distribution | int,
        *,
        seed: int = 0,
        stream: str = "latency",
        device: Any = None,
    ):
        """Draw a latency for each world.

        Args:
            worlds: How many.
            width: Numbers of an action.
            steps: Latency in calls, rounded to whole ones; drawn again by each reset.
            seed: Of the stream.
            stream: Its name.
            device: Warp device of the actions; None is Warp's default.

        Raises:
            ValueError: Latencies could be negative, or have no upper bound.
        """
        distribution = Choice((steps,)) if isinstance(steps, int) else steps
        low, high = distribution.bounds
        if not 0.0 <= low <= high < 1e6:
            raise ValueError(f"steps is {steps}; a latency is between 0 and a finite number of calls.")
        self._device = wp.get_device(device)
        self._most = int(np.ceil(high))
        self._stream = make_stream(distribution, check_count("seed", seed, 0), stream, self._device)
        self._head = 0
        made = {name: wp.zeros(worlds, dtype=wp.int32, device=self._device) for name in ("draws", "steps", "age")}
        self.arrays: dict[str, wp.array] = made
        """For checkpoints, with `head`: draws, latencies and age of each world, and the actions of the last calls."""
        self.arrays["ring"] = wp.zeros((self._most + 1, worlds, width), dtype=wp.float32, device=self._device)
        self._out = wp.zeros((worlds, width), dtype=wp.float32, device=self._device)
        self.reset()

    @property
    def head(self) -> int:
        """Index in the ring at which the next call writes."""
        return self._head

    @head.setter
    def head(self, value: int) -> None:
        self._head = check_count("head", value, 0) % (self._most + 1)

    @property
    def steps(self) -> np.ndarray:
        """Latency of each world, in calls; shape (worlds,)."""
        return self.arrays["steps"].numpy()

    @launches
    def reset(self, world_mask: Any = None) -> None:
        """Begin again in chosen worlds (None: all): draw another latency and forget earlier actions."""
        worlds = self._out.shape[0]
        mask = as_mask(np.ones(worlds, bool) if world_mask is None else world_mask, worlds, self._device)
        inputs = [mask, self._stream, self._most, *(self.arrays[name] for name in ("draws", "steps", "age"))]
        wp.launch(draw_latency, dim=worlds, inputs=inputs, device=self._device)

    @launches
    def __call__(self, actions: Any) -> Any:
        """Return the actions from so many calls ago, as an array of the same kind that the next call overwrites.

        Args:
            actions: Of now, float32 of shape (worlds, width): NumPy, torch or Warp.
        """
        values = _share(actions, "actions")
        if values.shape != self._out.shape or values.device != self._device:
            raise ValueError(
                f"actions have shape {values.shape} on {values.device}; expected {self._out.shape} on {self._device}."
            )
        kept = [self.arrays[name] for name in ("steps", "age", "ring")]
        wp.launch(delay, dim=values.shape[0], inputs=[values, self._head, *kept, self._out], device=self._device)
        self._head = (self._head + 1) % (self._most + 1)
        if is_tensor(actions):
            return wp.to_torch(self._out, requires_grad=False)
        return self._out if isinstance(actions, wp.array) else self._out.numpy()


def _share(values: Any, name: str) -> wp.array:
    """Return the memory of an array as a Warp array.

    Raises:
        TypeError: It cannot be shared, or is not what is needed.
    """
    shared = values
    if isinstance(values, np.ndarray) and values.dtype == np.float32 and values.flags.c_contiguous:
        shared = wp.array(values, dtype=wp.float32, device="cpu", copy=False)
    elif is_tensor(values):
        shared = wp.from_torch(values, requires_grad=False)
    if not isinstance(shared, wp.array) or shared.dtype is not wp.float32 or shared.ndim != 2:
        kind = f"{getattr(values, 'dtype', type(values).__name__)} of shape {getattr(values, 'shape', None)}"
        raise TypeError(f"{name} is {kind}; it must be a contiguous float32 array of shape (worlds, numbers).")
    return shared
