"""Models with features the solver does not simulate are refused at construction, by name and label."""

from functools import partial

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import SolverSAP
from sap_warp.solver.support import UnsupportedModelError, check_model

UNIT = wp.mat33(np.eye(3))
REFUSED = []
"""Functions that put something into a builder, and what the error says about it."""


def refused(*words):
    def add(build):
        REFUSED.append(pytest.param(build, words, id=build.__name__))
        return build

    return add


def box(builder, **kwargs):
    """A floating box."""
    body = builder.add_body(**kwargs)
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
    return body


def link(builder, label=None, **kwargs):
    """A link with mass and without a joint."""
    return builder.add_link(mass=1.0, inertia=UNIT, label=label, **kwargs)


def chain(builder, count=2):
    """A chain of hinges hinge0, hinge1, ... on the world."""
    links, joints = [], []
    for i in range(count):
        links.append(link(builder, f"link{i}"))
        joints.append(builder.add_joint_revolute(links[i - 1] if i else -1, links[i], label=f"hinge{i}"))
    builder.add_articulation(joints)
    return links, joints


@refused("kinematic bodies that are carried", "'conveyor'")
def carried_kinematic_body(builder):
    links, _ = chain(builder, 2)
    builder.body_flags[links[1]] = int(newton.BodyFlags.KINEMATIC)
    builder.body_label[links[1]] = "conveyor"


def loop_joint(builder, **dof):
    links, _ = chain(builder, 3)
    return builder.add_joint_revolute(links[0], links[2], label="closing", **dof)


@refused("drives on joints that close a loop", "'closing'")
def driven_loop_joint(builder):
    loop_joint(builder, target_ke=10.0)


@refused("joint limits on joints that close a loop", "'closing'")
def limited_loop_joint(builder):
    loop_joint(builder, limit_lower=-1.0, limit_upper=1.0)


@refused("joint friction on joints that close a loop", "'closing'")
def rubbing_loop_joint(builder):
    loop_joint(builder, friction=1.0)


@refused("joint damping on joints that close a loop", "'closing'")
def damped_loop_joint(builder):
    builder.joint_damping[builder.joint_qd_start[loop_joint(builder)]] = 1.0


@refused("distance joints that close a loop", "'leash'")
def distance_loop_joint(builder):
    links, _ = chain(builder, 3)
    builder.add_joint_distance(links[0], links[2], label="leash")


@refused("mimic constraints between joints that do not match", "'ape'")
def mimic_of_a_ball(builder):
    ball = builder.add_joint_ball(-1, link(builder))
    hinge = builder.add_joint_revolute(-1, link(builder))
    builder.add_articulation([ball])
    builder.add_articulation([hinge])
    with pytest.warns(DeprecationWarning, match="add_constraint_mimic"):
        builder.add_constraint_mimic(hinge, ball, label="ape")


@refused("mimic joints between joints that do not match", "'closing'")
def mimic_of_a_loop_joint(builder):
    closing = loop_joint(builder)
    builder.set_joint_mimic(closing, 0)


@refused("disabled joints", "'unplugged'")
def disabled_joint(builder):
    box(builder)
    builder.add_articulation([builder.add_joint_revolute(-1, link(builder), enabled=False, label="unplugged")])


@refused("3 particles")
def particles(builder):
    box(builder)
    builder.add_particles([wp.vec3()] * 3, [wp.vec3()] * 3, [1.0] * 3)


@refused("2 springs", "3 particles")
def springs(builder):
    particles(builder)
    builder.add_spring(0, 1, 1.0, 1.0, 0.0)
    builder.add_spring(1, 2, 1.0, 1.0, 0.0)


@refused("4 triangle elements", "6 particles")
def cloth(builder):
    box(builder)
    cells = {"dim_x": 2, "dim_y": 1, "cell_x": 0.1, "cell_y": 0.1}
    builder.add_cloth_grid(pos=wp.vec3(), rot=wp.quat_identity(), vel=wp.vec3(), mass=0.1, **cells)


