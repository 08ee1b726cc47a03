"""Draw the shipped scenes as they collide, for docs/scenes.md: one small PNG for each.

    python tools/draw_scenes.py [name ...]

Needs matplotlib and the `robots` extra. Scenes whose robot has to be fetched are left out.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import newton
import numpy as np
import trimesh
import warp as wp

matplotlib.use("Agg")
from matplotlib import pyplot
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from sap_warp import Simulation
from sap_warp.scene import load_sap_scene, load_sap_scene_config

ROOT = Path(__file__).resolve().parents[1]
MOMENTS = {
    "free_cube": 0.25,
    "cartpole": 1.2,
    "humanoid": 1.4,
    "multi_joints": 1.0,
    "franka_pick_cube": 3.6,
    "double_pendulum": 0.3,
    "spheres": 0.3,
}
"""When a picture is taken [s]; at the start if not listed."""
ZOOM = {"cartpole": 2.5}
"""Pictures that show the middle only: the rail is 8 m long."""
LIGHT = np.array([0.4, -0.5, 0.77])
COLORS = np.array([[0.35, 0.55, 0.75], [0.80, 0.55, 0.30], [0.45, 0.65, 0.45], [0.65, 0.45, 0.60], [0.55, 0.55, 0.55]])


def shape_triangles(model: Any, shape: int) -> np.ndarray | None:
    """Corners of the triangles of a shape in its own frame, shape [triangles, 3, 3]; None for a plane."""
    kind = newton.GeoType(int(model.shape_type.numpy()[shape]))
    a, b, c = (float(x) for x in model.shape_scale.numpy()[shape])
    if kind == newton.GeoType.BOX:
        mesh = trimesh.creation.box((2 * a, 2 * b, 2 * c))
    elif kind == newton.GeoType.SPHERE:
        mesh = trimesh.creation.icosphere(subdivisions=2, radius=a)
    elif kind == newton.GeoType.CAPSULE:
        mesh = trimesh.creation.capsule(height=2 * b, radius=a, count=[12, 12])
        mesh.apply_translation([0.0, 0.0, -mesh.bounds.mean(axis=0)[2]])
    elif kind == newton.GeoType.CYLINDER:
        mesh = trimesh.creation.cylinder(radius=a, height=2 * b, sections=20)
    elif kind in (newton.GeoType.MESH, newton.GeoType.CONVEX_MESH):
        source = model.shape_source[shape]
        mesh = trimesh.Trimesh(np.asarray(source.vertices) * [a, b, c], np.asarray(source.indices).reshape(-1, 3))
        mesh = mesh.convex_hull
    else:
        return None
    return np.asarray(mesh.triangles)


def draw(path: Path) -> None:
    """Simulate a scene up to its moment and write its picture."""
    loaded = load_sap_scene(path, num_worlds=1, device="cpu")
    model = loaded.sap_model
    poses = loaded.sap_state.body_q.numpy()
    if path.stem in MOMENTS:
        simulation = Simulation.from_loaded(loaded)
        simulation.step(round(MOMENTS[path.stem] / loaded.dt))
        poses = simulation.body_q.numpy()[0]
    collides = model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)
    triangles, colors = [], []
    for shape, body in enumerate(model.shape_body.numpy()):
        corners = shape_triangles(model, shape) if collides[shape] else None
        if corners is None:
            continue
        pose = wp.transform(*model.shape_transform.numpy()[shape])
        pose = wp.transform(*poses[body]) * pose if body >= 0 else pose
        rotation = np.array(wp.quat_to_matrix(pose.q)).reshape(3, 3)
        corners = corners @ rotation.T + np.array(pose.p)
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
        shade = 0.55 + 0.45 * np.clip(normals @ LIGHT, 0.0, 1.0)
        triangles.append(corners)
        colors.append(np.clip(COLORS[(body + 1) % len(COLORS)] * shade[:, None], 0.0, 1.0))
    file = ROOT / "docs" / "images" / f"{path.stem}.png"
    _write_picture(np.concatenate(triangles), np.concatenate(colors), ZOOM.get(path.stem, 1.0), file)


def _write_picture(triangles: np.ndarray, colors: np.ndarray, zoom: float, file: Path) -> None:
    figure = pyplot.figure(figsize=(3.6, 3.0), dpi=100)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), projection="3d")
    axes.add_collection3d(Poly3DCollection(triangles, facecolors=colors, edgecolors="none", linewidths=0.0))
    low, high = triangles.min(axis=(0, 1)), triangles.max(axis=(0, 1))
    low[2] = min(low[2], 0.0)
    middle, half = (low + high) / 2, 0.5 * (high - low).max()
    for name, center in zip("xyz", middle, strict=True):
        getattr(axes, f"set_{name}lim")(center - half, center + half)
    corners = middle + half * np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    corners[:, 2] = 0.0
    axes.add_collection3d(Poly3DCollection([corners], facecolors=[(0.9, 0.9, 0.88)], zorder=-1))
    axes.computed_zorder = False
    axes.set_box_aspect((1, 1, 1), zoom=1.25 * zoom)
    axes.view_init(elev=18, azim=-55)
    axes.set_axis_off()
    figure.savefig(file)
    pyplot.close(figure)
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
