"""One packed record per body, `Link`, for the tree recursions: they would read a dozen of Newton's arrays instead.

Frames: W world, P parent body, F the joint's parent frame (X_PF = joint_X_p), M the joint's moving frame
(X_BM = joint_X_c), B the child body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import warp as wp

from ...core.kernels.launch import kernel
from ...core.kernels.spatial import is_identity, is_zero, number, to_unit_quat, to_vec3
from ...core.kernels.structs import array_struct, padded_zeros
from ...core.kernels.template import Variant, device_struct
from ...core.kernels.types import TYPES, Bools, Types
from ...model.joint_types import BALL, DISTANCE, FREE
from ..settings.options import SapOptions
from ..settings.precisions import pose
from .layout import FRAME_DRIVEN, FRAME_KINEMATIC, Layout, LayoutSizes

if TYPE_CHECKING:
    from ...model.model import SapModel

scalar, vec3, mat33, quat = number.scalar, number.vec3, number.mat33, number.quat

UNTURNED_F = wp.constant(1)
AT_PARENT = wp.constant(2)
UNTURNED_M = wp.constant(4)
AT_M = wp.constant(8)
SCALAR_JOINT = wp.constant(16)
"""What makes a joint simple: r_PF is the identity, p_PF is zero, r_MB is the identity, p_BM is zero, all coordinates
are angles and lengths. `core/native/tree8.h` has the same numbers."""
CENTERED = wp.constant(32)
"""A floating body whose centre of mass goes straight if nothing accelerates it, not its origin."""
FLOATING_CHILD = wp.constant(64)
"""A floating body below one with dofs: it goes straight in the world, not in the frame that its joint starts from."""


_FRAMES = dict.fromkeys(("joint_type", "joint_q_start", "joint_qd_start"), wp.int32)
_FRAMES |= dict.fromkeys(("joint_X_p", "joint_X_c"), wp.transformf)
JointFrames = array_struct("JointFrames", _FRAMES)
"""Those of Newton's joint arrays that `contact.stage_data` needs."""
JointParameters = array_struct(
    "JointParameters",
    _FRAMES
    | {"joint_parent": wp.int32, "joint_child": wp.int32, "joint_dof_dim": wp.array2d(dtype=wp.int32)}
    | {"joint_axis": wp.vec3f, "body_com": wp.vec3f, "body_mass": wp.float32, "body_inertia": wp.mat33f},
)
"""Newton's joint and body arrays, by reference and by their own names."""


def joint_parameters(model: Any, struct: Any = JointParameters) -> Any:
    """Collect the arrays of ``model``, Newton's or another struct, in ``struct``; nothing is copied."""
    parameters: Any = struct()
    for name in parameters._cls.vars:
        setattr(parameters, name, getattr(model, name))
    return parameters


@device_struct
class Link:
    """Record of one body and the joint above it: indices in solver order, frames and inertia in precision `number`."""

    kind: int  # joint type
    parent: int  # solver body, -1 for a root
    body: int  # Newton's body
    joint: int  # Newton's joint
    q_start: int
    qd_start: int
    dof: int  # first dof in solver order
    dof_count: int
    linear: int  # of these, linear axes
    simple: int  # which frames of the joint coincide, and how a floating body moves
    p_PF: vec3  # joint frame in the parent [m]
    r_PF: quat
    # `core/native/tree8.h` reads centre of mass to inertia in two pieces, of which the second ends behind it
    com: vec3  # centre of mass in the body frame [m]
    mass: scalar
    inertia: mat33  # about the centre of mass, body axes [kg m^2]
    p_BM: vec3  # joint frame in the child
    r_MB: quat


PoseLink = Link.on(number=pose)
"""The `Link` of kinematics and free motion."""


