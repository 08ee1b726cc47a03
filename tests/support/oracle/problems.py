"""Random problems for oracle and solver alike, and the bridge between contact records and `newton.Contacts`.

All random numbers handed out are representable in fp32, because that is what Newton stores: oracle and solver then read
the same values. Unit vectors and quaternions are unit only to fp32 rounding (the oracle normalizes them in fp64);
``exact=True`` restricts frames, axes and normals to those that are unit to the last bit, for comparisons beyond 1e-7.
"""

from __future__ import annotations

import newton
import numpy as np
import warp as wp

from .dense_sap import Contact
from .kinematics import (
    BALL,
    DISTANCE,
    FREE,
    PRISMATIC,
    REVOLUTE,
    Tree,
    array64,
    array_int,
    matrix_from_quat,
    quat_from_matrix,
    quat_from_rotation_vector,
)

_ROOTS = ("free", "revolute", "distance", "d6", "ball", "prismatic")


def fp32(x):
    """Round to fp32, keep as float64."""
    return np.asarray(x, dtype=np.float32).astype(np.float64)


def _quat(rng, exact):
    if exact:  # the 24 Hurwitz units are the only quaternions with dyadic components of norm exactly 1
        if rng.random() < 0.5:
            return rng.choice([-0.5, 0.5], 4)
        return np.eye(4)[rng.integers(4)]
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def _unit(rng, exact):
    if exact:
        return np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0])
    a = rng.normal(size=3)
    return a / np.linalg.norm(a)


def _basis(rng, exact):
    """Rows are orthonormal, of either handedness."""
    basis = np.eye(3) if exact else np.linalg.qr(rng.normal(size=(3, 3)))[0].T
    return basis[rng.permutation(3)] * rng.choice([-1.0, 1.0], 3)[:, None]


def _xform(rng, exact, scale=0.3):
    if rng.random() < 0.25:
        return wp.transform()
    return wp.transform(wp.vec3(*rng.uniform(-scale, scale, 3)), wp.quat(*_quat(rng, exact)))


def _inertia(rng, mass):
    """Full inertia tensor of a random cloud of points: always physical."""
    r = rng.normal(size=(6, 3)) * rng.uniform(0.05, 0.2)
    return sum(mass / 6 * ((p @ p) * np.eye(3) - np.outer(p, p)) for p in r) + 1e-3 * mass * np.eye(3)


def _dof(rng, axis):
    """One revolute, prismatic or d6 dof with a random selection of drive, limits, friction, damping and armature."""
    mode = newton.JointTargetMode(int(rng.integers(5)))
    limited = rng.random() < 0.5
    lower = rng.uniform(-1.0, 0.2)
    return newton.ModelBuilder.JointDofConfig(
        axis=wp.vec3(*axis),
        actuator_mode=mode,
        target_ke=10.0 ** rng.uniform(0, 3) if rng.random() < 0.8 else 1e8,  # the latter meets the near-rigid cap
        target_kd=10.0 ** rng.uniform(-1, 2) if rng.random() < 0.8 else 0.0,
        effort_limit=10.0 ** rng.uniform(-1, 2) if rng.random() < 0.5 else 1e6,
        damping=rng.uniform(0.0, 2.0) if rng.random() < 0.5 else 0.0,
        armature=rng.uniform(0.0, 0.2) if rng.random() < 0.5 else 0.0,
        friction=rng.uniform(0.0, 3.0) if rng.random() < 0.5 else 0.0,
        velocity_limit=rng.uniform(0.2, 2.0) if rng.random() < 0.3 else 1e6,
        limit_lower=lower if limited else -1e10,
        limit_upper=lower + rng.uniform(0.2, 1.5) if limited else 1e10,
        limit_ke=10.0 ** rng.uniform(3, 8),
        limit_kd=10.0 ** rng.uniform(0, 3),
    )


