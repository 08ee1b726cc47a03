"""MuJoCo's actuators: activation x, gain and bias, and the force u = gain x + bias, clamped to a range.

    input      ctrl clamped to its range
    x          the input itself, or an activation with dynamics of its own:
               INTEGRATOR  dx/dt = input              FILTER  dx/dt = (input - x)/tau
               FILTER_EXACT  FILTER, integrated exactly       MUSCLE  towards the input, faster upwards than downwards
    gain       FIXED  g0      AFFINE  g0 + g1 L + g2 dL/dt      MUSCLE  -F0 of length and speed
    bias       NONE   0       AFFINE  b0 + b1 L + b2 dL/dt      MUSCLE  -F0 of length

The activation changes after it has acted, unless the actuator is ``actearly``.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.launch import kernel
from ...core.kernels.types import Bools, Doubles

INTEGRATOR = wp.constant(1)
FILTER = wp.constant(2)
FILTER_EXACT = wp.constant(3)
MUSCLE_DYNAMICS = wp.constant(4)
AFFINE = wp.constant(1)
MUSCLE = wp.constant(2)
TINY = 1e-15

F = wp.float64
vec10 = wp.types.vector(length=10, dtype=wp.float64)


@wp.struct
class Actuator:
    """Parameters of one actuator."""

    dynamics: int
    gain: int
    bias: int
    early: int
    acts: int  # 1 if an equation reads it
    world: int  # -1 belongs to no world
    ctrl_low: wp.float64
    ctrl_high: wp.float64
    force_low: wp.float64
    force_high: wp.float64
    act_low: wp.float64
    act_high: wp.float64
    limit_dof: int  # dof of the joint whose effort limit holds, in every step, -1 for none
    gear: wp.float64  # from the force to the effort of that dof
    length_low: wp.float64  # MUSCLE: range of the length
    length_high: wp.float64
    act0: wp.float64  # activation after a reset
    dynprm: vec10
    gainprm: vec10
    biasprm: vec10


@wp.struct
class ActuatorArrays:
    """All actuators, by Newton's index."""

    parameters: wp.array(dtype=Actuator)
    ctrl: wp.array(dtype=wp.float32)
    act: wp.array(dtype=wp.float64)
    effort_limit: wp.array(dtype=wp.float32)  # of joints, by Newton's dof [N or N m]


@wp.struct
class Force:
    """A force u0 - g dL/dt within a range; u0 at rest of what is implicit."""

    u0: wp.float64
    g: wp.float64
    low: wp.float64
    high: wp.float64


@wp.func
def smooth_step(x: F) -> F:
    """Polynomial of fifth degree that goes from 0 at x = 0 to 1 at x = 1 with no slope or curvature at the ends."""
    y = wp.clamp(x, F(0.0), F(1.0))
    return y * y * y * (y * (F(6.0) * y - F(15.0)) + F(10.0))


@wp.func
def muscle_rate(ctrl: F, x: F, prm: vec10) -> F:
    """dx/dt of a muscle's activation. Parameters: time constants of rise and fall, width of a smooth passage."""
    u = wp.clamp(ctrl, F(0.0), F(1.0))
    y = wp.clamp(x, F(0.0), F(1.0))
    rise = prm[0] * (F(0.5) + F(1.5) * y)
    fall = prm[1] / (F(0.5) + F(1.5) * y)
    tau = wp.where(u > x, rise, fall)
    if prm[2] >= F(wp.static(TINY)):
        tau = fall + (rise - fall) * smooth_step((u - x) / prm[2] + F(0.5))
    return (u - x) / wp.max(tau, F(wp.static(TINY)))


@wp.func
def activation(actuator: wp.ref[Actuator], x: F, ctrl: F, h: F) -> F:
    """Activation after a step of h from x."""
    tau = wp.max(actuator.dynprm[0], F(wp.static(TINY)))
    y = x
    if actuator.dynamics == INTEGRATOR:
        y = x + h * ctrl
    elif actuator.dynamics == FILTER:
        y = x + h * (ctrl - x) / tau
    elif actuator.dynamics == FILTER_EXACT:
        y = x + (ctrl - x) * (F(1.0) - wp.exp(-h / tau))
    elif actuator.dynamics == MUSCLE_DYNAMICS:
        y = x + h * muscle_rate(ctrl, x, actuator.dynprm)
    return wp.clamp(y, actuator.act_low, actuator.act_high)


@wp.func
def normalized_length(length: F, low: F, high: F, prm: vec10):
    """Length in units of the optimal length, and the optimal length."""
    L0 = (high - low) / wp.max(prm[1] - prm[0], F(wp.static(TINY)))
    return prm[0] + (length - low) / wp.max(L0, F(wp.static(TINY))), L0


