"""Random models of everything that the solver takes, against the dense oracle, which shares no code with it.

Links without mass in every place of a tree, kinematic roots, fixed joints, mimic and loop joints, all joint types,
centres of mass off their origins; and every model that the support tests call supported.
"""

import newton
import numpy as np
import pytest

from sap_warp import SapModel, SolverSAP
from sap_warp.solver.model.topology import carriers
from tests.solver.test_support import SUPPORTED
from tests.support.massless import CHAINS, box_on_massless_link, chain
from tests.support.oracle import DenseWorld, OracleOptions, random_state
from tests.support.scenes import Stepper, builder, material
from tests.support.solver_cases import TIGHT, Case, assert_close

ANYTHING = {"massless": 0.4, "kinematic": 0.4, "couplings": True, "max_bodies": 5}
H = 0.005


@pytest.mark.parametrize("point", ["witness_point", "contact_midpoint"])
@pytest.mark.parametrize("weight", ["body_inertia", "diag_delassus", "delassus"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_random_models_match_the_oracle(seed, weight, point):
    """A, v*, contact weights, minimizer and new state of models with links without mass, kinematic roots and loops."""
    case = Case(100 + seed, contacts=8, weight=weight, point=point, shape=ANYTHING).step()
    data, capacity = case.solver.contact_jacobian.data, case.solver.contact_jacobian.capacity
    velocity, v_star = case.solver.contact_solve.velocity.numpy(), case.solver.free_motion.v_star()
    for w, world in enumerate(case.oracle):
        assert_close(case.solver.free_motion.dynamics_matrix(w), world.A, 1e-11, f"A of world {w}")
        assert_close(v_star[case.dofs(w)], world.v_star, 1e-9, f"v* of world {w}")
        rows = np.arange(w * capacity, w * capacity + int(data.count.numpy()[w]))
        rows = rows[data.source.numpy()[rows] >= 0]  # the others are bounds of distance joints
        assert len(rows) == world.nc
        np.testing.assert_allclose(data.weight.numpy()[rows], world.w, rtol=1e-8)
        v = velocity[case.dofs(w)]
        assert_close(v, world.minimize(), 1e-7, f"velocity of world {w}, status {case.solver.status}")
        q_expected, qd_expected = world.integrate(v, "midpoint")
        for joint in world.tree.joints:
            assert_close(case.after.joint_q.numpy()[joint.q], q_expected[joint.q], 1e-11, f"joint_q of {joint}")
            assert_close(case.after.joint_qd.numpy()[joint.public], qd_expected[joint.public], 1e-9, f"qd of {joint}")


def test_the_random_models_have_what_they_are_for():
    """All kinds of carriers, prescribed dofs, loops and couplings occur, with contacts on them."""
    seen = set()
    for seed in range(4):
        for world in (case := Case(100 + seed, contacts=8, shape=ANYTHING)).oracle:
            carrier = carriers(case.model)
            for body in world.tree.bodies:
                if world.tree.movable[body] and carrier[body] != body:
                    seen.add("none" if carrier[body] < 0 else "above" if carrier[body] < body else "below")
            seen |= {term.name for term in world.scalar_terms}
            seen |= {"prescribed"} if not world.free.all() else set()
            seen |= {"drift"} if world.nc and np.abs(world.drift).max() > 0.0 else set()
    assert seen >= {"none", "above", "below", "loop", "mimic", "prescribed", "drift", "drive", "limit", "friction"}


@pytest.mark.parametrize("build", SUPPORTED, ids=lambda build: build.__name__)
def test_supported_models_match_the_oracle(build, rng):
    """One step of every model that the support tests call supported is the oracle's minimizer."""
    b = newton.ModelBuilder()
    build(b)
    model = b.finalize(device="cpu")
    q, qd = random_state(rng, model, exact=True)
    q = np.where(model.joint_q.numpy() == 0.0, 0.1 * q, model.joint_q.numpy())  # near the model's own pose
    solver = SolverSAP(model, contact_preset_variant="approx64", **TIGHT)
    state, after = (SapModel(model).state("fp64") for _ in range(2))
    state.joint_q.assign(q)
    state.joint_qd.assign(qd)
    solver.step(state, after, None, None, H)
    for w in range(max(model.world_count, 1)):
        world = DenseWorld(model, state.joint_q.numpy(), qd, H, world=w, options=OracleOptions())
        for joint in world.tree.joints:
            if not joint.prescribed:
                v = solver.contact_solve.velocity.numpy()[joint.public]
                assert_close(v, world.minimize()[world.position[joint.dof]], 1e-8, f"{joint}, status {solver.status}")


# --- what carries a link without mass -----------------------------------------------------------------------------


@pytest.mark.parametrize("links, expected", CHAINS.values(), ids=CHAINS)
def test_carriers(links, expected):
    """What a link without mass gets its mobility from: fixed bodies first, then above, never what cannot move."""
    b = builder()
    chain(b, *links)
    movable = [i for i, e in enumerate(expected) if not (links[i][0] == "fixed" and i == 0)]
    np.testing.assert_array_equal(carriers(b.finalize(device="cpu"))[movable], np.array(expected)[movable])


def test_a_kinematic_body_carries_nothing():
    """The mass of a kinematic root is no mobility of the link that a hinge with armature holds on it."""
    b = builder()
    bodies = chain(b, ("free", 5, 0), ("revolute", 0, 0.1))
    b.body_flags[bodies[0]] = int(newton.BodyFlags.KINEMATIC)
    assert carriers(b.finalize(device="cpu")).tolist() == [-1, -1]


@pytest.mark.parametrize("preset", ["approx32", "approx64", "drake"])
@pytest.mark.parametrize("name", CHAINS)
def test_a_box_on_any_link_without_mass_rests(name, preset):
    """The last link without mass carries a box that starts on the floor: it stays there, and the solve converges."""
    model, foot = box_on_massless_link(name)
    sim = Stepper(model, H, preset)
    sim.set(q=sim.q)
    sim.step(100)
    assert sim.solver.last_converged
    lowest = sim.position[foot, 2]
    assert 0.09 < lowest < 0.11, lowest


def test_a_mass_that_changes_changes_the_carrier():
    """notify_model_changed: a foot that gets a mass of its own weighs with it, and back."""
    b = builder()
    b.add_ground_plane(cfg=material())
    bodies = chain(b, ("free", 1, 0), ("fixed", 0, 0))
    b.add_shape_box(bodies[1], hx=0.3, hy=0.3, hz=0.1, cfg=material())
    b.joint_q[2] = 0.1
    model = b.finalize(device="cpu")
    sim = Stepper(model, H)
    sim.set(q=sim.q)
    weights = []
    for mass in (0.0, 0.25, 0.0):
        model.body_mass.assign(np.array([1.0, mass], np.float32))
        sim.solver.notify_model_changed(newton.ModelFlags.BODY_INERTIAL_PROPERTIES)
        sim.set(q=model.joint_q.numpy(), qd=np.zeros(6)).step()
        weights.append(sim.rows()["weight"])
    assert len(weights[0]) == 4
    np.testing.assert_array_equal(weights[0], weights[2])
    np.testing.assert_allclose(weights[1], 4.0, rtol=1e-6)  # no inertia of its own: it moves by its mass alone
