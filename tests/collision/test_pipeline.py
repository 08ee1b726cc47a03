"""Collision pipeline: what is emitted, which pairs meet, and that the solver gets what the buffer says."""

import enum
import functools
import itertools
import warnings

import newton
import numpy as np
import pytest
import warp as wp
from newton.geometry import BroadPhaseExplicit, NarrowPhase

import sap_warp
from sap_warp import SapCollisionPipeline, sap_collision_state_from_state
from tests.support.contact_rows import without_inner_edges
from tests.support.scenes import G, add_ball, add_box, allocations, builder, material

MODES = ("explicit", "sap", "nxn")
MARGINS = (0.003, 0.005)
GAPS = (0.01, 0.02)


def rotate(q, v):
    """Rotate vectors by xyzw quaternions."""
    u, w = q[..., :3], q[..., 3:]
    return v + 2.0 * np.cross(u, np.cross(u, v) + w * v)


def read(contacts, model, body_q):
    """Valid contacts as a dict, points in world frame, phi0 from the buffer."""
    n = min(int(contacts.rigid_contact_count.numpy()[0]), contacts.rigid_contact_max)
    pose = np.concatenate([np.asarray(body_q, dtype=np.float64).reshape(-1, 7), [[0, 0, 0, 0, 0, 0, 1.0]]])
    body = model.shape_body.numpy()
    out = {name: getattr(contacts, f"rigid_contact_{name}").numpy()[:n] for name in ("shape0", "shape1", "normal")}
    for side in "01":
        frame = pose[body[out[f"shape{side}"]]]
        point, offset = (getattr(contacts, f"rigid_contact_{k}{side}").numpy()[:n] for k in ("point", "offset"))
        margin = getattr(contacts, f"rigid_contact_margin{side}").numpy()[:n]
        out[f"core{side}"] = frame[:, :3] + rotate(frame[:, 3:], point.astype(np.float64))
        out[f"surface{side}"] = out[f"core{side}"] + rotate(frame[:, 3:], offset.astype(np.float64))
        out[f"margin{side}"] = margin.astype(np.float64)
    separation = ((out["core1"] - out["core0"]) * out["normal"]).sum(axis=1)
    out["phi0"] = separation - out["margin0"] - out["margin1"]
    live = out["shape0"] >= 0  # others are taken out
    return {name: values[live] for name, values in out.items()}


def detect(model, state=None, **options):
    """Contacts of one pass."""
    pipeline = SapCollisionPipeline(model, **options)
    contacts = pipeline.contacts()
    state = model.state() if state is None else state
    pipeline.collide(state, contacts)
    return read(contacts, model, state.body_q.numpy())


def shape_pairs(found):
    return {tuple(sorted(pair)) for pair in zip(found["shape0"].tolist(), found["shape1"].tolist(), strict=True)}


# --- shapes ----------------------------------------------------------------------------------------------------


def config(side, margin=True):
    return newton.ModelBuilder.ShapeConfig(
        ke=1e4, mu=0.5, gap=GAPS[side], margin=MARGINS[side] if margin else 0.0, density=100.0
    )


def add_shape(b, body, kind, cfg):
    """A shape that reaches 0.2 m up and down from its origin, planes 0."""
    if kind == "plane":
        b.add_shape_plane(body=body, width=0.0, length=0.0, cfg=cfg)
    elif kind == "finite_plane":
        b.add_shape_plane(body=body, width=2.0, length=2.0, cfg=cfg)
    elif kind == "sphere":
        b.add_shape_sphere(body, radius=0.2, cfg=cfg)
    elif kind == "capsule":
        b.add_shape_capsule(body, radius=0.1, half_height=0.1, cfg=cfg)
    elif kind == "ellipsoid":
        b.add_shape_ellipsoid(body, rx=0.3, ry=0.25, rz=0.2, cfg=cfg)
    elif kind == "cylinder":
        b.add_shape_cylinder(body, radius=0.15, half_height=0.2, cfg=cfg)
    elif kind == "box":
        b.add_shape_box(body, hx=0.25, hy=0.3, hz=0.2, cfg=cfg)
    elif kind == "convex":
        b.add_shape_convex_hull(body, mesh=newton.Mesh.create_box(0.2, 0.2, 0.2), cfg=cfg)
    elif kind == "mesh":
        b.add_shape_mesh(body, mesh=newton.Mesh.create_box(0.2, 0.2, 0.2), cfg=cfg)
    else:
        raise AssertionError(kind)


