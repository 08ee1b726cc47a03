"""The near-rigid regularization: R of what is as stiff as a time step can resolve.

    R = beta^2 / (4 pi^2) w

with w the mobility that a constraint sees, the inverse of a mass. A constraint with this R acts like the spring
k = 1/(h^2 R), on which the mass 1/w swings once in beta time steps h. Whatever is stiffer is softened to it.

beta has two homes. For contacts it is the option `contact_beta`, since presets differ in it. For joints, equations,
tendons and actuators it is `JOINT_BETA`, as in Drake, and no option.
"""

import math


def near_rigid(beta: float) -> float:
    """R in units of the mobility w."""
    return beta**2 / (4.0 * math.pi**2)


JOINT_BETA = 0.1
NEAR_RIGID = near_rigid(JOINT_BETA)
"""R of joints, equations, tendons and actuators that are as stiff as can be, in units of the mobility."""
