"""The medium around the bodies (``mujoco.density``, ``viscosity``, ``wind``): drag on the box of each body's inertia.

A body of mass m and principal moments I_i feels the medium as the solid box with sides b_i of the same mass and
moments, b_1^2 = 6 (I_2 + I_3 - I_1)/m. With d the mean of its sides, and velocities u_i, w_i of its centre of mass
against the wind, along the principal axes:

    force_1  = -(3 pi d mu + rho/2 b_2 b_3 |u_1|) u_1
    torque_1 = -(pi d^3 mu + rho/64 b_1 (b_2^4 + b_3^4) |w_1|) w_1

and the same for axes 2 and 3. Each is divided by 1 + h c/m (c the coefficient, for torques h c/I), as if it were
implicit in the velocity of the body alone: a light body in a thick medium slows down, however long the step.

Boxes follow masses and inertias at construction and at `notify_model_changed`; density, viscosity and wind are read in
every step. Nothing is launched for a model in which density and viscosity are zero then.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import newton
import numpy as np
import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.launch import WorldRange, kernel
from ...core.kernels.spatial import to_quat, to_vec3
from ...core.kernels.structs import StructArgument
from ...core.kernels.template import Variant
from ..model.layout import moves
from ..model.motion_data import MotionStage
from ..settings.precisions import dynamics

if TYPE_CHECKING:
    from ...model.model import SapModel

F = wp.float64
scalar = dynamics.scalar
to_motion, to_rotation = to_vec3.on(number=dynamics), to_quat.on(number=dynamics)


@wp.struct
class Medium:
    """What bodies move through, and their boxes."""

    density: wp.array(dtype=wp.float32)  # [kg/m^3], by world
    viscosity: wp.array(dtype=wp.float32)  # [Pa s], by world
    wind: wp.array(dtype=wp.vec3f)  # [m/s], by world
    sides: wp.array(dtype=wp.vec3d)  # of the box [m], by Newton's body
    axes: wp.array(dtype=wp.quatd)  # principal axes in the body, by Newton's body
    force: wp.array(dtype=wp.vec3d)  # on the body [N], by body of the solver
    moment: wp.array(dtype=wp.vec3d)  # about the origin of its tree [N m], by body of the solver


def has_medium(model: newton.Model) -> bool:
    """Return True if a world of ``model`` has a medium."""
    arrays = [getattr(getattr(model, "mujoco", None), name, None) for name in ("density", "viscosity")]
    return any(array is not None and bool(np.any(array.numpy())) for array in arrays)


def inertia_boxes(mass: np.ndarray, inertia: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sides [m] and axes (quaternions xyzw in the body) of the boxes of bodies; a side is 0 without mass."""
    moments, axes = np.linalg.eigh(inertia.astype(np.float64))
    others = moments.sum(axis=1, keepdims=True) - 2.0 * moments
    has_mass = (mass > 0.0)[:, None]
    sides = np.sqrt(np.where(has_mass, 6.0 * np.maximum(others, 0.0) / np.where(has_mass, mass[:, None], 1.0), 0.0))
    axes[np.linalg.det(axes) < 0.0, :, 2] *= -1.0
    return sides, np.array([wp.quat_from_matrix(wp.mat33d(*R.ravel())) for R in axes]).reshape(-1, 4)


@wp.func
def drag(c: F, speed: F, h: F, inertia: F) -> F:
    """Return the force or torque of the coefficient c at a speed, divided by 1 + h c/inertia."""
    return -c * speed / (F(1.0) + h * c / inertia)


@wp.func
def drag_force(b: wp.vec3d, u: wp.vec3d, rho: F, mu: F, h: F, m: F) -> wp.vec3d:
    """Return the force along the axes of a box with the sides b."""
    viscous = F(wp.static(math.pi)) * (b[0] + b[1] + b[2]) * mu  # 3 pi d mu
    out = wp.vec3d()
    for i in range(3):
        face = b[(i + 1) % 3] * b[(i + 2) % 3]
        out[i] = drag(viscous + F(0.5) * rho * face * wp.abs(u[i]), u[i], h, m)
    return out


