"""Step 3: robots and objects from USD, URDF and MJCF files."""

from __future__ import annotations

import os
import warnings
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import TYPE_CHECKING, Any

import newton
import warp as wp

from ...core.notes import name_some
from ...core.printable import printable
from ..objects.bodies import add_body_armature
from ..objects.joint_defaults import fill_mjcf_joints, fill_urdf_joints, fill_usd_joints, watch_mjcf_friction
from ..objects.materials import make_shape_config, override_shapes
from ..objects.objects import Decomposition, MjcfAsset, UrdfAsset, UsdAsset
from ..text.errors import Complaint
from ..text.nodes import walk
from ..text.provenance import record_import
from .collapse import collapse_fixed_joints
from .decomposition import PartOptions
from .filters import drop_filters
from .hulls import UNLIMITED, replace_meshes
from .labels import add_prefix, check_patterns, tell_apart
from .mjcf import (
    apply_mjcf,
    apply_switches,
    check_joints,
    count_actuators,
    drop_numerics,
    drop_self_ties,
    fit_shapes,
    list_unsupported,
    read_mjcf,
    restore_names,
    split_joints,
    take_first_numbers,
    tendon_labels,
    translate_actuators,
    translate_equalities,
    translate_welds,
    with_plain_names,
)
from .parts import collect_decompositions, split_meshes
from .sources.source_file import Fence, check_mesh, fence_of, resolve_source
from .urdf import prepare_urdf

if TYPE_CHECKING:
    from ..build import SceneBuild


def import_assets(build: SceneBuild) -> None:
    """Import every asset of the scene."""
    for i, asset in enumerate(build.scene.assets):
        with build.at("assets", i, "source"):
            if asset.source.xml is None:
                source: Path | str = resolve_source(asset.source, build.document)
            else:
                source = asset.source.xml
            _import_asset(build, i, asset, source)
    if not build.problems:
        _split_meshes(build)
    drop_filters(build.builder, build.freed_pairs, build.freed_shapes)  # no import can follow: see there
    if not build.problems:
        tell_apart(build)


def _import_asset(build: SceneBuild, i: int, asset: Any, source: Path | str) -> None:
    builder = build.builder
    before = {kind: getattr(builder, f"{kind}_count") for kind in ("body", "shape", "joint", "articulation")}
    fields = asset.shape_fields()
    build.note_unused_fields(("assets", i), asset.shape_fields_with_paths())
    defaults = builder.default_shape_cfg
    config = make_shape_config(defaults, {k: v for k, v in fields.items() if k != "is_site"})
    builder.default_shape_cfg = config
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _IMPORTERS[type(asset)](build, i, asset, source)
            _replace_meshes(build, i, asset, before["shape"])
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
    build.imported.append(dict(added))
    override_shapes(builder, added["shape"], fields, fields.get("tau", build.default_tau))
    if not config.collision_filter_parent and asset.enable_self_collisions:
        build.freed_shapes += added["shape"]
    record_import(build, added["shape"], fields, ("assets", i))
    add_body_armature(build, added["body"], None)
    _hide_shapes(builder, asset, added["shape"])
    if build.visuals and not asset.load_visual_shapes:
        _number_without_visuals(build, added["shape"])
    for kind, indices in added.items():
        labels = getattr(builder, f"{kind}_label")
        for index in indices:
            labels[index] = printable(labels[index])
    if asset.label_prefix is not None:
        for kind, indices in added.items():
            labels = getattr(builder, f"{kind}_label")
            for index in indices:
                labels[index] = add_prefix(asset.label_prefix, labels[index])


def _replace_meshes(build: SceneBuild, i: int, asset: Any, first: int) -> None:
    """Put convex hulls in the place of colliding meshes if the asset asks for them; a USD stage decides for itself."""
    if asset.meshes == "hull":
        shapes = range(first, build.builder.shape_count)
        _note_flat(build, i, replace_meshes(build.builder, shapes, asset.hull_error))


