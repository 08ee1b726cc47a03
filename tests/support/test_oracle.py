"""The dense oracle against independent truths: Newton's kinematics, MuJoCo, Drake, hand calculations, differences."""

import mujoco
import newton
import numpy as np
import pytest
import warp as wp

from tests.support.oracle import (
    Contact,
    DenseWorld,
    OracleOptions,
    Tree,
    fill_newton_contacts,
    fp32,
    random_contacts,
    random_controls,
    random_model,
    random_state,
    terms,
)
from tests.support.oracle.kinematics import BALL, D6, FREE, PRISMATIC, REVOLUTE, matrix_from_quat, quat_from_matrix
from tests.support.oracle.problems import contacts_from_newton

wp.config.quiet = True
SEEDS = range(6)
NO_FLOATING_INSIDE = ("revolute", "prismatic", "ball", "d6", "fixed")
MODES = [(w, p) for w in ("body_inertia", "diag_delassus", "delassus") for p in ("witness_point", "contact_midpoint")]


def relative(a, b):
    """Largest difference relative to the largest entry of b."""
    return np.abs(a - b).max(initial=0.0) / max(np.abs(b).max(initial=0.0), 1e-12)


def problem(seed, dt=0.01, contacts=6, weight="body_inertia", point="witness_point", speed=1.0, **kwargs):
    """One world of a random model with contacts and controls."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, 1, **kwargs)
    q, qd = random_state(rng, model, speed)
    records = random_contacts(rng, model, 0, contacts, q, overrides=True)
    options = OracleOptions(weight, point, contact_tau_d=0.01)
    return DenseWorld(model, q, qd, dt, contacts=records, options=options, **random_controls(rng, model))


def newton_state(model, q, qd):
    state = model.state()
    state.joint_q.assign(q.astype(np.float32))
    state.joint_qd.assign(qd.astype(np.float32))
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    return state


def sphere_model(radius=0.1, mass=2.0, ke=1e4, mu=0.5, com=(0.0, 0.0, 0.0), **joint):
    """A ball on a free joint above a ground plane with the same material."""
    builder = newton.ModelBuilder()
    cfg = newton.ModelBuilder.ShapeConfig(ke=ke, mu=mu, density=0.0, gap=0.0)
    builder.add_ground_plane(cfg=cfg)
    inertia = 0.4 * mass * radius**2
    body = builder.add_link(mass=mass, com=com, inertia=wp.mat33(*(inertia * np.eye(3)).ravel()), lock_inertia=True)
    builder.add_articulation([builder.add_joint_free(body, **joint)])
    builder.add_shape_sphere(body, radius=radius, cfg=cfg)
    return builder.finalize(device="cpu")


def ground_contact(radius, center, body_rotation=None, shape=1):
    """Contact of ground (shape 0) and a ball, as Newton's collision pipeline stores it."""
    R, n = np.eye(3) if body_rotation is None else body_rotation, np.array([0.0, 0.0, 1.0])
    foot = np.array([center[0], center[1], 0.0])
    return Contact(0, shape, foot, np.zeros(3), np.zeros(3), -R.T @ n * radius, n, 0.0, radius)


