"""Terms along lengths as constraint rows: springs, dampers, limits, friction and armature of tendons, actuators.

With L the length at the start of the step, h the time step and the rate vc of the row (`terms/bounded.py`):

    SPRING     u = k (rest - L - h vc) - d vc                       PUSH and PULL act on one side of rest only
    LOWER      vc >= -gap/h, half of a violation is gone after a step;  UPPER alike
    FRICTION   impulse -clamp(vc / R, -h f, h f), R = sigma w
    ARMATURE   impulse a (vc0 - vc): adds a J^T J to A
    EQUAL      L_1 - L0_1 = polynomial of L_2 - L0_2
    ACTUATOR   u = gain x + bias, see `actuation`, clamped to its force range

What is linear in length and speed with the sign of a spring or damper is implicit; what is not, a muscle or a negative
gain, is taken at the start of the step. No row is stiffer than the time step can resolve (`near_rigid`), as for drives.
"""

import functools

import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.launch import solver_kernel
from ...core.kernels.types import Types
from ..equations.data import IMMOBILE, make_constraint_data, make_row_stage
from ..terms.bounded import UNBOUNDED
from ..terms.near_rigid import NEAR_RIGID
from .actuators import ActuatorArrays, make_activation, make_actuator_force
from .data import Lengths, LengthTerm

SPRING, PUSH, PULL, LOWER, UPPER, FRICTION, ARMATURE, EQUAL, ACTUATOR = (wp.constant(i) for i in range(9))
"""Kinds of `LengthTerm`."""


