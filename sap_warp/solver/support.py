"""What a model may contain: everything the solver cannot honour is refused at construction, by name and label."""

from __future__ import annotations

from typing import Any

import newton
import numpy as np
from newton.solvers import SolverMuJoCo

from ..core.faq import see
from ..core.notes import name_some as _named
from ..model.joint_types import BALL, DISTANCE, FLOATING_JOINTS, JOINT_TYPES, SCALAR_JOINTS
from ..model.model_values import value_problems
from .equations.sources import equality_table, native_equalities
from .model.topology import kinematic_bodies, shared_trees, tree_joints
from .tendons.sources import transmission_problems
from .terms.limit import UNLIMITED, UNLIMITED_SPEED


class UnsupportedModelError(ValueError):
    """The model uses a feature that `SolverSAP` does not simulate."""


def check_model(model: newton.Model) -> None:
    """Raise `UnsupportedModelError` listing all unsupported features and impossible numbers of ``model`` at once."""
    problems = [*_joint_problems(model), *_body_problems(model), *_other_problems(model), *value_problems(model)]
    if problems:
        text = "SolverSAP cannot simulate this model:\n  - " + "\n  - ".join(problems)
        raise UnsupportedModelError(text + see("unsupported-model"))


def _joint_problems(model: newton.Model) -> list[str]:
    problems = []
    kinds = model.joint_type.numpy()
    labels = model.joint_label
    for kind in np.setdiff1d(kinds, list(JOINT_TYPES)):
        hits = np.flatnonzero(kinds == kind)
        problems.append(f"joint type {newton.JointType(int(kind)).name}: {_named(labels, hits)}")
    tree = tree_joints(model)
    disabled = ~model.joint_enabled.numpy().astype(bool)
    checks = (
        (disabled & tree, "disabled joints (joint_enabled is False) that carry a body"),
        (~tree & (kinds == int(DISTANCE)), "distance joints that close a loop"),
    )
    for mask, what in checks:
        if mask.any():
            problems.append(f"{what}: {_named(labels, np.flatnonzero(mask))}")
    children, counts = np.unique(model.joint_child.numpy()[tree], return_counts=True)
    if (counts > 1).any():
        problems.append(f"bodies with several parent joints: {_named(model.body_label, children[counts > 1])}")
    problems.extend(_drive_problems(model, kinds, labels))
    problems.extend(_loop_problems(model, tree))
    problems.extend(_coupling_problems(model, tree))
    return problems


def _loop_problems(model: newton.Model, tree: np.ndarray) -> list[str]:
    """A loop joint only constrains its bodies: nothing acts along its own axes."""
    problems = []
    joint_of_dof = np.repeat(np.arange(model.joint_count), np.diff(model.joint_qd_start.numpy()))
    on_loop = ~tree[joint_of_dof]
    bounded = (model.joint_limit_lower.numpy() > -UNLIMITED) | (model.joint_limit_upper.numpy() < UNLIMITED)
    checks = (
        (_driven(model), "drives"),
        (model.joint_friction.numpy() > 0, "joint friction"),
        (model.joint_damping.numpy() > 0, "joint damping"),
        (bounded & (model.joint_limit_ke.numpy() > 0), "joint limits"),
        (model.joint_velocity_limit.numpy() < UNLIMITED_SPEED, "velocity limits"),
        (model.joint_f.numpy() != 0, "joint forces"),
    )
    for mask, what in checks:
        hits = np.unique(joint_of_dof[mask & on_loop])
        if len(hits):
            problems.append(f"{what} on joints that close a loop: {_named(model.joint_label, hits)}")
    return problems


