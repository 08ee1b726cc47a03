"""A model with solver, collision pipeline and one state that is stepped in place, as the cases use it.

States and dynamics are in fp64 unless a case says otherwise. Materials are given per pair: `material(k=...)` gives each
shape the stiffness 2 k, so that two alike in series have k, and half of the pair's dissipation time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import newton
import numpy as np
import warp as wp

from ...collision import SapCollisionPipeline
from ...model.model import TAU_NAMESPACE
from ...solver import SolverSAP

G = 9.8125
"""Gravity of the cases [m/s^2]; exact in fp32, so that other engines can be given the same."""

DRAKE_LIKE: dict[str, Any] = {"contact_preset_variant": "drake", "line_search_variant": "exact_root"}
"""Preset, line search and (by default) tolerances of Drake's own SAP: rel 1e-6, cost 1e-30 and 1e-15."""

TIGHT: dict[str, Any] = {
    "line_search_variant": "exact_root",
    "optimality_abs_tol": 1e-14,
    "optimality_rel_tol": 1e-12,
    "cost_abs_tol": 0.0,
    "cost_rel_tol": 0.0,
}
"""Solve to round-off, so that an early stop cannot hide in a comparison with a closed form."""


def single(value: float) -> float:
    """Return ``value`` rounded to fp32, as Newton stores it."""
    return float(np.float32(value))


def new_builder(gravity: Sequence[float] = (0.0, 0.0, -G)) -> newton.ModelBuilder:
    """Return a builder with z up, contact gap zero and dissipation times per shape."""
    builder = newton.ModelBuilder(up_axis=newton.Axis.Z, gravity=tuple(gravity))
    builder.rigid_gap = 0.0
    SolverSAP.register_custom_attributes(builder)
    return builder


def material(k: float = 1e6, mu: float = 0.5, gap: float = 0.0) -> newton.ModelBuilder.ShapeConfig:
    """Return a massless shape whose contact with an equal one has stiffness k [N/m] and friction mu."""
    return newton.ModelBuilder.ShapeConfig(ke=2.0 * k, mu=mu, gap=gap, density=0.0)


def pair_tau(tau: float) -> dict[str, float]:
    """Return the attribute of a shape whose contact with an equal one has the dissipation time ``tau`` [s]."""
    return {f"{TAU_NAMESPACE}:shape_material_tau": 0.5 * tau}


def box_inertia(mass: float, half: Sequence[float] | float) -> wp.mat33:
    """Return the central inertia of a uniform box with the given half edges [kg m^2]."""
    x, y, z = np.broadcast_to(half, 3)
    return wp.mat33(*np.diag(mass / 3.0 * np.array([y * y + z * z, x * x + z * z, x * x + y * y])).ravel())


def ball_inertia(mass: float, radius: float) -> wp.mat33:
    """Return the central inertia of a solid ball [kg m^2]."""
    return wp.mat33(*(0.4 * mass * radius**2 * np.eye(3)).ravel())


def pose(position: Sequence[float], rotation: Sequence[float] = (0.0, 0.0, 0.0, 1.0)) -> wp.transform:
    """Return a transform from a position [m] and a quaternion xyzw."""
    return wp.transform(wp.vec3(*position), wp.quat(*rotation))


def add_ground(b: newton.ModelBuilder, tau: float = 0.02, **keywords: Any) -> int:
    """Add the plane z = 0."""
    return b.add_shape_plane(
        body=-1,
        xform=pose((0.0, 0.0, 0.0)),
        width=0.0,
        length=0.0,
        cfg=material(**keywords),
        custom_attributes=pair_tau(tau),
        label="ground",
    )


def add_ball(
    b: newton.ModelBuilder,
    position: Sequence[float],
    mass: float = 1.0,
    radius: float = 0.125,
    tau: float = 0.02,
    com: Sequence[float] = (0.0, 0.0, 0.0),
    **keywords: Any,
) -> int:
    """Add a free solid ball; returns the body."""
    inertia = ball_inertia(mass, radius)
    body = b.add_body(xform=pose(position), mass=mass, com=wp.vec3(*com), inertia=inertia, lock_inertia=True)
    b.add_shape_sphere(body, radius=radius, cfg=material(**keywords), custom_attributes=pair_tau(tau))
    return body


def add_box(
    b: newton.ModelBuilder,
    position: Sequence[float],
    rotation: Sequence[float] = (0.0, 0.0, 0.0, 1.0),
    mass: float = 1.0,
    half: Sequence[float] | float = 0.125,
    tau: float = 0.02,
    **keywords: Any,
) -> int:
    """Add a free uniform box; returns the body."""
    hx, hy, hz = (float(x) for x in np.broadcast_to(half, 3))
    body = b.add_body(xform=pose(position, rotation), mass=mass, inertia=box_inertia(mass, half), lock_inertia=True)
    b.add_shape_box(body, hx=hx, hy=hy, hz=hz, cfg=material(**keywords), custom_attributes=pair_tau(tau))
    return body


