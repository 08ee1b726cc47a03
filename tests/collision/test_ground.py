"""The short way to contacts with the ground: the same rows as Newton's pipeline writes."""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp.collision import SapCollisionPipeline
from tests.support.contact_rows import GAP, INDICES, NUMBERS, add_shape, check_overflow, mirrored_rows, place, turns

WORLDS = 3
SHAPES = ("sphere", "capsule", "box", "cylinder", "ellipsoid")


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def scene(rng, kinds=SHAPES, bodies=6, kinematic=()):
    """Bodies with several shapes each, which meet two planes, one of them tilted, but not each other."""
    world = newton.ModelBuilder()
    for i in range(bodies):
        body = world.add_body(is_kinematic=i in kinematic)
        for k in range(1 + i % 3):
            pose = wp.transform(rng.uniform(-0.2, 0.2, 3).tolist(), turns(rng, 1)[0].tolist())
            add_shape(world, kinds[(i + k) % len(kinds)], body, pose, margin=float(rng.uniform(0.0, 0.02)))
    for i in range(world.shape_count):
        for k in range(i):
            world.add_shape_collision_filter_pair(k, i)
    b = newton.ModelBuilder()
    b.rigid_gap = GAP
    b.replicate(world, WORLDS)
    b.add_ground_plane()
    tilt = wp.quat_from_axis_angle(wp.normalize(wp.vec3(1.0, 2.0, 0.0)), 0.4)
    b.add_shape_plane(xform=wp.transform(wp.vec3(0.0, 0.1, -0.1), tilt), width=0.0, length=0.0)
    return b.finalize(device="cpu")


def takes_short_way(pipeline, model):
    """Whether a pass is a single launch."""
    launched, launch = [], wp.launch
    contacts = pipeline.contacts()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wp, "launch", lambda *given, **options: (launched.append(1), launch(*given, **options)))
        pipeline.collide(model.state(), contacts)
    return len(launched) == 1


def assert_same_rows(ours, theirs, model=None):
    count = int(ours.rigid_contact_count.numpy()[0])
    assert count == int(theirs.rigid_contact_count.numpy()[0])
    rows = min(count, ours.rigid_contact_max)
    for name in INDICES:
        a, b = (getattr(c, f"rigid_contact_{name}").numpy()[:rows] for c in (ours, theirs))
        np.testing.assert_array_equal(a, b, err_msg=name)
    mirrored = np.zeros(rows, dtype=bool) if model is None else mirrored_rows(model, ours, theirs, rows)
    for name in NUMBERS:
        a, b = (getattr(c, f"rigid_contact_{name}").numpy()[:rows].copy() for c in (ours, theirs))
        if name in ("point0", "point1"):
            a[mirrored] = b[mirrored]
        np.testing.assert_allclose(a, b, atol=1e-6, err_msg=name)
    return rows


def test_rows_are_those_of_newton_in_the_same_order(rng):
    """All simple shapes with margins, several on a body, over a level and a tilted plane."""
    model = scene(rng)
    ours = SapCollisionPipeline(model, rigid_contact_max=2000)
    theirs = newton.CollisionPipeline(model, rigid_contact_max=2000, broad_phase="explicit")
    assert takes_short_way(ours, model)
    buffers, state, seen = (ours.contacts(), theirs.contacts()), model.state(), 0
    for _ in range(40):
        place(state, rng)
        ours.collide(state, buffers[0])
        theirs.collide(state, buffers[1])
        seen += assert_same_rows(*buffers, model)
    assert seen > 2000
    np.testing.assert_array_equal(buffers[0].contact_generation.numpy(), buffers[1].contact_generation.numpy())


def test_points_are_not_rounded_on_the_way(rng):
    """The centre of a ball is the model's own number, and the point below it lies on level ground exactly."""
    model = scene(rng, kinds=("sphere",))
    pipeline, state = SapCollisionPipeline(model, rigid_contact_max=500), model.state()
    contacts = pipeline.contacts()
    place(state, rng, 0.3)
    pipeline.collide(state, contacts)
    rows = pipeline.last_contact_count
    assert rows > 50
    planes, balls = (getattr(contacts, f"rigid_contact_shape{i}").numpy()[:rows] for i in (0, 1))
    centres = model.shape_transform.numpy()[balls, :3]
    np.testing.assert_array_equal(contacts.rigid_contact_point1.numpy()[:rows], centres)
    level = contacts.rigid_contact_point0.numpy()[:rows][planes == planes.min()]
    assert len(level) > 20
    np.testing.assert_array_equal(level[:, 2], 0.0)


def test_overflow_leaves_the_same_rows(rng):
    """A buffer that is too small keeps the same contacts of each world and reports the same losses."""
    model = scene(rng)
    places = [(0.3, height) for height in (0.0, 0.4, 0.0, 0.0)]  # one pass that fits between those that do not
    check_overflow(model, rng, places, lambda p: takes_short_way(p, model), lambda *b: assert_same_rows(*b, model))


