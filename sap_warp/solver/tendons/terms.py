"""Equations along transmissions: springs, dampers, limits, friction and armature of tendons, couplings, actuators.

With L the length at the start of the step, h the time step and the rate vc of the equation (`terms/bounded.py`):

    SPRING     u = k (rest - L - h vc) - d vc                       PUSH and PULL act on one side of rest only
    LOWER      vc >= -gap/h, half of a violation is gone after a step;  UPPER alike
    FRICTION   impulse -clamp(vc / R, -h f, h f), R = sigma w
    ARMATURE   impulse a (vc0 - vc): adds a J^T J to A
    EQUAL      L_1 - L0_1 = polynomial of L_2 - L0_2
    ACTUATOR   u = gain x + bias, see `tendons/actuators.py`, clamped to its force range

What is linear in length and speed with the sign of a spring or damper is implicit; what is not, a muscle or a negative
gain, is taken at the start of the step. No equation is stiffer than the time step can resolve (`terms/near_rigid.py`),
as for drives.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.launch import kernel
from ...core.kernels.template import device
from ..equations.data import IMMOBILE, Equations, EquationStage
from ..equations.transmissions import Transmissions, TransmissionTerm
from ..settings.precisions import solve
from ..terms.bounded import UNBOUNDED
from ..terms.near_rigid import NEAR_RIGID
from .actuators import ActuatorArrays, activation, actuator_force

F = wp.float64
scalar = solve.scalar

SPRING, PUSH, PULL, LOWER, UPPER, FRICTION, ARMATURE, EQUAL, ACTUATOR = (wp.constant(i) for i in range(9))
"""Kinds of `TransmissionTerm`."""


@device
def fill_jacobian(
    term: wp.ref[TransmissionTerm], transmissions: wp.ref[Transmissions], equations: wp.ref[Equations], slope: F
):
    """Set J of an equation: that of its transmission times the gear, less slope times that of the other one."""
    i = int(equations.row_entry[term.row])
    i_end = equations.row_entry[term.row + 1]
    j = int(transmissions.entry[term.transmission])
    j_end = transmissions.entry[term.transmission + 1]
    n = int(0)
    n_end = int(0)
    if term.other >= 0:
        n = transmissions.entry[term.other]
        n_end = transmissions.entry[term.other + 1]
    while i < i_end:
        e = equations.entry_dof[i]
        value = F(0.0)
        while j < j_end and transmissions.entry_dof[j] < e:
            j += 1
        if j < j_end:
            if transmissions.entry_dof[j] == e:
                value += term.gear * transmissions.J[j]
        while n < n_end and transmissions.entry_dof[n] < e:
            n += 1
        if n < n_end:
            if transmissions.entry_dof[n] == e:
                value -= slope * transmissions.J[n]
        equations.J[i] = scalar(value)
        i += 1


@device
def prepare_term(stage: wp.ref[EquationStage], term: wp.ref[TransmissionTerm], actuators: wp.ref[ActuatorArrays], h: F):
    """Find J, violation, vhat, bounds and R of the equation of a term."""
    row = term.row
    L = term.gear * stage.input.transmissions.length[term.transmission]
    kinematic = term.gear * stage.input.transmissions.kinematic_rate[term.transmission]
    slope = F(0.0)
    violation = F(0.0)
    if term.kind == EQUAL:
        violation = L - term.rest - term.c0
        if term.other >= 0:
            x = stage.input.transmissions.length[term.other] - term.rest_other
            violation -= x * (term.c1 + x * (term.c2 + x * (term.c3 + x * term.c4)))
            slope = term.c1 + x * (F(2.0) * term.c2 + x * (F(3.0) * term.c3 + x * F(4.0) * term.c4))
            kinematic -= slope * stage.input.transmissions.kinematic_rate[term.other]
    fill_jacobian(term, stage.input.transmissions, stage.equations, slope)
    mobility = F(0.0)
    rate = kinematic  # at the start of the step
    i = int(stage.equations.row_entry[row])
    while i < stage.equations.row_entry[row + 1]:
        e = stage.equations.entry_dof[i]
        J = F(stage.equations.J[i])
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
    if term.kind == SPRING or term.kind == PUSH or term.kind == PULL:
        g = h * term.stiffness + term.damping
        vhat = term.stiffness * (term.rest - L) / g
        R = wp.max(rigid, F(1.0) / (h * g))
        if term.kind == PUSH:
            low = F(0.0)
        if term.kind == PULL:
            high = F(0.0)
    elif term.kind == LOWER:
        gap = L - term.rest
        vhat = -gap / (h * wp.where(gap < F(0.0), F(2.0), F(1.0)))
        low = F(0.0)
    elif term.kind == UPPER:
        gap = term.rest - L
        vhat = gap / (h * wp.where(gap < F(0.0), F(2.0), F(1.0)))
        high = F(0.0)
    elif term.kind == FRICTION:
        R = stage.sigma * mobility
        high = h * term.damping
        low = -high
    elif term.kind == ARMATURE:
        vhat = rate
        R = F(1.0) / term.damping
    elif term.kind == EQUAL:
        vhat = -violation / (F(2.0) * h)
    elif term.kind == ACTUATOR:
        force = actuator_force(actuators, term.actuator, L, rate, h)
        low = h * force.low
        high = h * force.high
        if force.g > F(0.0):
            vhat = force.u0 / force.g
            R = wp.max(rigid, F(1.0) / (h * force.g))
        else:
            low = wp.clamp(h * force.u0, low, high)
            high = low
    stage.equations.violation[row] = scalar(violation)
    stage.equations.vhat[row] = scalar(vhat - kinematic)
    stage.equations.low[row] = scalar(low)
    stage.equations.high[row] = scalar(high)
    stage.equations.R[row] = scalar(0.0)
    if term.enabled != 0 and mobility > F(wp.static(IMMOBILE)):
        stage.equations.R[row] = scalar(R)


@kernel
def prepare_terms(
    first_world: int, stage: wp.array[EquationStage], actuators: wp.array[ActuatorArrays], dt: wp.float64
):
    """Prepare the equations of all terms: one block per world, a lane for each equation."""
    world = first_world + wp.tid() // lane_count()
    end = stage[0].world_term[world + 1]
    i = int(stage[0].world_term[world] + lane())
    while i < end:
        prepare_term(stage[0], stage[0].terms[i], actuators[0], dt)
        i += lane_count()


@kernel
def advance_activations(
    first_world: int, stage: wp.array[EquationStage], actuators: wp.array[ActuatorArrays], dt: wp.float64
):
    """Let activations follow their inputs for one step: one block per world, a lane for each equation."""
    world = first_world + wp.tid() // lane_count()
    end = stage[0].world_term[world + 1]
    i = int(stage[0].world_term[world] + lane())
    while i < end:
        if stage[0].terms[i].kind == ACTUATOR:
            number = stage[0].terms[i].actuator
            actuator = actuators[0].parameters[number]
            if actuator.dynamics != 0:
                ctrl = wp.clamp(wp.float64(actuators[0].ctrl[number]), actuator.ctrl_low, actuator.ctrl_high)
                actuators[0].act[number] = activation(actuator, actuators[0].act[number], ctrl, dt)
        i += lane_count()
