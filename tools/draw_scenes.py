"""Take pictures of the shipped scenes, for docs/scenes.md: one small PNG for each.

    python tools/draw_scenes.py [name ...]

Needs the `robots` extra. Scenes whose robot has to be fetched are left out.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from PIL import Image

from sap_warp import Simulation
from sap_warp.scene import load_sap_scene_config

ROOT = Path(__file__).resolve().parents[1]
MOMENTS = {
    "free_cube": 0.25,
    "cartpole": 1.2,
    "humanoid": 1.4,
    "multi_joints": 1.0,
    "franka_pick_cube": 3.6,
    "double_pendulum": 0.3,
    "spheres": 0.5,
}
"""When a picture is taken [s]; at the start if not listed."""
CAMERAS = {
    "cartpole": "front,zoom=2.4",
    "allegro_hand": "iso,azimuth=150",
    "double_pendulum": "front,azimuth=-25",
    "spheres": "iso,elevation=62",
    "free_cube": "auto,zoom=0.75",
}
"""Cameras other than the one that finds its place by itself."""
WIDTH, HEIGHT = 480, 400
COLORS = 128
"""Of the palette: the files stay small."""


def draw(path: Path) -> None:
    """Simulate a scene up to its moment and write its picture."""
    with Simulation.from_scene(path, num_worlds=1, device="cpu", notes=False) as sim:
        sim.step(round(MOMENTS.get(path.stem, 0.0) / sim.dt))
        picture = sim.render(CAMERAS.get(path.stem), width=WIDTH, height=HEIGHT, samples=4)
    file = ROOT / "docs" / "images" / f"{path.stem}.png"
    Image.fromarray(picture).quantize(COLORS, dither=Image.Dither.FLOYDSTEINBERG).save(file, optimize=True)
    print(f"{file.name}: {file.stat().st_size // 1024} KB")


def main() -> None:
    """Draw the scenes named on the command line, or all."""
    warnings.filterwarnings("ignore", message="Inertia validation corrected")
    names = sys.argv[1:] or [path.stem for path in sorted((ROOT / "assets" / "yaml").glob("*.yaml"))]
    (ROOT / "docs" / "images").mkdir(exist_ok=True)
    for name in names:
        path = ROOT / "assets" / "yaml" / f"{name}.yaml"
        if all(asset.source.git is None for asset in load_sap_scene_config(path).assets):
            draw(path)


if __name__ == "__main__":
    main()
