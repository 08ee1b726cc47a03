"""Whole simulations on the pretended GPU: detection, overflow, many steps, resets, statistics and what a host reads."""

import warnings
from collections import Counter

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import Simulation, SolverSAP
from sap_warp.commands import bench
from sap_warp.core.kernels import scratch
from sap_warp.core.kernels.launch import lanes_for
from sap_warp.scene.shipped.scenes import build_scene, randomize_start
from sap_warp.simulation.run.memory import count_bytes
from tests.cuda.scenes import SCENES
from tests.cuda.twins import GPU, Twins

DEVICES = ("cpu", GPU)


def simulate(name, device, worlds=3, **options):
    """A shipped scene whose worlds start in poses of their own, somewhat above the ground."""
    model, scene = build_scene(name, worlds, device)
    randomize_start(model, 3)
    options = {"dt": scene.dt, "max_rigid_contact": scene.max_rigid_contact, **options}
    return Simulation(model, **options)


def lower(sim, to=0.12):
    """Put the cubes close to the ground, a little higher in each world."""
    q = np.array(sim.joint_q.numpy())
    q[:, 2] = to + 0.02 * np.arange(sim.world_count)
    sim.reset(joint_q=q)
    return sim


TINY = pytest.mark.parametrize("lanes", [pytest.param(8, marks=pytest.mark.long_cuda), 32])
"""Lanes of a cube on the GPU: four cubes share a warp, or each has its own."""


@TINY
def test_steps_and_statistics_are_those_of_the_cpu(gpu, lanes):
    """Cubes that fall on their corners: states, contacts and counts of 12 steps, replayed as graphs.

    No step copies anything to or from the host, and none allocates: the driver would refuse it in a graph.
    """
    cpu, cuda = lower(simulate("cube", "cpu")), lower(simulate("cube", GPU, block_dim=lanes))
    for sim in (cpu, cuda):
        sim.prepare()
    gpu.log.clear()
    for sim in (cpu, cuda):
        sim.step(10)
    assert {kind for kind, _ in gpu.log} == {"graph", "launch"}
    for sim in (cpu, cuda):
        sim.step()
        sim.step()
    np.testing.assert_allclose(cuda.joint_q.numpy(), cpu.joint_q.numpy(), atol=1e-5)
    np.testing.assert_allclose(cuda.joint_qd.numpy(), cpu.joint_qd.numpy(), atol=1e-3)
    np.testing.assert_array_equal(cuda.contact_counts, cpu.contact_counts)
    assert cpu.contact_counts.any() and cuda.step_count == 12 and not cuda.diverged.any()
    for name in ("world_steps", "mean_contacts", "truncated_contacts", "not_converged"):
        assert getattr(cuda.statistics, name) == getattr(cpu.statistics, name), name
    assert cuda.statistics.iterations.mean == pytest.approx(cpu.statistics.iterations.mean, rel=0.1)


def test_a_step_is_few_launches_and_many_steps_are_few_graphs(gpu):
    """Beside Newton's three of detection, and without stages for a buffer that can hold all contacts."""
    sim = lower(simulate("cube", GPU))
    sim.prepare()
    launches = []
    for steps in (2, 3, 34):
        gpu.log.clear()
        sim.step(steps)
        launches.append(Counter(kind for kind, _ in gpu.log))
    assert launches[1]["launch"] - launches[0]["launch"] <= 10
    assert launches[2]["graph"] <= 5 and launches[2]["launch"] > 30 * 9
    assert not {name for kind, name in gpu.log if kind == "launch" and name.startswith("stage_")}


@pytest.mark.parametrize("scene", ["couplings", "gripper"])
def test_blocks_share_scratch_if_worlds_are_many(gpu, scene, monkeypatch):
    """Two blocks for six worlds: each takes one after the other. Unlike worlds would need more memory so."""
    own = Twins(SCENES[scene]).gpu.solver
    monkeypatch.setattr(scratch, "most_blocks", lambda device, lanes: 1 if device.is_cpu else 2)
    twins = Twins(SCENES[scene])
    solver = twins.gpu.solver
    shared = scene == "couplings"
    assert solver.contact_solve.data.H.size == own.contact_solve.data.H.size // (3 if shared else 1)
    assert count_bytes([solver.contact_solve]) < count_bytes([own.contact_solve]) or not shared
    for _ in range(3):
        found = twins.step()
        assert found["velocity"] < 2e-6 and found["status"] == found["rows"] == 0, found


@pytest.mark.parametrize("device, limit", [(GPU, 60e3), ("cpu", 65e3)])
def test_a_humanoid_takes_little_memory(gpu, device, limit, monkeypatch):
    """Of one world more, where there are more worlds than blocks that have scratch."""
    monkeypatch.setattr(scratch, "most_blocks", lambda device, lanes: 1 if device.is_cpu else 2)
    few, many = (Simulation.from_loaded(build_scene("humanoid", n, device)[1]).byte_count for n in (2, 6))
    assert 40e3 < (many - few) / 4 < limit