def _add_joint(builder, rng, kind, parent, child, exact):
    frames = {"parent_xform": _xform(rng, exact), "child_xform": _xform(rng, exact)}
    if kind == "free":
        return builder.add_joint_free(child, parent=parent, **frames)
    if kind == "distance":
        lower = rng.choice([-1.0, 0.2, 0.8])
        upper = rng.choice([-1.0, 1.0, 0.9])
        return builder.add_joint_distance(parent, child, min_distance=lower, max_distance=upper, **frames)
    if kind == "fixed":
        return builder.add_joint_fixed(parent, child, **frames)
    if kind == "ball":
        joint = builder.add_joint_ball(
            parent,
            child,
            armature=rng.uniform(0.0, 0.2),
            friction=rng.choice([0.0, rng.uniform(0.1, 2.0)]),
            damping=rng.choice([0.0, rng.uniform(0.1, 1.0)]),
            actuator_mode=newton.JointTargetMode(int(rng.integers(5))),
            **frames,
        )
        start = builder.joint_qd_start[joint]
        for d in range(start, start + 3):
            builder.joint_target_ke[d] = 10.0 ** rng.uniform(0, 3)
            builder.joint_target_kd[d] = 10.0 ** rng.uniform(-1, 1)
        return joint
    if kind == "revolute":
        return builder.add_joint_revolute(parent, child, axis=_dof(rng, _unit(rng, exact)), **frames)
    if kind == "prismatic":
        return builder.add_joint_prismatic(parent, child, axis=_dof(rng, _unit(rng, exact)), **frames)
    linear, angular = int(rng.integers(0, 4)), int(rng.integers(0, 4))
    if linear + angular == 0:
        angular = 2
    linear_basis, angular_basis = _basis(rng, exact), _basis(rng, exact)
    return builder.add_joint_d6(
        parent,
        child,
        linear_axes=[_dof(rng, linear_basis[i]) for i in range(linear)],
        angular_axes=[_dof(rng, angular_basis[i]) for i in range(angular)],
        **frames,
    )


def _add_tree(builder, rng, root, length, kinds, exact, massless=0.0, kinematic=0.0):
    """A random branching tree; returns its number of dofs.

    Links without mass get armature at all their dofs, so that A stays regular.
    """
    bodies, joints, start = [], [], builder.joint_dof_count
    for i in range(length):
        empty = massless > 0.0 and rng.random() < massless
        given = i == 0 and kinematic > 0.0 and rng.random() < kinematic
        mass = 0.0 if empty else rng.uniform(0.3, 3.0)
        body = builder.add_link(
            mass=mass,
            com=wp.vec3(*(rng.uniform(-0.15, 0.15, 3) if rng.random() < 0.7 else np.zeros(3))),
            inertia=wp.mat33(*_inertia(rng, mass).ravel()),
            lock_inertia=True,
            is_kinematic=given,
        )
        parent = -1 if i == 0 else int(rng.choice(bodies))
        first = builder.joint_dof_count
        joints.append(_add_joint(builder, rng, root if i == 0 else rng.choice(kinds), parent, body, exact))
        for dof in range(first, builder.joint_dof_count) if empty else ():
            builder.joint_armature[dof] = rng.uniform(0.05, 0.2)
        bodies.append(body)
        cfg = newton.ModelBuilder.ShapeConfig(
            ke=10.0 ** rng.uniform(3, 7),
            mu=0.0 if rng.random() < 0.1 else rng.uniform(0.1, 2.0),
            density=0.0,
            gap=0.0,
        )
        if rng.random() < 0.5:
            builder.add_shape_sphere(body, xform=_xform(rng, exact, 0.1), radius=rng.uniform(0.05, 0.2), cfg=cfg)
        else:
            hx, hy, hz = rng.uniform(0.05, 0.2, 3)
            builder.add_shape_box(body, xform=_xform(rng, exact, 0.1), hx=hx, hy=hy, hz=hz, cfg=cfg)
    builder.add_articulation(joints)
    return builder.joint_dof_count - start