# --- kinematics -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_body_state_matches_newton_fk(seed):
    """Poses and twists of every joint type agree with newton.eval_fk to fp32."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, 3)
    q, qd = random_state(rng, model)
    state = newton_state(model, q, qd)
    body_q, body_qd = state.body_q.numpy(), state.body_qd.numpy()
    for world in range(3):
        dense = DenseWorld(model, q, qd, 0.01, world=world)
        mine_q, mine_qd = dense.body_state()
        for b in dense.tree.bodies:
            np.testing.assert_allclose(mine_q[b, :3], body_q[b, :3], atol=5e-6)
            np.testing.assert_allclose(dense.poses.R[b], matrix_from_quat(body_q[b, 3:]), atol=5e-6)
            np.testing.assert_allclose(matrix_from_quat(mine_q[b, 3:]), dense.poses.R[b], atol=1e-14)
            np.testing.assert_allclose(mine_qd[b], body_qd[b], atol=5e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_jacobian_is_the_rate_of_the_pose(seed):
    """J v equals the exact time derivative of the poses along the motion."""
    dense = problem(seed, contacts=0)
    tree, eps = dense.tree, 1e-30
    moved = tree.poses(tree.configuration(dense.joint_q, dense.v0, 1j * eps))
    for b in tree.bodies:
        w = dense.poses.Jw[b] @ dense.v0
        np.testing.assert_allclose(moved.p[b].imag / eps, dense.poses.Jv[b] @ dense.v0, atol=1e-12)
        np.testing.assert_allclose(moved.R[b].imag / eps, np.cross(w, dense.poses.R[b].T).T, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_mass_matrix_matches_newton(seed):
    """M in public order agrees with newton.eval_mass_matrix to fp32.

    Newton 1.7 takes the angular columns of a d6 joint about the parent anchor even when its linear axes have moved the
    child anchor away: there J qd differs from eval_fk's body_qd, which the oracle matches (and MuJoCo confirms). Trees
    with such a joint are left out here.
    """
    rng = np.random.default_rng(seed)
    model = random_model(rng, 2, kinds=NO_FLOATING_INSIDE)
    q, qd = random_state(rng, model)
    H = newton.eval_mass_matrix(model, newton_state(model, q, qd)).numpy()
    articulation, qd_start = model.joint_articulation.numpy(), model.joint_qd_start.numpy()
    for world in range(2):
        dense = DenseWorld(model, q, qd, 0.01, world=world)
        P = np.linalg.inv(dense.public_from_sap)
        M = P.T @ dense.M @ P
        for a in {int(articulation[j.index]) for j in dense.tree.joints}:
            mine = [j for j in dense.tree.joints if articulation[j.index] == a]
            local = np.concatenate([np.arange(j.dof.start, j.dof.stop) for j in mine]).astype(int)
            theirs = np.concatenate([np.arange(j.public.start, j.public.stop) for j in mine]).astype(int)
            theirs -= qd_start[mine[0].index]
            if any(j.type == D6 and 0 < j.linear_count < len(j.axes) for j in mine):
                continue
            assert relative(H[a][np.ix_(theirs, theirs)], M[np.ix_(local, local)]) < 1e-5
            others = np.setdiff1d(np.arange(dense.n), local)
            assert np.all(M[np.ix_(local, others)] == 0.0)


def mujoco_twin(dense):
    """MuJoCo model and data of the same tree and state, and T with mujoco qvel = T * sap velocity (dT/dt v = 0)."""
    model, tree = dense.model, dense.tree
    mass, inertia, com = model.body_mass.numpy(), model.body_inertia.numpy(), model.body_com.numpy()

    def text(a):
        return " ".join(repr(float(x)) for x in np.ravel(a))

    def quat(R):
        return np.roll(quat_from_matrix(R), 1)

    def body(joint):
        R0, p0 = joint.R_p @ joint.R_c.T, joint.p_p - joint.R_p @ joint.R_c.T @ joint.p_c
        b, xml = joint.child, ""
        I = inertia[b].astype(float)
        xml += f'<body name="b{b}" pos="{text(p0)}" quat="{text(quat(R0))}">'
        full = [I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]]
        xml += f'<inertial pos="{text(com[b])}" mass="{float(mass[b])!r}" fullinertia="{text(full)}"/>'
        if joint.type == FREE:
            xml += f'<freejoint name="j{joint.index}_0"/>'
        elif joint.type == BALL:
            xml += f'<joint name="j{joint.index}_0" type="ball" pos="{text(joint.p_c)}"/>'
        elif joint.type in (REVOLUTE, PRISMATIC, D6):
            for k, axis in enumerate(joint.axes):
                slide = joint.type == PRISMATIC or (joint.type == D6 and k < joint.linear_count)
                kind = "slide" if slide else "hinge"
                place = f'pos="{text(joint.p_c)}" axis="{text(joint.R_c @ axis)}"'
                xml += f'<joint name="j{joint.index}_{k}" type="{kind}" {place}/>'
        return xml + "".join(body(j) for j in tree.joints if j.parent == b) + "</body>"

    xml = '<mujoco><compiler inertiafromgeom="false" angle="radian"/>'
    xml += f'<option gravity="{text(dense.gravity)}"/><worldbody>'
    xml += "".join(body(j) for j in tree.joints if j.parent < 0) + "</worldbody></mujoco>"
    mj = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(mj)
    T = np.zeros((mj.nv, dense.n))
    for joint in tree.joints:
        for k in range(len(joint.axes) if joint.type in (REVOLUTE, PRISMATIC, D6) else int(joint.type in (FREE, BALL))):
            j = mj.joint(f"j{joint.index}_{k}")
            q, v = int(j.qposadr[0]), int(j.dofadr[0])
            R_F, R = dense.poses.R_F[joint.index], dense.poses.R[joint.child]
            if joint.type == FREE:  # world velocity of the origin, angular velocity in body axes
                data.qpos[q : q + 3] = dense.poses.p[joint.child]
                data.qpos[q + 3 : q + 7] = quat(R)
                T[v : v + 3, joint.dof.start + 3 : joint.dof.stop] = R_F
                T[v + 3 : v + 6, joint.dof.start : joint.dof.start + 3] = R.T @ R_F
            elif joint.type == BALL:
                R_J = matrix_from_quat(dense.joint_q[joint.q])
                data.qpos[q : q + 4] = quat(joint.R_c @ R_J @ joint.R_c.T)
                T[v : v + 3, joint.dof] = R.T @ R_F
            else:
                data.qpos[q] = dense.joint_q[joint.q.start + k]
                T[v, joint.dof.start + k] = 1.0
    data.qvel[:] = T @ dense.v0
    mujoco.mj_forward(mj, data)
    return mj, data, T


@pytest.mark.parametrize("seed", range(8))
def test_mass_matrix_and_bias_match_mujoco(seed):
    """Branched trees of all MuJoCo's joint types with offset coms and full inertias, fp64."""
    rng = np.random.default_rng(seed)
    kinds, roots = NO_FLOATING_INSIDE, ("free", "revolute", "d6", "ball", "prismatic")
    model = random_model(rng, 1, max_bodies=5, kinds=kinds, roots=roots)
    q, qd = random_state(rng, model, speed=3.0)
    dense = DenseWorld(model, q, qd, 0.01)
    mj, data, T = mujoco_twin(dense)
    for b in dense.tree.bodies:
        np.testing.assert_allclose(data.body(f"b{b}").xpos, dense.poses.p[b], atol=1e-12)
    columns = []  # M column by column through mj_mulM, whose signature has not changed
    for e in np.eye(mj.nv):
        column = np.zeros(mj.nv)
        mujoco.mj_mulM(mj, data, column, e)
        columns.append(column)
    assert relative(T.T @ np.array(columns) @ T, dense.M) < 1e-10
    assert relative(T.T @ data.qfrc_bias, dense.c) < 1e-10


