"""Capacity of the contact buffer: bounds, counts, reports, and reproducible content on many random piles."""

import warnings

import newton
import numpy as np
import pytest
import warp as wp

import sap_warp
from sap_warp import ContactCapacityError, SapCollisionPipeline, sap_estimate_rigid_contact_max
from tests.support.scenes import add_ball, builder, material

MODES = ("explicit", "sap", "nxn")
GUARD = 32
"""Cells in front of and behind every array of a guarded buffer."""
FILL = 0x5A
WRITTEN = [
    *(f"rigid_contact_{name}{side}" for name in ("shape", "point", "offset", "margin") for side in "01"),
    "rigid_contact_normal",
    "rigid_contact_tids",
]
"""Arrays that a pass writes."""


def guarded(contacts):
    """Put every written array of ``contacts`` in the middle of a larger one; returns those."""
    whole = {}
    for name in WRITTEN:
        array = getattr(contacts, name)
        size = array.shape[0] + 2 * GUARD
        large = wp.empty(size, dtype=array.dtype, device="cpu")
        large.numpy().view(np.uint8)[:] = FILL
        whole[name] = large
        setattr(contacts, name, large[GUARD : size - GUARD])
    return whole


def assert_guards_intact(whole):
    for name, large in whole.items():
        content = large.numpy()
        for guard in (content[:GUARD], content[-GUARD:]):
            assert (np.ascontiguousarray(guard).view(np.uint8) == FILL).all(), f"{name} was written out of bounds"


def buffer_bytes(contacts, count):
    """The valid part of the buffer, byte by byte."""
    return b"".join(np.ascontiguousarray(getattr(contacts, name).numpy()[:count]).tobytes() for name in WRITTEN)


def piles(worlds, rng):
    """Eight mixed shapes per world above a shared ground."""
    world = builder()
    cfg = newton.ModelBuilder.ShapeConfig(gap=0.005, density=500.0)
    for i in range(8):
        body = world.add_body(xform=wp.transform((0.0, 0.0, 0.5 + 0.5 * i)))
        if i % 4 == 0:
            world.add_shape_sphere(body, radius=0.15, cfg=cfg)
        elif i % 4 == 1:
            world.add_shape_box(body, hx=0.2, hy=0.1, hz=0.15, cfg=cfg)
        elif i % 4 == 2:
            world.add_shape_capsule(body, radius=0.1, half_height=0.15, cfg=cfg)
        else:
            world.add_shape_cylinder(body, radius=0.12, half_height=0.1, cfg=cfg)
    b = builder()
    b.replicate(world, worlds)
    b.add_ground_plane(cfg=cfg)
    return b.finalize(device="cpu")


def random_poses(count, rng, spread=0.3):
    """Poses of piles that overlap each other and the ground."""
    q = rng.normal(size=(count, 4))
    position = np.column_stack([rng.uniform(-spread, spread, (count, 2)), rng.uniform(-0.05, 2.0 * spread, count)])
    return np.column_stack([position, q / np.linalg.norm(q, axis=1, keepdims=True)]).astype(np.float32)


@pytest.mark.parametrize(("capacity", "deterministic"), [(12000, True), (1500, True), (1500, False)])
def test_ten_thousand_random_piles(capacity, deterministic, rng):
    """100 worlds, 100 poses each: finite, bounded, guard cells intact, and the same bits from two pipelines."""
    model = piles(100, rng)
    options = {"rigid_contact_max": capacity, "deterministic": deterministic}
    first, second = SapCollisionPipeline(model, **options), SapCollisionPipeline(model, **options)
    contacts, again = first.contacts(), second.contacts()
    whole, state = guarded(contacts), model.state()
    first.collide(state, contacts)
    with wp.ScopedCapture(device="cpu") as capture:
        first.collide(state, contacts)
    dropped = 0
    for trial in range(100):
        state.body_q.assign(random_poses(model.body_count, rng))
        wp.capture_launch(capture.graph)
        needed = int(contacts.rigid_contact_count.numpy()[0])
        kept = min(needed, capacity)
        dropped += needed - kept
        assert kept > 1000
        for name in WRITTEN:
            assert np.isfinite(getattr(contacts, name).numpy()[:kept]).all()
        length = np.linalg.norm(contacts.rigid_contact_normal.numpy()[:kept], axis=1)
        np.testing.assert_allclose(length, 1.0, atol=1e-5)
        assert_guards_intact(whole)
        if trial % 10 == 0:
            second.collide(state, again)
            assert buffer_bytes(contacts, kept) == buffer_bytes(again, kept)
    assert (dropped > 0) == (capacity == 1500)
    if capacity == 1500:
        with pytest.warns(RuntimeWarning, match="rigid_contact_max"):
            assert first.last_contact_count == capacity
    else:
        assert first.last_contact_count == needed


def row_of_balls(count=10):
    """Balls side by side on the ground: one contact each."""
    b = builder()
    b.add_ground_plane(cfg=material(gap=0.01))
    for i in range(count):
        add_ball(b, (0.5 * i, 0.0, 0.1), cfg=material(gap=0.01))
    return b.finalize(device="cpu")


