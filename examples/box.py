"""Drop a box on the ground: the smallest simulation.

python examples/box.py
"""

import sap_warp
from sap_warp import Simulation

sap_warp.quiet()  # without Warp's lines about devices and kernels

SCENE = {
    "schema_version": 1,
    "simulation": {"dt": 0.005},
    "ground": True,
    "bodies": [
        {"id": "box", "transform": {"p": [0, 0, 0.5]}, "shapes": [{"type": "box", "hx": 0.1, "hy": 0.1, "hz": 0.1}]}
    ],
    "joints": [{"id": "box_free", "type": "free", "parent": "world", "child": "box"}],
}


def main(seconds: float = 2.0) -> float:
    """Simulate so long [s]; returns the height of the box at the end [m]."""
    sim = Simulation.from_scene(SCENE)
    while sim.time < seconds - 1e-9:
        sim.step(20)  # 0.1 s
        print(f"{sim.time:.1f} s: {float(sim.body_q['box', 2].numpy()[0]):.4f} m")
    return float(sim.body_q["box", 2].numpy()[0])


if __name__ == "__main__":
    main()
