"""Fields that several blocks of a scene share: materials of shapes, parameters of joints."""

from __future__ import annotations

from typing import Any, ClassVar

from ..text.errors import Complaint, Path
from ..text.quantities import (
    Armature,
    ContactStiffness,
    Coordinate,
    Damping,
    Density,
    Distance,
    Force,
    Friction,
    Relaxation,
    Size,
    Speed,
    Stiffness,
)
from ..text.section import Section
from ..text.values import Axis, Boolean, Integer, Limit, LimitMagnitude, NonNegative, Numbers, PositiveInteger


class ShapeFields(Section):
    """Material and collision settings of shapes. What is not given comes from the enclosing block."""

    aliases: ClassVar[dict[str, str]] = {
        "contact_margin": "margin",
        "shape_margin": "margin",
        "shape_gap": "gap",
        "shape_mu": "mu",
        "shape_ke": "ke",
        "shape_tau": "tau",
        "relaxation_time": "tau",
    }

    density: Density = None
    """Density that gives a body mass and inertia [kg/m^3]."""
    ke: ContactStiffness = None
    """Contact stiffness [N/m]."""
    tau: Relaxation = None
    """Contact dissipation time [s]; a pair has the sum of both shapes."""
    mu: Friction = None
    """Coulomb friction coefficient."""
    margin: Distance = None
    """Offset of the contact surface outwards [m]; part of the signed gap."""
    gap: Distance = None
    """Band in which contacts are found before shapes touch [m]; builder.rigid_gap if not given."""
    collision_group: Integer = None
    """Group for collision filtering; 0 collides with nothing, negative ones with all but their own."""
    collision_filter_parent: Boolean = None
    """Whether shapes of bodies that a joint connects ignore each other."""
    has_shape_collision: Boolean = None
    """Whether the shape collides with other shapes."""
    has_particle_collision: Boolean = None
    """Whether the shape collides with particles; there are none in a scene, other solvers read the flag."""
    is_solid: Boolean = None
    """Whether mass fills the shape or only a shell as thick as margin."""
    is_hydroelastic: Boolean = None
    """Contact over an area instead of points; not supported yet."""
    is_visible: Boolean = None
    """Whether viewers draw the shape."""
    is_site: Boolean = None
    """A marker: no collision and no mass."""
    kd: NonNegative = None
    """Contact damping [N s/m]; stored for other solvers, SAP uses tau."""
    kf: NonNegative = None
    """Friction gain [N s/m]; stored for other solvers."""
    ka: NonNegative = None
    """Adhesion distance [m]; stored for other solvers."""
    restitution: NonNegative = None
    """Coefficient of restitution; stored for other solvers, SAP uses tau."""
    mu_torsional: NonNegative = None
    """Torsional friction [m]; stored for other solvers."""
    mu_rolling: NonNegative = None
    """Rolling friction [m]; stored for other solvers."""
    kh: NonNegative = None
    """Hydroelastic stiffness [N/m^3]; stored for other solvers."""
    sdf_max_resolution: PositiveInteger = None
    """Resolution of a signed distance field; not supported yet."""
    sdf_target_voxel_size: Size = None
    """Voxel size of a signed distance field [m]; not supported yet."""
    sdf_narrow_band_range: Numbers = None
    """Inner and outer distance of a signed distance field [m]; not supported yet."""


SHAPE_FIELDS = tuple(ShapeFields.model_fields)
STORED_ONLY = ("kd", "kf", "ka", "restitution", "mu_torsional", "mu_rolling", "kh")
"""Fields that reach the model, where SAP does not use them."""
NOT_APPLIED = ("is_hydroelastic", "sdf_max_resolution", "sdf_target_voxel_size", "sdf_narrow_band_range")
"""Fields that are read and reported as unsupported."""


class ShapeFieldBlocks(Section):
    """A block that takes shape fields in a block called cfg, shape or physics."""

    physics: ShapeFields | None = None
    """Shape fields; those of shape, cfg and of this block itself are applied later and win, in this order."""
    shape: ShapeFields | None = None
    """Shape fields; see physics."""
    cfg: ShapeFields | None = None
    """Shape fields; see physics."""

    def shape_fields(self) -> dict[str, Any]:
        """Return all shape fields that this block sets."""
        return {name: value for name, (_, value) in self.shape_fields_with_paths().items()}

    def shape_fields_with_paths(self) -> dict[str, tuple[Path, Any]]:
        """Return all shape fields that this block sets, each with its path from here and its value."""
        fields: dict[str, tuple[Path, Any]] = {}
        for name in ("physics", "shape", "cfg"):
            block = getattr(self, name)
            for field, value in block.given().items() if block is not None else ():
                fields[field] = (name, field), value
        for field, value in self.given().items():
            if field in SHAPE_FIELDS:
                fields[field] = (field,), value
        return fields


class WithShapeFields(ShapeFieldBlocks, ShapeFields):
    """A block that takes shape fields directly, too."""


class JointFields(Section):
    """Drive, limits and losses of one degree of freedom; units in m or rad, N or N m."""

    aliases: ClassVar[dict[str, str]] = {"target_q": "target_pos", "target_qd": "target_vel"}

    axis: Axis = None
    """Direction of the axis in the joint's parent frame: x, -y, 2 or [x, y, z]."""
    target_pos: Coordinate = None
    """Position that the drive aims at [m or rad]."""
    target_vel: Speed = None
    """Velocity that the drive aims at [m/s or rad/s]."""
    target_ke: Stiffness = None
    """Stiffness of the drive [N/m or N m/rad]."""
    target_kd: Damping = None
    """Damping of the drive [N s/m or N m s/rad]."""
    limit_lower: Limit = None
    """Lower end of the range of motion [m or rad]."""
    limit_upper: Limit = None
    """Upper end of the range of motion [m or rad]."""
    limit_ke: Stiffness = None
    """Stiffness of the limits [N/m or N m/rad]."""
    limit_kd: Damping = None
    """Damping of the limits [N s/m or N m s/rad]."""
    armature: Armature = None
    """Inertia added to the degree of freedom [kg or kg m^2]."""
    effort_limit: LimitMagnitude = None
    """Largest force or torque of the drive [N or N m]."""
    velocity_limit: LimitMagnitude = None
    """Largest speed [m/s or rad/s]."""
    friction: Force = None
    """Dry friction [N or N m]."""
    damping: Damping = None
    """Viscous damping that always acts [N s/m or N m s/rad]."""
    actuator_mode: Integer = None
    """0 none, 1 position, 2 velocity, 3 position and velocity, 4 effort; found from the gains if not given."""

    def _check(self) -> None:
        lower, upper = self.limit_lower, self.limit_upper
        if lower is not None and upper is not None and lower > upper:
            raise Complaint(f"limit_lower {lower:g} is above limit_upper {upper:g}")
        if self.actuator_mode is not None and not 0 <= self.actuator_mode <= 4:
            raise Complaint(f"found {self.actuator_mode}; expected 0 to 4", ("actuator_mode",))


JOINT_FIELDS = tuple(JointFields.model_fields)
