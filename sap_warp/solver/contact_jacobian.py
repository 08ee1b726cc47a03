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
from ..kernels.lanes import barrier, lane
from ..kernels.launch import solver_kernel
from ..kernels.structs import StructArgument, StructCache, make_flat
from ..kernels.types import FP32, FP64, TYPES, Types
from .contact_binning import Bins, make_bin_kernel
from .contact_data import make_contact_data
from .contact_input import ContactInput, ContactLaw, DofInput, contact_law, shape_owners
from .contact_rows import DELASSUS, make_contact_rows
from .free_motion import make_free_motion_data
from .joint_rows import make_joint_rows
from .kinematics import JointParameters, Links
from .layout import Layout, LayoutSizes
from .mobility import make_mobility
from .motors import Motors
from .parts import Part
from .terms.dof import PARABOLA, make_dof_terms


@functools.cache
def make_contact_stage(pose: Types, dynamics: Types, weight: Types, types: Types):
    """Struct of all that the kernel works with: one argument costs less than a dozen."""
    FreeMotion, Contacts = make_free_motion_data(pose, dynamics), make_contact_data(types)
    Terms, Mobility = make_dof_terms(types).DofTerms, make_mobility(weight).Mobility

    @wp.struct
    class ContactStage:
        layout: wp.array(dtype=Layout)
        mobility: wp.array(dtype=Mobility)
        law: wp.array(dtype=ContactLaw)
        motion: wp.array(dtype=FreeMotion)
        joints: wp.array(dtype=JointParameters)
        contacts: wp.array(dtype=ContactInput)
        dofs: wp.array(dtype=DofInput)
        q: wp.array(dtype=wp.float64)
        found: wp.array(dtype=wp.int32)  # contacts that binning found, by world
        slot: wp.array(dtype=wp.int32)  # which of them were kept, ``slots`` for each world
        slots: int
        ordered: int  # 1 if a world that is not full has its slots in order already
        scratch: wp.array(dtype=weight.vec3)
        rows: wp.array(dtype=Contacts)
        terms: wp.array(dtype=Terms)
        contact_count: wp.array(dtype=wp.int32)
        truncated: wp.array(dtype=wp.int32)

    return ContactStage


