"""Kernels that pipelines share in tests, and do not share in programs of users."""

import newton
import numpy as np

from tests.support.newton_kernels import make_anew
from tests.support.scenes import add_ball, builder
from tests.support.simulations import STATE_ARRAYS, make_sim


def make_pipeline():
    b = builder()
    add_ball(b, (0.0, 0.0, 0.1))
    b.add_ground_plane()
    return newton.CollisionPipeline(b.finalize(device="cpu"), broad_phase="nxn")


def test_pipelines_share_kernels_until_they_are_made_anew():
    kernels = []
    for _ in range(2):
        kernels += [(p.primitive_kernel, p.narrow_phase_kernel) for p in (make_pipeline().narrow_phase for _ in "ab")]
        make_anew()
    assert kernels[0] == kernels[1] and kernels[2] == kernels[3]
    assert not set(kernels[0]) & set(kernels[2])


def test_captured_steps_go_on_when_another_pipeline_makes_kernels_anew():
    """Newton puts them where the old ones were, and Warp loads them again: graphs keep what they were captured with."""
    options = {"worlds": 2, "pipeline_options": {"broad_phase": "nxn"}}
    sim, alone = make_sim(**options), make_sim(**options)
    alone.step(60)
    sim.step(20)
    for _ in range(2):
        make_anew()
        make_sim(seed=1, **options).step(3)
        sim.step(20)
    assert alone.statistics.mean_contacts > 0.0
    for name in STATE_ARRAYS:
        np.testing.assert_array_equal(getattr(sim, name).flat(), getattr(alone, name).flat(), err_msg=name)