def _add_couplings(builder, rng, joints, bodies):
    """One mimic joint and one loop joint of a random type, where there is something to couple."""
    scalar = [j for j in joints if int(builder.joint_type[j]) in (PRISMATIC, REVOLUTE)]
    tree = builder.joint_articulation
    pairs = [(j, k) for j in scalar for k in scalar if j != k and tree[j] == tree[k]]
    if pairs:
        builder.set_joint_mimic(*(int(j) for j in rng.choice(pairs)), coeffs=tuple(rng.uniform(-1.0, 1.0, 2)))
    joined = {frozenset((builder.joint_parent[j], builder.joint_child[j])) for j in joints}
    pairs = [(a, b) for a in bodies for b in bodies if a != b and frozenset((a, b)) not in joined]
    if pairs:
        parent, child = (int(b) for b in rng.choice(pairs))
        axes = [newton.ModelBuilder.JointDofConfig(axis=axis) for axis in (newton.Axis.X, newton.Axis.Z)]
        kind = rng.choice(["fixed", "ball", "revolute", "prismatic", "universal"])
        if kind == "universal":
            builder.add_joint_d6(parent, child, angular_axes=axes)
        else:
            more = {"axis": newton.Axis.Y} if kind in ("revolute", "prismatic") else {}
            getattr(builder, f"add_joint_{kind}")(parent, child, **more)


def close_loops(rng, model, joint_q, world_count):
    """Move the frames of loop joints so that at ``joint_q`` they are violated by 1 cm and 0.2 rad or so."""
    frames = array64(model.joint_X_c)
    for world in range(world_count):
        tree = Tree(model, world)
        poses = tree.poses(tree.configuration(joint_q))
        for joint in tree.loops:
            R = (
                poses.R[joint.parent]
                @ joint.R_p
                @ matrix_from_quat(quat_from_rotation_vector(rng.normal(size=3) * 0.1))
            )
            p = poses.p[joint.parent] + poses.R[joint.parent] @ joint.p_p + rng.normal(size=3) * 0.01
            back = poses.R[joint.child].T
            frames[joint.index, :3] = back @ (p - poses.p[joint.child])
            frames[joint.index, 3:] = quat_from_matrix(back @ R)
    model.joint_X_c.assign(frames.astype(np.float32))


def random_model(
    rng,
    world_count=2,
    trees=3,
    max_bodies=4,
    max_dofs=30,
    roots=_ROOTS,
    kinds=("revolute", "prismatic", "ball", "d6", "fixed", "revolute", "free", "distance"),
    exact=False,
    device="cpu",
    massless=0.0,
    kinematic=0.0,
    couplings=False,
) -> newton.Model:
    """Worlds that differ in topology, parameters and gravity, over one global ground plane (shape 0, body -1).

    Args:
        trees: Most trees per world; roots go through ``roots`` in turn.
        max_bodies: Most bodies per tree.
        max_dofs: Bound on the dofs of a world.
        kinds: Joint types inside the trees; free and distance joints between bodies are included by default.
        exact: Joint frames and axes unit to the last bit of fp32.
        massless: Share of bodies without mass.
        kinematic: Share of trees with a kinematic root.
        couplings: Whether each world has a mimic and a loop joint; see `close_loops`.
    """
    builder = newton.ModelBuilder()
    builder.add_ground_plane(cfg=newton.ModelBuilder.ShapeConfig(ke=1e5, mu=0.7, gap=0.0))
    turn = int(rng.integers(len(roots)))
    for _ in range(world_count):
        builder.begin_world(gravity=tuple(rng.normal(size=3) * 2.0 + np.array([0.0, 0.0, -9.0])))
        room, joints, bodies = max_dofs, builder.joint_count, builder.body_count
        special = {"massless": massless, "kinematic": 0.0}  # the first tree of a world can move
        for _ in range(int(rng.integers(1, trees + 1))):
            state = rng.bit_generator.state
            trial = newton.ModelBuilder()  # dry run for the number of dofs
            length = int(rng.integers(1, max_bodies + 1))
            dofs = _add_tree(trial, rng, roots[turn % len(roots)], length, kinds, exact, **special)
            if dofs > room:
                continue
            rng.bit_generator.state = state
            rng.integers(1, max_bodies + 1)
            room -= _add_tree(builder, rng, roots[turn % len(roots)], length, kinds, exact, **special)
            special["kinematic"] = kinematic
            turn += 1
        if room == max_dofs:
            _add_tree(builder, rng, "free", 1, kinds, exact)
        if couplings:
            first = range(joints, builder.joint_count), range(bodies, builder.body_count)
            _add_couplings(builder, rng, *first)
        builder.end_world()
    return builder.finalize(device=device)


