"""What the preset ``robot`` adds: friction that holds over the whole step, floating bodies that keep their momentum."""

import newton
import numpy as np
import pytest
import warp as wp

from tests.support.scenes import G, Stepper, add_box, box_inertia, builder, material

OMEGA, RADIUS = 3.0, 0.3
"""Speed of the turntable [rad/s] and where the box lies on it [m]."""


def turntable(table=2.0):
    """A box on a plate of ``table`` kg that a motor turns about the vertical, both moving from the start."""
    b = builder()
    plate = b.add_link(mass=table, inertia=box_inertia(50.0, 0.5), lock_inertia=True)
    motor = newton.ModelBuilder.JointDofConfig(
        axis=newton.Axis.Z, target_kd=1e6, target_vel=OMEGA, actuator_mode=newton.JointTargetMode.VELOCITY
    )
    joint = b.add_joint_revolute(-1, plate, axis=motor)
    b.add_articulation([joint])
    b.add_shape_box(plate, hx=0.5, hy=0.5, hz=0.05, cfg=material(1e5, mu=1.0))
    add_box(b, (RADIUS, 0.0, 0.05 + 0.05), half=0.05, mass=0.5, cfg=material(1e5, mu=1.0))
    return b.finalize(device="cpu")


def creep(h, seconds=1.0, **options):
    """Relative growth of the box's radius [1/s], after it has settled."""
    sim = Stepper(turntable(), h, "drake", line_search_variant="exact_root", contact_sigma=1e-6, **options)
    start = [OMEGA, 0.0, OMEGA * RADIUS, 0.0, 0.0, 0.0, OMEGA]
    sim.set(qd=start)
    sim.run(0.2)
    before = np.linalg.norm(sim.position[-1, :2])
    sim.run(seconds)
    return np.log(np.linalg.norm(sim.position[-1, :2]) / before) / seconds


@pytest.mark.parametrize(("integration", "share"), [("sap_euler", 0.5), ("midpoint", 1.0)])
def test_stiction_of_a_turning_contact_creeps_unless_displacements_are_held(integration, share, report):
    """A point of the plate bends inwards by h^2/2 w^2 r in a step while the box goes straight on: it creeps outwards
    with h/2 w^2 r, twice that with midpoint integration. The other mode leaves less than 0.5 % of it."""
    h = 0.01
    expected = share * h * OMEGA**2
    plain = creep(h, position_integration=integration)
    held = creep(h, position_integration=integration, stiction_mode="displacement")
    report(expected=expected, plain=plain, held=held)
    assert plain == pytest.approx(expected, rel=0.01)
    assert abs(held) < 0.005 * expected


def spinning_body(com):
    b = builder()
    inertia = wp.mat33(*np.diag([0.02, 0.03, 0.04]).ravel())
    body = b.add_body(mass=2.0, com=wp.vec3(*com), inertia=inertia, lock_inertia=True)
    assert body == 0
    return b.finalize(device="cpu")


@pytest.mark.parametrize("integration", ["sap_euler", "midpoint"])
def test_centre_of_mass_moves_as_forces_say(integration):
    """However a body turns, its centre of mass falls as the map of the integration has it: exactly, up to fp64."""
    h, steps = 0.01, 60
    com = np.array([0.3, -0.2, 0.1])
    start = np.array([1.0, 0.5, 3.0, 4.0, -6.0, 5.0])  # public: v_C, w
    paths = {}
    for point in ("origin", "center_of_mass"):
        options = {"position_integration": integration, "floating_body_point": point}
        sim = Stepper(spinning_body(com), h, "drake", "fp64", **options)
        sim.set(qd=start)
        x = sim.position[0] + com
        for _ in range(steps):
            sim.step()
        q = sim.q[3:7]
        paths[point] = sim.position[0] + newton_rotate(q, com)
        velocity = sim.qd[:3].copy()
        if point == "center_of_mass":
            np.testing.assert_allclose(velocity, start[:3] - [0.0, 0.0, G * h * steps], atol=1e-9)
    fall = np.arange(1, steps + 1) if integration == "sap_euler" else np.arange(1, steps + 1) - 0.5
    expected = x + h * steps * start[:3] - [0.0, 0.0, G * h**2 * fall.sum()]
    np.testing.assert_allclose(paths["center_of_mass"], expected, atol=1e-8)
    assert np.abs(paths["origin"] - expected).max() > 1e-3


def newton_rotate(q, v):
    """Vector v turned by the quaternion q (xyzw)."""
    u, s = q[:3], q[3]
    return v + 2.0 * np.cross(u, np.cross(u, v) + s * v)


def test_a_body_about_its_centre_of_mass_does_not_notice():
    """Where the centre of mass is the origin, both points are the same to the bit."""
    results = []
    for point in ("origin", "center_of_mass"):
        sim = Stepper(spinning_body(np.zeros(3)), 0.01, "drake", floating_body_point=point)
        sim.set(qd=[1.0, 0.5, 3.0, 4.0, -6.0, 5.0])
        sim.run(0.2)
        results.append((sim.q.copy(), sim.qd.copy()))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
