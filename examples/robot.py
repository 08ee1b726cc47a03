"""Load a robot from its URDF, MJCF or USD file and see what is in it.

    python examples/robot.py [robot.urdf]

Without a file it takes Newton's cart with two poles. Notes say what was added to the file, that nothing holds its
joints, and that this cart begins inside the ground that was added.
"""

import sys

import newton.examples

import sap_warp
from sap_warp import Simulation

sap_warp.quiet()


def main(file: str | None = None, steps: int = 200) -> Simulation:
    """Load ``file``, list its joints, let it go for so many steps."""
    sim = Simulation.from_scene(file or newton.examples.get_asset("cartpole.urdf"), num_worlds=4)
    print("joints:", *sim.find_joints("*").names)
    print("bodies:", *sim.find_bodies("*").names)
    sim.joint_q[:, -1] = 0.1  # bend the last joint a little: exactly upright, poles would stay where they are
    sim.step(steps)
    print("joint positions of the first world [m or rad]:", sim.joint_q.numpy()[0])
    return sim


if __name__ == "__main__":
    main(*sys.argv[1:2])
