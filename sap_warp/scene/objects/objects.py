"""Blocks of a scene that describe things: assets, bodies with shapes, joints, articulations, the ground."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, model_validator

from ..text.bounds import COORDINATE
from ..text.errors import Complaint, below
from ..text.quantities import Armature, Concavity, Coordinate, Damping, Factor, Force, Length, Mass, Position, Size
from ..text.section import Section
from ..text.values import (
    Axis,
    Boolean,
    Color,
    Inertia,
    Integer,
    LongText,
    NonNegative,
    Numbers,
    Pattern,
    Pose,
    PositiveInteger,
    Scale,
    Text,
    Transform,
    show,
)
from .fields import JointFields, ShapeFieldBlocks, ShapeFields, WithShapeFields

if TYPE_CHECKING:
    import newton

POSE_ALIASES = {"xform": "transform"}


# Where a file comes from


class GitSource(Section):
    """A file of a git repository, fetched once into the asset cache."""

    repo: Text
    """Address of the repository: https, ssh or a local path."""
    rev: Text
    """Commit, tag or branch; only a full commit hash always gives the same files."""
    sparse: list[Text] = Field(default_factory=list)
    """Folders to fetch, with the files that stand beside and above them; the whole repository if none is given."""
    path: Text
    """The file inside the repository."""


class PackageSource(Section):
    """A file that is part of an installed Python distribution."""

    name: Text
    """Distribution, for example newton or example-robot-data."""
    path: Text
    """The file, or the end of its path if that is unambiguous."""


class Source(Section):
    """A file: a local path, a file of a git repository or of an installed package, or URDF text itself."""

    short_forms: ClassVar[list[dict[str, Any]]] = [
        {"type": "string", "description": "path relative to the scene file, or URDF text"}
    ]

    path: Text = None
    """Path relative to the scene file."""
    git: GitSource | None = None
    """A file of a git repository."""
    package: PackageSource | None = None
    """A file of an installed package."""
    xml: LongText = None
    """URDF or MJCF text."""

    @model_validator(mode="before")
    @classmethod
    def _read_text(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str):
            return {"xml" if value.lstrip().startswith("<") else "path": value}
        return value

    def _check(self) -> None:
        given = [name for name in ("path", "git", "package", "xml") if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) if given else "none"
            raise Complaint(f"found {found}; expected exactly one of path, git, package and xml")


# Assets


class Decomposition(Section):
    """How finely meshes: parts takes meshes apart."""

    threshold: Concavity = 0.05
    """How much a part may lack of being convex (CoACD's concavity), 0.01 to 1; less makes more parts."""
    max_parts: PositiveInteger = None
    """Most parts of a connected piece of a mesh; as many as the threshold takes if not given."""


class _Asset(ShapeFieldBlocks):
    aliases: ClassVar[dict[str, str]] = {"transform": "xform"}

    id: Text = None
    """Name of the asset in messages."""
    source: Source
    """The file."""
    xform: Pose = Field(default_factory=Transform)
    """Pose of the root in the world."""
    physics: ShapeFields | None = None
    """Shape fields that win over the file's; those of shape and cfg come later and win, in this order."""
    shape: ShapeFields | None = None
    """Shape fields that win over the file's; see physics."""
    cfg: ShapeFields | None = None
    """Shape fields that win over the file's; see physics."""
    label_prefix: Text = None
    """Put before the labels of the asset, for several copies of it: prefix/label."""
    floating: Boolean = None
    """Whether the base is free to move; the file decides if not given."""
    enable_self_collisions: Boolean = True
    """Whether shapes of this asset collide with one another."""
    collapse_fixed_joints: Boolean = False
    """Merge bodies that fixed joints connect."""
    hide_collision_shapes: Boolean = False
    """Hide all shapes that collide; they still do."""
    force_show_colliders: Boolean = False
    """Show all shapes that collide; if not set, URDF and MJCF bodies that have visual shapes show only those."""
    load_visual_shapes: Boolean = True
    """Whether shapes that do not collide are loaded."""
    meshes: Literal["file", "hull", "raw", "parts"]
    """How colliding meshes act."""
    hull_error: NonNegative = None
    """How far a mesh may stand out of its hull, in units of its largest extent. If not given, hulls of up to 256
    vertices are exact and others are off by up to 0.002."""
    decomposition: Decomposition | None = None
    """How finely meshes: parts takes meshes apart."""

    def _check(self) -> None:
        if self.hull_error is not None and self.meshes != "hull":
            raise Complaint(f"acts with meshes: hull only, and meshes is {self.meshes}", ("hull_error",))
        if self.decomposition is not None and self.meshes not in ("parts", "file"):
            raise Complaint(f"acts with meshes: parts only, and meshes is {self.meshes}", ("decomposition",))
        if self.hide_collision_shapes and self.force_show_colliders:
            raise Complaint("hide_collision_shapes and force_show_colliders exclude each other; give one of them")
        for name in ("physics", "shape", "cfg"):
            block = getattr(self, name)
            if block is not None and block.is_site:
                raise Complaint("a whole asset cannot be a site", (name, "is_site"))
            if block is not None and block.is_visible is False and self.force_show_colliders:
                raise Complaint("is_visible: false and force_show_colliders exclude each other", (name, "is_visible"))


class UsdAsset(_Asset):
    """A USD stage."""

    type: Literal["usd"]
    meshes: Literal["file", "hull", "parts"] = "file"
    """Colliding meshes act as the stage says, as their convex hulls, or as convex parts (sap-warp[decompose])."""
    skip_mesh_approximation: Boolean = False
    """Keep meshes as they are, whatever approximation the file asks for."""
    ignore_paths: list[Pattern] = Field(default_factory=list)
    """Patterns of prim paths that are not loaded."""
    root_path: Text = "/"
    """Prim below which things are loaded."""

    def _check(self) -> None:
        super()._check()
        if self.skip_mesh_approximation and self.meshes != "file":
            what = f"keeps meshes as they are, and meshes: {self.meshes} does not; give one of them"
            raise Complaint(what, ("skip_mesh_approximation",))


class _RobotAsset(_Asset):
    """Fields that URDF and MJCF assets share."""

    scale: Factor = 1.0
    """Factor on all lengths."""
    parse_visuals_as_colliders: Boolean = False
    """Let visual shapes collide, in place of the collision shapes."""
    meshes: Literal["hull", "raw", "parts"] = "hull"
    """Colliding meshes act as their convex hulls, as in MuJoCo and most tools, triangle by triangle, or as convex
    parts, which needs sap-warp[decompose]."""
    ignore_inertial_definitions: Boolean = False
    """Compute mass and inertia from the shapes."""


class UrdfAsset(_RobotAsset):
    """A URDF file or text."""

    type: Literal["urdf"]


class MjcfAsset(_RobotAsset):
    """An MJCF file or text."""

    type: Literal["mjcf"]
    ignore_names: list[Pattern] = Field(default_factory=list)
    """Patterns of names of bodies and geoms that are not loaded."""
    parse_sites: Boolean = True
    """Whether sites are loaded."""
    ctrl_direct: Boolean = False
    """Let position and velocity actuators read MuJoCo's ctrl, too, instead of joint targets."""


Asset = Annotated[UsdAsset | UrdfAsset | MjcfAsset, Field(discriminator="type")]


# Shapes and bodies


class _Shape(WithShapeFields):
    aliases: ClassVar[dict[str, str]] = POSE_ALIASES

    label: Text = None
    """Name of the shape."""
    transform: Pose = Field(default_factory=Transform)
    """Pose in the frame of the body."""
    color: Color = None
    """Red, green, blue between 0 and 1."""

    if TYPE_CHECKING:
        type: str

    def add_to(self, builder: newton.ModelBuilder, body: int, **options: Any) -> None:
        """Add the shape to a body; Newton's builder takes ``options`` with any shape."""
        from ...model.shapes import shape_type_named  # with Newton, which nobody needs to check a scene

        shape_type_named(self.type).add_to(builder, body, self, **options)


class Box(_Shape):
    """A box."""

    type: Literal["box"]
    hx: Size
    """Half of the length along x [m]."""
    hy: Size
    """Half of the length along y [m]."""
    hz: Size
    """Half of the length along z [m]."""


class Sphere(_Shape):
    """A sphere."""

    type: Literal["sphere"]
    radius: Size
    """Radius [m]."""


class _Round(_Shape):
    radius: Size
    """Radius [m]."""
    half_height: Size
    """Half of the length along z [m]; of a capsule without its caps."""


class Capsule(_Round):
    """A cylinder along z with half spheres at its ends."""

    type: Literal["capsule"]


class Cylinder(_Round):
    """A cylinder along z."""

    type: Literal["cylinder"]


class Cone(_Round):
    """A cone along z, its tip at +half_height."""

    type: Literal["cone"]


class Ellipsoid(_Shape):
    """An ellipsoid."""

    type: Literal["ellipsoid"]
    a: Size
    """Semi-axis along x [m]."""
    b: Size
    """Semi-axis along y [m]."""
    c: Size
    """Semi-axis along z [m]."""


class MeshShape(_Shape):
    """Triangles: from a file, or vertices and indices."""

    type: Literal["mesh"]
    source: Source | None = None
    """A mesh file: obj, stl, ply, dae and other formats that trimesh reads."""
    vertices: list[Position] | None = None
    """Corners [m]."""
    indices: list[Any] | None = None
    """Three vertex numbers for each triangle, as one list or as a list of triples."""
    scale: Scale = Field(default_factory=lambda: (1.0, 1.0, 1.0))
    """Factor on the vertices, or one for each axis."""
    convex: Boolean = False
    """Use the convex hull."""

    def _check(self) -> None:
        if (self.source is None) == (self.vertices is None):
            raise Complaint("a mesh has either a source, or vertices and indices")
        if self.source is not None and self.source.xml is not None:
            raise Complaint("found a text; expected a mesh file", ("source",))
        if self.source is not None and self.indices is not None:
            raise Complaint("a mesh from a file has no indices", ("indices",))
        if self.vertices is not None:
            self.triangles()

    def triangles(self) -> list[int]:
        """Return vertex numbers, three for each triangle."""
        if self.indices is None or self.vertices is None:
            raise Complaint("vertices need indices, three for each triangle")
        flat: list[Any] = []
        for i, item in enumerate(self.indices):
            if isinstance(item, list) and len(item) != 3:
                raise Complaint(f"found {len(item)} numbers; a triangle has three", ("indices", i))
            flat += item if isinstance(item, list) else [item]
        if len(flat) % 3 or not flat:
            raise Complaint(f"found {len(flat)} numbers; expected three for each triangle", ("indices",))
        for number in flat:
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(self.vertices):
                raise Complaint(
                    f"found {show(number)}; expected vertex numbers from 0 to {len(self.vertices) - 1}", ("indices",)
                )
        return flat


Shape = Annotated[
    Box | Sphere | Capsule | Cylinder | Cone | Ellipsoid | MeshShape,
    Field(discriminator="type"),
]


class Body(WithShapeFields):
    """A rigid body with its shapes."""

    aliases: ClassVar[dict[str, str]] = POSE_ALIASES

    id: Text
    """Name by which joints and edits refer to the body."""
    label: Text = None
    """Name in the model; the id if not given."""
    transform: Pose = Field(default_factory=Transform)
    """Initial pose in the world; the frames of a joint that gives parent_xform, or joins two bodies, decide over it."""
    mass: Mass = 0.0
    """Mass [kg], to which shapes add by their density."""
    com: Position = None
    """Centre of that mass in the frame of the body [m]."""
    inertia: Inertia = None
    """Inertia of that mass about com [kg m^2]: [ixx, iyy, izz] or three rows."""
    lock_inertia: Boolean = False
    """Keep mass and inertia as given: shapes add nothing."""
    armature: Armature = None
    """Moment added to the diagonal of the inertia [kg m^2]; builder.default_body_armature if not given."""
    is_kinematic: Boolean = False
    """The body follows its prescribed motion, whatever pushes it."""
    shapes: list[Shape] = Field(default_factory=list)
    """Its shapes."""


# Joints


class _JointBase(Section):
    aliases: ClassVar[dict[str, str]] = {"parent_transform": "parent_xform", "child_transform": "child_xform"}

    id: Text
    """Name by which articulations and edits refer to the joint."""
    label: Text = None
    """Name in the model; the id if not given."""
    parent: Text = "world"
    """Body id, or world."""
    child: Text
    """Body id."""
    parent_xform: Pose = None
    """Frame of the joint in the parent body; if not given that body's frame, in the world the child's transform."""
    child_xform: Pose = Field(default_factory=Transform)
    """Frame of the joint in the child body."""
    collision_filter_parent: Boolean = True
    """Whether shapes of the two bodies ignore each other; those of the world are ignored by fixed bodies only."""


class FixedJoint(_JointBase):
    """No motion."""

    type: Literal["fixed"]


class _FloatingJoint(_JointBase):
    armature: Armature = None
    """Inertia without weight, added to each degree of freedom [kg or kg m^2]; builder.defaults.joint if not given."""
    damping: Damping = None
    """Viscous damping of each degree of freedom [N s/m or N m s/rad]."""


class FreeJoint(_FloatingJoint):
    """Six degrees of freedom; starts at the transform of the child body."""

    type: Literal["free"]


class RevoluteJoint(_JointBase, JointFields):
    """A hinge about axis."""

    type: Literal["revolute"]


class PrismaticJoint(_JointBase, JointFields):
    """A slider along axis."""

    type: Literal["prismatic"]


class BallJoint(_JointBase):
    """Three rotations about a point."""

    type: Literal["ball"]
    armature: Armature = None
    """Inertia added to each rotation [kg m^2]."""
    friction: Force = None
    """Dry friction of each rotation [N m]."""
    damping: Damping = None
    """Viscous damping of each rotation [N m s/rad]."""


class DistanceJoint(_FloatingJoint):
    """Keeps the distance of two points within a range; starts at the transform of the child body."""

    type: Literal["distance"]
    min_distance: Length = -1.0
    """Smallest distance [m]; negative for none."""
    max_distance: Length = 1.0
    """Largest distance [m]; negative for none."""

    def _check(self) -> None:
        if 0.0 <= self.max_distance < self.min_distance:
            raise Complaint(f"min_distance {self.min_distance:g} is above max_distance {self.max_distance:g}")


class D6Axis(JointFields):
    """One axis of a d6 joint."""

    axis: Axis
    """Direction in the joint's parent frame: x, -y, 2 or [x, y, z]."""


class D6Joint(_JointBase):
    """Up to three slides and three rotations, in this order."""

    type: Literal["d6"]
    linear_axes: list[D6Axis] = Field(default_factory=list, max_length=3)
    """Slides."""
    angular_axes: list[D6Axis] = Field(default_factory=list, max_length=3)
    """Rotations."""

    def _check(self) -> None:
        if not self.linear_axes and not self.angular_axes:
            raise Complaint("a d6 joint needs at least one entry in linear_axes or angular_axes")


Joint = Annotated[
    FixedJoint | FreeJoint | RevoluteJoint | PrismaticJoint | BallJoint | DistanceJoint | D6Joint,
    Field(discriminator="type"),
]


class Articulation(Section):
    """A tree of joints."""

    id: Text
    """Name of the articulation."""
    joints: list[Text]
    """Ids of its joints, neighbours in the list of joints."""


class InitialJointQ(Section):
    """One edit of the initial generalized positions."""

    index: Integer = None
    """Entry of joint_q; negative ones count from the end."""
    joint: Text = None
    """Joint id or label."""
    joint_label: Text = None
    """Joint id or label."""
    offset: Integer = 0
    """Entry within the joint."""
    value: Coordinate = None
    """Position [m or rad, or part of a quaternion xyzw]."""
    values: Numbers = None
    """Consecutive entries from there on."""

    def _check(self) -> None:
        self._expect_one_of("index", "joint", "joint_label")
        if (self.value is None) == (self.values is None):
            raise Complaint("expected value for one entry, or values for several")
        if self.values == []:
            raise Complaint("found no values; give at least one", ("values",))
        for i, value in enumerate(self.values or ()):
            with below("values", i):
                COORDINATE.check(value)
        if self.index is not None and self.offset:
            raise Complaint("offset goes with joint, not with index", ("offset",))


class Terrain(Section):
    """Rough ground in place of the plane: a square height field around the origin, flat in the middle."""

    kind: Literal["slope", "steps", "stairs", "rubble", "waves"]
    """Pyramid, squares of random height, stairs of a pyramid, smooth random ground, or sines."""
    size: Size = 10.0
    """Length of a side [m]."""
    resolution: Size = 0.1
    """Distance of grid points [m]."""
    height: Size = 0.1
    """Height of a step, rise of a slope over each width, or lowest to highest point [m]."""
    width: Size = 0.5
    """Width of a step or square, or length of a wave [m]."""
    flat: Size = 0.6
    """Half the side of the flat place in the middle [m]."""
    seed: Integer = 0
    """Seed of the random numbers."""


class Ground(WithShapeFields):
    """The plane or terrain that all worlds share."""

    short_forms: ClassVar[list[dict[str, Any]]] = [{"type": "boolean"}, {"type": "null"}]

    enabled: Boolean = True
    """Whether there is a ground."""
    label: Text = "DEFAULT_GROUND"
    """Label of the ground."""
    height: Length = 0.0
    """Height of the ground [m]."""
    terrain: Terrain | None = None
    """Rough ground in place of the plane."""

    @model_validator(mode="before")
    @classmethod
    def _read_switch(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, (str, int)) and not isinstance(value, bool):
            raise Complaint(f"found {show(value)}; expected true, false or a mapping")
        return {"enabled": value} if isinstance(value, bool) else {} if value is None else value


class Replicate(Section):
    """Copies of the authored world."""

    num_worlds: PositiveInteger = None
    """How many worlds; simulation.num_worlds says the same."""
    spacing: Position = Field(default_factory=lambda: (0.0, 0.0, 0.0))
    """Distance between worlds along x, y and z [m]; two that are not 0 make a centred grid, one makes a line."""


class Control(Section):
    """Drive targets played from a file."""

    source: Source
    """A JSON or NPZ file."""
    loop: Boolean = False
    """Start again at the end; otherwise the last targets stay."""