@functools.cache
def detector(kinds):
    """A function from the distance of two surfaces, the second shape above the first, to their contacts."""
    b = builder()
    lower = -1 if kinds[0].endswith("plane") else b.add_body(xform=wp.transform((0.0, 0.0, -0.2)))
    upper = b.add_body()
    add_shape(b, lower, kinds[0], config(0))
    add_shape(b, upper, kinds[1], config(1))
    model = b.finalize(device="cpu")
    pipeline = SapCollisionPipeline(model)
    contacts, state = pipeline.contacts(), model.state()

    def detect_at(distance):
        pose = state.body_q.numpy()
        pose[upper, 2] = 0.2 + distance
        state.body_q.assign(pose)
        pipeline.collide(state, contacts)
        return read(contacts, model, pose)

    return detect_at


PAIRS = [
    ("plane", "sphere"),
    ("plane", "capsule"),
    ("plane", "ellipsoid"),
    ("plane", "cylinder"),
    ("plane", "box"),
    ("plane", "convex"),
    ("plane", "mesh"),
    ("finite_plane", "box"),
    ("sphere", "sphere"),
    ("sphere", "capsule"),
    ("sphere", "box"),
    ("sphere", "convex"),
    ("capsule", "capsule"),
    ("capsule", "box"),
    ("cylinder", "box"),
    ("box", "box"),
    ("ellipsoid", "box"),
]


GJK_BIAS = 1e-4
"""Newton's general convex routine reports these pairs up to this much too close [m]; the other pairs are exact."""
BIASED = {("sphere", "convex"), ("capsule", "box")}


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_contacts_are_emitted_up_to_margins_plus_gaps(kinds):
    """d - (m_a + m_b) <= g_a + g_b emits, a little more does not. phi0 in the buffer is d - (m_a + m_b)."""
    band, tolerance = sum(MARGINS) + sum(GAPS), 2e-5 + (GJK_BIAS if kinds in BIASED else 0.0)
    detect_at = detector(kinds)
    for distance in (band - tolerance, 0.5 * band, -0.01):
        found = detect_at(distance)
        assert len(found["phi0"]) > 0, f"nothing at d = {distance}"
        np.testing.assert_allclose(found["phi0"].min(), distance - sum(MARGINS), atol=tolerance)
        deepest = found["phi0"].argmin()
        up = found["normal"][deepest, 2] * (1.0 if found["shape1"][deepest] == 1 else -1.0)
        assert up == pytest.approx(1.0, abs=1e-3), "the normal leads from shape 0 to shape 1"
    assert len(detect_at(band + tolerance)["phi0"]) == 0


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_touching_shapes_have_a_direction_or_no_contact(kinds):
    """Newton writes normals of zero length at d = 0; a plane's is repaired, others are taken out."""
    found = detector(kinds)(0.0)
    valid = found["shape0"] >= 0
    np.testing.assert_allclose(np.abs(found["normal"][valid, 2]), 1.0, atol=1e-3)
    assert (found["normal"][~valid] == 0.0).all()
    assert (found["shape1"][~valid] == -1).all()
    if kinds[0].endswith("plane"):
        assert valid.all()
        apart = ((found["surface1"] - found["surface0"]) * found["normal"]).sum(axis=1)
        np.testing.assert_allclose(apart, found["phi0"], atol=1e-6)


def test_a_convex_hull_may_start_on_the_ground():
    """Just touching in the first step: it stays where it is."""
    b = builder()
    b.add_ground_plane(cfg=material(1e5, gap=0.0))
    body = b.add_body(xform=wp.transform((0.0, 0.0, 0.2)))
    b.add_shape_convex_hull(body, mesh=newton.Mesh.create_box(0.2, 0.2, 0.2), cfg=material(1e5, density=100.0))
    pose = Run(b.finalize(device="cpu")).run(1.0).state.body_q.numpy()[0]
    np.testing.assert_allclose(pose, [0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 1.0], atol=1e-3)


def test_surface_points_lie_on_the_effective_surface():
    """Point + offset of the two shapes are phi0 apart along the normal."""
    for kinds in (("plane", "sphere"), ("capsule", "capsule"), ("plane", "box")):
        found = detector(kinds)(0.004)
        apart = ((found["surface1"] - found["surface0"]) * found["normal"]).sum(axis=1)
        np.testing.assert_allclose(apart, found["phi0"], atol=1e-6)


# --- with the solver -------------------------------------------------------------------------------------------


