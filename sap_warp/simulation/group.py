"""Worlds over several devices in one process: one simulation per device, stepped and read together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
import warp as wp

from ..core.runtime.cache import with_kernels
from ..model.model import SapModel
from ..scene.shipped.scene_files import find_scene_file
from .run.compile import compile_ahead
from .run.shards import slice_buffers
from .run.split import ThreadsError, WorldShare, world_starts
from .simulation import Simulation
from .views.array_view import ArrayView
from .views.arrays import as_scalars, is_tensor, to_device
from .views.mirrors import Mirror, Mirrors
from .views.names import Found
from .views.selection import is_names

_NOT_FOR_SOLVER = ("dt", "threads", "precision", "statistics", "notes", "pipeline_options")


class GroupView(ArrayView):
    """A view over the worlds of several simulations, in order.

    NumPy arrays are copies that follow the steps, resets and assignments of the group, as `WorldView` has it on CUDA.
    """

    def __init__(self, name: str, parts: Sequence[Any], mirrors: Mirrors):
        """Put the views ``parts`` of the simulations one after another."""
        self.name, self.parts, self._mirrors = name, tuple(parts), mirrors
        """One view on each device, without copies."""
        self._counts = [len(part) for part in parts]
        self._mirror = Mirror(mirrors, self.shape, self.dtype, self._fill)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape over the worlds of all devices."""
        return (sum(self._counts), *self.parts[0].shape[1:])

    @property
    def dtype(self) -> np.dtype:
        """NumPy dtype of the numbers."""
        return self.parts[0].dtype

    def numpy(self) -> np.ndarray:
        """Read-only NumPy array of all worlds that shows the present values, also after later steps."""
        return self._mirror.read()

    def torch(self) -> list[Any]:
        """One torch tensor for each device, sharing the memory."""
        return [part.torch() for part in self.parts]

    def __getitem__(self, key: Any) -> GroupView:
        """Select columns by name; for worlds use `numpy`, or the view of one simulation."""
        if not is_names(key):
            raise TypeError(f"{key!r} is no name of columns. For worlds use numpy(), or parts[i] of one device.")
        return GroupView(f"{self.name}[{key!r}]", [part[key] for part in self.parts], self._mirrors)

    def __setitem__(self, key: Any, values: Any) -> None:
        (self if key is Ellipsis else self[key]).assign(values)

    def assign(self, values: Any, world_mask: Any = None) -> None:
        """Copy ``values`` in: of the whole `shape`, or one world's (or one number) for all; on CUDA without the host.

        Args:
            values: NumPy, torch, Warp, DLPack, lists or a number.
            world_mask: Which worlds, booleans of shape (worlds,); None is all of them. For whole views.
        """
        if values is self:
            return
        masks, own_values = _split_mask(world_mask, self._counts), _split(values, self._counts, self.ndim)
        for part, own, mask in zip(self.parts, own_values, masks, strict=True):
            if mask is None:
                part[...] = own
            else:
                part.assign(own, mask)
        self._mirrors.refresh()

    def _fill(self, target: np.ndarray) -> None:
        for part, (first, last) in zip(self.parts, pairwise(np.cumsum([0, *self._counts])), strict=True):
            target[first:last] = part.numpy()

    def __repr__(self) -> str:
        return f"<{self.name}: shape {self.shape} of {self.dtype} on {len(self.parts)} devices>"


