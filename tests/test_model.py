"""Runtime data: views of Newton's objects, clones, order flags, per-shape tau, and the checks at the edge of a step."""

import re

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import (
    SapControl,
    SapModel,
    SapState,
    SolverSAP,
    sap_control_from_newton,
    sap_model_from_newton,
    sap_state_from_newton,
)
from tests.support.oracle import Contact, fill_newton_contacts

UNIT = wp.mat33(np.eye(3))
TAU = "sap:shape_material_tau"
STATE_ARRAYS = ("joint_q", "joint_qd", "body_q", "body_qd", "body_f")
CONTROL_ARRAYS = {  # ours: Newton's
    "joint_f": "joint_f",
    "joint_target_pos": "joint_target_q",
    "joint_target_vel": "joint_target_qd",
    "joint_act": "joint_act",
}
DT = 0.01


@pytest.fixture(scope="module")
def model():
    """A floating box with a hinged and a ball-jointed link: 12 coordinates and 10 dofs, beside a second free body."""
    builder = newton.ModelBuilder()
    quat = wp.quat(*(np.array([0.3, -0.1, 0.7, 0.4]) / np.linalg.norm([0.3, -0.1, 0.7, 0.4])))
    base, arm, hand = (
        builder.add_link(xform=wp.transform(wp.vec3(0.1, 0.2, 3.0), quat), mass=1.0, inertia=UNIT) for _ in range(3)
    )
    builder.add_articulation(
        [
            builder.add_joint_free(base),
            builder.add_joint_revolute(base, arm, target_pos=0.3, target_vel=0.2),
            builder.add_joint_ball(arm, hand),
        ]
    )
    builder.add_body(mass=1.0, inertia=UNIT)
    builder.joint_qd[:] = [0.1 * i for i in range(len(builder.joint_qd))]
    builder.joint_act[:] = [0.5 * i for i in range(len(builder.joint_act))]
    builder.joint_f[:] = [0.25 * i for i in range(len(builder.joint_f))]
    return builder.finalize(device="cpu")


@pytest.fixture(scope="module")
def solver(model):
    return SolverSAP(model)


def values(array):
    """A copy: on the CPU ``numpy()`` is a view."""
    return array.numpy().copy()


# Views


@pytest.mark.parametrize("name", STATE_ARRAYS)
def test_state_view_shares_memory_both_ways(model, name, rng):
    """What is written into the view is read in Newton's state, and the other way round."""
    state = model.state()
    view = sap_state_from_newton(state)
    ours, theirs = getattr(view, name), getattr(state, name)
    assert ours.ptr == theirs.ptr and ours.shape == theirs.shape
    data = rng.normal(size=theirs.numpy().shape).astype(np.float32)
    ours.assign(data)
    np.testing.assert_array_equal(theirs.numpy(), data)
    theirs.assign(2.0 * data)
    np.testing.assert_array_equal(ours.numpy(), 2.0 * data)


@pytest.mark.parametrize(("ours", "theirs"), CONTROL_ARRAYS.items())
def test_control_view_shares_memory_both_ways(model, ours, theirs, rng):
    """What is written into the view is read in Newton's control, and the other way round."""
    control = model.control()
    view = sap_control_from_newton(control)
    a, b = getattr(view, ours), getattr(control, theirs)
    assert a.ptr == b.ptr and a.shape == b.shape
    data = rng.normal(size=b.shape).astype(np.float32)
    a.assign(data)
    np.testing.assert_array_equal(b.numpy(), data)
    b.assign(2.0 * data)
    np.testing.assert_array_equal(a.numpy(), 2.0 * data)


def test_model_view_is_newtons_model(model):
    """Every attribute of the model is reached through the view, arrays without a copy."""
    view = sap_model_from_newton(model)
    assert view.newton_model is model
    for name in ("joint_q", "joint_armature", "body_mass", "body_com", "joint_X_p", "gravity", "joint_target_ke"):
        assert getattr(view, name) is getattr(model, name)
    assert view.joint_dof_count == model.joint_dof_count and view.joint_label is model.joint_label
    assert {"joint_armature", "state", "shape_material_tau"} <= set(dir(view))
    with pytest.raises(AttributeError, match="no_such_array"):
        view.no_such_array  # noqa: B018