@kernel
def pack_links(
    layout: Layout,
    parameters: JointParameters,
    centered: int,
    mask: Bools,
    links_out: wp.array[Link],
    axis_out: wp.array[vec3],
):
    """Pack links and unit joint axes from Newton's arrays, one thread per body.

    An empty mask stands for all worlds.
    """
    b = wp.tid()
    if mask.shape[0] > 0:
        if not mask[layout.body_world[b]]:
            return
    joint = layout.body_joint[b]
    body = layout.body_newton[b]
    link = Link()
    link.kind = parameters.joint_type[joint]
    link.parent = layout.body_parent[b]
    link.body = body
    link.joint = joint
    link.q_start = parameters.joint_q_start[joint]
    link.qd_start = parameters.joint_qd_start[joint]
    link.dof = layout.body_dof[b]
    link.dof_count = layout.body_dof_count[b]
    link.linear = parameters.joint_dof_dim[joint, 0]
    link.p_PF = to_vec3(wp.transform_get_translation(parameters.joint_X_p[joint]))
    link.r_PF = to_unit_quat(wp.transform_get_rotation(parameters.joint_X_p[joint]))
    link.p_BM = to_vec3(wp.transform_get_translation(parameters.joint_X_c[joint]))
    link.r_MB = wp.quat_inverse(to_unit_quat(wp.transform_get_rotation(parameters.joint_X_c[joint])))
    link.simple = 0
    if is_identity(link.r_PF):
        link.simple = link.simple | UNTURNED_F
    if is_zero(link.p_PF):
        link.simple = link.simple | AT_PARENT
    if is_identity(link.r_MB):
        link.simple = link.simple | UNTURNED_M
    if is_zero(link.p_BM):
        link.simple = link.simple | AT_M
    if link.kind != BALL and link.kind != FREE and link.kind != DISTANCE:
        link.simple = link.simple | SCALAR_JOINT
    link.com = to_vec3(parameters.body_com[body])
    if centered != 0 and (link.kind == FREE or link.kind == DISTANCE):
        if layout.body_frame[b] != FRAME_KINEMATIC and not is_zero(link.com):
            link.simple = link.simple | CENTERED
        if layout.body_frame[b] == FRAME_DRIVEN:
            link.simple = link.simple | FLOATING_CHILD
    link.mass = scalar(parameters.body_mass[body])
    I = parameters.body_inertia[body]
    inertia = mat33()
    for i in range(3):
        for j in range(3):
            inertia[i, j] = scalar(I[i, j])
    link.inertia = inertia
    links_out[b] = link
    i = int(0)
    while i < link.dof_count:
        axis_out[link.dof + i] = wp.normalize(to_vec3(parameters.joint_axis[link.qd_start + i]))
        i += 1


class Links:
    """Packed links and axes of a model, in the precisions that the stages ask for."""

    def __init__(self, model: SapModel, layout: Layout, sizes: LayoutSizes, options: SapOptions):
        """Nothing is packed before `get`."""
        self._model, self._layout, self._sizes = model, layout, sizes
        self._centered = int(options.floating_body_point == "center_of_mass")
        self._packed: dict[str, tuple[wp.array, wp.array]] = {}
        self._no_mask = wp.empty(0, dtype=wp.bool, device=model.device)

    def get(self, types: Types) -> tuple[wp.array, wp.array]:
        """Links by body and unit axes by dof, both in solver order."""
        if types.name not in self._packed:
            device = self._model.device
            links = wp.zeros(self._sizes.body_count, dtype=Link.of(Variant(number=types)), device=device)
            axes = padded_zeros(self._sizes.dof_count, types.vec3, device)
            self._packed[types.name] = (links, axes)
            self._pack(types)
        return self._packed[types.name]

    def refresh(self, mask: wp.array | None = None) -> None:
        """Read the model's arrays again, after frames, axes, masses or inertias of the worlds in ``mask`` changed."""
        for name in self._packed:
            self._pack(TYPES[name], mask)

    def _pack(self, types: Types, mask: wp.array | None = None) -> None:
        wp.launch(
            pack_links.of(Variant(number=types)),
            dim=self._sizes.body_count,
            inputs=[
                self._layout,
                joint_parameters(self._model),
                self._centered,
                self._no_mask if mask is None else mask,
            ],
            outputs=list(self._packed[types.name]),
            device=self._model.device,
        )
