"""Make the moving picture at the top of the README: a Panda picks, a Go2 walks, things fall on a pile.

    python tools/draw_teaser.py [file.gif]

Needs the `robots` extra. The three run side by side in real time, drawn by the package's own renderer. The Go2 walks
with the trot that its task begins learning from, so no trained policy is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import sap_warp
from sap_warp import Simulation
from sap_warp.envs import Runner
from sap_warp.envs.tasks.go2 import Go2Walk

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT = 280, 240
FRAMES, EVERY = 56, 0.08
"""Frames and the time between them [s]: 4.5 s."""
COLORS = 128
"""Of the palette, which all frames share so that what stands still takes no space."""
PEN = 0.4
"""Half the width of the low walls around the pile [m]."""
PALETTE = ((0.86, 0.37, 0.24), (0.16, 0.44, 0.59), (0.93, 0.69, 0.24), (0.36, 0.60, 0.42))


def panda() -> Iterator[np.ndarray]:
    """The shipped scene, from shortly before the hand closes."""
    with Simulation.from_scene("franka_pick_cube", num_worlds=1, device="cpu", notes=False) as sim:
        sim.step(round(1.5 / sim.dt))
        while True:
            yield sim.render("eye=1.45/-1.05/0.85,target=0.3/0/0.33,fov=34", width=WIDTH, height=HEIGHT, samples=4)
            sim.step(round(EVERY / sim.dt))


class Ahead(Go2Walk):
    """Walks straight on."""

    def draw_commands(self, draw: Any) -> Any:
        """0.8 m/s."""
        return np.tile([0.8, 0.0, 0.0], (self.num_worlds, 1))


def go2() -> Iterator[np.ndarray]:
    """The trot of the task, without a policy, seen by a camera that goes along."""
    runner = Runner(Ahead(1), seed=0)
    runner.reset()
    task = runner.task
    rest = np.zeros((1, task.action_size))
    while True:
        yield task.sim.render(
            "follow=base,eye=1.25/-1.15/0.45,target=0/0/-0.06,fov=34", width=WIDTH, height=HEIGHT, samples=4
        )
        for _ in range(round(EVERY / task.control_dt)):
            runner.step(rest)


def pile_scene(count: int = 44) -> dict[str, Any]:
    """Boxes, balls and capsules in a loose column above a pen, turned at random."""
    rng = np.random.default_rng(3)
    shapes = (
        {"type": "box", "hx": 0.06, "hy": 0.06, "hz": 0.06},
        {"type": "sphere", "radius": 0.06},
        {"type": "capsule", "radius": 0.04, "half_height": 0.06},
        {"type": "box", "hx": 0.1, "hy": 0.05, "hz": 0.03},
    )
    bodies, joints = [], []
    for i in range(count):
        layer, place = divmod(i, 4)
        x, y = 0.12 * np.array([place % 2 - 0.5, place // 2 - 0.5]) * 1.6 + rng.normal(0.0, 0.02, 2)
        turn = rng.normal(size=4)
        pose = {"p": [float(x), float(y), 0.2 + 0.22 * layer], "q": (turn / np.linalg.norm(turn)).tolist()}
        shape = shapes[i % len(shapes)] | {"color": list(PALETTE[(i + i // 4) % len(PALETTE)])}
        bodies.append({"id": f"thing_{i}", "transform": pose, "shapes": [shape]})
        joints.append({"id": f"free_{i}", "type": "free", "parent": "world", "child": f"thing_{i}"})
    walls = [
        {"type": "box", "transform": {"p": [x, y, 0.07]}, "hx": hx, "hy": hy, "hz": 0.07, "color": [0.45, 0.42, 0.40]}
        for x, y, hx, hy in ((PEN, 0, 0.01, PEN), (-PEN, 0, 0.01, PEN), (0, PEN, PEN, 0.01), (0, -PEN, PEN, 0.01))
    ]
    return {
        "schema_version": 1,
        "name": "pile",
        "simulation": {"dt": 0.005, "max_rigid_contact": 400},
        "builder": {"rigid_gap": 0.002, "defaults": {"shape": {"density": 500.0, "ke": 1e5, "tau": 0.01, "mu": 0.6}}},
        "ground": True,
        "bodies": bodies,
        "joints": joints,
        "post_build": [{"op": "add_shape", "body": "world", "shape": wall} for wall in walls],
    }


def pile() -> Iterator[np.ndarray]:
    """Things that fall on each other."""
    with Simulation.from_scene(pile_scene(), device="cpu", notes=False) as sim:
        while True:
            yield sim.render("eye=1.2/-1.2/1.1,target=0/0/0.12,fov=40", width=WIDTH, height=HEIGHT, samples=4)
            sim.step(round(EVERY / sim.dt))


def common_palette(frames: list[Image.Image]) -> Image.Image:
    """Half of the colours for what is grey, which is most of it, and half for what is not."""
    pixels = np.concatenate([np.asarray(frame).reshape(-1, 3) for frame in frames])
    colourful = np.ptp(pixels.astype(int), axis=1) > 48
    found = []
    for part in (pixels[~colourful], pixels[colourful]):
        drawn = Image.fromarray(part[None]).quantize(COLORS // 2, method=Image.Quantize.MEDIANCUT)
        found += (drawn.getpalette() or [])[: 3 * COLORS // 2]
    palette = Image.new("P", (1, 1))
    palette.putpalette(found)
    return palette


def main(path: Path) -> None:
    """Put the three beside each other and write them with one palette."""
    sap_warp.quiet()
    films = [panda(), go2(), pile()]
    frames = []
    for i in range(FRAMES):
        frames.append(Image.fromarray(np.concatenate([next(film) for film in films], axis=1)))
        print(f"frame {i + 1} of {FRAMES}", flush=True)
    palette = common_palette(frames[:: FRAMES // 4])
    first, *others = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    first.save(path, save_all=True, append_images=others, duration=round(1e3 * EVERY), loop=0, optimize=True)
    print(f"{path.name}: {path.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "teaser.gif")
