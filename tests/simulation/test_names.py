"""Things are found by their names, and views are read and written by them."""

import contextlib
import io

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import HeterogeneousWorldsError, Simulation, UnknownNameError
from sap_warp.simulation.views.labels import shorten
from sap_warp.simulation.views.names import ModelNames

try:
    import torch
except ImportError:  # what is given as a tensor is an array then
    torch = None
tensor = torch.tensor if torch else np.array

LEG = """<mujoco model="{name}"><worldbody><body name="trunk" pos="0 0 1"><freejoint name="root"/>
  <geom name="box" type="box" size=".1 .1 .1"/>
  <body name="left_thigh"><joint name="left_hip_x" axis="1 0 0"/><joint name="left_hip_y" axis="0 1 0"/>
    <geom name="bar" size=".05"/><body name="left_shin" pos="0 0 -.3"><joint name="left_knee" axis="0 1 0"/>
    <geom name="bar" size=".05"/></body></body>
  <body name="right_thigh"><joint name="right_hip" type="ball"/><geom size=".05"/>
    <body name="right_shin" pos="0 0 -.3"><joint name="right_knee" axis="0 1 0"/><geom size=".05"/></body></body>
  </body></worldbody>
  <actuator><motor name="kick" joint="left_knee"/><motor name="brake" joint="right_knee" gear="2"/></actuator>
  </mujoco>"""
DOFS = [f"root.{end}" for end in ("vx", "vy", "vz", "wx", "wy", "wz")] + [
    *("left_hip_x", "left_hip_y", "left_knee", "right_hip.wx", "right_hip.wy", "right_hip.wz", "right_knee")
]


def one_leg(name="robot"):
    """Two legs, with a free joint, two hinges at one body, a ball joint and two motors."""
    builder = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    builder.add_mjcf(LEG.format(name=name))
    return builder


@pytest.fixture(scope="module")
def sim():
    """Three worlds with labels of their own above one ground."""
    builder = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    for i in range(3):
        builder.add_world(one_leg(), label_prefix=f"env_{i}")
    builder.add_ground_plane(label="floor")
    return Simulation(builder.finalize("cpu"), dt=0.005, max_rigid_contact=8, notes=False)


def test_labels_are_shortened_to_what_tells_them_apart():
    assert shorten(["a/b/knee", "a/b/hip", "a/c/hip"]) == ["knee", "b/hip", "c/hip"]
    assert shorten(["box", "a/box", "/World/x"]) == ["box", "a/box", "x"]
    assert shorten(["s", "a/s", "s"]) == ["s#0", "a/s", "s#1"]
    assert len(set(shorten(["s#0", "s", "s"]))) == 3


def test_degrees_of_freedom_and_coordinates_have_names_in_public_order(sim):
    assert list(sim.find_dofs("*").names) == DOFS and sim.joint_qd.names == sim.joint_f.names
    coords = sim.find_coords("*").names
    assert coords[:7] == tuple(f"root.{end}" for end in ("x", "y", "z", "qx", "qy", "qz", "qw"))
    assert coords[7:10] == ("left_hip_x", "left_hip_y", "left_knee") and coords[13] == "right_hip.qw"
    sim.joint_qd[0, "root.vy"] = 2.0
    sim.joint_qd[1, "root.wz"] = 3.0
    np.testing.assert_allclose(sim.body_qd["trunk"].numpy()[:2], [[0, 2, 0, 0, 0, 0], [0, 0, 0, 0, 0, 3]], atol=1e-6)
    sim.reset()
    model = sim.model
    dof = sim.find_dofs("left_hip_x").indices[0]  # the axis says which one it is
    np.testing.assert_allclose(np.abs(model.joint_axis.numpy()[dof]), [1.0, 0.0, 0.0])


def test_shapes_are_found_by_their_bodies(sim):
    """The name of a body stands for all of its shapes, and a pattern does that no shape fits."""
    of_body = sim.model.shape_body.numpy()
    shins = sim.find_bodies(["left_shin", "right_shin"]).indices
    assert of_body[sim.find_shapes("right_shin").indices].tolist() == [shins[1]]
    assert of_body[sim.find_shapes("left_shin").indices].tolist() == [shins[0]]
    assert of_body[sim.find_shapes("*_shin").indices].tolist() == shins.tolist()
    assert sim.find_shapes("*bar").names == ("left_thigh/bar", "left_shin/bar")
    assert sim.find_shapes("*").indices.tolist() == list(range(5))
    with pytest.raises(UnknownNameError, match="did you mean 'left_shin'"):
        sim.find_shapes("left_shinn")


