"""A small simulation for tests of pictures, signals and sensors."""

import warp as wp

from sap_warp import Simulation

from .simulations import new_builder

RED = (0.85, 0.10, 0.10)


def make_balls(**options):
    """Two worlds, each with a red ball of 0.3 m that falls from 1 m above the ground."""
    world = new_builder()
    body = world.add_body(xform=wp.transform((0.0, 0.0, 1.0), wp.quat_identity()), label="ball")
    world.add_shape_sphere(body, radius=0.3, color=RED, label="sphere")
    builder = new_builder()
    builder.replicate(world, 2)
    builder.add_ground_plane()
    return Simulation(builder.finalize("cpu"), dt=0.01, max_rigid_contact=4, notes=False, name="ball", **options)
