"""Why `test_multi_belt_handoff` of Newton's suite gets stiffer belts and our detection in `test_own_suite`."""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import SapCollisionPipeline, SolverSAP

H = 1.0 / 480.0
TOP, HALF = 0.5, (0.45, 0.2, 0.2)
"""Height of the belts [m], half edges of the box [m]: those of Newton's test."""
BELT, BOX = 1e5, 2.5e3
"""Stiffness of their shapes [N/m]."""
MASS = 1.0 + 8000.0 * HALF[0] * HALF[1] * HALF[2]
"""One kilogram that the test asks for, and what the default density adds [kg]."""
G = 9.81


def run(seconds, stiffness=None, gap=None, start=(0.0, -3.0), speed=0.0, detection=newton.CollisionPipeline):
    """Positions of the box in every step, and normals of its contacts; belts without friction meet at y = 0."""
    b = newton.ModelBuilder()
    slippery = newton.ModelBuilder.ShapeConfig(mu=2e-5, ke=BELT, kd=0.0)
    for y in (-2.0, 2.0):
        b.add_shape_box(-1, hx=1.0, hy=2.0, hz=0.1, xform=wp.transform((0.0, y, TOP - 0.1)), cfg=slippery)
    body = b.add_link(xform=wp.transform((*start, TOP + HALF[2] + 0.001)), mass=1.0)
    b.add_shape_box(body, hx=HALF[0], hy=HALF[1], hz=HALF[2], cfg=newton.ModelBuilder.ShapeConfig(mu=2e-5))
    b.add_articulation([b.add_joint_free(body)])
    b.joint_qd[1] = speed
    model = b.finalize(device="cpu")
    assert model.body_mass.numpy()[0] == pytest.approx(MASS, rel=1e-5)
    if stiffness is not None:
        model.shape_material_ke.fill_(stiffness)
    if gap is not None:
        model.shape_gap.fill_(gap)
    solver, pipeline = SolverSAP(model), detection(model)
    contacts, states = pipeline.contacts(), [model.state(), model.state()]
    newton.eval_fk(model, model.joint_q, model.joint_qd, states[0])
    seen, normals = [], []
    for _ in range(round(seconds / H)):
        pipeline.collide(states[0], contacts)
        solver.step(states[0], states[1], model.control(), contacts, H)
        states.reverse()
        seen.append(states[0].body_q.numpy()[0, :3].copy())
        normals.append(contacts.rigid_contact_normal.numpy()[: contacts.rigid_contact_count.numpy()[0]].copy())
    return np.array(seen), normals


def test_a_box_of_145_kg_sinks_deeper_than_detection_can_tell_up():
    """Four springs of both shapes in series carry it at 15 cm; let go from above it would go nearly twice as deep. From
    17 cm on Newton's narrow phase finds the way out sideways, along y, although up is the shorter one (18 cm, not
    1.2 m), and nothing carries the box any more. That is 2.8 m before the seam."""
    spring = 4.0 * BELT * BOX / (BELT + BOX)
    assert MASS * G / spring == pytest.approx(0.146, abs=0.001)
    path, normals = run(0.3)
    depth = TOP + HALF[2] - path[:, 2]
    carried = np.array([np.abs(some[:, 2]).min() > 0.99 for some in normals])
    first = int(np.argmin(carried))
    assert carried[:first].all() and 0.14 < depth[first] < 0.19
    assert depth[-1] > 0.2 and np.abs(path[: first + 1, 1] + 3.0).max() < 0.05


@pytest.mark.parametrize(("gap", "crosses"), [(0.0, True), (None, False)])
def test_the_side_of_the_next_belt_stops_a_box_within_the_gap(gap, crosses):
    """At 1e7 N/m it lies 0.07 mm deep. Overlapping boxes are pushed apart the shorter way, which is up; boxes that are
    near each other have a contact between the nearest faces, the upright ones, and no step is to close it."""
    path, normals = run(0.3, 1e7, gap, start=(0.0, -0.4), speed=2.0)
    assert (path[-1, 1] > 0.1) == crosses
    assert any((np.abs(some[:, 1]) > 0.9).any() for some in normals) != crosses


@pytest.mark.parametrize("stiffness", [1e5, 1e7])
@pytest.mark.parametrize("gap", [0.0, None])
def test_with_our_detection_it_crosses_whatever_the_gap(gap, stiffness):
    """As if the belts were one: nothing slows it down. At 1e5 N/m it lies 7 mm deep."""
    path, _ = run(0.3, stiffness, gap, start=(0.0, -0.4), speed=2.0, detection=SapCollisionPipeline)
    assert path[-1, 1] == pytest.approx(0.2, abs=0.02)
