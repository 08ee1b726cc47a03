"""A pass that finds more contacts than the buffer holds: who loses which, who is told, and what stays untouched."""

import warnings

import newton
import numpy as np
import pytest
import warp as wp
from newton.geometry import BroadPhaseExplicit, BroadPhaseSAP

import sap_warp
from sap_warp import ContactCapacityError, SapCollisionPipeline
from sap_warp.collision import paths
from sap_warp.collision.buffers.overflow import LARGER_FACTOR, LARGER_FREE, Grid, Overflow, larger_capacity
from sap_warp.collision.buffers.records import CapacityRecord
from sap_warp.collision.finish_pass import PassFinisher, finish_pass
from sap_warp.collision.newton_compat import AdaptedPipeline
from sap_warp.core.kernels.template import Variant
from tests.support.scenes import add_ball, add_box, allocations, builder, material

MODES = ("explicit", "sap", "nxn")
WORLDS, CROWDED, CROWD, SHARE = 8, 3, 40, 4
DT = 0.005
ROWS = [
    *(f"rigid_contact_{name}{side}" for name in ("shape", "point", "offset", "margin") for side in "01"),
    "rigid_contact_normal",
    "rigid_contact_tids",
]


def crowded_model(seed=5):
    """Seven worlds with a box on the ground, four contacts each, and one with forty balls, all differently deep."""
    rng = np.random.default_rng(seed)
    b = builder()
    for world in range(WORLDS):
        b.begin_world()
        if world == CROWDED:
            for i, depth in enumerate(rng.permutation(CROWD) * 1e-4):
                add_ball(b, (0.5 * i, 0.0, 0.1 - depth), cfg=material(gap=0.01))
        else:
            add_box(b, (0.1 * world, 0.0, 0.1 - 1e-4 * world), cfg=material(gap=0.01))
        b.end_world()
    b.add_ground_plane(cfg=material(gap=0.01))
    return b.finalize(device="cpu")


@pytest.fixture(scope="module")
def model():
    return crowded_model()


def rows_by_world(model, contacts):
    """For every world the bytes of its rows, one entry per contact, in buffer order."""
    count = min(int(contacts.rigid_contact_count.numpy()[0]), contacts.rigid_contact_max)
    arrays = [np.ascontiguousarray(getattr(contacts, name).numpy()[:count]) for name in ROWS]
    shapes = np.stack(arrays[:2])
    world = np.where(shapes >= 0, model.shape_world.numpy()[shapes], -1).max(axis=0)
    rows = [b"".join(a[i].tobytes() for a in arrays) for i in range(count)]
    return {w: [row for row, owner in zip(rows, world, strict=True) if owner == w] for w in np.unique(world)}


def depths(model, contacts):
    """Depth of the balls' contacts with the plane z = 0 [m], by body: radius minus height."""
    count = min(int(contacts.rigid_contact_count.numpy()[0]), contacts.rigid_contact_max)
    shapes = np.stack([contacts.rigid_contact_shape0.numpy()[:count], contacts.rigid_contact_shape1.numpy()[:count]])
    bodies = model.shape_body.numpy()[shapes].max(axis=0)
    return {int(b): 0.1 - float(model.body_q.numpy()[b, 2]) for b in bodies if model.body_world.numpy()[b] == CROWDED}


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_crowded_world_takes_nothing_from_the_others(model, mode, deterministic):
    """Room for four contacts per world: seven worlds keep theirs, bit for bit; the eighth its four deepest of forty."""
    options = {"broad_phase": mode, "deterministic": deterministic}
    tight = SapCollisionPipeline(model, rigid_contact_max=WORLDS * SHARE, **options)
    assert model.rigid_contact_max == WORLDS * SHARE, "contact observables have the size of the caller's buffer"
    roomy = SapCollisionPipeline(model, **options)
    few, all_ = tight.contacts(), roomy.contacts()
    tight.collide(model.state(), few)
    roomy.collide(model.state(), all_)
    assert int(few.rigid_contact_count.numpy()[0]) == CROWD + (WORLDS - 1) * 4
    expected, kept = rows_by_world(model, all_), rows_by_world(model, few)
    for world in range(WORLDS):
        if world != CROWDED:
            assert len(kept[world]) == 4
            assert kept[world] == expected[world]
    assert len(kept[CROWDED]) == SHARE
    places = [expected[CROWDED].index(row) for row in kept[CROWDED]]
    assert places == sorted(places), "what stays keeps its order"
    np.testing.assert_allclose(sorted(depths(model, few).values()), np.arange(CROWD - SHARE, CROWD) * 1e-4, atol=1e-6)