def _split_meshes(build: SceneBuild) -> None:
    """Split the colliding meshes of assets that ask for it into convex parts, appended behind the shapes of all assets.

    Filters tell which shapes a part ignores, and no MJCF file can be imported once they were looked at.
    """
    for i, asset in enumerate(build.scene.assets):
        shapes = build.imported[i]["shape"] if asset.meshes == "parts" else build.stage_parts.get(i, ())
        given = asset.decomposition or Decomposition()
        with build.at("assets", i, "meshes" if asset.meshes == "parts" else "source"):
            try:
                new, flat = split_meshes(build, shapes, PartOptions(given.threshold, given.max_parts))
            except Complaint as error:
                if asset.meshes == "parts":
                    raise
                # a stage that asks for parts is loaded without CoACD, too
                flat = replace_meshes(build.builder, shapes)
                build.note_unsupported(("assets", i, "source"), f"{error}; the convex hulls of all such meshes act")
                new = []
            build.imported[i]["shape"] = [*build.imported[i]["shape"], *new]
            _note_flat(build, i, flat)


def _note_flat(build: SceneBuild, i: int, flat: list[str]) -> None:
    if flat:
        what = f"{name_some(flat, range(len(flat)))}: flat meshes have no convex hull; they collide as they are"
        build.note_unsupported(("assets", i, "source"), what)


def _report_warnings(caught: list[warnings.WarningMessage]) -> None:
    """Pass the warnings of an importer on, each once, without deprecations, which do not concern the user."""
    seen = set()
    for warning in caught:
        text = printable(str(warning.message))
        if not issubclass(warning.category, DeprecationWarning) and text not in seen:
            seen.add(text)
            warnings.warn_explicit(text, warning.category, warning.filename, warning.lineno)


def _hide_shapes(builder: newton.ModelBuilder, asset: Any, shapes: range) -> None:
    """Clear or set the visible flag of colliding shapes; importers clear it where a body has visual shapes."""
    visible = int(newton.ShapeFlags.VISIBLE)
    for shape in shapes if asset.hide_collision_shapes or asset.force_show_colliders else ():
        if builder.shape_flags[shape] & int(newton.ShapeFlags.COLLIDE_SHAPES):
            builder.shape_flags[shape] &= ~visible
            builder.shape_flags[shape] |= visible if asset.force_show_colliders else 0


def _number_without_visuals(build: SceneBuild, shapes: range) -> None:
    """Give shapes that are named by their number the name that they have when visual shapes are not loaded."""
    builder = build.builder
    physical = int(newton.ShapeFlags.COLLIDE_SHAPES) | int(newton.ShapeFlags.SITE)
    for shape in shapes:
        named_by_number = builder.shape_label[shape] == f"shape_{shape}"
        if builder.shape_flags[shape] & physical:
            if named_by_number:
                builder.shape_label[shape] = f"shape_{shape - build.extra_shapes}"
        else:
            build.extra_shapes += 1
            if named_by_number:
                builder.shape_label[shape] = f"visual_{shape}"


def _common_arguments(asset: Any) -> dict[str, Any]:
    return {
        "xform": wp.transform(*asset.xform),
        "floating": asset.floating,
        "enable_self_collisions": asset.enable_self_collisions,
        "force_show_colliders": asset.force_show_colliders,
    }


def _import_usd(build: SceneBuild, i: int, asset: UsdAsset, source: Path | str) -> None:
    if isinstance(source, str):
        raise Complaint("found a text; a USD asset needs a file")
    from pxr import Tf, Usd, UsdGeom, UsdPhysics

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
    fence = fence_of(asset.source, source, build.document)
    if fence is not None:
        _check_stage(stage, fence)
    if asset.ignore_paths:
        prims = [str(prim.GetPath()) for prim in stage.TraverseAll()]
        check_patterns(build, ("assets", i, "ignore_paths"), asset.ignore_paths, prims, "prims")
    before = build.builder.gravity
    first = build.builder.joint_count
    with collect_decompositions(build.builder) as build.stage_parts[i]:
        build.builder.add_usd(
            os.fspath(source),
            **_common_arguments(asset),
            load_visual_shapes=build.visuals or asset.load_visual_shapes,
            skip_mesh_approximation=asset.skip_mesh_approximation or asset.meshes != "file",
            ignore_paths=list(asset.ignore_paths),
            root_path=asset.root_path,
        )
    for scene in (prim for prim in stage.Traverse() if prim.IsA(UsdPhysics.Scene)):
        turned, build.builder.gravity = build.builder.gravity, before
        # Newton turns gravity with the asset, which would let a robot on a wall fall sideways
        value = wp.quat_rotate_inv(wp.transform_get_rotation(wp.transform(*asset.xform)), wp.vec3(*turned))
        build.take_gravity(i, value, f"{source.name}: {scene.GetPath()}")
        break
    fill_usd_joints(build, range(first, build.builder.joint_count), stage)


