"""How the kernels of a step are compiled.

Loops of the kernels over dofs, bodies and rows are `while` loops: Warp's ``range`` keeps its step and its counter in
one register, which costs some fifteen instructions per turn on the CPU and hides from the compiler that it could
vectorize.
"""

from collections.abc import Callable
from typing import Any

import warp as wp


def solver_kernel(function: Callable[..., Any]) -> Any:
    """Make a Warp kernel in a module of its own, forward only, with fused multiply-add on the CPU.

    A module of its own is compiled only when a step needs it, and each precision is compiled once. Warp's CPU flags
    keep products and sums apart; fusing them, as CUDA does anyway, takes about 8 % off a step and rounds less.
    """
    flags = wp.config.cpu_compiler_flags
    flags = "-march=native" if flags is None else flags
    options = {"cpu_compiler_flags": f"{flags} -ffp-contract=fast".strip()}
    return wp.kernel(function, module="unique", enable_backward=False, module_options=options)
