"""Seams between boxes in one plane: nobody feels them, and steps, walls and corners everybody does."""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import SapCollisionPipeline, SolverSAP
from sap_warp.collision.repair.coplanar_boxes import find_coplanar_boxes

HALF = 0.05
GLIDER = newton.ModelBuilder.ShapeConfig(ke=1e5, mu=0.0)


def add_tile(builder, center, half=(0.5, 0.5, 0.1), turn=0.0, body=-1):
    """A box whose top is at the height of its centre."""
    rotation = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), turn)
    place = wp.transform((center[0], center[1], center[2] - half[2]), rotation)
    return builder.add_shape_box(body, xform=place, hx=half[0], hy=half[1], hz=half[2], cfg=GLIDER)


def add_glider(builder, kind, start, turn=0.0):
    """A body without friction that stands on height 0."""
    rotation = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), turn)
    body = builder.add_body(xform=wp.transform((*start, HALF), rotation))
    if kind == "box":
        builder.add_shape_box(body, hx=HALF, hy=HALF, hz=HALF, cfg=GLIDER)
    elif kind == "sphere":
        builder.add_shape_sphere(body, radius=HALF, cfg=GLIDER)
    else:
        builder.add_shape_cylinder(body, radius=HALF, half_height=HALF, cfg=GLIDER)


def glide(builder, velocity, seconds, h=0.005):
    """Positions [m] and velocities [m/s] of the last body, by step."""
    model = builder.finalize(device="cpu")
    solver, pipeline = SolverSAP(model), SapCollisionPipeline(model)
    contacts, states = pipeline.contacts(), [model.state(), model.state()]
    speeds = states[0].joint_qd.numpy()
    speeds[-6:-3] = velocity
    states[0].joint_qd.assign(speeds)
    newton.eval_fk(model, states[0].joint_q, states[0].joint_qd, states[0])
    path = []
    for _ in range(round(seconds / h)):
        pipeline.collide(states[0], contacts)
        solver.step(states[0], states[1], None, contacts, h)
        states.reverse()
        path.append((states[0].body_q.numpy()[-1, :3].copy(), states[0].body_qd.numpy()[-1, :3].copy()))
    return np.array(path).transpose(1, 0, 2)


@pytest.mark.parametrize("gap", [0.002, 0.1])
@pytest.mark.parametrize("speed", [0.1, 1.0])
@pytest.mark.parametrize("kind", ["box", "sphere", "cylinder"])
def test_bodies_glide_over_a_seam_as_over_one_box(kind, speed, gap):
    """Without friction nothing slows them down or lifts them: a box stopped, or jumped 10 mm, at 2 mm and 10 cm gap."""
    builder = newton.ModelBuilder()
    builder.rigid_gap = gap
    add_tile(builder, (0.0, -0.5, 0.0))
    add_tile(builder, (0.0, 0.5, 0.0))
    add_glider(builder, kind, (0.1, -0.1))
    positions, velocities = glide(builder, (0.0, speed, 0.0), 0.2 / speed)
    np.testing.assert_allclose(velocities[:, 1], speed, rtol=0.01)
    assert positions[-1, 1] == pytest.approx(0.1, abs=2e-3)
    np.testing.assert_allclose(positions[:, 2], HALF, atol=1.5e-4)  # a ball of 0.5 kg lies 0.1 mm deep


@pytest.mark.parametrize("turn", [0.0, 0.4])
def test_bodies_glide_over_corners_of_tiles_like_bricks(turn):
    """One row is shifted by half a tile, and the body, whatever its heading, crosses where three tiles meet."""
    builder = newton.ModelBuilder()
    builder.rigid_gap = 0.002
    for x, y in [(-1.0, 0.5), (0.0, 0.5), (1.0, 0.5), (-0.5, -0.5), (0.5, -0.5)]:
        add_tile(builder, (x, y, 0.0))
    add_glider(builder, "box", (-0.2, -0.2), turn)
    positions, velocities = glide(builder, (0.5, 0.5, 0.0), 1.2)
    np.testing.assert_allclose(velocities[:, :2], 0.5, rtol=0.01)
    np.testing.assert_allclose(positions[:, 2], HALF, atol=1e-4)


def test_bodies_glide_from_a_tile_to_one_that_is_turned():
    """Only the tops have to be in one plane; here the tiles overlap."""
    builder = newton.ModelBuilder()
    builder.rigid_gap = 0.002
    add_tile(builder, (0.0, -0.5, 0.0))
    add_tile(builder, (0.0, 0.5, 0.0), turn=0.3)
    add_glider(builder, "box", (0.0, -0.2))
    _, velocities = glide(builder, (0.0, 0.5, 0.0), 0.8)
    np.testing.assert_allclose(velocities[:, 1], 0.5, rtol=0.01)