def _check_stage(stage: Any, fence: Fence) -> None:
    """Refuse layers and textures of a stage that are beyond ``fence``."""
    for layer in stage.GetUsedLayers():
        if layer.realPath:
            fence.check(Path(layer.realPath))
    for prim in stage.TraverseAll():
        for attribute in prim.GetAttributes():
            if attribute.GetTypeName() in ("asset", "asset[]") and (value := attribute.Get()):
                for named in [value] if attribute.GetTypeName() == "asset" else value:
                    if "://" in named.path:
                        raise Complaint(f"the stage refers to {named.path}, which is not part of {fence.name}")
                    if named.resolvedPath:
                        fence.check(Path(named.resolvedPath.split("[")[0]))  # a file of a USDZ is in brackets


def _import_urdf(build: SceneBuild, i: int, asset: UrdfAsset, source: Path | str) -> None:
    visuals = build.visuals or asset.load_visual_shapes or asset.parse_visuals_as_colliders
    fence = fence_of(asset.source, source, build.document)
    colliding = asset.parse_visuals_as_colliders
    text, notes = prepare_urdf(source, visuals=visuals, colliding_visuals=colliding, fence=fence)
    for note in notes:
        build.note_unsupported(("assets", i, "source"), note)
    first = build.builder.joint_count
    build.builder.add_urdf(
        text,
        **_common_arguments(asset),
        scale=asset.scale,
        parse_visuals_as_colliders=asset.parse_visuals_as_colliders,
        ignore_inertial_definitions=asset.ignore_inertial_definitions,
        joint_damping_mode="passive",
        mesh_maxhullvert=UNLIMITED,
    )
    fill_urdf_joints(build, range(first, build.builder.joint_count), text)


def _import_mjcf(build: SceneBuild, i: int, asset: MjcfAsset, source: Path | str) -> None:
    fence, builder = fence_of(asset.source, source, build.document), build.builder
    document = read_mjcf(source, lambda path: check_mesh(path, fence))
    if asset.ignore_names:
        names = [node.get("name", "") for node in walk(document.root) if node.get("name")]
        check_patterns(build, ("assets", i, "ignore_names"), asset.ignore_names, names, "names")
    drop_self_ties(document)
    for note in (*document.notes, *list_unsupported(document, asset.enable_self_collisions)):
        build.note_unsupported(("assets", i, "source"), note)
    check_joints(document)
    apply_switches(document)
    drop_numerics(document)
    fit_shapes(document)
    for body, joint in document.mocap.items():
        body.append(joint)
    take_first_numbers(document)
    split_joints(document)
    translate_actuators(document)
    translate_equalities(document)
    translate_welds(document)
    first = {"body": builder.body_count, "shape": builder.shape_count, "joint": builder.joint_count}
    first["actuator"], first["tendon"] = count_actuators(builder), len(tendon_labels(builder))
    watch_mjcf_friction(builder)
    plain, originals = with_plain_names(document.root)
    builder.add_mjcf(
        ElementTree.tostring(plain, encoding="unicode"),
        **_common_arguments(asset),
        scale=asset.scale,
        parse_visuals=build.visuals or asset.load_visual_shapes,
        parse_visuals_as_colliders=asset.parse_visuals_as_colliders,
        ignore_inertial_definitions=asset.ignore_inertial_definitions,
        ignore_names=tuple(asset.ignore_names),
        parse_sites=asset.parse_sites,
        mesh_maxhullvert=UNLIMITED,
        ctrl_direct=asset.ctrl_direct,
        path_resolver=lambda folder, name: str(check_mesh(Path(name), fence)),  # the document has full paths
    )
    labels = {kind: getattr(builder, f"{kind}_label") for kind in ("body", "shape", "joint")}
    for kind, names in (labels | {"tendon": tendon_labels(builder)}).items():
        restore_names(names, range(first[kind], len(names)), originals)
    apply_mjcf(build, i, asset, document, first)
    fill_mjcf_joints(build, range(first["joint"], builder.joint_count))


_IMPORTERS: dict[type, Any] = {UsdAsset: _import_usd, UrdfAsset: _import_urdf, MjcfAsset: _import_mjcf}