def _coupling_problems(model: newton.Model, tree: np.ndarray) -> list[str]:
    """Couplings act between equally many scalar coordinates of joints that carry a body."""
    problems = []
    scalar = np.isin(model.joint_type.numpy(), SCALAR_JOINTS)
    dofs = np.diff(model.joint_qd_start.numpy())

    def fits(first: Any, second: Any) -> bool:
        pair = [j for j in (first, second) if j >= 0]
        return all(scalar[j] and tree[j] for j in pair) and len({int(dofs[j]) for j in pair}) == 1

    reference = model.joint_mimic_joint.numpy()
    hits = np.array([j for j in np.flatnonzero(reference >= 0) if not fits(j, reference[j])], np.int64)
    if len(hits):
        problems.append(f"mimic joints between joints that do not match: {_named(model.joint_label, hits)}")
    if model.constraint_mimic_count:
        pairs = zip(model.constraint_mimic_joint0.numpy(), model.constraint_mimic_joint1.numpy(), strict=True)
        hits = np.array([i for i, (first, second) in enumerate(pairs) if not fits(first, second)], np.int64)
        if len(hits):
            named = _named(model.constraint_mimic_label, hits)
            problems.append(f"mimic constraints between joints that do not match: {named}")
    table = equality_table(model)
    rows = native_equalities(table)
    if len(rows):
        joint = np.array([i for i in rows if table["type"][i] == int(SolverMuJoCo.EqType.JOINT)], np.int64)
        hits = np.array(
            [i for i in joint if not fits(table["joint1"][i], table["joint2"][i]) or dofs[table["joint1"][i]] != 1],
            np.int64,
        )
        if len(hits):
            problems.append(f"joint equality constraints that are not between two single dofs: {_shown(table, hits)}")
        other = rows[~np.isin(table["type"][rows], [int(kind) for kind in SolverMuJoCo.EqType])]
        if len(other):
            problems.append(f"equality constraints of unknown type: {_shown(table, other)}")
        world = np.append(np.where(shared_trees(model), model.world_count, model.body_world.numpy()), -1)
        first, second = world[table["body1"][rows]], world[table["body2"][rows]]
        apart = rows[(first >= 0) & (second >= 0) & (first != second)]
        if len(apart):
            problems.append(f"equality constraints between worlds: {_shown(table, apart)}")
    return problems


def _shown(table: dict[str, Any], hits: np.ndarray) -> str:
    return _named(table["label"], hits)


def _driven(model: newton.Model) -> np.ndarray:
    return (model.joint_target_mode.numpy() != int(newton.JointTargetMode.NONE)) & (
        (model.joint_target_ke.numpy() > 0) | (model.joint_target_kd.numpy() > 0)
    )


def _drive_problems(model: newton.Model, kinds: np.ndarray, labels: list[str]) -> list[str]:
    """Free and distance joints have no scalar coordinate that a drive or a limit could act on."""
    problems = []
    floating = np.isin(kinds, FLOATING_JOINTS)
    counts = np.diff(model.joint_qd_start.numpy())
    joint_of_dof = np.repeat(np.arange(len(kinds)), counts)
    on_floating = floating[joint_of_dof]
    for mask, what in ((_driven(model), "drives"), (model.joint_friction.numpy() > 0, "joint friction")):
        hits = np.unique(joint_of_dof[mask & on_floating])
        if len(hits):
            problems.append(f"{what} on free or distance joints: {_named(labels, hits)}")
    if not newton.use_coord_layout_targets and model.joint_coord_count != model.joint_dof_count:
        problems.append("position targets in Newton's legacy dof layout; set newton.use_coord_layout_targets = True")
    return problems


