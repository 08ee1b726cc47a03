"""One lane on the CPU takes native headers; the Warp functions beside them run there too and find the same states."""

import newton
import numpy as np
import pytest
import warp as wp
from scipy.spatial import ConvexHull

from sap_warp import Simulation
from sap_warp.core.native import HEADERS, without

ALL = [name.removesuffix(".h") for name in HEADERS if name != "vectors.h"]


def humanoid():
    """27 dofs: trees, limits, contacts with the ground."""
    return Simulation.from_scene("humanoid", num_worlds=1, contact_preset_variant="approx64")


def hulls():
    """Boxes and hulls that touch each other, so that bodies are coupled."""
    builder = newton.ModelBuilder()
    rng = np.random.default_rng(3)
    corners = rng.normal(size=(40, 3)).astype(np.float32)
    corners *= 0.1 / np.linalg.norm(corners, axis=1, keepdims=True)
    mesh = hull_of(corners)
    for k in range(4):
        body = builder.add_body(xform=wp.transform((0.02 * k, 0.01, 0.1 + 0.19 * k), wp.quat_identity()))
        if k % 2:
            builder.add_shape_convex_hull(body, mesh=mesh)
        else:
            builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
    builder.add_ground_plane()
    return Simulation(builder.finalize(device="cpu"), dt=0.005, contact_preset_variant="approx64")


def hull_of(points):
    """The convex hull of points, with triangles that look outwards."""
    faces = ConvexHull(points)
    used = {old: new for new, old in enumerate(faces.vertices)}
    triangles = []
    for (a, b, c), plane in zip(faces.simplices, faces.equations, strict=True):
        outwards = np.dot(np.cross(points[b] - points[a], points[c] - points[a]), plane[:3]) > 0.0
        triangles.append([used[a], used[b], used[c]] if outwards else [used[a], used[c], used[b]])
    return newton.Mesh(points[faces.vertices], np.array(triangles).flatten())


@pytest.mark.parametrize(("make", "settling"), [(humanoid, 250), (hulls, 20)])
def test_states_without_headers(make, settling):
    """All headers are left out at once; what rounding makes of 20 steps in fp64 is far below the tolerance."""
    native = make()
    native.step(settling)
    start = {name: getattr(native, name).numpy().copy() for name in ("joint_q", "joint_qd")}
    with without(*ALL):
        plain = make()
        for simulation in (native, plain):
            simulation.joint_q[:], simulation.joint_qd[:] = start["joint_q"], start["joint_qd"]
            simulation.step(20)
    for name, before in start.items():
        found, expected = (getattr(simulation, name).numpy() for simulation in (plain, native))
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-5)
        assert np.abs(expected - before).max() > 1e-3