def run(model, capacity, steps):
    """Replayed steps; joint_q of every world at each of them, and the objects."""
    pipeline = SapCollisionPipeline(model, rigid_contact_max=capacity)
    solver = sap_warp.SolverSAP(model, max_rigid_contact=CROWD)
    contacts, state, trace = pipeline.contacts(), model.state(), []

    def step():
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, DT)

    step()
    with wp.ScopedCapture(device="cpu") as capture:
        step()
    for _ in range(steps):
        wp.capture_launch(capture.graph)
        trace.append(state.joint_q.numpy().copy())
    return np.array(trace), solver, pipeline


def test_other_worlds_move_as_with_a_large_buffer(model):
    """Forty replayed steps, bitwise; the crowded world, short of 36 contacts, does not move as with all of them."""
    tight, solver, _ = run(model, WORLDS * SHARE, 40)
    roomy, _, _ = run(model, None, 40)
    start = model.joint_q_start.numpy()[:-1]
    world = np.repeat(model.joint_world.numpy(), np.diff(np.append(start, model.joint_coord_count)))
    np.testing.assert_array_equal(tight[:, world != CROWDED], roomy[:, world != CROWDED])
    assert np.abs(tight[:, world == CROWDED] - roomy[:, world == CROWDED]).max() > 1e-3
    assert np.isfinite(tight).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert solver.last_truncated_contact_count > 0


def test_pipeline_and_solver_name_the_world_and_the_number_once(model):
    """68 contacts, 32 places, all 36 lost in world 3 in each of 3 steps; each of the two says so once."""
    pipeline = SapCollisionPipeline(model, rigid_contact_max=WORLDS * SHARE)
    solver = sap_warp.SolverSAP(model, max_rigid_contact=CROWD)
    contacts, state, after = pipeline.contacts(), model.state(), model.state()
    for _ in range(3):
        pipeline.collide(state, contacts)
        solver.step(state, after, None, contacts, DT)
    with pytest.warns(RuntimeWarning, match=r"found 68 .* dropped 36, in world 3\. Set rigid_contact_max=68 ") as seen:
        assert pipeline.last_overflow == 36
    assert len(seen) == 1
    with pytest.warns(UserWarning, match=r"108 contacts more .* dropped them in world 3; .* rigid_contact_max to 68 "):
        assert solver.last_truncated_contact_count == 36
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline.collide(state, contacts)
        solver.step(state, after, None, contacts, DT)
        assert (pipeline.last_overflow, pipeline.last_contact_count) == (36, 32)
        assert (solver.last_truncated_contact_count, solver.last_contact_count) == (36, 32)
    enough = SapCollisionPipeline(model, rigid_contact_max=68, strict_capacity=True)
    contacts = enough.contacts()
    enough.collide(state, contacts)
    assert enough.last_overflow == 0


def test_strict_capacity_names_the_world(model):
    """Both raise at the next look; the pass and the step do not."""
    pipeline = SapCollisionPipeline(model, rigid_contact_max=WORLDS * SHARE, strict_capacity=True)
    solver = sap_warp.SolverSAP(model, max_rigid_contact=CROWD, strict_capacity=True)
    contacts, state = pipeline.contacts(), model.state()
    pipeline.collide(state, contacts)
    solver.step(state, state, None, contacts, DT)
    with pytest.raises(ContactCapacityError, match=r"world 3\..*rigid_contact_max=68"):
        pipeline.check()
    with pytest.raises(ContactCapacityError, match="world 3;"):
        _ = solver.last_contact_count
    pipeline.clear_statistics()
    pipeline.check()


def test_overflow_allocates_nothing(model):
    """The larger buffer and the tables are made with the pipeline."""
    pipeline = SapCollisionPipeline(model, rigid_contact_max=WORLDS * SHARE)
    contacts, state = pipeline.contacts(), model.state()
    pipeline.collide(state, contacts)
    assert allocations(lambda: pipeline.collide(state, contacts)) == 0