def test_worlds_whose_shapes_belong_to_other_bodies_differ():
    """Even if all shapes are called alike."""
    builder = newton.ModelBuilder()
    for names in (("cup", "ball"), ("ball", "cup")):
        world = newton.ModelBuilder()
        for name in names:
            world.add_shape_sphere(world.add_body(label=name), radius=0.1)
        world.add_shape_sphere(-1, radius=0.1, label="cup_stand")
        builder.add_world(world)
    names = ModelNames(builder.finalize("cpu"))
    assert names.find("shape", "cup*", world=0).indices.tolist() == [0, 2]  # a shape without a name is its body's
    assert [names.find("shape", "cup", world=i).indices.tolist() for i in range(2)] == [[0], [1]]
    with pytest.raises(ValueError, match="Worlds differ"):
        names.find("shape", "cup")


@pytest.mark.parametrize("threads", [1, 2])
def test_scenes_keep_the_names_of_joints_that_share_a_body(threads):
    """Newton joins their names and puts slides first where it may; `q` of the file tells which column is whose."""
    text = """<mujoco><worldbody><body><joint name="turn" axis="0 1 0" range="-10 20"/>
      <joint name="x-shift" type="slide" range="-3 4"/><joint name="roll" range="-5 6"/><geom size=".1"/></body>
      <body pos="0 2 0"><joint name="turn_b"/><joint type="slide"/><geom size=".1"/></body></worldbody></mujoco>"""
    scene = {"assets": [{"type": "mjcf", "source": text}], "ground": False}
    sim = Simulation.from_scene(scene, num_worlds=2, device="cpu", threads=threads)
    assert sim.find_dofs("*").names[:3] == ("turn", "x-shift", "roll") == sim.find_coords("*").names[:3]
    upper = sim.model.joint_limit_upper.numpy()
    for name, limit in (("turn", np.radians(20)), ("x-shift", 4.0), ("roll", np.radians(6))):
        np.testing.assert_allclose(upper[sim.find_dofs(name).indices], limit, rtol=1e-6)
    assert sim.find_dofs("*").names[3:] == ("turn_b", "body_3_joint_0")
    sim.step()


def test_patterns_look_at_the_last_part_of_a_label(sim):
    assert sim.find_bodies("*thigh*").names == ("left_thigh", "right_thigh")  # and not at the shins below them
    assert sim.find_dofs("*_knee").indices.tolist() == [8, 12]
    assert sim.find_dofs(["right_knee", "left_*"]).indices.tolist() == [12, 6, 7, 8]
    assert sim.find_dofs("right_hip").indices.tolist() == [9, 10, 11] == sim.find_dofs("*t_hip").indices.tolist()
    assert sim.find_dofs("left_hip_x_left_hip_y").indices.tolist() == [6, 7]  # as Newton calls the joint
    assert sim.find_joints("*_knee").indices.tolist() == [2, 4]
    assert sim.find_bodies("left_thigh/left_shin").names == ("left_shin",)
    assert sim.find_bodies("env_1/*", world=1).indices.tolist() == [0, 1, 2, 3, 4]
    assert sim.find_shapes("*bar").names == ("left_thigh/bar", "left_shin/bar")
    assert sim.find_shapes("floor", world=-1).indices.tolist() == [sim.model.shape_label.index("floor")]
    assert sim.find_actuators("k?ck").indices.tolist() == [0]


@pytest.mark.parametrize(
    "find, pattern, text",
    [
        ("find_joints", "left_kne", "did you mean 'left_knee'"),
        ("find_joints", "*xyz*", "there are 'root'"),
        ("find_joints", "left_hip_y", "is a degree of freedom"),
        ("find_shapes", "floor", "belongs to no world; world=-1"),
        ("find_shapes", "bar", "stands for 2 shapes: 'left_thigh/bar', 'left_shin/bar'"),
        ("find_bodies", ["trunk", "trunc"], "No bodies match 'trunc'; did you mean 'trunk'"),
    ],
)
def test_what_is_not_found_is_an_error_that_helps(sim, find, pattern, text):
    with pytest.raises(UnknownNameError, match=text):
        getattr(sim, find)(pattern)


def test_wrong_arguments_are_told(sim):
    with pytest.raises(TypeError, match="neither a name"):
        sim.find_joints(3)
    with pytest.raises(IndexError, match="no world 7"):
        sim.find_joints("*", world=7)
    with pytest.raises(TypeError, match="gravity have no names"):
        sim.gravity["x"]