def test_forces_of_contacts_take_memory_when_somebody_asks(gpu):
    """A buffer of ours is Newton's in all else, and its forces are zero until they are written."""
    sim = simulate("cube", GPU)
    buffer, before = sim.contacts.newton_contacts, sim.byte_count
    assert isinstance(buffer, newton.Contacts) and not hasattr(buffer, "no_such_member")
    forces = buffer.rigid_contact_force
    assert forces is buffer.rigid_contact_force and str(forces.device) == GPU and not forces.numpy().any()
    assert forces.shape == buffer.rigid_contact_point0.shape and sim.byte_count == before + forces.capacity


def test_a_full_buffer_keeps_the_contacts_that_the_cpu_keeps(gpu):
    """A block shares out a buffer that is too small: the same worlds lose equally many contacts."""
    kept = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for device in DEVICES:
            sim = simulate("cube", device, worlds=4, rigid_contact_max=7)
            q = np.array(sim.joint_q.numpy())
            q[:, 2:7] = [0.099, 0.0, 0.0, 0.0, 1.0]
            sim.reset(joint_q=q)
            sim.step(2)
            dropped = sim.contacts.sap_dropped_by_world.numpy()
            kept.append((sim.contact_counts.tolist(), dropped.tolist(), sim.statistics.truncated_contacts))
    assert kept[0] == kept[1] and sum(kept[0][0]) == 7 and sum(kept[0][1]) > 0
    launched = {name for kind, name in gpu.log if kind == "launch"}
    assert {"stage_select", "stage_write"} <= launched


@TINY
def test_a_full_world_keeps_its_deepest_contacts(gpu, lanes):
    """Whatever order the threads come in: two of the four corners of tilted cubes, those that the CPU keeps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = {"max_rigid_contact": 2, "rigid_contact_max": 24}
        cpu, cuda = simulate("cube", "cpu", **small), simulate("cube", GPU, block_dim=lanes, **small)
        q = np.array(cpu.joint_q.numpy())
        half = np.array([0.02, -0.03, 0.025])[:, None] * [[0.6, 0.8]]  # of the angle, about axes between two edges
        q[:, 2:7] = np.column_stack([np.full(3, 0.095), half, np.zeros(3), np.sqrt(1.0 - (half**2).sum(axis=1))])
        for _ in range(3):
            kept = []
            for sim in (cpu, cuda):
                sim.reset(joint_q=q)
                sim.step()
                rows = sim.solver.contact_jacobian
                kept.append((np.sort(rows.data.phi0.numpy().reshape(3, 2)), rows.truncated_count.numpy()))
            np.testing.assert_allclose(kept[1][0], kept[0][0], atol=1e-6)
            assert kept[0][1].tolist() == kept[1][1].tolist() == [2, 2, 2]
        found = np.sort(cpu.solver.contact_jacobian.data.phi0.numpy().reshape(3, 2))
        assert np.diff(found).min() > 1e-4 and found.max() < 0.0


@TINY
def test_resets_touch_chosen_worlds_only(gpu, lanes):
    """By mask, with coordinates, and of all; the worlds beside keep every bit."""
    sim = lower(simulate("cube", GPU, block_dim=lanes))
    start = np.array(sim.joint_q.numpy())
    sim.step(3)
    moved = np.array(sim.joint_q.numpy())
    sim.reset([False, True, False])
    np.testing.assert_array_equal(sim.joint_q.numpy()[[0, 2]], moved[[0, 2]])
    np.testing.assert_array_equal(sim.joint_q.numpy()[1], sim.model.joint_q.numpy().reshape(3, -1)[1])
    sim.reset(wp.array([True, False, False], dtype=wp.bool, device=GPU), joint_q=start[0], joint_qd=np.full(6, 0.25))
    np.testing.assert_array_equal(sim.joint_q.numpy()[0], start[0])
    np.testing.assert_array_equal(sim.joint_qd.numpy()[0], np.full(6, 0.25))
    np.testing.assert_array_equal(sim.joint_q.numpy()[2], moved[2])
    np.testing.assert_allclose(sim.body_q.numpy()[0, 0, :3], start[0, :3], atol=1e-6)
    sim.reset()
    assert sim.step_count == 0 and sim.time == 0.0


@TINY
def test_a_world_that_diverges_leaves_the_others_alone(gpu, lanes):
    """NaN in one world: it keeps its state and says so, the others move as without it, also those of its warp."""
    sims = [lower(simulate("cube", GPU, block_dim=lanes)) for _ in range(2)]
    poisoned = np.array(sims[1].joint_f.numpy())
    poisoned[1, 0] = np.nan
    sims[1].joint_f.assign(poisoned)
    for sim in sims:
        sim.step(2)
    with pytest.warns(RuntimeWarning, match="DIVERGED in world 1"):
        assert sims[1].diverged.tolist() == [False, True, False]
    np.testing.assert_array_equal(sims[1].joint_q.numpy()[[0, 2]], sims[0].joint_q.numpy()[[0, 2]])


@pytest.mark.long_cuda
def test_forces_and_accelerations_are_those_of_the_cpu(gpu):
    """Contact forces and Newton's observables, which have kernels of their own."""
    twins = Twins(SCENES["stack"], preset="approx64")
    kinds = newton.solvers.SolverBase.ObservableKind
    found = []
    twins.step()
    for each in (twins.cpu, twins.gpu):
        observables = each.solver.observables([kinds.BODY_QDD, kinds.CONTACT_F], contacts=each.contacts)
        each.solver.step(each.state, each.state, each.control, each.contacts, each.dt, observables=observables)
        forces = each.solver.contact_forces()
        arrays = (observables.body_qdd, forces.force, forces.body_wrench, forces.spatial_force)
        found.append([array.numpy() for array in arrays])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-4)
        assert np.abs(ours).max() > 0.1


