"""`load_sap_scene`: from a scene file to everything a simulation needs, in nine steps."""

from __future__ import annotations

import numbers
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import newton
import warp as wp

from ..collision import SapCollisionModel, SapCollisionState, sap_collision_state_from_state
from ..collision.buffers.capacity import MIN_CAPACITY, sap_estimate_rigid_contact_max
from ..core.notes import Note
from ..core.printable import printable
from ..core.runtime.memory_budget import BUFFER_BYTES, WORLD_BYTES, memory_problem
from ..judge.advice.weights import LIGHT_LINKS, advise_weights
from ..model.model import SapControl, SapModel, SapState
from ..solver.model.initial_poses import place_bodies
from ..solver.settings.options import override_options
from ..solver.support import UnsupportedModelError, check_model
from .assets.assets import import_assets
from .assets.mjcf.bodies.keyframes import Keyframe, make_keyframes
from .assets.sources.source_file import confined_by_environment
from .assets.visuals import AssetVisuals, read_asset_visuals
from .build import TIME_STEP_NOTE, SceneBuild
from .check import check_result, note_changed_inertias, path_of
from .edits.post_build import apply_initial_joint_q, apply_post_build
from .edits.worlds import add_contact_pairs, add_ground, check_extent, finalize, replicate_world
from .notes import note_advice
from .objects.bodies import add_bodies
from .objects.control import ControlSequence, read_control
from .objects.joint_defaults import note_armature_of_floating_joints, set_joint_defaults
from .objects.joints import add_joints
from .objects.materials import set_defaults
from .objects.placement import note_misplaced_bodies
from .overrides import apply_overrides
from .schema import Scene
from .size import adding_bodies, check_size, copying_worlds, describe_simulation
from .text.document import SceneDocument, read_document
from .text.errors import SapSceneError, SapUnsupportedSceneFeature, show
from .text.provenance import provenance_of_worlds
from .text.values import LARGEST_INTEGER
from .validate import validate_document

SceneSource = str | os.PathLike[str] | Mapping[str, Any]


@dataclass(eq=False)
class SapLoadedScene:
    """A scene that is ready to be simulated; all arrays are on one device."""

    collision_model: SapCollisionModel
    """Shapes, for the collision pipeline."""
    collision_state: SapCollisionState
    """Initial body poses; shares its memory with `sap_state`."""
    sap_model: SapModel
    """The articulated model of all worlds."""
    sap_state: SapState
    """Initial positions and velocities, in public order."""
    sap_control: SapControl
    """Initial joint forces, targets and efforts, in public order."""
    body_labels: list[str]
    """Label of every body, worlds one after the other."""
    shape_labels: list[str]
    """Label of every shape, worlds one after the other, shared ones last."""
    joint_labels: list[str]
    """Label of every joint, worlds one after the other."""
    name: str
    """Name of the scene."""
    description: str
    """Text that says what the scene shows; may be empty."""
    path: Path | None
    """The file; None for a scene that was given as a mapping."""
    dt: float
    """Time step that the scene asks for [s]."""
    num_worlds: int
    """Number of independent worlds."""
    max_rigid_contact: int
    """Contacts that one world can hold."""
    rigid_contact_max: int
    """Contacts that the collision buffer of all worlds should hold."""
    solver_options: dict[str, Any]
    """Keyword arguments for `SolverSAP`, max_rigid_contact included. Beside others: ``**solver_options | {...}``."""
    duration: float | None = None
    """Simulated time of a benchmark run, if the scene gives it [s]."""
    frames: int | None = None
    """Steps of a benchmark run, if the scene gives them."""
    control_sequence: ControlSequence | None = None
    """Drive targets over time, if the scene has any."""
    provenance: dict[tuple[int, str], str] = field(default_factory=dict)
    """Origin of the values of shapes of the first world, and of shared shapes: for `explain_contact`."""
    keyframes: dict[str, Keyframe] = field(default_factory=dict)
    """Named states of its assets, for `Simulation.reset`."""
    unsupported_features: list[str] = field(default_factory=list)
    """Features that the scene asks for and that are not simulated, each with its place."""
    notes: list[Note] = field(default_factory=list)
    """Advice about what is probably not meant, each with its place; `Simulation` prints them."""
    load_display: Callable[[], newton.Model] | None = None
    """Loads one world with the visual shapes that the scene leaves out; None if it leaves none out."""
    read_visuals: Callable[[], AssetVisuals | None] | None = None
    """Reads the visual shapes that the scene leaves out, to be drawn; see `sap_warp.look.visuals`."""

    def notes_with(self, dt: float | None, solver: Mapping[str, Any] | None = None) -> list[Note]:
        """Return the notes for a run with the time step ``dt`` [s]; none suggests a time step if one is given.

        ``solver`` are options that win over the scene's, with which links may become too light or no longer be.
        """
        notes = [note for note in self.notes if dt is None or note.id != TIME_STEP_NOTE]
        if not solver:
            return notes
        light = [note for note in notes if note.id == LIGHT_LINKS]
        anew = advise_weights(self.sap_model.newton_model, override_options(self.solver_options, solver))
        return [note for note in notes if note.id != LIGHT_LINKS] + (light if light and anew else anew)


