"""The near-rigid regularization that drives, limits and bilateral constraints share."""

import math

BETA = 0.1
NEAR_RIGID = BETA * BETA / (4.0 * math.pi * math.pi)
"""R of what is as stiff as the time step can resolve, in units of the mobility 1/A_kk."""
