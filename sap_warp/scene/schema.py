"""Schema version 1 of a whole scene file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, PlainValidator, ValidationInfo, WithJsonSchema, model_validator

from .edits.operations import Operation
from .objects.fields import JointFields, ShapeFields
from .objects.objects import Articulation, Asset, Body, Control, Ground, InitialJointQ, Joint, Replicate
from .solver_options import read_solver_options, solver_options_schema
from .text.errors import Complaint
from .text.quantities import Armature, Distance, Duration, TimeStep
from .text.section import Section
from .text.values import LongText, PositiveInteger, Text, show

SCHEMA_VERSION = 1
DEFAULT_DT = 0.003
"""Time step of a scene that names none [s]."""
DEFAULT_GAP = 0.005
"""rigid_gap of a scene that names none [m]."""

SolverOptions = Annotated[dict, PlainValidator(read_solver_options), WithJsonSchema(solver_options_schema())]


def _read_version(value: Any) -> int:
    if value != SCHEMA_VERSION or isinstance(value, (bool, float)):
        raise Complaint(f"found {show(value)}; this loader reads schema version {SCHEMA_VERSION}")
    return SCHEMA_VERSION


SchemaVersion = Annotated[int, PlainValidator(_read_version), WithJsonSchema({"const": SCHEMA_VERSION})]


class Simulation(Section):
    """Settings of a run."""

    dt: TimeStep = DEFAULT_DT
    """Time step [s]."""
    num_worlds: PositiveInteger = None
    """Independent copies of the scene."""
    max_rigid_contact: PositiveInteger = None
    """Contacts that one world can hold; estimated from the shapes if not given."""
    duration: Duration = None
    """Simulated time of a benchmark run [s]."""
    frames: PositiveInteger = None
    """Steps of a benchmark run."""
    solver: SolverOptions = Field(default_factory=dict)
    """Options of SolverSAP."""

    def _check(self) -> None:
        if self.duration is not None and self.frames is not None:
            raise Complaint("duration and frames both say how long to run; give one of them", ("frames",))


class Defaults(Section):
    """What shapes and joints are like unless they say otherwise."""

    shape: ShapeFields = Field(default_factory=ShapeFields)
    """Defaults of shapes."""
    joint: JointFields = Field(default_factory=JointFields)
    """Defaults of joint degrees of freedom."""


class Builder(Section):
    """Defaults for everything that is built after it."""

    rigid_gap: Distance = DEFAULT_GAP
    """Gap of shapes that give none [m]."""
    default_body_armature: Armature = 0.0
    """Moment added to the diagonal of the inertia of bodies that give none [kg m^2]."""
    defaults: Defaults = Field(default_factory=Defaults)
    """Defaults of shapes and joints."""


class Scene(Section):
    """A scene: what there is, how it starts, how it is simulated."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    """Version of this schema."""
    name: Text = None
    """Name of the scene; that of the file if not given."""
    description: LongText = None
    """What the scene shows."""
    simulation: Simulation = Field(default_factory=Simulation)
    """Settings of a run."""
    builder: Builder = Field(default_factory=Builder)
    """Defaults."""
    ground: Ground = Field(default_factory=Ground)
    """The plane that all worlds share: true, false or its settings."""
    assets: list[Asset] = Field(default_factory=list)
    """Robots and objects from files."""
    bodies: list[Body] = Field(default_factory=list)
    """Bodies written out here."""
    joints: list[Joint] = Field(default_factory=list)
    """Joints of these bodies."""
    articulations: list[Articulation] = Field(default_factory=list)
    """Trees of these joints; joints that are in none form their own."""
    initial_joint_q: list[InitialJointQ] = Field(default_factory=list)
    """Edits of the initial positions."""
    post_build: list[Operation] = Field(default_factory=list)
    """Edits after everything is built, before worlds are copied."""
    replicate: Replicate = Field(default_factory=Replicate)
    """Copies of the world."""
    control: Control | None = None
    """Drive targets played from a file."""

    @model_validator(mode="before")
    @classmethod
    def _drop_empty_sections(cls, value: Any, info: ValidationInfo) -> Any:
        """Drop sections without content (``bodies:`` and nothing below), as if they were left out."""
        if isinstance(value, dict):
            kept = {key: part for key, part in value.items() if part is not None}
            if info.context is not None:
                info.context[id(value)] = cls
            return kept
        return value

    def _check(self) -> None:
        one, other = self.simulation.num_worlds, self.replicate.num_worlds
        if one is not None and other is not None and one != other:
            raise Complaint(
                f"replicate.num_worlds is {other}, but simulation.num_worlds is {one}; give one of them",
                ("replicate", "num_worlds"),
            )

    @property
    def num_worlds(self) -> int:
        """Number of worlds that the scene asks for."""
        return self.simulation.num_worlds or self.replicate.num_worlds or 1
