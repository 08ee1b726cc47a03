"""Pairs that are left out because their bodies have not travelled far enough never miss a contact."""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp.collision import SapCollisionPipeline
from tests.collision.test_support_faces import mesh_of
from tests.support.contact_rows import INDICES, NUMBERS, turns

GAP = 0.01
BODIES = 8


@pytest.fixture
def rng():
    return np.random.default_rng(29)


@pytest.fixture
def model(rng):
    """Boxes, hulls, capsules, balls and a barrel, some bodies with two shapes off their origins, a wall and ground."""
    world = newton.ModelBuilder()
    world.rigid_gap = GAP
    block = newton.Mesh.create_box(0.05, 0.03, 0.04, compute_inertia=False)
    points = rng.normal(size=(60, 3))
    pebble = mesh_of(0.05 * points / np.linalg.norm(points, axis=1, keepdims=True) * (1.0, 1.0, 0.5))
    for i in range(BODIES):
        body = world.add_body()
        pose = wp.transform(rng.uniform(-0.05, 0.05, 3).tolist(), turns(rng, 1)[0].tolist())
        if i % 2:
            world.add_shape_box(body, xform=pose, hx=0.05, hy=0.03, hz=0.02)
        else:
            world.add_shape_convex_hull(body, xform=pose, mesh=block if i % 4 else pebble)
        if i % 4 == 0:
            world.add_shape_capsule(body, radius=0.03, half_height=0.05)
        if i % 4 == 1:
            world.add_shape_sphere(body, radius=0.04)
        if i == 3:
            world.add_shape_cylinder(body, radius=0.03, half_height=0.04)
    world.add_shape_box(-1, xform=wp.transform((0.4, 0.0, 0.0), wp.quat_identity()), hx=0.02, hy=0.5, hz=0.5)
    builder = newton.ModelBuilder()
    builder.rigid_gap = GAP
    builder.replicate(world, 2)
    builder.add_ground_plane(height=-0.25)
    return builder.finalize(device="cpu")


class Detection:
    """A pipeline with its buffer."""

    def __init__(self, model):
        self.state = model.state()
        self.pipeline = SapCollisionPipeline(model, rigid_contact_max=2000)
        self.contacts = self.pipeline.contacts()
        assert self.pipeline.path.name == "listed"
        path = self.pipeline._path
        self.travel, self.support_faces, self.ground = (
            path._travel.struct,
            path._hulls.struct.support_faces,
            path._ground._travel,
        )

    def rows(self, poses, same_shapes=False):
        """The contacts at ``poses``, all that the buffer says of them."""
        self.state.body_q.assign(poses)
        self.pipeline.collide(self.state, self.contacts, same_shapes=same_shapes)
        buffer = self.contacts.newton_contacts
        count = int(buffer.rigid_contact_count.numpy()[0])
        return {name: getattr(buffer, f"rigid_contact_{name}").numpy()[:count].copy() for name in (*INDICES, *NUMBERS)}

    def forget(self):
        """Look at all pairs in the next pass."""
        self.travel.body_test_at.fill_(-1.0)
        self.travel.shape_test_at.fill_(-1.0)
        self.ground["next_test_at"].fill_(-1.0)
        self.support_faces.direction.fill_(-1)
        self.support_faces.touched.zero_()

    def looked_at(self):
        """Pairs of shapes that the last pass looked at closely."""
        return int(self.pipeline._path._candidates.struct.near_count.numpy()[0])

    def high_above_ground(self):
        """Pairs with the ground that the next pass leaves out if nothing moves."""
        owner, travelled, next_test_at = (self.ground[name].numpy() for name in ("owner", "travelled", "next_test_at"))
        return int((travelled[owner] < next_test_at).sum())


def random_poses(rng, count, spread=0.3):
    return np.hstack([rng.uniform(-spread, spread, (count, 3)), turns(rng, count)]).astype(np.float32)


def moved(rng, poses, step, turn):
    """The same bodies a little further, in directions of their own."""
    poses = poses + rng.normal(size=poses.shape) * np.array([step] * 3 + [turn] * 4)
    poses[:, 3:] /= np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
    return poses.astype(np.float32)


