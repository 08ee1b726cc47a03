"""Pictures, depths and a film without a display.

python examples/camera.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

import sap_warp
from sap_warp import Simulation

sap_warp.quiet()


def main(folder: str | Path = ".", seconds: float = 1.0, width: int = 320) -> list[Path]:
    """Write a picture, a picture of depths and a film of so many seconds."""
    folder, height = Path(folder), 3 * width // 4
    sim = Simulation.from_scene("humanoid", num_worlds=1)
    film = folder / "fall.gif"
    with sim.recorder(film, fps=10, width=width, height=height, orbit=30.0) as recorder:
        recorder.run(seconds=seconds)
    picture, depths = folder / "picture.png", folder / "depths.png"
    Image.fromarray(sim.render("side", width=width, height=height)).save(picture)
    depth = sim.render("side", width=width, height=height, kind="depth")  # [m], infinite where there is nothing
    near = np.isfinite(depth)
    shade = np.where(near, 255.0 * (1.0 - depth / depth[near].max()), 0.0)
    Image.fromarray(shade.astype(np.uint8)).save(depths)
    print("written:", film, picture, depths)
    return [film, picture, depths]


if __name__ == "__main__":
    main(*sys.argv[1:2])