def _pipeline(model: newton.Model, capacity: int) -> SapCollisionPipeline:
    """Return one pipeline for all simulations of a model: making one generates Newton's kernels anew."""
    made = model.__dict__.setdefault("_validation_pipelines", {})
    if capacity not in made:
        made[capacity] = SapCollisionPipeline(model, rigid_contact_max=capacity)
    return made[capacity]


class Trial:
    """One model and one state, advanced in place."""

    def __init__(self, model: newton.Model, dt: float, precision: str = "fp64", **options: Any):
        """Prepare everything; ``options`` go to `SolverSAP`."""
        options.setdefault("contact_preset_variant", "drake")
        self.model, self.dt = model, dt
        self.solver = SolverSAP(model, **options)
        self.state: Any = self.solver.sap_model.state(precision)
        self.control: Any = self.solver.sap_model.control()
        self.pipeline: SapCollisionPipeline | None = None
        self.contacts: Any = None
        if model.shape_count > 1:
            worlds, capacity = self.solver.sizes.world_count, self.solver.options.max_rigid_contact
            self.pipeline = _pipeline(model, worlds * capacity)
            self.contacts = self.pipeline.contacts()
        self.exact_centres = False
        """Put contact points of balls back to their centres, which Newton carries through the world in fp32."""
        self._graph: Any = None
        self.set(q=model.joint_q.numpy(), qd=model.joint_qd.numpy())

    def step(self, count: int = 1) -> Trial:
        """Take plain steps."""
        for _ in range(count):
            if self.pipeline is not None:
                self.pipeline.collide(self.state, self.contacts)
                if self.exact_centres:
                    self._restore_centres()
            self.solver.step(self.state, self.state, self.control, self.contacts, self.dt)
        return self

    def _restore_centres(self) -> None:
        """Set the contact point of each ball to its centre, which needs no arithmetic."""
        count = int(self.contacts.rigid_contact_count.numpy()[0])
        kinds, frames = self.model.shape_type.numpy(), self.model.shape_transform.numpy()
        for side in ("0", "1"):
            shapes = getattr(self.contacts, f"rigid_contact_shape{side}").numpy()
            array = getattr(self.contacts, f"rigid_contact_point{side}")
            points = array.numpy().copy()
            for i in range(count):
                if kinds[shapes[i]] == int(newton.GeoType.SPHERE):
                    points[i] = frames[shapes[i], :3]
            array.assign(points)

    def run(self, seconds: float, observe: Callable[[Trial], Any] | None = None, every: int = 1) -> np.ndarray:
        """Advance from a captured graph; returns what ``observe`` gave after every ``every`` steps."""
        seen = []
        for i in range(1, round(seconds / self.dt) + 1):
            if self._graph is None and i > 1:
                with wp.ScopedCapture(device=self.model.device) as capture:
                    self.step()
                self._graph = capture.graph
            if self._graph is None:
                self.step()  # compiles what is not in the cache
            else:
                wp.capture_launch(self._graph)
            if observe is not None and i % every == 0:
                seen.append(observe(self))
        return np.array(seen)

    def set(self, q: Any = None, qd: Any = None) -> Trial:
        """Assign joint positions and public velocities ([v_C, w] for free joints), and the poses that follow."""
        if qd is not None:
            self.state.joint_qd.assign(np.asarray(qd, dtype=np.float64))
        if q is not None:
            self.state.joint_q.assign(np.asarray(q, dtype=np.float64))
            fp32 = self.model.state()
            fp32.joint_q.assign(np.asarray(q, dtype=np.float32))
            newton.eval_fk(self.model, fp32.joint_q, fp32.joint_qd, fp32)
            self.state.body_q.assign(fp32.body_q.numpy())
        return self

    @property
    def q(self) -> np.ndarray:
        """Return joint positions in Newton's layout."""
        return self.state.joint_q.numpy().astype(np.float64)

    @property
    def qd(self) -> np.ndarray:
        """Return joint velocities in public order: free joints [v_C, w]."""
        return self.state.joint_qd.numpy().astype(np.float64)

    @property
    def velocity(self) -> np.ndarray:
        """Return the minimizer of the last step in fp64, sap order: free joints [w, v_O]."""
        return self.solver.contact_solve.velocity.numpy().copy()

    @property
    def position(self) -> np.ndarray:
        """Return the origins of all bodies, [body_count, 3]."""
        return self.state.body_q.numpy()[:, :3].astype(np.float64)

    def rows(self, world: int = 0) -> dict[str, np.ndarray]:
        """Return the contacts of one world, by name."""
        data, capacity = self.solver.contact_stage.data, self.solver.contact_stage.capacity
        rows = slice(world * capacity, world * capacity + int(data.count.numpy()[world]))
        names = ("phi0", "vhat", "mu", "weight", "Rt", "Rn", "normal")
        found = {name: getattr(data, name).numpy()[rows].copy() for name in names}
        return found | {"vc": self.solver.contact_solve.data.vc.numpy()[rows].copy()}

    def impulses(self) -> np.ndarray:
        """Return contact impulses of the last step on shape 1 of each contact, world axes [N s]."""
        count = int(self.contacts.rigid_contact_count.numpy()[0])
        return self.solver.contact_forces().impulse.numpy()[:count].astype(np.float64)
