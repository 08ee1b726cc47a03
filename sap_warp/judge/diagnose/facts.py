"""Facts about a model that findings need: names, masses, mechanisms, materials, drives."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from itertools import chain
from typing import Any

import newton
import numpy as np

from ...model.shapes import SHAPE_TYPES, WITH_VERTICES
from ...solver.model.layout import FLOATING_JOINTS
from ...solver.model.topology import tree_joints
from .samples import Facts

_MODE = newton.JointTargetMode


def read_facts(solver: Any, first_world: int) -> Facts:
    """Return facts about the worlds of one solver; worlds are numbered from ``first_world`` on."""
    model, options = solver.model, solver.options
    bodies = model.body_count
    body_world = _shift(model.body_world.numpy(), first_world, solver.sizes.world_count)
    shape_body = model.shape_body.numpy()
    fixed = np.flatnonzero(shape_body < 0)
    names = np.array([*model.body_label, *model.shape_label], dtype=object)
    owners = np.append(np.arange(bodies), bodies + fixed)
    worlds = np.append(body_world, _shift(model.shape_world.numpy()[fixed], first_world, 0)).tolist()
    names[owners] = unique_names(names[owners], worlds)
    ke, mu = model.shape_material_ke.numpy(), model.shape_material_mu.numpy()
    tau = solver.sap_model.shape_material_tau.numpy()
    joint_of = np.repeat(np.arange(model.joint_count), np.diff(model.joint_qd_start.numpy()))
    within = np.arange(model.joint_dof_count) - model.joint_qd_start.numpy()[joint_of]
    dof_world = np.append(body_world, -1)[model.joint_child.numpy()[joint_of]]
    several = np.diff(model.joint_qd_start.numpy())[joint_of] > 1
    labels = [
        f"{model.joint_label[j]}[{i}]" if many else model.joint_label[j]
        for j, i, many in zip(joint_of, within, several, strict=True)
    ]
    follows = np.isin(model.joint_target_mode.numpy(), [int(_MODE.POSITION), int(_MODE.POSITION_VELOCITY)])
    gravity = model.gravity.numpy().reshape(-1, 3)
    return Facts(
        owner_name=names,
        body_world=body_world,
        body_mass=model.body_mass.numpy().astype(np.float64),
        **_mechanisms(model),
        shape_owner=np.where(shape_body >= 0, shape_body, bodies + np.arange(len(shape_body))),
        shape_label=list(model.shape_label),
        shape_size=_sizes(model),
        shape_ke=np.where(ke > 0.0, ke, options.fallback_stiffness).astype(np.float64),
        shape_mu=np.where(mu >= 0.0, mu, options.fallback_mu).astype(np.float64),
        shape_tau=np.where(tau >= 0.0, tau, options.contact_tau_d).astype(np.float64),
        dof_name=np.array(unique_names(labels, dof_world.tolist()), dtype=object),
        dof_world=dof_world,
        dof_turns=within >= model.joint_dof_dim.numpy()[joint_of, 0],
        dof_ke=np.where(follows, model.joint_target_ke.numpy(), 0.0).astype(np.float64),
        dof_effort_limit=model.joint_effort_limit.numpy().astype(np.float64),
        dof_lower=model.joint_limit_lower.numpy().astype(np.float64),
        dof_upper=model.joint_limit_upper.numpy().astype(np.float64),
        dof_limit_ke=model.joint_limit_ke.numpy().astype(np.float64),
        gravity=gravity[solver.layout.world_gravity.numpy()].astype(np.float64),
    )


def join_facts(parts: list[Facts]) -> Facts:
    """Join the facts of several solvers, which share no worlds."""
    if len(parts) == 1:
        return parts[0]
    bodies = np.array([len(part.body_mass) for part in parts])
    dofs = np.array([len(part.dof_name) for part in parts])
    shapes = np.array([len(part.shape_size) for part in parts])
    first_body, first_dof, first_shape = (np.cumsum(n) - n for n in (bodies, dofs, shapes))
    joined: dict[str, Any] = {}
    for f in fields(Facts):
        values = [getattr(part, f.name) for part in parts]
        if f.name == "owner_name":
            values = [v[:n] for v, n in zip(values, bodies, strict=True)]
            values += [part.owner_name[n:] for part, n in zip(parts, bodies, strict=True)]
        elif f.name == "body_dof":
            values = [np.where(v >= 0, v + first, -1) for v, first in zip(values, first_dof, strict=True)]
        elif f.name == "body_tree":
            values = [v + first for v, first in zip(values, first_body, strict=True)]
        elif f.name == "shape_owner":
            values = [
                np.where(v < n, v + first, v - n + bodies.sum() + start)
                for v, n, first, start in zip(values, bodies, first_body, first_shape, strict=True)
            ]
        joined[f.name] = list(chain(*values)) if isinstance(values[0], list) else np.concatenate(values)
    return Facts(**joined)


def unique_names(labels: Any, worlds: Any) -> list[str]:
    """Return unambiguous ends of labels within each world, else whole labels, numbered where they are equal."""
    ends = [label.rsplit("/", 1)[-1] for label in labels]
    count = Counter(zip(worlds, ends, strict=True))
    names, seen = [], Counter[tuple[int, str]]()
    for world, label, end in zip(worlds, labels, ends, strict=True):
        name = end if count[world, end] == 1 else label
        seen[world, name] += 1
        names.append(name if seen[world, name] == 1 else f"{name}#{seen[world, name]}")
    return names


def _shift(world: np.ndarray, first: int, count: int) -> np.ndarray:
    """Number worlds as the simulation does; a model without worlds is world 0."""
    if (world < 0).all() and count == 1:
        return np.full(len(world), first)
    return np.where(world >= 0, world + first, -1)


def _mechanisms(model: newton.Model) -> dict[str, np.ndarray]:
    """Return each body's root, whether it floats by itself, and its nearest dof that is not of a floating joint."""
    tree = np.flatnonzero(tree_joints(model))
    child, parent, kind = (a.numpy() for a in (model.joint_child, model.joint_parent, model.joint_type))
    start = model.joint_qd_start.numpy()
    above = {int(child[j]): int(j) for j in tree}
    root, dof = np.arange(model.body_count), np.full(model.body_count, -1)
    for body in range(model.body_count):
        at = body
        while at in above:
            joint = above[at]
            if dof[body] < 0 and start[joint + 1] > start[joint] and kind[joint] not in FLOATING_JOINTS:
                dof[body] = start[joint]
            if parent[joint] < 0:
                break
            at = int(parent[joint])
        root[body] = at
    members = np.bincount(root, minlength=model.body_count)
    floats = np.zeros(model.body_count, bool)
    floats[[b for b, j in above.items() if kind[j] in FLOATING_JOINTS]] = True
    return {"body_tree": root, "body_alone": floats & (members[root] == 1), "body_dof": dof}


def _sizes(model: newton.Model) -> np.ndarray:
    """Return the smallest extent of each shape [m]; inf for planes and shapes without an extent."""
    kind, scale = model.shape_type.numpy(), model.shape_scale.numpy().astype(np.float64)
    size = np.full(len(kind), np.inf)
    for shape_type in SHAPE_TYPES:
        if shape_type.half_extents is not None:
            own = kind == shape_type.type
            size[own] = 2.0 * shape_type.half_extents(scale[own]).min(axis=1)
    for shape in np.flatnonzero(np.isin(kind, WITH_VERTICES)):
        vertices = getattr(model.shape_source[shape], "vertices", None)
        if vertices is not None and len(vertices):
            size[shape] = float((np.ptp(np.asarray(vertices), axis=0) * scale[shape]).min())
    return size
