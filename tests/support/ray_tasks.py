"""Tasks for tests on Ray, where workers can import them."""

import threading

import numpy as np

from sap_warp.envs import termination
from sap_warp.envs.tasks.cartpole import CartPoleSwingUp
from sap_warp.randomization import Randomize, Uniform

HANG, RAISE = 0.123, 0.321
"""Actions of the last world that its worker does not survive well."""


class Fragile(CartPoleSwingUp):
    """Short episodes, differing masses, memory of its own, and actions that let a worker hang or raise."""

    time_limit = 0.5
    substeps = 4
    randomization = (Randomize("body_mass", Uniform(0.8, 1.2), how="scale"),)

    def setup(self):
        self.pushes = self.arrays.zeros(self.num_worlds)

    def start(self, worlds, draw):
        self.pushes[worlds] = 0.0
        return super().start(worlds, draw)

    @termination
    def away(self):
        return abs(self.joint_q[:, 0]) > 0.45

    def apply(self, actions):
        if actions[-1, 0] == np.float32(HANG):
            threading.Event().wait()
        if actions[-1, 0] == np.float32(RAISE):
            raise ValueError("this action is not liked")
        super().apply(actions + self.pushes[:, None])

    def advance(self, draw):
        self.pushes = draw.uniform(-0.2, 0.2) + 0.5 * self.pushes