@pytest.mark.parametrize("mode", MODES)
def test_overflow_is_counted_and_warned_about_once(mode):
    """The counts say what was kept and dropped; the one warning names the number to set."""
    model = row_of_balls()
    pipeline = SapCollisionPipeline(model, rigid_contact_max=4, broad_phase=mode)
    contacts, state = pipeline.contacts(), model.state()
    for _ in range(3):
        pipeline.collide(state, contacts)
    with pytest.warns(RuntimeWarning, match=r"found 10 contacts and dropped 6.*rigid_contact_max=10") as seen:
        assert pipeline.last_overflow == 6
    assert len(seen) == 1
    assert seen[0].filename == __file__, "the warning points at the caller"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline.collide(state, contacts)
        assert pipeline.last_contact_count == 4
        assert pipeline.peak_contact_count == 10
        pipeline.check()


def test_overflow_between_two_looks_is_not_forgotten():
    """The host looks late, when nothing overflows any more, and is told all the same."""
    model = row_of_balls()
    pipeline = SapCollisionPipeline(model, rigid_contact_max=4)
    contacts, state = pipeline.contacts(), model.state()
    pipeline.collide(state, contacts)
    pose = state.body_q.numpy()
    pose[2:, 2] = 5.0
    state.body_q.assign(pose)
    pipeline.collide(state, contacts)
    with pytest.warns(RuntimeWarning, match="rigid_contact_max=10"):
        pipeline.check()
    assert (pipeline.last_contact_count, pipeline.last_overflow, pipeline.peak_contact_count) == (2, 0, 10)
    pipeline.clear_statistics()
    pipeline.collide(state, contacts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pipeline.peak_contact_count == 2


@pytest.mark.parametrize("look", ["last_contact_count", "last_overflow", "peak_contact_count", "check"])
def test_strict_capacity_raises_at_the_next_look(look):
    """Never in collide, also when replayed; until the statistics are cleared."""
    model = row_of_balls()
    pipeline = SapCollisionPipeline(model, rigid_contact_max=4, strict_capacity=True)
    contacts, state = pipeline.contacts(), model.state()
    pipeline.collide(state, contacts)
    with wp.ScopedCapture(device="cpu") as capture:
        pipeline.collide(state, contacts)
    wp.capture_launch(capture.graph)

    def ask():
        value = getattr(pipeline, look)
        return value() if callable(value) else value

    for _ in range(2):
        with pytest.raises(ContactCapacityError, match="rigid_contact_max=10"):
            ask()
    pipeline.clear_statistics()
    ask()


def test_a_full_buffer_is_no_overflow():
    """Exactly as many contacts as places."""
    model = row_of_balls()
    pipeline = SapCollisionPipeline(model, rigid_contact_max=10, strict_capacity=True)
    contacts = pipeline.contacts()
    pipeline.collide(model.state(), contacts)
    assert (pipeline.last_contact_count, pipeline.last_overflow) == (10, 0)


def test_dropped_contacts_reach_the_solver():
    """`solver.last_truncated_contact_count` counts what the buffer could not hold."""
    model = row_of_balls()
    pipeline, solver = SapCollisionPipeline(model, rigid_contact_max=4), sap_warp.SolverSAP(model)
    contacts, state = pipeline.contacts(), model.state()
    pipeline.collide(state, contacts)
    solver.step(state, state, None, contacts, 0.005)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the solver warns too; that is its own test
        assert (solver.last_contact_count, solver.last_truncated_contact_count) == (4, 6)
    assert np.isfinite(state.body_q.numpy()).all()


@pytest.mark.parametrize("mode", ["sap", "nxn"])
def test_lost_shape_pairs_are_reported(mode):
    """A candidate buffer that is too small drops pairs without writing beyond it, and says so."""
    model = row_of_balls()
    pipeline = SapCollisionPipeline(model, broad_phase=mode, shape_pairs_max=3, rigid_contact_max=20)
    contacts = pipeline.contacts()
    pipeline.collide(model.state(), contacts)
    with pytest.warns(RuntimeWarning, match="shape_pairs_max=10"):
        assert pipeline.last_contact_count == 3


def test_overflow_of_one_buffer_leaves_another_alone():
    """Two buffers of one pipeline do not share memory."""
    model = row_of_balls()
    pipeline = SapCollisionPipeline(model, rigid_contact_max=4)
    first, second = pipeline.contacts(), pipeline.contacts()
    before = buffer_bytes(second, 4)
    pipeline.collide(model.state(), first)
    assert buffer_bytes(second, 4) == before


@pytest.mark.parametrize(("value", "error"), [(0, ValueError), (-3, ValueError), (2.5, TypeError), (True, TypeError)])
def test_capacity_must_be_a_positive_whole_number(value, error):
    """Nothing is repaired silently."""
    with pytest.raises(error, match="rigid_contact_max"):
        SapCollisionPipeline(row_of_balls(2), rigid_contact_max=value)


def test_estimate_suffices_and_grows_with_the_worlds(rng):
    """The default capacity holds random piles, and is linear in the number of worlds."""
    one, many = (sap_estimate_rigid_contact_max(piles(worlds, rng)) for worlds in (1, 20))
    assert many == 20 * one
    model = piles(20, rng)
    pipeline = SapCollisionPipeline(model, strict_capacity=True)
    assert pipeline.rigid_contact_max == many
    contacts, state = pipeline.contacts(), model.state()
    for _ in range(20):
        state.body_q.assign(random_poses(model.body_count, rng, spread=0.15))
        pipeline.collide(state, contacts)
    assert pipeline.last_overflow == 0
    assert sap_estimate_rigid_contact_max(sap_warp.SapCollisionModel(model)) == many
    model.shape_contact_pairs = None
    assert sap_estimate_rigid_contact_max(model) >= pipeline.peak_contact_count