class Run:
    """Model, our pipeline, solver and one state that is stepped in place."""

    def __init__(self, model, dt=0.005, precision=None, preset="approx64", **options):
        self.model, self.dt = model, dt
        self.solver = sap_warp.SolverSAP(model, contact_preset_variant=preset)
        self.pipeline = SapCollisionPipeline(model, rigid_contact_max=128 * max(model.world_count, 1), **options)
        self.contacts = self.pipeline.contacts()
        self.state = model.state() if precision is None else self.solver.sap_model.state(precision)

    def step(self):
        self.pipeline.collide(sap_collision_state_from_state(self.state), self.contacts)
        self.solver.step(self.state, self.state, None, self.contacts, self.dt)

    def run(self, seconds):
        self.step()
        with wp.ScopedCapture(device="cpu") as capture:
            self.step()
        for _ in range(round(seconds / self.dt) - 1):
            wp.capture_launch(capture.graph)
        return self

    def impulses(self):
        """Force on shape 1 of every contact [N] in world frame: the contact law restated."""
        data, n = self.solver.contact_jacobian.data, int(self.solver.contact_jacobian.data.count.numpy()[0])
        row = {k: getattr(data, k).numpy()[:n] for k in ("source", "vhat", "mu", "Rt", "Rn", "normal")}
        row["vc"] = self.solver.contact_solve.data.vc.numpy()[:n]
        vn = (row["vc"] * row["normal"]).sum(axis=1)
        vt = row["vc"] - vn[:, None] * row["normal"]
        yn, yt = (row["vhat"] - vn) / row["Rn"], -vt / row["Rt"][:, None]
        yr = np.sqrt((yt**2).sum(axis=1) + 1e-14)
        mu, ratio = row["mu"], row["Rt"] / row["Rn"]
        slide_n = (yn + mu * ratio * yr) / (1.0 + mu**2 * ratio)
        stick = yr <= mu * yn
        slide = ~stick & (-mu * ratio * yr < yn)
        gn = np.where(stick, yn, np.where(slide, slide_n, 0.0))
        gt = np.where(stick[:, None], yt, (mu * gn / yr)[:, None] * yt)
        return row["source"], (gn[:, None] * row["normal"] + gt) / self.dt


@pytest.mark.parametrize("kind", ["sphere", "box"])
def test_margin_moves_the_resting_height_by_the_margin(kind):
    """Height with margins minus height without is m_a + m_b, for a soft contact whose depth does not depend on it."""
    heights = []
    for margin in (False, True):
        b = builder()
        b.add_ground_plane(cfg=config(0, margin))
        add_shape(b, b.add_body(xform=wp.transform((0.0, 0.0, 0.21))), kind, config(1, margin))
        heights.append(Run(b.finalize(device="cpu")).run(3.0).state.body_q.numpy()[0, 2])
    assert heights[1] - heights[0] == pytest.approx(sum(MARGINS), abs=2e-6)


def test_contact_wrench_of_a_resting_object_balances_gravity():
    """Forces sum to m g and have no moment about the centre of mass, on uneven feet; within 0.1 %."""
    b = builder()
    b.add_ground_plane(cfg=material(1e5, gap=0.002))
    body = b.add_link(mass=3.0, com=wp.vec3(0.03, -0.02, 0.05), inertia=wp.mat33(*np.diag([0.1, 0.1, 0.1]).ravel()))
    b.add_articulation([b.add_joint_free(body)])
    for x, y in ((0.2, 0.0), (-0.1, 0.15), (-0.1, -0.2)):
        b.add_shape_sphere(body, xform=wp.transform((x, y, 0.0)), radius=0.05, cfg=material(1e5, gap=0.002))
    b.add_shape_box(body, xform=wp.transform((-0.25, 0.0, 0.0)), hx=0.03, hy=0.1, hz=0.05, cfg=material(1e5, gap=0.002))
    b.body_q[body] = wp.transform((0.0, 0.0, 0.052))
    b.joint_q[:7] = [0.0, 0.0, 0.052, 0.0, 0.0, 0.0, 1.0]
    run = Run(b.finalize(device="cpu")).run(4.0)
    pose = run.state.body_q.numpy()[0].astype(np.float64)
    found = read(run.contacts, run.model, pose)
    source, force = run.impulses()
    assert len(source) >= 4
    com = pose[:3] + rotate(pose[3:], np.array(run.model.body_com.numpy()[0], dtype=np.float64))
    sign = np.where(found["shape1"][source] == 0, -1.0, 1.0)[:, None]  # the ground is shape 0
    arm = found["surface1"][source] - com
    weight = float(run.model.body_mass.numpy()[0]) * G
    np.testing.assert_allclose((sign * force).sum(axis=0), [0.0, 0.0, weight], atol=1e-3 * weight)
    np.testing.assert_allclose(np.cross(arm, sign * force).sum(axis=0), 0.0, atol=1e-3 * weight * 0.2)


