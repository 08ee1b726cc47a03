"""Data of a run: facts about the model, and samples of contacts, joints, bodies and worlds. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

STICTION, SLIDING = 1, 2


@dataclass
class Facts:
    """Data that does not change during a run. Bodies, shapes and dofs are numbered through all shards.

    An *owner* is what takes part in a contact: a body, or a shape that is fixed to the world. Owners are numbered
    bodies first, then shapes.
    """

    owner_name: np.ndarray
    """Labels; a number is added where one world has a label twice, [bodies + shapes]."""
    body_world: np.ndarray
    """World of each body, -1 for bodies of all worlds."""
    body_mass: np.ndarray
    """Mass [kg]."""
    body_tree: np.ndarray
    """Number of the mechanism (root body) that a body belongs to."""
    body_alone: np.ndarray
    """Whether a body floats by itself."""
    body_dof: np.ndarray
    """Dof of the nearest joint above a body that has one, -1 without."""
    shape_owner: np.ndarray
    shape_label: list[str]
    shape_size: np.ndarray
    """Smallest extent [m]; inf for planes."""
    shape_ke: np.ndarray
    """Stiffness in force [N/m]."""
    shape_mu: np.ndarray
    shape_tau: np.ndarray
    """Dissipation time in force [s]."""
    dof_name: np.ndarray
    dof_world: np.ndarray
    dof_turns: np.ndarray
    """Whether the coordinate is an angle [rad] and not a length [m]."""
    dof_ke: np.ndarray
    """Stiffness of the drive [N/m or N m/rad]; 0 where it follows no position."""
    dof_effort_limit: np.ndarray
    dof_lower: np.ndarray
    dof_upper: np.ndarray
    dof_limit_ke: np.ndarray
    gravity: np.ndarray
    """Gravity by world [m/s^2]."""


@dataclass
class ContactRows:
    """Contacts that push, of all samples one after another."""

    sample: np.ndarray
    world: np.ndarray
    owner0: np.ndarray
    owner1: np.ndarray
    shape0: np.ndarray
    shape1: np.ndarray
    normal: np.ndarray
    """Unit normal from 0 to 1, world axes."""
    point: np.ndarray
    """Contact point [m, world]."""
    phi: np.ndarray
    """Gap [m], negative in penetration."""
    mu: np.ndarray
    weight: np.ndarray
    """Contact weight w [1/kg]."""
    Rt: np.ndarray
    Rn: np.ndarray
    reach: np.ndarray
    """h + tau [s]."""
    velocity: np.ndarray
    """Tangential velocity of 1 relative to 0 that the solver found [m/s], in axes of 0."""
    push: np.ndarray
    """Normal impulse [N s]."""
    friction: np.ndarray
    """Tangential impulse on 1 [N s], world axes."""
    mode: np.ndarray
    """STICTION or SLIDING."""
    slip: np.ndarray
    """Displacement of 1 along 0 since the last sample [m], in axes of 0."""
    delassus: np.ndarray
    """Weight by diag_delassus [1/kg]; nan in samples in which it was not worked out."""

    @classmethod
    def join(cls, parts: list[Self]) -> Self:
        """Concatenate samples."""
        return cls(**{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)})


@dataclass
class JointSamples:
    """Dofs of joints in detailed worlds, [samples, dofs]."""

    dof: np.ndarray
    """Indices of the dofs in `Facts`, [dofs]."""
    position: np.ndarray
    velocity: np.ndarray
    target: np.ndarray
    """Target of the drive [m or rad]; NaN for a dof without a scalar coordinate."""
    asked: np.ndarray
    """Effort of drive and actuator without the limit [N or N m]; 0 where there is none."""
    limit: np.ndarray
    """Effort limit in force; inf without one."""
    bound_force: np.ndarray
    """Force of position limits [N or N m], positive at the lower one."""
    applied: np.ndarray
    """Effort applied by the user [N or N m]."""
    load: np.ndarray
    """Effort of gravity, inertia and applied forces on the dof [N or N m]; a drive has to give the opposite."""


@dataclass
class BodySamples:
    """Bodies of the detailed worlds, and those of no world, [samples, bodies]."""

    body: np.ndarray
    """Indices of the bodies in `Facts`, [bodies]."""
    velocity: np.ndarray
    """Velocity of the centre of mass [m/s], [samples, bodies, 3]."""
    spin: np.ndarray
    """Angular velocity [rad/s], [samples, bodies, 3]."""
    imbalance: np.ndarray
    """Velocity error that the solve leaves to a body that floats by itself [m/s]; NaN for others."""
    force: np.ndarray
    """External force [N], world axes, [samples, bodies, 3]."""

    def column(self, body: int) -> int:
        """Return the column with the samples of a body."""
        return int(np.searchsorted(self.body, body))


@dataclass
class WorldSamples:
    """The outcome of steps, [samples, worlds]."""

    status: np.ndarray
    iterations: np.ndarray
    contacts: np.ndarray
    dropped: np.ndarray
    """Contacts that did not fit into the world."""
    overflow: np.ndarray
    """Contacts that did not fit into the pipeline's buffers, over all worlds, [samples]."""
    energy: np.ndarray
    """Kinetic energy, work of the last step, and energy error of the time step [J], [samples, worlds, 3]."""


@dataclass
class Samples:
    """All samples of a run."""

    facts: Facts
    options: Any
    """`SapOptions`."""
    capacity: int
    """Contacts that one world can hold."""
    capacity_name: str
    dt: float
    """Time step [s]."""
    every: int
    """Steps between samples."""
    worlds: int
    detailed: np.ndarray
    """Worlds whose contacts, joints and bodies were sampled."""
    contacts: ContactRows
    joints: JointSamples
    bodies: BodySamples
    outcome: WorldSamples

    @property
    def count(self) -> int:
        """Number of samples."""
        return len(self.outcome.status)

    @property
    def interval(self) -> float:
        """Time from one sample to the next [s]."""
        return self.dt * self.every

    @property
    def seconds(self) -> float:
        """Time that was looked at [s]."""
        return self.count * self.interval
