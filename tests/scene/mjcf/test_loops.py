"""Loops that <connect> closes: they hold, also from poses in which they are far from closed."""
# ruff: noqa: E501 - MJCF on long lines

from __future__ import annotations

import numpy as np
import pytest

from sap_warp import Simulation
from sap_warp.scene import load_sap_scene

LEG = """<body name="thigh_{s}" pos="0 {y} -.08"><joint name="hip_{s}" axis="0 1 0"/>
 <geom type="capsule" fromto="0 0 0 .02 0 -.35" size=".04" contype="0" conaffinity="0"/>
 <body name="shin_{s}" pos=".02 0 -.35"><joint name="knee_{s}" axis="0 1 0"/>
  <geom type="capsule" fromto="0 0 0 -.02 0 -.35" size=".03" contype="0" conaffinity="0"/>
  <geom type="box" size=".1 .04 .015" pos="0 0 -.38"/></body>
 <body name="rod_{s}" pos="0 0 -.1"><joint name="rod_{s}" type="ball"/>
  <geom type="capsule" fromto="0 0 0 -.06 0 -.3" size=".008" contype="0" conaffinity="0" density="200"/></body>
</body>"""
BIPED = f"""<mujoco><default><joint damping="0.05"/><geom density="700"/><position kp="120" kv="4"/></default>
<worldbody><geom type="plane" size="5 5 .1"/><body name="pelvis" pos="0 0 .83"><freejoint/>
<geom type="box" size=".1 .12 .08" mass="6"/>
{LEG.format(s="l", y=0.1)}{LEG.format(s="r", y=-0.1)}</body></worldbody><equality>
<connect body1="rod_l" body2="shin_l" anchor="-.06 0 -.3"/><connect body1="rod_r" body2="shin_r" anchor="-.06 0 -.3"/>
</equality><actuator>
<position joint="hip_l"/><position joint="knee_l"/><position joint="hip_r"/><position joint="knee_r"/></actuator></mujoco>"""


@pytest.mark.parametrize("bent", [0.0, 1.2])
def test_biped_with_closed_loops_stays_together(bent):
    """Bent by 1.2 rad its loops are up to half a metre open at the start: it once flew apart with 1e10 m/s."""
    loaded = load_sap_scene({"assets": [{"type": "mjcf", "source": BIPED}], "ground": False}, device="cpu")
    assert loaded.unsupported_features == []
    sim = Simulation.from_loaded(loaded, dt=0.002)
    q, starts = np.array(sim.joint_q).ravel(), sim.model.joint_q_start.numpy()
    for joint, label in enumerate(sim.model.joint_label):
        if "knee" in label or "hip" in label:
            q[starts[joint]] += bent
    sim.reset(joint_q=q)
    worst = 0.0
    for _ in range(20):
        sim.step(50)
        worst = max(worst, float(np.abs(np.asarray(sim.body_qd)[..., :3]).max()))
        assert (sim.status == 0).all()
    assert np.abs(sim.solver.equations.data.violation.numpy()).max() < 1e-4
    assert worst < 15.0  # of any body [m/s]
    if not bent:
        assert float(np.asarray(sim.joint_q).ravel()[2]) > 0.7
