"""Contacts with the ground of a few worlds at a time.

While a few worlds take many steps, only their contacts are of interest. They go into a small buffer, the same for all
parts, which stays in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import newton
import numpy as np
import warp as wp

from ..kernels.structs import StructArgument
from ..model import SapState
from .ground import GroundContacts
from .need import note_totals
from .rows import ContactRows, row_arrays
from .state import round_poses, sap_collision_state_from_state

PASSES = 1024
"""The most passes that a part may make before the next part: so many totals over all parts are kept."""


class GroundParts:
    """Finds the contacts of parts of the worlds; the rows of a part are those of a pass over all worlds, in order."""

    buffer: newton.Contacts
    """The contacts of the part that was last looked at."""

    def __init__(
        self,
        ground: GroundContacts,
        selects: bool,
        bounds: np.ndarray,
        body_world: np.ndarray,
        make_buffer: Callable[[int], newton.Contacts],
    ):
        """Sort the pairs of ``ground`` by part.

        Args:
            ground: Whose pairs.
            selects: Whether a pass over all worlds selects, see `make_ground_kernel`. Here there is room for all.
            bounds: First world of each part, and the number of worlds.
            body_world: World of each of the model's bodies, growing.
            make_buffer: Allocates a contact buffer of a size.
        """
        model, device = ground.model, ground.model.device
        self._ground, self._selects = ground, selects
        plane, shape = ground.plane.numpy(), ground.shape.numpy()
        world = body_world[model.shape_body.numpy()[shape]]
        order = np.argsort(world, kind="stable")
        self._plane, self._shape = (wp.array(a[order], dtype=wp.int32, device=device) for a in (plane, shape))
        self._pair = np.searchsorted(world[order], bounds)
        self._body = np.searchsorted(body_world, bounds)
        most = np.concatenate([[0], np.cumsum(ground.most_contacts()[order])])[self._pair]
        self.buffer = make_buffer(max(1, int(np.diff(most).max())))
        self._rows = StructArgument(_rows_of(self.buffer), device)
        self._totals = wp.zeros(1 + PASSES, dtype=wp.int32, device=device)

    def find(self, i: int, state: SapState, is_first: bool) -> None:
        """Replace the content of `buffer` by the contacts of part ``i`` at ``state``.

        ``is_first`` starts the count of its passes, see `note`.
        """
        ground, view = self._ground, sap_collision_state_from_state(state)
        if view.body_q_source is not None:
            self._round(slice(int(self._body[i]), int(self._body[i + 1])), view.body_q_source, view.body_q)
        pairs = ground.pairs(self._plane, self._shape)
        first, last, capacity = int(self._pair[i]), int(self._pair[i + 1]), self.buffer.rigid_contact_max
        inputs = [pairs, first, last, view.body_q, ground.with_kinematic, capacity, capacity, 1 if is_first else 2]
        rows, none = self._rows.array, ground.no_counts
        ground.launch(self._selects, [*inputs, ground.no_selection, rows], [rows, none, none, self._totals])

    def note(self, record: wp.array) -> None:
        """After all parts have made as many passes: note the need of these passes in ``record``."""
        device = self._ground.model.device
        wp.launch(note_totals, dim=1, inputs=[self._totals], outputs=[record], device=device, record_tape=False)

    def _round(self, bodies: slice, source: wp.array, target: wp.array) -> None:
        """Poses of some bodies in fp32."""
        count, device = bodies.stop - bodies.start, source.device
        poses = source[bodies], target[bodies]
        wp.launch(round_poses, dim=count, inputs=[poses[0]], outputs=[poses[1]], device=device, record_tape=False)


def _rows_of(buffer: newton.Contacts) -> Any:
    rows: Any = ContactRows()
    for name, array in row_arrays(buffer).items():
        if array is not None:
            setattr(rows, name, array)
    return rows
