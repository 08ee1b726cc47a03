"""Models with many kinds of pairs on the CPU: our broad phase finds what Newton's pipeline finds.

Capsules, boxes and hulls with boxes and hulls, spheres with hulls, and hulls with the ground, have contacts of our own:
of these only the pairs are compared here, and the contacts in `test_boxes.py`, `test_ground.py` and `test_pairs.py`.
"""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp.collision import SapCollisionPipeline
from sap_warp.collision.broad.broad_phase import sort_by_body
from sap_warp.collision.narrow.ground import is_ground_pair
from tests.support.contact_rows import (
    INDICES,
    NUMBERS,
    add_shape,
    check_overflow,
    mirrored_rows,
    place,
    turns,
    without_inner_edges,
)

GAP = 0.02
WORLDS = 3
ROUND = ("sphere", "capsule")
SIMPLE = ("sphere", "capsule", "box", "cylinder")
ALL = (*SIMPLE, "ellipsoid", "cone", "convex")
BOX, HULL, PLANE = (int(kind) for kind in (newton.GeoType.BOX, newton.GeoType.CONVEX_MESH, newton.GeoType.PLANE))
SPHERE, OWN = int(newton.GeoType.SPHERE), [BOX, HULL, int(newton.GeoType.CAPSULE), int(newton.GeoType.CYLINDER)]
"""Kinds of shapes that have contacts of our own with boxes and hulls; a sphere only with hulls."""
PROVED = [HULL, *map(int, (newton.GeoType.SPHERE, newton.GeoType.CAPSULE, newton.GeoType.CYLINDER))]
"""Kinds of shapes that `hulls.separation` proves to be apart from a hull."""
CAPACITY = 8000


@pytest.fixture
def rng():
    return np.random.default_rng(17)


def tetrahedron():
    corners = np.array([[0.1, 0.0, -0.05], [-0.06, 0.08, -0.05], [-0.06, -0.08, -0.05], [0.0, 0.02, 0.12]])
    return newton.Mesh(corners, np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]).ravel())


def add_any(builder, kind, body, pose, **config):
    cfg = newton.ModelBuilder.ShapeConfig(gap=GAP, **config)
    if kind == "convex":
        builder.add_shape_convex_hull(body, xform=pose, mesh=tetrahedron(), cfg=cfg)
    elif kind == "mesh":
        builder.add_shape_mesh(body, xform=pose, mesh=tetrahedron(), cfg=cfg)
    elif kind == "barrel":
        builder.add_shape_cylinder(body, xform=pose, radius=0.08, half_height=0.06, barrel_radius=0.2, cfg=cfg)
    else:
        add_shape(builder, kind, body, pose, **config)


def random_pose(rng, spread):
    return wp.transform(rng.uniform(-spread, spread, 3).tolist(), turns(rng, 1)[0].tolist())


def one_world(rng, kinds, bodies=9, shapes=2, kinematic=(), fixtures=("box",)):
    """Bodies with several shapes each, one in two with a margin, and fixtures that belong to the world."""
    world = newton.ModelBuilder()
    for i in range(bodies):
        body = world.add_body(is_kinematic=i in kinematic)
        for k in range(1 + i % shapes):
            margin = float(rng.uniform(0.0, 0.02)) if k else 0.0
            add_any(world, kinds[(i + k) % len(kinds)], body, random_pose(rng, 0.1), margin=margin)
    for kind in fixtures:
        add_any(world, kind, -1, random_pose(rng, 0.3))
    return world


def scene(rng, kinds, tilted=True, worlds=WORLDS, **options):
    b = newton.ModelBuilder()
    b.rigid_gap = GAP
    b.replicate(one_world(rng, kinds, **options), worlds)
    b.add_ground_plane()
    if tilted:
        tilt = wp.quat_from_axis_angle(wp.normalize(wp.vec3(1.0, 2.0, 0.0)), 0.4)
        b.add_shape_plane(xform=wp.transform(wp.vec3(0.0, 0.1, -0.2), tilt), width=0.0, length=0.0)
    return b.finalize(device="cpu")