@functools.cache
def make_term_kernel(pose: Types, dynamics: Types, types: Types):
    """The kernel: one block per world, a lane for each row."""
    Stage, Rows = make_row_stage(pose, dynamics, types), make_constraint_data(types)
    actuator_force = make_actuator_force()
    scalar = types.scalar
    F = wp.float64

    @wp.func
    def fill_jacobian(s: wp.ref[LengthTerm], k: wp.ref[Lengths], rows: wp.ref[Rows], slope: F):
        """J of the row: of the length times gear, less slope times that of the other length."""
        i = int(rows.row_entry[s.row])
        i_end = rows.row_entry[s.row + 1]
        j = int(k.entry[s.t])
        j_end = k.entry[s.t + 1]
        n = int(0)
        n_end = int(0)
        if s.t2 >= 0:
            n = k.entry[s.t2]
            n_end = k.entry[s.t2 + 1]
        while i < i_end:
            e = rows.entry_dof[i]
            value = F(0.0)
            while j < j_end and k.entry_dof[j] < e:
                j += 1
            if j < j_end:
                if k.entry_dof[j] == e:
                    value += s.gear * k.J[j]
            while n < n_end and k.entry_dof[n] < e:
                n += 1
            if n < n_end:
                if k.entry_dof[n] == e:
                    value -= slope * k.J[n]
            rows.J[i] = scalar(value)
            i += 1

    @wp.func
    def prepare_term(stage: wp.ref[Stage], s: wp.ref[LengthTerm], actuators: wp.ref[ActuatorArrays], h: F):
        row = s.row
        L = s.gear * stage.input.lengths.length[s.t]
        prescribed = s.gear * stage.input.lengths.prescribed[s.t]
        slope = F(0.0)
        violation = F(0.0)
        if s.kind == EQUAL:
            violation = L - s.rest - s.c0
            if s.t2 >= 0:
                x = stage.input.lengths.length[s.t2] - s.rest2
                violation -= x * (s.c1 + x * (s.c2 + x * (s.c3 + x * s.c4)))
                slope = s.c1 + x * (F(2.0) * s.c2 + x * (F(3.0) * s.c3 + x * F(4.0) * s.c4))
                prescribed -= slope * stage.input.lengths.prescribed[s.t2]
        fill_jacobian(s, stage.input.lengths, stage.rows, slope)
        mobility = F(0.0)
        rate = prescribed  # at the start of the step
        i = int(stage.rows.row_entry[row])
        while i < stage.rows.row_entry[row + 1]:
            e = stage.rows.entry_dof[i]
            J = F(stage.rows.J[i])
            address = stage.input.layout.rows.entry[e] + e - stage.input.layout.rows.first[e]
            mobility += J * J / F(stage.input.motion.A[address])
            rate += J * stage.input.motion.v0[e]
            i += 1
        rigid = F(wp.static(NEAR_RIGID)) * mobility
        most = F(wp.static(UNBOUNDED))
        low = -most
        high = most
        R = rigid
        vhat = F(0.0)  # of the whole rate
        if s.kind == SPRING or s.kind == PUSH or s.kind == PULL:
            g = h * s.stiffness + s.damping
            vhat = s.stiffness * (s.rest - L) / g
            R = wp.max(rigid, F(1.0) / (h * g))
            if s.kind == PUSH:
                low = F(0.0)
            if s.kind == PULL:
                high = F(0.0)
        elif s.kind == LOWER:
            gap = L - s.rest
            vhat = -gap / (h * wp.where(gap < F(0.0), F(2.0), F(1.0)))
            low = F(0.0)
        elif s.kind == UPPER:
            gap = s.rest - L
            vhat = gap / (h * wp.where(gap < F(0.0), F(2.0), F(1.0)))
            high = F(0.0)
        elif s.kind == FRICTION:
            R = stage.sigma * mobility
            high = h * s.damping
            low = -high
        elif s.kind == ARMATURE:
            vhat = rate
            R = F(1.0) / s.damping
        elif s.kind == EQUAL:
            vhat = -violation / (F(2.0) * h)
        elif s.kind == ACTUATOR:
            f = actuator_force(actuators, s.actuator, L, rate, h)
            low = h * f.low
            high = h * f.high
            if f.g > F(0.0):
                vhat = f.u0 / f.g
                R = wp.max(rigid, F(1.0) / (h * f.g))
            else:
                low = wp.clamp(h * f.u0, low, high)
                high = low
        stage.rows.violation[row] = scalar(violation)
        stage.rows.vhat[row] = scalar(vhat - prescribed)
        stage.rows.low[row] = scalar(low)
        stage.rows.high[row] = scalar(high)
        stage.rows.R[row] = scalar(0.0)
        if s.enabled != 0 and mobility > F(wp.static(IMMOBILE)):
            stage.rows.R[row] = scalar(R)

    @solver_kernel
    def length_terms(first_world: int, stage: wp.array[Stage], actuators: wp.array[ActuatorArrays], dt: F):
        world = first_world + wp.tid() // lane_count()
        end = stage[0].world_term[world + 1]
        i = int(stage[0].world_term[world] + lane())
        while i < end:
            prepare_term(stage[0], stage[0].terms[i], actuators[0], dt)
            i += lane_count()

    return length_terms


@functools.cache
def make_advance_kernel(pose: Types, dynamics: Types, types: Types):
    """The kernel that lets activations follow their inputs for one step: one block per world."""
    Stage = make_row_stage(pose, dynamics, types)
    activation = make_activation()

    @solver_kernel
    def advance_activations(
        first_world: int, stage: wp.array[Stage], actuators: wp.array[ActuatorArrays], dt: wp.float64
    ):
        world = first_world + wp.tid() // lane_count()
        end = stage[0].world_term[world + 1]
        i = int(stage[0].world_term[world] + lane())
        while i < end:
            if stage[0].terms[i].kind == ACTUATOR:
                k = stage[0].terms[i].actuator
                a = actuators[0].parameters[k]
                if a.dynamics != 0:
                    ctrl = wp.clamp(wp.float64(actuators[0].ctrl[k]), a.ctrl_low, a.ctrl_high)
                    actuators[0].act[k] = activation(a, actuators[0].act[k], ctrl, dt)
            i += lane_count()

    return advance_activations