def test_buffers_of_others_get_no_overrides_of_materials(rng):
    """A buffer with stiffness, damping and friction by contact says none for these contacts, whatever it said."""
    model = scene(rng)
    pipeline, state = SapCollisionPipeline(model, rigid_contact_max=500), model.state()
    buffer = newton.Contacts(500, 0, device="cpu", per_contact_shape_properties=True)
    for array in (buffer.rigid_contact_stiffness, buffer.rigid_contact_damping, buffer.rigid_contact_friction):
        array.fill_(7.0)
    place(state, rng)
    pipeline.collide(state, buffer)
    count = int(buffer.rigid_contact_count.numpy()[0])
    assert count > 20
    for array in (buffer.rigid_contact_stiffness, buffer.rigid_contact_damping, buffer.rigid_contact_friction):
        assert not array.numpy()[:count].any()
        assert (array.numpy()[count:] == 7.0).all()


@pytest.mark.parametrize("included", [True, False])
def test_kinematic_bodies_meet_the_ground_if_they_are_asked_to(rng, included):
    """Newton's option for pairs that cannot move acts here too."""
    model = scene(rng, kinematic=(0, 3))
    ours, theirs = (
        kind(model, rigid_contact_max=2000, broad_phase="explicit", include_static_kinematic_pairs=included)
        for kind in (SapCollisionPipeline, newton.CollisionPipeline)
    )
    assert takes_short_way(ours, model)
    buffers, state = (ours.contacts(), theirs.contacts()), model.state()
    place(state, rng, 0.2)
    ours.collide(state, buffers[0])
    theirs.collide(state, buffers[1])
    rows = assert_same_rows(*buffers, model)
    bodies = model.shape_body.numpy()[buffers[0].rigid_contact_shape1.numpy()[:rows]] % 6
    assert included == bool(np.isin(bodies, (0, 3)).any())


def test_poses_that_are_no_numbers_touch_nothing(rng):
    """A lost body has no contacts, and takes none from the others."""
    model = scene(rng)
    pipeline, state = SapCollisionPipeline(model, rigid_contact_max=2000), model.state()
    contacts = pipeline.contacts()
    place(state, rng, 0.2)
    pipeline.collide(state, contacts)
    shapes = contacts.rigid_contact_shape1.numpy()[: pipeline.last_contact_count].copy()
    poses = state.body_q.numpy()
    poses[2] = np.nan
    state.body_q.assign(poses)
    pipeline.collide(state, contacts)
    left = contacts.rigid_contact_shape1.numpy()[: pipeline.last_contact_count]
    lost = model.shape_body.numpy()[shapes] == 2
    assert lost.any()
    np.testing.assert_array_equal(left, shapes[~lost])


def ball_over(add_ground, kind="sphere", second=False):
    b = newton.ModelBuilder()
    add_ground(b)
    for _ in range(1 + second):
        add_shape(b, kind, b.add_body(), wp.transform_identity())
    return b.finalize(device="cpu")


def ground(b):
    b.add_ground_plane()


def moving_ground(b):
    b.add_shape_plane(body=b.add_body(), width=0.0, length=0.0)


def slab(b):
    b.add_shape_box(-1, hx=1.0, hy=1.0, hz=0.1)


@pytest.mark.parametrize(
    ("model", "options", "short"),
    [
        ((ground,), {}, True),
        ((ground, "cylinder"), {}, True),
        ((ground, "cone"), {}, False),
        ((ground, "sphere", True), {}, False),  # the balls may meet
        ((moving_ground,), {}, False),
        ((slab,), {}, False),
        ((ground,), {"broad_phase": "sap"}, False),
        ((ground,), {"deterministic": True}, False),
        ((ground,), {"shape_pairs_max": 5}, False),
    ],
)
def test_anything_else_goes_through_newtons_pipeline(model, options, short):
    """One kind of pair that is not known, or an option that is about Newton's stages, is enough."""
    built = ball_over(*model)
    pipeline = SapCollisionPipeline(built, **options)
    assert (pipeline.path.name == "ground") == short
    assert takes_short_way(pipeline, built) == short


def test_the_path_says_why_it_is_not_a_faster_one():
    """Name and reason, as a sentence with the first pair or the option that stands in the way."""
    cases = [
        (ball_over(ground), {}, "ground: every pair is of an infinite resting plane"),
        (ball_over(ground, "sphere", True), {}, "listed: 'shape_1' and 'shape_2' (sphere / sphere) are not of"),
        (ball_over(ground), {"broad_phase": "nxn"}, "newton: broad_phase is 'nxn', which Newton's own stages do"),
        (ball_over(ground), {"deterministic": True}, "newton: deterministic is set"),
        (ball_over(ground), {"shape_pairs_max": 5}, "newton: shape_pairs_max is set"),
    ]
    for model, options, expected in cases:
        assert str(SapCollisionPipeline(model, **options).path).startswith(expected)


# Convex hulls: contacts of our own, see `sap_warp.collision.narrow.hulls.ground`.

SOLE = np.array([[0.09 * np.cos(a), 0.04 * np.sin(a)] for a in np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False)])
"""Outline of a foot, 18 cm long and 8 cm wide."""