@refused("5 tetrahedral elements")
def soft_body(builder):
    box(builder)
    cells = {f"dim_{axis}": 1 for axis in "xyz"} | {f"cell_{axis}": 0.1 for axis in "xyz"}
    material = {"density": 1.0, "k_mu": 1.0, "k_lambda": 1.0, "k_damp": 0.0}
    builder.add_soft_grid(pos=wp.vec3(), rot=wp.quat_identity(), vel=wp.vec3(), **cells, **material)


@refused("1 muscles")
def muscle(builder):
    body = box(builder)
    builder.add_muscle([body, body], [wp.vec3(), wp.vec3(1.0, 0.0, 0.0)], 1.0, 1.0, 1.0, 1.0, 1.0)


def mimic_joint(builder):
    _, joints = chain(builder)
    builder.set_joint_mimic(joints[1], joints[0])


@refused("bodies without a joint", "'lonely'", "add_body")
def orphan_body(builder):
    box(builder)
    link(builder, "lonely")


def drive_free_joint(builder, dof, gain, mode):
    box(builder)
    builder.joint_label[0] = "puck_joint"
    getattr(builder, f"joint_target_{gain}")[dof] = 10.0
    builder.joint_target_mode[dof] = int(mode)


@refused("drives on free or distance joints", "'puck_joint'")
def drive_on_free_joint(builder):
    drive_free_joint(builder, 4, "ke", newton.JointTargetMode.POSITION)


@refused("drives on free or distance joints", "'puck_joint'")
def damper_on_free_joint(builder):
    drive_free_joint(builder, 0, "kd", newton.JointTargetMode.VELOCITY)


@refused("joint friction on free or distance joints", "'second'")
def friction_on_free_joint(builder):
    box(builder)
    box(builder)
    builder.joint_label[1] = "second"
    builder.joint_friction[6] = 1.0


@refused("joint friction on free or distance joints", "'tether'")
def friction_on_distance_joint(builder):
    joint = builder.add_joint_distance(-1, link(builder), label="tether")
    builder.add_articulation([joint])
    builder.joint_friction[5] = 1.0


@refused("joint type", "'noodle'")
def rod_joint(builder):
    first, second = link(builder), link(builder)
    builder.add_articulation([builder.add_joint_free(first), builder.add_joint_rod(first, second, label="noodle")])


@refused("bodies of single worlds can touch", "'common'")
def shared_body_that_local_ones_can_touch(builder):
    box(builder, label="common")
    builder.begin_world()
    box(builder, label="local")
    builder.end_world()


MJCF = """<mujoco><worldbody>
  <body name="left" pos="0 0 1"><joint name="jl" type="hinge" axis="0 0 1"/><geom size="0.1"/></body>
  <body name="right" pos="1 0 1"><joint name="jr" type="hinge" axis="0 0 1"/><geom size="0.1"/></body>
</worldbody>{}</mujoco>"""
BALL_MJCF = MJCF.replace('<joint name="jl" type="hinge" axis="0 0 1"/>', '<joint name="jl" type="ball"/>')


def mjcf_connect(builder):
    builder.add_mjcf(
        MJCF.format('<equality><connect name="pin" body1="left" body2="right" anchor="0 0 0"/></equality>')
    )


@refused("joint equality constraints", "'pair'")
def mjcf_equality_of_two_dofs(builder):
    double = MJCF.replace('<joint name="jl"', '<joint name="jx" type="hinge" axis="1 0 0"/><joint name="jl"')
    text = double.format('<equality><joint name="pair" joint1="jl" joint2="jr"/></equality>')
    builder.add_mjcf(text, convert_mjc_equality_constraints=False)


def mjcf_joint_equality(builder):
    builder.add_mjcf(MJCF.format('<equality><joint joint1="jl" joint2="jr"/></equality>'))