@pytest.mark.parametrize("mode", MODES)
def test_captured_step_equals_plain_steps_bit_for_bit(mode, rng):
    """Replaying collide and step gives what calling them gives, on a falling pile of three worlds."""
    model = pile(rng, worlds=3)
    plain, replayed = Run(model, broad_phase=mode, preset="approx32"), Run(model, broad_phase=mode, preset="approx32")
    for _ in range(60):
        plain.step()
    replayed.run(60 * replayed.dt)
    assert plain.pipeline.last_contact_count > 10
    for name in ("joint_q", "joint_qd", "body_q"):
        np.testing.assert_array_equal(getattr(plain.state, name).numpy(), getattr(replayed.state, name).numpy())


def test_fp64_state_is_rounded_in_place_and_steps_with_contacts():
    """A double-precision state meets the ground; its fp32 poses are one buffer, refreshed by every collide."""
    b = builder()
    b.add_ground_plane(cfg=material(1e4, gap=0.002))
    add_box(b, (0.0, 0.0, 0.102), cfg=material(1e4, gap=0.002))
    model = b.finalize(device="cpu")
    double, single = Run(model, precision="fp64"), Run(model)
    view = sap_collision_state_from_state(double.state)
    assert sap_collision_state_from_state(double.state) is view
    assert view.body_q.dtype is wp.transformf
    double.run(1.0)
    single.run(1.0)
    double.pipeline.collide(double.state, double.contacts)
    np.testing.assert_array_equal(view.body_q.numpy(), double.state.body_q.numpy().astype(np.float32))
    np.testing.assert_allclose(double.state.body_q.numpy(), single.state.body_q.numpy(), atol=1e-5)
    assert double.pipeline.last_contact_count == 4


def test_fp64_view_follows_a_replaced_array_and_dies_with_its_state():
    """The buffer belongs to the state object and its current array."""
    import gc
    import weakref

    b = builder()
    add_box(b, (0.0, 0.0, 0.0))
    state = sap_warp.SapModel(b.finalize(device="cpu")).state("fp64")
    first = sap_collision_state_from_state(state)
    state.body_q = wp.clone(state.body_q)
    second = sap_collision_state_from_state(state)
    assert second is not first
    assert second.body_q_source is state.body_q
    alive = weakref.ref(second)
    del state, first, second
    gc.collect()
    assert alive() is None


# --- which pairs meet ------------------------------------------------------------------------------------------


GROUPS = {
    (0, 0): False,
    (0, 1): False,
    (0, -1): False,
    (1, 1): True,
    (1, 2): False,
    (1, -1): True,
    (2, -1): True,
    (-1, -1): False,
    (-1, -2): True,
}
"""Pairs of collision groups, and whether they meet."""


@pytest.mark.parametrize("mode", MODES)
def test_collision_groups(mode):
    """Zero meets nothing, equal positive groups meet, negative groups meet all but themselves and zero."""
    b = builder()
    for place, groups in enumerate(GROUPS):
        for i, group in enumerate(groups):
            cfg = material(gap=0.01)
            cfg.collision_group = group
            add_ball(b, (float(place), 0.0, 0.15 * i), cfg=cfg)
    expected = {(2 * place, 2 * place + 1) for place, meet in enumerate(GROUPS.values()) if meet}
    assert shape_pairs(detect(b.finalize(device="cpu"), broad_phase=mode)) == expected


@pytest.mark.parametrize("mode", MODES)
def test_filtered_pairs_do_not_meet(mode):
    """Parent and child of a joint, and a pair that was filtered by hand; the rest of the chain does meet."""
    b = builder()
    links = []
    for i in range(4):
        links.append(b.add_link(xform=wp.transform((0.1 * i, 0.0, 0.0)), mass=1.0, inertia=wp.mat33(np.eye(3))))
        b.add_shape_sphere(links[-1], radius=0.2, cfg=material(gap=0.0))
    joints = [b.add_joint_revolute(-1, links[0], axis=newton.Axis.Z)]
    for parent, child in itertools.pairwise(links):
        joints.append(
            b.add_joint_revolute(parent, child, parent_xform=wp.transform((0.1, 0.0, 0.0)), axis=newton.Axis.Z)
        )
    b.add_articulation(joints)
    b.add_shape_collision_filter_pair(0, 3)
    assert shape_pairs(detect(b.finalize(device="cpu"), broad_phase=mode)) == {(0, 2), (1, 3)}


@pytest.mark.parametrize("mode", MODES)
def test_shapes_without_the_collision_flag_do_not_meet(mode):
    """A visual shape is no obstacle."""
    b = builder()
    add_ball(b, (0.0, 0.0, 0.0))
    cfg = material()
    cfg.has_shape_collision = False
    add_ball(b, (0.0, 0.0, 0.1), cfg=cfg)
    assert len(detect(b.finalize(device="cpu"), broad_phase=mode)["phi0"]) == 0