@wp.func
def drag_torque(b: wp.vec3d, w: wp.vec3d, rho: F, mu: F, h: F, m: F) -> wp.vec3d:
    """Return the torque about the axes of a box with the sides b."""
    d = (b[0] + b[1] + b[2]) / F(3.0)
    out = wp.vec3d()
    for i in range(3):
        p = b[(i + 1) % 3] * b[(i + 1) % 3]
        q = b[(i + 2) % 3] * b[(i + 2) % 3]
        c = F(wp.static(math.pi)) * d * d * d * mu + rho * b[i] * (p * p + q * q) * wp.abs(w[i]) / F(64.0)
        out[i] = drag(c, w[i], h, wp.max(m * (p + q) / F(12.0), F(1e-30)))
    return out


@kernel
def add_drag(first_world: int, stage: wp.array[MotionStage], medium: wp.array[Medium], dt: F):
    """Add the drag on each body to the impulse: one block per world, bodies and then dofs shared by the lanes."""
    world = first_world + wp.tid() // lane_count()
    layout = stage[0].layout
    links = stage[0].links
    motion = stage[0].motion
    rho = F(medium[0].density[world])
    mu = F(medium[0].viscosity[world])
    wind = wp.vec3d(medium[0].wind[world])
    b_start = layout.world_body[world]
    b_end = layout.world_body[world + 1]
    b = int(b_start + lane())
    while b < b_end:
        body = links[b].body
        f = wp.vec3d()
        moment = wp.vec3d()
        m = F(links[b].mass)
        if m > F(0.0):
            turned = wp.quatd(to_rotation(motion.r[b]))
            arm = wp.vec3d(to_motion(motion.p[b])) + wp.quat_rotate(turned, wp.vec3d(to_motion(links[b].com)))
            frame = turned * medium[0].axes[body]
            w = wp.vec3d(to_motion(motion.Vw[b]))
            u = wp.vec3d(to_motion(motion.Vv[b])) + wp.cross(w, arm) - wind
            sides = medium[0].sides[body]
            f = wp.quat_rotate(frame, drag_force(sides, wp.quat_rotate_inv(frame, u), rho, mu, dt, m))
            torque = wp.quat_rotate(frame, drag_torque(sides, wp.quat_rotate_inv(frame, w), rho, mu, dt, m))
            moment = torque + wp.cross(arm, f)
        medium[0].force[b] = f
        medium[0].moment[b] = moment
        b += lane_count()
    barrier()
    e_end = layout.world_dof[world + 1]
    e = int(layout.world_dof[world] + lane())
    while e < e_end:
        force = F(0.0)
        b = int(b_start)
        while b < b_end:
            if moves(layout, e, b):
                force += wp.dot(medium[0].force[b], wp.vec3d(to_motion(motion.Sv[e])))
                force += wp.dot(medium[0].moment[b], wp.vec3d(to_motion(motion.Sw[e])))
            b += 1
        motion.impulse[e] = motion.impulse[e] + scalar(dt * force)
        e += lane_count()
    if lane() == 0 and wp.length(wind) > F(0.0):
        motion.energy_watch[world] = 0  # `stability` has no account of the wind's work


class Fluid:
    """Adds the drag to the impulse of free motion."""

    def __init__(self, model: SapModel, body_count: int, variant: Variant):
        """``body_count`` are the bodies in the solver, ``variant`` is that of its kernels."""
        self._model, self._body_count, self._variant = model, body_count, variant
        self.refresh()

    def refresh(self) -> None:
        """See again whether there is a medium, and how large the bodies are in it."""
        model, self._medium = self._model.newton_model, None
        if not has_medium(model):
            return
        device, worlds, medium = model.device, max(int(model.world_count), 1), Medium()
        for name, dtype in (("density", wp.float32), ("viscosity", wp.float32), ("wind", wp.vec3f)):
            given = getattr(model.mujoco, name, None)
            setattr(medium, name, wp.zeros(worlds, dtype=dtype, device=device) if given is None else given)
        sides, axes = inertia_boxes(model.body_mass.numpy(), model.body_inertia.numpy())
        medium.sides = wp.array(sides, dtype=wp.vec3d, device=device)
        medium.axes = wp.array(axes, dtype=wp.quatd, device=device)
        for name in ("force", "moment"):
            setattr(medium, name, wp.zeros(self._body_count, dtype=wp.vec3d, device=device))
        self._medium = wp.array([medium], dtype=Medium, device=device)
        self._kept = medium

    def add(self, stage: StructArgument, dt: float, worlds: WorldRange) -> None:
        """Add h times the forces to the impulse of ``stage``, a `MotionStage`."""
        if self._medium is not None:
            worlds.launch(add_drag.of(self._variant), stage.array, self._medium, dt, device=self._model.device)