@refused("joints without scalar coordinates", "'t'")
def mjcf_tendon_over_a_ball_joint(builder):
    tendon = '<tendon><fixed name="t" stiffness="9"><joint joint="jl" coef="1"/></fixed></tendon>'
    mujoco_attributes(builder, BALL_MJCF.format(tendon))


@refused("other geoms than spheres and cylinders", "'t'")
def mjcf_tendon_around_a_box(builder):
    path = '<site site="sl"/><geom geom="box"/><site site="sr"/>'
    text = MJCF.format(f'<tendon><spatial name="t">{path}</spatial></tendon>')
    text = text.replace('<geom size="0.1"/></body>', '<geom size="0.1"/><site name="sl"/></body>', 1)
    box = '<geom name="box" type="box" size="0.1 0.1 0.1"/><site name="sr"/></body>\n</worldbody>'
    mujoco_attributes(builder, text.replace("</body>\n</worldbody>", box))


def mujoco_attributes(builder, text):
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    builder.add_mjcf(text)


ACTUATORS = {
    "gains or dynamics of a user": (MJCF, "general", 'dyntype="user" dynprm="0.1"'),
    "ball joints": (BALL_MJCF, "motor", 'gear="0 0 1 0 0 0"'),
    "muscles without a lengthrange": (MJCF, "general", 'dyntype="muscle" gaintype="muscle" biastype="muscle"'),
}
"""By what is said: the model, and the actuator 'push' of its joint."""


def add_actuator(builder, words):
    text, element, attributes = ACTUATORS[words]
    actuator = f'<{element} name="push" joint="jl" {attributes}/>'
    mujoco_attributes(builder, text.format(f"<actuator>{actuator}</actuator>"))


REFUSED += [pytest.param(partial(add_actuator, words=words), (words, "'push'"), id=words) for words in ACTUATORS]


@refused("passive springs on free, distance or loop joints", "'floating'")
def mjcf_spring_of_a_free_joint(builder):
    free = '<freejoint name="floating"/>'
    mujoco_attributes(builder, MJCF.format("").replace('<joint name="jl" type="hinge" axis="0 0 1"/>', free))
    dof = builder.joint_qd_start[next(i for i, name in enumerate(builder.joint_label) if name.endswith("floating"))]
    builder.joint_label = [label.rsplit("/", 1)[-1] for label in builder.joint_label]
    builder.custom_attributes["mujoco:dof_passive_stiffness"].values = {dof: 3.0}


@refused("mass", "'ghost'")
def massless_free_body(builder):
    box(builder)
    builder.add_body(label="ghost")


@refused("mass", "'ghost'")
def massless_leaf(builder):
    parent = link(builder)
    ghost = builder.add_link(label="ghost")
    builder.add_articulation([builder.add_joint_revolute(-1, parent), builder.add_joint_revolute(parent, ghost)])


@refused("mass", "'ghost'")
def massless_body_with_half_an_armature(builder):
    axis = newton.ModelBuilder.JointDofConfig
    axes = {"linear_axes": [axis(axis=newton.Axis.X, armature=0.1)], "angular_axes": [axis(axis=newton.Axis.X)]}
    builder.add_articulation([builder.add_joint_d6(-1, builder.add_link(label="ghost"), **axes)])


@pytest.mark.parametrize(("build", "words"), REFUSED)
def test_unsupported_feature_is_refused_by_name_and_label(build, words):
    """Constructing a solver names the feature and the entities that have it."""
    builder = newton.ModelBuilder()
    build(builder)
    with pytest.raises(UnsupportedModelError) as error:
        SolverSAP(builder.finalize(device="cpu"))
    for word in words:
        assert word in str(error.value)


def two_worlds():
    """Two worlds of a hinge and a box above a shared plane, with MuJoCo's and our attributes."""
    local = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(local)
    SolverSAP.register_custom_attributes(local)
    chain(local, 1)
    box(local, label="puck")
    builder = newton.ModelBuilder()
    builder.add_ground_plane()
    builder.replicate(local, 2)
    return builder.finalize(device="cpu")


