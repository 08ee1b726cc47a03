"""How the kernels of a step are compiled and launched.

Loops of the kernels over dofs, bodies and rows are `while` loops: Warp's ``range`` keeps its step and its counter in
one register, which costs some fifteen instructions per turn on the CPU and hides from the compiler that it could
vectorize.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import warp as wp

from .. import native
from .lanes import IN_A_WARP, block_size
from .scratch import WARPS_PER_MULTIPROCESSOR
from .template import Device


def kernel(function: Any = None, *, max_registers: int | None = None) -> Any:
    """Decorate the template of a kernel: ``name.of(variant)`` is the Warp kernel, as `solver_kernel` makes it."""
    if function is None:
        return lambda f: kernel(f, max_registers=max_registers)
    return Device(function, lambda copy, _: solver_kernel(copy, max_registers))


def plain_kernel(function: Any) -> Any:
    """Decorate the template of a kernel with Warp's own compiler flags, forward only."""
    return Device(function, lambda copy, _: wp.kernel(copy, enable_backward=False, module="unique"))


def solver_kernel(function: Callable[..., Any], max_registers: int | None = None) -> Any:
    """Make a Warp kernel in a module of its own, forward only, with the native headers and fused multiply-add.

    A module of its own is compiled only when a step needs it, and each precision is compiled once. Warp's CPU flags
    keep products and sums apart; fusing them, as CUDA does anyway, takes about 8 % off a step and rounds less.
    ``max_registers`` are those of a lane on CUDA.
    """
    flags = wp.config.cpu_compiler_flags
    flags = "-march=native" if flags is None else flags
    options = {"cpu_compiler_flags": f"{flags} -ffp-contract=fast {native.compiler_flags()}".strip()}
    return wp.kernel(
        function,
        module="unique",
        enable_backward=False,
        module_options=options,
        cuda_max_registers=max_registers,
    )


ONE_WARP_DOFS = 64
"""Up to so many dofs in its largest world one warp shares a world on CUDA, else two: one wastes less in short loops."""


def lanes_for(dofs: int, worlds: int, device: Any) -> int:
    """Lanes that share a world on CUDA, if the largest one has so many dofs.

    Tiny worlds share a warp, unless they are so few that all of them can have a warp at a time.
    """
    if worlds > device.sm_count * WARPS_PER_MULTIPROCESSOR:
        for lanes in IN_A_WARP:
            if dofs <= lanes:
                return lanes
    return 32 if dofs <= ONE_WARP_DOFS else 64


@dataclass(frozen=True)
class WorldRange:
    """The worlds ``first`` to ``first + count - 1``, each by ``lanes`` threads."""

    first: int
    count: int
    lanes: int

    def launch(self, kernel: Any, *arguments: Any, device: Any, max_blocks: int = 0) -> None:
        """All of these worlds; a kernel's first parameter is the first world.

        With ``max_blocks`` a block takes one world after the other on CUDA.
        """
        wp.launch(
            kernel,
            dim=self.count * self.lanes,
            inputs=[self.first, *arguments],
            block_dim=block_size(self.lanes, device),
            device=device,
            max_blocks=max_blocks,
            record_tape=False,
        )