def test_a_sufficient_buffer_costs_nothing(model, monkeypatch):
    """With as much room as the shapes are estimated to need there is no second buffer and nothing to select."""
    launched = []
    launch = wp.launch
    monkeypatch.setattr(wp, "launch", lambda kernel, **options: (launched.append(kernel), launch(kernel, **options)))
    state = model.state()
    for capacity, selects in ((None, False), (WORLDS * SHARE, True)):
        pipeline = SapCollisionPipeline(model, rigid_contact_max=capacity)
        contacts = pipeline.contacts()
        launched.clear()
        pipeline.collide(state, contacts)
        assert launched[-1] is finish_pass.of(Variant(selects=selects, own_search=True, has_triangles=False))


@pytest.mark.parametrize(
    ("capacity", "estimate", "larger"),
    [
        (100, 100, 100),
        (200, 100, 200),
        (100, 5000, 5000),
        (100, 10 * LARGER_FREE, LARGER_FREE),
        (LARGER_FREE, 10 * LARGER_FREE, LARGER_FACTOR * LARGER_FREE),
        (4096 * 64, 4096 * 1000, 4096 * 256),
    ],
)
def test_the_larger_buffer_is_bounded(capacity, estimate, larger):
    """As large as the estimate for small scenes, four times the buffer for large ones."""
    assert larger_capacity(capacity, estimate) == larger


# --- the selection by itself -------------------------------------------------------------------------------------


def reference(world, phi, capacity, bins):
    """Rows that stay: the room is handed out place by place, round after round, to the bins that still need one."""
    found = np.bincount(world[world >= 0], minlength=bins)
    kept, left = np.zeros(bins, dtype=int), capacity
    while left and (kept < found).any():
        for b in np.flatnonzero(kept < found)[:left]:
            kept[b] += 1
            left -= 1
    rows = []
    for b in range(bins):
        mine = np.flatnonzero(world == b)
        rows.extend(mine[np.argsort(phi[mine], kind="stable")][: kept[b]])
    return sorted(rows), found - kept


class Synthetic:
    """Contacts between a ball of each world and the ground, as deep as wanted, written by hand."""

    def __init__(self, worlds, room, capacity, grid):
        ball = builder()
        add_ball(ball, (0.0, 0.0, 0.1))
        b = builder()
        b.replicate(ball, worlds)
        b.add_ground_plane()
        self.model = b.finalize(device="cpu")
        self.bins = worlds + 1 if worlds > 1 else 1
        source = newton.Contacts(room, 0, device="cpu", per_contact_shape_properties=True)
        self.overflow = Overflow(self.model, capacity, source, grid)
        self.stages = grid is not None
        pipeline = AdaptedPipeline(self.model, broad_phase="explicit")
        self.record = CapacityRecord(pipeline, False, self.overflow)
        self.finisher = PassFinisher(pipeline, self.overflow, self.record)
        self.target = newton.Contacts(capacity, 0, device="cpu", per_contact_shape_properties=True)

    def fill(self, rng, world, phi, count=None):
        source, n, ground = self.overflow.larger, len(world), self.model.shape_count - 1
        for name in (*ROWS[2:], "rigid_contact_stiffness", "rigid_contact_damping", "rigid_contact_friction"):
            array = getattr(source, name)
            value = array.numpy()
            value[:n] = rng.integers(1, 100, value[:n].shape)
            array.assign(value)
        # ball at z = 0.1, ground at 0, normal up: phi = 0.1 + point - 0 - margins
        for name, value in {
            "shape0": np.where(world < 0, -1, ground),
            "shape1": np.where(world < 0, -1, world),
            "normal": np.tile([0.0, 0.0, 1.0], (n, 1)),
            "point0": np.zeros((n, 3)),
            "point1": np.column_stack([np.zeros((n, 2)), np.full(n, -0.1)]),
            "margin0": np.zeros(n),
            "margin1": -phi,
        }.items():
            array = getattr(source, f"rigid_contact_{name}")
            whole = array.numpy()
            whole[:n] = value
            array.assign(whole)
        source.rigid_contact_count.fill_(n if count is None else count)

    def select(self, body_q=None):
        body_q = self.model.body_q if body_q is None else body_q
        if self.stages:
            self.overflow.select(body_q, self.target, self.record.counts)
        else:
            self.finisher.run(body_q, self.target)
        return self.target


GRIDS = {"serial": None, "stages": Grid(7, 5, 1), "lanes": Grid(8, 3, 4)}