def foot_on_ground(margin=0.0, scale=(1.0, 1.0, 1.0)):
    """A hull with a flat sole of 24 vertices on the plane z = 0, and the pipeline, which must take the short way."""
    points = np.vstack([np.c_[SOLE, np.zeros(24)], np.c_[0.5 * SOLE, np.full(24, 0.06)]]).astype(np.float32)
    b = newton.ModelBuilder()
    b.rigid_gap = 0.001
    cfg = newton.ModelBuilder.ShapeConfig(margin=margin)
    mesh = newton.Mesh(points, hull_faces(points).ravel(), compute_inertia=False)
    b.add_shape_convex_hull(b.add_body(), mesh=mesh, scale=scale, cfg=cfg)
    b.add_ground_plane()
    model = b.finalize(device="cpu")
    pipeline = SapCollisionPipeline(model, rigid_contact_max=16)
    assert pipeline.path.name == "ground"
    return model, pipeline, points * np.float32(scale)


def hull_faces(points):
    from sap_warp.scene.assets.hulls import convex_hull

    vertices, faces = convex_hull(points.astype(float))
    order = [int(np.abs(points - v).sum(axis=1).argmin()) for v in vertices]
    return np.array(order)[faces]


def foot_contacts(model, pipeline, height, tilt, axis=(1.0, 0.0, 0.0)):
    """Contact points in the frame of the foot, and their heights above the ground less the margin."""
    state, contacts = model.state(), pipeline.contacts()
    turn = wp.quat_from_axis_angle(wp.normalize(wp.vec3(*axis)), float(tilt))
    state.body_q.assign(np.array([[0.3, -0.2, height, *turn]], dtype=np.float32))
    pipeline.collide(state, contacts)
    count = pipeline.last_contact_count
    points = contacts.rigid_contact_point1.numpy()[:count].astype(float)
    rotation = np.array(wp.quat_to_matrix(turn)).reshape(3, 3)
    return points, (points @ rotation.T)[:, 2] + height - contacts.rigid_contact_margin1.numpy()[:count]


@pytest.mark.parametrize("scale", [(1.0, 1.0, 1.0), (2.0, 0.5, 1.5)])
@pytest.mark.parametrize("margin", [0.0, 0.004])
def test_a_hull_touches_with_its_lowest_vertices(rng, margin, scale):
    """At random poses: contacts are vertices, the lowest one is among them to 5e-6 m, and none is beyond the gap."""
    model, pipeline, points = foot_on_ground(margin, scale)
    for _ in range(60):
        axis, tilt = rng.normal(size=3), rng.uniform(0.0, np.pi)
        turn = wp.quat_from_axis_angle(wp.normalize(wp.vec3(*axis)), float(tilt))
        heights = (points @ np.array(wp.quat_to_matrix(turn)).reshape(3, 3).T)[:, 2]
        gap = rng.uniform(-0.004, 0.006)
        found, depth = foot_contacts(model, pipeline, gap + margin - heights.min(), tilt, axis)
        assert len(found) <= 5
        if gap > 0.002001:  # both shapes have a gap of 1 mm
            assert len(found) == 0
        elif gap < 0.001999:
            assert depth.min() == pytest.approx(gap, rel=0, abs=5e-6)
            assert depth.max() <= 0.002001
            assert np.abs(points[:, None] - found[None]).sum(axis=2).min(axis=0).max() < 1e-6


def test_a_hull_at_rest_keeps_its_contacts(rng):
    """A foot that lies flat: four vertices, the same for all small tilts, that span most of the sole."""
    model, pipeline, _ = foot_on_ground()
    first, _ = foot_contacts(model, pipeline, -1e-5, 0.0)
    assert len(first) == 4
    a = first[:, :2] - first[:, :2].mean(axis=0)
    a = a[np.argsort(np.arctan2(a[:, 1], a[:, 0]))]
    area = 0.5 * abs(np.sum(a[:, 0] * np.roll(a[:, 1], -1) - a[:, 1] * np.roll(a[:, 0], -1)))
    assert area > 0.95 * 2.0 * 0.09 * 0.04  # the largest quadrilateral in the outline
    for _ in range(20):
        found, _ = foot_contacts(model, pipeline, -1e-5, 1e-6 * rng.uniform(-1.0, 1.0), [*rng.normal(size=2), 0.0])
        np.testing.assert_array_equal(found, first)


def test_vertices_come_and_go_without_load(rng):
    """A foot that rolls over: a vertex is new, or gone, only where it does not touch; four of a sole stay chosen."""
    model, pipeline, _ = foot_on_ground()
    before, depth_before = foot_contacts(model, pipeline, -2e-5, 0.0, (0.0, 1.0, 0.0))
    for tilt in np.linspace(0.0, 0.06, 300)[1:]:
        lift = 0.09 * np.sin(tilt)  # of the toe's end, which is what it turns about
        now, depth = foot_contacts(model, pipeline, lift - 2e-5, tilt, (0.0, 1.0, 0.0))
        for one, others, height in ((now, before, depth), (before, now, depth_before)):
            new = [i for i, p in enumerate(one) if np.abs(others - p).sum(axis=1).min() > 1e-6]
            assert all(height[i] > -1e-6 for i in new)
        before, depth_before = now, depth