@pytest.mark.parametrize("mode", MODES)
def test_worlds_are_separate_and_share_the_ground(mode, rng):
    """Copies at the same place: equal contacts per world, none across, the global plane in each."""
    model = pile(rng, worlds=4)
    found = detect(model, broad_phase=mode, rigid_contact_max=1000)
    world = model.shape_world.numpy()
    w0, w1 = world[found["shape0"]], world[found["shape1"]]
    assert ((w0 == w1) | (w0 == -1) | (w1 == -1)).all()
    owner = np.maximum(w0, w1)
    counts = np.bincount(owner, minlength=4)
    assert counts[0] > 5
    assert (counts == counts[0]).all()
    assert (np.bincount(owner[np.minimum(w0, w1) == -1], minlength=4) > 0).all()


# --- broad phases ----------------------------------------------------------------------------------------------


def pile(rng, worlds=1, count=10, kinds=("sphere", "capsule", "box", "cylinder", "ellipsoid", "convex")):
    """Bodies of mixed shapes thrown together above the ground plane."""
    world = builder()
    for i in range(count):
        q = rng.normal(size=4)
        position = (*rng.uniform(-0.4, 0.4, 2), rng.uniform(0.1, 0.7))
        body = world.add_body(xform=wp.transform(position, wp.quat(*(q / np.linalg.norm(q)))))
        add_shape(world, body, kinds[i % len(kinds)], newton.ModelBuilder.ShapeConfig(gap=0.005, density=500.0))
    b = builder()
    b.replicate(world, worlds)
    b.add_ground_plane(cfg=newton.ModelBuilder.ShapeConfig(gap=0.005))
    return b.finalize(device="cpu")


def assert_same_contacts(one, other):
    """Every contact has a twin on the other side: same shapes, points within 10 um, normals within 1e-4."""
    assert len(one["shape0"]) == len(other["shape0"])
    points, normals = (np.abs(one[k][:, None] - other[k][None]).max(axis=2) for k in ("core0", "normal"))
    twins = (points < 1e-5) & (normals < 1e-4)
    for name in ("shape0", "shape1"):
        twins &= one[name][:, None] == other[name][None]
    assert twins.any(axis=1).all() and twins.any(axis=0).all()


def test_broad_phases_give_the_same_contacts(rng):
    """Explicit, sap and nxn agree as sets on random piles, twenty poses of three worlds each."""
    model = pile(rng, worlds=3)
    options = {"rigid_contact_max": 2000, "verify_buffers": False}  # an option of Newton's: nothing is found our way
    runs = {mode: SapCollisionPipeline(model, broad_phase=mode, **options) for mode in MODES}
    buffers = {mode: pipeline.contacts() for mode, pipeline in runs.items()}
    state, seen = model.state(), 0
    for _ in range(20):
        randomize(state, rng)
        found = []
        for mode in MODES:
            runs[mode].collide(state, buffers[mode])
            found.append(read(buffers[mode], model, state.body_q.numpy()))
        assert_same_contacts(found[0], found[1])
        assert_same_contacts(found[0], found[2])
        seen += len(found[0]["shape0"])
    assert seen > 500


def randomize(state, rng):
    """Random poses in a box above the ground."""
    count = state.body_q.shape[0]
    q = rng.normal(size=(count, 4))
    position = np.column_stack([rng.uniform(-0.4, 0.4, (count, 2)), rng.uniform(0.1, 0.7, count)])
    state.body_q.assign(np.column_stack([position, q / np.linalg.norm(q, axis=1, keepdims=True)]).astype(np.float32))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kinds", [("sphere", "box", "cylinder"), ("mesh", "box", "sphere")], ids=["convex", "mesh"])
def test_unpadded_launches_change_nothing(mode, kinds, rng):
    """On the CPU one thread strides over all work: the contacts are those of Newton's own pipeline."""
    model = pile(rng, worlds=2, count=6, kinds=kinds)
    ours = SapCollisionPipeline(model, broad_phase=mode, rigid_contact_max=2000)
    theirs = newton.CollisionPipeline(model, broad_phase=mode, rigid_contact_max=2000)
    assert ours.newton_pipeline.narrow_phase.total_num_threads == 1
    assert theirs.narrow_phase.total_num_threads > 1
    buffers, state = (ours.contacts(), theirs.contacts()), model.state()
    for _ in range(5):
        randomize(state, rng)
        ours.collide(state, buffers[0])
        theirs.collide(state, buffers[1])
        pose = state.body_q.numpy()
        found = [without_own_pairs(read(buffer, model, pose), model) for buffer in buffers]
        found[1] = without_inner_edges(model, *found)
        assert len(found[0]["shape0"]) > 5
        assert_same_contacts(*found)


