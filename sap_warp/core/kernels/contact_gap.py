"""The signed gap of a contact, which collision detection and the solver both need."""

from typing import Any

import warp as wp


@wp.func
def contact_gap(n: Any, p_01: Any, margin0: Any, margin1: Any):
    """phi0 = n . (x1 - x0) - margin0 - margin1 [m], negative in penetration; in the precision of the arguments.

    Args:
        n: Unit normal from shape 0 to shape 1.
        p_01: x1 - x0, from core point to core point [m], in the same frame as ``n``. Far from the origin subtract
            the origins of the two bodies first, so that little is lost.
        margin0: Distance from core to effective surface of shape 0 [m], with the radius of round shapes.
        margin1: Distance from core to effective surface of shape 1 [m].
    """
    return wp.dot(n, p_01) - margin0 - margin1
