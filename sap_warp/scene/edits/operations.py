"""Edits of `post_build`, with the fields that each takes."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PlainValidator, WithJsonSchema

from ..objects.objects import Decomposition, Shape
from ..text.bounds import ACCELERATION, INERTIA, LENGTH
from ..text.errors import Complaint, below
from ..text.quantities import Armature, Coordinate, Damping, Factor, Speed, Stiffness
from ..text.section import Section
from ..text.values import Integer, Number, Numbers, Selection, Text, read_number, read_vec3, show

ARRAYS = (
    "shape_margin",
    "shape_gap",
    "shape_material_ke",
    "shape_material_tau",
    "shape_material_mu",
    "shape_material_restitution",
    "shape_material_mu_torsional",
    "shape_material_mu_rolling",
    "shape_material_kh",
    "shape_collision_group",
    "shape_flags",
    "joint_q",
    "joint_qd",
    "joint_target_pos",
    "joint_target_vel",
    "joint_target_ke",
    "joint_target_kd",
    "joint_target_mode",
    "joint_armature",
    # Beyond what the format promises: many robot files have losses and limits that need to be put right.
    "joint_friction",
    "joint_damping",
    "joint_effort_limit",
    "joint_velocity_limit",
)
"""Arrays that `set_array` and `copy_array` edit."""
ArrayName = Literal[ARRAYS]  # type: ignore[valid-type]

TARGET_MODES = ("none", "position", "velocity", "position_velocity", "effort")
"""Names of Newton's joint target modes, by value."""

ATTRIBUTES = ("gravity", "rigid_gap")
"""Attributes that `set_attr` sets."""


def _read_mode(value: Any) -> int:
    if isinstance(value, str) and value.lower() in TARGET_MODES:
        return TARGET_MODES.index(value.lower())
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(TARGET_MODES):
        return value
    raise Complaint(f"found {show(value)}; expected {', '.join(TARGET_MODES)}, or 0 to 4")


TargetMode = Annotated[
    int, PlainValidator(_read_mode), WithJsonSchema({"enum": [*TARGET_MODES, *range(len(TARGET_MODES))]})
]


def _read_body(value: Any) -> str | int:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise Complaint(f"found {show(value)}; expected a body id or label, world, or the number of a body")
    return value


BodyName = Annotated[str | int, PlainValidator(_read_body), WithJsonSchema({"type": ["string", "integer"]})]


class Selector(Section):
    """Which entries an edit is about; at most one of the fields is given."""

    index: Integer = None
    """One entry; negative ones count from the end."""
    range: Selection = None
    """all, head:N, tail:N, from:N or [start, end]."""
    joint: Text = None
    """Joint label, or its end after a /."""
    joint_label: Text = None
    """Another name for joint."""
    joints: list[Text] | None = None
    """Several joints."""
    joint_labels: list[Text] | None = None
    """Another name for joints."""
    label_prefix: Text = None
    """All labels that start with this."""
    match: Text = None
    """All labels that contain this."""

    selection_required: ClassVar[bool] = True

    def selected_by(self) -> str | None:
        """Name of the field that selects."""
        return next((name for name in SELECTORS if getattr(self, name) is not None), None)

    def _check(self) -> None:
        given = [name for name in SELECTORS if getattr(self, name) is not None]
        if len(given) > 1:
            raise Complaint(f"found {' and '.join(given)}; give one selector")
        for name in ("joints", "joint_labels"):
            if getattr(self, name) == []:
                raise Complaint("selects nothing; name at least one joint", (name,))
        if not given and self.selection_required:
            raise Complaint(f"nothing is selected; expected one of {', '.join(SELECTORS)}")


SELECTORS = ("index", "range", "joint", "joint_label", "joints", "joint_labels", "label_prefix", "match")


class AddShape(Section):
    """Add a shape to a body or to the world."""

    op: Literal["add_shape"]
    body: BodyName = "world"
    """Body id, label or number, or world."""
    shape: Shape
    """The shape."""


class SetArray(Selector):
    """Set entries of an array of the model."""

    op: Literal["set_array"]
    array: ArrayName
    """Which array; joint_q and joint_target_pos have one entry for each coordinate, other joint arrays for each dof."""
    value: Number = None
    """One value for all selected entries."""
    values: Numbers = None
    """A value for each selected entry."""
    from_array: ArrayName = None
    """Take the values of the same entries of this array."""

    def _check(self) -> None:
        super()._check()
        self._expect_one_of("value", "values", "from_array")


class CopyArray(Selector):
    """Copy entries from one array to another."""

    aliases: ClassVar[dict[str, str]] = {"source": "from_array", "target": "to_array", "array": "to_array"}
    selection_required: ClassVar[bool] = False

    op: Literal["copy_array"]
    from_array: ArrayName
    """Array to copy from."""
    to_array: ArrayName
    """Array to copy to."""
    from_range: Selection = None
    """Entries of from_array, if they are not the selected ones."""