@pytest.mark.parametrize("seed", SEEDS)
def test_floating_joints_between_bodies_do_not_constrain(seed):
    """With only free and distance joints, nested or not, each body obeys its own Newton-Euler equation."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, 1, roots=("free", "distance"), kinds=("free", "distance"))
    q, qd = random_state(rng, model, speed=2.0)
    body_f = rng.normal(size=(model.body_count, 6))
    dense = DenseWorld(model, q, qd, 0.01, body_f=body_f)
    acceleration, eps = np.linalg.solve(dense.M, -dense.c), 1e-30
    moved = dense.tree.poses(dense.tree.configuration(q, dense.v0, 1j * eps))
    mass = model.body_mass.numpy()
    for b in dense.tree.bodies:
        w, I = dense.poses.Jw[b] @ dense.v0, dense.world_inertia(b)
        a = dense.com_jacobian(b) @ acceleration + dense.com_jacobian(b, moved).imag / eps @ dense.v0
        alpha = dense.poses.Jw[b] @ acceleration + moved.Jw[b].imag / eps @ dense.v0
        np.testing.assert_allclose(a, dense.gravity + body_f[b, :3] / mass[b], atol=1e-9)
        np.testing.assert_allclose(I @ alpha + np.cross(w, I @ w), body_f[b, 3:], atol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_bias_balances_power(seed):
    """Keeping the velocity fixed takes the power d/dt(kinetic energy) minus the power of gravity."""
    dense = problem(seed, contacts=0)
    tree, v, h = dense.tree, dense.v0, 1e-30
    q, qd = dense.joint_q, dense.joint_qd
    bare = DenseWorld(dense.model, q, qd, 0.01)
    moved = tree.poses(tree.configuration(q, v, 1j * h))
    power = 0.0
    for b in tree.bodies:
        m, I_body, R = dense._mass[b], dense._inertia[b], moved.R[b]
        vc, w = bare.com_jacobian(b, moved) @ v, moved.Jw[b] @ v
        energy = 0.5 * m * vc @ vc + 0.5 * w @ (R @ I_body @ R.T) @ w
        energy -= m * bare.gravity @ (moved.p[b] + R @ tree.com[b])
        power += energy.imag / h
    assert abs(v @ bare.c - power) < 1e-10 * max(1.0, np.abs(v * bare.c).sum())


@pytest.mark.parametrize("seed", SEEDS)
def test_free_joint_force_equals_body_wrench(seed):
    """joint_f of a world-parented floating joint is the world wrench at the centre of mass, like body_f."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, 1, trees=2, max_bodies=1, roots=("free", "distance"))
    q, qd = random_state(rng, model)
    wrench = rng.normal(size=(model.body_count, 6))
    by_body = DenseWorld(model, q, qd, 0.01, body_f=wrench)
    by_joint = DenseWorld(model, q, qd, 0.01, joint_f=wrench.ravel())
    np.testing.assert_allclose(by_joint.v_star, by_body.v_star, atol=1e-12)


# --- terms ------------------------------------------------------------------------------------------------------------


def check_derivatives(f, x, step=1e-6, tolerance=1e-6):
    """Gradient and Hessian of f = (value, gradient, Hessian) by central differences."""
    _, g, H = (np.asarray(a) for a in f(x)[:3])
    x = np.asarray(x, dtype=float)
    for i, e in enumerate(np.eye(x.size).reshape(x.size, *x.shape)):
        up, down = f(x + step * e), f(x - step * e)
        scale = max(np.abs(g).max(), 1e-3)
        assert abs((up[0] - down[0]) / (2 * step) - np.ravel(g)[i]) < tolerance * scale
        difference = (np.ravel(up[1]) - np.ravel(down[1])) / (2 * step)
        assert np.abs(difference - H.reshape(x.size, x.size)[:, i]).max() < tolerance * max(np.abs(H).max(), 1e-3)


@pytest.mark.parametrize("region", ["stiction", "sliding", "apart", "frictionless"])
def test_contact_derivatives(region):
    """impulse = -d cost, G = d2 cost in every region, at random regularizations."""
    rng, seen = np.random.default_rng(7), 0
    while seen < 30:
        mu = 0.0 if region == "frictionless" else rng.uniform(0.1, 1.5)
        Rt, Rn = 10.0 ** rng.uniform(-2, 0, 2)
        vc, vhat = rng.normal(size=3), np.array([0.0, 0.0, rng.normal()])
        margin = {terms.contact_cost(vc + d, vhat, mu, Rt, Rn)[3] for d in 1e-5 * np.vstack([np.eye(3), -np.eye(3)])}
        if margin == {region}:  # away from the boundaries of the region
            check_derivatives(lambda x, a=(vhat, mu, Rt, Rn): terms.contact_cost(x, *a), vc)
            seen += 1


def test_contact_derivatives_at_vanishing_slip():
    """The soft norm keeps the derivatives consistent where |y_t| is comparable to its eps of 1e-7."""
    mu, Rt, Rn = 0.5, 0.1, 0.2
    for yt in (0.0, 3e-8, 1e-7, 1e-6):
        vc = np.array([-Rt * yt * 0.6, Rt * yt * 0.8, 0.0])
        vhat = np.array([0.0, 0.0, -Rn * 1e-9])  # barely apart in y_n: sliding for all but the smallest slips
        _, g, H, _ = terms.contact_cost(vc, vhat, mu, Rt, Rn)
        assert np.all(np.isfinite(H))
        assert np.all(np.isfinite(g))
        for i, e in enumerate(np.eye(3)):
            up, down = (terms.contact_cost(vc + s * 1e-12 * e, vhat, mu, Rt, Rn) for s in (1, -1))
            if up[3] == down[3]:
                difference = (up[1] - down[1]) / 2e-12
                np.testing.assert_allclose(difference, H[:, i], rtol=2e-3, atol=1e-4)


