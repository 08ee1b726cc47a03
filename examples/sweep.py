"""Which friction holds a box on a slope? A sweep tries many and keeps every run in a folder.

    python examples/sweep.py [folder]

Needs the `scale` extra, for Parquet files. Friction of a pair is the harmonic mean, and holds where that is more than
the tangent of the slope.
"""

import math
import sys
from pathlib import Path

import numpy as np

import sap_warp

sap_warp.quiet()
SLOPE, BOX_MU = math.radians(20.0), 0.5
HOLDS = BOX_MU * math.tan(SLOPE) / (2.0 * BOX_MU - math.tan(SLOPE))
"""Friction of the ground whose harmonic mean with the box's is the tangent of the slope."""
SCENE = {
    "schema_version": 1,
    "simulation": {"dt": 0.005},
    "builder": {"defaults": {"shape": {"density": 500.0, "ke": 1.0e5, "tau": 0.01, "mu": BOX_MU}}},
    "ground": True,
    "bodies": [
        {"id": "box", "transform": {"p": [0, 0, 0.05]}, "shapes": [{"type": "box", "hx": 0.1, "hy": 0.1, "hz": 0.05}]}
    ],
    "joints": [{"id": "box_free", "type": "free", "parent": "world", "child": "box"}],
    "post_build": [
        {"op": "set_attr", "attr": "gravity", "value": [9.81 * math.sin(SLOPE), 0.0, -9.81 * math.cos(SLOPE)]}
    ],
}


def main(folder: str | Path = "slope_sweep", points: int = 16) -> float:
    """Vary the friction of the ground; returns the smallest with which the box stays where it is."""
    result = sap_warp.sweep(SCENE, {"materials.ground.mu": f"0.2:0.5:{points}"}, folder, seconds=1.0)
    mu, slip = np.array(result["materials.ground.mu"]), np.array(result["slip"])
    for each, way in zip(mu, slip, strict=True):
        print(f"friction of the ground {each:.3f}: slid by {1e3 * way:7.3f} mm")
    least = float(mu[slip < 1e-3].min())
    print(f"holds from {least:.3f} on; by hand it should from {HOLDS:.3f} on. All rows are in {folder}")
    return least


if __name__ == "__main__":
    main(*sys.argv[1:2])
