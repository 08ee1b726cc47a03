"""Resets of some of the worlds, and forward kinematics of their bodies: one replay of a captured graph.

Masks and coordinates are copied into buffers on the simulation's device, and the graph that reads them is replayed:
nothing is packed or allocated, so a reset of a few small worlds costs less than a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ..core.runtime.cache import with_kernels
from ..core.runtime.capture import capturing, launches, preparing
from .run.streams import in_order
from .views.arrays import as_mask, check_mask, to_host
from .views.views import WorldView

if TYPE_CHECKING:
    from ..model.model import SapState
    from .run.shards import Shard

RESET, PLACE = "reset", "place"


class Resets:
    """Resets worlds of all shards by mask."""

    def __init__(self, shards: Sequence[Shard], state: SapState, starts: Mapping[str, np.ndarray]):
        """Allocate the mask; buffers for coordinates are allocated when coordinates are first given.

        Args:
            shards: All of them.
            state: Of all worlds.
            starts: First coordinate, dof and world of each world, and behind the last one.
        """
        self._shards, self._state, self._starts = shards, state, starts
        self._worlds = len(starts["world"]) - 1
        self._device = state.joint_q.device  # type: ignore[union-attr]
        self._mask = wp.ones(self._worlds, dtype=wp.bool, device=self._device)
        self._host_mask = self._mask.numpy() if self._device.is_cpu else None
        self._buffers: dict[str, WorldView] = {}
        self._arrays: dict[str, wp.array] = {}  # the same with what is in no world
        self._graphs: dict[tuple[Any, ...], list[Any]] = {}
        self._seen: set[tuple[Any, ...]] = set()

    def forget(self) -> None:
        """Drop captured graphs, because arrays that they read may have been replaced."""
        self._graphs.clear()
        self._seen.clear()

    def reset(self, world_mask: Any, joint_q: Any = None, joint_qd: Any = None) -> None:
        """Reset chosen worlds (None: all) to coordinates, or to the model's initial state.

        Raises:
            TypeError: An argument is of the wrong kind.
            ValueError: An array has another shape.
        """
        for name, values in (("joint_q", joint_q), ("joint_qd", joint_qd)):
            if values is not None:
                self._buffer(name).assign(values)
        self.read_mask(world_mask)
        self._run((RESET, joint_q is not None, joint_qd is not None))

    @launches
    def set_activations(self, values: np.ndarray, world_mask: Any) -> None:
        """Set the activations of one world in chosen ones (None: all); zero if not given, as after a reset."""
        if not values.any():
            return
        mask, values = self.read_mask(world_mask), wp.array(values, dtype=wp.float64, device=self._device)
        for shard in self._shards:
            first, last = (0, self._worlds) if shard.share is None else (shard.share.first, shard.share.last)
            shard.solver.tendons.actuation.set(values, mask[first:last])

    def place(self, world_mask: Any = None) -> None:
        """Move the bodies of chosen worlds (None: all) to where their joints put them."""
        self.read_mask(world_mask)
        self._run((PLACE,))

    def read_mask(self, given: Any) -> wp.array:
        """Copy a mask of worlds (None: all) into a buffer, always the same one, and return it."""
        if self._host_mask is None:
            self._read_mask_on_device(given)
        elif given is None:
            self._host_mask[:] = True
        else:
            self._host_mask[:] = check_mask(to_host(given), self._worlds, isinstance(given, wp.array))
        return self._mask

    @launches
    def _read_mask_on_device(self, given: Any) -> None:
        if given is None:
            self._mask.fill_(True)
            return
        with in_order(self._device):
            wp.copy(self._mask, as_mask(given, self._worlds, self._device))

    def _buffer(self, name: str) -> WorldView:
        """Return the buffer for coordinates of all worlds that the graphs read."""
        if name not in self._buffers:
            array = wp.zeros_like(getattr(self._state, name), requires_grad=False)
            kind = "coord" if name == "joint_q" else "dof"
            self._buffers[name] = WorldView(name, array, self._starts[kind])
            self._arrays[name] = array
        return self._buffers[name]

    def _run(self, key: tuple[Any, ...]) -> None:
        """Replay the graphs; the first call launches, which loads the kernels, and the second one records."""
        graphs = self._graphs.get(key)
        if graphs is None and key in self._seen:
            graphs = self._record(key)
        if graphs is None:
            with_kernels(partial(self._launch_all, key))
            self._seen.add(key)
            return
        if self._host_mask is not None:
            for graph in graphs:
                wp.capture_launch(graph)
            return
        with in_order(self._device):  # tensors of the state may be in use
            for graph in graphs:
                wp.capture_launch(graph)

    @launches
    def _launch_all(self, key: tuple[Any, ...]) -> None:
        for shard in self._shards:
            self._launch(shard, key)

    def _record(self, key: tuple[Any, ...]) -> list[Any]:
        graphs = []
        with preparing(), capturing():
            for shard in self._shards:
                with wp.ScopedCapture(self._device) as capture:
                    self._launch(shard, key)
                graphs.append(capture.graph)
        self._graphs[key] = graphs
        return graphs

    def _launch(self, shard: Shard, key: tuple[Any, ...]) -> None:
        solver = shard.solver
        first, last = (0, self._worlds) if shard.share is None else (shard.share.first, shard.share.last)
        mask = self._mask[first:last]
        if key[0] == PLACE:
            solver.boundary.place(shard.state, shard.control, solver.all_worlds, mask)
            return
        coordinates = []
        for name, kind, is_given in (("joint_q", "coord", key[1]), ("joint_qd", "dof", key[2])):
            whole = self._arrays[name] if is_given else None
            if whole is not None and shard.share is not None:
                whole = whole[int(self._starts[kind][first]) : int(self._starts[kind][last])]
            coordinates.append(whole)
        solver.reset_to(shard.state, shard.control, mask, *coordinates)
