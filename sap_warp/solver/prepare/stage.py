"""Stage 3: contact data. Rows of the contact problem with their weights, and the terms of every dof.

No Jacobian is stored: a row keeps its normal and the points where its two bodies' velocities are taken,

    vc = [u_b + w_b x r_b] - [u_a + w_a x r_a],

and J^T gamma or J^T G J are sums over bodies (`objective`). `SapContactStage.dense` writes J out for inspection.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.launch import WorldRange
from ...core.kernels.structs import StructArgument, StructCache, allocate_arrays
from ...core.kernels.template import Variant
from ...core.kernels.types import TYPES
from ...model.contacts import dropped_by_world
from ...model.model import SapControl, SapModel, SapState
from ..contact.binning import Bins, bin_contacts
from ..contact.data import (
    CONTACT_ARRAYS,
    JOINT_ARRAYS,
    SPRINGS,
    ContactData,
    ContactInput,
    ContactStage,
    DofInput,
    ground_shapes,
    shape_owners,
)
from ..contact.weight import Mobility, pack_mobility
from ..model.layout import Layout, LayoutSizes
from ..model.links import JointFrames, Links, joint_parameters
from ..model.motors import Motors
from ..model.topology import carriers
from ..settings.options import SapOptions
from ..settings.precisions import solver_variant
from ..terms.contact import contact_law
from ..terms.dof import DofTerms
from .kernel import contact_data

if TYPE_CHECKING:
    from ..dynamics.free_motion import SapFreeMotion
    from ..state.stage import SapBoundary


class SapContactStage:
    """Owns the contact rows and dof terms; `data` and `terms` can be read after a step."""

    def __init__(
        self,
        model: SapModel,
        layout: Layout,
        sizes: LayoutSizes,
        parameters: Any,
        links: Links,
        options: SapOptions,
        free_motion: SapFreeMotion,
    ):
        """Allocate everything once."""
        self.model, self.layout, self.sizes, self.free_motion = model, layout, sizes, free_motion
        device, worlds = model.device, sizes.world_count
        variant = solver_variant(options, device)
        self.types, weight = variant["solve"], variant["weight"]
        self.capacity = options.max_rigid_contact + sizes.distance_rows_max
        self._allocate_data(variant)
        self._contact_inputs, self._dof_inputs = StructCache(device), StructCache(device)
        self.motors = Motors(model.newton_model)

        self.contact_count = wp.zeros(worlds, dtype=wp.int32, device=device)
        """Contacts of each world in the last step."""
        self.truncated_count = wp.zeros(worlds, dtype=wp.int32, device=device)
        """Contacts of each world that were dropped in the last step."""
        self.lost = wp.zeros(worlds, dtype=wp.int64, device=device)
        """Contacts of each world that were dropped since the last report, see `contact/dropped.py`."""
        self.most_lost = wp.zeros(worlds, dtype=wp.int32, device=device)
        """The most of them in one step."""
        self.lost_in_buffer = wp.zeros(2, dtype=wp.int64, device=device)
        """Contacts that did not fit into the collision pipeline's buffer since then: all, and the most in one step."""
        bins: Any = Bins()
        bins.capacity, bins.layout = options.max_rigid_contact, layout
        bins.found = wp.zeros(worlds, dtype=wp.int32, device=device)
        bins.slot = wp.zeros(worlds * options.max_rigid_contact, dtype=wp.int32, device=device)
        bins.overflow_head = wp.zeros(0 if device.is_cpu else worlds, dtype=wp.int32, device=device)
        bins.lost = self.lost_in_buffer
        bins.gap = wp.zeros(bins.slot.shape[0] if device.is_cpu else 0, dtype=wp.float64, device=device)
        self._bins = StructArgument(bins, device)
        self._overflow_next: weakref.WeakKeyDictionary[Any, wp.array] = weakref.WeakKeyDictionary()
        """By buffer: the list of its contacts that found their worlds full."""
        self._law = contact_law(options)
        exact = options.contact_weight_mode == "delassus"
        self._listed = wp.zeros(worlds, dtype=wp.int32, device=device)
        self._scratch = wp.zeros(sizes.dof_count * sizes.lanes if exact else 1, dtype=weight.vec3, device=device)
        self._links = links.get(weight)[0]
        self._pack_mobility = pack_mobility.of(variant)
        self._mobility = wp.zeros(sizes.body_count, dtype=Mobility.of(variant), device=device)
        self._stage_type = ContactStage.of(variant)
        self._stage: StructArgument | None = None
        self.kernel = contact_data.of(variant)
        self._shape_owner = shape_owners(model, layout)
        self.ground_count = len(ground_shapes(model))
        self.ground_mu = wp.zeros(worlds * self.ground_count, dtype=wp.float32, device=device)
        """Friction of the shapes of no world by world, `ground_count` for each; counts if `own_ground` is not 0."""
        self.own_ground = wp.zeros(1, dtype=wp.int32, device=device)
        self._no_mask = wp.empty(0, dtype=wp.bool, device=device)
        self._carrier = wp.zeros(sizes.body_count, dtype=wp.int32, device=device)
        self._empty = newton.Contacts(0, 0, device=device)
        self._source = self._contact_input(self._empty)
        self.refresh(parameters)
        self._last_count: wp.array | None = None
        self._last_capacity = 0
        self._last_dropped: wp.array | None = None

    def _allocate_data(self, variant: Variant) -> None:
        """Make the contact rows and the terms of the dofs."""
        sizes, worlds, device = self.sizes, self.sizes.world_count, self.model.device
        self.data: Any = ContactData.of(variant)()
        self.data.capacity = self.capacity
        counts = dict.fromkeys(("count", "coupled", "narrow"), worlds)
        counts |= dict.fromkeys(("body_start", "body_count", "body_active", "queue", "seen"), sizes.body_count)
        counts |= dict.fromkeys(("dof_position", "ordered_first", "ordered_entry"), sizes.dof_count)
        counts["body_row"] = 2 * worlds * self.capacity
        allocate_arrays(self.data, counts, worlds * self.capacity, device)
        chains = ("above", "above_start", "staged", "stage_end")
        allocate_arrays(self.data.hessian, dict.fromkeys(chains, 0), sizes.dof_count, device)
        for name in chains if self.layout.has_chains else ():
            setattr(self.data.hessian, name, getattr(self.layout.rows, name))
        self.terms: Any = DofTerms.of(variant)()
        for terms in (self.terms, self.terms.drive, self.terms.motor):
            allocate_arrays(terms, {}, sizes.dof_count, device)

    def ground_friction(self, world: int) -> dict[int, float]:
        """Friction of the shapes of no world in one world, by Newton's shape; empty while the model's own counts."""
        if not self.ground_count or not self.own_ground.numpy()[0]:
            return {}
        mu = self.ground_mu.numpy()[world * self.ground_count :][: self.ground_count]
        return dict(zip(map(int, ground_shapes(self.model)), map(float, mu), strict=True))

    def collect(self, state: SapState, contacts: newton.Contacts | None) -> None:
        """Sort what collision detection found at ``state`` by worlds; ``contacts`` may be None."""
        device = self.model.device
        contacts = self._empty if contacts is None else contacts
        capacity = contacts.rigid_contact_shape0.shape[0]
        self._source = self._contact_input(contacts)
        self._last_count, self._last_capacity = contacts.rigid_contact_count, capacity
        self._last_dropped = dropped_by_world(contacts)
        if capacity:
            # One thread on the CPU walks just the contacts there are; on CUDA a fixed grid strides over them.
            threads = 1 if device.is_cpu else min(capacity, 1 << 16)
            wp.launch(
                bin_contacts.of(Variant(state=TYPES[state.precision])),
                dim=threads,
                inputs=[self._bins.array, self._source.array, state.body_q, capacity, threads],
                device=device,
            )

    def compute(
        self,
        boundary: SapBoundary,
        control: SapControl,
        dt: float,
        worlds: WorldRange,
        ctrl: wp.array | None = None,
    ) -> None:
        """Fill `data` and `terms` from what was collected; ``ctrl`` replaces the model's inputs of actuators."""
        if self._stage is None:
            self._stage = self._make_stage(boundary.joint_q)
        dofs = self.dof_input(control, ctrl)
        worlds.launch(
            self.kernel,
            self._stage.kernel_argument,
            self._source.kernel_argument,
            dofs.kernel_argument,
            dt,
            device=self.model.device,
        )

    def refresh(self, parameters: Any) -> None:
        """Read masses, inertias, motors and Newton's joint arrays again, after the links have been packed anew."""
        self._parameters, self._stage = parameters, None
        self.motors.refresh()
        wp.copy(self._shape_owner, shape_owners(self.model, self.layout))
        carrier = carriers(self.model.newton_model)
        self.all_carry = bool((carrier == np.arange(len(carrier))).all())
        """True if every body has a mass, so that the host is not needed to find what carries it."""
        self._set_carriers(carrier)
        self._pack(self._no_mask)

    def refresh_masses(self, mask: wp.array) -> None:
        """Read masses and inertias of the worlds in ``mask`` again, after the links have been packed anew.

        Which bodies have mass must not have changed. Nothing is read by the host, unless bodies without mass have to
        find the heaviest one that carries them.
        """
        if not self.all_carry:
            self._set_carriers(carriers(self.model.newton_model))
        self._pack(mask)

    def _set_carriers(self, carrier: np.ndarray) -> None:
        """Take Newton's numbers of the bodies that carry each body."""
        by_body = np.append(carrier, -1)[self.layout.body_newton.numpy()]
        self._carrier.assign(np.append(self.layout.newton_body.numpy(), -1)[by_body].astype(np.int32))

    def _pack(self, mask: wp.array) -> None:
        wp.launch(
            self._pack_mobility,
            dim=self.sizes.body_count,
            inputs=[self._links, self._carrier, self.layout.body_world, mask],
            outputs=[self._mobility],
            device=self.model.device,
        )

    def overflow_count(self) -> int:
        """Contacts that the collision pipeline found but its own buffer could not hold in the last step."""
        if self._last_count is None:
            return 0
        return max(0, int(self._last_count.numpy()[0]) - self._last_capacity)

    @property
    def buffer_size(self) -> int:
        """Contacts that the buffer of the last step could hold."""
        return self._last_capacity

    def overflow_by_world(self) -> np.ndarray:
        """How the last overflow was spread over worlds, as far as the writer of the buffer knows; else empty."""
        return np.zeros(0, dtype=np.int32) if self._last_dropped is None else self._last_dropped.numpy()

    def dense(self, world: int = 0) -> np.ndarray:
        """Contact Jacobian of one world for inspection, shape [rows, 3, dofs].

        Row blocks give the relative velocity in world axes, columns are in Newton's dof order of that world.
        """
        layout, motion = self.layout, self.free_motion.data
        start, end = layout.world_dof.numpy()[world : world + 2]
        order = np.argsort(layout.dof_newton.numpy()[start:end])
        Sw, Sv = motion.Sw.numpy().astype(np.float64), motion.Sv.numpy().astype(np.float64)
        chain, parent = layout.body_chain.numpy(), layout.dof_parent.numpy()
        rows = range(world * self.capacity, world * self.capacity + int(self.data.count.numpy()[world]))
        J = np.zeros((len(rows), 3, end - start))
        sides = ((self.data.body_a, self.data.r_a, -1.0), (self.data.body_b, self.data.r_b, 1.0))
        for bodies, arms, sign in sides:
            bodies, arms = bodies.numpy(), arms.numpy()
            for i, row in enumerate(rows):
                e = chain[bodies[row]] if bodies[row] >= 0 else -1
                while e >= 0:
                    J[i, :, e - start] += sign * (Sv[e] + np.cross(Sw[e], arms[row]))
                    e = parent[e]
        return J[:, :, order]

    def _contact_input(self, contacts: newton.Contacts) -> StructArgument:
        model = self.model
        arrays = {f"rows.{name}": getattr(contacts, f"rigid_contact_{name}") for name in CONTACT_ARRAYS}
        some = ("stiffness", "damping", "friction", "surface_velocity")
        arrays |= {name: getattr(contacts, f"rigid_contact_{name}") for name in some}
        arrays |= {"shape_owner": self._shape_owner, "shape_ke": model.shape_material_ke}
        arrays |= {"shape_mu": model.shape_material_mu, "shape_tau": model.shape_material_tau}
        arrays |= {"ground_mu": self.ground_mu, "own_ground": self.own_ground}
        arrays["overflow_next"] = self._overflow_list(contacts)

        def make() -> Any:
            source: Any = ContactInput()
            source.ground_count = self.ground_count
            source.has_overrides = int(contacts.rigid_contact_stiffness is not None)
            source.has_surface_velocity = int(contacts.rigid_contact_surface_velocity is not None)
            return source

        return self._contact_inputs.argument(arrays, make)

    def _overflow_list(self, contacts: newton.Contacts) -> wp.array:
        """List of the contacts that find their worlds full, where several threads sort a buffer that can fill one."""
        if contacts not in self._overflow_next:
            capacity, device = contacts.rigid_contact_shape0.shape[0], self.model.device
            count = 0 if device.is_cpu or capacity <= self._bins.struct.capacity else capacity
            self._overflow_next[contacts] = wp.zeros(count, dtype=wp.int32, device=device)
        return self._overflow_next[contacts]

    def _make_stage(self, q: wp.array) -> StructArgument:
        stage: Any = self._stage_type()
        bins = self._bins.struct
        stage.layout, stage.mobility, stage.law = self.layout, self._mobility, self._law
        stage.motion, stage.rows, stage.terms = self.free_motion.data, self.data, self.terms
        stage.listed = self._listed
        stage.joints, stage.q, stage.scratch = joint_parameters(self._parameters, JointFrames), q, self._scratch
        stage.found, stage.slot, stage.slots = bins.found, bins.slot, bins.capacity
        stage.overflow_head = bins.overflow_head
        stage.ordered = int(self.model.device.is_cpu)  # where one thread does the binning
        stage.contact_count, stage.truncated = self.contact_count, self.truncated_count
        stage.lost, stage.most_lost = self.lost, self.most_lost
        return StructArgument(stage, self.model.device)

    def dof_input(self, control: SapControl, ctrl: wp.array | None) -> StructArgument:
        """The `DofInput` of a step with these inputs, on the device."""
        arrays = {name: getattr(self.model, f"joint_{name}") for name in JOINT_ARRAYS}
        arrays |= {"target_q": control.joint_target_pos, "target_qd": control.joint_target_vel}
        arrays |= {"act": control.joint_act, **passive_springs(self.model), **self.motors.inputs(ctrl)}

        def make() -> Any:
            source: Any = DofInput()
            source.has_springs = int(arrays["spring_stiffness"] is not None)
            source.has_motors = int(self.motors.count > 0)
            return source

        return self._dof_inputs.argument(arrays, make)


def passive_springs(model: SapModel) -> dict[str, wp.array | None]:
    """MuJoCo's passive joint springs, if the model carries them: stiffness [N/m, N m/rad] and coordinates [m, rad]."""
    attributes = getattr(model, "mujoco", None)
    found = {field: getattr(attributes, name, None) for field, name in SPRINGS.items()}
    complete = all(array is not None for array in found.values())
    return found if complete else dict.fromkeys(SPRINGS)


SapContactJacobian = SapContactStage
"""The name that the stage has in the specification of SAP Warp."""
