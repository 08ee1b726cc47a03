"""Energy that grows without work is flagged; a world that is merely energetic, pushed, driven or edited is not."""

import warnings

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import Simulation, SolveStatus
from tests.support.scenes import G, Stepper, add_box, builder, material, one_joint

H = 0.005
LINK_MASS, LINK_LENGTH = 0.1, 0.1


def level_chain(links):
    """Undamped hinges about y that start level, with uniform rods between them."""
    b = builder()
    moment = LINK_MASS * LINK_LENGTH**2 / 12.0
    bodies, joints = [], []
    for i in range(links):
        rod = wp.mat33(0.01 * moment, 0, 0, 0, moment, 0, 0, 0, moment)
        bodies.append(b.add_link(mass=LINK_MASS, com=wp.vec3(LINK_LENGTH / 2, 0, 0), inertia=rod, lock_inertia=True))
        frame = wp.transform((LINK_LENGTH if i else 0.0, 0.0, 0.0))
        parent = bodies[i - 1] if i else -1
        joints.append(b.add_joint_revolute(parent, bodies[i], axis=newton.Axis.Y, parent_xform=frame))
    b.add_articulation(joints)
    return b.finalize(device="cpu")


def spinning_rod(spin):
    """A free rod without gravity that turns about an axis between its principal ones [rad/s]."""
    b = builder((0.0, 0.0, 0.0))
    body = b.add_body(mass=1.0, inertia=wp.mat33(0.001, 0, 0, 0, 0.01, 0, 0, 0, 0.01), lock_inertia=True)
    b.body_label[body] = "rod"
    model = b.finalize(device="cpu")
    qd = np.zeros(6, np.float32)
    qd[3:] = spin * np.array([0.6, 0.8, 0.0])
    model.joint_qd.assign(qd)
    return model


def statuses(sim, seconds):
    seen = []
    for _ in range(round(seconds / sim.dt)):
        sim.step()
        seen.append(sim.solver.status.copy())
    return np.array(seen)


def mechanical_energy(sim):
    """Kinetic and potential energy of a fixed-base chain from body twists alone [J]."""
    model, twist = sim.model, sim.state.body_qd.numpy().astype(float)
    mass, moment = model.body_mass.numpy(), model.body_inertia.numpy()[:, 1, 1]
    centre = sim.position + np.array(
        [wp.quat_rotate(wp.quat(*q), wp.vec3(LINK_LENGTH / 2, 0, 0)) for q in sim.rotation]
    )
    kinetic = 0.5 * mass @ (twist[:, :3] ** 2).sum(axis=1) + 0.5 * moment @ twist[:, 4] ** 2
    return kinetic, kinetic + G * mass @ centre[:, 2]


@pytest.mark.parametrize("preset", ["approx32", "approx64"])
@pytest.mark.parametrize("links", [10, 25])
def test_a_chain_that_gains_energy_is_flagged(links, preset):
    """The default integration blows up on a level chain at 5 ms; the flag comes when half its energy is excess."""
    sim = Stepper(level_chain(links), H, preset)
    for _ in range(100):
        kinetic, energy = mechanical_energy(sim)  # the chain started with none
        sim.step()
        if sim.solver.status[0] == SolveStatus.UNSTABLE:
            break
        assert sim.solver.status[0] == SolveStatus.CONVERGED and energy <= 0.6 * kinetic
    assert sim.solver.status[0] == SolveStatus.UNSTABLE
    assert not sim.solver.last_converged
    assert energy > 0.4 * kinetic, "flagged without a reason"
    before = sim.q
    sim.step()
    assert (sim.q != before).all(), "it is a flag, no stop"


@pytest.mark.parametrize("links, dt, preset", [(10, 0.001, "approx64"), (25, 0.001, "approx32"), (25, H, "drake")])
def test_chains_that_keep_their_energy_are_not(links, dt, preset):
    """A smaller step, or sap_euler, and the same chain is fine."""
    assert not statuses(Stepper(level_chain(links), dt, preset), 0.5).any()


@pytest.mark.parametrize("preset", ["approx32", "drake"])
def test_a_fast_spin_that_gains_energy_is_flagged(preset):
    """Free rotation at 300 rad/s is beyond 5 ms; at 10 rad/s nothing is said in a second."""
    assert (statuses(Stepper(spinning_rod(300.0), H, preset), 0.2) == SolveStatus.UNSTABLE).any()
    assert not statuses(Stepper(spinning_rod(10.0), H, preset), 1.0).any()