class ScaleSphereShapes(Section):
    """Multiply the radius of every sphere."""

    op: Literal["scale_sphere_shapes"]
    factor: Factor
    """Factor on the radius."""


class ApproximateMeshes(Section):
    """Replace colliding meshes by simpler shapes."""

    op: Literal["approximate_meshes"]
    method: Literal["bounding_box", "bounding_sphere", "convex_hull", "convex_parts"]
    """Oriented box, sphere or convex hull around each mesh, or convex parts (sap-warp[decompose])."""
    decomposition: Decomposition | None = None
    """How finely convex_parts takes meshes apart."""
    label_prefix: Text = None
    """Only shapes whose label starts with this."""
    match: Text = None
    """Only shapes whose label contains this."""

    def _check(self) -> None:
        if self.decomposition is not None and self.method != "convex_parts":
            raise Complaint("acts with method: convex_parts only", ("decomposition",))


def _read_attribute(value: Any) -> float | tuple[float, ...]:
    return read_vec3(value) if isinstance(value, list) else read_number(value)


class SetAttr(Section):
    """Set an attribute of the builder."""

    aliases: ClassVar[dict[str, str]] = {"name": "attr", "attribute": "attr"}

    op: Literal["set_attr"]
    attr: Literal["gravity", "rigid_gap"]
    """gravity [m/s^2], as a number along z or a vector; rigid_gap [m] of shapes that are added later."""
    value: Annotated[Any, PlainValidator(_read_attribute), WithJsonSchema({"type": ["number", "string", "array"]})]
    """The new value."""

    def _check(self) -> None:
        if self.attr == "rigid_gap" and not (isinstance(self.value, float) and self.value >= 0.0):
            raise Complaint(f"found {show(self.value)}; expected a distance that is not negative", ("value",))
        quantity = LENGTH if self.attr == "rigid_gap" else ACCELERATION
        with below("value"):
            for number in self.value if isinstance(self.value, tuple) else (self.value,):
                quantity.check(number)


class SetJointTargets(Selector):
    """Set mode, gains and targets of joint drives; an index or a range counts dofs."""

    aliases: ClassVar[dict[str, str]] = {
        "target_ke": "ke",
        "target_kd": "kd",
        "target_mode": "mode",
        "pos": "target_pos",
        "vel": "target_vel",
    }

    op: Literal["set_joint_targets"]
    mode: TargetMode | None = None
    """none, position, velocity, position_velocity, effort, or 0 to 4."""
    ke: Stiffness = None
    """Stiffness [N/m or N m/rad]."""
    kd: Damping = None
    """Damping [N s/m or N m s/rad]."""
    target_pos: Coordinate = None
    """Position target [m or rad]."""
    target_vel: Speed = None
    """Velocity target [m/s or rad/s]."""

    def _check(self) -> None:
        super()._check()
        if all(getattr(self, name) is None for name in ("mode", "ke", "kd", "target_pos", "target_vel")):
            raise Complaint("nothing to set; expected some of mode, ke, kd, target_pos and target_vel")


class SetJointQ(Section):
    """Set one entry of joint_q."""

    op: Literal["set_joint_q"]
    index: Integer = None
    """Entry of joint_q; negative ones count from the end."""
    joint: Text = None
    """Joint label, or its end after a /."""
    joint_label: Text = None
    """Another name for joint."""
    offset: Integer = 0
    """Entry within the joint."""
    value: Coordinate
    """Position [m or rad, or part of a quaternion xyzw]."""

    def _check(self) -> None:
        self._expect_one_of("index", "joint", "joint_label")
        if self.index is not None and self.offset:
            raise Complaint("offset goes with joint, not with index", ("offset",))


class CopyJointQToJointTargets(Selector):
    """Make the present positions the targets of the drives; an index or a range counts coordinates."""

    selection_required: ClassVar[bool] = False
    op: Literal["copy_joint_q_to_joint_targets"]


class SetJointArmature(Selector):
    """Set the armature of joints; an index or a range counts dofs."""

    aliases: ClassVar[dict[str, str]] = {"armature": "value"}

    op: Literal["set_joint_armature"]
    value: Armature = None
    """Inertia added to each selected dof [kg or kg m^2]."""
    values: Numbers = None
    """One for each selected dof."""

    def _check(self) -> None:
        super()._check()
        if (self.value is None) == (self.values is None):
            raise Complaint("expected value, or values with one entry for each dof")
        if self.values is not None and any(value < 0.0 for value in self.values):
            raise Complaint("found a negative armature", ("values",))
        for i, value in enumerate(self.values or ()):
            with below("values", i):
                INERTIA.check(value)


Operation = Annotated[
    AddShape
    | SetArray
    | CopyArray
    | ScaleSphereShapes
    | ApproximateMeshes
    | SetAttr
    | SetJointTargets
    | SetJointQ
    | CopyJointQToJointTargets
    | SetJointArmature,
    Field(discriminator="op"),
]