@functools.cache
def make_contact_kernel(pose: Types, contact_pose: Types, dynamics: Types, weight: Types, types: Types):
    """The kernel of the stage: one block per world.

    ``pose`` and ``dynamics`` are the precisions of free motion's data, ``contact_pose`` the one poses are rounded to,
    ``weight`` the one w is computed in, ``types`` the one of the contact solve.
    """
    FreeMotion = make_free_motion_data(pose, dynamics)
    Contacts = make_contact_data(types)
    Terms = make_dof_terms(types).DofTerms
    Stage = make_contact_stage(pose, dynamics, weight, types)
    contact_rows = make_contact_rows(pose, contact_pose, dynamics, weight, types)
    assign_contacts, place_contacts = contact_rows.assign_contacts, contact_rows.place_contacts
    refine_contacts = contact_rows.refine_contacts
    joint_rows = make_joint_rows(pose, contact_pose, dynamics, types)
    prepare_dof, prepare_distance = joint_rows.prepare_dof, joint_rows.prepare_distance
    flat_layout, flat_joints, flat_motion = make_flat(Layout), make_flat(JointParameters), make_flat(FreeMotion)
    flat_contact_input, flat_dof_input = make_flat(ContactInput), make_flat(DofInput)
    flat_contacts, flat_terms, flat_stage = make_flat(Contacts), make_flat(Terms), make_flat(Stage)

    @wp.func
    def mark_active(layout: wp.ref[Layout], out: wp.ref[Contacts], body: int):
        b = int(body)
        while b >= 0:
            if out.body_active[b] != 0:
                break
            out.body_active[b] = 1
            b = layout.body_parent[b]

    @wp.func
    def sort_by_body(layout: wp.ref[Layout], out: wp.ref[Contacts], world: int) -> bool:
        """Rows of each body, whatever they are: a counting sort in row order. Returns whether rows couple bodies."""
        first_body = layout.world_body[world]
        last_body = layout.world_body[world + 1]
        b = int(first_body)
        while b < last_body:
            out.body_count[b] = 0
            b += 1
        coupled = bool(False)
        base = world * out.capacity
        row_end = base + out.count[world]
        row = int(base)
        while row < row_end:
            for side in range(2):
                b = wp.where(side == 0, out.body_a[row], out.body_b[row])
                if b >= 0:
                    out.body_count[b] = out.body_count[b] + 1
                    mark_active(layout, out, b)
            if out.body_a[row] >= 0 and out.body_b[row] >= 0:
                coupled = True
            row += 1
        total = 2 * base
        b = int(first_body)
        while b < last_body:
            out.body_start[b] = total
            total += out.body_count[b]
            out.body_count[b] = 0
            b += 1
        row = int(base)
        while row < row_end:
            for side in range(2):
                b = wp.where(side == 0, out.body_a[row], out.body_b[row])
                if b >= 0:
                    out.body_row[out.body_start[b] + out.body_count[b]] = 2 * row + side
                    out.body_count[b] = out.body_count[b] + 1
            row += 1
        return coupled

    @wp.func
    def widen_rows(layout: wp.ref[Layout], out: wp.ref[Contacts], world: int):
        """Hessian rows: the subtree of a dof, and left of it whatever contacts between moving bodies couple it with."""
        start = layout.world_dof[world]
        end = layout.world_dof[world + 1]
        base = world * out.capacity
        coupled = layout.world_coupled[world]
        narrow = int(1)
        e = int(start)
        while e < end:
            out.hessian_first[e] = layout.dof_reach[e]
            e += 1
        row_end = base + out.count[world]
        row = int(base)
        while row < row_end:
            if out.body_a[row] >= 0 and out.body_b[row] >= 0:
                coupled = 1
                narrow = 0
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
        out.narrow[world] = narrow

    @wp.func
    def sort_slots(slot: wp.array(dtype=wp.int32), first: int, last: int):
        """Ascending contact order, whatever order the threads came in: results do not depend on scheduling."""
        i = int(first + 1)
        while i < last:
            value = slot[i]
            j = i - 1
            while j >= first and slot[wp.max(j, 0)] > value:
                slot[j + 1] = slot[j]
                j -= 1
            slot[j + 1] = value
            i += 1

    # Each part makes its own copies of the structs: pointers that are loaded where they are used take no room before.

    @wp.func
    def prepare_dofs(stage_in: wp.array(dtype=Stage), world: int, dt: wp.float64):
        """Terms of the dofs of a world."""
        stage = stage_in[0]
        flat_stage(stage)
        layout = stage.layout[0]
        flat_layout(layout)
        i = int(layout.world_term[world] + lane())
        i_end = layout.world_term[world + 1]
        if i < i_end:
            p = stage.joints[0]
            input = stage.dofs[0]
            d = stage.motion[0]
            t = stage.terms[0]
            flat_joints(p)
            flat_dof_input(input)
            flat_motion(d)
            flat_terms(t)
            while i < i_end:
                prepare_dof(layout, p, input, stage.law[0], d, t, stage.q, layout.term_dof[i], dt)
                i += wp.block_dim()

    @wp.func
    def list_terms(stage_in: wp.array(dtype=Stage), world: int):
        """Which dofs of a world have terms."""
        stage = stage_in[0]
        flat_stage(stage)
        layout = stage.layout[0]
        flat_layout(layout)
        t = stage.terms[0]
        flat_terms(t)
        start = layout.world_dof[world]
        count = int(0)
        total = int(0)
        i = int(layout.world_term[world])
        i_end = layout.world_term[world + 1]
        while i < i_end:
            e = layout.term_dof[i]
            kind = t.kind[e]
            if kind != 0:
                total += 1
                if kind != PARABOLA:
                    t.list[start + count] = e
                    count += 1
            i += 1
        t.total[world] = total
        t.count[world] = count

    @wp.func
    def prepare_distances(stage_in: wp.array(dtype=Stage), world: int, dt: wp.float64) -> int:
        """Rows of the distance joints of a world; returns how many."""
        stage = stage_in[0]
        flat_stage(stage)
        layout = stage.layout[0]
        flat_layout(layout)
        rows = int(0)
        i = int(layout.world_distance[world])
        i_end = layout.world_distance[world + 1]
        if i < i_end:
            p = stage.joints[0]
            input = stage.dofs[0]
            d = stage.motion[0]
            out = stage.rows[0]
            flat_joints(p)
            flat_dof_input(input)
            flat_motion(d)
            flat_contacts(out)
            base = world * out.capacity
            while i < i_end:
                b = layout.distance_body[i]
                rows += prepare_distance(layout, p, input, d, out, b, False, base + rows, dt)
                rows += prepare_distance(layout, p, input, d, out, b, True, base + rows, dt)
                i += 1
        return rows

    @wp.func
    def prepare_contacts(stage_in: wp.array(dtype=Stage), first_row: int, end: int, first_slot: int, dt: wp.float64):
        """Rows of the contacts of a world."""
        stage = stage_in[0]
        flat_stage(stage)
        begin = first_row + lane()
        special = assign_rows(stage_in, begin, end, first_slot - first_row, dt)
        place_rows(stage_in, begin, end)
        exact = stage.law[0].weight_mode == DELASSUS
        if exact:
            barrier()
        if special != 0:
            layout = stage.layout[0]
            c = stage.contacts[0]
            d = stage.motion[0]
            out = stage.rows[0]
            flat_layout(layout)
            flat_contact_input(c)
            flat_motion(d)
            flat_contacts(out)
            stride = wp.block_dim()
            if exact:  # needs the world's one scratch column: lane 0 takes all rows
                begin = wp.where(lane() == 0, first_row, end)
                stride = 1
            refine_contacts(layout, stage.mobility, c, stage.law[0], d, out, begin, end, stride, dt, stage.scratch)

    @wp.func
    def assign_rows(stage_in: wp.array(dtype=Stage), begin: int, end: int, to_slot: int, dt: wp.float64) -> int:
        """Bodies and materials; returns whether any row has to be refined."""
        stage = stage_in[0]
        flat_stage(stage)
        c = stage.contacts[0]
        out = stage.rows[0]
        flat_contact_input(c)
        flat_contacts(out)
        special = stage.law[0].weight_mode | stage.law[0].point_mode | c.has_overrides | c.has_surface_velocity
        return special | assign_contacts(c, stage.law[0], out, stage.slot, to_slot, begin, end, wp.block_dim(), dt)

    @wp.func
    def place_rows(stage_in: wp.array(dtype=Stage), begin: int, end: int):
        """Geometry and weights."""
        stage = stage_in[0]
        flat_stage(stage)
        c = stage.contacts[0]
        d = stage.motion[0]
        out = stage.rows[0]
        flat_contact_input(c)
        flat_motion(d)
        flat_contacts(out)
        place_contacts(stage.mobility, c, stage.law[0], d, out, begin, end, wp.block_dim())

    @wp.func
    def list_rows(stage_in: wp.array(dtype=Stage), world: int):
        """Rows of each body, which subtrees have any, and the shape of the Hessian."""
        layout = stage_in[0].layout[0]
        out = stage_in[0].rows[0]
        flat_layout(layout)
        flat_contacts(out)
        b = int(layout.world_body[world])
        last_body = layout.world_body[world + 1]
        while b < last_body:
            out.body_count[b] = 0
            out.body_active[b] = 0
            b += 1
        # mostly the other side does not move, and the rows of a body follow one another: the lists are the rows
        base = world * out.capacity
        row_end = base + out.count[world]
        last = int(-1)
        first = int(base)
        row = int(base)
        while row < row_end:
            a = out.body_a[row]
            b = out.body_b[row]
            if a >= 0 and b >= 0:
                break
            own = wp.max(a, b)
            if own != last:
                if out.body_count[own] != 0:
                    break
                last = own
                first = row
                out.body_start[own] = base + row
                mark_active(layout, out, own)
            out.body_count[own] = row - first + 1
            out.body_row[base + row] = 2 * row + wp.where(b >= 0, 1, 0)
            row += 1
        if row < row_end or out.narrow[world] == 0:
            list_any_rows(stage_in, world)

    @wp.func
    def list_any_rows(stage_in: wp.array(dtype=Stage), world: int):
        layout = stage_in[0].layout[0]
        out = stage_in[0].rows[0]
        flat_layout(layout)
        flat_contacts(out)
        coupled = sort_by_body(layout, out, world)
        if coupled or out.narrow[world] == 0:
            widen_rows(layout, out, world)

    @wp.func
    def prepare_world(world: int, stage_in: wp.array(dtype=Stage), dt: wp.float64):
        prepare_dofs(stage_in, world, dt)
        stage = stage_in[0]
        flat_stage(stage)
        out = stage.rows[0]
        flat_contacts(out)
        found = stage.found[world]
        kept = wp.min(found, stage.slots)
        first_slot = world * stage.slots
        if lane() == 0:
            if stage.ordered == 0 or found > kept:
                sort_slots(stage.slot, first_slot, first_slot + kept)
            out.count[world] = prepare_distances(stage_in, world, dt) + kept
            stage.contact_count[world] = kept
            stage.truncated[world] = found - kept
        barrier()
        if kept > 0:
            end = world * out.capacity + out.count[world]
            prepare_contacts(stage_in, end - kept, end, first_slot, dt)
        barrier()
        if lane() == 0:
            stage.found[world] = 0  # ready for the next step's binning
            list_rows(stage_in, world)
            list_terms(stage_in, world)

    @solver_kernel
    def contact_data(first_world: int, stage: wp.array(dtype=Stage), dt: wp.float64):
        prepare_world(first_world + wp.tid() // wp.block_dim(), stage, dt)

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
        counts = dict.fromkeys(("count", "coupled", "narrow"), worlds)
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
        bins: Any = Bins()
        bins.capacity, bins.found, bins.slot = options.max_rigid_contact, self._found, self._slot
        self._bins = StructArgument(bins, device)
        self._law = StructArgument(contact_law(options), device)
        exact = options.contact_weight_mode == "delassus"
        self._scratch = wp.zeros(sizes.dof_count if exact else 1, dtype=weight.vec3, device=device)
        self._links = links.get(weight)[0]
        self._pack_mobility = make_mobility(weight).pack_mobility
        self._mobility = wp.zeros(sizes.body_count, dtype=make_mobility(weight).Mobility, device=device)
        self._stage_type = make_contact_stage(free_motion.pose_types, free_motion.types, weight, self.types)
        self._stages = StructCache(device)
        self._kernel = make_contact_kernel(free_motion.pose_types, contact_pose, free_motion.types, weight, self.types)
        self._shape_owner = shape_owners(model, self.layout)
        self._empty = newton.Contacts(0, 0, device=device)
        self._source = self._contact_input(self._empty)
        self.refresh()
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
                outputs=[self._bins.array],
                device=device,
            )

    def compute(self, boundary: Any, control: Any, dt: float, part: Part, ctrl: wp.array | None = None) -> None:
        """Fill `data` and `terms` from what was collected; ``ctrl`` replaces the model's inputs of actuators."""
        wp.launch(
            self._kernel,
            dim=part.threads,
            inputs=[part.first, self._stage(self._dof_input(control, ctrl), boundary.joint_q), dt],
            block_dim=part.lanes,
            device=self.model.device,
        )

    def refresh(self) -> None:
        """Read masses, inertias and motors again, after the links have been packed anew."""
        self.motors.refresh()
        wp.launch(
            self._pack_mobility,
            dim=self.sizes.body_count,
            inputs=[self._links],
            outputs=[self._mobility],
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
        arrays |= {"shape_owner": self._shape_owner, "shape_ke": model.shape_material_ke}
        arrays |= {"shape_mu": model.shape_material_mu, "shape_tau": model.shape_material_tau}

        def make() -> Any:
            source: Any = ContactInput()
            source.has_overrides = int(contacts.rigid_contact_stiffness is not None)
            source.has_surface_velocity = int(contacts.rigid_contact_surface_velocity is not None)
            return source

        return self._contact_inputs.get(arrays, make)

    def _stage(self, dofs: wp.array, q: wp.array) -> wp.array:
        changing = {"contacts": self._source, "dofs": dofs, "q": q, "joints": self.parameters.array}

        def make() -> Any:
            stage: Any = self._stage_type()
            stage.layout, stage.mobility, stage.law = self.layout_argument, self._mobility, self._law.array
            stage.motion, stage.rows, stage.terms = self.free_motion.argument, self.argument, self.terms_argument
            stage.found, stage.slot, stage.scratch = self._found, self._slot, self._scratch
            stage.slots = self._slot.shape[0] // self.sizes.world_count
            stage.ordered = int(self.model.device.is_cpu)  # where one thread does the binning
            stage.contact_count, stage.truncated = self.contact_count, self.truncated_count
            return stage

        return self._stages.get(changing, make)

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