def test_seams_of_a_body_that_moves_are_in_its_frame():
    """A tray of two plates leans by 0.5 rad; a ball rolls down along it as if it were one plate."""
    paths = []
    for halves in ([(-0.5, 0.5), (0.5, 0.5)], [(0.0, 1.0)]):
        builder = newton.ModelBuilder()
        builder.rigid_gap = 0.01
        tilt = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), 0.5)
        tray = builder.add_link(xform=wp.transform((0.0, 0.0, 1.0), tilt), is_kinematic=True)
        for x, half in halves:
            add_tile(builder, (x, 0.0, 0.0), (half, 0.5, 0.02), body=tray)
        builder.add_articulation([builder.add_joint_free(tray)])
        builder.joint_q[:7] = [0.0, 0.0, 1.0, *tilt]
        start = np.array([0.0, 0.0, 1.0]) + np.array(wp.quat_rotate(tilt, wp.vec3(-0.15, 0.013, 0.0499)))
        body = builder.add_body(xform=wp.transform(wp.vec3(*start)))
        builder.add_shape_sphere(body, radius=HALF, cfg=GLIDER)
        paths.append(glide(builder, (0.0, 0.0, 0.0), 0.4)[0])
    assert np.ptp(paths[1][:, 0]) > 0.25
    np.testing.assert_allclose(paths[0], paths[1], atol=1e-4)


def rows_of(builder):
    """Shapes, points and normals of the contacts that count, and of all that detection alone finds."""
    model = builder.finalize(device="cpu")
    seen = []
    for filters in (True, False):
        pipeline = SapCollisionPipeline(model)
        if not filters:
            pipeline._ghosts = None
        contacts = pipeline.contacts()
        pipeline.collide(model.state(), contacts)
        count = contacts.rigid_contact_count.numpy()[0]
        shape = contacts.rigid_contact_shape0.numpy()[:count]
        fields = [getattr(contacts, f"rigid_contact_{f}").numpy()[:count] for f in ("shape0", "shape1")]
        fields += [getattr(contacts, f"rigid_contact_{f}").numpy()[:count] for f in ("point0", "normal")]
        seen.append(np.column_stack(fields)[shape >= 0])
    return seen


def beside_a_step(height, wall=False):
    """A box that rests 0.1 mm deep on a tile, 1 mm from the side of a higher one."""
    builder = newton.ModelBuilder()
    builder.rigid_gap = 0.01
    add_tile(builder, (0.0, -0.5, 0.0))
    if wall:
        add_tile(builder, (0.0, 0.1, height), (0.5, 0.1, 0.5 * height + 0.1))  # goes down to the foot of the tile
    else:
        add_tile(builder, (0.0, 0.5, height))
    body = builder.add_body(xform=wp.transform((0.45, -0.051, HALF - 1e-4)))  # flush with the ends of both
    builder.add_shape_box(body, hx=HALF, hy=HALF, hz=HALF)
    return builder


@pytest.mark.parametrize(("height", "wall"), [(0.001, False), (3e-4, False), (0.02, False), (0.5, True)])
def test_steps_and_walls_keep_all_their_contacts(height, wall):
    """Down to their feet, also where the ends of both are in one plane."""
    kept, found = rows_of(beside_a_step(height, wall))
    assert (np.abs(found[:, 6]) > 0.9).sum() >= 2
    np.testing.assert_array_equal(kept, found)


def test_a_level_seam_loses_its_side_only():
    """What carries the box stays, to the bit."""
    kept, found = rows_of(beside_a_step(0.0))
    side = np.abs(found[:, 6]) > 0.9
    assert side.any() and not side.all()
    np.testing.assert_array_equal(kept, found[~side])


def test_a_box_covers_another_one_only_for_bodies_that_touch_both():
    """Seen by a body that passes through the first tile, the side of the second is a wall."""
    builder = beside_a_step(0.0)
    builder.add_shape_collision_filter_pair(0, 2)
    add_glider(builder, "sphere", (0.0, 1.0))  # meets all of them
    model = builder.finalize(device="cpu")
    coplanar = find_coplanar_boxes(model, model.shape_contact_pairs.numpy().reshape(-1, 2))
    assert set(zip(coplanar["shape"], coplanar["beside"], strict=True)) == {(0, 1)}
    kept, found = rows_of(builder)
    np.testing.assert_array_equal(kept, found)


def test_worlds_and_bodies_have_their_own_seams():
    """Boxes of other worlds or bodies are at the same places and beside nothing."""
    tiles = newton.ModelBuilder()
    add_tile(tiles, (0.0, -0.5, 0.0))
    add_tile(tiles, (0.0, 0.5, 0.0))
    add_tile(tiles, (0.0, 3.0, 0.0))
    body = tiles.add_body()
    add_tile(tiles, (0.0, 0.5, 0.0), body=body)
    builder = newton.ModelBuilder()
    builder.replicate(tiles, 3)
    model = builder.finalize(device="cpu")
    pairs = model.shape_contact_pairs.numpy().reshape(-1, 2)
    coplanar = find_coplanar_boxes(model, pairs)
    beside = sorted(set(zip(coplanar["shape"].tolist(), coplanar["beside"].tolist(), strict=True)))
    assert beside == [(a, b) for w in range(3) for a, b in ((4 * w, 4 * w + 1), (4 * w + 1, 4 * w))]
    assert (np.diff(coplanar["shape"]) >= 0).all()
    assert len(find_coplanar_boxes(model, None)) == len(find_coplanar_boxes(model, np.empty((0, 2), dtype=int))) == 0


def test_models_without_seams_have_no_further_launch():
    """Nothing is added to a pass."""
    builder = newton.ModelBuilder()
    builder.add_ground_plane()
    add_glider(builder, "box", (0.0, 0.0))
    add_glider(builder, "box", (0.0, 0.2))
    assert SapCollisionPipeline(builder.finalize(device="cpu"))._ghosts is None
