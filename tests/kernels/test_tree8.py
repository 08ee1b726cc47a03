"""Native loops over eight bodies or dofs at a time against the code that several lanes share."""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import SolverSAP
from sap_warp.core.kernels.types import FP64
from tests.support.joint_types import add_all_joint_types
from tests.support.oracle import random_state

DT = 0.005
MIXED = ("approx32", {"use_f64_boundary_pose": True}, 2e-4)


def chain(rng, bodies):
    """A chain of hinges and sliders in turn with the frames and inertias of ``rng``."""
    world = newton.ModelBuilder()
    joints = []
    for i in range(bodies):
        spread = rng.normal(size=(3, 3))
        inertia = wp.mat33(np.sum(spread**2) * np.eye(3) - spread @ spread.T)
        link = world.add_link(mass=rng.uniform(0.5, 2.0), inertia=inertia, com=wp.vec3(*rng.normal(size=3)))
        frames = [
            wp.transform(wp.vec3(*rng.normal(size=3)), wp.normalize(wp.quat(*rng.normal(size=4)))) for _ in range(2)
        ]
        add = world.add_joint_prismatic if i % 3 == 2 else world.add_joint_revolute
        axis = wp.normalize(wp.vec3(*rng.normal(size=3)))
        joints.append(
            add(
                i - 1,
                link,
                parent_xform=frames[0],
                child_xform=frames[1],
                axis=axis,
                armature=rng.uniform(),
                damping=rng.uniform(),
            )
        )
    world.add_articulation(joints)
    return world


@pytest.fixture(scope="module")
def model():
    """Worlds with less and more than eight bodies and dofs, and one with all joint types and a kinematic root."""
    rng = np.random.default_rng(5)
    scene = newton.ModelBuilder(gravity=(0.3, 0.2, -9.8))
    mixed = newton.ModelBuilder()
    add_all_joint_types(mixed, rng)
    links = [
        mixed.add_link(mass=1.0, inertia=wp.mat33(np.eye(3)), is_kinematic=kinematic) for kinematic in (True, False)
    ]
    mixed.add_articulation([mixed.add_joint_free(links[0]), mixed.add_joint_revolute(*links)])
    for world in (chain(rng, 1), mixed, chain(rng, 7), chain(rng, 8), chain(rng, 19), chain(rng, 3)):
        scene.add_world(world)
    return scene.finalize(device="cpu")


def states(model, preset, **options):
    """A solver and a random state with wrenches."""
    solver = SolverSAP(model, contact_preset_variant=preset, **options)
    rng = np.random.default_rng(6)
    before = solver.sap_model.state("fp64")
    q, qd = random_state(rng, model)
    before.joint_q.assign(q)
    before.joint_qd.assign(qd)
    before.body_f.assign(rng.normal(size=(model.body_count, 6)).astype(np.float32))
    return solver, before


@pytest.fixture
def cpu_blocks(monkeypatch):
    """Blocks of several lanes on the CPU, as cooperative fibers with real barriers."""
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)


@pytest.mark.parametrize(("preset", "options", "tolerance"), [("approx64", {}, 1e-12), ("approx32", {}, 2e-4), MIXED])
def test_dynamics_of_eight_are_those_of_lanes(cpu_blocks, model, preset, options, tolerance):
    """Mass matrix, impulse and free velocity, where all bodies are pushed and where none is."""
    results = []
    for lanes in (1, 4):
        solver, before = states(model, preset, block_dim=lanes, **options)
        values = []
        for _ in range(2):
            solver.compute_free_motion(before, None, DT)  # no kernel of a solve is compiled
            values += [getattr(solver.free_motion.data, name).numpy().copy() for name in ("A", "impulse")]
            values.append(solver.free_motion.v_star())
            before.body_f.zero_()
        assert not np.allclose(values[1], values[4], rtol=1e-2)
        results.append(values)
    for eight, shared in zip(*results, strict=True):
        np.testing.assert_allclose(eight, shared, rtol=tolerance, atol=tolerance * np.abs(shared).max())


@pytest.mark.parametrize(("preset", "options", "tolerance"), [("approx64", {}, 1e-13), ("approx32", {}, 3e-5), MIXED])
def test_placement_of_eight_is_that_of_lanes(cpu_blocks, model, preset, options, tolerance):
    """Poses, columns, velocities and accelerations, with small angles and, where poses are fp64, very large ones."""
    names = ("origin", "p", "r", "Sw", "Sv", "Vw", "Vv", "aw", "av")
    results = []
    for lanes in (1, 4):
        solver, before = states(model, preset, block_dim=lanes, **options)
        values = []
        for scale in (1.0, 3e4 if solver.free_motion.variant["pose"] is FP64 else 2.0):
            q = before.joint_q.numpy()
            q[::5] *= scale
            before.joint_q.assign(q)
            solver.compute_free_motion(before, None, DT)  # no kernel of a solve is compiled
            values += [getattr(solver.free_motion.data, name).numpy().copy() for name in names]
        results.append(values)
    for eight, shared in zip(*results, strict=True):
        np.testing.assert_allclose(eight, shared, rtol=tolerance, atol=tolerance * np.abs(shared).max())
