"""Write franka_pick_cube.json: joint targets with which the Panda of the scene picks up the cube.

The hand follows straight lines between poses, pointing down, at speeds that start and end at zero. Each sample is
turned into joint angles by damped least squares on the pose error, starting from the sample before. To run it:

    python assets/control/franka_pick_cube.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import yaml

from sap_warp.conventions.rotations import rotation_matrix
from sap_warp.scene import load_sap_scene

HERE = Path(__file__).resolve().parent
SCENE = HERE.parent / "yaml" / "franka_pick_cube.yaml"
OUTPUT = HERE / "franka_pick_cube.json"

SAMPLE_DT = 0.02
"""Time between samples [s]."""
ARM = [f"panda_joint{i}" for i in range(1, 8)]
FINGERS = ["panda_finger_joint1", "panda_finger_joint2"]
READY = np.array([0.0, -np.pi / 4, 0.0, -0.75 * np.pi, 0.0, np.pi / 2, np.pi / 4])
"""First guess for the arm [rad]: elbow up, hand pointing down."""
OPEN, CLOSED = 0.04, 0.0
"""Finger targets [m]; the cube stops the fingers at 0.025."""
TOOL = np.array([0.0, 0.0, 0.107 + 0.1034])
"""Point between the finger tips in the frame of the last link [m], and the turn of the hand about z [rad]."""
TOOL_TURN = -np.pi / 4

ABOVE, CUBE, LIFTED = np.array([0.5, 0.0, 0.2]), np.array([0.5, 0.0, 0.025]), np.array([0.5, 0.0, 0.325])
PHASES = [
    # duration [s], tool from, tool to, finger target
    (0.4, ABOVE, ABOVE, OPEN),
    (1.2, ABOVE, CUBE, OPEN),
    (0.2, CUBE, CUBE, OPEN),
    (0.7, CUBE, CUBE, CLOSED),
    (1.8, CUBE, LIFTED, CLOSED),
    (1.7, LIFTED, LIFTED, CLOSED),
]
DOWN = np.diag([1.0, -1.0, -1.0])
"""Rotation of the hand: its z points down, the fingers move along y."""


def turn(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rotation matrix about a unit axis."""
    return rotation_matrix(np.append(axis * np.sin(angle / 2), np.cos(angle / 2)))


class Arm:
    """Forward kinematics of the seven joints, from the arrays of the model that is simulated."""

    def __init__(self) -> None:
        content = yaml.safe_load(SCENE.read_text(encoding="utf-8"))
        del content["control"]  # what this script writes
        model = load_sap_scene(content, num_worlds=1, device="cpu").sap_model
        labels = [label.rsplit("/", 1)[-1] for label in model.joint_label]
        self.joints = [labels.index(name) for name in ARM]
        self.before, self.after = (getattr(model, name).numpy().astype(float) for name in ("joint_X_p", "joint_X_c"))
        dofs = model.joint_qd_start.numpy()
        self.axes = [model.joint_axis.numpy()[dofs[joint]].astype(float) for joint in self.joints]

    def tool(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Position and rotation of the tool, and the 6 x 7 Jacobian of its velocity (linear, then angular)."""
        position, frame = np.zeros(3), np.eye(3)
        origins, directions = [], []
        for joint, axis, angle in zip(self.joints, self.axes, q, strict=True):
            position = position + frame @ self.before[joint, :3]
            frame = frame @ rotation_matrix(self.before[joint, 3:])
            origins.append(position)
            directions.append(frame @ axis)
            frame = frame @ turn(axis, angle) @ rotation_matrix(self.after[joint, 3:]).T
            position = position - frame @ self.after[joint, :3]
        position = position + frame @ TOOL
        linear = [np.cross(direction, position - origin) for origin, direction in zip(origins, directions, strict=True)]
        jacobian = np.vstack([np.transpose(linear), np.transpose(directions)])
        return position, frame @ turn(np.array([0.0, 0.0, 1.0]), TOOL_TURN), jacobian

    def solve(self, target: np.ndarray, guess: np.ndarray) -> np.ndarray:
        """Joint angles that bring the tool to ``target``, pointing down, near ``guess``."""
        q = guess.copy()
        for _ in range(100):
            position, frame, jacobian = self.tool(q)
            # Half the sum of the cross products of both frames' axes: the rotation vector of a small difference.
            angular = 0.5 * np.cross(frame.T, DOWN.T).sum(axis=0)
            error = np.concatenate([target - position, angular])
            if np.abs(error).max() < 1e-6:
                return q
            q = q + jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 1e-6 * np.eye(6), error)
        raise RuntimeError(f"no joint angles reach {target}; error {error}")


def main() -> None:
    """Write the file."""
    arm = Arm()
    q = arm.solve(ABOVE, READY)
    rows = []
    for duration, start, end, finger in PHASES:
        count = round(duration / SAMPLE_DT)
        for i in range(1, count + 1):
            s = i / count
            q = arm.solve(start + (end - start) * s**3 * (10.0 - 15.0 * s + 6.0 * s * s), q)
            rows.append([*q, finger, finger])
    first = [*rows[0][:7], OPEN, OPEN]
    lines = ",\n    ".join(json.dumps([round(value, 6) for value in row]) for row in rows)
    OUTPUT.write_text(
        "{\n"
        f'  "dt": {SAMPLE_DT},\n'
        f'  "joint_labels": {json.dumps(ARM + FINGERS)},\n'
        f'  "joint_q": {json.dumps([round(value, 6) for value in first])},\n'
        f'  "joint_target_pos": [\n    {lines}\n  ]\n'
        "}\n",
        encoding="utf-8",
    )
    print(f"{OUTPUT.name}: {len(rows)} samples, {len(rows) * SAMPLE_DT:g} s")


if __name__ == "__main__":
    main()
