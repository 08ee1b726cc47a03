"""Simulations of shipped scenes, and builders for others."""

import newton
import pytest

from sap_warp import Simulation, SolverSAP
from sap_warp.scene.shipped.scenes import build_scene, randomize_start

WORLDS = 5
GAP = 0.002
STATE_ARRAYS = ("joint_q", "joint_qd", "body_q", "body_qd")


def make_sim(name="cube", worlds=WORLDS, seed=0, **options):
    """A shipped scene with every world in its own random pose."""
    model, scene = build_scene(name, worlds, "cpu")
    randomize_start(model, seed)
    options = {"dt": scene.dt, "max_rigid_contact": scene.max_rigid_contact, "name": name, **options}
    return Simulation(model, **options)


def shared_simulation(make, scope="module"):
    """A fixture: what ``make()`` returns, for all tests of ``scope``. Those who use it begin with a reset."""

    @pytest.fixture(scope=scope)
    def shared():
        sim = make()
        yield sim
        sim.close()

    return shared


def new_builder():
    """A builder with a small gap and the solver's attributes."""
    builder = newton.ModelBuilder()
    SolverSAP.register_custom_attributes(builder)
    builder.rigid_gap = GAP
    builder.default_shape_cfg.ke = 1e5
    return builder
