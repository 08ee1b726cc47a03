"""Step 3: robots and objects from USD, URDF and MJCF files."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import newton
import warp as wp

from .bodies import add_body_armature
from .build import SceneBuild
from .collapse import collapse_fixed_joints
from .errors import Complaint
from .filters import drop_parent_filters
from .joint_defaults import fill_mjcf_joints, fill_urdf_joints, fill_usd_joints, watch_mjcf_friction
from .materials import make_shape_config, override_shapes
from .objects import MjcfAsset, UrdfAsset, UsdAsset
from .provenance import record_import
from .source_file import check_inside, checkout_root, resolve_source
from .urdf import prepare_urdf
from .xml_masses import check_masses


def import_assets(build: SceneBuild) -> None:
    """Import every asset of the scene."""
    for i, asset in enumerate(build.scene.assets):
        with build.at("assets", i, "source"):
            if asset.source.xml is None:
                source: Path | str = resolve_source(asset.source, build.document.directory)
            else:
                source = asset.source.xml
            if not isinstance(asset, UsdAsset):
                check_masses(source)
            _import_asset(build, i, asset, source)


def _import_asset(build: SceneBuild, i: int, asset: Any, source: Path | str) -> None:
    builder = build.builder
    before = {kind: getattr(builder, f"{kind}_count") for kind in ("body", "shape", "joint", "articulation")}
    fields = asset.shape_fields()
    build.note_unused_fields(("assets", i), asset.placed_shape_fields())
    defaults = builder.default_shape_cfg
    config = make_shape_config(defaults, {k: v for k, v in fields.items() if k != "is_site"})
    builder.default_shape_cfg = config
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _IMPORTERS[type(asset)](build, i, asset, source)
            if asset.collapse_fixed_joints:
                collapse_fixed_joints(builder, before["joint"], before["body"])
    finally:
        builder.default_shape_cfg = defaults
    _report_warnings(caught)
    if asset.collapse_fixed_joints:  # the importers would also collapse joints of earlier assets
        builder.collapse_fixed_joints(joints_to_keep=range(before["joint"]))
    added = {kind: range(before[kind], getattr(builder, f"{kind}_count")) for kind in before}
    if not added["body"] and not added["shape"]:
        raise Complaint("the file contains no bodies and no shapes")
    build.imported.append(added)
    override_shapes(builder, added["shape"], fields, fields.get("tau", build.default_tau))
    if not config.collision_filter_parent and asset.enable_self_collisions:
        drop_parent_filters(builder, added["shape"])
    record_import(build, added["shape"], fields, ("assets", i))
    add_body_armature(build, added["body"], None)
    _hide_shapes(builder, asset, added["shape"])
    if asset.label_prefix is not None:
        for kind, indices in added.items():
            labels = getattr(builder, f"{kind}_label")
            for index in indices:
                labels[index] = f"{asset.label_prefix}/{labels[index].lstrip('/')}"  # USD paths start with one


def _report_warnings(caught: list[warnings.WarningMessage]) -> None:
    """Pass importer warnings on, each once; deprecations are between the importer and us."""
    seen = set()
    for warning in caught:
        text = str(warning.message)
        if not issubclass(warning.category, DeprecationWarning) and text not in seen:
            seen.add(text)
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def _hide_shapes(builder: newton.ModelBuilder, asset: Any, shapes: range) -> None:
    """Clear the visible flag of colliding shapes; the importers do so only where there are others to show."""
    for shape in shapes if asset.hide_collision_shapes else ():
        if builder.shape_flags[shape] & int(newton.ShapeFlags.COLLIDE_SHAPES):
            builder.shape_flags[shape] &= ~int(newton.ShapeFlags.VISIBLE)


def _common_arguments(asset: Any) -> dict[str, Any]:
    return {
        "xform": wp.transform(*asset.xform),
        "floating": asset.floating,
        "enable_self_collisions": asset.enable_self_collisions,
        "force_show_colliders": asset.force_show_colliders,
    }


def _root_of(asset: Any, source: Path | str) -> Path | None:
    return None if isinstance(source, str) else checkout_root(asset.source, source)


def _import_usd(build: SceneBuild, i: int, asset: UsdAsset, source: Path | str) -> None:
    if isinstance(source, str):
        raise Complaint("found a text; a USD asset needs a file")
    from pxr import Tf, Usd, UsdGeom

    try:
        stage = Usd.Stage.Open(os.fspath(source))
    except Tf.ErrorException:
        stage = None
    if stage is None:
        raise Complaint(f"{source.name} is not a USD stage, or one of its layers is missing")
    if UsdGeom.GetStageUpAxis(stage) != UsdGeom.Tokens.z:
        axis = UsdGeom.GetStageUpAxis(stage)
        build.note_unsupported(
            ("assets", i, "source"), f"the stage is {axis}-up; assets are expected to be z-up, check how it lies"
        )
    root = _root_of(asset, source)
    for layer in stage.GetUsedLayers() if root is not None else ():
        if layer.realPath:
            check_inside(Path(layer.realPath), root)
    first = build.builder.joint_count
    build.builder.add_usd(
        os.fspath(source),
        **_common_arguments(asset),
        load_visual_shapes=asset.load_visual_shapes,
        skip_mesh_approximation=asset.skip_mesh_approximation,
        ignore_paths=list(asset.ignore_paths),
        root_path=asset.root_path,
    )
    fill_usd_joints(build, range(first, build.builder.joint_count), stage)


def _import_urdf(build: SceneBuild, i: int, asset: UrdfAsset, source: Path | str) -> None:
    visuals = asset.load_visual_shapes or asset.parse_visuals_as_colliders
    text = prepare_urdf(source, visuals=visuals, root_folder=_root_of(asset, source))
    first = build.builder.joint_count
    build.builder.add_urdf(
        text,
        **_common_arguments(asset),
        scale=asset.scale,
        parse_visuals_as_colliders=asset.parse_visuals_as_colliders,
        ignore_inertial_definitions=asset.ignore_inertial_definitions,
        joint_damping_mode="passive",
    )
    fill_urdf_joints(build, range(first, build.builder.joint_count), text)


def _import_mjcf(build: SceneBuild, i: int, asset: MjcfAsset, source: Path | str) -> None:
    root = _root_of(asset, source)

    def resolve(folder: str | None, name: str) -> str:
        if folder is None and not Path(name).is_absolute():
            raise Complaint(f"the text refers to the file {name!r}; give an MJCF file, or an absolute path")
        return str(check_inside(Path(folder or "", name).resolve(), root))

    first = build.builder.joint_count
    watch_mjcf_friction(build.builder)
    build.builder.add_mjcf(
        source if isinstance(source, str) else os.fspath(source),
        **_common_arguments(asset),
        scale=asset.scale,
        parse_visuals=asset.load_visual_shapes,
        parse_visuals_as_colliders=asset.parse_visuals_as_colliders,
        ignore_inertial_definitions=asset.ignore_inertial_definitions,
        ignore_names=tuple(asset.ignore_names),
        parse_sites=asset.parse_sites,
        path_resolver=resolve,
    )
    fill_mjcf_joints(build, range(first, build.builder.joint_count))


_IMPORTERS: dict[type, Any] = {UsdAsset: _import_usd, UrdfAsset: _import_urdf, MjcfAsset: _import_mjcf}