def random_state(rng, model, speed=1.0, exact=False):
    """(joint_q, joint_qd): whole model, public order, fp32-representable float64."""
    q, qd = np.zeros(model.joint_coord_count), rng.normal(size=model.joint_dof_count) * speed
    jtype, start = array_int(model.joint_type), array_int(model.joint_q_start)
    for j in range(model.joint_count):
        s = slice(start[j], start[j + 1])
        if jtype[j] == BALL:
            q[s] = _quat(rng, exact)
        elif jtype[j] in (FREE, DISTANCE):
            q[s] = np.concatenate([rng.uniform(-0.7, 0.7, 3), _quat(rng, exact)])
        else:
            q[s] = rng.uniform(-1.0, 1.0, start[j + 1] - start[j])
    return fp32(q), fp32(qd)


def random_controls(rng, model):
    """Keyword arguments for `DenseWorld`: targets, feed-forward, joint_f, body_f; whole model, public order."""
    target_q, _ = random_state(rng, model)
    dofs = model.joint_dof_count
    return {
        "joint_target_q": target_q,
        "joint_target_qd": fp32(rng.normal(size=dofs)),
        "joint_act": fp32(rng.normal(size=dofs)),
        "joint_f": fp32(rng.normal(size=dofs) * 2.0),
        "body_f": fp32(rng.normal(size=(model.body_count, 6)) * 2.0),
    }


def random_contacts(rng, model, world, count, joint_q=None, depth=(-0.02, 0.01), exact=False, overrides=False):
    """Fabricated contacts of one world at the pose ``joint_q`` (default: the model's): a third of them with the ground.

    Either order of the shapes, round shapes with their radius in the margin, gaps drawn from ``depth``. ``overrides``
    adds per-contact stiffness and friction scale to some.
    """
    tree = Tree(model, world)
    poses = tree.poses(tree.configuration(array64(model.joint_q) if joint_q is None else joint_q))
    shape_body, shape_type = array_int(model.shape_body), array_int(model.shape_type)
    transform, scale = array64(model.shape_transform), array64(model.shape_scale)
    mine = [s for s in range(model.shape_count) if shape_body[s] in tree.bodies]
    ground = int(np.flatnonzero(shape_body < 0)[0])
    out = []
    for i in range(count):
        first = int(rng.choice(mine))
        others = [s for s in mine if shape_body[s] != shape_body[first]]
        second = ground if i % 3 == 0 or not others else int(rng.choice(others))
        pair = (first, second) if rng.random() < 0.5 else (second, first)
        normal = fp32(_unit(rng, exact))
        radius = [float(scale[s, 0]) if shape_type[s] == newton.GeoType.SPHERE and s != ground else 0.0 for s in pair]
        # Place the contact on the first dynamic shape, the other side where the gap says.
        anchor = 0 if pair[0] != ground else 1
        s, b = pair[anchor], shape_body[pair[anchor]]
        local = transform[s, :3] if radius[anchor] > 0.0 else transform[s, :3] + rng.uniform(-0.2, 0.2, 3)
        x = [None, None]
        x[anchor] = poses.p[b] + poses.R[b] @ local
        shift = rng.uniform(*depth) + sum(radius)
        x[1 - anchor] = x[anchor] + normal * (shift if anchor == 0 else -shift)

        def into(side, vector, point, pair=pair):
            b = int(shape_body[pair[side]])
            return fp32(poses.R[b].T @ (vector - poses.p[b] if point else vector))

        extra = {}
        if overrides and rng.random() < 0.5:
            extra = {
                "stiffness": float(fp32(10.0 ** rng.uniform(3, 6))),
                "mu_scale": float(fp32(rng.uniform(0.2, 2.0))),
            }
        out.append(
            Contact(
                shape0=pair[0],
                shape1=pair[1],
                point0=into(0, x[0], True),
                point1=into(1, x[1], True),
                offset0=into(0, normal * radius[0], False),
                offset1=into(1, -normal * radius[1], False),
                normal=normal,
                margin0=radius[0],
                margin1=radius[1],
                **extra,
            )
        )
    return out


