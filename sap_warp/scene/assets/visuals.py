"""Visual shapes of assets that a scene leaves out, read when somebody looks.

A simulation needs no visual meshes, so scenes may leave them out (``load_visual_shapes: false``) and are smaller in
memory for it. Whoever draws the scene reads them from the same files here; bodies are the same either way.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import newton
import numpy as np

from ..objects.joint_defaults import set_joint_defaults
from ..objects.materials import set_defaults
from ..text.errors import SapSceneError
from .assets import import_assets

if TYPE_CHECKING:
    from ..build import SceneBuild


@dataclass(frozen=True)
class AssetShape:
    """A visual shape of an asset in the authored world."""

    body: int
    """Number of its body in the authored world; -1 is the world itself."""
    kind: int
    """`newton.GeoType`."""
    pose: tuple[float, ...]
    """Pose in the frame of the body [m, quaternion xyzw]."""
    scale: tuple[float, float, float]
    """Scale with the meaning of `newton.Model.shape_scale` [m]."""
    source: Any
    """The mesh, or None."""
    color: tuple[float, float, float]
    """Red, green, blue between 0 and 1."""
    label: str
    """Name of the shape."""


@dataclass(frozen=True)
class AssetVisuals:
    """Visual shapes that a loaded scene has not got, and where copies of the world stand."""

    shapes: list[AssetShape]
    """Visual shapes of the authored world."""
    bodies: frozenset[int]
    """Bodies of the authored world with visual shapes: their colliding shapes need not be drawn."""
    fixed_shapes: frozenset[int]
    """Colliding shapes on no body, of the authored world as simulated, that need not be drawn."""
    offsets: np.ndarray
    """Offset of each copy of the authored world [m], shape (worlds, 3)."""


def read_asset_visuals(loaded: SceneBuild, worlds: int) -> AssetVisuals | None:
    """Read the visual shapes that a scene leaves out; None if it leaves out none or they cannot be read.

    A file that is missing is no reason not to draw the rest: it is a warning, and colliding shapes are drawn instead.

    Args:
        loaded: The scene as it is simulated.
        worlds: Copies of the authored world.
    """
    scene = loaded.scene
    lacking = [i for i, asset in enumerate(scene.assets) if _leaves_out(asset)]
    if not lacking:
        return None
    assets = [a.model_copy(update={"load_visual_shapes": True}) if _leaves_out(a) else a for a in scene.assets]
    build = loaded.begin_again(scene.model_copy(update={"assets": assets}))
    build.builder.rigid_gap = scene.builder.rigid_gap
    set_defaults(build.builder, scene.builder.defaults.shape.given())
    set_joint_defaults(build.builder, scene.builder.defaults.joint)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # loading the scene has said it
        import_assets(build)
    if build.problems:
        what = SapSceneError(build.problems)
        warnings.warn(f"Visual shapes cannot be read; colliding shapes are drawn. {what}", stacklevel=2)
        return None
    seen = {i: _shown(build.builder, build.imported[i]["shape"]) for i in lacking}
    shapes = [shape for some in seen.values() for shape in some]
    fixed = [
        number
        for i, some in seen.items()
        if any(shape.body < 0 for shape in some)
        for number in loaded.imported[i]["shape"]
        if loaded.builder.shape_body[number] < 0
    ]
    offsets = newton.utils.compute_world_offsets(worlds, scene.replicate.spacing, newton.Axis.Z)
    return AssetVisuals(
        shapes=shapes,
        bodies=frozenset(shape.body for shape in shapes if shape.body >= 0),
        fixed_shapes=frozenset(fixed),
        offsets=np.asarray(offsets, np.float64),
    )


def _leaves_out(asset: Any) -> bool:
    return not asset.load_visual_shapes and not getattr(asset, "parse_visuals_as_colliders", False)


def _shown(builder: newton.ModelBuilder, shapes: Iterable[int]) -> list[AssetShape]:
    """Return those of ``shapes`` that are visible and do not collide."""
    flags = newton.ShapeFlags
    found = []
    for i in shapes:
        flag = int(builder.shape_flags[i])
        if not flag & flags.VISIBLE or flag & (flags.COLLIDE_SHAPES | flags.SITE):
            continue
        red, green, blue = (float(value) for value in builder.shape_color[i])
        sx, sy, sz = (float(value) for value in builder.shape_scale[i])
        found.append(
            AssetShape(
                body=int(builder.shape_body[i]),
                kind=int(builder.shape_type[i]),
                pose=tuple(float(value) for value in builder.shape_transform[i]),
                scale=(sx, sy, sz),
                source=builder.shape_source[i],
                color=(red, green, blue),
                label=builder.shape_label[i],
            )
        )
    return found
