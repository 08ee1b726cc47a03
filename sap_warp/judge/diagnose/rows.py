"""Contacts of the last step and quantities that follow from them, as NumPy arrays without loops over contacts.

The impulse is worked out here once more from the law of `solver/terms/contact.py`: what the solver keeps after a step
is the velocity of each row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .samples import SLIDING, STICTION

_APART = -1e29
"""Value of vhat of rows that take no part."""


def row_numbers(count: np.ndarray, capacity: int, worlds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows in use of ``worlds``, and the world of each."""
    used = np.arange(capacity) < count[worlds, None]
    at, within = np.nonzero(used)
    return worlds[at] * capacity + within, worlds[at]


def read_rows(solver: Any, worlds: np.ndarray) -> dict[str, np.ndarray]:
    """Return contacts of ``worlds`` as the solver has them after a step, without distance joints."""
    data = solver.contact_stage.data
    rows, world = row_numbers(data.count.numpy(), solver.contact_stage.capacity, worlds)
    keep = (data.source.numpy()[rows] >= 0) & (data.vhat.numpy()[rows] > _APART)
    rows = rows[keep]
    names = ("source", "body_a", "body_b", "normal", "r_a", "r_b", "phi0", "vhat", "mu", "weight", "Rt", "Rn")
    found = {name: getattr(data, name).numpy()[rows] for name in names}
    found = {name: a.astype(np.float64) if a.dtype.kind == "f" else a for name, a in found.items()}
    found |= {"world": world[keep], "vc": solver.contact_solve.data.vc.numpy()[rows].astype(np.float64)}
    return found | contact_impulses(found)


def contact_impulses(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return ``push`` [N s], ``friction`` [N s, vector], ``mode`` and tangential ``velocity`` [m/s] of rows."""
    n, mu, Rt, Rn = rows["normal"], rows["mu"], rows["Rt"], rows["Rn"]
    vn = np.einsum("ij,ij->i", n, rows["vc"])
    vt = rows["vc"] - vn[:, None] * n
    yn, yt = (rows["vhat"] - vn) / Rn, -vt / Rt[:, None]
    yr = np.linalg.norm(yt, axis=1)
    mu_hat = mu * Rt / Rn
    sticks = (mu > 0.0) & (yn > 0.0) & (yr <= mu * yn)
    slides = ~sticks & (yn > -mu_hat * yr)
    push = np.where(sticks, yn, np.where(slides, (yn + mu_hat * yr) / (1.0 + mu * mu_hat), 0.0))
    direction = yt / np.maximum(yr, 1e-300)[:, None]
    friction = np.where(sticks[:, None], yt, (mu * push)[:, None] * direction)
    mode = np.where(sticks, STICTION, np.where(slides, SLIDING, 0))
    return {"push": push, "friction": friction, "mode": mode, "velocity": vt}


def rigid_slip(rows: dict[str, np.ndarray], point: np.ndarray, owners: Any, before: np.ndarray, now: np.ndarray) -> Any:
    """Return how far side 1 moved along side 0 between two poses of the bodies [m, vector].

    Both sides are followed back as rigid bodies from ``point``, so that the sum over samples telescopes: rounding of
    poses does not add up.

    Args:
        rows: With ``normal``.
        point: Contact points [m, world].
        owners: Body of each side of each row, -1 for none.
        before: Poses [bodies, 7] at the sample before.
        now: Poses at this sample.
    """
    moved = np.zeros((2, len(point), 3))
    for side, body in enumerate(owners):
        has = body >= 0
        b = body[has]
        local = rotate_back(now[b, 3:], point[has] - now[b, :3])
        moved[side, has] = point[has] - (before[b, :3] + rotate(before[b, 3:], local))
    slip = moved[1] - moved[0]
    n = rows["normal"]
    return slip - np.einsum("ij,ij->i", slip, n)[:, None] * n


def rotate(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Rotate vectors by quaternions xyzw."""
    q = q / np.linalg.norm(q, axis=1, keepdims=True)
    t = 2.0 * np.cross(q[:, :3], v)
    return v + q[:, 3:] * t + np.cross(q[:, :3], t)


def rotate_back(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Rotate vectors by the inverses of quaternions."""
    return rotate(q * np.array([-1.0, -1.0, -1.0, 1.0]), v)