def test_values_written_through_the_model_view_are_newtons(model):
    """A change made through either object is seen by both."""
    view = sap_model_from_newton(model)
    before = values(model.joint_armature)
    view.joint_armature.fill_(0.125)
    np.testing.assert_array_equal(model.joint_armature.numpy(), 0.125)
    model.joint_armature.assign(before)
    np.testing.assert_array_equal(view.joint_armature.numpy(), before)


def test_an_array_assigned_through_the_model_view_is_newtons():
    """Replacing an array through the view replaces Newton's; it must not be shadowed on the view."""
    builder = newton.ModelBuilder()
    builder.add_body(mass=1.0, inertia=UNIT)
    newton_model = builder.finalize(device="cpu")
    view = sap_model_from_newton(newton_model)
    view.joint_armature = wp.full(6, 0.5, dtype=wp.float32, device="cpu")
    np.testing.assert_array_equal(newton_model.joint_armature.numpy(), 0.5)


@pytest.mark.parametrize(
    ("view", "word"),
    [
        (sap_model_from_newton, "newton.Model"),
        (sap_state_from_newton, "newton.State"),
        (sap_control_from_newton, "newton.Control"),
        (SapModel, "newton.Model"),
    ],
)
@pytest.mark.parametrize("thing", [None, 3, SapState(), newton.ModelBuilder()], ids=lambda t: type(t).__name__)
def test_views_refuse_other_types(view, word, thing):
    """A view of the wrong object is a TypeError that says what is expected and what came."""
    with pytest.raises(TypeError, match=rf"{word}.*{type(thing).__name__}"):
        view(thing)


def test_model_without_joint_dofs_is_refused():
    """Nothing to solve for: the error says which count is zero and what to add."""
    builder = newton.ModelBuilder()
    builder.add_ground_plane()
    builder.add_link(mass=1.0, inertia=UNIT)
    newton_model = builder.finalize(device="cpu")
    for construct in (sap_model_from_newton, SolverSAP):
        with pytest.raises(ValueError, match=r"joint_dof_count is 0.*free joint"):
            construct(newton_model)


# Order flags


def test_order_flags(model):
    """Views and clones are public, raw dataclasses are sap."""
    sap_model = sap_model_from_newton(model)
    for state in (sap_state_from_newton(model.state()), sap_model.state(), sap_model.state("fp64")):
        assert state.joint_qd_order == state.body_f_order == "public"
    for control in (sap_control_from_newton(model.control()), sap_model.control()):
        assert control.joint_f_order == "public"
    assert SapState().joint_qd_order == SapState().body_f_order == SapControl().joint_f_order == "sap"


@pytest.mark.parametrize(
    ("kind", "flag"), [(SapState, "joint_qd_order"), (SapState, "body_f_order"), (SapControl, "joint_f_order")]
)
@pytest.mark.parametrize("bad", ["Public", "SAP", "newton", "", None, 1])
def test_unknown_order_names_flag_and_choices(kind, flag, bad):
    """A typo in a flag is refused where it is made, in the constructor and on assignment."""
    buffers = kind()
    for attempt in (lambda: kind(**{flag: bad}), lambda: setattr(buffers, flag, bad)):
        with pytest.raises(ValueError, match=rf"{kind.__name__}\.{flag}.*'public'.*'sap'"):
            attempt()
    assert getattr(buffers, flag) == "sap"


# Clones