def test_contact_impulse_lies_in_the_cone_and_is_continuous():
    rng = np.random.default_rng(3)
    for _ in range(200):
        mu, Rt, Rn = rng.uniform(0.05, 1.5), *10.0 ** rng.uniform(-4, 0, 2)
        y = rng.normal(size=3)
        gamma = terms.contact_projection(y, mu, Rt, Rn)[0]
        assert gamma[2] >= 0.0
        assert np.linalg.norm(gamma[:2]) <= mu * gamma[2] + 2e-7
        t = y[:2] / np.linalg.norm(y[:2])
        for boundary in (np.linalg.norm(y[:2]) / mu, -mu * Rt / Rn * np.linalg.norm(y[:2])):
            low, high = (terms.contact_projection(np.append(y[:2], boundary + s), mu, Rt, Rn)[0] for s in (-1e-6, 1e-6))
            np.testing.assert_allclose(low, high, atol=1e-5)
        assert abs(np.cross(np.append(gamma[:2], 0), np.append(t, 0))[2]) < 1e-12


def test_scalar_term_derivatives():
    """Drive, limit, friction and velocity limit inside and outside their ranges."""
    for v in (-3.0, -0.4, 0.05, 0.3, 2.0):
        for f in (
            lambda x: terms.drive(x, 2.0, 4.0, 1.5, 0.01),
            lambda x: terms.drive(x, 2.0, 4.0, np.inf, 0.01),
            lambda x: terms.drive(x, 2.0, 0.0, 1.5, 0.01),
            lambda x: terms.unilateral(x, 0.1, 0.2),
            lambda x: terms.dry_friction(x, 0.7, 0.2),
            lambda x: terms.velocity_limit(x, 0.35, 0.2),
        ):
            check_derivatives(f, v)


@pytest.mark.parametrize("seed", range(10))
def test_objective_derivatives(seed):
    """The whole cost: gradient and Hessian by differences at random velocities."""
    weight, point = MODES[seed % len(MODES)]
    dense = problem(seed, weight=weight, point=point)
    rng = np.random.default_rng(seed + 100)
    for v in (dense.v0, dense.v_star, rng.normal(size=dense.n)):
        g, H, d = dense.grad(v), dense.hess(v), rng.normal(size=dense.n)
        np.testing.assert_allclose(H, H.T, atol=1e-9 * np.abs(H).max())
        s = 1e-7
        assert relative((dense.grad(v + s * d) - dense.grad(v - s * d)) / (2 * s), H @ d) < 1e-5
        s = 1e-5
        slope = (dense.cost(v + s * d) - dense.cost(v - s * d)) / (2 * s)
        assert abs(slope - g @ d) < 1e-6 * np.abs(g * d).sum()


# --- minimizer --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(18))
def test_minimizer_is_stationary_and_lowest(seed):
    """Residual near machine precision, the same minimum from another guess, no lower cost nearby."""
    weight, point = MODES[seed % len(MODES)]
    dense = problem(seed, weight=weight, point=point, speed=0.3 if seed % 2 else 2.0, contacts=8)
    v = dense.minimize()
    assert dense.residual(v) < 1e-11
    rng = np.random.default_rng(seed)
    other = dense.minimize(v + rng.normal(size=dense.n))
    np.testing.assert_allclose(other, v, atol=1e-8 * max(1.0, np.abs(v).max()))
    for _ in range(5):
        assert dense.cost(v + 1e-3 * rng.normal(size=dense.n)) > dense.cost(v)


def test_random_problems_reach_every_region_and_term():
    """The generator is worth using only if it exercises everything."""
    regions, names, types = set(), set(), set()
    for seed in range(30):
        dense = problem(seed, speed=0.3 if seed % 2 else 2.0)
        regions |= set(dense.contact_regions(dense.minimize()))
        names |= {t.name for t in dense.scalar_terms}
        types |= {j.type for j in dense.tree.joints}
        assert dense.n <= 30
    assert regions == {"stiction", "sliding", "apart", "frictionless"}
    assert names == {"drive", "limit", "friction", "velocity_limit", "distance"}
    assert types == set(range(7))


# --- hand calculations ------------------------------------------------------------------------------------------------


def hinge(q=0.0, qd=0.0, dt=0.01, options=None, inertia=0.5, **dof):
    """One hinge about the z axis through the centre of mass: gravity does not act."""
    builder = newton.ModelBuilder()
    body = builder.add_link(mass=1.0, inertia=wp.mat33(*(inertia * np.eye(3)).ravel()), lock_inertia=True)
    axis = newton.ModelBuilder.JointDofConfig(axis=newton.Axis.Z, **dof)
    builder.add_articulation([builder.add_joint_revolute(-1, body, axis=axis)])
    model = builder.finalize(device="cpu")
    controls = {"joint_target_q": np.array([1.0]), "joint_target_qd": np.array([2.0]), "joint_act": np.array([0.3])}
    return DenseWorld(model, np.array([q]), np.array([qd]), dt, options=options, **controls)