def fill_newton_contacts(model, records, capacity=None) -> newton.Contacts:
    """A `newton.Contacts` buffer holding exactly these records (of any worlds), in order.

    Newton's own meaning of the per-contact arrays: stiffness replaces the pair's, damping = tau * stiffness, friction
    *scales* the pair's, and zero leaves each alone. An absolute ``mu`` cannot be expressed and is refused.
    """
    records = [Contact(**r) if isinstance(r, dict) else r for r in records]
    if any(r.mu is not None for r in records):
        raise ValueError("newton.Contacts holds a friction scale, not a friction coefficient: use mu_scale")
    if any(r.tau is not None and r.stiffness is None for r in records):
        raise ValueError("newton.Contacts holds damping = tau * stiffness: set the stiffness too")
    special = any(r.stiffness is not None or r.mu_scale is not None for r in records)
    count = len(records)
    capacity = max(count, 1) if capacity is None else capacity
    contacts = newton.Contacts(capacity, 0, device=model.device, per_contact_shape_properties=special)

    def put(name, values):
        array = getattr(contacts, name)
        data = array.numpy()
        if count:
            data[:count] = values
        array.assign(data)

    for side in ("0", "1"):
        for name in ("shape", "point", "offset", "margin"):
            put(f"rigid_contact_{name}{side}", [getattr(r, name + side) for r in records])
    put("rigid_contact_normal", [r.normal for r in records])
    if special:
        put("rigid_contact_stiffness", [r.stiffness or 0.0 for r in records])
        put("rigid_contact_damping", [(r.tau or 0.0) * (r.stiffness or 0.0) for r in records])
        put("rigid_contact_friction", [r.mu_scale or 0.0 for r in records])
    contacts.contact_counters.assign(np.array([count, 0, 0], dtype=np.int32))
    return contacts


def contacts_from_newton(model, contacts, world=0):
    """Records of the contacts of one world in a `newton.Contacts` buffer, in buffer order."""
    count = min(int(contacts.rigid_contact_count.numpy()[0]), contacts.rigid_contact_shape0.shape[0])
    bodies = set(Tree(model, world).bodies)
    shape_body = array_int(model.shape_body)
    data = {
        name: getattr(contacts, f"rigid_contact_{name}").numpy()[:count]
        for name in ("shape0", "shape1", "point0", "point1", "offset0", "offset1", "normal", "margin0", "margin1")
    }
    out = []
    for i in range(count):
        pair = [int(data["shape0"][i]), int(data["shape1"][i])]
        if min(pair) < 0 or not any(int(shape_body[s]) in bodies for s in pair):
            continue
        record = Contact(**{k: int(a[i]) if k.startswith("shape") else array64(a[i]) for k, a in data.items()})
        if contacts.rigid_contact_stiffness is not None:
            k, d, f = (
                float(getattr(contacts, f"rigid_contact_{name}").numpy()[i])
                for name in ("stiffness", "damping", "friction")
            )
            record.stiffness = k if k > 0.0 else None
            record.tau = d / k if d > 0.0 and k > 0.0 else None
            record.mu_scale = f if f > 0.0 else None
        out.append(record)
    return out
