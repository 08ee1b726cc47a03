"""Parameters of worlds as views: assignments act in the next step, in every thread.

Steps read materials, gains, limits, armature, damping, joint friction and gravity where the model has them. Masses,
centres of mass and inertias are packed by the solver: an assignment packs those of the worlds that were written, on the
device. Graphs stay valid, and the bits are those of a simulation that was built with the new values.

Host arrays of these views are read-only, so that nothing is written past the view. Whoever writes into their memory by
torch or Warp calls `Simulation.take_parameters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import newton
import numpy as np
import warp as wp

from ..core.runtime.capture import launches
from ..model.joint_types import FLOATING_JOINTS
from ..model.model_values import FINITE, FINITE_POSITIVE, NUMBER, POSITIVE, is_bad
from ..model.shapes import PRIMITIVES
from ..solver.contact.data import ground_shapes
from .kernels import bound_shapes, invert_masses
from .views.arrays import as_mask
from .views.views import ViewAttribute, WorldView

if TYPE_CHECKING:
    from .core import SimulationCore


@dataclass(frozen=True)
class _Parameter:
    attribute: str
    """Array of the model."""
    kind: str
    """Kind of entity that has the parameter."""
    rule: str
    """Condition on its numbers."""


MASSES = ("body_mass", "body_com", "body_inertia")
"""Parameters that the solver packs."""
_BY_DOF = {
    "target_ke": FINITE_POSITIVE,
    "target_kd": FINITE_POSITIVE,
    "effort_limit": POSITIVE,
    "limit_lower": NUMBER,
    "limit_upper": NUMBER,
    "velocity_limit": POSITIVE,
    "armature": FINITE_POSITIVE,
    "damping": FINITE_POSITIVE,
    "friction": FINITE_POSITIVE,
}
PARAMETERS: Mapping[str, _Parameter] = {
    "shape_mu": _Parameter("shape_material_mu", "shape", FINITE),
    "shape_ke": _Parameter("shape_material_ke", "shape", FINITE),
    "shape_tau": _Parameter("sap:shape_material_tau", "shape", FINITE),
    "shape_scale": _Parameter("shape_scale", "shape", FINITE),
    "body_mass": _Parameter("body_mass", "body", FINITE_POSITIVE),
    "body_com": _Parameter("body_com", "body", FINITE),
    "body_inertia": _Parameter("body_inertia", "body", FINITE),
    **{f"joint_{name}": _Parameter(f"joint_{name}", "dof", rule) for name, rule in _BY_DOF.items()},
}


class ParameterViews:
    """Parameters that a simulation shows, each with values of every world."""

    shape_mu = ViewAttribute(
        "Friction coefficients, shape (worlds, shapes); a pair's is their harmonic mean. Negative is the solver's own."
    )
    shape_ke = ViewAttribute("Stiffness of shapes [N/m], shape (worlds, shapes). Zero or less is the solver's own.")
    shape_tau = ViewAttribute("Dissipation times of shapes [s], shape (worlds, shapes). Negative is the solver's own.")
    shape_scale = ViewAttribute(
        "Sizes of shapes [m], shape (worlds, shapes, 3), as Newton has them; those of spheres, boxes, capsules, "
        "cylinders, cones and ellipsoids can be changed. Masses do not follow."
    )
    ground_mu = ViewAttribute(
        "Friction of the shapes that all worlds share, in each world, shape (worlds, ground shapes). From the first "
        "assignment on it stands in the place of the model's own."
    )
    body_mass = ViewAttribute("Masses [kg], shape (worlds, bodies). Inertias do not follow.")
    body_com = ViewAttribute("Centres of mass in body frames [m], shape (worlds, bodies, 3).")
    body_inertia = ViewAttribute(
        "Inertias about the centres of mass in body axes [kg m^2], shape (worlds, bodies, 3, 3); symmetric."
    )
    joint_target_ke = ViewAttribute("Position gains of drives [N/m or N m/rad], shape (worlds, dofs).")
    joint_target_kd = ViewAttribute("Velocity gains of drives [N s/m or N m s/rad], shape (worlds, dofs).")
    joint_effort_limit = ViewAttribute("Limits of drives and actuators [N or N m], shape (worlds, dofs).")
    joint_limit_lower = ViewAttribute("Lower position limits [m or rad], shape (worlds, dofs).")
    joint_limit_upper = ViewAttribute("Upper position limits [m or rad], shape (worlds, dofs).")
    joint_velocity_limit = ViewAttribute("Speed limits [m/s or rad/s], shape (worlds, dofs).")
    joint_armature = ViewAttribute("Armature [kg or kg m^2], shape (worlds, dofs).")
    joint_damping = ViewAttribute("Viscous damping [N s/m or N m s/rad], shape (worlds, dofs).")
    joint_friction = ViewAttribute("Dry friction of joints [N or N m], shape (worlds, dofs).")


class Parameters:
    """Checks assignments to the parameter views and hands them on to the solvers."""

    def __init__(self, sim: SimulationCore):
        """Make the views."""
        self._sim = sim
        self._good: dict[str, wp.array] = {}
        """The last values that were checked. On the host, where checks are made, unless kernels write them, too."""
        self._sources: dict[str, wp.array] = {}
        shapes = sim._names.starts_of("shape")
        self._simple = np.isin(sim.model.shape_type.numpy(), PRIMITIVES)[int(shapes[0]) : int(shapes[-1])]
        """Which shapes of the worlds are nothing but their sizes."""
        kinds = np.repeat(sim.model.joint_type.numpy(), np.diff(sim.model.joint_qd_start.numpy()))
        self._floats = np.isin(kinds, FLOATING_JOINTS)[int(sim._names.starts_of("dof")[0]) :]
        """Which dofs of the worlds belong to joints that have no friction."""
        ground = ground_shapes(sim.model)
        own = sim.model.shape_material_mu.numpy()[ground]
        self.ground_mu = wp.array(np.tile(own, sim.world_count), dtype=wp.float32, device=sim.device)
        """Friction of the ground, all worlds one after the other; the solvers read it here ..."""
        self._own_ground = wp.zeros(1, dtype=wp.int32, device=sim.device)
        """... if this is not 0."""
        self._owns_ground = False
        if len(ground):
            starts = len(ground) * np.arange(sim.world_count + 1)
            hook: Any = partial(self.take, "ground_mu")
            looks: dict[str, Any] = {"mirrors": sim._mirrors, "on_write": hook}
            view = WorldView("ground_mu", self.ground_mu, starts, sim._look, **looks)
            view.is_parameter = True
            sim._views["ground_mu"] = view
            self._good["ground_mu"] = wp.clone(self.ground_mu, device="cpu")
        self.renew()

    @property
    def arrays(self) -> list[wp.array]:
        """Arrays on the device that belong to this object."""
        good = [array for array in self._good.values() if array.device == self._sim.device]
        return [self.ground_mu, self._own_ground, *good]

    @property
    def owns_ground(self) -> bool:
        """True if worlds have their own ground friction, instead of the model's."""
        return self._owns_ground

    @owns_ground.setter
    def owns_ground(self, value: bool) -> None:
        self._owns_ground = value
        self._own_ground.fill_(int(value))

    def good(self, name: str) -> wp.array:
        """Return the last valid values of a parameter, on the device from now on."""
        if self._good[name].device != self._sim.device:
            self._good[name] = wp.clone(self._good[name], device=self._sim.device)
        return self._good[name]

    def renew(self) -> None:
        """Take over arrays of the model that were replaced, and connect new solvers to the ground friction."""
        sim = self._sim
        for name, parameter in PARAMETERS.items():
            array = model_array(sim.model, parameter.attribute)
            if array is self._sources.get(name) or not len(array) or not sim._names.has(parameter.kind):
                continue
            starts = sim._names.starts_of(parameter.kind)
            if starts[0] == starts[-1]:  # only the ground has shapes
                continue
            self._sources[name] = array
            hook: Any = partial(self.take, name)
            view = sim.add_view(name, array, parameter.kind, on_write=hook)
            view.is_parameter = True
            self._good[name] = wp.clone(view.array, device="cpu")
        first = 0
        for shard in sim.shards:
            rows = shard.solver.contact_stage
            if rows.ground_count:
                last = first + len(rows.ground_mu)
                rows.ground_mu, rows.own_ground = self.ground_mu[first:last], self._own_ground
                first = last

    def take(self, name: str, mask: Any = None) -> None:
        """Check values that were written into a parameter of some worlds, and apply them from the next step on.

        Raises:
            ValueError: A number is not possible; the parameter keeps its last values.
        """
        sim = self._sim
        with sim._team.lock:
            view, good = sim._views[name], self._good[name]
            try:
                self._check(name, view, good)
            except ValueError:
                wp.copy(view.array, good)
                sim._mirrors.refresh()
                raise
            wp.copy(good, view.array)
            if name == "ground_mu":
                self.owns_ground = True
            elif name in MASSES:
                self.take_masses(mask, moved="com" in name)
            elif name == "shape_scale":
                self.launch_shapes(self._mask(mask))

    def take_named(self, names: tuple[str, ...], mask: Any) -> None:
        """Implement `Simulation.take_parameters`."""
        unknown = [name for name in names if name not in self._good]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is no parameter of this simulation; there are {', '.join(self._good)}.")
        for name in names or [each for each in self._good if each != "ground_mu" or self.owns_ground]:
            self.take(name, mask)

    def take_masses(self, mask: Any = None, moved: bool = True) -> None:
        """Let the solvers pack masses and inertias of chosen worlds; ``moved`` is True if a centre of mass changed."""
        self.launch_masses(self._mask(mask), moved)

    def _mask(self, given: Any) -> wp.array:
        worlds = self._sim.world_count
        return as_mask(np.ones(worlds, bool) if given is None else given, worlds, self._sim.device)

    @launches
    def launch_masses(self, chosen: wp.array, moved: bool) -> None:
        """Pack masses with a mask on the device; can be captured if every body has a mass."""
        sim, model = self._sim, self._sim.model
        inputs = [chosen, model.body_world, model.body_mass, model.body_inertia]
        outputs = [model.body_inv_mass, model.body_inv_inertia]
        wp.launch(invert_masses, dim=model.body_count, inputs=inputs, outputs=outputs, device=sim.device)
        for shard in sim.shards:
            part = chosen if shard.share is None else chosen[shard.share.first : shard.share.last]
            shard.solver.refresh_masses(part)
            if moved:  # twists are those of centres of mass
                boundary = shard.solver.boundary
                boundary.place(shard.state, shard.control, shard.solver.all_worlds, part)

    @launches
    def launch_shapes(self, chosen: wp.array) -> None:
        """Recompute the bounds of shapes from their sizes."""
        model = self._sim.model
        inputs = [chosen, model.shape_world, model.shape_type, model.shape_scale]
        bounds = [model.shape_collision_radius, model.shape_collision_aabb_lower, model.shape_collision_aabb_upper]
        wp.launch(bound_shapes, dim=model.shape_count, inputs=inputs, outputs=bounds, device=model.device)

    def are_simple(self, shapes: np.ndarray) -> bool:
        """Return True if these shapes are described by their sizes alone in all worlds."""
        return bool(self._simple[shapes].all())

    def accept(self) -> None:
        """Take all present values as valid: they come from a checkpoint."""
        for name, good in self._good.items():
            wp.copy(good, self._sim._views[name].array)

    def _check(self, name: str, view: WorldView, good: wp.array) -> None:
        rule = PARAMETERS[name].rule if name in PARAMETERS else FINITE_POSITIVE
        values, before = view.array.numpy(), good.numpy()
        bad = is_bad(values, rule)
        if name == "body_mass":
            rule = "positive, or stay zero where a body has none"
            bad |= (values > 0.0) != (before > 0.0)
        elif name == "joint_friction" and not bad.any():
            rule = "zero on free and distance joints"
            bad |= (values != 0.0) & self._floats[: len(values)]
        elif name == "shape_scale" and not bad.any():
            rule = "positive where it is so (meshes, planes and heightfields keep their size)"
            bad = (values != before) & (~self._simple[:, None] | ((values > 0.0) != (before > 0.0)))
        elif name == "body_inertia" and not bad.any():
            rule = "symmetric and positive definite"
            changed = (values != before).any(axis=(1, 2))
            bad[changed] |= ~_are_inertias(values[changed])[:, None, None]
        if bad.any():
            first = tuple(int(i) for i in np.argwhere(bad)[0])
            world = int(np.searchsorted(view.offsets, first[0], side="right") - 1)
            column = first[0] - int(view.offsets[world])
            raise ValueError(
                f"{name} has to be {rule}: that of world {world}, column {column} would be "
                f"{np.array2string(values[first[0]], precision=6)}. Nothing was changed."
            )


def _are_inertias(matrices: np.ndarray) -> np.ndarray:
    """Return a mask of symmetric, positive definite matrices: all leading minors are positive."""
    m = matrices.astype(np.float64)
    symmetric = np.abs(m - m.transpose(0, 2, 1)).max(axis=(1, 2), initial=0.0) <= 1e-5 * np.abs(m).max(axis=(1, 2))
    minors = m[:, 0, 0] * m[:, 1, 1] - m[:, 0, 1] * m[:, 1, 0]
    found: np.ndarray = symmetric & (m[:, 0, 0] > 0.0) & (minors > 0.0) & (np.linalg.det(m) > 0.0)
    return found


def model_array(model: newton.Model, attribute: str) -> Any:
    """Return an array of a model by its name, with a namespace before a colon."""
    namespace, _, name = attribute.rpartition(":")
    return getattr(getattr(model, namespace) if namespace else model, name)