@pytest.mark.parametrize("grid", GRIDS)
def test_selection_equals_handing_out_places_one_by_one(grid, rng, monkeypatch):
    """Random loads and depths with ties, entries taken out, no overflow, more worlds than places; also as on CUDA."""
    if grid == "lanes":
        monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)
    names = [*ROWS, "rigid_contact_stiffness", "rigid_contact_damping", "rigid_contact_friction"]
    overflowed = 0
    for worlds, capacity in ((1, 10), (6, 20), (6, 3), (6, 90)):
        case = Synthetic(worlds, 100, capacity, GRIDS[grid])
        peak = np.zeros(case.bins, dtype=int)
        for trial in range(8):
            load = rng.dirichlet(np.full(worlds, 0.5))
            n = int(rng.integers(1, 101)) if trial else 100
            world = rng.choice(worlds, n, p=load)
            world[rng.random(n) < 0.1] = -1
            phi = np.round(rng.normal(size=n), 1).astype(np.float32)
            case.fill(rng, world, phi)
            target, source = case.select(), case.overflow.larger
            if n <= capacity:
                expected = list(range(n))
                count = n
            else:
                expected, dropped = reference(world, phi, capacity, case.bins)
                count = int((world >= 0).sum())
                np.testing.assert_array_equal(target.sap_dropped_by_world.numpy(), dropped)
                peak = np.maximum(peak, dropped)
                overflowed += bool(dropped.any())
            assert int(target.rigid_contact_count.numpy()[0]) == count
            assert int(target.contact_generation.numpy()[0]) == trial + 1
            for name in names:
                np.testing.assert_array_equal(
                    getattr(target, name).numpy()[: len(expected)],
                    getattr(source, name).numpy()[expected],
                    err_msg=name,
                )
            assert len(expected) == min(count, capacity)
        np.testing.assert_array_equal(case.overflow.peak_dropped.numpy(), peak)
    assert overflowed > 10


def test_depths_that_are_no_numbers_go_first(rng):
    """A contact with NaN of either sign never takes the place of a real one."""
    case = Synthetic(1, 64, 3, None)
    phi = np.array([np.nan, 0.3, -np.nan, 0.1, np.inf, -0.2, np.nan], dtype=np.float32)
    case.fill(rng, np.zeros(7, dtype=int), phi)
    target = case.select()
    np.testing.assert_array_equal(target.rigid_contact_margin1.numpy(), -phi[[1, 3, 5]])


def test_rows_lost_before_the_selection_are_counted_and_left_empty(rng):
    """More found than even the larger buffer holds, most of it taken out: rows without a contact say so."""
    case = Synthetic(1, 8, 6, None)
    case.target.rigid_contact_shape0.fill_(0)
    case.fill(rng, np.array([0, -1, -1, -1, 0, -1, -1, 0]), np.arange(8, dtype=np.float32), count=20)
    target = case.select()
    assert int(target.rigid_contact_count.numpy()[0]) == 3 + 12
    np.testing.assert_array_equal(target.rigid_contact_shape0.numpy(), [1, 1, 1, -1, -1, -1])


def test_far_worlds_are_compared_as_finely_as_near_ones(rng):
    """Depths that differ by a micrometre, a kilometre from the origin."""
    case = Synthetic(1, 64, 4, None)
    order = rng.permutation(16)
    case.fill(rng, np.zeros(16, dtype=int), np.zeros(16, dtype=np.float32))
    source = case.overflow.larger
    source.rigid_contact_shape0.fill_(0)  # ball against itself: both origins are far away and cancel
    for side, height in ((0, np.zeros(16)), (1, 1e-6 * order)):
        array = getattr(source, f"rigid_contact_point{side}")
        whole = array.numpy()
        whole[:16] = np.column_stack([np.zeros((16, 2)), height])
        array.assign(whole)
    pose = wp.array([[0.0, 0.0, 1000.0, 0.0, 0.0, 0.0, 1.0]], dtype=wp.transformf, device="cpu")
    case.select(pose)
    expected = np.sort(np.argsort(order)[:4])
    np.testing.assert_array_equal(
        case.target.rigid_contact_point1.numpy()[:, 2], source.rigid_contact_point1.numpy()[expected, 2]
    )


# --- buffers that overflow in Newton's own way -----------------------------------------------------------------------


