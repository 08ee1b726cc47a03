"""Models with joints of every type."""

import newton
import numpy as np
import warp as wp


def unit_quat(rng):
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def frame(rng):
    return wp.transform(wp.vec3(*rng.uniform(-0.5, 0.5, 3)), wp.quat(*unit_quat(rng)))


def orthogonal_axes(rng, count):
    basis = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return [newton.ModelBuilder.JointDofConfig(axis=wp.vec3(*basis[:, i])) for i in range(count)]


def add_all_joint_types(builder, rng):
    """Every joint type on the world and on a moving parent, random joint frames, all centres of mass offset."""
    for depth in range(2):
        for add in ("free", "distance", "revolute", "prismatic", "ball", "fixed", "d6", "d6"):
            links = [
                builder.add_link(
                    mass=rng.uniform(0.5, 2.0),
                    com=wp.vec3(*rng.uniform(-0.5, 0.5, 3)),
                    inertia=wp.mat33(np.diag(rng.uniform(0.2, 0.3, 3))),
                    lock_inertia=True,
                )
                for _ in range(depth + 1)
            ]
            joints, parent = [], -1
            if depth:
                joints.append(builder.add_joint_revolute(-1, links[0], parent_xform=frame(rng), child_xform=frame(rng)))
                parent = links[0]
            kwargs = {"child": links[-1], "parent": parent, "parent_xform": frame(rng), "child_xform": frame(rng)}
            if add == "distance":
                kwargs |= {"min_distance": -1.0, "max_distance": -1.0}
            if add == "d6":
                kwargs |= {"linear_axes": orthogonal_axes(rng, 2), "angular_axes": orthogonal_axes(rng, 3 - depth)}
            joints.append(getattr(builder, f"add_joint_{add}")(**kwargs))
            builder.add_articulation(joints)