def sorted_rows(contacts, model=None):
    """Rows by pair of shapes; those of one pair stay in the order in which they were found.

    The triangles of meshes are sorted by place too: their order depends on all the others.
    """
    count = int(contacts.rigid_contact_count.numpy()[0])
    assert count <= contacts.rigid_contact_max
    shape1, shape0 = shapes = [getattr(contacts, f"rigid_contact_shape{i}").numpy()[:count] for i in (1, 0)]
    places = []
    if model is not None:
        triangles = np.isin(model.shape_type.numpy(), [int(newton.GeoType.MESH), int(newton.GeoType.HFIELD)])
        points = np.hstack([getattr(contacts, f"rigid_contact_point{i}").numpy()[:count] for i in (0, 1)])
        places = list((points * (triangles[shape0] | triangles[shape1])[:, None]).round(5).T)
    order = np.lexsort([*places, *shapes])
    rows = {name: getattr(contacts, f"rigid_contact_{name}").numpy()[:count][order] for name in (*INDICES, *NUMBERS)}
    live = rows["shape0"] >= 0
    return {name: values[live] for name, values in rows.items()}


class Rows:
    """Looks like a buffer with the sorted rows of another one."""

    def __init__(self, rows):
        for name, values in rows.items():
            setattr(self, f"rigid_contact_{name}", Column(values))


class Column:
    def __init__(self, values):
        self.values = values

    def numpy(self):
        return self.values


def is_own(model, pairs):
    """Pairs whose contacts are not Newton's."""
    kinds = np.sort(model.shape_type.numpy()[pairs].reshape(-1, 2), axis=1)
    own = np.isin(kinds[:, 0], OWN) & np.isin(kinds[:, 1], (BOX, HULL))
    own |= (kinds[:, 0] == SPHERE) & (kinds[:, 1] == HULL)
    return own | ((kinds[:, 0] == PLANE) & (kinds[:, 1] == HULL) & is_ground_pair(model, pairs))


def without_own(model, rows):
    """Rows of other pairs, and the pairs with contacts of our own."""
    pairs = np.column_stack([rows["shape0"], rows["shape1"]])
    own = is_own(model, pairs)
    return {name: values[~own] for name, values in rows.items()}, {tuple(sorted(pair)) for pair in pairs[own].tolist()}


def assert_same_contacts(model, ours, theirs):
    """The same set of rows; those that Newton's narrow phase wrote are the same to the last bit."""
    (a, own), (b, newtons_own) = (without_own(model, sorted_rows(c, model)) for c in (ours, theirs))
    b = without_inner_edges(model, a, b)
    assert len(own ^ newtons_own) <= len(own) // 50, "one may be at the very limit of the gap"
    for name in INDICES:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    rows = len(a["shape0"])
    mirrored = mirrored_rows(model, Rows(a), Rows(b), rows)
    pairs = np.column_stack([a["shape0"], a["shape1"]])
    planes = model.shape_type.numpy()[pairs[:, 0]] == int(newton.GeoType.PLANE)
    newtons = ~planes
    ground = is_ground_pair(model, pairs)
    for name in NUMBERS:
        x, y = a[name].copy(), b[name]
        if name in ("point0", "point1"):
            x[mirrored] = y[mirrored]
        np.testing.assert_array_equal(x[newtons], y[newtons], err_msg=name)
        tolerance = np.where(planes & ~ground, 1e-4, 3e-6)  # of a plane that Newton makes a box as large as needed
        assert (np.abs(x - y).reshape(rows, -1).max(axis=1, initial=0.0) <= tolerance).all(), name
    return rows, int(newtons.sum())


def both_pipelines(model, **options):
    ours = SapCollisionPipeline(model, rigid_contact_max=CAPACITY, **options)
    theirs = newton.CollisionPipeline(model, rigid_contact_max=CAPACITY, broad_phase="explicit", **options)
    assert ours.path.name == "listed"
    return ours, theirs