NAN, INF = float("nan"), float("inf")
IMPOSSIBLE = [
    *((name, value) for name in ("joint_armature", "joint_damping", "joint_friction") for value in (NAN, INF, -1.0)),
    *((f"joint_{name}", value) for name in ("target_ke", "target_kd", "limit_ke", "limit_kd") for value in (NAN, -1.0)),
    *((name, value) for name in ("joint_effort_limit", "joint_velocity_limit") for value in (NAN, -1.0)),
    ("joint_limit_lower", NAN),
    ("joint_limit_upper", NAN),
    *((name, value) for name in ("joint_q", "joint_qd", "joint_f", "joint_act") for value in (NAN, INF)),
    ("joint_target_q", NAN),
    ("joint_target_qd", NAN),
    ("joint_X_p", NAN),
    ("joint_X_c", INF),
    ("joint_axis", NAN),
    ("body_com", NAN),
    *(("body_mass", value) for value in (NAN, INF, -1.0)),
    ("body_inertia", NAN),
    *((name, value) for name in ("shape_material_ke", "shape_material_mu") for value in (NAN, INF)),
    ("sap.shape_material_tau", NAN),
    ("mujoco.dof_passive_stiffness", NAN),
    ("mujoco.dof_springref", NAN),
    ("gravity", NAN),
]
OWNER = {
    "body": "'puck'",
    "shape": "world 1",
    "joint": "hinge0",
    "gravity": "gravity[1",
    "sap": "world 1",
    "mujoco": "hinge0",
}


def spoil(model, name, value):
    """Put a number into the second world's part of an array; returns the index."""
    target = model
    for part in name.split("."):
        target = getattr(target, part)
    data = target.numpy().copy()
    entity = name.split(".")[-1].split("_")[0]
    index = {"body": 3, "shape": len(data) - 1}.get(entity, len(data) // 2)
    data[index] = value
    target.assign(data)
    return index


@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE)
def test_impossible_numbers_are_refused(name, value):
    """At construction and at a notification: array, index, label and world of a number that no step could honour."""
    model = two_worlds()
    solver = SolverSAP(model)
    index = spoil(model, name, value)
    for refuses in (lambda: SolverSAP(model), lambda: solver.notify_model_changed(newton.ModelFlags.ALL)):
        with pytest.raises(UnsupportedModelError) as error:
            refuses()
        for word in (f"{name}[{index}", f"is {value:g}", OWNER[name.split(".")[0].split("_")[0]]):
            assert word in str(error.value), error.value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("joint_limit_lower", -INF),
        ("joint_limit_upper", INF),
        ("joint_effort_limit", INF),
        ("joint_velocity_limit", INF),
        ("shape_material_mu", -1.0),
        ("shape_material_ke", 0.0),
        ("sap.shape_material_tau", -1.0),
    ],
)
def test_numbers_that_mean_something_pass(name, value):
    """No limit, and "not given"."""
    model = two_worlds()
    spoil(model, name, value)
    check_model(model)


@pytest.mark.parametrize("name", ["joint_axis", "joint_X_p", "joint_X_c"])
def test_directions_of_length_zero_are_refused(name):
    """An axis or a rotation of zeros names its joint."""
    model = two_worlds()
    spoil(model, name, 0.0)
    with pytest.raises(UnsupportedModelError, match=rf"{name} has a length of zero: {name}\[.*hinge0.*world 1"):
        check_model(model)


def test_only_the_offenders_are_named():
    """Healthy entities beside an unsupported one do not appear in the message."""
    builder = newton.ModelBuilder()
    shared_body_that_local_ones_can_touch(builder)
    friction_on_distance_joint(builder)
    with pytest.raises(UnsupportedModelError) as error:
        check_model(builder.finalize(device="cpu"))
    assert "'local'" not in str(error.value)


