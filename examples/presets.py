"""One stack of boxes with each preset: how deep it rests and how many iterations a step takes.

python examples/presets.py
"""

import sap_warp
from sap_warp import Simulation

sap_warp.quiet()
PRESETS = ("approx32", "approx64", "drake", "robot")


def main(steps: int = 400) -> dict[str, float]:
    """Simulate so many steps with each; returns how far the top box has come down [m]."""
    found = {}
    for preset in PRESETS:
        sim = Simulation.from_scene("box_stack", num_worlds=1, contact_preset_variant=preset)
        start = float(sim.body_q.numpy()[0, -1, 2])
        sim.step(steps)
        found[preset] = start - float(sim.body_q.numpy()[0, -1, 2])
        iterations = sim.statistics.iterations.mean
        print(f"{preset:<9} top box {1e3 * found[preset]:6.3f} mm lower, {iterations:.2f} Newton iterations per step")
    return found


if __name__ == "__main__":
    main()
