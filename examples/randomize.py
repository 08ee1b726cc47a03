"""Many worlds that differ: friction, masses and pushes drawn for each, resets of those that fell.

python examples/randomize.py
"""

import sap_warp
from sap_warp import Simulation
from sap_warp.randomization import Every, Randomize, Uniform

sap_warp.quiet()


def main(num_worlds: int = 64, rounds: int = 10) -> Simulation:
    """Push standing ants about for ``rounds`` times 0.5 s."""
    sim = Simulation.from_scene("ant", num_worlds=num_worlds)
    sim.randomize(
        [
            Randomize("ground_mu", Uniform(0.2, 1.2)),
            Randomize("body_mass", Uniform(0.8, 1.2), how="scale", names="torso"),
            Randomize("body_f", Uniform(-60.0, 60.0), names="torso", components=(0, 1), when=Every(1.0, hold=0.1)),
        ],
        seed=1,
    )
    fallen = 0
    for _ in range(rounds):
        sim.step(round(0.5 / sim.dt))
        down = sim.base_heights() < 0.3
        fallen += int(down.sum())
        sim.reset(down)  # these get other friction and masses, too
    mu = sim.ground_mu.numpy()
    print(f"friction from {mu.min():.2f} to {mu.max():.2f}; {fallen} worlds fell and began again")
    return sim


if __name__ == "__main__":
    main()