class SimulationGroup:
    """Simulations that together hold the worlds of a scene, one on each device.

    Example:
        ```python
        group = SimulationGroup.from_scene("humanoid", devices=["cuda:0", "cuda:1"], num_worlds=8192)
        group.step(100)                                 # both GPUs at once
        group.reset(group.joint_q["root.z"] < 0.3)
        group.joint_f["*_knee"] = 2.0
        ```

    A world moves as it would in one simulation of all of them, to the bit on the same kind of device.
    """

    def __init__(self, simulations: Sequence[Simulation]):
        """Take simulations with equal worlds.

        Raises:
            ValueError: There are none, or their worlds differ in size.
        """
        self.simulations = tuple(simulations)
        """One for each device."""
        sizes = {(sim.joint_q.shape[1:], sim.joint_qd.shape[1:], sim.body_q.shape[1:]) for sim in simulations}
        if len(sizes) != 1:
            raise ValueError(f"A group needs simulations of equal worlds; these have {len(sizes)} kinds.")
        self._counts = [sim.world_count for sim in simulations]
        self._mirrors = Mirrors()
        self._views: dict[str, GroupView] = {}

    @classmethod
    def from_scene(
        cls,
        scene: str | os.PathLike[str] | Mapping[str, Any],
        *,
        devices: Sequence[Any],
        num_worlds: int | None = None,
        strict: bool = False,
        confine: bool | None = None,
        **options: Any,
    ) -> Self:
        """Build a scene on several devices and distribute its worlds as evenly as possible.

        Args:
            scene: As for `Simulation.from_scene`.
            devices: Warp devices; one may come several times.
            num_worlds: Worlds of all devices; None takes the scene's.
            strict: As for `Simulation.from_scene`.
            confine: As for `Simulation.from_scene`.
            **options: Of `Simulation`; ``threads`` and ``rigid_contact_max`` are those of each device.

        Raises:
            ThreadsError: There are fewer worlds than devices, or they cannot be shared out.
        """
        from ..scene import load_sap_scene

        if isinstance(devices, str) or not devices:
            raise TypeError(f"devices is {devices!r}; it must be a list of devices.")
        source = find_scene_file(scene) if isinstance(scene, (str, os.PathLike)) else scene
        load: dict[str, Any] = {"num_worlds": num_worlds, "strict": strict, "confine": confine}
        for_solver = {name: value for name, value in options.items() if name not in _NOT_FOR_SOLVER}
        made = []
        for i, name in enumerate(devices):
            device = wp.get_device(name)
            when_built = partial(compile_ahead, device=device, **for_solver)
            loaded = with_kernels(partial(load_sap_scene, source, device=device, when_built=when_built, **load))
            worlds = int(loaded.sap_model.world_count)
            if worlds < len(devices):
                raise ThreadsError(f"There are {len(devices)} devices, but only {worlds} worlds to share out.")
            bounds = np.linspace(0, worlds, len(devices) + 1).round().astype(int)
            made.append(Simulation.from_loaded(_cut(loaded, *map(int, bounds[i : i + 2])), strict=strict, **options))
        return cls(made)

    @property
    def world_count(self) -> int:
        """Number of worlds on all devices."""
        return sum(self._counts)

    @property
    def time(self) -> float:
        """Time since construction or the last reset of all worlds [s]."""
        return self.simulations[0].time

    def step(self, n: int = 1) -> None:
        """Advance all worlds by ``n`` steps; CUDA devices work at the same time, without waiting for them."""
        for sim in self.simulations:
            sim.step(n)
        self._mirrors.refresh()

    def reset(
        self, world_mask: Any = None, joint_q: Any = None, joint_qd: Any = None, keyframe: str | None = None
    ) -> None:
        """Reset worlds like `Simulation.reset`, with masks and coordinates of all worlds."""
        masks = _split_mask(world_mask, self._counts)
        q, qd = (_split(values, self._counts, 2) for values in (joint_q, joint_qd))
        for sim, mask, own_q, own_qd in zip(self.simulations, masks, q, qd, strict=True):
            sim.reset(mask, own_q, own_qd, keyframe)
        self._mirrors.refresh()

    def synchronize(self) -> None:
        """Wait for all devices."""
        for sim in self.simulations:
            sim.synchronize()

    @property
    def status(self) -> np.ndarray:
        """`SolveStatus` of each world in the last step."""
        return np.concatenate([sim.status for sim in self.simulations])

    @property
    def diverged(self) -> np.ndarray:
        """True for worlds that could not take the last step, shape (worlds,)."""
        return np.concatenate([sim.diverged for sim in self.simulations])

    def __getattr__(self, name: str) -> Any:
        """Return views by the names that `Simulation` has, and its ``find_`` methods, which hold for all worlds."""
        if name.startswith("find_"):
            found: Found = getattr(self.simulations[0], name)
            return found
        if name.startswith("_") or name not in self.simulations[0]._views:
            raise AttributeError(f"A group of simulations has no {name!r}; see group.simulations.")
        if name not in self._views:
            parts = [getattr(sim, name) for sim in self.simulations]
            self._views[name] = GroupView(name, parts, self._mirrors)
        return self._views[name]

    def __setattr__(self, name: str, value: Any) -> None:
        simulations = self.__dict__.get("simulations", ())
        if simulations and name in simulations[0]._views:
            getattr(self, name)[...] = value
        else:
            super().__setattr__(name, value)

    def __len__(self) -> int:
        return len(self.simulations)

    def __iter__(self) -> Iterator[Simulation]:
        return iter(self.simulations)

    def __repr__(self) -> str:
        shares = ", ".join(f"{sim.world_count} on {sim.device}" for sim in self.simulations)
        return f"<SimulationGroup: {self.world_count} worlds, {shares}>"


def _cut(loaded: Any, first: int, last: int) -> Any:
    """Return worlds ``first`` to ``last - 1`` of a loaded scene."""
    whole = loaded.sap_model.newton_model
    starts = world_starts(whole)
    bounds = {kind: slice(int(start[first]), int(start[last])) for kind, start in starts.items()}
    sequence = loaded.control_sequence
    if sequence is not None:
        kinds = {"joint_target_pos": "coord", "joint_target_vel": "dof"}
        entries = {
            name: wp.array(
                table.numpy()[first:last] - int(starts[kinds[name]][first]), dtype=wp.int32, device=table.device
            )
            for name, table in sequence.entries.items()
        }
        sequence = replace(sequence, entries=entries, time=wp.zeros_like(sequence.time))
    return replace(
        loaded,
        sap_model=SapModel(WorldShare(whole, first, last).model),
        sap_state=slice_buffers(loaded.sap_state, bounds),
        sap_control=slice_buffers(loaded.sap_control, bounds),
        control_sequence=sequence,
    )


def _split(values: Any, counts: Sequence[int], axes: int) -> list[Any]:
    """Split an array with ``axes`` axes over the simulations; one with fewer axes goes to all of them."""
    if values is None:
        return [None] * len(counts)
    if isinstance(values, ArrayView):
        values = values.numpy()
    elif not (isinstance(values, (wp.array, np.ndarray)) or is_tensor(values)):
        on_cuda = hasattr(values, "__cuda_array_interface__") or hasattr(values, "__dlpack__")
        values = to_device(values, wp.get_device("cuda")) if on_cuda else np.asarray(values)
    if isinstance(values, wp.array):
        values = as_scalars(values)
    if values.ndim < axes or values.shape[0] == 1:
        return [values] * len(counts)
    if values.shape[0] != sum(counts):
        raise ValueError(f"The array has shape {tuple(values.shape)}; there are {sum(counts)} worlds.")
    return [values[first:last] for first, last in pairwise(np.cumsum([0, *counts]).tolist())]


def _split_mask(mask: Any, counts: Sequence[int]) -> list[Any]:
    """Split a mask over the simulations; None stands for all worlds of one."""
    found = _split(mask, counts, 1)
    if mask is not None and found[0] is found[-1] and len(counts) > 1:
        raise ValueError(f"world_mask has shape {np.shape(found[0])}; expected ({sum(counts)},).")
    return found
