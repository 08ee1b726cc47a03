"""Stage 3: contact data. Rows of the contact problem with their weights, and the terms of every dof.

No Jacobian is stored: a row keeps its normal and the points where its two bodies' velocities are taken,

    vc = [u_b + w_b x r_b] - [u_a + w_a x r_a],

and J^T gamma or J^T G J are sums over bodies (`contact_solve`). `SapContactJacobian.dense` writes J out for inspection.
"""

import functools
from typing import Any

import newton
import numpy as np
import warp as wp

from ..contacts import dropped_by_world
from ..precision import FP32, FP64, TYPES, Types
from .arguments import StructArgument, StructCache, make_flat
from .block import barrier, lane
from .contact_binning import make_bin_kernel
from .contact_data import make_contact_data
from .contact_input import ContactInput, ContactLaw, DofInput, contact_law
from .contact_rows import BODY_INERTIA, DIAG_DELASSUS, make_prepare_contact
from .free_motion import make_free_motion_data
from .joint_rows import make_joint_rows
from .kernel import solver_kernel
from .kinematics import JointParameters, Links, make_link
from .layout import Layout, LayoutSizes
from .motors import Motors
from .parts import Part
from .terms.dof import PARABOLA, make_dof_terms


@functools.cache
def make_contact_kernel(pose: Types, contact_pose: Types, dynamics: Types, weight: Types, types: Types):
    """The kernel of the stage: one block per world.

    ``pose`` and ``dynamics`` are the precisions of free motion's data, ``contact_pose`` the one poses are rounded to,
    ``weight`` the one w is computed in, ``types`` the one of the contact solve.
    """
    FreeMotion = make_free_motion_data(pose, dynamics)
    Contacts = make_contact_data(types)
    Terms = make_dof_terms(types).DofTerms
    Link = make_link(weight)
    prepare_contact = make_prepare_contact(pose, contact_pose, dynamics, weight, types)
    joint_rows = make_joint_rows(pose, contact_pose, dynamics, types)
    prepare_dof, prepare_distance = joint_rows.prepare_dof, joint_rows.prepare_distance
    wvec3 = weight.vec3
    flat_layout, flat_joints, flat_motion = make_flat(Layout), make_flat(JointParameters), make_flat(FreeMotion)
    flat_contact_input, flat_dof_input = make_flat(ContactInput), make_flat(DofInput)
    flat_contacts, flat_terms = make_flat(Contacts), make_flat(Terms)

    @wp.func
    def list_by_body(layout: wp.ref[Layout], out: wp.ref[Contacts], world: int):
        """Rows of each body, and which subtrees have any: a counting sort in row order."""
        first_body = layout.world_body[world]
        last_body = layout.world_body[world + 1]
        base = world * out.capacity
        b = int(first_body)
        while b < last_body:
            out.body_count[b] = 0
            out.body_active[b] = 0
            b += 1
        row_end = base + out.count[world]
        row = int(base)
        while row < row_end:
            for side in range(2):
                b = wp.where(side == 0, out.body_a[row], out.body_b[row])
                if b >= 0:
                    out.body_count[b] = out.body_count[b] + 1
            row += 1
        total = 2 * base
        b = int(first_body)
        while b < last_body:
            out.body_start[b] = total
            total += out.body_count[b]
            if out.body_count[b] > 0:
                out.body_active[b] = 1
            parent = layout.body_parent[b]
            if out.body_active[b] != 0 and parent >= 0:
                out.body_active[parent] = 1
            out.body_count[b] = 0
            b += 1
        row_end = base + out.count[world]
        row = int(base)
        while row < row_end:
            for side in range(2):
                b = wp.where(side == 0, out.body_a[row], out.body_b[row])
                if b >= 0:
                    out.body_row[out.body_start[b] + out.body_count[b]] = 2 * row + side
                    out.body_count[b] = out.body_count[b] + 1
            row += 1

    @wp.func
    def widen_rows(layout: wp.ref[Layout], out: wp.ref[Contacts], world: int):
        """Hessian rows: the subtree of a dof, and left of it whatever contacts between moving bodies couple it with."""
        start = layout.world_dof[world]
        end = layout.world_dof[world + 1]
        base = world * out.capacity
        coupled = layout.world_coupled[world]
        e = int(start)
        while e < end:
            out.hessian_first[e] = layout.dof_reach[e]
            e += 1
        row_end = base + out.count[world]
        row = int(base)
        while row < row_end:
            if out.body_a[row] >= 0 and out.body_b[row] >= 0:
                coupled = 1
                chain_a = layout.body_chain[out.body_a[row]]
                chain_b = layout.body_chain[out.body_b[row]]
                for side in range(2):
                    e = wp.where(side == 0, chain_a, chain_b)
                    other = wp.where(side == 0, chain_b, chain_a)
                    while e >= 0:
                        if other < out.hessian_first[e]:
                            out.hessian_first[e] = other
                        e = layout.dof_parent[e]
            row += 1
        address = layout.world_hessian[world]
        e = int(start)
        while e < end:
            out.hessian_entry[e] = address
            address += e - out.hessian_first[e] + 1
            e += 1
        out.coupled[world] = coupled

    @wp.func
    def prepare_world(
        world: int,
        layout_in: wp.array(dtype=Layout),
        joints_in: wp.array(dtype=JointParameters),
        links: wp.array(dtype=Link),
        contacts_in: wp.array(dtype=ContactInput),
        dofs_in: wp.array(dtype=DofInput),
        law: wp.ref[ContactLaw],
        q_in: wp.array(dtype=wp.float64),
        dt: wp.float64,
        motion_in: wp.array(dtype=FreeMotion),
        found_in: wp.array(dtype=wp.int32),
        slot_in: wp.array(dtype=wp.int32),
        y: wp.array(dtype=wvec3),
        rows_out: wp.array(dtype=Contacts),
        terms_out: wp.array(dtype=Terms),
        contact_count_out: wp.array(dtype=wp.int32),
        truncated_out: wp.array(dtype=wp.int32),
    ):
        layout = layout_in[0]
        p = joints_in[0]
        c = contacts_in[0]
        input = dofs_in[0]
        d = motion_in[0]
        out = rows_out[0]
        t = terms_out[0]
        flat_layout(layout)
        flat_joints(p)
        flat_contact_input(c)
        flat_dof_input(input)
        flat_motion(d)
        flat_contacts(out)
        flat_terms(t)
        start = layout.world_dof[world]
        end = layout.world_dof[world + 1]
        base = world * out.capacity
        slots = slot_in.shape[0] // found_in.shape[0]
        first_slot = world * slots
        kept = wp.min(found_in[world], slots)
        rows_before = int(0)
        e = int(start + lane())
        while e < end:
            prepare_dof(layout, p, input, law, d, t, q_in, e, dt)
            e += wp.block_dim()
        if lane() == 0:
            # Ascending contact order, whatever order the threads came in: results do not depend on scheduling.
            i_end = first_slot + kept
            i = int(first_slot + 1)
            while i < i_end:
                value = slot_in[i]
                j = i - 1
                while j >= first_slot and slot_in[wp.max(j, 0)] > value:
                    slot_in[j + 1] = slot_in[j]
                    j -= 1
                slot_in[j + 1] = value
                i += 1
            rows = int(0)
            i_end = layout.world_distance[world + 1]
            i = int(layout.world_distance[world])
            while i < i_end:
                b = layout.distance_body[i]
                rows += prepare_distance(layout, p, input, d, out, b, False, base + rows, dt)
                rows += prepare_distance(layout, p, input, d, out, b, True, base + rows, dt)
                i += 1
            out.count[world] = rows + kept
            contact_count_out[world] = kept
            truncated_out[world] = found_in[world] - kept
        barrier()
        rows_before = out.count[world] - kept
        if law.weight_mode == BODY_INERTIA or law.weight_mode == DIAG_DELASSUS:
            i = int(lane())
            while i < kept:
                prepare_contact(layout, links, c, law, d, out, base + rows_before + i, slot_in[first_slot + i], dt, y)
                i += wp.block_dim()
        elif lane() == 0:  # the exact weight needs the world's one scratch column
            i = int(0)
            while i < kept:
                prepare_contact(layout, links, c, law, d, out, base + rows_before + i, slot_in[first_slot + i], dt, y)
                i += 1
        barrier()
        if lane() == 0:
            found_in[world] = 0  # ready for the next step's binning
            list_by_body(layout, out, world)
            widen_rows(layout, out, world)
            count = int(0)
            total = int(0)
            e = int(start)
            while e < end:
                if t.kind[e] != 0:
                    total += 1
                    if t.kind[e] != PARABOLA:
                        t.list[start + count] = e
                        count += 1
                e += 1
            t.total[world] = total
            t.count[world] = count

    @solver_kernel
    def contact_data(
        first_world: int,
        layout: wp.array(dtype=Layout),
        p: wp.array(dtype=JointParameters),
        links: wp.array(dtype=Link),
        c: wp.array(dtype=ContactInput),
        input: wp.array(dtype=DofInput),
        law: wp.array(dtype=ContactLaw),
        q_in: wp.array(dtype=wp.float64),
        dt: wp.float64,
        d: wp.array(dtype=FreeMotion),
        found_in: wp.array(dtype=wp.int32),
        slot_in: wp.array(dtype=wp.int32),
        y: wp.array(dtype=wvec3),
        out: wp.array(dtype=Contacts),
        t: wp.array(dtype=Terms),
        contact_count_out: wp.array(dtype=wp.int32),
        truncated_out: wp.array(dtype=wp.int32),
    ):
        prepare_world(
            first_world + wp.tid() // wp.block_dim(),
            layout,
            p,
            links,
            c,
            input,
            law[0],
            q_in,
            dt,
            d,
            found_in,
            slot_in,
            y,
            out,
            t,
            contact_count_out,
            truncated_out,
        )

    return contact_data


