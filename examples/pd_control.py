"""Follow a moving target with the drives of a Panda, and see how far behind the arm is.

    python examples/pd_control.py

Needs the `robots` extra.
"""

import numpy as np

import sap_warp
from sap_warp import Simulation

sap_warp.quiet()


def main(seconds: float = 4.0) -> float:
    """Simulate so long [s]; returns the largest distance from the target in the second half [rad]."""
    sim = Simulation.from_scene("panda", num_worlds=1)
    sim.joint_target_ke["panda_joint[1-7]"] = 2000.0  # N m/rad, implicit: stiff gains are stable
    sim.joint_target_kd["panda_joint[1-7]"] = 100.0  # N m s/rad
    home = sim.joint_q.numpy().copy()
    target, error = home.copy(), 0.0
    column = sim.find_coords("panda_joint4").indices[0]
    while sim.time < seconds:
        target[:, column] = home[:, column] + 0.3 * np.sin(2.0 * np.pi * 0.5 * sim.time)
        sim.joint_target_q = target
        sim.step(4)  # a new target every 20 ms
        if sim.time > 0.5 * seconds:
            error = max(error, float(np.abs(sim.joint_q.numpy() - target)[:, column].max()))
    print(f"panda_joint4 stayed within {error:.4f} rad of its target")
    return error


if __name__ == "__main__":
    main()
