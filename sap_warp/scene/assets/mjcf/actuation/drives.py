"""Drives of <position> and <velocity> actuators: gear, force range and control range, which Newton leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ....text.nodes import Node

if TYPE_CHECKING:
    from ..content import Import, JointIndex

_DRIVES = ("position", "velocity")


def joint_of_actuator(done: Import, node: Node) -> Node | None:
    """Return the hinge or slide that an actuator drives through Newton's joint target; None if it reads ctrl."""
    return None if done.asset.ctrl_direct else _joint_of(done, node)


def _joint_of(done: Import, node: Node) -> Node | None:
    name = node.get("joint")
    found = [joint for joint, index in done.joint_indices.items() if joint.get("name") == name]
    if node.tag not in _DRIVES or name is None or not found:
        return None
    return found[0] if done.joint_indices[found[0]].kind in ("hinge", "slide") else None


def gear_of(node: Node) -> float:
    """Return the scalar gear of an actuator."""
    return float(node.numbers("gear")[0]) if node.get("gear") is not None else 1.0


def clamp_ctrl(node: Node, value: float) -> float:
    """Clamp a control input to the range of its actuator."""
    return float(np.clip(value, *node.numbers("ctrlrange", 2))) if node.get("ctrlrange") is not None else value


def target_of(done: Import, node: Node, joint: Node, ctrl: float) -> float:
    """Return the joint target [m or rad, m/s or rad/s] for a control input of its actuator."""
    scale = done.asset.scale if done.joint_indices[joint].kind == "slide" else 1.0
    value = scale * clamp_ctrl(node, ctrl) / (gear_of(node) or 1.0)
    return value - scale * joint.number("ref", 0.0) if node.tag == "position" else value


def set_drives(done: Import) -> None:
    """Write gains, limits and initial targets of the drives, or the gains of actuators that read ctrl."""
    if done.asset.ctrl_direct:
        _set_direct(done)
        return
    by_joint: dict[Node, list[Node]] = {}
    for node in done.document.elements("actuator"):
        joint = joint_of_actuator(done, node)
        if joint is not None:
            by_joint.setdefault(joint, []).append(node)
    for joint, nodes in by_joint.items():
        _set_drive(done, joint, done.joint_indices[joint], nodes)


def _set_direct(done: Import) -> None:
    """Set gains that Newton leaves open or does not scale: damping ratios, and inputs that are lengths."""
    known: Any = done.build.builder.custom_attributes
    for node, number in done.actuators.items():
        joint = _joint_of(done, node)
        if joint is None:
            continue
        index = done.joint_indices[joint]
        kp, kv = _gains(done, node, index)
        gain, bias = (known[f"mujoco:actuator_{name}"].values[number] for name in ("gainprm", "biasprm"))
        gain[0] = (kp if node.tag == "position" else kv) * (done.asset.scale if index.kind == "slide" else 1.0)
        bias[2] = -kv


def _set_drive(done: Import, joint: Node, index: JointIndex, nodes: list[Node]) -> None:
    builder, dof = done.build.builder, index.dof
    last = {node.tag: node for node in nodes}
    for node in last.values():
        gear, target = gear_of(node), target_of(done, node, joint, 0.0)
        kp, kv = _gains(done, node, index)
        if node.tag == "position":
            builder.joint_target_ke[dof] = gear**2 * kp
            builder.joint_target_q[index.coordinate] = target
            if len(last) == 1:
                builder.joint_target_kd[dof] = gear**2 * kv
            elif kv:
                done.note(f"{node.location('kv')}: kv of <position> does not act beside a <velocity> on the same joint")
        else:
            builder.joint_target_kd[dof] = gear**2 * kv
            builder.joint_target_qd[dof] = target
    _set_effort_limit(done, joint, dof, list(last.values()))


def _gains(done: Import, node: Node, index: JointIndex) -> tuple[float, float]:
    """Return position and velocity gain [N m/rad, N m s/rad or N/m, N s/m]."""
    if node.tag == "velocity":
        return 0.0, node.number("kv", 1.0)
    kp, kv, ratio = node.number("kp", 1.0), node.number("kv", 0.0), node.number("dampratio", 0.0)
    if ratio and not kv and gear_of(node):
        kv = 2.0 * ratio * np.sqrt(kp * done.inertia_at(index.dof)) / abs(gear_of(node))
    return kp, kv


def _set_effort_limit(done: Import, joint: Node, dof: int, nodes: list[Node]) -> None:
    """Limit the drive to the force ranges of its actuators, and to that of the joint."""
    builder, total = done.build.builder, 0.0
    for node in nodes:
        total += abs(gear_of(node)) * _largest(done, node, "forcerange") if gear_of(node) else 0.0
    if len(nodes) > 1 and np.isfinite(total):
        where = nodes[1].location("forcerange")
        done.note(f"{where}: force ranges of two actuators on {joint.get('name')!r} act together, as their sum")
    limit = min(total, _largest(done, joint, "actuatorfrcrange"))
    if np.isfinite(limit):  # else the default of the scene stays
        builder.joint_effort_limit[dof] = limit


def _largest(done: Import, node: Node, name: str) -> float:
    """Return the largest force of a range [N or N m]; infinite without a range."""
    if node.get(name) is None:
        return float("inf")
    low, high = node.numbers(name, 2)
    if not np.isclose(-low, high):
        what = f"{name} {low:g} to {high:g} of {node.get('name', node.tag)!r} is uneven"
        done.note(f"{node.location(name)}: {what}; forces up to {max(abs(low), abs(high)):g} act both ways")
    return float(max(abs(low), abs(high)))
