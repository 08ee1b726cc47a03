"""What the host does with a simulation on a GPU reads as on the CPU: views, names, masks, tensors, streams."""

import gc
from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from sap_warp import Simulation, SimulationGroup
from sap_warp.envs.arrays import Arrays
from sap_warp.look.viewer.panels.controls import Controls
from sap_warp.look.viewer.panels.drag import Drag
from sap_warp.look.viewer.panels.joints import Driven, JointPanel
from sap_warp.simulation.run import streams
from tests.cuda.test_simulation import DEVICES, GPU, lower, simulate

COPIES = ("h2d", "d2h")


def kinds(gpu):
    """What the driver was told since it was last asked."""
    found = [kind for kind, _ in gpu.log]
    gpu.log.clear()
    return found


class OnDevice:
    """A tensor of another library on the GPU: it says where its memory is, and has no other way out."""

    def __init__(self, values, dtype=wp.float32):
        self._array = wp.array(values, dtype=dtype, device=GPU)
        self.__cuda_array_interface__ = self._array.__cuda_array_interface__


def test_numpy_arrays_follow_as_long_as_somebody_holds_them(gpu):
    """As on the CPU `q` shows every later step, reset and assignment. If nobody holds it, nothing is copied."""
    cpu, cuda = (lower(simulate("cube", device)) for device in DEVICES)
    q, heights = cuda.joint_q.numpy(), cuda.body_q[:, 0, 2].numpy()
    expected, new = cpu.joint_q.numpy(), cpu.joint_q.numpy()[0] + 0.5
    with pytest.raises(ValueError, match="read-only"):
        q[0, 2] = 1.0
    for act in (
        lambda sim: sim.step(3),
        lambda sim: sim.reset([False, True, False]),
        lambda sim: sim.joint_q.assign(np.array(expected)),
        lambda sim: sim.reset([True, False, False], joint_q=new),
    ):
        act(cpu)
        act(cuda)
        np.testing.assert_allclose(q, expected, atol=1e-5)
        np.testing.assert_allclose(heights, cpu.body_q[:, 0, 2].numpy(), atol=1e-5)
    assert cuda.joint_q.numpy().base is q.base  # one buffer for one view
    seen = []
    remove = cuda.add_callback(lambda sim, q=q: seen.append(q[0, 2]))
    cuda.step(2)
    remove()
    assert seen[0] != seen[1] and seen[1] == q[0, 2]
    kinds(gpu)
    cuda.step()
    assert "d2h" in kinds(gpu)
    del q, heights, act, remove
    gc.collect()
    cuda.step()
    kinds(gpu)
    cuda.step()
    assert not set(COPIES) & set(kinds(gpu))


def test_views_by_name_are_those_of_the_cpu(gpu, rng):
    """Reading and writing by name, mask and list, with values from the host and from the device."""
    values, mask = rng.uniform(-1, 1, (3, 2)), np.array([True, False, True])
    found = []
    for device in DEVICES:
        sim = simulate("cube", device)
        sim.joint_f["cube_free.vx"] = 2.0
        sim.joint_f[["cube_free.wz", "cube_free.vy"]] = values
        sim.joint_f[mask, "*.wx"] = wp.array(np.float32([[3], [4]]), device=device)
        sim.joint_f[1] = np.arange(6)
        sim.body_f["cube", 2] = [1.0, 2.0, 3.0]
        sim.joint_f.assign(7.0 * np.ones(6), [False, False, True])
        sim.gravity[2] = [0.0, 0.0, -1.0]
        sim.joint_f["cube_free.vz"] += 1
        parts = [
            sim.joint_f["cube_free"],
            sim.joint_f[["cube_free.wz", "cube_free.vx"]],
            sim.body_f["cube"],
            sim.gravity,
        ]
        found.append([np.array(part) for part in parts])
        np.testing.assert_array_equal(parts[1].warp().numpy(), found[-1][1])
        assert sim.find_dofs("*.v?").indices.tolist() == [0, 1, 2] and sim.joint_f["*.v?"].warp().device == sim.device
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(theirs, ours)
    with pytest.raises(ValueError, match="does not fit"):
        sim.joint_f["cube_free.vx"] = np.zeros(5)


def test_masks_and_values_on_the_device_stay_there(gpu):
    """Resets and assignments from arrays of another library on the GPU copy nothing over the host."""
    sim = lower(simulate("cube", GPU))
    q = np.array(sim.joint_q.numpy())
    q[:, 2] += 1.0
    mask, new = OnDevice([True, False, True], wp.bool), OnDevice(q.astype(np.float32), wp.float32)
    for _ in range(3):  # launched, recorded, replayed
        sim.reset(mask, joint_q=new, joint_qd=OnDevice(np.full(6, 0.5), wp.float64))
        sim.joint_f.assign(new_f := OnDevice(np.ones((3, 6)), wp.float32), mask)
        sim.joint_f["*.vx"] = OnDevice(np.full((3, 1), 5.0), wp.float32)
    kinds(gpu)
    speed = OnDevice(np.full(6, 0.25), wp.float64)
    assert kinds(gpu) == ["h2d"]
    sim.reset(mask, joint_q=new, joint_qd=speed)
    told = kinds(gpu)
    assert not set(COPIES) & set(told) and told.count("graph") == 1
    sim.joint_f.assign(new_f, mask)
    sim.joint_f["*.vx"] = first_column(new_f)
    assert not set(COPIES) & set(kinds(gpu))
    np.testing.assert_array_equal(sim.joint_q.numpy()[[0, 2]], q[[0, 2]].astype(np.float32))
    np.testing.assert_array_equal(sim.joint_qd.numpy()[[0, 2]], 0.25)
    assert (sim.joint_q.numpy()[1] != q[1]).any()
    assert sim.joint_f.numpy()[:, 0].tolist() == [1.0, 1.0, 1.0]