def without_own_pairs(rows, model):
    """Rows of other pairs than boxes with boxes and cylinders, whose contacts are our own where pairs are listed."""
    kinds = np.sort(model.shape_type.numpy()[np.column_stack([rows["shape0"], rows["shape1"]])], axis=1)
    faced = [int(newton.GeoType.BOX), int(newton.GeoType.CYLINDER)]
    others = ~(np.isin(kinds[:, 0], faced) & (kinds[:, 1] == int(newton.GeoType.BOX)))
    return {name: values[others] for name, values in rows.items()}


@pytest.mark.parametrize("count", [1, 2, 3, 70, 200])
def test_sort_of_the_cpu_sweep(count, rng):
    """Keys ascend within each segment and values follow them."""
    from sap_warp.collision.newton_compat import sort_segments

    keys = rng.normal(size=(3, count)).astype(np.float32)
    key, value = wp.array(keys.ravel()), wp.array(np.tile(np.arange(count, dtype=np.int32), 3))
    wp.launch_tiled(sort_segments, dim=3, inputs=[key, value, count], block_dim=32, device="cpu")
    np.testing.assert_array_equal(key.numpy().reshape(3, count), np.sort(keys, axis=1))
    np.testing.assert_array_equal(value.numpy().reshape(3, count), np.argsort(keys, axis=1))


# --- surface ---------------------------------------------------------------------------------------------------


def ball_on_ground():
    b = builder()
    b.add_ground_plane(cfg=material(gap=0.01))
    add_ball(b, (0.0, 0.0, 0.1), cfg=material(gap=0.01))
    return b.finalize(device="cpu")


def test_views_share_memory():
    """Contacts, model and fp32 states are views; a change through either side is seen by both."""
    model = ball_on_ground()
    collision_model = sap_warp.SapCollisionModel(model)
    assert collision_model.shape_gap is model.shape_gap
    assert collision_model.shape_labels == list(model.shape_label)
    assert sap_warp.SapCollisionModel(sap_warp.SapModel(model)).newton_model is model
    contacts = SapCollisionPipeline(collision_model).contacts()
    assert contacts.rigid_contact_normal is contacts.newton_contacts.rigid_contact_normal
    assert sap_warp.sap_contacts_from_newton(contacts.newton_contacts).rigid_contact_max == contacts.rigid_contact_max
    assert "rigid_contact_point0" in dir(contacts)
    state = model.state()
    assert sap_collision_state_from_state(state).body_q is state.body_q
    single = sap_warp.SapModel(model).state()
    assert sap_collision_state_from_state(single).body_q is single.body_q
    assert collision_model.state().body_q.ptr != model.body_q.ptr


def test_all_kinds_of_state_give_the_same_contacts():
    """newton.State, SapState in both precisions and SapCollisionState."""
    model = ball_on_ground()
    sap_model, pipeline = sap_warp.SapModel(model), SapCollisionPipeline(model)
    found = []
    for state in (
        model.state(),
        sap_model.state(),
        sap_model.state("fp64"),
        sap_warp.SapCollisionModel(model).state(),
    ):
        contacts = pipeline.contacts()
        pipeline.collide(state, contacts)
        found.append(contacts.rigid_contact_point1.numpy()[:1].tobytes())
        assert pipeline.last_contact_count == 1
    assert len(set(found)) == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_collide_allocates_nothing(mode, precision, rng):
    """After the first call there is no device allocation, in any mode and precision."""
    model = pile(rng, worlds=2)
    pipeline = SapCollisionPipeline(model, broad_phase=mode, deterministic=True)
    contacts, state = pipeline.contacts(), sap_warp.SapModel(model).state(precision)
    pipeline.collide(sap_collision_state_from_state(state), contacts)
    assert allocations(lambda: pipeline.collide(sap_collision_state_from_state(state), contacts)) == 0


def test_margin_and_gap_may_change_between_passes():
    """Margins and gaps are read by every pass."""
    model = ball_on_ground()
    pipeline = SapCollisionPipeline(model)
    contacts = pipeline.contacts()
    state = model.state()
    state.body_q.assign(np.array([[0.0, 0.0, 0.13, 0.0, 0.0, 0.0, 1.0]], dtype=np.float32))
    counts = []
    for gap in (0.01, 0.02, 0.01):
        model.shape_gap.fill_(gap)
        pipeline.collide(state, contacts)
        counts.append(pipeline.last_contact_count)
    assert counts == [0, 1, 0]