def placed(pose, points):
    """Points in the frame of a body, in world frame."""
    at, axis, w = pose[:3], pose[3:6], pose[6]
    half = np.cross(axis, points)
    return at + points + 2.0 * (w * half + np.cross(axis, half))


def check_same(ours, others):
    for name, values in others.items():
        np.testing.assert_array_equal(ours[name], values, err_msg=name)


@pytest.mark.parametrize("same_shapes", [False, True])
def test_contacts_are_those_of_a_pass_that_looks_at_all_pairs(model, rng, same_shapes):
    """Along steady motions, fast and slow, after jumps, and after poses that are none: to the last bit."""
    remembering, forgetful = Detection(model), Detection(model)
    poses = random_poses(rng, model.body_count)
    start, rows, looked_at, apart = poses, [], np.zeros(2), 0
    for k in range(240):
        if k % 60 == 59:
            poses = random_poses(rng, model.body_count)
        elif k == 100:
            poses = start
        else:
            drift = np.zeros_like(poses)
            drift[:, :3] = -0.01 * poses[:, :3] * (k % 3)  # towards each other, and at rest in between
            poses = moved(rng, poses + drift, *((0.002, 0.01) if k % 60 < 30 else (1e-5, 1e-5)))
        now = poses.copy()
        if k in (70, 71):
            now[3] = np.nan
            poses[3] = poses[6]  # it comes back in another body
        forgetful.forget()
        ours, others = remembering.rows(now, same_shapes and k > 0), forgetful.rows(now)
        check_same(ours, others)
        apart += remembering.high_above_ground()
        rows.append(len(ours["shape0"]))
        looked_at += remembering.looked_at(), forgetful.looked_at()
    assert max(rows) > 20
    assert len(set(rows)) > 20, "contacts come and go"
    assert apart > 1000, "so are shapes high above the ground"
    assert looked_at[0] < 0.8 * looked_at[1], "most pairs near each other are left out while they are apart"


def test_a_body_makes_at_least_the_way_of_each_of_its_points(model, rng):
    """The sum over passes bounds the displacement of all points of all shapes, however the body has turned."""
    detection = Detection(model)
    bodies = detection.pipeline._path._bodies.struct.body.numpy()
    moving = bodies >= 0
    poses = random_poses(rng, model.body_count)
    detection.rows(poses)
    start, before = poses, detection.travel.travelled.numpy().copy()
    reach = detection.travel.reach.numpy()
    for _ in range(12):
        poses = moved(rng, poses, 1e-3, 0.05)
        detection.rows(poses)
    way = (detection.travel.travelled.numpy() - before)[moving]
    rays = rng.normal(size=(200, 3))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    for i, body in enumerate(bodies[moving]):
        points = reach[moving][i] * rays
        ends = [placed(pose[body].astype(float), points) for pose in (start, poses)]
        longest = np.linalg.norm(ends[1] - ends[0], axis=1).max()
        assert 0.0 < longest <= way[i] + 1e-6
    assert (way < 90.0).all(), "small steps are no jumps"
    assert (detection.travel.travelled.numpy()[~moving] == before[~moving]).all(), "fixtures stay where they are"


@pytest.mark.parametrize("name", ["shape_scale", "shape_transform", "shape_gap", "shape_margin"])
def test_a_changed_shape_is_looked_at_at_once(model, rng, name):
    """Pairs that were far apart meet when a shape is scaled, moved or given a skin, with all bodies at rest."""
    detection = Detection(model)
    poses = random_poses(rng, model.body_count, 0.2)
    poses[:, 0] += 0.4 * (np.arange(len(poses)) % BODIES)
    few = detection.rows(poses)
    detection.rows(poses)
    array = getattr(model, name)
    values = array.numpy()
    box = np.flatnonzero(model.shape_type.numpy() == int(newton.GeoType.BOX))
    if name == "shape_scale":
        values[box] *= 20.0
    elif name == "shape_transform":
        owner = wp.transform(*poses[model.shape_body.numpy()[box[0]]])
        values[box[0], :3] = wp.transform_point(wp.transform_inverse(owner), wp.vec3(*poses[6, :3]))
    else:
        values[box] += 0.3
    array.assign(values)
    many = detection.rows(poses)
    check_same(many, Detection(model).rows(poses))
    assert len(many["shape0"]) != len(few["shape0"])