@pytest.mark.parametrize(
    ("mode", "stiffness", "feed"),
    [
        ("NONE", (0, 0), 0.0),
        ("EFFORT", (0, 0), 0.3),
        ("POSITION", (8, 3), 8.3),
        ("VELOCITY", (0, 3), 6.3),
        ("POSITION_VELOCITY", (8, 3), 14.3),
    ],
)
def test_drive_modes_by_hand(mode, stiffness, feed):
    """v = (I v0 + h u0)/(I + h(h kp + kd)) with what each mode uses of gains and targets."""
    world = hinge(qd=0.7, target_ke=8.0, target_kd=3.0, actuator_mode=newton.JointTargetMode[mode])
    kp, kd = stiffness
    expected = (0.5 * 0.7 + 0.01 * feed) / (0.5 + 0.01 * (0.01 * kp + kd))
    np.testing.assert_allclose(world.minimize(), [expected], rtol=1e-12)


def test_ball_drive_turns_towards_its_target():
    """The position error of a ball joint is the angular velocity in F axes that reaches the target in unit time."""
    rng = np.random.default_rng(2)
    model = random_model(rng, 1, trees=1, max_bodies=1, roots=("ball",))
    q, qd = random_state(rng, model)
    target, _ = random_state(rng, model)
    dense = DenseWorld(model, q, qd, 0.01)
    error = dense._position_error(dense.tree.joints[0], target)
    reached = dense.tree.advance(q, error, 1.0, exponential=True)
    np.testing.assert_allclose(matrix_from_quat(reached), matrix_from_quat(target), atol=1e-12)
    assert np.linalg.norm(error) <= np.pi + 1e-12


def test_drive_saturates_and_near_rigid_gains_are_capped():
    mode = newton.JointTargetMode.POSITION
    world = hinge(qd=0.7, target_ke=1e3, effort_limit=2.0, actuator_mode=mode)
    np.testing.assert_allclose(world.minimize(), [0.7 + 0.01 * 2.0 / 0.5], rtol=1e-12)
    world = hinge(qd=0.7, target_ke=1e12, effort_limit=1e30, actuator_mode=mode)
    cap = 4 * np.pi**2 / 0.01 * 0.5  # h (h kp + kd) = 1/R_nr
    expected = (0.5 * 0.7 + cap / 0.01 * 1.0 + 0.01 * 0.3) / (0.5 + cap)
    np.testing.assert_allclose(world.minimize(), [expected], rtol=1e-8)


def test_limits_friction_and_damping_by_hand():
    h = 0.01
    stuck = hinge(qd=1e-3, friction=1.0)
    R = 1e-3 / 0.5
    np.testing.assert_allclose(stuck.minimize(), [0.5e-3 / (0.5 + 1 / R)], rtol=1e-12)
    np.testing.assert_allclose(hinge(qd=1.0, friction=1.0).minimize(), [1.0 - h / 0.5], rtol=1e-12)
    np.testing.assert_allclose(hinge(qd=1.0, damping=2.0).minimize(), [1.0 - 2 * h / (0.5 + 2 * h)], rtol=1e-12)
    limit = {"limit_lower": -1.0, "limit_upper": 0.5, "limit_ke": 1e3, "limit_kd": 10.0}
    world = hinge(q=0.51, qd=2.0, **limit)
    K = h * 1e3 * (h + 0.01)  # 1/R
    vhat = -(0.5 - 0.51) / (h + 0.01)  # the limit acts along -v
    np.testing.assert_allclose(world.minimize(), [(0.5 * 2.0 - K * vhat) / (0.5 + K)], rtol=1e-6)
    assert hinge(q=0.4, qd=2.0, **limit).scalar_terms == []  # gap 0.1 > 2 h v = 0.04
    K = 4 * np.pi**2 / 0.01 * 0.5
    fast = hinge(qd=3.0, velocity_limit=2.0)
    np.testing.assert_allclose(fast.minimize(), [(0.5 * 3.0 + K * 2.0) / (0.5 + K)], rtol=1e-12)
    ignored = hinge(qd=3.0, velocity_limit=2.0, options=OracleOptions(velocity_limit_mode="ignore"))
    np.testing.assert_allclose(ignored.minimize(), [3.0], rtol=1e-12)


def test_contact_data_of_a_ball_by_hand():
    """Weights, regularization, gap and normal impulse of a ball resting in the plane."""
    radius, mass, ke, h, tau = 0.125, 2.0, 1e4, 0.01, 0.02
    model = sphere_model(radius, mass, ke)
    q = np.array([0.3, -0.2, 0.12, 0, 0, 0, 1.0])
    record = ground_contact(radius, q[:3])
    inertia = float(model.body_inertia.numpy()[0, 0, 0])
    tangent, normal = 1 / mass + radius**2 / inertia, 1 / mass
    expected = {
        "body_inertia": (2 * tangent + normal) / 3,
        "diag_delassus": np.sqrt(2 * tangent**2 + normal**2) / 3,
        "delassus": np.sqrt(2 * tangent**2 + normal**2) / 3,
    }
    for mode, w in expected.items():
        options = OracleOptions(contact_weight_mode=mode, contact_tau_d=tau / 2)
        world = DenseWorld(model, q, np.zeros(6), h, contacts=[record], options=options)
        np.testing.assert_allclose(world.w, [w], rtol=1e-12)
        np.testing.assert_allclose(world.Rn, [max(w / (4 * np.pi**2), 1 / (h * ke / 2 * (h + tau)))], rtol=1e-12)
        np.testing.assert_allclose(world.Rt, [1e-3 * w], rtol=1e-12)
        np.testing.assert_allclose(world.phi0, [-0.005], atol=1e-12)
        np.testing.assert_allclose(world.mu, [0.5])
        v = world.minimize()
        Rn, free = world.Rn[0], float(world.gravity[2]) * h
        vn = (mass * free + 0.005 / (h + tau) / Rn) / (mass + 1 / Rn)
        np.testing.assert_allclose(v, [0, 0, 0, 0, 0, vn], atol=1e-12)
        np.testing.assert_allclose(world.contact_impulses_world(v), [[0, 0, mass * (vn - free)]], atol=1e-12)