def falling_box(speed=100.0):
    b = builder()
    b.add_ground_plane(cfg=material())
    add_box(b, (0.0, 0.0, 3.0), cfg=material())
    model = b.finalize(device="cpu")
    model.joint_qd.assign(np.array([speed, 0, -speed, 3.0, 4.0, 5.0], np.float32))
    return model


@pytest.mark.parametrize("preset", ["approx32", "drake"])
def test_energetic_worlds_are_not_flagged(preset):
    """Free fall, a crash at 100 m/s with bounce and slide, and a hinge that torques and drives spin up."""
    assert not statuses(Stepper(falling_box(), H, preset), 1.0).any()
    sim = Stepper(one_joint("revolute", com=(0.2, 0.0, 0.0)), H, preset)
    sim.control.joint_f.assign(np.array([200.0], np.float32))
    assert not statuses(sim, 1.0).any() and abs(sim.qd[0]) > 100.0
    drive = {"actuator_mode": newton.JointTargetMode.POSITION, "target_ke": 1e4, "target_kd": 1e2, "target_pos": 3.0}
    assert not statuses(Stepper(one_joint("revolute", com=(0.2, 0.0, 0.0), **drive), H, preset), 1.0).any()


def set_velocity(sim, i):
    sim.set(qd=sim.qd * (-1.0) ** i + 10.0)


def set_position(sim, i):
    sim.set(q=sim.q + np.array([0.0, 0.0, 10.0, 0.0, 0.0, 0.0, 0.0]))


def push(sim, i):
    sim.state.body_f.assign(np.array([[0.0, 0.0, 5000.0 * (i % 2), 0.0, 0.0, 0.0]], np.float32))


def turn_gravity(sim, i):
    sim.model.gravity.assign(
        np.tile(np.array([0.0, 0.0, 100.0 * (-1.0) ** i], np.float32), (len(sim.model.gravity), 1))
    )


def change_mass(sim, i):
    sim.model.body_mass.assign(np.array([1.0 + 9.0 * (i % 2)], np.float32))
    sim.solver.notify_model_changed(newton.ModelFlags.BODY_INERTIAL_PROPERTIES)


def start_again(sim, i):
    sim.solver.reset(sim.state)


@pytest.mark.parametrize("edit", [set_velocity, set_position, push, turn_gravity, change_mass, start_again])
def test_edits_are_not_taken_for_instability(edit):
    """What a user does to a world between two steps is work of theirs."""
    sim = Stepper(falling_box(10.0), H)
    for i in range(12):
        edit(sim, i)
        assert not statuses(sim, 5 * H).any(), i


def test_statistics_count_unstable_steps():
    """A simulation counts the world-steps that were flagged, among those that did not converge."""
    sim = Simulation(level_chain(25), dt=H, contact_preset_variant="approx64")
    sim.step(88)  # before it diverges
    seen = sim.statistics
    assert 0 < seen.unstable == seen.not_converged < 20
    assert sim.status[0] == SolveStatus.UNSTABLE


def test_the_flag_goes_when_the_world_is_reset():
    """A new start is judged anew, and the other worlds do not notice."""
    sim = Stepper(level_chain(25), H)
    assert (statuses(sim, 0.45) == SolveStatus.UNSTABLE).any()
    sim.solver.reset(sim.state)
    assert sim.solver.status[0] == SolveStatus.CONVERGED
    assert not statuses(sim, 0.1).any()


def test_chains_that_fp32_cannot_hold_are_named():
    """80 bare links: a warning at construction, FREE_MOTION_FAILED in the step; fp64 and armature are the cures."""
    with pytest.warns(UserWarning, match="80 dofs in a row"):
        sim = Stepper(level_chain(80), H, "approx32")
    sim.step()
    assert sim.solver.status[0] == SolveStatus.FREE_MOTION_FAILED
    assert statuses(Stepper(level_chain(80), H, "approx64"), 10 * H)[-1] == SolveStatus.CONVERGED
    model = level_chain(80)
    model.joint_armature.fill_(1e-3)
    assert statuses(Stepper(model, H, "approx32"), 10 * H)[-1] == SolveStatus.CONVERGED


@pytest.mark.parametrize("dt, grows", [(H, True), (0.001, False)])
def test_a_simulation_says_once_that_energy_grows(dt, grows):
    """It names the world and what helps, and goes on."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with Simulation(level_chain(10), dt=dt, notes=False) as sim:
            for _ in range(4):
                sim.step(25)
            assert (sim.statistics.unstable > 0) == grows
    texts = [str(w.message) for w in told if "grows without work" in str(w.message)]
    assert len(texts) == grows
    assert all("smaller dt" in text for text in texts)