def first_column(values):
    """The first column of a tensor, with gaps."""
    column = OnDevice.__new__(OnDevice)
    column._array = values._array[:, :1]
    column.__cuda_array_interface__ = column._array.__cuda_array_interface__
    return column


def test_dlpack_shares_the_memory_or_copies_to_the_host(gpu):
    sim = simulate("cube", GPU)
    shared = wp.from_dlpack(sim.joint_q)
    assert shared.ptr == sim.joint_q.array.ptr and shared.device == sim.device
    copied = np.from_dlpack(sim.joint_q, device="cpu")
    np.testing.assert_array_equal(copied, sim.joint_q.numpy())
    assert not np.shares_memory(copied, sim.joint_q.numpy())


def test_torch_on_another_stream_is_waited_for_and_waits(gpu, monkeypatch):
    """What was told to torch's stream comes first, and what it is told later comes after."""
    sim = simulate("cube", GPU)
    sim.prepare()
    mask = wp.array([True, False, False], dtype=wp.bool, device=GPU)
    for _ in range(2):
        sim.reset(mask)
    other, told = wp.Stream(sim.device), []
    monkeypatch.setattr(streams, "torch_stream", lambda device: other)
    monkeypatch.setattr(
        wp.Stream, "wait_stream", lambda self, awaited, *_: told.append((self is other, awaited is other, len(gpu.log)))
    )
    for act in (sim.step, lambda: sim.reset(mask), lambda: sim.joint_f.assign(sim.joint_act.array)):
        gpu.log.clear()
        told.clear()
        act()
        waits, end = told[:], len(gpu.log)
        assert waits[0] == (False, True, 0) and waits[-1] == (True, False, end) and end > 0
        assert all(mine != theirs for mine, theirs, _ in waits)


def test_threads_are_for_the_cpu_and_a_note_says_so(gpu, capsys):
    sim = simulate("cube", GPU, threads=2)
    assert sim.threads == 1 and len(sim.shards) == 1 and sim.device.is_cuda and sim.solver.block_dim == 32
    assert [note.id for note in sim.notes if note.id == "threads"] == ["threads"]
    assert isinstance(sim, Simulation)


def test_worlds_over_two_gpus_move_as_on_one(gpu):
    """One simulation on each device; masks and values go to the device that needs them."""
    group = SimulationGroup.from_scene("cube", devices=["cuda:0", "cuda:1"], num_worlds=3)
    one = Simulation.from_scene("cube", num_worlds=3, device="cuda:0")
    held, mask = group.joint_q.numpy(), OnDevice([True, False, True], wp.bool)
    q = np.array(held)
    q[:, 2] = [0.11, 0.12, 0.13]
    for each in (group, one):
        each.joint_f["cube_free.vx"] = OnDevice(np.float32([1, 2, 3]))
        each.reset(mask, joint_q=OnDevice(q.astype(np.float32)))
        each.step(3)
    assert [str(sim.device) for sim in group] == ["cuda:0", "cuda:1"]
    np.testing.assert_array_equal(held, one.joint_q.numpy())
    assert len(set(held[:, 0])) == 3


def widget(kind, sim, **values):
    """A panel of the page without the page; ``values`` are those of its elements."""
    made = kind.__new__(kind)
    made._viewer = SimpleNamespace(sim=sim)
    for name, value in values.items():
        setattr(made, name, SimpleNamespace(value=value))
    return made


def test_the_page_writes_what_it_writes_on_the_cpu(gpu):
    """Gravity, a slider for one world and for all, and the mouse, which takes a cube and lets go."""
    found = []
    for device in DEVICES:
        sim = lower(simulate("cube", device))
        widget(Controls, sim, gravity=(0.0, 1.0, -2.0))._set_gravity()
        for everywhere, entry in ((True, 1), (False, 6 + 2)):
            panel = widget(JointPanel, sim, _follow=False, _everywhere=everywhere)
            panel._world = 0
            panel._write(Driven("slide", entry, False, -1.0, 1.0), 0.5 + entry)
        mouse = Drag(sim)
        mouse.start(1, 1, sim.body_q.numpy()[1, 0, :3] + [0.0, 0.0, 0.05])
        mouse.move(np.array([0.3, 0.1, 0.5]))
        mouse.apply()
        pulled = np.array(sim.body_f.numpy())
        mouse.end()
        found.append([np.array(sim.gravity), np.array(sim.joint_target_qd), pulled, np.array(sim.body_f)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-4)
    gravity, targets, pulled, released = found[1]
    assert gravity.reshape(3, 3).tolist() == [[0.0, 1.0, -2.0]] * 3 and not released.any()
    assert targets[:, 1].tolist() == [1.5] * 3 and targets[1, 2] == 8.5 and np.count_nonzero(targets) == 4
    assert np.flatnonzero(pulled.any(axis=(1, 2))).tolist() == [1]


def test_environments_of_numpy_arrays_are_for_the_cpu(gpu):
    with pytest.raises(ValueError, match=r'NumPy cannot share memory with cuda:0; use arrays="torch"'):
        Arrays("numpy", wp.get_device(GPU))
