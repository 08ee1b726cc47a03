"""The views of a simulation, and how their columns are found by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import newton
import warp as wp

from ...model.model import SapControl, SapState
from ..run.health import Health
from .ctrl import ALL_FOLLOW, NO_ACTUATORS, CtrlView, has_ctrl
from .mirrors import Mirrors
from .names import Found, ModelNames
from .views import OnWrite, ViewAttribute, WorldView


class NamedViews:
    """Views of the state and the inputs of a simulation."""

    state: SapState
    control: SapControl
    model: newton.Model
    _names: ModelNames
    _health: Health
    _mirrors: Mirrors
    _views: dict[str, WorldView]
    _no_view: dict[str, str]

    def update_bodies(self, world_mask: Any = None) -> None:
        """Compute body poses and twists from the joints."""
        raise NotImplementedError

    joint_q = ViewAttribute(
        "Generalized positions [m or rad, quaternions xyzw], shape (worlds, coords); a `WorldView`."
    )
    joint_qd = ViewAttribute("Generalized velocities [m/s or rad/s], free joints [v_C, w], shape (worlds, dofs).")
    body_q = ViewAttribute(
        "Body poses in world frame [m, quaternion xyzw], shape (worlds, bodies, 7). A result; change joint_q instead."
    )
    body_qd = ViewAttribute("Body twists [v_C, w] in world frame [m/s, rad/s], shape (worlds, bodies, 6). A result.")
    body_f = ViewAttribute(
        "External wrenches [f, tau_C] in world frame [N, N m], shape (worlds, bodies, 6); act until they are changed."
    )
    joint_f = ViewAttribute("Generalized forces [N or N m], shape (worlds, dofs); act until they are changed.")
    joint_target_q = ViewAttribute("Drive position targets [m or rad], shape (worlds, coords).")
    joint_target_qd = ViewAttribute("Drive velocity targets [m/s or rad/s], shape (worlds, dofs).")
    joint_act = ViewAttribute("Feed-forward drive efforts [N or N m], shape (worlds, dofs).")
    ctrl = ViewAttribute(
        "Inputs of MuJoCo's actuators, in their units, shape (worlds, actuators); only of models that have some."
    )
    gravity = ViewAttribute("Gravitational acceleration [m/s^2], shape (worlds, 1, 3); belongs to the model.")

    # Names.

    def find_bodies(self, patterns: str | Iterable[str], world: int | None = None) -> Found:
        """Find bodies by name: ``indices``, columns of `body_q`, and ``names``.

        Args:
            patterns: A name, a pattern with ``*``, ``?`` or ``[]``, or a list of them. Without a slash it is compared
                with the last part of labels; with slashes, with as many parts from the end, or with whole labels.
            world: Which one, if worlds differ.

        Raises:
            UnknownNameError: Something has no match (close names are suggested), or a plain name stands for several.
            ValueError: Worlds differ in what they would give.
        """
        return self._names.find("body", patterns, world)

    def find_joints(self, patterns: str | Iterable[str], world: int | None = None) -> Found:
        """Find joints by name; ``indices`` count the joints of a world. See `find_bodies`."""
        return self._names.find("joint", patterns, world)

    def find_dofs(self, patterns: str | Iterable[str], world: int | None = None) -> Found:
        """Find degrees of freedom by their joints' names or their own: columns of `joint_qd` and `joint_f`.

        That of a joint with one has the joint's name. Free joints have ``root.vx`` to ``root.vz`` and ``root.wx`` to
        ``root.wz``, ball joints ``wx`` to ``wz``, d6 joints ``x`` to ``z`` and ``rx`` to ``rz``, or numbers.
        """
        return self._names.find("dof", patterns, world)

    def find_coords(self, patterns: str | Iterable[str], world: int | None = None) -> Found:
        """Find coordinates by their joints' names or their own: columns of `joint_q`.

        Free joints have ``root.x`` to ``root.z`` and ``root.qx`` to ``root.qw``, ball joints the last four.
        """
        return self._names.find("coord", patterns, world)

    def find_shapes(self, patterns: str | Iterable[str], world: int | None = None) -> Found:
        """Shapes by name, see `find_bodies`; ``world=-1`` finds those of no world (the ground), by their place in the
        model's arrays.
        """
        return self._names.find("shape", patterns, world)

    def find_actuators(self, patterns: str | Iterable[str], world: int | None = None) -> Found:
        """Find MuJoCo's actuators by name: columns of `ctrl`. See `find_bodies`."""
        return self._names.find("actuator", patterns, world)

    # Construction.

    def _look(self) -> None:
        """Check the present solvers for trouble, because somebody reads."""
        self._health.look()

    def _make_views(self) -> None:
        state: Any = self.state
        control: Any = self.control
        self._mirrors, self._views, self._no_view = Mirrors(), {}, {}
        sources = {
            "joint_q": (state.joint_q, "coord"),
            "joint_qd": (state.joint_qd, "dof"),
            "body_q": (state.body_q, "body"),
            "body_qd": (state.body_qd, "body"),
            "body_f": (state.body_f, "body"),
            "joint_f": (control.joint_f, "dof"),
            "joint_target_q": (control.joint_target_pos, "coord"),
            "joint_target_qd": (control.joint_target_vel, "dof"),
            "joint_act": (control.joint_act, "dof"),
        }
        for name, (array, kind) in sources.items():
            self.add_view(name, array, kind, self.update_bodies if name in ("joint_q", "joint_qd") else None)
        self._view_model()

    def _view_model(self) -> None:
        """Make the views of arrays that belong to the model, again if an array was replaced."""
        if self._is_new("gravity", self.model.gravity):
            self.add_view("gravity", self.model.gravity, "world")
        if not has_ctrl(self.model):
            self._no_view["ctrl"] = ALL_FOLLOW if self._names.has("actuator") else NO_ACTUATORS
        elif self._is_new("ctrl", self.model.mujoco.ctrl):
            self._views["ctrl"] = CtrlView(self.model, self._names, self._look, self._mirrors)

    def _is_new(self, name: str, array: wp.array) -> bool:
        """Return True if the view of that name is missing or shows other memory."""
        return name not in self._views or self._views[name].array.ptr != array.ptr

    def add_view(self, name: str, array: wp.array, kind: str, on_write: OnWrite | None = None) -> WorldView:
        """Make a view of an array of the whole model, which `ViewAttribute` of that name shows.

        Args:
            name: Of the attribute, and for messages.
            array: Flat, one entry for each entity of the model.
            kind: Of entities, one of `KINDS`, or ``"world"``.
            on_write: Called after each assignment through the view; see `WorldView`.
        """
        self._views[name] = self.make_view(name, array, kind, on_write)
        return self._views[name]

    def make_view(self, name: str, array: wp.array, kind: str, on_write: OnWrite | None = None) -> WorldView:
        """Make a view that is not an attribute."""
        looks: dict[str, Any] = {"mirrors": self._mirrors, "on_write": on_write}
        if kind != "world":
            looks |= {"kind": kind, "names": self._names}
        return WorldView(name, array, self._names.starts_of(kind), self._look, **looks)