def test_rolling_ball_needs_the_surface_point():
    """A ball rolling without slip feels no friction: velocities are taken at the surface, not at the core."""
    radius = 0.125
    model = sphere_model(radius)
    q, qd = np.array([0, 0, 0.12, 0, 0, 0, 1.0]), np.array([0.5, 0, 0, 0, 0.5 / 0.12, 0])
    for point, lever in (("witness_point", 0.125), ("contact_midpoint", 0.1225)):
        options = OracleOptions(contact_point_mode=point)
        qd[4] = 0.5 / lever
        world = DenseWorld(model, q, qd, 0.01, contacts=[ground_contact(radius, q[:3])], options=options)
        np.testing.assert_allclose((world.J @ world.v0)[:2], 0.0, atol=1e-12)


# --- Drake ------------------------------------------------------------------------------------------------------------


def drake_plant(h):
    from pydrake.geometry import SceneGraph
    from pydrake.multibody.plant import ContactModel, DiscreteContactApproximation, MultibodyPlant
    from pydrake.systems.framework import DiagramBuilder

    builder = DiagramBuilder()
    plant = builder.AddSystem(MultibodyPlant(h))
    scene = builder.AddSystem(SceneGraph())
    plant.RegisterAsSourceForSceneGraph(scene)
    plant.set_discrete_contact_approximation(DiscreteContactApproximation.kSap)
    plant.set_contact_model(ContactModel.kPoint)
    return builder, plant, scene