def compare(model, rng, poses=12, spread=0.3, **options):
    """Random poses of all bodies in both pipelines; returns contacts seen, and how many were Newton's."""
    ours, theirs = both_pipelines(model, **options)
    buffers, state, seen = (ours.contacts(), theirs.contacts()), model.state(), np.zeros(2, dtype=int)
    for _ in range(poses):
        place(state, rng, spread, height=0.2)
        ours.collide(state, buffers[0])
        theirs.collide(state, buffers[1])
        seen += assert_same_contacts(model, *buffers)
    np.testing.assert_array_equal(buffers[0].contact_generation.numpy(), buffers[1].contact_generation.numpy())
    return seen


@pytest.mark.parametrize(
    ("kinds", "fixtures"),
    [(ROUND, ("sphere",)), (SIMPLE, ("box", "capsule")), (ALL, ("box", "barrel"))],
    ids=["round", "simple", "all"],
)
def test_contacts_are_those_of_newton(rng, kinds, fixtures):
    """Several shapes on a body, margins, two planes and fixtures; from round shapes only to all convex ones."""
    rows, newtons = compare(scene(rng, kinds, fixtures=fixtures), rng)
    assert rows > 800
    assert newtons > 150 or kinds is ROUND


def test_planes_with_edges_and_planes_that_move(rng):
    """Newton lets finite planes act as far as bounding boxes overlap; an infinite plane may belong to a body."""
    world = one_world(rng, SIMPLE, fixtures=())
    world.add_shape_plane(xform=random_pose(rng, 0.1), width=0.3, length=0.5)
    world.add_shape_plane(body=world.add_body(), width=0.0, length=0.0)
    b = newton.ModelBuilder()
    b.replicate(world, WORLDS)
    rows, _ = compare(b.finalize(device="cpu"), rng)
    assert rows > 1000


def test_meshes_and_heightfields(rng):
    """Newton's own routines for triangles get the pairs that they need."""
    world = one_world(rng, ("sphere", "box", "mesh", "capsule", "convex"), bodies=6)
    world.add_shape_heightfield(heightfield=newton.Heightfield(rng.uniform(-0.1, 0.1, (8, 8)), 8, 8, 1.0, 1.0))
    for i in range(world.shape_count):
        if world.shape_type[i] == int(newton.GeoType.MESH):
            world.add_shape_collision_filter_pair(i, world.shape_count - 1)
    b = newton.ModelBuilder()
    b.replicate(world, 2)
    rows, newtons = compare(b.finalize(device="cpu"), rng, poses=6)
    assert rows > 200
    assert newtons > 100


@pytest.mark.parametrize("included", [True, False])
def test_kinematic_bodies_meet_what_stands_still_if_they_are_asked_to(rng, included):
    """Newton's option for pairs that cannot move acts here too."""
    model = scene(rng, SIMPLE, kinematic=(0, 3, 4))
    rows, _ = compare(model, rng, poses=4, spread=0.2, include_static_kinematic_pairs=included)
    assert rows > 300


def test_no_pair_that_newton_would_test_is_lost(rng):
    """The list that Newton's narrow phase gets: no pair is missing, and only cones are given more room."""
    model = scene(rng, ALL, bodies=12, shapes=3)
    ours, theirs = both_pipelines(model)
    buffers, state, seen = (ours.contacts(), theirs.contacts()), model.state(), 0
    kinds = model.shape_type.numpy()
    for spread in np.linspace(0.2, 1.5, 12):
        place(state, rng, spread)
        ours.collide(state, buffers[0])
        theirs.collide(state, buffers[1])
        lists = []
        for pipeline in (ours.newton_pipeline, theirs):
            count = int(pipeline.broad_phase_pair_count.numpy()[0])
            pairs = np.sort(pipeline.broad_phase_shape_pairs.numpy()[:count], axis=1)
            types = np.sort(kinds[pairs], axis=1)
            keep = ~((types[:, 0] == PLANE) & (types[:, 1] <= BOX)) & ~is_own(model, pairs)
            keep &= ~(np.isin(types, PROVED) & (types == HULL).any(axis=1)[:, None]).all(axis=1)  # left out if apart
            lists.append({tuple(pair) for pair in pairs[keep].tolist()})
        assert lists[0] >= lists[1]
        for pair in lists[0] - lists[1]:
            assert int(newton.GeoType.CONE) in kinds[list(pair)]
        seen += len(lists[1])
    assert seen > 500


