"""Models without shapes have pictures, too: of nothing."""

import newton
import numpy as np
import warp as wp

from sap_warp import Simulation
from tests.support.simulations import new_builder


def test_a_model_without_shapes_shows_the_sky():
    """And rays of a picture find nothing."""
    builder = new_builder()
    link = builder.add_link(mass=1.0, inertia=wp.mat33(np.eye(3) * 0.01), label="link")
    builder.add_articulation([builder.add_joint_revolute(-1, link, axis=newton.Axis.Y)])
    with Simulation(builder.finalize("cpu"), dt=0.01, max_rigid_contact=4, notes=False) as sim:
        picture = sim.render(width=32, height=24)
        assert picture.min() > 100  # light everywhere
        assert (sim.render(width=32, height=24, kind="segmentation") == -2).all()
        assert np.isinf(sim.render(width=32, height=24, kind="depth")).all()