def test_broad_phase_names():
    """Case does not matter, an enum member counts by its name, anything else is refused with the choices."""

    class Old(enum.Enum):
        SAP = 1

    normalize = sap_warp.sap_normalize_broad_phase_mode
    assert [normalize(m) for m in ("explicit", "SAP", " NxN ", Old.SAP)] == ["explicit", "sap", "nxn", "sap"]
    with pytest.raises(ValueError, match="'explicit', 'sap', 'nxn'"):
        normalize("bvh")
    with pytest.raises(TypeError, match="'explicit', 'sap', 'nxn'"):
        normalize(3)
    model = ball_on_ground()
    assert SapCollisionPipeline(model).broad_phase_mode == "explicit"
    model.shape_contact_pairs = None
    assert SapCollisionPipeline(model).broad_phase_mode == "sap"
    with pytest.raises(ValueError, match="shape_contact_pairs"):
        SapCollisionPipeline(model, broad_phase="explicit")


def test_expert_instances_come_together():
    """One instance without the other is refused; both are used, and given back as they were."""
    model = ball_on_ground()
    own = newton.CollisionPipeline(model, broad_phase="explicit")
    with pytest.raises(ValueError, match="narrow_phase is not"):
        SapCollisionPipeline(model, broad_phase=BroadPhaseExplicit())
    with pytest.raises(ValueError, match="broad_phase is not"):
        SapCollisionPipeline(model, narrow_phase=own.narrow_phase)
    with pytest.raises(ValueError, match="broad_phase is not"):
        SapCollisionPipeline(model, broad_phase="sap", narrow_phase=own.narrow_phase)
    assert isinstance(own.narrow_phase, NarrowPhase)
    threads = own.narrow_phase.total_num_threads
    pipeline = SapCollisionPipeline(model, broad_phase=own.broad_phase, narrow_phase=own.narrow_phase)
    assert pipeline.newton_pipeline.narrow_phase.total_num_threads == threads
    contacts = pipeline.contacts()
    pipeline.collide(model.state(), contacts)
    assert pipeline.last_contact_count == 1


def test_wrong_arguments_are_refused():
    """Types, lengths and options are checked where they are given."""
    model = ball_on_ground()
    pipeline = SapCollisionPipeline(model)
    contacts, state = pipeline.contacts(), model.state()
    with pytest.raises(TypeError, match=r"newton\.Model"):
        SapCollisionPipeline(3)
    with pytest.raises(TypeError, match=r"newton\.Contacts"):
        pipeline.collide(state, None)
    with pytest.raises(TypeError, match="SapState"):
        pipeline.collide(None, contacts)
    with pytest.raises(TypeError, match=r"newton\.Contacts"):
        sap_warp.sap_contacts_from_newton(contacts)
    with pytest.raises(ValueError, match="body_q has shape"):
        pipeline.collide(sap_warp.SapCollisionState(wp.zeros(3, dtype=wp.transformf, device="cpu")), contacts)
    with pytest.raises(TypeError, match="body_q has dtype"):
        pipeline.collide(sap_warp.SapCollisionState(wp.zeros(1, dtype=wp.transformd, device="cpu")), contacts)
    with pytest.raises(ValueError, match="'raise', 'warn'"):
        SapCollisionPipeline(model, unsupported_pairs="ignore")
    with pytest.raises(TypeError, match="unexpected keyword"):
        SapCollisionPipeline(model, rigid_contact_maximum=3)


def test_a_model_without_pairs_has_no_contacts():
    """One body alone, in every mode."""
    b = builder()
    add_ball(b, (0.0, 0.0, 0.1))
    for mode in MODES:
        assert len(detect(b.finalize(device="cpu"), broad_phase=mode)["phi0"]) == 0


# --- unsupported pairs -----------------------------------------------------------------------------------------


def plate_and_mesh(**plate):
    b = builder()
    b.add_shape_plane(body=-1, width=2.0, length=2.0, cfg=newton.ModelBuilder.ShapeConfig(**plate), label="table")
    body = b.add_body(label="robot")
    b.add_shape_mesh(body, mesh=newton.Mesh.create_box(0.2, 0.2, 0.2), label="foot")
    return b


@pytest.mark.parametrize("mode", MODES)
def test_unsupported_pairs_are_reported_by_label(mode):
    """A mesh on a finite plane would fall through: the pipeline refuses it, or warns and remembers."""
    model = plate_and_mesh().finalize(device="cpu")
    with pytest.raises(ValueError, match=r"'table' and 'foot' \(finite plane / mesh\)"):
        SapCollisionPipeline(model, broad_phase=mode)
    with pytest.warns(RuntimeWarning, match="'table' and 'foot'"):
        pipeline = SapCollisionPipeline(model, broad_phase=mode, unsupported_pairs="warn")
    assert [(p.label0, p.label1) for p in pipeline.unsupported_pairs] == [("table", "foot")]


