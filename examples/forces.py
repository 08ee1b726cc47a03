"""Read forces: what carries a humanoid that has fallen, and what its joints give.

python examples/forces.py
"""

import numpy as np

import sap_warp
from sap_warp import Simulation

sap_warp.quiet()


def main(seconds: float = 4.0) -> tuple[float, float]:
    """Let it fall for so long; returns the sum of the contact forces along z and the weight [N]."""
    sim = Simulation.from_scene("humanoid", num_worlds=2)
    sim.step(round(seconds / sim.dt))
    forces = sim.contact_forces().numpy()[0]  # (bodies, 6): force [N] and moment about the centre of mass [N m]
    weight = 9.81 * float(sim.body_mass.numpy()[0].sum())
    carried = float(forces[:, 2].sum())
    names = sim.find_bodies("*").names
    for body in np.argsort(-np.abs(forces[:, 2]))[:5]:
        print(f"{names[body]:<20} {forces[body, 2]:8.1f} N")
    print(f"together {carried:.1f} N, weight {weight:.1f} N")
    print(f"spring in the left knee: {float(sim.joint_forces().spring['left_knee'].numpy()[0]):.2f} N m")
    return carried, weight


if __name__ == "__main__":
    main()
