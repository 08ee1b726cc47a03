"""Small models and the loop that runs them, for the physics tests.

Materials are given per pair: `material(k=...)` sets each shape's stiffness to 2 k, so that two alike in series give k.
Newton's own default gap of 0.1 m would let contacts act at a distance; here it is explicit, and zero unless told.
"""

from __future__ import annotations

import io
import math

import newton
import numpy as np
import warp as wp

import sap_warp

G = float(np.float32(9.81))
"""Gravity as Newton stores it [m/s^2]."""
TAU = 0.02
"""Pair dissipation time of the solver's default contact_tau_d = 0.01 s per shape [s]."""


def material(k=1e6, mu=0.5, gap=0.0, density=0.0):
    """Shape material whose contact with an alike shape has stiffness k [N/m] and friction mu."""
    return newton.ModelBuilder.ShapeConfig(ke=2.0 * k, mu=mu, gap=gap, density=density)


def builder(gravity=(0.0, 0.0, -G)):
    return newton.ModelBuilder(up_axis=newton.Axis.Z, gravity=gravity)


def box_inertia(mass, half):
    x, y, z = np.broadcast_to(half, 3)
    return wp.mat33(*np.diag(mass / 3.0 * np.array([y * y + z * z, x * x + z * z, x * x + y * y])).ravel())


def add_box(b, position, mass=1.0, half=0.1, cfg=None):
    """A free box of uniform density; returns the body."""
    hx, hy, hz = np.broadcast_to(half, 3)
    body = b.add_body(
        xform=wp.transform(wp.vec3(*position)), mass=mass, inertia=box_inertia(mass, half), lock_inertia=True
    )
    b.add_shape_box(body, hx=hx, hy=hy, hz=hz, cfg=cfg or material())
    return body


def add_ball(b, position, mass=1.0, radius=0.1, cfg=None):
    """A free solid ball; returns the body."""
    inertia = 0.4 * mass * radius**2
    body = b.add_body(
        xform=wp.transform(wp.vec3(*position)),
        mass=mass,
        inertia=wp.mat33(*(inertia * np.eye(3)).ravel()),
        lock_inertia=True,
    )
    b.add_shape_sphere(body, radius=radius, cfg=cfg or material())
    return body


def box_on_ground(k=1e6, mu=0.5, gap=0.0, mass=1.0, half=0.1, height=None, gravity=(0.0, 0.0, -G)):
    """One box that just touches the ground plane z = 0."""
    b = builder(gravity)
    b.add_ground_plane(cfg=material(k, mu, gap))
    add_box(b, (0.0, 0.0, np.broadcast_to(half, 3)[2] if height is None else height), mass, half, material(k, mu, gap))
    return b.finalize(device="cpu")


def tilted(angle):
    """Gravity that a plane z = 0 inclined by ``angle`` sees; downhill is +x."""
    return (G * math.sin(angle), 0.0, -G * math.cos(angle))


def one_joint(kind="prismatic", mass=2.0, inertia=0.5, com=(0.0, 0.0, 0.0), gravity=(0.0, 0.0, -G), **dof):
    """One body on one revolute (about y) or prismatic (along z) joint at the world origin."""
    b = builder(gravity)
    body = b.add_link(mass=mass, inertia=wp.mat33(*(inertia * np.eye(3)).ravel()), com=wp.vec3(*com), lock_inertia=True)
    axis = newton.Axis.Z if kind == "prismatic" else newton.Axis.Y
    add = b.add_joint_prismatic if kind == "prismatic" else b.add_joint_revolute
    b.add_articulation([add(-1, body, axis=newton.ModelBuilder.JointDofConfig(axis=axis, **dof))])
    return b.finalize(device="cpu")


