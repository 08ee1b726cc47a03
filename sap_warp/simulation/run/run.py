"""Many steps of a shard's worlds: begin, (collide, solve, continue) n - 1 times, collide, solve, end.

Every part of this sequence is a captured graph. Where detection can look at a few worlds alone, a range of worlds takes
all steps but the last before the next range begins, and stays in the cache of the core from step to step: nobody looks
at the worlds in between, and they do not meet. The last step takes all worlds together, so that whoever looks at state
and contacts then finds them complete. The results are those of single steps, to the last bit, unless the contact buffer
is too small for all worlds together: single steps drop contacts then, and a range keeps them until the last step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import warp as wp

from ...core.kernels.launch import WorldRange
from ...core.runtime.capture import launches
from ...core.runtime.replay import capture_calls

if TYPE_CHECKING:
    from .shards import Shard

BUNDLES = (16, 4)
"""Lengths of graphs of several steps between the first and the last; there is a graph for one step, too."""
BUNDLE_WORLDS = 16
"""Most worlds for which such graphs are recorded on the CPU; on CUDA they always are. Starting a graph takes about a
microsecond, as long as a step of a small world, and on CUDA the host is to be free meanwhile."""
GROUPS = 256
"""Most groups of ranges that share a detection: recording the graphs of one takes 6 ms."""
PASS_STEPS, PASS_WORLD_STEPS = 64, 1 << 16
"""A pass, between two moments at which all worlds are at the same step, is the larger of so many steps and steps times
worlds, and not longer than detection allows: what an interruption can cost."""


class _Group(NamedTuple):
    """Ranges of worlds whose contacts are found together."""

    ranges: Sequence[WorldRange]
    find: Callable[[bool], Any]
    """Function that finds their contacts and returns the buffer; True if it is the first time since the steps began."""


class _Graphs(NamedTuple):
    begin: Any
    first: Any
    further: list[tuple[int, Any]]
    """Number of steps of each graph, and the graph, the longest first."""


class Run:
    """Steps of a shard's worlds with one time step."""

    def __init__(self, shard: Shard, dt: float, together: bool = False):
        """Store the settings; nothing is captured yet. ``together`` lets all worlds take each step together."""
        self._shard = shard
        self._steps = shard.solver.steps(shard.control, dt)
        self._shares = share_ranges(shard.solver.ranges)
        self._ranges = None if together else split_detection(shard, self._shares)
        self.groups = self._make_groups()
        self._graphs: list[_Graphs] = []
        self._last: Any = None
        self._single: Any = None
        passes = 1024 if self._ranges is None else self._ranges.passes
        self._most = min(max(PASS_STEPS, PASS_WORLD_STEPS // shard.world_count), passes + 1)
        self.stopped = False
        """Set by another thread to end a replay soon, in the middle of a pass; see `settle`."""

    @property
    def ranges(self) -> int:
        """Number of ranges of worlds that take their steps one after the other."""
        return len(self.groups)

    def launch(self, steps: int) -> None:
        """Take ``steps`` steps, without graphs."""
        for group in self.groups:
            self.begin(group)
            for i in range(steps - 1):
                self.take(group, i == 0)
        self.finish(steps == 1)

    def capture(self) -> None:
        """Record the graphs."""
        few = self._shard.world_count <= BUNDLE_WORLDS or not self._shard.model.device.is_cpu
        with self._shard.pipeline.newton_pipeline.own_code():
            for group in self.groups:
                begin = self._record(partial(self.begin, group))
                first = self._record(partial(self.take, group, True))
                bundles = (*(BUNDLES if few else ()), 1)
                further = [(steps, self._record(partial(self._take_bundle, group, steps))) for steps in bundles]
                self._graphs.append(_Graphs(begin, first, further))
            self._last = self._record(self.finish)
            self._single = self._record(partial(self.launch, 1))

    def replay(self, steps: int) -> None:
        """Take ``steps`` steps; does not wait for the device."""
        while steps > 0 and not self.stopped:
            together = min(steps, self._most)
            self._replay(together)
            steps -= together

    def _replay(self, steps: int) -> None:
        launch = wp.capture_launch
        if steps == 1:
            launch(self._single)
            return
        for graphs in self._graphs:
            launch(graphs.begin)
            further = steps - 2
            if further >= 0:
                launch(graphs.first)
            for taken, graph in graphs.further:
                while further >= taken and not self.stopped:
                    launch(graph)
                    further -= taken
        if not self.stopped:
            launch(self._last)

    @launches
    def settle(self, start: int, steps: int) -> int:
        """After a replay of ``steps`` steps from step ``start`` on was interrupted, go back to the last complete pass.

        The first world of the shard is ahead of all others during a pass and counts its steps. Joint coordinates of
        the state are those of the pass's beginning until its last step; bodies are placed again.

        Returns:
            How many of the steps are complete.

        Raises:
            RuntimeError: The joints of the state have changed within the pass, as with fp64 around a solver in fp32.
        """
        shard, boundary = self._shard, self._shard.solver.boundary
        self.stopped = False
        taken = int(boundary.frame.numpy()[0]) - start
        complete = taken if taken == steps else taken // self._most * self._most
        if complete != taken:
            if not boundary.continues(shard.state):
                raise RuntimeError("The state was written in the middle of a pass.")
            boundary.place(shard.state, shard.control, shard.solver.all_worlds)
            boundary.frame.fill_(start + complete)
            boundary.time.assign(boundary.time.numpy() - (taken - complete) * shard.dt)
        return complete

    def _make_groups(self) -> list[_Group]:
        shard, found = self._shard, self._ranges
        if found is None:

            def find_all(is_first: bool) -> Any:
                shard.pipeline.collide(shard.state, shard.contacts, same_shapes=not is_first)
                return shard.contacts

            return [_Group(shard.solver.ranges, find_all)]

        def finder(i: int) -> Callable[[bool], Any]:
            def find(is_first: bool) -> Any:
                found.find(i, shard.state, is_first)
                return found.buffer

            return find

        return [_Group(worlds, finder(i)) for i, worlds in enumerate(self._shares)]

    def begin(self, group: _Group) -> None:
        """Read the state, after the model's arrays by shape."""
        if group is self.groups[0] and self._shard.share is not None:
            self._shard.share.pull()
        for worlds in group.ranges:
            self._steps.begin(self._shard.state, worlds)

    def take(self, group: _Group, is_first: bool) -> None:
        """Take one step that continues."""
        shard, steps = self._shard, self._steps
        contacts = group.find(is_first)
        steps.collect(shard.state, contacts)
        for worlds in group.ranges:
            steps.solve(worlds)
            steps.continue_step(shard.state, worlds)
            shard.count(contacts, worlds)

    def _take_bundle(self, group: _Group, steps: int) -> None:
        for _ in range(steps):
            self.take(group, False)

    def finish(self, is_first: bool = False) -> None:
        """Take the last step, of all worlds."""
        shard, steps = self._shard, self._steps
        if self._ranges is not None:
            self._ranges.count()
        shard.pipeline.collide(shard.state, shard.contacts, same_shapes=not is_first)
        steps.collect(shard.state, shard.contacts)
        for worlds in shard.solver.ranges:
            steps.solve(worlds)
            steps.end(shard.state, worlds)
            shard.count(shard.contacts, worlds)
        shard.solver.remember(shard.contacts, shard.dt)

    def _record(self, launch: Callable[[], Any]) -> Any:
        return capture_calls(self._shard.model.device, launch)


def share_ranges(ranges: Sequence[WorldRange]) -> list[Sequence[WorldRange]]:
    """Split the ranges into up to `GROUPS` runs of neighbours."""
    size = -(-len(ranges) // GROUPS)
    return [ranges[i : i + size] for i in range(0, len(ranges), size)]


def split_detection(shard: Shard, shares: Sequence[Sequence[WorldRange]]) -> Any:
    """Split detection by ``shares`` of the worlds if that gives the same contacts; else return None."""
    model = shard.model.newton_model
    if not model.device.is_cpu or len(shares) == 1:
        return None
    body_world = model.body_world.numpy()
    if (body_world < 0).any() or (np.diff(body_world) < 0).any():  # a body of no world is placed with the first one
        return None
    bounds = np.array([share[0].first for share in shares] + [shard.solver.sizes.world_count])
    return shard.pipeline.split(bounds, body_world)
