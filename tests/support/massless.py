"""Chains with links that have no mass, and what carries these."""

import newton
import warp as wp

from tests.support.scenes import box_inertia, builder, material


def chain(b, *links):
    """Links below each other: (joint, mass, armature); fixed links are 0.1 m apart. Returns the bodies."""
    bodies, joints = [], []
    for kind, mass, armature in links:
        body = b.add_link(mass=mass, inertia=box_inertia(mass, 0.1), lock_inertia=True)
        parent = bodies[-1] if bodies else -1
        more = {} if kind in ("free", "fixed") else {"axis": newton.Axis.Y, "armature": armature}
        frame = wp.transform((0.1, 0.0, 0.0))
        if kind == "free":
            joints.append(b.add_joint_free(body))
        else:
            joints.append(getattr(b, f"add_joint_{kind}")(parent, body, parent_xform=frame, **more))
        bodies.append(body)
    b.add_articulation(joints)
    return bodies


CHAINS = {
    "fixed to what it hangs on": ([("free", 1, 0), ("fixed", 0, 0)], [0, 0]),
    "several in a row": ([("free", 1, 0), ("fixed", 0, 0), ("fixed", 0, 0)], [0, 0, 0]),
    "below a hinge with armature": ([("free", 1, 0), ("revolute", 0, 0.1)], [0, 0]),
    "between two hinges": ([("free", 1, 0), ("revolute", 0, 0.1), ("revolute", 2, 0)], [0, 0, 2]),
    "fixed to a hand behind a hinge": ([("free", 5, 0), ("revolute", 0, 0), ("fixed", 1, 0)], [0, 2, 2]),
    "a root without mass": ([("free", 0, 0), ("fixed", 1, 0)], [1, 1]),
    "a root that only hinges carry": ([("free", 0, 0), ("revolute", 1, 0)], [-1, 1]),
    "armature alone": ([("revolute", 0, 0.1), ("fixed", 0, 0)], [-1, -1]),
    "on a base that is fixed": ([("fixed", 5, 0), ("revolute", 0, 0.1)], [-1, -1]),
}


def box_on_massless_link(name):
    """The last link without mass of a chain carries a box that starts on the floor; returns model and body."""
    links, _ = CHAINS[name]
    b = builder()
    b.add_ground_plane(cfg=material())
    bodies = chain(b, *links)
    foot = max(i for i, link in enumerate(links) if link[1] == 0)
    b.add_shape_box(bodies[foot], hx=0.3, hy=0.3, hz=0.1, cfg=material())
    for joint, kind in enumerate(b.joint_type):
        if kind == newton.JointType.REVOLUTE:
            b.joint_damping[b.joint_qd_start[joint]] = 5.0
    if links[0][0] == "free":
        b.joint_q[2] = 0.1
    else:
        b.joint_X_p[0] = wp.transform((0.0, 0.0, 0.1)) * b.joint_X_p[0]
    model = b.finalize(device="cpu")
    newton.eval_fk(model, model.joint_q, model.joint_qd, model)
    return model, bodies[foot]