def load_sap_scene_config(path: SceneSource, overrides: Mapping[str, Any] | None = None) -> Scene:
    """Read and check a scene without building it: assets are not fetched or opened.

    Args:
        path: A YAML or JSON file, or the same content as a mapping.
        overrides: See `load_sap_scene`.

    Raises:
        SapSceneError: The scene is not valid; lists every problem with file, line and path.
    """
    document = read_document(path)
    apply_overrides(document, overrides or {})
    return validate_document(document)


def load_sap_scene(
    path_or_mapping: SceneSource,
    *,
    device: Any = None,
    rigid_contact_max: int | None = None,
    num_worlds: int | None = None,
    strict: bool = False,
    confine: bool | None = None,
    overrides: Mapping[str, Any] | None = None,
    when_built: Callable[[Mapping[str, Any]], None] | None = None,
) -> SapLoadedScene:
    """Load a scene.

    Args:
        path_or_mapping: A YAML or JSON file, or the same content as a mapping.
        device: Warp device; None is Warp's default.
        rigid_contact_max: Contacts of all worlds that the collision buffer holds; None is the scene's
            ``max_rigid_contact`` times the number of worlds.
        num_worlds: Number of worlds; None takes the scene's.
        strict: Raise if the scene asks for something that is not simulated, instead of listing it in
            ``unsupported_features``.
        confine: Refuse files outside of the folder of the scene, for scenes from strangers; None for what
            SAP_WARP_CONFINE says.
        overrides: Values that win over the scene's, by path, for example ``{"bodies.cube.shapes[0].hx": 0.2}``.
        when_built: Called with the solver options of the scene before Newton makes a model of the worlds, which takes
            a while and seldom fails: for those who can use that time.

    Raises:
        TypeError: An argument is of the wrong kind.
        SapSceneError: The scene is not valid or cannot be built; lists every problem with file, line and path.
        SapUnsupportedSceneFeature: ``strict`` is set and there are unsupported features.
    """
    num_worlds = _check_count("num_worlds", num_worlds)
    rigid_contact_max = _check_count("rigid_contact_max", rigid_contact_max)
    _check_switch("strict", strict)
    if confine is not None:
        _check_switch("confine", confine)
    document = read_document(path_or_mapping)
    document.confined = confined_by_environment() if confine is None else confine
    apply_overrides(document, overrides or {})
    try:
        device = wp.get_device(device)
    except TypeError:
        raise TypeError(f"device is {show(device)}; it must be a Warp device or the name of one.") from None
    scene = validate_document(document)
    build = SceneBuild(document, scene)
    worlds = scene.num_worlds if num_worlds is None else num_worlds  # step 1
    with adding_bodies(len(scene.bodies)):
        _build_world(build)  # steps 2 to 7
    with build.at(*_path_of_count(scene, worlds)):
        check_size(build.builder, worlds)
    build.stop_if_broken()
    with copying_worlds(build.builder, worlds):
        builder = _build_worlds(build, worlds)  # steps 8 and 9
        if when_built is not None:
            when_built(scene.simulation.solver)
        loaded = _finalize(build, builder, worlds, device, rigid_contact_max)
    if strict and build.unsupported:
        raise SapUnsupportedSceneFeature(build.unsupported)
    if not all(asset.load_visual_shapes for asset in scene.assets):
        loaded.load_display = partial(_load_display, document, device)
    return loaded