def test_parts_share_the_memory(sim):
    whole = sim.joint_q.numpy()
    for key, places in [
        ("left_knee", np.s_[:, 9]),
        ("*_knee", np.s_[:, 9:15:5]),
        ("root", np.s_[:, :7]),
        ((1, "root"), np.s_[1, :7]),
        (np.s_[::2, ["left_hip_x", "left_knee"]], np.s_[::2, 7:10:2]),
        (np.s_[1:, 2], np.s_[1:, 2]),
        (2, 2),
    ]:
        part = sim.joint_q[key]
        np.testing.assert_array_equal(part.numpy(), whole[places])
        assert part.shape == whole[places].shape and np.shares_memory(part.numpy(), whole)
        if part.shape:
            np.testing.assert_array_equal(part.warp().numpy(), whole[places])
            assert torch is None or part.torch().data_ptr() == part.numpy().ctypes.data
    heights = sim.body_q["trunk", 2]
    assert heights.shape == (3,) and np.shares_memory(heights.numpy(), sim.body_q.numpy())
    assert sim.joint_q["left_knee"] is sim.joint_q["left_knee"]  # names are looked up once


def test_columns_that_lie_apart_follow(sim):
    """NumPy has no view of them, so it gets a copy that every step brings up to date for as long as it is held."""
    part = sim.joint_q[["root.z", "left_knee", "right_knee"]]
    held = part.numpy()
    np.testing.assert_array_equal(held, sim.joint_q.numpy()[:, [2, 9, 14]])
    before = held.copy()
    sim.step(2)
    assert (held[:, 0] < before[:, 0]).all()
    np.testing.assert_array_equal(held, sim.joint_q.numpy()[:, [2, 9, 14]])
    with pytest.raises(ValueError, match="read-only"):
        held[0] = 1.0
    np.testing.assert_array_equal(part.warp().numpy(), held)  # an indexed array
    with pytest.raises(ValueError, match=r"joint_q.torch\(\)"):
        part.torch()
    first = held[:, 0]
    del held
    sim.reset()
    np.testing.assert_array_equal(first, before[:, 0])  # a slice of it holds it, too
    del first, part
    sim.joint_q._parts.clear()
    sim.step()
    assert not sim._mirrors
    sim.reset()


def test_assignment_goes_through_the_view(sim, rng):
    view = sim.joint_f
    expected = np.zeros((3, 13), np.float32)
    memory = view.numpy()

    def check():
        np.testing.assert_array_equal(memory, expected)
        assert sim.joint_f is view and sim.joint_f.numpy() is not None

    sim.joint_f = 0.0
    sim.joint_f["*_knee"] = 2.0
    expected[:, [8, 12]] = 2.0
    check()
    values = rng.uniform(-1, 1, (3, 2))
    sim.joint_f[["right_knee", "left_hip_x"]] = tensor(values)
    expected[:, [12, 6]] = values
    check()
    mask = np.array([True, False, True])
    sim.joint_f[mask] = 1.0
    expected[mask] = 1.0
    check()
    sim.joint_f[wp.array(mask, dtype=wp.bool, device="cpu"), "left_*"] = wp.full((2, 3), 7.0, device="cpu")
    expected[np.ix_(mask, [6, 7, 8])] = 7.0
    check()
    sim.joint_f[1, ["root.vz", "right_knee", "left_knee"]] = [1.0, 2.0, 3.0]
    expected[1, [2, 12, 8]] = [1.0, 2.0, 3.0]
    check()
    sim.joint_f["left_*"][~mask] = 5.0
    expected[1, 6:9] = 5.0
    check()
    sim.joint_f["left_knee"] += 1
    sim.joint_f *= 2
    expected[:, 8] += 1
    expected *= 2
    check()
    sim.joint_f = expected[0]
    expected[:] = expected[0]
    check()
    sim.joint_f[...] = 0
    expected[:] = 0
    check()
    for key, wrong in (("*_knee", np.zeros(5)), (..., np.zeros(5)), (mask, np.zeros((3, 13)))):
        with pytest.raises(ValueError, match="joint_f"):
            sim.joint_f[key] = wrong
    with pytest.raises(TypeError, match="numbers"):
        sim.joint_f["left_knee"] = "much"
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del sim.joint_f
    check()