def _body_problems(model: newton.Model) -> list[str]:
    problems = []
    labels = model.body_label
    tree = tree_joints(model)
    orphans = np.setdiff1d(np.arange(model.body_count), model.joint_child.numpy()[tree])
    if len(orphans):
        problems.append(f"bodies without a joint (use add_body, or add a joint to them): {_named(labels, orphans)}")
    kinematic = kinematic_bodies(model)
    parent, child = model.joint_parent.numpy()[tree], model.joint_child.numpy()[tree]
    carried = np.unique(child[kinematic[child] & (parent >= 0)])
    if len(carried):
        problems.append(f"kinematic bodies that are carried by other bodies: {_named(labels, carried)}")
    massless = model.joint_child.numpy()[_massless_joints(model)]
    if len(massless):
        problems.append(
            "bodies without mass below joints without armature; give either of them some: " + _named(labels, massless)
        )
    world = model.body_world.numpy()
    if (world < 0).any() and (world >= 0).any():
        hits = _touched_by_single_worlds(model, world)
        if len(hits):
            problems.append(
                "moving bodies of all worlds (world -1) that bodies of single worlds can touch, so that one world "
                f"would act on another; put them into each world, or filter these collisions: {_named(labels, hits)}"
            )
        hits = np.unique(child[(parent >= 0) & (world[parent] != world[child])])
        if len(hits):
            problems.append(f"bodies jointed to a body of another world: {_named(labels, hits)}")
    return problems


def _touched_by_single_worlds(model: newton.Model, world: np.ndarray) -> np.ndarray:
    """Moving bodies of all worlds with shapes that collide with shapes of bodies of single worlds."""
    shared = np.append(shared_trees(model), False)
    pairs = model.shape_contact_pairs
    if not shared.any() or pairs is None or not model.shape_contact_pair_count:
        return np.zeros(0, np.int64)
    bodies = model.shape_body.numpy()[pairs.numpy()]
    single = (np.append(world, -1)[bodies] >= 0) & (bodies >= 0)
    hit = shared[bodies] & single[:, ::-1]
    return np.unique(bodies[hit])


def _massless_joints(model: newton.Model) -> np.ndarray:
    """Joints whose whole subtree has no mass, with dofs that have no armature: A would be singular."""
    parent, child = model.joint_parent.numpy(), model.joint_child.numpy()
    moved = model.body_mass.numpy().astype(np.float64)
    tree = tree_joints(model)
    for joint in np.flatnonzero(tree)[::-1]:  # Newton orders joints parents first
        if parent[joint] >= 0:
            moved[parent[joint]] += moved[child[joint]]
    start = model.joint_qd_start.numpy()
    prescribed = kinematic_bodies(model)[child]
    bare = np.concatenate([[0], np.cumsum(~(model.joint_armature.numpy() > 0.0))])
    return np.flatnonzero((bare[start[1:]] > bare[start[:-1]]) & (moved[child] <= 0.0) & ~prescribed & tree)


def _other_problems(model: newton.Model) -> list[str]:
    counts = {
        "particles": model.particle_count,
        "triangle elements": model.tri_count,
        "tetrahedral elements": model.tet_count,
        "springs": model.spring_count,
        "muscles": model.muscle_count,
    }
    return [f"{count} {what}" for what, count in counts.items() if count] + _mujoco_problems(model)


def _mujoco_problems(model: newton.Model) -> list[str]:
    """Physics that models from MJCF carry in MuJoCo's attributes."""
    attributes: Any = getattr(model, "mujoco", None)

    def values(name: str) -> np.ndarray:
        array = getattr(attributes, name, None)
        return np.zeros(0) if array is None else array.numpy()

    problems = []
    for what, kind, hits in transmission_problems(model):
        problems.append(f"{what}: {_named(list(getattr(attributes, f'{kind}_label')), hits)}")
    stiff = np.flatnonzero(values("dof_passive_stiffness"))
    if len(stiff):
        joint_of_dof = np.repeat(np.arange(model.joint_count), np.diff(model.joint_qd_start.numpy()))
        owners = joint_of_dof[stiff]
        kinds = (*SCALAR_JOINTS, int(BALL))
        fits = np.isin(model.joint_type.numpy()[owners], kinds) & tree_joints(model)[owners]
        if not fits.all():
            named = _named(model.joint_label, np.unique(owners[~fits]))
            problems.append(f"passive springs on free, distance or loop joints: {named}")
    return problems
