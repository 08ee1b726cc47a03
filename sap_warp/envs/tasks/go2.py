"""Task of a Unitree Go2 that walks at a commanded velocity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...scene.shipped.scene_files import find_scene_file
from ..draws import Draws
from ..rotations import down_in_body, rotate, rotate_inverse
from ..task import Task
from ..terms import JointPositions, metric, observation, reward, termination

if TYPE_CHECKING:
    from ...simulation import Simulation

LEGS = ("FL", "FR", "RL", "RR")
FOOT, FOOT_RADIUS = np.array([-0.008, 0.0, -0.2228], np.float32), 0.028
"""Centre of a foot in the frame of its calf [m], and its radius [m]."""
STIFFNESS, DAMPING = 80.0, 2.0
"""Gains of the drives [N m/rad, N m s/rad], a little softer than in the shipped scene, to land softly."""
SCALE = 0.3
"""Joint angle of an action of 1 [rad]."""
LOWEST, HIGHEST = np.array([-0.5, -0.4, -1.0], np.float32), np.array([1.0, 0.4, 1.0], np.float32)
"""Range of the commands: forward [m/s], to the left [m/s], turning [rad/s]."""
PERIOD, CLEARANCE, LIFT = 0.5, 0.06, 0.12
"""Trot: time for a step of all legs [s], height of feet [m], and of their targets, as drives give way [m]."""
LEG_LENGTH, STANDING_HEIGHT = 0.213, 0.297
"""Length of thigh and of calf [m]; height of the hips above the ground [m]."""
LIFT_ANGLE = float(np.arccos((STANDING_HEIGHT - LIFT) / (2.0 * LEG_LENGTH)) - 0.8)
"""Rotation of a thigh that lifts its foot [rad]."""
LEG_OFFSETS = np.array([(0.19, 0.14), (0.19, -0.14), (-0.19, 0.14), (-0.19, -0.14)], np.float32)
"""Offset of feet from the middle of the trunk: forward and to the left [m]."""


def go2_scene() -> dict[str, Any]:
    """Return the shipped scene with other drives."""
    import yaml

    content = yaml.safe_load(find_scene_file("unitree_go2").read_text(encoding="utf-8"))
    content["post_build"] = [
        {**operation, "ke": STIFFNESS, "kd": DAMPING} if operation["op"] == "set_joint_targets" else operation
        for operation in content["post_build"]
    ]
    # A calf weighs little beside what it carries: weights of single bodies would let feet sink by 1 cm.
    content["simulation"]["solver"]["contact_preset_variant"] = "drake"
    return content


class Go2Walk(Task):
    """A robot with twelve position drives, 50 times a second. Commands change every few seconds.

    Actions are added to a plain trot: a clock says which pair of legs is in the air, and feet go back and forth as
    far as the commanded velocity asks for. By itself that trot slips, sways and falls short; the policy, which sees the
    clock, learns to follow the command. Starting from it makes learning a matter of minutes.
    """

    dt = 0.01
    substeps = 2
    time_limit = 20.0
    actions = JointPositions("*_joint", scale=SCALE)
    training: ClassVar = {
        "ppo": {"num_worlds": 256, "iterations": 600, "settings": {"deviation": 0.4, "target_kl": 0.016}}
    }
    film: ClassVar = {"camera": {"preset": "auto", "follow": "base", "fov": 30.0}}
    command_time = 5.0
    """Time for which a command is kept [s]."""

    def build(self, num_worlds: int, device: Any, options: dict[str, Any]) -> Simulation:
        """Build the Go2 on flat ground."""
        from ...simulation import Simulation

        return Simulation.from_scene(go2_scene(), num_worlds=num_worlds, device=device, dt=self.dt, **options)

    def setup(self) -> None:
        """Find feet, and make commands and clock."""
        make, take = self.arrays.zeros, self.arrays.from_numpy
        self._calves = [int(self.sim.find_bodies(f"{leg}_calf").indices[0]) for leg in LEGS]
        self._foot = take(FOOT)
        self._leg_phase = take(np.array([0.0, np.pi, np.pi, 0.0], np.float32))
        self._limits = take(self.sim.model.joint_effort_limit.numpy().reshape(self.num_worlds, -1)[0, 6:].copy())
        self._targets = self.arrays.view(self.sim.joint_target_q)
        self._leg_x, self._leg_y = take(LEG_OFFSETS[:, 0].copy()), take(LEG_OFFSETS[:, 1].copy())
        self.command = make(self.num_worlds, 3)
        """Wanted velocity in the robot's frame: forward, to the left [m/s], turning [rad/s]; shape (worlds, 3)."""
        self.clock = make(self.num_worlds)
        """Phase of the gait [rad]."""

    def apply(self, actions: Any) -> None:
        """Apply the trot, with the action on top of it."""
        super().apply(actions + self.trot() / SCALE)

    def trot(self) -> Any:
        """Return angles from the standing pose [rad], shape (worlds, 12), that follow the command if nothing slips.

        A leg whose thigh turns by a and whose calf by -2 a keeps its foot below the hip, at 2 l cos a. On the ground
        a foot goes back as fast as the body goes forth above it: half a period at the velocity of its hip.
        """
        xp, phase = self.xp, self.clock[:, None] + self._leg_phase
        command, moving = self.command, self.moving[:, None]
        reach = -0.25 * PERIOD * xp.cos(phase) / STANDING_HEIGHT
        forth = reach * (command[:, :1] - command[:, 2:] * self._leg_y)
        side = reach * (command[:, 1:2] + command[:, 2:] * self._leg_x)
        bend = LIFT_ANGLE * xp.sin(phase).clip(0.0) * moving
        return xp.stack([side, bend - forth, -2.0 * bend], 2).reshape(self.num_worlds, 12)

    def start(self, worlds: Any, draw: Draws) -> tuple[Any, Any]:
        """Begin standing in any direction, joints a little off, moving a little."""
        q, qd = self.initial_q[worlds] + 0.0, draw.uniform(-0.2, 0.2, 18)
        heading = draw.uniform(-np.pi, np.pi)
        q[:, 5], q[:, 6] = self.xp.sin(0.5 * heading), self.xp.cos(0.5 * heading)
        q[:, 7:] += draw.uniform(-0.1, 0.1, 12)
        q[:, 2] += 0.01
        self.command[worlds] = self.draw_commands(draw)
        self.clock[worlds] = draw.uniform(0.0, 2.0 * np.pi)
        return q, qd

    def draw_commands(self, draw: Draws) -> Any:
        """Draw commands for as many worlds as ``draw`` has; one in ten is to stand still."""
        command = draw.uniform(LOWEST, HIGHEST, 3)
        return command * (draw.uniform() > 0.1)[:, None]

    def advance(self, draw: Draws) -> None:
        """Advance the clock, and draw new commands where it is time."""
        self.clock = (self.clock + 2.0 * np.pi * self.control_dt / PERIOD) % (2.0 * np.pi)
        due = self.steps % round(self.command_time / self.control_dt) == 0
        if due.any():
            self.command[due] = self.draw_commands(draw)[due]

    def derive(self) -> None:
        """Compute velocities and gravity in the robot's frame, and heights of the feet."""
        xp, turn = self.xp, self.joint_q[:, 3:7]
        self.velocity = rotate_inverse(xp, turn, self.joint_qd[:, :3])
        self.spin = rotate_inverse(xp, turn, self.joint_qd[:, 3:6])
        self.down = down_in_body(xp, turn)
        self.feet = xp.stack(
            [self.body_q[:, i, :3] + rotate(xp, self.body_q[:, i, 3:], self._foot) for i in self._calves], 1
        )
        self.foot_height = self.feet[:, :, 2] - self.ground_below(self.feet) - FOOT_RADIUS
        self.moving = (self.command**2).sum(1) > 1e-3

    def ground_below(self, points: Any) -> Any:
        """Return the height of the ground below points of shape (worlds, n, 3) [m]; 0 on flat ground."""
        return 0.0

    # What the policy sees.

    @observation(noise=0.05)
    def body_velocity(self) -> Any:
        """Return the velocity in the robot's frame [m/s]."""
        return self.velocity

    @observation(noise=0.1, scale=0.5)
    def body_spin(self) -> Any:
        """Return the angular velocity in the robot's frame [rad/s]."""
        return self.spin

    @observation(noise=0.03)
    def gravity_direction(self) -> Any:
        """Return the direction of gravity in the robot's frame."""
        return self.down

    @observation
    def commands(self) -> Any:
        """Return the commanded velocity."""
        return self.command

    @observation(noise=0.01)
    def joint_angles(self) -> Any:
        """Return angles away from the standing pose [rad]."""
        return self.joint_q[:, 7:] - self.initial_q[:, 7:]

    @observation(noise=0.5, scale=0.1)
    def joint_speeds(self) -> Any:
        """Return joint velocities [rad/s]."""
        return self.joint_qd[:, 6:]

    @observation
    def last_action(self) -> Any:
        """Return the previous action."""
        return self.action

    @observation
    def gait_clock(self) -> Any:
        """Return sine and cosine of the phase; zero when it should stand."""
        return self.xp.sin(self.clock) * self.moving, self.xp.cos(self.clock) * self.moving

    # What it is paid for.

    @reward(2.0)
    def follow_velocity(self) -> Any:
        """Return 1 at the commanded velocity."""
        return self.xp.exp(-((self.velocity[:, :2] - self.command[:, :2]) ** 2).sum(1) / 0.1)

    @reward(1.0)
    def follow_turning(self) -> Any:
        """Return 1 at the commanded turning speed."""
        return self.xp.exp(-((self.spin[:, 2] - self.command[:, 2]) ** 2) / 0.25)

    @reward(1.0)
    def gait(self) -> Any:
        """Return 1 when every foot is as high above the ground as the clock says."""
        lift = self.xp.sin(self.clock[:, None] + self._leg_phase).clip(0.0) * self.moving[:, None]
        return self.xp.exp(-((self.foot_height - CLEARANCE * lift) ** 2).sum(1) / 0.005)

    @reward(-1.0)
    def bouncing(self) -> Any:
        """Return the square of the vertical speed."""
        return self.velocity[:, 2] ** 2

    @reward(-0.05)
    def rolling(self) -> Any:
        """Return squares of roll and pitch speeds."""
        return (self.spin[:, :2] ** 2).sum(1)

    @reward(-3.0)
    def tilt(self) -> Any:
        """Return the square of the sine of the tilt."""
        return (self.down[:, :2] ** 2).sum(1)

    @reward(-0.02)
    def hurry(self) -> Any:
        """Return squared changes of the action."""
        return ((self.action - self.previous_action) ** 2).sum(1)

    @reward(-2.0e-4)
    def torque(self) -> Any:
        """Return squares of the drives' torques [N^2 m^2]."""
        torque = STIFFNESS * (self._targets[:, 7:] - self.joint_q[:, 7:]) - DAMPING * self.joint_qd[:, 6:]
        return (torque.clip(-self._limits, self._limits) ** 2).sum(1)

    @reward(-0.2)
    def wide_legs(self) -> Any:
        """Return squares of the hip angles [rad^2]."""
        return (self.joint_q[:, 7::3] ** 2).sum(1)

    @metric
    def velocity_error(self) -> Any:
        """Return the distance from the commanded velocity [m/s]."""
        return self.xp.sqrt(((self.velocity[:, :2] - self.command[:, :2]) ** 2).sum(1))

    @metric
    def turning_error(self) -> Any:
        """Return the distance from the commanded turning speed [rad/s]."""
        return abs(self.spin[:, 2] - self.command[:, 2])

    @termination
    def fallen(self) -> Any:
        """End when it is tilted by more than 60 degrees, or the trunk is near the ground."""
        height = self.joint_q[:, 2] - self.ground_below(self.joint_q[:, None, :3])
        height = height[:, 0] if height.ndim == 2 else height
        return (self.down[:, 2] > -0.5) | (height < 0.15)