def test_a_view_tells_who_was_written(sim):
    told = []
    sim.body_f.on_write = told.append
    try:
        sim.body_f["trunk"] = [0, 0, 1, 0, 0, 0]
        sim.body_f[1] = 0.0
        sim.body_f.assign(np.zeros((5, 6)), [True, False, True])
        sim.clear_forces()
    finally:
        sim.body_f.on_write = None
    assert told[0] is None
    assert told[1].tolist() == [False, True, False] and np.asarray(told[2]).tolist() == [True, False, True]


def test_views_calculate_like_arrays(sim):
    q = sim.joint_q
    array = q.numpy()
    assert len(q) == 3 and q.shape == (3, 15) and q.ndim == 2 and q.size == 45 and q.dtype == np.float32
    np.testing.assert_array_equal(2 * q + 1, 2 * array + 1)
    assert sim.body_q.dtype == np.float32 == sim.body_q["trunk"].dtype and sim.body_q.shape == (3, 5, 7)
    np.testing.assert_array_equal(q["root.z"] > 0.5, array[:, 2] > 0.5)
    np.testing.assert_array_equal(np.linalg.norm(q["root"][:, :3], axis=1), np.linalg.norm(array[:, :3], axis=1))
    assert np.shares_memory(np.asarray(q), array) and np.shares_memory(np.from_dlpack(q), array)
    assert (
        float(q[0, "root.z"]) == array[0, 2]
        and repr(q["root.z"]) == "<joint_q['root.z']: shape (3,) of float32 on cpu>"
    )


def test_keys_that_fit_nothing_are_told(sim):
    for key, kind, text in [
        (3, IndexError, "no world 3"),
        (np.s_[:, 99], IndexError, "no entry 99"),
        ([True, False], IndexError, "mask has shape"),
        (np.s_[0, 0, 0], IndexError, "3 keys"),
        (2.5, TypeError, "no key for a world"),
        (("left_knee", "right_knee"), None, ""),  # several names, as a list
        (np.s_[["left_knee"], "left_knee"], IndexError, "3 keys"),
    ]:
        if kind is None:
            assert sim.joint_q[key].shape == (3, 2)
            continue
        with pytest.raises(kind, match=text):
            sim.joint_q[key]


def test_help_says_what_a_view_is():
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        help(Simulation.joint_q)
    assert "joint_q" in text.getvalue() and "Generalized positions" in text.getvalue()


def test_worlds_that_differ_are_named_one_by_one():
    """Sizes that differ, and equal sizes with other names."""
    builder = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    builder.add_world(one_leg())
    other = newton.ModelBuilder()
    other.add_mjcf("""<mujoco><worldbody><body name="trunk"><joint name="left_knee" axis="0 1 0"/><geom size=".1"/>
      </body></worldbody></mujoco>""")
    builder.add_world(other)
    sim = Simulation(builder.finalize("cpu"), dt=0.005, max_rigid_contact=8, notes=False)
    with pytest.raises(ValueError, match=r"Worlds differ: 'left_knee' .* \[8\] .* \[0\] in world 1.*world="):
        sim.find_dofs("left_knee")
    with pytest.raises(UnknownNameError, match=r"'right_knee'.*\(in world 1\)"):
        sim.find_dofs("right_knee")
    assert sim.find_dofs("left_knee", world=1).indices.tolist() == [0]
    assert sim.find_bodies("trunk").indices.tolist() == [0]  # the same column in both
    with pytest.raises(HeterogeneousWorldsError, match="view"):
        sim.joint_q["left_knee"]
    told = []
    sim.joint_f.on_write = told.append
    sim.joint_f[1, "left_knee"] = 3.0
    sim.joint_f[0, "left_*"] = [1.0, 2.0, 4.0]
    np.testing.assert_array_equal(sim.joint_f.flat(), [0] * 6 + [1, 2, 4] + [0] * 4 + [3])
    assert [mask.tolist() for mask in told] == [[False, True], [True, False]]
    assert sim.joint_f[0].shape == (13,) and sim.joint_f[1, "left_knee"].shape == ()
    assert sim.joint_f[1, "left_knee"].warp().numpy().tolist() == [3.0]


def test_names_of_many_worlds_are_compared_quickly():
    """Labels of copies are compared as lists, and only those that differ are looked at."""
    builder = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    builder.replicate(one_leg(), 50)
    names = ModelNames(builder.finalize("cpu"))
    assert names.find("dof", "left_knee").indices.tolist() == [8]
    assert len(names._tables) == 1