class Stepper:
    """Model, solver, collision pipeline and one state that is stepped in place.

    ``precision="fp64"`` keeps the state in double precision; Newton's collision detection reads fp32 poses, so such a
    simulation runs without contacts.
    """

    def __init__(self, model, dt, preset="approx64", precision="fp32", contact_max=64, **options):
        self.model, self.dt = model, dt
        self.solver = sap_warp.SolverSAP(model, contact_preset_variant=preset, **options)
        self.state = model.state() if precision == "fp32" else self.solver.sap_model.state("fp64")
        self.control = self.solver.sap_model.control()
        self.pipeline = self.contacts = None
        if precision == "fp32" and model.shape_count > 1:
            self.pipeline = newton.CollisionPipeline(model, broad_phase="explicit", rigid_contact_max=contact_max)
            self.contacts = self.pipeline.contacts()
        self._graph = None

    def step(self, count=1):
        """Plain steps."""
        for _ in range(count):
            if self.pipeline is not None:
                self.pipeline.collide(self.state, self.contacts)
            self.solver.step(self.state, self.state, self.control, self.contacts, self.dt)
        return self

    def run(self, seconds=None, steps=None, observe=None, every=1):
        """Replay a captured step; returns what ``observe(self)`` gave after every ``every`` steps, as an array."""
        steps = round(seconds / self.dt) if steps is None else steps
        if self._graph is None:
            if steps > 0:  # the first step compiles; it also counts
                self.step()
                steps -= 1
            with wp.ScopedCapture(device="cpu") as capture:
                self.step()
            self._graph = capture.graph
        seen = []
        for i in range(steps):
            wp.capture_launch(self._graph)
            if observe is not None and (i + 1) % every == 0:
                seen.append(observe(self))
        return np.array(seen)

    @property
    def q(self):
        return self.state.joint_q.numpy().astype(np.float64)

    @property
    def qd(self):
        return self.state.joint_qd.numpy().astype(np.float64)

    @property
    def velocity(self):
        """The minimizer of the last step in fp64, sap order: free joints [w, v_O]."""
        return self.solver.contact_solve.velocity.numpy().copy()

    @property
    def position(self):
        """Origins of all bodies, [body_count, 3]."""
        return self.state.body_q.numpy()[:, :3].astype(np.float64)

    @property
    def rotation(self):
        """Orientations of all bodies as xyzw quaternions."""
        return self.state.body_q.numpy()[:, 3:].astype(np.float64)

    def rows(self, world=0):
        """Contact rows of one world as a dict of arrays."""
        data, capacity = self.solver.contact_jacobian.data, self.solver.contact_jacobian.capacity
        rows = slice(world * capacity, world * capacity + int(data.count.numpy()[world]))
        names = ("source", "body_a", "body_b", "phi0", "vhat", "mu", "weight", "Rt", "Rn", "normal", "r_a", "r_b")
        found = {name: getattr(data, name).numpy()[rows].copy() for name in names}
        return found | {"vc": self.solver.contact_solve.data.vc.numpy()[rows].copy()}

    def set(self, q=None, qd=None):
        """Assign joint positions and velocities, and the poses that follow."""
        if q is not None:
            self.state.joint_q.assign(np.asarray(q, dtype=self.state.joint_q.numpy().dtype))
        if qd is not None:
            self.state.joint_qd.assign(np.asarray(qd, dtype=self.state.joint_qd.numpy().dtype))
        if q is not None:
            fp32 = self.model.state()
            fp32.joint_q.assign(self.state.joint_q.numpy().astype(np.float32))
            fp32.joint_qd.assign(self.state.joint_qd.numpy().astype(np.float32))
            newton.eval_fk(self.model, fp32.joint_q, fp32.joint_qd, fp32)
            self.state.body_q.assign(fp32.body_q.numpy())
        return self


def tilt(quaternion):
    """Angle between the body's z axis and the world's [rad]."""
    x, y = quaternion[..., 0], quaternion[..., 1]
    return np.arccos(np.clip(1.0 - 2.0 * (x * x + y * y), -1.0, 1.0))


def allocations(function):
    """How many device allocations Warp makes while ``function`` runs."""

    def total(tracker):
        report = io.StringIO()
        tracker.report(file=report)
        lines = report.getvalue().split("Total allocations:")[1].split("Peak usage:")[0].splitlines()
        return sum(int(line.split()[1]) for line in lines if line.strip())

    with wp.ScopedMemoryTracker(print=False) as tracker:
        before = total(tracker)
        function()
        return total(tracker) - before