def drake_inertia(mass, com, about_com):
    from pydrake.multibody.tree import RotationalInertia, SpatialInertia

    I = about_com
    rotational = RotationalInertia(I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
    return SpatialInertia.MakeFromCentralInertia(mass, com, rotational)


def drake_collision(plant, body, shape, pose, name, ke, tau, mu):
    from pydrake.geometry import AddContactMaterial, ProximityProperties
    from pydrake.multibody.plant import CoulombFriction

    properties = ProximityProperties()
    AddContactMaterial(None, ke, CoulombFriction(mu, mu), properties)
    properties.AddProperty("material", "relaxation_time", tau)
    plant.RegisterCollisionGeometry(body, pose, shape, name, properties)


def drake_step(builder, plant, scene, h, prepare):
    from pydrake.systems.analysis import Simulator

    builder.Connect(plant.get_geometry_pose_output_port(), scene.get_source_pose_port(plant.get_source_id()))
    builder.Connect(scene.get_query_output_port(), plant.get_geometry_query_input_port())
    diagram = builder.Build()
    context = diagram.CreateDefaultContext()
    mine = plant.GetMyMutableContextFromRoot(context)
    prepare(mine)
    simulator = Simulator(diagram, context)
    simulator.Initialize()
    simulator.AdvanceTo(h)
    return plant.GetMyContextFromRoot(simulator.get_context())


@pytest.mark.parametrize(
    ("velocity", "spin", "ke", "tau", "mu", "tolerance"),
    [
        ((0.8, -0.3, 0.0), (2.0, 5.0, 1.0), 1e4, 0.01, 0.3, 1e-6),  # sliding and spinning
        ((0.1, 0.05, -0.2), (0.3, -0.4, 0.2), 1e3, 0.02, 0.9, 1e-9),  # slides slowly
        ((1.0, 1.0, -1.0), (-7.0, 3.0, 8.0), 1e8, 0.0, 0.6, 1e-9),  # near rigid impact
        ((0.2, 0.0, 3.0), (0.0, 1.0, 0.0), 1e4, 0.01, 0.5, 1e-9),  # leaves
    ],
)
def test_one_drake_step_of_a_ball(velocity, spin, ke, tau, mu, tolerance):
    """Velocities and pose after one step of Drake's SAP with point contact.

    The centre of mass is off centre on purpose: only then do the weights differ, and Drake 1.51 turns out to use
    J diag(A)^-1 J^T (`diag_delassus`), not the exact Delassus operator. Drake stops at a residual of 1e-6; in the
    first case it really stops at 2e-7, in the others a last Newton step took it far below.
    """
    from pydrake.geometry import HalfSpace, Sphere
    from pydrake.math import RigidTransform, RotationMatrix
    from pydrake.multibody.math import SpatialVelocity

    h, radius, mass = 0.01, 0.125, 2.0
    com = np.array([0.0, 0.03125, -0.015625])
    model = sphere_model(radius, mass, ke, mu, com=com)
    rng = np.random.default_rng(5)
    quat = rng.normal(size=4)
    quat /= np.linalg.norm(quat)
    R, center = matrix_from_quat(quat), np.array([0.2, -0.1, 0.121])
    w, v_O = np.array(spin), np.array(velocity)
    q = np.concatenate([center, quat])
    qd = np.concatenate([v_O + np.cross(w, R @ com), w])
    shape_mu, shape_ke = (float(a.numpy()[0]) for a in (model.shape_material_mu, model.shape_material_ke))
    options = OracleOptions("diag_delassus", "contact_midpoint", shape_tau=np.full(2, tau))
    record = ground_contact(radius, center, R)
    world = DenseWorld(model, q, qd, h, contacts=[record], options=options)
    v = world.minimize()

    builder, plant, scene = drake_plant(h)
    I = model.body_inertia.numpy()[0].astype(float)
    body = plant.AddRigidBody("ball", drake_inertia(mass, com, I))
    pose = RigidTransform()
    drake_collision(plant, body, Sphere(radius), pose, "ball", shape_ke, tau, shape_mu)
    drake_collision(plant, plant.world_body(), HalfSpace(), pose, "ground", shape_ke, tau, shape_mu)
    plant.mutable_gravity_field().set_gravity_vector(world.gravity)
    plant.Finalize()

    def prepare(context):
        plant.SetFreeBodyPose(context, body, RigidTransform(RotationMatrix(R), center))
        plant.SetFreeBodySpatialVelocity(context=context, body=body, V_JpJc=SpatialVelocity(w, v_O))

    context = drake_step(builder, plant, scene, h, prepare)
    V = plant.EvalBodySpatialVelocityInWorld(context, body)
    theirs = np.concatenate([V.rotational(), V.translational()])
    assert world.residual(theirs) < tolerance
    np.testing.assert_allclose(v, theirs, rtol=0.0, atol=tolerance)
    X, (q1, _) = plant.EvalBodyPoseInWorld(context, body), world.integrate(v, "sap_euler")
    np.testing.assert_allclose(q1[:3], X.translation(), rtol=0.0, atol=h * tolerance)
    np.testing.assert_allclose(matrix_from_quat(q1[3:]), X.rotation().matrix(), rtol=0.0, atol=h * tolerance)


@pytest.mark.parametrize(("effort", "kp", "tolerance"), [(1e3, 64.0, 1e-7), (0.5, 64.0, 1e-9), (1e12, 1e9, 1e-9)])
def test_one_drake_step_of_a_driven_arm_in_contact(effort, kp, tolerance):
    """Two hinges with armature, damping and PD drives (free, saturated, near rigid), a ball at the tip scraping."""
    from pydrake.geometry import HalfSpace, Sphere
    from pydrake.math import RigidTransform
    from pydrake.multibody.tree import FixedOffsetFrame, PdControllerGains, RevoluteJoint

    h, radius, ke, tau, mu = 0.005, 0.0625, 2e5, 0.01, 0.5
    kd, armature, damping = 2.0, 0.0625, 0.25
    axes = [np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0])]
    anchors = [np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, -0.5])]
    com, tip = np.array([0.0625, 0.03125, -0.25]), np.array([0.0, 0.0, -0.5])
    inertia = fp32(np.array([[0.05, 0.002, 0.001], [0.002, 0.04, -0.003], [0.001, -0.003, 0.02]]))
    q, qd = np.array([0.25, 0.125]), np.array([1.5, -0.75])
    target_q, target_qd, act = np.array([0.5, -0.25]), np.array([0.5, 1.0]), np.array([0.25, -1.0])

    builder = newton.ModelBuilder()
    cfg = newton.ModelBuilder.ShapeConfig(ke=ke, mu=mu, density=0.0, gap=0.0)
    builder.add_ground_plane(cfg=cfg)
    parent, joints = -1, []
    for axis, anchor in zip(axes, anchors, strict=True):
        body = builder.add_link(mass=1.5, com=com, inertia=wp.mat33(*inertia.ravel()), lock_inertia=True)
        dof = newton.ModelBuilder.JointDofConfig(
            axis=wp.vec3(*axis),
            target_ke=kp,
            target_kd=kd,
            armature=armature,
            damping=damping,
            effort_limit=effort,
            actuator_mode=newton.JointTargetMode.POSITION_VELOCITY,
        )
        xform = wp.transform(wp.vec3(*anchor), wp.quat_identity())
        joints.append(builder.add_joint_revolute(parent, body, axis=dof, parent_xform=xform))
        parent = body
    builder.add_articulation(joints)
    builder.add_shape_sphere(body, xform=wp.transform(wp.vec3(*tip), wp.quat_identity()), radius=radius, cfg=cfg)
    model = builder.finalize(device="cpu")

    tree = Tree(model)
    poses = tree.poses(tree.configuration(q))
    center = poses.p[1] + poses.R[1] @ tip
    ground = center[2] - radius + 0.002  # penetration of 2 mm
    n = np.array([0.0, 0.0, 1.0])
    record = Contact(0, 1, np.append(center[:2], ground), tip, np.zeros(3), -poses.R[1].T @ n * radius, n, 0.0, radius)
    options = OracleOptions("diag_delassus", "contact_midpoint", shape_tau=np.full(2, tau))
    controls = {"joint_target_q": target_q, "joint_target_qd": target_qd, "joint_act": act}
    world = DenseWorld(model, q, qd, h, contacts=[record], options=options, **controls)
    v = world.minimize()
    assert world.contact_impulses_world(v)[0, 2] > 0.0

    builder, plant, scene = drake_plant(h)
    parent, bodies = plant.world_body(), []
    for i, (axis, anchor) in enumerate(zip(axes, anchors, strict=True)):
        body = plant.AddRigidBody(f"link{i}", drake_inertia(1.5, com, inertia))
        frame = plant.AddFrame(FixedOffsetFrame(f"anchor{i}", parent.body_frame(), RigidTransform(anchor)))
        joint = plant.AddJoint(RevoluteJoint(f"hinge{i}", frame, body.body_frame(), axis, damping))
        actuator = plant.AddJointActuator(f"motor{i}", joint, effort)
        actuator.set_controller_gains(PdControllerGains(p=kp, d=kd))
        actuator.set_default_rotor_inertia(armature)
        actuator.set_default_gear_ratio(1.0)
        bodies.append(body)
        parent = body
    drake_collision(plant, parent, Sphere(radius), RigidTransform(tip), "tip", ke, tau, float(np.float32(mu)))
    floor = RigidTransform(np.array([0.0, 0.0, ground]))
    drake_collision(plant, plant.world_body(), HalfSpace(), floor, "ground", ke, tau, float(np.float32(mu)))
    plant.mutable_gravity_field().set_gravity_vector(world.gravity)
    plant.Finalize()

    def prepare(context):
        plant.SetPositions(context, q)
        plant.SetVelocities(context, qd)
        instance = bodies[0].model_instance()
        plant.get_desired_state_input_port(instance).FixValue(context, np.concatenate([target_q, target_qd]))
        plant.get_actuation_input_port(instance).FixValue(context, act)

    context = drake_step(builder, plant, scene, h, prepare)
    theirs = plant.GetVelocities(context)
    assert world.residual(theirs) < tolerance
    np.testing.assert_allclose(v, theirs, rtol=0.0, atol=tolerance)


