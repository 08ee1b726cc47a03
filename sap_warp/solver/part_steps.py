"""Several steps of a few worlds, of which only the last one leaves a state.

Between these steps the coordinates stay in the solver's own buffers, see `passage`. The numbers are those of steps that
go through a state, to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..model import SapState
from .parts import Part

if TYPE_CHECKING:
    from .solver import SolverSAP


class PartSteps:
    """What a solver launches for such steps. The caller detects the contacts of the part, between the calls.

    For k steps: `enter`, k - 1 times `solve` and `stay`, once more `solve`, then `leave`.
    """

    def __init__(self, solver: SolverSAP, states: tuple[SapState, SapState], control: Any, dt: float):
        """From the first of ``states`` to the second one, whose poses are those of the steps between."""
        self._solver, self._states, self._dt = solver, states, dt
        self._control = solver._control(control)

    @staticmethod
    def suit(solver: SolverSAP, state: SapState) -> bool:
        """Whether ``solver`` can take such steps: every world must be on its own, and all its joints in trees."""
        model = solver.model
        world = model.body_world.numpy()
        apart = len(solver.parts) == 1 or bool((world >= 0).all())  # a body of no world is placed with the first one
        alone = solver.collision_pipeline is None and not solver.loop_joints.count
        return model.device.is_cpu and apart and alone and solver.passage.can_stay(state)

    def enter(self, part: Part) -> None:
        """Read the first state."""
        self._solver.boundary.read(self._states[0], self._control, part)

    def solve(self, part: Part, contacts: Any, state: SapState) -> None:
        """Find the velocities at the end of a step, with the ``contacts`` of this part at ``state``."""
        solver = self._solver
        solver.contact_jacobian.collect(state, contacts)
        solver._find_velocity(self._control, None, self._dt, part)

    def stay(self, part: Part) -> None:
        """Finish a step and begin the next one: new positions in the solver, new poses in the second state."""
        solver = self._solver
        velocity, status = solver.contact_solve.velocity, solver.world_status
        solver.integrate.stay(velocity, status, self._states[1], self._control, self._dt, part)

    def leave(self, part: Part) -> None:
        """Finish the last step: fill the second state."""
        solver = self._solver
        solver.integrate.write(solver.contact_solve.velocity, solver.world_status, self._states[1], self._dt, part)