def _load_display(document: SceneDocument, device: Any) -> newton.Model:
    """Load one world of a scene with all visual shapes, for Newton's viewers and cameras.

    Raises:
        SapSceneError: It cannot be built.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the scene has said it all when it was loaded
        build = SceneBuild(document, validate_document(document), visuals=True)
        _build_world(build)
        builder = _build_worlds(build, 1)
        with build.at():
            model = builder.finalize(device)
        build.stop_if_broken()
    return model


def _check_count(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} is {show(value)}; it must be a whole number, or None.")
    if value < 1:
        raise ValueError(f"{name} is {show(value)}; it must be at least 1, or None.")
    return int(value)


def _check_switch(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {show(value)}; it must be True or False.")


def _build_world(build: SceneBuild) -> None:
    settings = build.scene.builder
    build.builder.rigid_gap = settings.rigid_gap  # step 2
    set_defaults(build.builder, settings.defaults.shape.given())
    unused: dict[str, Any] = {name: ((name,), value) for name, value in settings.defaults.shape.given().items()}
    build.note_unused_fields(("builder", "defaults", "shape"), unused)
    with build.at("builder", "defaults", "joint"):
        set_joint_defaults(build.builder, settings.defaults.joint)
    import_assets(build)  # step 3
    add_bodies(build)  # step 4
    build.stop_if_broken()
    add_joints(build)  # step 5
    build.stop_if_broken()
    apply_initial_joint_q(build)  # step 6
    apply_post_build(build)  # step 7
    check_result(build)
    build.stop_if_broken()
    note_armature_of_floating_joints(build)


def _path_of_count(scene: Scene, worlds: int) -> tuple[str, ...]:
    """Return the section of the scene that gives the number of worlds; () if the caller does."""
    stated = {"simulation": scene.simulation.num_worlds, "replicate": scene.replicate.num_worlds}
    return next(((name, "num_worlds") for name, count in stated.items() if count == worlds), ())


def _build_worlds(build: SceneBuild, worlds: int) -> newton.ModelBuilder:
    builder = newton.ModelBuilder()
    with build.at("replicate", "spacing"):
        check_extent(build.scene.replicate.spacing, worlds)
    build.stop_if_broken()
    with build.at(*_path_of_count(build.scene, worlds)):
        builder = replicate_world(build, worlds)
    build.stop_if_broken()
    with build.at("ground"):
        add_ground(build, builder)
    build.stop_if_broken()
    return builder


def _finalize(
    build: SceneBuild, builder: newton.ModelBuilder, worlds: int, device: Any, rigid_contact_max: int | None
) -> SapLoadedScene:
    scene, document = build.scene, build.document
    with build.at():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Inertia validation corrected")
            sap_model = SapModel(finalize(build, builder, device))
        add_contact_pairs(build, sap_model.newton_model)
        note_changed_inertias(build, sap_model.newton_model)
        _note_unsupported_model(build, sap_model.newton_model)
    build.stop_if_broken()
    sequence = None
    if scene.control is not None:
        with build.at("control", "source"):
            sequence = read_control(scene.control, document, sap_model)
            sequence.set_start(sap_model)
        build.stop_if_broken()
    place_bodies(sap_model.newton_model)
    note_advice(build, sap_model.newton_model)
    note_misplaced_bodies(build, sap_model.newton_model, builder)
    sap_state = sap_model.state()
    stated = scene.simulation.max_rigid_contact or scene.simulation.solver.get("max_rigid_contact")
    per_world = stated or _estimate_contacts(sap_model, worlds)
    if max(per_world * worlds, rigid_contact_max or 0) > LARGEST_INTEGER:
        what = f"found {per_world} for each of {worlds} worlds; at most {LARGEST_INTEGER} are possible"
        raise SapSceneError([document.problem(("simulation", "max_rigid_contact"), what)])
    what = memory_problem(per_world, worlds * (WORLD_BYTES + BUFFER_BYTES), sap_model.device)
    if what:
        raise SapSceneError([document.problem(("simulation", "max_rigid_contact"), f"found {per_world}; {what}")])
    if large := describe_simulation(build.builder.joint_dof_count, per_world, worlds):
        build.note("large-simulation", (), large)
    return SapLoadedScene(
        collision_model=SapCollisionModel(sap_model.newton_model),
        collision_state=sap_collision_state_from_state(sap_state),
        sap_model=sap_model,
        sap_state=sap_state,
        sap_control=sap_model.control(),
        body_labels=list(sap_model.body_label),
        shape_labels=list(sap_model.shape_label),
        joint_labels=list(sap_model.joint_label),
        name=scene.name or _default_name(document),
        description=scene.description or "",
        path=document.file,
        dt=build.dt,
        num_worlds=worlds,
        max_rigid_contact=per_world,
        rigid_contact_max=rigid_contact_max or per_world * worlds,
        solver_options={"max_rigid_contact": per_world, **scene.simulation.solver},
        duration=scene.simulation.duration,
        frames=scene.simulation.frames,
        control_sequence=sequence,
        keyframes=make_keyframes(build.keyframes, sap_model.newton_model, worlds),
        provenance=provenance_of_worlds(build, sap_model.newton_model),
        unsupported_features=[str(problem) for problem in build.unsupported],
        notes=build.notes,
        read_visuals=partial(read_asset_visuals, build, worlds),
    )


def _estimate_contacts(model: SapModel, worlds: int) -> int:
    """Estimate the contacts of one world; worlds are alike, so their number does not matter."""
    return max(-(-sap_estimate_rigid_contact_max(model) // worlds), MIN_CAPACITY)


def _default_name(document: SceneDocument) -> str:
    return "scene" if document.file is None else printable(document.file.stem)


def _note_unsupported_model(build: SceneBuild, model: newton.Model) -> None:
    """Note what the solver will refuse."""
    try:
        check_model(model)
    except UnsupportedModelError as error:
        for line in str(error).splitlines()[1:]:
            what = line.strip().removeprefix("- ")
            build.note_unsupported(path_of(build, what), "SolverSAP cannot simulate " + what)