# --- integration ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sap_euler", "midpoint"])
@pytest.mark.parametrize("seed", SEEDS)
def test_integration_follows_the_velocity(seed, mode):
    """For every joint type the poses move with J v to first order, and quaternions stay unit."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, 2)
    q, qd = random_state(rng, model)
    h = 1e-6
    dense = DenseWorld(model, q, qd, h, world=1)
    v = dense.v0 + 1e-3 * rng.normal(size=dense.n)
    used = v if mode == "sap_euler" else 0.5 * (v + dense.v0)
    q1, qd1 = dense.integrate(v, mode)
    poses = dense.tree.poses(dense.tree.configuration(q1))
    for b in dense.tree.bodies:
        np.testing.assert_allclose((poses.p[b] - dense.poses.p[b]) / h, dense.poses.Jv[b] @ used, atol=2e-4)
        rate = np.cross(dense.poses.Jw[b] @ used, dense.poses.R[b].T).T
        np.testing.assert_allclose((poses.R[b] - dense.poses.R[b]) / h, rate, atol=2e-4)
    # public velocity at the new pose carries v, and the other world is untouched
    again = DenseWorld(model, q1, qd1, h, world=1)
    np.testing.assert_allclose(again.v0, v, atol=1e-12)
    other = Tree(model, 0)
    for joint in other.joints:
        assert np.all(q1[joint.q] == q[joint.q])
        assert np.all(qd1[joint.public] == qd[joint.public])


def test_midpoint_turns_by_the_exact_angle():
    """A ball spinning about a fixed axis turns by h w; its origin goes straight even if the anchor is offset."""
    anchor = wp.transform(wp.vec3(0.25, -0.5, 0.125), wp.quat(0.5, 0.5, 0.5, 0.5))
    model = sphere_model(com=(0.0625, 0.0, 0.0), child_xform=anchor)
    rng = np.random.default_rng(0)
    q, qd = random_state(rng, model)
    h = 0.1
    dense = DenseWorld(model, q, qd, h)
    q1, _ = dense.integrate(dense.v0, "midpoint")
    after = DenseWorld(model, q1, qd, h)
    w, v_O = dense.v0[:3], dense.v0[3:]
    angle = np.linalg.norm(w) * h
    K = np.cross(w / np.linalg.norm(w), np.eye(3)).T
    turn = np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K
    np.testing.assert_allclose(after.poses.R[0], turn @ dense.poses.R[0], atol=1e-13)
    np.testing.assert_allclose(after.poses.p[0], dense.poses.p[0] + h * v_O, atol=1e-13)


# --- contacts in Newton's buffers -------------------------------------------------------------------------------------


def test_contact_records_survive_newton_buffers():
    """fill_newton_contacts and contacts_from_newton are inverse, world by world."""
    rng = np.random.default_rng(1)
    model = random_model(rng, 3)
    q, _ = random_state(rng, model)
    records = [random_contacts(rng, model, w, 5, q, overrides=True) for w in range(3)]
    buffer = fill_newton_contacts(model, [r for part in records for r in part], capacity=40)
    for world in range(3):
        back = contacts_from_newton(model, buffer, world)
        assert len(back) == 5
        for a, b in zip(records[world], back, strict=True):
            for name in a.__dataclass_fields__:
                x, y = getattr(a, name), getattr(b, name)
                assert (x is None) == (y is None), name
                assert x is None or np.array_equal(x, y), name


def test_newton_collision_is_read_as_the_oracle_means_it():
    """A ball in the plane through Newton's pipeline: gap, normal and surface points."""
    model = sphere_model(radius=0.125)
    q = np.array([0.25, -0.5, 0.12, 0.5, 0.5, 0.5, 0.5])
    pipeline = newton.CollisionPipeline(model)
    buffer = pipeline.contacts()
    pipeline.collide(newton_state(model, q, np.zeros(6)), buffer)
    records = contacts_from_newton(model, buffer)
    assert len(records) == 1
    world = DenseWorld(model, q, np.zeros(6), 0.01, contacts=records)
    np.testing.assert_allclose(world.phi0, [-0.005], atol=1e-6)
    heights = {0: 0.0, 1: -0.005}
    for side, point in enumerate(world.points[0]):
        shape = (records[0].shape0, records[0].shape1)[side]
        np.testing.assert_allclose(point, [0.25, -0.5, heights[shape]], atol=1e-6)