@wp.func
def force_by_length(L: F, lmin: F, lmax: F) -> F:
    """Active force by length: a bump of parabolas from lmin over 1 to lmax."""
    a = F(0.5) * (lmin + F(1.0))
    b = F(0.5) * (F(1.0) + lmax)
    out = F(0.0)
    if L >= lmin and L <= lmax:
        if L <= a:
            x = (L - lmin) / wp.max(a - lmin, F(wp.static(TINY)))
            out = F(0.5) * x * x
        elif L <= F(1.0):
            x = (F(1.0) - L) / wp.max(F(1.0) - a, F(wp.static(TINY)))
            out = F(1.0) - F(0.5) * x * x
        elif L <= b:
            x = (L - F(1.0)) / wp.max(b - F(1.0), F(wp.static(TINY)))
            out = F(1.0) - F(0.5) * x * x
        else:
            x = (lmax - L) / wp.max(lmax - b, F(wp.static(TINY)))
            out = F(0.5) * x * x
    return out


@wp.func
def muscle_gain(length: F, speed: F, low: F, high: F, prm: vec10) -> F:
    """Active force [N] of a fully activated muscle at a length and speed, negative since muscles pull.

    Parameters: range of normalized lengths, F0, its scale (not used here), lmin, lmax, vmax, fpmax, fvmax.
    """
    L, L0 = normalized_length(length, low, high, prm)
    V = speed / wp.max(L0 * prm[6], F(wp.static(TINY)))
    y = prm[8] - F(1.0)
    by_speed = prm[8]
    if V <= F(-1.0):
        by_speed = F(0.0)
    elif V <= F(0.0):
        by_speed = (V + F(1.0)) * (V + F(1.0))
    elif V <= y:
        by_speed = prm[8] - (y - V) * (y - V) / wp.max(y, F(wp.static(TINY)))
    return -prm[2] * force_by_length(L, prm[4], prm[5]) * by_speed


@wp.func
def muscle_bias(length: F, low: F, high: F, prm: vec10) -> F:
    """Passive force [N] of a stretched muscle; parameters as of `muscle_gain`."""
    L, _ = normalized_length(length, low, high, prm)
    b = F(0.5) * (F(1.0) + prm[5])
    force = F(0.0)
    if L > F(1.0) and L <= b:
        x = (L - F(1.0)) / wp.max(b - F(1.0), F(wp.static(TINY)))
        force = -prm[2] * prm[7] * F(0.5) * x * x
    elif L > b:
        x = (L - b) / wp.max(b - F(1.0), F(wp.static(TINY)))
        force = -prm[2] * prm[7] * (F(0.5) + x)
    return force


@wp.func
def actuator_force(actuators: wp.ref[ActuatorArrays], i: int, L: F, V: F, h: F) -> Force:
    """Force of actuator i at length L and speed V, linear in the speed at the end of a step of h."""
    actuator = actuators.parameters[i]
    ctrl = wp.clamp(F(actuators.ctrl[i]), actuator.ctrl_low, actuator.ctrl_high)
    x = ctrl
    if actuator.dynamics != 0:
        x = actuators.act[i]
        if actuator.early != 0:
            x = activation(actuator, x, ctrl, h)
    u = F(0.0)
    kp = F(0.0)
    kd = F(0.0)
    if actuator.gain == MUSCLE:
        u = x * muscle_gain(L, V, actuator.length_low, actuator.length_high, actuator.gainprm)
    else:
        u = x * actuator.gainprm[0]
        if actuator.gain == AFFINE:
            u += x * actuator.gainprm[1] * L
            kp -= x * actuator.gainprm[1]
            kd -= x * actuator.gainprm[2]
    if actuator.bias == AFFINE:
        u += actuator.biasprm[0] + actuator.biasprm[1] * L
        kp -= actuator.biasprm[1]
        kd -= actuator.biasprm[2]
    elif actuator.bias == MUSCLE:
        u += muscle_bias(L, actuator.length_low, actuator.length_high, actuator.biasprm)
    if kd < F(0.0):
        u -= kd * V
    force = Force()
    force.u0 = u
    force.g = h * wp.max(kp, F(0.0)) + wp.max(kd, F(0.0))
    force.low = actuator.force_low
    force.high = actuator.force_high
    if actuator.limit_dof >= 0:
        limit = F(actuators.effort_limit[actuator.limit_dof]) / actuator.gear
        force.low = wp.max(force.low, -limit)
        force.high = wp.min(force.high, limit)
    return force


@kernel
def reset_activations(actuators: wp.array[ActuatorArrays], mask: Bools, masked: int):
    """Set activations back to their initial values, in the worlds of the mask if it counts; a thread per actuator."""
    i = wp.tid()
    world = actuators[0].parameters[i].world
    chosen = bool(masked == 0)
    if masked != 0 and world >= 0:
        chosen = mask[world]
    if chosen:
        actuators[0].act[i] = actuators[0].parameters[i].act0


@kernel
def set_activations(actuators: wp.array[ActuatorArrays], values: Doubles, mask: Bools):
    """Give the activations of one world to all worlds of a mask, a thread for each actuator; worlds are alike."""
    i = wp.tid()
    world = actuators[0].parameters[i].world
    if actuators[0].parameters[i].acts != 0 and mask[wp.max(world, 0)]:
        actuators[0].act[i] = values[i % values.shape[0]]