def test_two_gpus_in_one_process(gpu):
    """A simulation on each of two devices, stepped in turn, moves like the other one."""
    sims = [lower(simulate("cube", device)) for device in ("cuda:0", "cuda:1")]
    for _ in range(3):
        for sim in sims:
            sim.step()
    assert [str(sim.device) for sim in sims] == ["cuda:0", "cuda:1"]
    np.testing.assert_array_equal(sims[0].joint_q.numpy(), sims[1].joint_q.numpy())


@pytest.mark.long_cuda
def test_many_tiny_worlds_share_scratch_and_warps(gpu, monkeypatch):
    """Two blocks of twelve places for thirty cubes: a place takes one after the other, and they move as with a warp."""
    monkeypatch.setattr(scratch, "most_blocks", lambda device, lanes: 1 if device.is_cpu else 2)
    shared = lower(simulate("cube", GPU, worlds=30, block_dim=8), to=0.09)
    assert shared.solver.contact_solve.data.H.size == 24 * 21
    own = lower(simulate("cube", GPU, worlds=30, block_dim=32), to=0.09)
    for sim in (shared, own):
        sim.step(4)
    assert len(set(shared.contact_counts)) > 1
    np.testing.assert_allclose(shared.joint_qd.numpy(), own.joint_qd.numpy(), atol=1e-4)
    np.testing.assert_array_equal(shared.contact_counts, own.contact_counts)


@pytest.mark.parametrize(
    ("dofs", "worlds", "lanes"), [(6, 65, 8), (6, 64, 32), (14, 65, 16), (17, 65, 32), (64, 1, 32), (65, 9, 64)]
)
def test_lanes_follow_the_dofs_and_worlds(gpu, dofs, worlds, lanes):
    """Tiny worlds share a warp if there are more than could have one at a time, 16 on each of 4 multiprocessors."""
    assert lanes_for(dofs, worlds, wp.get_device(GPU)) == lanes


def test_lanes_that_are_no_choice_are_refused(gpu):
    """The size of a block of several worlds cannot be that of one."""
    model = SCENES["sliding_box"](GPU)
    with pytest.raises(ValueError, match=r"block_dim is 96, .* take 64 or 128"):
        SolverSAP(model, block_dim=96)


@pytest.mark.parametrize("links, lanes", [(64, 32), (65, 64)])
def test_lanes_follow_the_largest_world(gpu, links, lanes):
    """One warp shares a world, two if one of the worlds is large; whoever asks for a number gets it."""
    together = newton.ModelBuilder()
    for count in (1, links):
        b = newton.ModelBuilder()
        for _ in range(count):
            body = b.add_link(mass=1.0, inertia=wp.mat33(*np.eye(3).ravel()))
            b.add_articulation([b.add_joint_revolute(-1, body, axis=newton.Axis.Y)])
        together.add_world(b)
    model = together.finalize(device=GPU)
    assert SolverSAP(model).block_dim == lanes
    assert SolverSAP(model, block_dim=128).block_dim == 128


def test_bench_says_what_the_gpu_is(gpu, capsys):
    """Whoever times a GPU for the first time sends what the time depends on."""
    found = bench.describe_gpu(wp.get_device(GPU), 32)
    assert found["name"] == "pretended" and found["architecture"] == "sm_80" and found["multiprocessors"] == 4
    assert found["memory"] == 1 << 30 and found["warp"] == wp.__version__ and found["lanes_per_world"] == 32
    bench._print({"device": GPU, "gpu": found})
    said = capsys.readouterr().out
    assert "pretended, sm_80, 4 multiprocessors, 1.1 GB" in said and "Please send us this summary" in said
