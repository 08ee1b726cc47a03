"""Observables that Newton's sensors read beside the state, filled by the steps of a simulation."""

from __future__ import annotations

from typing import Any

import newton
import warp as wp

from ...core.runtime.capture import launches
from .kernels import difference

_KIND = newton.solvers.SolverBase.ObservableKind
OFFERED = {"body_qdd": _KIND.BODY_QDD, "contact_f": _KIND.CONTACT_F, "body_parent_f": _KIND.BODY_PARENT_F}
"""Observables by name."""


class _Allocator(newton.solvers.SolverBase):
    """Solver that only makes Newton's containers; steps are taken by the simulation."""

    SUPPORTED_OBSERVABLES = frozenset(OFFERED.values())


class Observed:
    """Arrays that hold observables of the last step whenever `Simulation.step` returns or a callback runs."""

    def __init__(self, sim: Any, kinds: Any):
        """Allocate them for ``sim``.

        Raises:
            ValueError: A kind is not known, or is not to be had with several threads.
        """
        wanted = {_as_kind(kind) for kind in ([kinds] if isinstance(kinds, (str, _KIND)) else kinds)}
        self._sim = sim
        contacts = None
        if _KIND.CONTACT_F in wanted:
            if len(sim.shards) > 1:
                raise ValueError(
                    f"contact_f follows Newton's contact buffer, and with threads={sim.threads} there are several: use "
                    "threads=1, or sim.contact_forces() and sim.contact_pairs()."
                )
            contacts = sim.contacts.newton_contacts
        if sim.precision != "fp32":
            raise ValueError("Newton's sensors read states in fp32; make the simulation with precision='fp32'.")
        self.arrays: Any = _Allocator(sim.model).observables(wanted, contacts=contacts)
        """Newton's `Observables`, of the whole model also where shards have models of their own."""

    @property
    def needs_last_step(self) -> bool:
        """True if the last step has to be taken alone."""
        return self.arrays.body_qdd is not None

    @launches
    def before(self) -> None:
        """Store what the next step changes."""
        if self.arrays.body_qdd is not None:
            wp.copy(self.arrays.body_qdd, self._sim.state.body_qd)

    @launches
    def after(self) -> None:
        """Fill the arrays."""
        sim = self._sim
        if self.arrays.body_qdd is not None:
            array = self.arrays.body_qdd
            wp.launch(
                difference, array.shape[0], inputs=[sim.state.body_qd, 1.0 / sim.dt], outputs=[array], device=sim.device
            )
        if self.arrays.body_parent_f is not None:
            first = 0
            for shard in sim.shards:
                count = shard.model.body_count
                shard.solver.parent_forces(self.arrays.body_parent_f[first : first + count])
                first += count
        if self.arrays.contact_f is not None:
            wp.copy(self.arrays.contact_f, sim.solver.contact_forces().spatial_force)


def _as_kind(kind: Any) -> Any:
    if kind in OFFERED.values():
        return kind
    if isinstance(kind, str) and kind.lower() in OFFERED:
        return OFFERED[kind.lower()]
    raise ValueError(f"observable {kind!r} is not offered; there is: {', '.join(OFFERED)}.")