def test_all_problems_are_reported_at_once():
    """One error lists every unsupported feature on its own line, so that one round of repairs is enough."""
    builder = newton.ModelBuilder()
    features = (carried_kinematic_body, driven_loop_joint, orphan_body, disabled_joint, springs, friction_on_free_joint)
    box(builder)
    for build in features[:-1]:
        build(builder)
    builder.joint_friction[0] = 1.0
    with pytest.raises(UnsupportedModelError) as error:
        SolverSAP(builder.finalize(device="cpu"))
    lines = str(error.value).splitlines()[1:]
    for words in (
        ("kinematic bodies that are carried", "'conveyor'"),
        ("drives on joints that close a loop", "'closing'"),
        ("bodies without a joint", "'lonely'"),
        ("disabled joints", "'unplugged'"),
        ("2 springs",),
        ("3 particles",),
        ("joint friction",),
    ):
        assert sum(all(word in line for word in words) for line in lines) == 1, words


def test_long_lists_are_cut_short():
    """Of many offenders the first few are named and the rest are counted."""
    builder = newton.ModelBuilder()
    box(builder)
    for i in range(9):
        link(builder, f"stray{i}")
    with pytest.raises(UnsupportedModelError, match=r"'stray0', .* and 4 more") as error:
        check_model(builder.finalize(device="cpu"))
    assert "stray8" not in str(error.value)


def test_the_error_is_a_value_error():
    """Callers that catch ValueError catch this too."""
    assert issubclass(UnsupportedModelError, ValueError)


def kinematic_bodies_of_every_kind(builder):
    box(builder, is_kinematic=True)
    root, child = builder.add_link(is_kinematic=True), link(builder)
    builder.add_articulation([builder.add_joint_ball(-1, root), builder.add_joint_revolute(root, child)])


def kinematic_body_beside_worlds(builder):
    box(builder, is_kinematic=True)
    builder.begin_world()
    box(builder)
    builder.end_world()


def every_joint_type(builder):
    parent = link(builder)
    joints = [builder.add_joint_free(parent)]
    for add in ("revolute", "prismatic", "ball", "fixed"):
        joints.append(getattr(builder, f"add_joint_{add}")(parent, link(builder)))
    axis = newton.ModelBuilder.JointDofConfig(axis=(0.0, 1.0, 0.0), friction=1.0, target_ke=5.0)
    joints.append(builder.add_joint_d6(parent, link(builder), linear_axes=[axis], angular_axes=[axis]))
    joints.append(builder.add_joint_distance(parent, link(builder)))
    builder.add_articulation(joints)


def gains_without_a_mode(builder):
    box(builder)
    builder.joint_target_ke[0] = 10.0
    builder.joint_target_mode[0] = int(newton.JointTargetMode.NONE)


def massless_link_with_a_heavy_child(builder):
    ghost = builder.add_link()
    first = builder.add_joint_revolute(-1, ghost, axis=(1.0, 0.0, 0.0))
    builder.add_articulation([first, builder.add_joint_revolute(ghost, link(builder), axis=(0.0, 1.0, 0.0))])


def massless_link_with_armature(builder):
    builder.add_articulation([builder.add_joint_revolute(-1, builder.add_link(), armature=0.1)])


def global_shapes_beside_worlds(builder):
    builder.add_ground_plane()
    builder.begin_world()
    box(builder)
    builder.end_world()


SUPPORTED = [
    kinematic_bodies_of_every_kind,
    kinematic_body_beside_worlds,
    loop_joint,
    mimic_joint,
    mjcf_connect,
    mjcf_joint_equality,
    every_joint_type,
    gains_without_a_mode,
    massless_link_with_a_heavy_child,
    massless_link_with_armature,
    global_shapes_beside_worlds,
]


@pytest.mark.parametrize("build", SUPPORTED, ids=lambda build: build.__name__)
def test_supported_models_pass(build):
    """The checks refuse no model that the solver can simulate."""
    builder = newton.ModelBuilder()
    build(builder)
    check_model(builder.finalize(device="cpu"))
