"""Kernels on the pretended device: launches, what went wrong in them, and what they did."""

from __future__ import annotations

import ctypes
import functools
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sap_warp.core.kernels.lanes import IN_A_WARP

from . import build
from .ptx import Module, parse
from .translate import Translation, translate

WHAT = {  # as in device.c; {lane}, {other}
    "lane race: write, then read": "lane {lane} reads what lane {other} has written since the last barrier",
    "lane race: two writes": "lanes {lane} and {other} write the same word between two barriers",
    "lane race: read, then write": "lane {lane} writes what lane {other} has read since the last barrier",
    "block race: write, then read": "block {block} reads what another block of the launch has written",
    "block race: two writes": "two blocks of a launch write the same word, one is {block}",
    "block race: read, then write": "block {block} writes what another block of the launch has read",
    "out of bounds": "lane {lane} of block {block} touches {size} bytes at {address:#x}, which are not allocated",
    "misaligned": "lane {lane} of block {block} touches {size} bytes at {address:#x}, no multiple of {size}",
    "unset shared memory": "lane {lane} of block {block} reads shared memory at {address} that nobody has set",
    "divergent barrier": "lanes {lane} and {other} of block {block} wait at different barriers",
    "left barrier": "lane {lane} of block {block} waits at a barrier, lane {other} has ended",
    "divergent warp": "lane {lane} of block {block} waits for lanes of its warp that do not come",
    "endless loop": "lane {lane} of block {block} does not end",
    "trap": "lane {lane} of block {block} has stopped the kernel",
    "store to constant": "lane {lane} of block {block} writes to a constant",
}
UNITS = {block: lanes for lanes, block in IN_A_WARP.items()}
"""Lanes of a world by the size of a block in which several worlds share a warp."""
ENDS_LAUNCH = ("divergent barrier", "left barrier", "divergent warp", "endless loop", "trap")


class EmulationError(RuntimeError):
    """A kernel did what it must not do on a GPU."""


@dataclass(frozen=True)
class Fault:
    """Something that a kernel must not do."""

    kernel: str
    what: str
    """One of `WHAT`."""
    message: str
    count: int

    def __str__(self) -> str:
        return f"{self.kernel}: {self.message} ({self.count} times)"


class _Report(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("kind", "site", "other_site", "lane", "other", "block", "order", "size")),
        ("address", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
    ]


@dataclass
class Counts:
    """What the launches of a kernel did, summed over blocks."""

    events: Counter[str] = field(default_factory=Counter)
    """``launches``, ``blocks``, ``barriers`` of blocks of several warps, ``warp_barriers`` of blocks of one warp, where
    a barrier costs little, ``sectors_read``, ``sectors_written``."""
    warp: Counter[str] = field(default_factory=Counter)
    """Instructions that warps issued, by kind: ``all``, ``fp64``, ``fp32``, ``loads``, ``stores``, ..."""
    lane: Counter[str] = field(default_factory=Counter)
    """The same, each lane counted."""
    lines: dict[int, str] = field(default_factory=dict)
    """The instructions that were executed, by line."""
    passes: Counter[int] = field(default_factory=Counter)
    """How often warps executed each instruction of the kernel, by line; 0 of those that were not reached."""


class Kernel:
    """A kernel of a PTX text, compiled when it is launched first."""

    def __init__(self, module: Module, name: str):
        """Translate it."""
        self.name = re.sub(r"_[0-9a-f]{8}_cuda_kernel_forward$", "", name).rpartition("__")[2]
        """As in the source."""
        self.translation: Translation = translate(module, name)
        self._library: ctypes.CDLL | None = None

    def _load(self) -> ctypes.CDLL:
        if self._library is None:
            build.runtime()  # before: it has what the library calls
            path = build.compile_c(self.translation.c, self.name)
            self._library = ctypes.CDLL(str(path))
        return self._library


@functools.cache
def load_kernel(text: str, name: str) -> Kernel:
    """The kernel ``name`` of a PTX text."""
    return Kernel(parse(text), name)


class Device:
    """Launches kernels and remembers what they did."""

    def __init__(self, seed: int = 1):
        """``seed`` chooses the order of blocks and lanes; 0 keeps them in order."""
        self.seed = seed
        self.skipped: tuple[str, int] = ("", 0)
        """Kernel and line of a barrier that is left out, as if it had been forgotten."""
        self.faults: list[Fault] = []
        self.counts: defaultdict[str, Counts] = defaultdict(Counts)

    def clear(self) -> None:
        """Forget faults and counts."""
        self.faults.clear()
        self.counts.clear()

    def launch(self, kernel: Kernel, parameters: Sequence[int], blocks: int, lanes: int) -> bool:
        """Run a grid; ``parameters`` are addresses. Returns whether it came to its end."""
        library, device = kernel._load(), build.runtime()
        code = kernel.translation.blocks
        tally = np.zeros((2, max(len(code), 1)), dtype=np.uint64)
        begin, end = (ctypes.c_void_p.in_dll(library, f"constants_{name}") for name in ("begin", "end"))
        for name in ("barriers", "warp_barriers", "sectors_read", "sectors_written"):
            ctypes.c_uint64.in_dll(device, name).value = 0
        skipped = ctypes.c_int.in_dll(device, "skipped_barrier")
        skipped.value = self.skipped[1] if self.skipped[0] == kernel.name else 0
        self.seed += self.seed > 0  # another order each time
        is_complete = device.device_launch(
            library.run_lane,
            (ctypes.c_void_p * len(parameters))(*parameters),
            ctypes.c_uint32(blocks),
            ctypes.c_uint32(lanes),
            ctypes.c_uint32(UNITS.get(lanes, 0)),
            ctypes.c_uint32(kernel.translation.shared_bytes),
            ctypes.c_uint64(self.seed),
            ctypes.c_uint32(len(code)),
            tally.ctypes.data_as(ctypes.c_void_p),
            begin,
            end,
        )
        self._collect(kernel, device)
        self._count(kernel, device, tally, blocks)
        return bool(is_complete)

    def _collect(self, kernel: Kernel, device: ctypes.CDLL) -> None:
        count = ctypes.c_int.in_dll(device, "report_count")
        for r in (_Report * 64).in_dll(device, "reports")[: count.value]:
            what, message = list(WHAT.items())[r.kind]
            text = message.format(lane=r.lane, other=r.other, block=r.block, size=r.size, address=r.address)
            for site in (r.other_site, r.site):
                if site in kernel.translation.texts:
                    text += f"; line {site}: {kernel.translation.texts[site]}"
            self.faults.append(Fault(kernel.name, what, text, r.count))
        count.value = 0

    def _count(self, kernel: Kernel, device: ctypes.CDLL, tally: np.ndarray, blocks: int) -> None:
        counts = self.counts[kernel.name]
        measured = ("barriers", "warp_barriers", "sectors_read", "sectors_written")
        counts.events.update({name: ctypes.c_uint64.in_dll(device, name).value for name in measured})
        counts.events.update(launches=1, blocks=blocks)
        code = kernel.translation
        counts.lines |= {line: code.texts[line] for line, k in code.block_of.items() if tally[1, k]}
        counts.passes.update({line: int(tally[0, k]) for line, k in code.block_of.items()})
        for target, times in zip((counts.warp, counts.lane), tally, strict=True):
            for k in np.flatnonzero(times):
                for kind, number in kernel.translation.blocks[k].items():
                    target[kind] += number * int(times[k])