class SapContactJacobian:
    """Owns the contact rows and dof terms; `data` and `terms` can be read after a step."""

    def __init__(
        self,
        model: Any,
        layout: StructArgument,
        sizes: LayoutSizes,
        parameters: StructArgument,
        links: Links,
        options: Any,
        free_motion: Any,
    ):
        """Allocate everything once."""
        self.model, self.layout, self.sizes, self.parameters = model, layout.struct, sizes, parameters
        self.layout_argument = layout.array
        self.free_motion = free_motion
        self.types = TYPES[options.contact_solve_precision]
        weight = TYPES[options.sap_contact_weight_precision]
        contact_pose = FP64 if options.use_f64_boundary_pose else FP32
        device = model.device
        worlds = sizes.world_count
        self.capacity = options.max_rigid_contact + sizes.distance_rows_max

        self.data: Any = make_contact_data(self.types)()
        self.data.capacity = self.capacity
        counts = dict.fromkeys(("count", "coupled"), worlds)
        counts |= dict.fromkeys(("body_start", "body_count", "body_active"), sizes.body_count)
        counts |= dict.fromkeys(("hessian_first", "hessian_entry"), sizes.dof_count)
        counts["body_row"] = 2 * worlds * self.capacity
        _allocate(self.data, counts, worlds * self.capacity, device)
        self.terms: Any = make_dof_terms(self.types).DofTerms()
        _allocate(self.terms, dict.fromkeys(("count", "total"), worlds), sizes.dof_count, device)
        self._arguments = [StructArgument(struct, device) for struct in (self.data, self.terms)]
        self.argument, self.terms_argument = (argument.array for argument in self._arguments)
        self._contact_inputs, self._dof_inputs = StructCache(device), StructCache(device)
        self.motors = Motors(model.newton_model)

        self.contact_count = wp.zeros(worlds, dtype=wp.int32, device=device)
        """Contacts of each world in the last step."""
        self.truncated_count = wp.zeros(worlds, dtype=wp.int32, device=device)
        """Contacts of each world that found no place in the last step."""
        self._found = wp.zeros(worlds, dtype=wp.int32, device=device)
        self._slot = wp.zeros(worlds * options.max_rigid_contact, dtype=wp.int32, device=device)
        exact = options.contact_weight_mode == "delassus"
        self._scratch = wp.zeros(sizes.dof_count if exact else 1, dtype=weight.vec3, device=device)
        self._law = StructArgument(contact_law(options), device)
        self._links = links.get(weight)[0]
        self._kernel = make_contact_kernel(free_motion.pose_types, contact_pose, free_motion.types, weight, self.types)
        self._empty = newton.Contacts(0, 0, device=device)
        self._source = self._contact_input(self._empty)
        self._last_count: wp.array | None = None
        self._last_capacity = 0
        self._last_dropped: wp.array | None = None

    def collect(self, state: Any, contacts: Any) -> None:
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
                make_bin_kernel(TYPES[state.precision]),
                dim=threads,
                inputs=[self.layout_argument, self._source, state.body_q, capacity, threads],
                outputs=[self._found, self._slot],
                device=device,
            )

    def compute(self, boundary: Any, control: Any, dt: float, part: Part, ctrl: wp.array | None = None) -> None:
        """Fill `data` and `terms` from what was collected; ``ctrl`` replaces the model's inputs of actuators."""
        wp.launch(
            self._kernel,
            dim=part.threads,
            inputs=[
                part.first,
                self.layout_argument,
                self.parameters.array,
                self._links,
                self._source,
                self._dof_input(control, ctrl),
                self._law.array,
                boundary.joint_q,
                dt,
                self.free_motion.argument,
                self._found,
                self._slot,
                self._scratch,
            ],
            outputs=[self.argument, self.terms_argument, self.contact_count, self.truncated_count],
            block_dim=part.lanes,
            device=self.model.device,
        )

    def overflow_count(self) -> int:
        """Contacts that the collision pipeline found but its own buffer could not hold in the last step."""
        if self._last_count is None:
            return 0
        return max(0, int(self._last_count.numpy()[0]) - self._last_capacity)

    def overflow_by_world(self) -> np.ndarray:
        """How that overflow is spread over worlds, as far as the writer of the buffer knows; else empty."""
        return np.zeros(0, dtype=np.int32) if self._last_dropped is None else self._last_dropped.numpy()

    def buffer_need(self) -> int:
        """Contacts that the collision pipeline found in the last step, whether or not its buffer could hold them."""
        return 0 if self._last_count is None else int(self._last_count.numpy()[0])

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

    def _contact_input(self, contacts: Any) -> wp.array:
        names = (
            "shape0",
            "shape1",
            "point0",
            "point1",
            "offset0",
            "offset1",
            "normal",
            "margin0",
            "margin1",
            "count",
            "stiffness",
            "damping",
            "friction",
            "surface_velocity",
        )
        model = self.model
        arrays = {name: getattr(contacts, f"rigid_contact_{name}") for name in names}
        arrays |= {"shape_body": model.shape_body, "shape_ke": model.shape_material_ke}
        arrays |= {"shape_mu": model.shape_material_mu, "shape_tau": model.shape_material_tau}

        def make() -> Any:
            source: Any = ContactInput()
            source.has_overrides = int(contacts.rigid_contact_stiffness is not None)
            source.has_surface_velocity = int(contacts.rigid_contact_surface_velocity is not None)
            return source

        return self._contact_inputs.get(arrays, make)

    def _dof_input(self, control: Any, ctrl: wp.array | None) -> wp.array:
        names = (
            "target_ke",
            "target_kd",
            "target_mode",
            "effort_limit",
            "velocity_limit",
            "friction",
            "limit_lower",
            "limit_upper",
            "limit_ke",
            "limit_kd",
        )
        arrays = {name: getattr(self.model, f"joint_{name}") for name in names}
        arrays |= {"target_q": control.joint_target_pos, "target_qd": control.joint_target_vel}
        arrays |= {"act": control.joint_act, **passive_springs(self.model), **self.motors.inputs(ctrl)}

        def make() -> Any:
            source: Any = DofInput()
            source.has_springs = int(arrays["spring_stiffness"] is not None)
            source.has_motors = int(self.motors.count > 0)
            return source

        return self._dof_inputs.get(arrays, make)


def passive_springs(model: Any) -> dict[str, wp.array | None]:
    """MuJoCo's passive joint springs, if the model carries them: stiffness [N/m, N m/rad] and coordinates [m, rad]."""
    attributes = getattr(model, "mujoco", None)
    names = {
        "spring_stiffness": "dof_passive_stiffness",
        "spring_reference": "dof_springref",
        "coordinate_reference": "dof_ref",
    }
    found = {field: getattr(attributes, name, None) for field, name in names.items()}
    complete = all(array is not None for array in found.values())
    return found if complete else dict.fromkeys(names)


def _allocate(struct: Any, counts: dict[str, int], default: int, device: Any) -> None:
    for name, variable in struct._cls.vars.items():
        if isinstance(variable.type, wp.array):
            setattr(struct, name, wp.zeros(counts.get(name, default), dtype=variable.type.dtype, device=device))
