"""Transmissions: scalar functions of the pose that springs, limits and actuators act along. Tendons are some of them.

| kind | length | parts |
| --- | --- | --- |
| SUM | sum of coef (q + ref) | joints: a fixed tendon, or one joint |
| PATH | along sites and over geoms, divided by pulleys | sites, spheres, cylinders, pulleys: a spatial tendon |
| WRENCH | 0; its rate is the power of a wrench fixed in a site | the site |
| BETWEEN | a wrench times the pose of a site as another one sees it | site, reference site |
| CRANK | travel of a slider whose rod of fixed length leads to a crank | crank site, slider site |

J has entries for those dofs only that can change a length, so that the dofs above all of its bodies have none.
"""

from __future__ import annotations

import warp as wp

SUM = wp.constant(0)
PATH = wp.constant(1)
WRENCH = wp.constant(2)
BETWEEN = wp.constant(3)
CRANK = wp.constant(4)

JOINT = wp.constant(0)
SITE = wp.constant(1)
SPHERE = wp.constant(2)
CYLINDER = wp.constant(3)
PULLEY = wp.constant(4)

NO_SIDE = wp.constant(-2)
FORCE_IN_WORLD = wp.constant(1)
TORQUE_IN_WORLD = wp.constant(2)
"""Axes of a wrench that are those of the world and not of its site."""


@wp.struct
class TransmissionPart:
    """One part of a transmission. Bodies and dofs in solver order; body -1 is the world."""

    kind: int
    coord: int  # JOINT: coordinate in joint_q
    dof: int
    factor: wp.float64  # JOINT: coefficient; SPHERE, CYLINDER: radius [m]; PULLEY: divisor
    ref: wp.float64  # JOINT: MuJoCo's coordinate where joint_q is zero [m or rad]
    body: int
    p: wp.vec3d  # site or geom in its body [m]
    r: wp.quatd
    side: int  # body of the side site, or NO_SIDE
    side_p: wp.vec3d


@wp.struct
class TransmissionSource:
    """A transmission as the model describes it."""

    kind: int
    first: int  # its parts
    last: int
    force: wp.vec3d  # WRENCH, BETWEEN: gear of translations
    torque: wp.vec3d  # and of rotations
    axes: int  # WRENCH: which axes are those of the world
    rod: wp.float64  # CRANK: length of the rod [m]


@wp.struct
class Transmissions:
    """All transmissions, world after world."""

    world_transmission: wp.array(dtype=wp.int32)  # first one of each world, [worlds + 1]
    source: wp.array(dtype=TransmissionSource)
    part: wp.array(dtype=TransmissionPart)
    entry: wp.array(dtype=wp.int32)  # first entry of each transmission, [transmissions + 1]
    entry_dof: wp.array(dtype=wp.int32)  # solver dofs of a transmission, growing
    J: wp.array(dtype=wp.float64)  # by entry
    length: wp.array(dtype=wp.float64)  # [m, rad or what the gear makes of it]
    kinematic_rate: wp.array(dtype=wp.float64)  # part of the length's rate that is due to kinematic dofs


@wp.struct
class TransmissionTerm:
    """One equation along a transmission as the model describes it; kinds are those of `terms`."""

    kind: int
    row: int  # number of the equation in `Equations`
    transmission: int
    other: int  # EQUAL: the other transmission, or -1
    actuator: int  # ACTUATOR: Newton's index
    gear: wp.float64  # factor on the length
    rest: wp.float64  # SPRING, PUSH, PULL: rest length; LOWER, UPPER: the bound
    stiffness: wp.float64  # [N/m]
    damping: wp.float64  # [N s/m]; FRICTION: the force [N]; ARMATURE: the inertia [kg]
    c0: wp.float64  # EQUAL: coefficients of the polynomial
    c1: wp.float64
    c2: wp.float64
    c3: wp.float64
    c4: wp.float64
    rest_other: wp.float64  # EQUAL: rest length of the other transmission
    enabled: int