def test_worlds_may_lie_anywhere(rng):
    """Copies of one world at distances up to a kilometre: each has the contacts of the first, up to rounding."""
    model = scene(rng, SIMPLE, tilted=False, worlds=4)
    pipeline, state = SapCollisionPipeline(model, rigid_contact_max=CAPACITY), model.state()
    contacts, bodies = pipeline.contacts(), model.body_count // 4
    poses = np.column_stack([rng.uniform(-0.3, 0.3, (bodies, 3)), turns(rng, bodies)])
    shift = np.array([[0.0, 0.0, 0.0], [16.0, -8.0, 0.0], [-128.0, 512.0, 0.0], [1024.0, 1024.0, 0.0]])
    everywhere = np.tile(poses, (4, 1))
    everywhere[:, :3] += np.repeat(shift, bodies, axis=0)
    state.body_q.assign(everywhere.astype(np.float32))
    fixed = model.shape_body.numpy() < 0
    worlds = model.shape_world.numpy()
    local = model.shape_transform.numpy()
    local[fixed & (worlds >= 0), :3] += shift[worlds[fixed & (worlds >= 0)]]
    model.shape_transform.assign(local)
    pipeline.collide(state, contacts)
    rows = pipeline.last_contact_count
    a, b = (getattr(contacts, f"rigid_contact_shape{i}").numpy()[:rows] for i in (0, 1))
    world = np.maximum(worlds[a], worlds[b])
    counts = np.bincount(world, minlength=4)
    assert counts[0] > 20
    assert (np.abs(counts - counts[0]) <= 1).all()  # one may be at the very limit of the gap


def test_a_lost_world_does_not_disturb_the_others(rng):
    """Poses that are no numbers have no contacts; next to these and infinite ones rows stay as they were."""
    model = scene(rng, ALL)
    pipeline, state = SapCollisionPipeline(model, rigid_contact_max=CAPACITY), model.state()
    contacts, bodies = pipeline.contacts(), model.body_count // WORLDS
    place(state, rng, 0.2)
    before = state.body_q.numpy().copy()

    def rows_by_world():
        pipeline.collide(state, contacts)
        rows = {
            name: getattr(contacts, f"rigid_contact_{name}").numpy()[: pipeline.last_contact_count]
            for name in (*INDICES, *NUMBERS)
        }
        shapes = model.shape_world.numpy()
        world = np.maximum(shapes[rows["shape0"]], shapes[rows["shape1"]])
        return [{name: values[world == w].copy() for name, values in rows.items()} for w in range(WORLDS)]

    good = rows_by_world()
    assert all(len(rows["shape0"]) > 20 for rows in good)
    for number in (np.nan, np.inf, 1e30):
        poses = before.copy()
        poses[bodies : 2 * bodies, :3] = number
        if np.isnan(number):
            poses[bodies : 2 * bodies] = number
        state.body_q.assign(poses)
        bad = rows_by_world()
        for w in (0, 2):
            for name, values in good[w].items():
                np.testing.assert_array_equal(bad[w][name], values, err_msg=f"{name} of world {w} next to {number}")
        assert len(bad[1]["shape0"]) == 0 or not np.isnan(number)
    state.body_q.assign(before)
    again = rows_by_world()
    for w in range(WORLDS):
        for name, values in good[w].items():
            np.testing.assert_array_equal(again[w][name], values, err_msg=name)