def heightfield(b, label):
    data = np.zeros((4, 4), dtype=np.float32)
    b.add_shape_heightfield(
        heightfield=newton.Heightfield(data=data, nrow=4, ncol=4, hx=1.0, hy=1.0, min_z=0.0, max_z=0.0), label=label
    )


def test_every_unsupported_pairing_is_known():
    """Planes without extent meet neither each other nor heightfields; finite ones no meshes of either kind."""
    b = builder()
    b.add_shape_plane(body=-1, width=2.0, length=2.0, label="plate")
    heightfield(b, "terrain")
    for name in ("plane_a", "plane_b"):
        b.add_shape_plane(body=b.add_body(mass=1.0, inertia=wp.mat33(np.eye(3))), width=0.0, length=0.0, label=name)
    mesh = newton.Mesh.create_box(0.2, 0.2, 0.2)
    b.add_shape_mesh(b.add_body(), mesh=mesh, label="mesh")
    b.add_shape_convex_hull(b.add_body(), mesh=mesh, label="hull")
    add_box(b, (0.0, 0.0, 0.0))
    model = b.finalize(device="cpu")
    expected = {
        frozenset(pair)
        for pair in (
            ("plane_a", "plane_b"),
            ("plane_a", "terrain"),
            ("plane_b", "terrain"),
            ("plate", "mesh"),
            ("plate", "hull"),
        )
    }
    for mode in MODES:
        with pytest.warns(RuntimeWarning, match="does not handle 5"):
            pipeline = SapCollisionPipeline(model, broad_phase=mode, unsupported_pairs="warn")
        assert {frozenset((p.label0, p.label1)) for p in pipeline.unsupported_pairs} == expected


@pytest.mark.parametrize("mode", MODES)
def test_unsupported_pairs_that_cannot_meet_are_no_problem(mode):
    """Filtered, in other groups or without the flag; two static planes neither."""
    filtered = plate_and_mesh()
    filtered.add_shape_collision_filter_pair(0, 1)
    for b in (filtered, plate_and_mesh(collision_group=2), plate_and_mesh(has_shape_collision=False)):
        b.add_ground_plane()
        b.add_ground_plane()
        assert SapCollisionPipeline(b.finalize(device="cpu"), broad_phase=mode).unsupported_pairs == []


def test_quaternion_convention_of_this_file():
    """`rotate` agrees with Warp."""
    q = np.array([0.1, 0.2, 0.3, 0.9])
    q /= np.linalg.norm(q)
    v = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(rotate(q, v), np.array(wp.quat_rotate(wp.quatd(*q), wp.vec3d(*v))), rtol=1e-12)


def test_kernels_compile_for_cuda(tmp_path):
    """NVRTC builds every kernel module of the package."""
    from sap_warp.collision import newton_compat, state
    from sap_warp.collision.buffers import counts, overflow
    from sap_warp.collision.repair.normals import repair_all
    from sap_warp.core.kernels.template import Variant

    repairs = [repair_all.of(Variant(has_triangles=has)).module for has in (False, True)]
    modules = (counts, newton_compat, overflow, state, *repairs)
    for module in modules:
        wp.compile_aot_module(module, arch=[80], module_dir=tmp_path, use_ptx=True)
    assert len(list(tmp_path.glob("*.ptx"))) == len(modules)


def test_unreliable_ellipsoid_pairs_are_warned_about():
    """Newton 1.7 may lose contacts of overlapping ellipsoids: said when the pipeline is built, by label."""
    for broad_phase in ("explicit", "nxn"):
        builder = newton.ModelBuilder()
        builder.add_shape_ellipsoid(builder.add_body(), rx=0.1, ry=0.2, rz=0.1, label="egg")
        builder.add_shape_box(builder.add_body(), hx=0.1, hy=0.1, hz=0.1, label="crate")
        with pytest.warns(RuntimeWarning, match=r"'egg' and 'crate' \(ellipsoid / box\)"):
            SapCollisionPipeline(builder.finalize(device="cpu"), broad_phase=broad_phase)
    builder = newton.ModelBuilder()
    builder.add_shape_ellipsoid(builder.add_body(), rx=0.1, ry=0.2, rz=0.1)
    builder.add_ground_plane()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SapCollisionPipeline(builder.finalize(device="cpu"))
