"""What kinematics and free motion find out about the bodies and dofs of every world at the start of a step."""

from __future__ import annotations

import warp as wp

from ...core.kernels.scratch import ScratchShare
from ...core.kernels.template import Template, device_struct
from ..settings.precisions import dynamics, pose
from .layout import Layout, LayoutSizes
from .links import PoseLink

NOT_FINITE = wp.constant(1)
"""Mark of a world with a coordinate that is not finite."""
FORCED = wp.constant(4)
"""Mark of a world with forces that depend on its pose, to be read in every step."""
NOT_POSITIVE = wp.constant(8)
"""Mark of a world with a diagonal entry of A that is not positive."""

scalar, vec3 = dynamics.scalar, dynamics.vec3

CompositeRow = Template(lambda variant: wp.types.vector(length=16, dtype=scalar.of(variant)))
"""Sums over the subtree of a body: mass, first moments, moments of inertia xx, yy, zz, products yz, zx, xy, moment,
force."""


@device_struct
class MotionData:
    """Poses in ``pose`` precision and motions in ``dynamics`` precision, bodies and dofs in solver order."""

    # kinematics, by body
    origin: wp.array(dtype=wp.vec3d)  # reference point o of a tree, at its root body [m, world]
    p: wp.array(dtype=pose.vec3)  # body origin relative to o [m, world axes]
    r: wp.array(dtype=pose.quat)  # body orientation R_WB
    Vw: wp.array(dtype=vec3)  # spatial velocities
    Vv: wp.array(dtype=vec3)
    aw: wp.array(dtype=vec3)  # spatial accelerations of unaccelerated dofs without gravity
    av: wp.array(dtype=vec3)
    # kinematics, by dof
    Sw: wp.array(dtype=vec3)  # motion column, angular part
    Sv: wp.array(dtype=vec3)  # motion column, velocity at o
    v0: wp.array(dtype=wp.float64)  # incoming velocity, sap order
    # free motion
    A: wp.array(dtype=scalar)  # dynamics matrix, packed rows
    inverse_diagonal: wp.array(dtype=scalar)  # 1/A_ee, by dof
    impulse: wp.array(dtype=scalar)  # A (v* - v0) [N s or N m s], by dof
    applied: wp.array(dtype=wp.float64)  # joint forces of the control [N or N m], sap order, Newton's dofs
    energy_watch: wp.array(dtype=wp.int32)  # steps, up to 2, that `stability` has seen of a world that moves
    energy_moment: wp.array(dtype=wp.vec4d)  # first moment of mass [kg m, world] and mass [kg], by world
    energy_fall: wp.array(dtype=wp.float64)  # work of gravity since the last step [J], by world
    solved: int  # whether all worlds have v_star and A_factor
    v_star: wp.array(dtype=scalar)  # unconstrained velocity, by dof
    A_factor: wp.array(dtype=scalar)
    mark: wp.array(dtype=wp.int32)  # what reading the state found, by world
    status: wp.array(dtype=wp.int32)  # `SolveStatus` of a world that cannot be solved, else 0
    # scratch of free motion
    share: ScratchShare
    composite: wp.array(dtype=CompositeRow)  # by body
    diagonal: wp.array(dtype=scalar)  # armature and damping, by dof
    column_force: wp.array(dtype=scalar)  # composite inertia times motion column, six runs for each world


@device_struct
class MotionStage:
    """What the kernels of free motion work with."""

    layout: Layout
    links: wp.array(dtype=PoseLink)
    motion: MotionData


SCRATCH = (("composite", "body"), ("diagonal", "dof"), ("column_force", "6 * dof"))
"""Fields that nothing reads after free motion, and where a world's entries begin."""

KINEMATICS = (
    *((name, "body") for name in ("origin", "p", "r", "Vw", "Vv", "aw", "av")),
    *((name, "dof") for name in ("Sw", "Sv", "v0")),
)
"""Fields that forward kinematics needs, and where a world's entries begin."""


def entry_counts(sizes: LayoutSizes) -> dict[str, int]:
    """Return the number of entries of each array that is not by body."""
    by_dof = ("Sw", "Sv", "v0", "v_star", "impulse", "inverse_diagonal")
    counts = dict.fromkeys(by_dof, sizes.dof_count) | dict.fromkeys(("A", "A_factor"), sizes.entry_count)
    return counts | dict.fromkeys(("mark", "status", "energy_watch", "energy_moment", "energy_fall"), sizes.world_count)
