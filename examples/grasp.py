"""A Panda picks up a cube: how far does the cube slip in the hand, with which preset?

    python examples/grasp.py

Needs the `robots` extra.
"""

import numpy as np

import sap_warp
from sap_warp import Simulation

sap_warp.quiet()


def in_hand(sim: Simulation) -> np.ndarray:
    """Where the cube is in the frame of the last link [m]."""
    hand, cube = (sim.body_q[name].numpy()[0] for name in ("panda_link7", "cube"))
    axis, w, apart = -hand[3:6], hand[6], cube[:3] - hand[:3]  # the inverse rotation
    turn = 2.0 * np.cross(axis, apart)
    return apart + w * turn + np.cross(axis, turn)


def slip(preset: str, seconds: float) -> tuple[float, float]:
    """Height of the cube at the end, and how far it moved in the hand while it was held [m]."""
    sim = Simulation.from_scene("franka_pick_cube", num_worlds=1, contact_preset_variant=preset)
    sim.step(round(3.0 / sim.dt))  # the scene's control sequence has closed the hand by now
    start = in_hand(sim)
    sim.step(round((seconds - 3.0) / sim.dt))
    return float(sim.body_q["cube", 2].numpy()[0]), float(np.linalg.norm(in_hand(sim) - start))


def main(seconds: float = 6.0, presets: tuple[str, ...] = ("drake", "robot")) -> dict[str, tuple[float, float]]:
    """Pick with each preset."""
    found = {preset: slip(preset, seconds) for preset in presets}
    for preset, (height, moved) in found.items():
        print(f"{preset:<8} cube at {height:.3f} m, moved by {1e3 * moved:.3f} mm relative to the hand")
    return found


if __name__ == "__main__":
    main()
