"""State of a scene while it is built, shared by all its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import newton
import numpy as np
import warp as wp

from ..core.notes import Note
from ..model.model import register_tau
from .assets.sources import AssetSourceError
from .objects.materials import describe_unused
from .text.document import SceneDocument
from .text.errors import Complaint, Path, Problem, SapSceneError, format_path

if TYPE_CHECKING:
    from .assets.mjcf.bodies.keyframes import KeyEntries
    from .schema import Scene


TIME_STEP_NOTE = "time-step"
"""Kind of the note about a time step that an asset suggests."""


class SceneBuild:
    """One authored world on its way from a `Scene` to a `newton.ModelBuilder`."""

    def __init__(self, document: SceneDocument, scene: Scene, *, visuals: bool = False):
        """Begin with nothing.

        Args:
            document: The text of the scene.
            scene: Its content.
            visuals: Whether to load shapes that are only for the eye, whatever the scene says.
        """
        self.document = document
        self.scene = scene
        self.visuals = visuals
        self.extra_shapes = 0
        """Shapes that would not be there without ``visuals``."""
        self.builder = newton.ModelBuilder()
        register_tau(self.builder)
        self.problems: list[Problem] = []
        self.unsupported: list[Problem] = []
        self.notes: list[Note] = []
        self.body_of: dict[str, int] = {}
        """Body number by id of inline bodies."""
        self.joint_of: dict[str, int] = {}
        """Joint number by id of inline joints."""
        self.imported: list[dict[str, Sequence[int]]] = []
        """Numbers of the bodies, shapes and joints of every asset, by kind."""
        self.stage_parts: dict[int, list[int]] = {}
        """Shapes that a USD asset (by number) wants as convex parts."""
        self.unfiltered: list[int] = []
        """Inline shapes that collide with those of bodies that a joint connects to theirs."""
        self.contact_pairs: list[tuple[int, int]] = []
        """Shapes that meet although groups or filters keep them apart."""
        self.freed_pairs: set[tuple[int, int]] = set()
        """Pairs of shapes that an importer has filtered and that meet."""
        self.freed_shapes: list[int] = []
        """Imported shapes that collide with those of bodies that a joint connects to theirs."""
        self.keyframes: dict[str, KeyEntries] = {}
        """Named states of assets."""
        self.gravity: tuple[np.ndarray, str] | None = None
        """Gravity that an asset asks for [m/s^2], and where it says so."""
        self.time_step: float | None = None
        """Time step that an asset suggests [s]."""
        self.shape_paths: dict[int, Path] = {}
        """Where inline shapes stand in the scene, by number."""
        self.edited: dict[int, Path] = {}
        """Which edit set an entry of joint_q last."""
        self.provenance: dict[tuple[int, str], str] = {}
        """Which part of the scene gave a shape (by number) a value (by name)."""

    def begin_again(self, scene: Scene) -> SceneBuild:
        """Return an empty build of another scene that stands in the same text."""
        return SceneBuild(self.document, scene)

    @property
    def default_tau(self) -> float | None:
        """Dissipation time of shapes that give none [s]; None leaves it to the solver."""
        return self.scene.builder.defaults.shape.tau

    def take_gravity(self, asset: int, value: Any, location: str) -> None:
        """Use the gravity that an asset asks for [m/s^2], in world axes; the first asset wins, the scene wins over all.

        Args:
            asset: Number of the asset.
            value: The gravity.
            location: Where the asset says so.
        """
        if self.gravity is None:
            self.gravity = np.array(value, np.float64), location
            self.builder.gravity = wp.vec3(*map(float, value))
            return
        decided = any(getattr(operation, "attr", None) == "gravity" for operation in self.scene.post_build)
        if not decided and not np.allclose(self.gravity[0], value, atol=1e-5):
            mine, used = (", ".join(f"{v + 0.0:g}" for v in vector) for vector in (value, self.gravity[0]))
            what = f"{location}: gravity is [{mine}], but [{used}] by {self.gravity[1]}, which acts"
            self.note_unsupported(("assets", asset, "source"), f"{what}; set one with post_build set_attr gravity")

    @property
    def dt(self) -> float:
        """Time step [s]: the scene's own, else what an asset suggests, else the default."""
        given = "dt" in self.scene.simulation.model_fields_set
        return self.scene.simulation.dt if given or self.time_step is None else self.time_step

    def take_time_step(self, asset: int, value: float, location: str) -> None:
        """Use the time step that the first asset suggests [s], unless the scene has its own.

        Args:
            asset: Number of the asset.
            value: The time step.
            location: Where the asset says so.
        """
        if "dt" in self.scene.simulation.model_fields_set:
            return
        if self.time_step is None:
            self.time_step = value
            what = f"the time step is {value:g} s, as the file suggests ({location}); give dt to choose another one"
        elif value != self.time_step:
            what = (
                f"{location} suggests a time step of {value:g} s; that of an earlier asset acts, {self.time_step:g} s"
            )
        else:
            return
        self.note(TIME_STEP_NOTE, ("assets", asset, "source"), what)

    @contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """Turn any error inside into a problem at ``path``, and go on after it."""
        try:
            yield
        except Complaint as complaint:
            self.problems += [self.document.problem((*path, *one.path), one.message) for one in complaint]
        except AssetSourceError as error:
            self.problems.append(self.document.problem(path, str(error)))
        except MemoryError:
            self.problems.append(self.document.problem(path, "there is not enough memory for this"))
        except Exception as error:  # an importer may raise anything; the user gets one kind of error with a place
            text = " ".join(str(error).split()) or type(error).__name__
            self.problems.append(self.document.problem(path, f"cannot be built: {text} ({type(error).__name__})"))

    def stop_if_broken(self) -> None:
        """Raise if a step left problems that later steps would stumble over."""
        if self.problems:
            raise SapSceneError(self.problems)

    def note_edit(self, entries: Iterable[int], path: Path) -> None:
        """Record that an edit set these entries of joint_q."""
        self.edited.update(dict.fromkeys(entries, path))

    def note_unsupported(self, path: Path, message: str) -> None:
        """Record something that is understood but not simulated."""
        self.unsupported.append(self.document.problem(path, message))

    def note(self, name: str, path: Path, message: str, subject: tuple[str, int] | None = None) -> None:
        """Record advice of the kind ``name`` about something that loads and is probably not what was meant."""
        problem = self.document.problem(path, message)
        self.notes.append(Note(name, message, subject, format_path(problem.path), problem.file, problem.line))

    def note_unused_fields(self, path: Path, fields: dict[str, tuple[Path, Any]]) -> None:
        """Record shape fields that do not act; ``fields`` are values with their paths from ``path`` on."""
        for name, message in describe_unused({name: value for name, (_, value) in fields.items()}):
            self.note_unsupported((*path, *fields[name][0]), message)