@pytest.mark.parametrize("deterministic", [False, True])
def test_rows_that_newton_reserved_and_did_not_write_are_none(deterministic, monkeypatch):
    """A manifold over the end of the buffer is counted, not written: contacts of an earlier pass must not come back."""
    monkeypatch.setattr(paths, "contact_bound", lambda *_: 6)
    b = builder()
    b.add_ground_plane(cfg=material(gap=0.01))
    for i in range(3):
        add_box(b, (0.5 * i, 0.0, 0.1), cfg=material(gap=0.01))
    for i in range(2):
        add_ball(b, (0.5 * i, 1.0, 0.1), cfg=material(gap=0.01))
    model = b.finalize(device="cpu")
    # an option of Newton's, so that it finds all contacts
    pipeline = SapCollisionPipeline(model, rigid_contact_max=6, deterministic=deterministic, verify_buffers=False)
    contacts, state = pipeline.contacts(), model.state()

    def collide(*touching):
        pose = model.body_q.numpy()
        pose[:, 2] = np.where(np.isin(np.arange(5), touching), 0.1, 5.0)
        state.body_q.assign(pose)
        pipeline.collide(state, contacts)
        shapes = np.stack([contacts.rigid_contact_shape0.numpy(), contacts.rigid_contact_shape1.numpy()])
        return sorted(shapes.max(axis=0).tolist())

    assert collide(0, 3, 4) == [1, 1, 1, 1, 4, 5], "a box and two balls fill the buffer"
    assert collide(1, 2) == [-1, -1, 2, 2, 2, 2], "the second of two boxes has room for half of its contacts"
    assert int(contacts.rigid_contact_count.numpy()[0]) == 8
    with pytest.warns(RuntimeWarning, match="2 of them in the order they were found"):
        assert pipeline.last_overflow == 2
    solver = sap_warp.SolverSAP(model)
    solver.step(state, state, None, contacts, DT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (solver.last_contact_count, solver.last_truncated_contact_count) == (4, 2)


def test_overflow_of_the_larger_buffer_is_reported(monkeypatch):
    """Ten balls, room for eight, four places: the four deepest of the eight, six dropped, two of them blindly."""
    monkeypatch.setattr(paths, "contact_bound", lambda *_: 8)
    b = builder()
    b.add_ground_plane(cfg=material(gap=0.01))
    for i in range(10):
        add_ball(b, (0.5 * i, 0.0, 0.1 - 1e-3 * i), cfg=material(gap=0.01))
    model = b.finalize(device="cpu")
    pipeline = SapCollisionPipeline(model, rigid_contact_max=4)
    contacts = pipeline.contacts()
    pipeline.collide(model.state(), contacts)
    match = r"found 10 contacts and dropped 6, in world 0; 2 of them in the order.*Set rigid_contact_max=10 "
    with pytest.warns(RuntimeWarning, match=match):
        assert (pipeline.last_overflow, pipeline.last_contact_count) == (6, 4)
    shapes = np.stack([contacts.rigid_contact_shape0.numpy(), contacts.rigid_contact_shape1.numpy()]).max(axis=0)
    assert shapes.tolist() == [5, 6, 7, 8]


# --- buffers and options ---------------------------------------------------------------------------------------------


def test_any_newton_buffer_of_the_right_size_will_do(model):
    """One made by hand, with overrides: the same rows, overrides cleared, generation counted, soft counter zero."""
    pipeline = SapCollisionPipeline(model, rigid_contact_max=WORLDS * SHARE)
    own, foreign = (
        pipeline.contacts(),
        newton.Contacts(WORLDS * SHARE, 0, per_contact_shape_properties=True, device="cpu"),
    )
    foreign.clear_buffers = True
    foreign.rigid_contact_stiffness.fill_(7.0)
    foreign.soft_contact_count.fill_(3)
    state = model.state()
    for _ in range(2):
        pipeline.collide(state, own)
        pipeline.collide(state, foreign)
    assert rows_by_world(model, own) == rows_by_world(model, foreign)
    assert (foreign.rigid_contact_stiffness.numpy() == 0.0).all()
    assert int(foreign.soft_contact_count.numpy()[0]) == 0
    assert int(foreign.contact_generation.numpy()[0]) == 2
    np.testing.assert_array_equal(foreign.sap_dropped_by_world.numpy(), own.sap_dropped_by_world.numpy())
    for size in (WORLDS * SHARE - 1, WORLDS * SHARE + 1):
        with pytest.raises(ValueError, match=f"can hold {size} contacts.*rigid_contact_max={WORLDS * SHARE}"):
            pipeline.collide(state, newton.Contacts(size, 0, device="cpu"))


def test_options_that_refer_to_newtons_rows_need_a_sufficient_buffer(model):
    """Matching indices and gradients cannot follow a selection: refused with the number to set, or honoured."""
    for options in ({"contact_matching": "latest"}, {"requires_grad": True}):
        with pytest.raises(ValueError, match=r"cannot overflow.*Set rigid_contact_max=\d+") as refused:
            SapCollisionPipeline(model, rigid_contact_max=WORLDS * SHARE, **options)
        enough = int(str(refused.value).split("rigid_contact_max=")[1].split()[0])
        pipeline = SapCollisionPipeline(model, rigid_contact_max=enough, **options)
        contacts, state = pipeline.contacts(), model.state()
        pipeline.collide(state, contacts)
        pipeline.collide(state, contacts)
        if "contact_matching" in options:
            assert (contacts.rigid_contact_match_index.numpy()[:68] >= 0).all()


@pytest.mark.parametrize("mode", MODES)
def test_hydroelastic_pairs_are_refused_by_label(mode):
    """Rigid contact would be generated otherwise, or contacts that nothing here has been tested with."""
    b = builder()
    for i in range(3):
        body = b.add_body(xform=wp.transform((0.3 * i, 0.0, 0.0)), mass=1.0)
        b.add_shape_sphere(body, radius=0.1, label=f"ball_{i}")
    model = b.finalize(device="cpu")
    flags = model.shape_flags.numpy()
    flags[1] |= int(newton.ShapeFlags.HYDROELASTIC)
    model.shape_flags.assign(flags)
    SapCollisionPipeline(model, broad_phase=mode)  # one alone meets others as a rigid shape
    flags[2] |= int(newton.ShapeFlags.HYDROELASTIC)
    model.shape_flags.assign(flags)
    with pytest.raises(ValueError, match=r"'ball_1' and 'ball_2'\..*is_hydroelastic=False"):
        SapCollisionPipeline(model, broad_phase=mode)
    with pytest.raises(ValueError, match="sdf_hydroelastic_config"):
        SapCollisionPipeline(model, broad_phase=mode, sdf_hydroelastic_config=newton.geometry.HydroelasticSDF.Config())
    if mode != "explicit":
        model.shape_contact_pairs = None
        with pytest.raises(ValueError, match="'ball_1' and 'ball_2'"):
            SapCollisionPipeline(model, broad_phase=mode)


@pytest.mark.parametrize("broad_phase", ["explicit", "sap"])
def test_expert_instances_launch_unpadded_and_are_given_back(model, broad_phase, monkeypatch):
    """During a pass one thread strides over the work; afterwards the instances are as they were."""
    own = newton.CollisionPipeline(model, broad_phase=broad_phase, verify_buffers=False)
    stage, narrow = own.broad_phase, own.narrow_phase
    assert isinstance(stage, BroadPhaseExplicit if broad_phase == "explicit" else BroadPhaseSAP)
    before = [dict(vars(part)) for part in (stage, narrow)]
    pipeline = SapCollisionPipeline(model, broad_phase=stage, narrow_phase=narrow, rigid_contact_max=WORLDS * SHARE)
    newtons = {"rigid_contact_max": WORLDS * SHARE, "verify_buffers": False}  # an option of its own: all its stages
    reference = SapCollisionPipeline(model, broad_phase=broad_phase, **newtons)
    sizes, launch = [], wp.launch

    def spy(kernel, **options):
        sizes.append((kernel.key, options["dim"]))
        launch(kernel, **options)

    monkeypatch.setattr(wp, "launch", spy)
    contacts, expected = pipeline.contacts(), reference.contacts()
    pipeline.collide(model.state(), contacts)
    expert, sizes[:] = list(sizes), []
    reference.collide(model.state(), expected)
    assert len(expert) > 3
    assert expert == sizes
    assert rows_by_world(model, contacts) == rows_by_world(model, expected)
    for part, attributes in zip((stage, narrow), before, strict=True):
        assert {name: getattr(part, name) for name in attributes} == attributes