@pytest.mark.parametrize("kinds", [ROUND, SIMPLE], ids=["round", "simple"])
def test_overflow_leaves_the_same_contacts(rng, kinds):
    """A buffer that is too small keeps the same contacts of each world and reports the same losses."""
    fixtures = ("sphere",) if kinds is ROUND else ("cylinder",)
    model = scene(rng, [kind for kind in kinds if kind != "box"], fixtures=fixtures)
    places = [(0.2, 0.0), (0.3, 0.0), (0.4, 9.0), (0.2, 0.0)]  # one pass that fits, between others
    check_overflow(model, rng, places, lambda p: p.path.name == "listed", lambda *b: assert_same_contacts(model, *b))


def test_changes_of_the_model_are_seen(rng):
    """Margins, gaps and sizes that were written or replaced since the last pass."""
    model = scene(rng, SIMPLE)
    ours, theirs = both_pipelines(model)
    buffers, state, counts = (ours.contacts(), theirs.contacts()), model.state(), []
    place(state, rng, 0.3, height=0.2)
    model.shape_gap.fill_(0.0)
    for change in (lambda: None, lambda: model.shape_gap.fill_(0.2), lambda: grow(model), lambda: widen(model)):
        change()
        ours.collide(state, buffers[0])
        theirs.collide(state, buffers[1])
        counts.append(assert_same_contacts(model, *buffers)[0])
    assert counts == sorted(set(counts))


def grow(model):
    size, solid = model.shape_scale.numpy(), model.shape_type.numpy() != int(newton.GeoType.PLANE)
    size[solid] *= 1.5
    model.shape_scale.assign(size)


def widen(model):
    model.shape_margin = wp.full(model.shape_count, 0.1, dtype=wp.float32, device="cpu")


def test_replayed_passes_see_the_poses_of_their_time(rng):
    """What a pass remembers of shapes is of no use to the next one, captured or not."""
    model = scene(rng, SIMPLE)
    pipeline, state = SapCollisionPipeline(model, rigid_contact_max=CAPACITY), model.state()
    contacts, expected = pipeline.contacts(), pipeline.contacts()
    pipeline.collide(state, contacts)
    with wp.ScopedCapture("cpu") as capture:
        pipeline.collide(state, contacts)
    for _ in range(3):
        place(state, rng, 0.3)
        pipeline.collide(state, expected)
        wp.capture_launch(capture.graph)
        a, b = sorted_rows(contacts), sorted_rows(expected)
        assert len(a["shape0"]) > 50
        for name, values in a.items():
            np.testing.assert_array_equal(values, b[name], err_msg=name)


def test_every_pair_belongs_to_one_pair_of_bodies(rng):
    """Bodies and their pairs hold the pairs that were given, and cubes are around the origins of shapes."""
    model = scene(rng, ALL, bodies=7, shapes=4)
    pairs = model.shape_contact_pairs.numpy().reshape(-1, 2)
    pairs = pairs[(model.shape_body.numpy()[pairs] >= 0).any(axis=1)]
    sorted_pairs = sort_by_body(model, pairs)
    names = ("body", "shape_start", "shape", "partner_start", "partner", "pair_start", "pair")
    table = {name: getattr(sorted_pairs, name).numpy() for name in names}
    assert sorted_pairs.count == len(table["body"])
    np.testing.assert_array_equal(np.unique(np.sort(table["pair"], axis=1), axis=0), np.unique(np.sort(pairs), axis=0))
    assert len(table["pair"]) == len(pairs)
    group = np.repeat(np.arange(len(table["body"])), np.diff(table["shape_start"]))
    of_shape = dict(zip(table["shape"].tolist(), group.tolist(), strict=True))
    first = np.repeat(np.arange(len(table["body"])), np.diff(table["partner_start"]))
    for k, (a, b) in enumerate(zip(first, table["partner"], strict=True)):
        inside = table["pair"][table["pair_start"][k] : table["pair_start"][k + 1]]
        assert len(inside) > 0
        for pair in inside.tolist():
            assert {of_shape[pair[0]], of_shape[pair[1]]} == {a, b}
    bodies = model.shape_body.numpy()
    for shape, g in of_shape.items():
        assert table["body"][g] == bodies[shape]