def test_state_is_a_clone(model):
    """state() has the model's initial values; changing them leaves the model and other states alone."""
    sap_model = sap_model_from_newton(model)
    state, other = sap_model.state(), sap_model.state()
    for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
        array, source = getattr(state, name), getattr(model, name)
        assert array.dtype is source.dtype
        before = values(source)
        np.testing.assert_array_equal(array.numpy(), before)
        array.fill_(7.0)
        np.testing.assert_array_equal(source.numpy(), before)
        np.testing.assert_array_equal(getattr(other, name).numpy(), before)
    assert state.body_f.shape == (model.body_count,) and not state.body_f.numpy().any()
    assert state.precision == "fp32" and not state.requires_grad


def test_control_is_a_clone(model):
    """control() has the model's initial values; changing them leaves the model alone."""
    control = sap_model_from_newton(model).control()
    for ours, theirs in CONTROL_ARRAYS.items():
        array, source = getattr(control, ours), getattr(model, theirs)
        before = values(source)
        assert before.any()  # the fixture gives every array something to copy
        np.testing.assert_array_equal(array.numpy(), before)
        array.fill_(7.0)
        np.testing.assert_array_equal(source.numpy(), before)


@pytest.mark.parametrize("name", ["fp64", "f64"])
def test_fp64_state(model, name):
    """fp64 positions, velocities and poses hold the model's values; rotations are unit to fp64 round-off."""
    state = sap_model_from_newton(model).state(precision=name)
    assert state.precision == "fp64"
    assert state.joint_q.dtype is wp.float64 and state.joint_qd.dtype is wp.float64
    assert state.body_q.dtype is wp.transformd
    assert state.body_qd.dtype is wp.spatial_vectorf and state.body_f.dtype is wp.spatial_vectorf
    np.testing.assert_array_equal(state.joint_q.numpy(), model.joint_q.numpy())
    np.testing.assert_array_equal(state.joint_qd.numpy(), model.joint_qd.numpy())
    np.testing.assert_allclose(state.body_q.numpy(), model.body_q.numpy(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(state.body_q.numpy()[:, 3:], axis=1), 1.0, rtol=0, atol=4e-16)
    assert np.abs(np.linalg.norm(model.body_q.numpy()[:, 3:].astype(np.float64), axis=1) - 1.0).max() > 1e-9


@pytest.mark.parametrize("name", ["fp32", "f32"])
def test_fp32_state_aliases(model, name):
    """Both names of single precision give what the default gives."""
    state = sap_model_from_newton(model).state(name)
    assert state.precision == "fp32" and state.body_q.dtype is wp.transformf


@pytest.mark.parametrize("bad", ["fp16", "double", "FP64", "", None, 64, wp.float64])
def test_unknown_precision_lists_the_choices(model, bad):
    """Nonsense is refused with the valid names."""
    with pytest.raises(ValueError, match=r"precision is .*f32, f64, fp32, fp64"):
        sap_model_from_newton(model).state(bad)


def test_clones_of_a_differentiable_model_carry_no_gradients():
    """A model finalized with gradients gives states that the solver accepts."""
    builder = newton.ModelBuilder()
    builder.add_body(mass=1.0, inertia=UNIT)
    sap_model = sap_model_from_newton(builder.finalize(device="cpu", requires_grad=True))
    assert not sap_model.state().requires_grad and not sap_model.state("fp64").requires_grad
    assert not any(getattr(sap_model.control(), name).requires_grad for name in CONTROL_ARRAYS)
    assert sap_state_from_newton(sap_model.newton_model.state(requires_grad=True)).requires_grad


# Methods


def test_clear_forces(model):
    """Only the external wrenches are cleared; a state without them is left alone."""
    state = sap_model_from_newton(model).state()
    state.body_f.fill_(3.0)
    qd = values(state.joint_qd)
    state.clear_forces()
    assert not state.body_f.numpy().any()
    np.testing.assert_array_equal(state.joint_qd.numpy(), qd)
    SapState().clear_forces()


@pytest.mark.parametrize("target", ["fp32", "fp64"])
@pytest.mark.parametrize("source", ["fp32", "fp64"])
def test_assign_copies_values_and_flags(model, source, target, rng):
    """assign copies every array, between precisions too, and the order flags; memory stays separate."""
    sap_model = sap_model_from_newton(model)
    a, b = sap_model.state(source), sap_model.state(target)
    expected = {}
    for name in STATE_ARRAYS:
        array = getattr(a, name)
        array.assign(rng.normal(size=array.numpy().shape).astype(array.numpy().dtype))
        expected[name] = values(array)
    a.joint_qd_order, a.body_f_order = "sap", "public"
    pointers = {name: getattr(b, name).ptr for name in STATE_ARRAYS}
    b.assign(a)
    for name in STATE_ARRAYS:
        array = getattr(b, name)
        np.testing.assert_array_equal(array.numpy(), expected[name].astype(array.numpy().dtype), err_msg=name)
        assert array.ptr == pointers[name]
    assert (b.joint_qd_order, b.body_f_order) == ("sap", "public") and b.precision == target
    b.joint_q.fill_(0.0)
    np.testing.assert_array_equal(a.joint_q.numpy(), expected["joint_q"])


@pytest.mark.parametrize("name", STATE_ARRAYS)
def test_assign_names_a_missing_array(model, name):
    """An array that only one of the two states has is named, with the side that lacks it."""
    sap_model = sap_model_from_newton(model)
    full, lacking = sap_model.state(), sap_model.state()
    setattr(lacking, name, None)
    with pytest.raises(ValueError, match=f"'{name}' is missing in the other state"):
        full.assign(lacking)
    with pytest.raises(ValueError, match=f"'{name}' is missing in this state"):
        lacking.assign(full)


def test_assign_names_an_array_of_another_size(model):
    """States of different models do not fit, and the first array that shows it is named."""
    builder = newton.ModelBuilder()
    builder.add_body(mass=1.0, inertia=UNIT)
    small = sap_model_from_newton(builder.finalize(device="cpu")).state()
    with pytest.raises(ValueError, match=r"'joint_q'.*\(7,\)"):
        sap_model_from_newton(model).state().assign(small)


def test_control_clear(model):
    """clear zeroes all inputs and keeps the flag; a control without arrays is left alone."""
    control = sap_model_from_newton(model).control()
    for name in CONTROL_ARRAYS:
        getattr(control, name).fill_(3.0)
    control.clear()
    assert not any(getattr(control, name).numpy().any() for name in CONTROL_ARRAYS)
    assert control.joint_f_order == "public"
    SapControl().clear()


@pytest.mark.parametrize(
    ("spec", "newtons"), [("joint_target_pos", "joint_target_q"), ("joint_target_vel", "joint_target_qd")]
)
def test_both_names_of_the_targets_reach_one_array(model, spec, newtons):
    """The spec's name and Newton's are one attribute, for reading and for writing."""
    control = sap_model_from_newton(model).control()
    assert getattr(control, spec) is getattr(control, newtons)
    first, second = wp.zeros(1, dtype=wp.float32), wp.zeros(2, dtype=wp.float32)
    setattr(control, newtons, first)
    assert getattr(control, spec) is first
    setattr(control, spec, second)
    assert getattr(control, newtons) is second
    assert getattr(SapControl(**{spec: first}), newtons) is first


# Dissipation time of shapes


def tau_builder(*taus):
    """One box per entry; None leaves its tau unset."""
    builder = newton.ModelBuilder()
    SolverSAP.register_custom_attributes(builder)
    for i, tau in enumerate(taus):
        body = builder.add_body(xform=wp.transform(wp.vec3(2.0 * i, 0.0, 0.0), wp.quat_identity()))
        extra = {} if tau is None else {"custom_attributes": {TAU: tau}}
        cfg = newton.ModelBuilder.ShapeConfig(ke=1e3, mu=0.5, gap=0.0)
        builder.add_shape_box(body, hx=0.5, hy=0.5, hz=0.5, cfg=cfg, **extra)
    return builder


def taus(builder):
    return sap_model_from_newton(builder.finalize(device="cpu")).shape_material_tau.numpy()


def test_tau_is_set_per_shape_and_unset_by_default():
    """A shape keeps the tau it was given; -1 marks a shape without one; zero is a value."""
    np.testing.assert_array_equal(taus(tau_builder(0.25, None, 0.0)), [0.25, -1.0, 0.0])


def test_registering_twice_is_harmless():
    """A second registration keeps the values set after the first."""
    builder = tau_builder(0.25, None)
    SolverSAP.register_custom_attributes(builder)
    np.testing.assert_array_equal(taus(builder), [0.25, -1.0])


@pytest.mark.parametrize("registered", [True, False], ids=["registered", "unregistered"])
@pytest.mark.parametrize("how", ["replicate", "add_world", "add_builder"])
def test_tau_survives_composition(how, registered):
    """Copies of a builder keep their shapes' tau, whether or not the outer builder registered the attribute."""
    outer, sub = newton.ModelBuilder(), tau_builder(0.25, None)
    if registered:
        SolverSAP.register_custom_attributes(outer)
    outer.add_ground_plane()
    if how == "replicate":
        outer.replicate(sub, 3)
    else:
        for _ in range(3):
            getattr(outer, how)(sub)
    np.testing.assert_array_equal(taus(outer), [-1.0] + 3 * [0.25, -1.0])


def test_worlds_without_the_attribute_beside_worlds_with_it():
    """Shapes of builders that never registered the attribute count as unset."""
    plain = newton.ModelBuilder()
    plain.add_shape_box(plain.add_body())
    outer = newton.ModelBuilder()
    outer.add_world(plain)
    outer.add_world(tau_builder(0.25))
    outer.add_world(plain)
    np.testing.assert_array_equal(taus(outer), [-1.0, 0.25, -1.0])


def test_model_without_the_attribute_works():
    """A model whose builder never registered tau gets an unset one for all shapes; wrapping it again keeps values."""
    builder = newton.ModelBuilder()
    builder.add_shape_box(builder.add_body())
    newton_model = builder.finalize(device="cpu")
    first = sap_model_from_newton(newton_model)
    np.testing.assert_array_equal(first.shape_material_tau.numpy(), [-1.0])
    first.shape_material_tau.fill_(0.5)
    second = sap_model_from_newton(newton_model)
    assert second.shape_material_tau.ptr == first.shape_material_tau.ptr
    np.testing.assert_array_equal(second.shape_material_tau.numpy(), [0.5])


class Rows:
    """One step with one contact between each box and the ground below it, all of the same depth."""

    depth = 0.0078125  # exact in fp32

    def __init__(self, ground, boxes, contact_tau_d=0.03):
        builder = tau_builder(*boxes)
        cfg = newton.ModelBuilder.ShapeConfig(ke=1e3, mu=0.5, gap=0.0)
        extra = {} if ground is None else {"custom_attributes": {TAU: ground}}
        plane = builder.add_shape_plane(plane=(0.0, 0.0, 1.0, 0.0), width=0.0, length=0.0, cfg=cfg, **extra)
        newton_model = builder.finalize(device="cpu")
        self.solver = SolverSAP(newton_model, contact_tau_d=contact_tau_d)
        zero = np.zeros(3)
        records = [
            Contact(plane, i, np.array([2.0 * i, 0.0, self.depth]), zero, zero, zero, np.array([0.0, 0.0, 1.0]))
            for i in range(len(boxes))
        ]
        state = self.solver.sap_model.state()
        self.solver.step(state, state, None, fill_newton_contacts(newton_model, records), DT)
        data = self.solver.contact_jacobian.data
        assert self.solver.last_contact_count == len(boxes)
        order = np.argsort(data.source.numpy()[: len(boxes)])  # rows by box
        self.vhat, self.Rn, self.weight = (
            getattr(data, name).numpy()[: len(boxes)][order] for name in ("vhat", "Rn", "weight")
        )

    @property
    def tau(self):
        """Dissipation time of each pair, from vhat = depth / (h + tau)."""
        return self.depth / self.vhat - DT


def test_tau_reaches_the_contact_rows():
    """Two boxes that differ in tau only get different bias velocities and regularizations, as the law says."""
    rows = Rows(ground=0.0, boxes=(0.02, 0.08))
    assert rows.weight[0] == pytest.approx(rows.weight[1], rel=1e-6)
    np.testing.assert_allclose(rows.vhat, rows.depth / (DT + np.array([0.02, 0.08])), rtol=1e-6)
    np.testing.assert_allclose(rows.Rn, 1.0 / (DT * 500.0 * (DT + np.array([0.02, 0.08]))), rtol=1e-6)


@pytest.mark.parametrize(
    ("ground", "box", "expected"),
    [
        (0.02, 0.05, 0.07),
        (None, 0.05, 0.08),
        (0.02, None, 0.05),
        (None, None, 0.06),
        (0.0, 0.0, 0.0),
        (None, 0.0, 0.03),
    ],
)
def test_tau_of_a_pair_is_the_sum_of_both_shapes(ground, box, expected):
    """Each side brings its own tau, or contact_tau_d (0.03 s here) if it has none; zero is its own."""
    assert Rows(ground, (box,)).tau[0] == pytest.approx(expected, rel=1e-5, abs=1e-8)


def test_tau_changed_in_the_model_acts_in_the_next_step():
    """The array is read by every step, not copied at construction."""
    rows = Rows(ground=0.0, boxes=(0.02,))
    rows.solver.sap_model.shape_material_tau.assign(np.array([0.04, 0.0], dtype=np.float32))
    solver = rows.solver
    state = solver.sap_model.state()
    zero = np.zeros(3)
    record = Contact(1, 0, np.array([0.0, 0.0, rows.depth]), zero, zero, zero, np.array([0.0, 0.0, 1.0]))
    solver.step(state, state, None, fill_newton_contacts(solver.model, [record]), DT)
    assert solver.contact_jacobian.data.vhat.numpy()[0] == pytest.approx(rows.depth / (DT + 0.04), rel=1e-5)


def test_undamped_contacts_are_warned_about():
    """No tau anywhere and contact_tau_d zero: one warning at construction that says what to set."""
    with pytest.warns(UserWarning, match=r"sap:shape_material_tau.*contact_tau_d"):
        SolverSAP(tau_builder(None).finalize(device="cpu"), contact_tau_d=0.0)


# The edge of a step


def test_step_accepts_newtons_objects_and_none(model, solver):
    """Newton's own state and control, Sap views, and no control at all make the same step."""
    results = []
    for wrap_state, control in (
        (lambda s: s, model.control()),
        (sap_state_from_newton, sap_control_from_newton(model.control())),
        (lambda s: s, None),
    ):
        source, target = model.state(), model.state()
        solver.step(wrap_state(source), wrap_state(target), control, None, DT)
        results.append((values(target.joint_q), values(target.joint_qd), values(target.body_q)))
        assert not np.array_equal(target.joint_q.numpy(), model.joint_q.numpy())
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dt", [0, 0.0, -0.01, float("nan"), float("inf"), -float("inf")])
def test_bad_time_step_is_refused(model, solver, dt):
    """A step needs a positive, finite time."""
    with pytest.raises(ValueError, match=r"dt is .*positive, finite"):
        solver.step(model.state(), model.state(), None, None, dt)


@pytest.mark.parametrize("dt", [None, "fast", "0.01", [0.01], True, 1j])
def test_time_step_of_another_type_is_refused(model, solver, dt):
    """Only numbers are numbers: a string that looks like one is a mistake further up."""
    with pytest.raises(TypeError, match=r"dt is .*number"):
        solver.step(model.state(), model.state(), None, None, dt)


@pytest.mark.parametrize("dt", [np.float32(0.01), np.float64(0.01)])
def test_numpy_time_steps_are_numbers(model, solver, dt):
    """A time step read from an array works."""
    target = model.state()
    solver.step(model.state(), target, None, None, dt)
    assert not np.array_equal(target.joint_q.numpy(), model.joint_q.numpy())


STATE_ELEMENTS = {
    "joint_q": ("joint_coord_count", wp.float32),
    "joint_qd": ("joint_dof_count", wp.float32),
    "body_q": ("body_count", wp.transformf),
    "body_qd": ("body_count", wp.spatial_vectorf),
    "body_f": ("body_count", wp.spatial_vectorf),
}
CONTROL_ELEMENTS = {
    "joint_f": "joint_dof_count",
    "joint_target_pos": "joint_coord_count",
    "joint_target_vel": "joint_dof_count",
    "joint_act": "joint_dof_count",
}


def step_with(solver, side, name, array):
    """One step with one array of one argument replaced."""
    arguments = {
        "state_in": solver.sap_model.state(),
        "state_out": solver.sap_model.state(),
        "control": solver.sap_model.control(),
    }
    setattr(arguments[side], name, array)
    solver.step(*arguments.values(), None, DT)


PLACES = [(side, name) for side in ("state_in", "state_out") for name in STATE_ELEMENTS]
PLACES += [("control", name) for name in CONTROL_ELEMENTS]


def expectation(model, side, name):
    count, dtype = (CONTROL_ELEMENTS[name], wp.float32) if side == "control" else STATE_ELEMENTS[name]
    return getattr(model, count), dtype


@pytest.mark.parametrize(("side", "name"), PLACES)
@pytest.mark.parametrize("extra", [-1, 1])
def test_wrong_sizes_are_refused(model, solver, side, name, extra):
    """The message names argument and array, its shape and the length expected."""
    count, dtype = expectation(model, side, name)
    array = wp.zeros(count + extra, dtype=dtype, device="cpu")
    with pytest.raises(ValueError, match=rf"{side}\.{name} has shape \({count + extra},\); expected \({count},\)"):
        step_with(solver, side, name, array)


@pytest.mark.parametrize(("side", "name"), PLACES)
def test_wrong_dtypes_are_refused(model, solver, side, name):
    """The message names argument and array, its dtype and the one expected."""
    count, dtype = expectation(model, side, name)
    wanted = re.escape(wp.types.type_repr(dtype))
    with pytest.raises(TypeError, match=rf"{side}\.{name} has dtype .*int32.*; expected .*{wanted}"):
        step_with(solver, side, name, wp.zeros(count, dtype=wp.int32, device="cpu"))


@pytest.mark.parametrize(("side", "name"), PLACES)
def test_gradients_are_refused(model, solver, side, name):
    """The message names the array and says that gradients are not supported."""
    count, dtype = expectation(model, side, name)
    with pytest.raises(ValueError, match=rf"{side}\.{name} requires gradients"):
        step_with(solver, side, name, wp.zeros(count, dtype=dtype, device="cpu", requires_grad=True))


@pytest.mark.parametrize(("side", "name"), PLACES)
def test_views_with_gaps_are_refused(model, solver, side, name):
    """Kernels take the entries as neighbours in memory."""
    count, dtype = expectation(model, side, name)
    with pytest.raises(ValueError, match=rf"{side}\.{name} is a view with gaps"):
        step_with(solver, side, name, wp.zeros(2 * count, dtype=dtype, device="cpu")[::2])


@pytest.mark.parametrize(("side", "name"), PLACES)
@pytest.mark.parametrize("kind", ["none", "numpy", "list"])
def test_what_is_no_warp_array_is_refused(model, solver, side, name, kind):
    """The message names the array, what came instead, and the length expected."""
    count, _ = expectation(model, side, name)
    thing = {"none": None, "numpy": np.zeros(count), "list": [0.0] * count}[kind]
    with pytest.raises(TypeError, match=rf"{side}\.{name} is .*Warp array of length {count}"):
        step_with(solver, side, name, thing)


@pytest.mark.parametrize(("name", "dtype"), [("joint_qd", wp.float64), ("body_q", wp.transformd)])
def test_mixed_precisions_are_refused(model, solver, name, dtype):
    """joint_q, joint_qd and body_q of one state share a precision; the odd one out is named."""
    count, _ = expectation(model, "state_in", name)
    with pytest.raises(TypeError, match=rf"state_in\.{name} has dtype"):
        step_with(solver, "state_in", name, wp.zeros(count, dtype=dtype, device="cpu"))


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("thing", ["state", 3, {"joint_q": None}], ids=["str", "int", "dict"])
def test_arguments_of_another_type_are_refused(model, solver, position, thing):
    """Each argument of a step names itself, the type that came and the one expected."""
    arguments = [model.state(), model.state(), model.control(), None]
    arguments[position] = thing
    name = ("state_in", "state_out", "control", "contacts")[position]
    with pytest.raises(TypeError, match=rf"{name} is a {type(thing).__name__}; expected .*newton"):
        solver.step(*arguments, DT)


def test_a_refused_step_changes_nothing(model, solver):
    """All arguments are checked before the first kernel runs: state_out, clock and the solver's buffers stay."""
    source, target = solver.sap_model.state(), solver.sap_model.state()
    solver.step(source, target, None, None, DT)
    watched = (target.joint_q, target.joint_qd, target.body_q, solver.boundary.joint_qd, solver.boundary.joint_q)
    before, frames = [values(array) for array in watched], solver.frame_id
    source.joint_qd.fill_(0.75)
    bad = solver.sap_model.control()
    bad.joint_act = wp.zeros(1, dtype=wp.float32, device="cpu")
    for control, contacts in ((bad, None), (None, "contacts")):
        with pytest.raises((TypeError, ValueError)):
            solver.step(source, target, control, contacts, DT)
        for array, expected in zip(watched, before, strict=True):
            np.testing.assert_array_equal(array.numpy(), expected)
        assert solver.frame_id == frames


# Changes of the model after construction


MODEL_CHANGES = {  # array: new value of its first entry
    "body_mass": 3.0,
    "body_com": [0.5, 0.0, 0.0],
    "body_inertia": 4.0 * np.eye(3),
    "joint_X_p": [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    "joint_X_c": [0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    "joint_axis": [0.0, 0.0, 1.0],
    "joint_armature": 5.0,
    "joint_damping": 5.0,
    "joint_friction": 5.0,
    "joint_limit_lower": 0.5,
    "joint_target_ke": 100.0,
    "joint_velocity_limit": 0.01,
    "joint_effort_limit": 0.0,
    "joint_target_q": -2.0,
    "joint_act": 7.0,
    "gravity": [0.0, 0.0, 50.0],
}


@pytest.mark.parametrize("how", ["written", "replaced"])
@pytest.mark.parametrize("name", MODEL_CHANGES)
def test_changes_act_after_notification(name, how):
    """A solver told of a change steps as one built after it, whether values or the whole array changed."""
    builder = newton.ModelBuilder()
    link = builder.add_link(mass=1.0, com=wp.vec3(0.1, 0.2, 0.3), inertia=UNIT, lock_inertia=True)
    builder.add_articulation([builder.add_joint_revolute(-1, link, axis=(0, 1, 0), target_pos=1.0, target_ke=10.0)])
    newton_model = builder.finalize(device="cpu")

    def after_a_step(solver):
        state = solver.sap_model.state()
        state.joint_qd.fill_(1.0)
        solver.step(state, state, None, None, DT)
        return np.concatenate([values(array).ravel() for array in (state.joint_qd, state.body_q, state.body_qd)])

    early = SolverSAP(newton_model)
    before = after_a_step(early)
    array = getattr(newton_model, name)
    data = values(array)
    data[0] = MODEL_CHANGES[name]
    if how == "written":
        array.assign(data)
    else:
        setattr(newton_model, name, wp.array(data, dtype=array.dtype, device="cpu"))
    early.notify_model_changed(newton.ModelFlags.ALL)
    expected = after_a_step(SolverSAP(newton_model))
    assert np.abs(expected - before).max() > 1e-6
    np.testing.assert_array_equal(after_a_step(early), expected)
