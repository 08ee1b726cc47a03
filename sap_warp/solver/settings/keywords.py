"""Keywords of `Simulation` for editors and type checkers, which complete and check them.

What each of them means stands at the field of that name in `SapOptions`, the arguments of `SolverSAP` and those of
`SapCollisionPipeline`. A test keeps the lists equal.
"""

from __future__ import annotations

from .options import SolverOptions


class SimulationOptions(SolverOptions, total=False):
    """What `Simulation` hands on to solver and pipeline."""

    contact_preset_variant: str
    block_dim: int | None
    strict_capacity: bool
    rigid_contact_max: int | None
