"""Explanation of a contact between two shapes: the values that it uses, their sources, and what to expect.

Nothing is simulated. The formulas are those of `sap_warp.solver.contact.rows`, evaluated for one assumed contact: the
point where a shape touches when it rests on the other one. The predictions follow from them at rest,

    depth = m g / (n k_eff),   k_eff = 1/(h R_n (h + tau)),   slip speed = R_t gamma_t,   gliding gap = (h + tau) mu v_t
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import newton
import numpy as np

from ...conventions.rotations import rotation_matrix
from ...model.model import TAU_ATTRIBUTE, TAU_NAMESPACE, TAU_UNSET, SapModel
from ...model.shapes import shape_type
from ...solver.contact.rows import IMMOBILE_WEIGHT
from ...solver.model.mechanism import Mechanism
from ...solver.model.topology import carriers
from ...solver.settings.options import SapOptions
from ...solver.terms.contact import WEIGHT_FLOOR
from .lookup import ShapeLookupError, find_shape, shape_name
from .result import FIELDS, FROM_MODEL, FROM_MODEL_DEFAULT, ContactExplanation, ShapeExplanation, Value

Provenance = Mapping[tuple[int, str], str]
"""Map from (shape index, field) to where the value was set, for example ``"asset"``, ``"body"``, ``"shape"``."""

_FALLBACKS = {"ke": "fallback_stiffness", "tau": "contact_tau_d", "mu": "fallback_mu"}
_FLAGS, _JOINT = newton.ShapeFlags, newton.JointType


def explain_contact(
    model: SapModel | newton.Model,
    shape_a: int | str,
    shape_b: int | str,
    *,
    dt: float,
    options: Any = None,
    source: str | None = None,
    provenance: Provenance | None = None,
    contacts: int | None = None,
) -> ContactExplanation:
    """Explain the contact of two shapes: values, their sources, and what to expect at this time step.

    Args:
        model: The model, in its initial pose.
        shape_a: Index or name, see `find_shape`.
        shape_b: Likewise; of equal names in several worlds the one that ``shape_a`` can meet is taken.
        dt: Time step [s].
        options: `SapOptions`, or a solver whose options are meant, and whose friction of the ground if worlds have
            their own (``sim.ground_mu``); None is the preset ``approx32``.
        source: Name of the scene or file for the title.
        provenance: Where values were set, for what the loader knows and Newton does not.
        contacts: Contacts that share the load; None takes what the geometries suggest.

    Raises:
        ShapeLookupError: A name fits no shape or several, or both name the same shape.
        ValueError: ``dt`` or ``contacts`` is not positive.
        TypeError: ``options`` are no options.
    """
    model = model.newton_model if isinstance(model, SapModel) else model
    _check_numbers(dt, contacts)
    chosen = SapOptions() if options is None else getattr(options, "options", options)
    if not isinstance(chosen, SapOptions):
        raise TypeError(f"options is a {type(options).__name__}; expected SapOptions, a solver or None.")
    a = find_shape(model, shape_a)
    b = find_shape(model, shape_b, beside=a)
    if a == b:
        raise ShapeLookupError(f"{shape_a!r} and {shape_b!r} are the same shape: {shape_name(model, a)}.")
    rows = getattr(options, "contact_stage", None)
    return _Pair(model, (a, b), float(dt), chosen, provenance or {}, rows).explain(source, contacts)


def _check_numbers(dt: Any, contacts: Any) -> None:
    number = isinstance(dt, numbers.Real) and not isinstance(dt, bool)
    if not number or not (math.isfinite(dt) and dt > 0.0):
        raise ValueError(f"dt is {dt!r}; it must be a positive, finite number of seconds.")
    if contacts is not None and (isinstance(contacts, bool) or not isinstance(contacts, int) or contacts < 1):
        raise ValueError(f"contacts is {contacts!r}; it must be a whole number of at least 1.")


class _Pair:
    """Two shapes, with the model's arrays read once to the host."""

    def __init__(
        self,
        model: Any,
        shapes: tuple[int, int],
        dt: float,
        options: SapOptions,
        provenance: Provenance,
        contact_rows: Any = None,
    ):
        self.model, self.shapes, self.dt, self.options, self.provenance = model, shapes, dt, options, provenance
        self.bodies = tuple(int(body) for body in model.shape_body.numpy()[list(shapes)])
        self.worlds = tuple(int(world) for world in model.shape_world.numpy()[list(shapes)])
        self.kinds = tuple(shape_type(kind) for kind in model.shape_type.numpy()[list(shapes)])
        self.body_q = model.body_q.numpy().astype(np.float64)
        self.shape_frame = model.shape_transform.numpy().astype(np.float64)
        joints = model.joint_child.numpy()
        self.joint = dict(zip(joints.tolist(), range(len(joints)), strict=True))
        self.joint_parent = model.joint_parent.numpy()
        self.joint_dofs = np.diff(model.joint_qd_start.numpy())
        self.moves = tuple(self._moves(body) for body in self.bodies)
        self.relative = any(self.moves) and self.bodies[0] != self.bodies[1]
        self.gravity = model.gravity.numpy().astype(np.float64)[max(*self.worlds, 0)]  # as the solver reads it
        self.ground_mu = {} if contact_rows is None else contact_rows.ground_friction(max(*self.worlds, 0))
        self.assumptions: list[str] = []
        self.notes: list[str] = []

    def explain(self, origin: str | None, contacts: int | None) -> ContactExplanation:
        """Compute the whole explanation."""
        values = [self._values(shape) for shape in self.shapes]
        upper, directions, gravity = self._rest()
        arms, weight, mode = self._weights(directions, [v["margin"].value for v in values])
        load_mass, load = (
            (0.0, "the shapes do not move relative to each other") if upper is None else self._load(self.bodies[upper])
        )
        sides = tuple(self._side(i, values[i], arms[i]) for i in range(2))
        ka, kb = (v["ke"].value for v in values)
        mu_a, mu_b = (v["mu"].value for v in values)
        tau = values[0]["tau"].value + values[1]["tau"].value
        if contacts is None:
            contacts = min(kind.resting_contacts for kind in self.kinds)
        if tau == 0.0:
            self.notes.append("tau is 0: a near-rigid contact without dissipation rattles")
        self.notes.append("per-contact overrides in the contact buffer, if any, replace k and tau and scale mu")
        return ContactExplanation(
            origin=origin,
            dt=self.dt,
            shape_a=sides[0],
            shape_b=sides[1],
            obstacles=tuple(self._obstacles(values)),
            k=ka * kb / (ka + kb),
            tau=tau,
            mu=2.0 * mu_a * mu_b / (mu_a + mu_b) if mu_a + mu_b > 0.0 else 0.0,
            margin=values[0]["margin"].value + values[1]["margin"].value,
            gap=values[0]["gap"].value + values[1]["gap"].value,
            beta=self.options.contact_beta,
            sigma=self.options.contact_sigma,
            weight_mode=mode,
            weight=weight,
            load_mass=load_mass,
            load=load,
            gravity=gravity,
            contacts=contacts,
            assumptions=tuple(self.assumptions),
            notes=tuple(self.notes),
        )

    # Values.

    def _values(self, shape: int) -> dict[str, Value]:
        """Return all values of a shape with their sources."""
        model, config = self.model, newton.ModelBuilder.ShapeConfig()
        namespace = getattr(model, TAU_NAMESPACE, None)
        tau = getattr(namespace, TAU_ATTRIBUTE, None)
        stored = {
            "ke": model.shape_material_ke.numpy()[shape],
            "tau": np.float32(TAU_UNSET) if tau is None else tau.numpy()[shape],
            "mu": model.shape_material_mu.numpy()[shape],
            "margin": model.shape_margin.numpy()[shape],
            "gap": model.shape_gap.numpy()[shape],
            "group": model.shape_collision_group.numpy()[shape],
        }
        default = {
            "ke": config.ke,
            "mu": config.mu,
            "margin": config.margin,
            "gap": newton.ModelBuilder().rigid_gap if config.gap is None else config.gap,
            "group": config.collision_group,
        }
        unset = {"ke": not stored["ke"] > 0.0, "tau": not stored["tau"] >= 0.0, "mu": not stored["mu"] >= 0.0}
        values = {}
        for name in FIELDS:
            held = float(stored[name])
            if unset.get(name, False):
                option = _FALLBACKS[name]
                values[name] = Value(getattr(self.options, option), held, f"solver default ({option})")
                continue
            known = name in default and stored[name] == stored[name].dtype.type(default[name])
            told = self.provenance.get((shape, name))
            values[name] = Value(held, held, told or (FROM_MODEL_DEFAULT if known else FROM_MODEL))
        if shape in self.ground_mu:
            mu = self.ground_mu[shape]
            values["mu"] = Value(mu, mu, f"ground_mu of world {max(*self.worlds, 0)}")
        return values

    def _side(self, i: int, values: dict[str, Value], arm: tuple[float, float] | None) -> ShapeExplanation:
        shape, body = self.shapes[i], self.bodies[i]
        flags = int(self.model.shape_flags.numpy()[shape])
        return ShapeExplanation(
            index=shape,
            label=self.model.shape_label[shape],
            kind=self.kinds[i].name,
            world=self.worlds[i],
            body=body,
            body_label=self.model.body_label[body] if body >= 0 else "",
            can_move=self.moves[i],
            flags=tuple(flag.name for flag in _FLAGS if flags & int(flag)),
            lever_arm=None if arm is None else arm[0],
            weight=0.0 if arm is None else arm[1],
            **values,
        )

    def _obstacles(self, values: list[dict[str, Value]]) -> Iterable[str]:
        """Return reasons why the pair never collides."""
        model, (a, b) = self.model, self.shapes
        found = False
        for side, shape in zip("AB", self.shapes, strict=True):
            flags = int(model.shape_flags.numpy()[shape])
            if not flags & int(_FLAGS.COLLIDE_SHAPES):
                found = True
                what = "a site" if flags & int(_FLAGS.SITE) else "without the flag COLLIDE_SHAPES"
                yield f"{side} is {what}"
        if self.bodies[0] == self.bodies[1]:
            found = True
            where = "fixed to the world" if self.bodies[0] < 0 else f"on the body {model.body_label[self.bodies[0]]!r}"
            yield f"both shapes are {where}"
        elif not any(self.moves):
            found = True
            yield "neither side can move"
        if -1 not in self.worlds and self.worlds[0] != self.worlds[1]:
            found = True
            yield f"they are in different worlds, {self.worlds[0]} and {self.worlds[1]}"
        pairs = model.shape_contact_pairs
        rows = np.empty((0, 2), np.int32) if pairs is None else pairs.numpy().reshape(-1, 2)
        if (rows == (min(a, b), max(a, b))).all(axis=1).any():
            return  # groups and filters had their say when the list was made
        group_a, group_b = (int(v["group"].value) for v in values)
        if 0 in (group_a, group_b):
            found = True
            yield f"collision group 0 never collides (groups {group_a} and {group_b})"
        elif not (group_a == group_b or group_b < 0 if group_a > 0 else group_a != group_b):
            found = True
            yield f"collision groups {group_a} and {group_b} do not collide with each other"
        if model.shape_collision_filter_contains(a, b):
            found = True
            yield "the pair is filtered: bodies that a joint connects, or a filter of the asset or the builder"
        if not found and pairs is not None:
            self.notes.append("not among the pairs found when the model was built: broad phase 'explicit' skips it")

    # Motion and load.

    def _moves(self, body: int) -> bool:
        """Return True if a dof lies between the body and the world."""
        while body >= 0:
            joint = self.joint.get(body)
            if joint is None:
                return False
            if self.joint_dofs[joint] > 0:
                return True
            body = int(self.joint_parent[joint])
        return False

    def _tree(self, body: int) -> tuple[int, list[int]]:
        """Return the joint at the root of the body's mechanism, and all bodies of it."""

        def root(b: int) -> int:
            while b in self.joint and self.joint_parent[self.joint[b]] >= 0:
                b = int(self.joint_parent[self.joint[b]])
            return b

        top = root(body)
        return self.joint[top], [b for b in self.joint if root(b) == top]

    def _load(self, body: int) -> tuple[float, str]:
        mass = self.model.body_mass.numpy().astype(np.float64)
        joint, tree = self._tree(body)
        label = self.model.body_label[body].rsplit("/", 1)[-1]
        if self.bodies[0] in tree and self.bodies[1] in tree:
            return float(mass[body]), f"the link {label!r} alone, both shapes belong to one mechanism"
        if int(self.model.joint_type.numpy()[joint]) != int(_JOINT.FREE):
            return float(mass[body]), f"the link {label!r} alone, its joints may carry or add to it"
        if len(tree) == 1:
            return float(mass[body]), f"the body {label!r}"
        return float(mass[tree].sum()), f"all {len(tree)} bodies of the mechanism that {label!r} belongs to"

    # Geometry of the assumed contact.

    def _frame(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return rotation and position of a shape in the world."""
        frame = self.shape_frame[self.shapes[i]]
        rotation, position = _rotation(frame[3:]), frame[:3]
        if self.bodies[i] >= 0:
            body = self.body_q[self.bodies[i]]
            R = _rotation(body[3:])
            rotation, position = R @ rotation, body[:3] + R @ position
        return rotation, position

    def _rest(self) -> tuple[int | None, list[np.ndarray], float]:
        """Return the side that rests, the direction in which each side touches, and gravity along the normal."""
        g = float(np.linalg.norm(self.gravity))
        down = self.gravity / g if g > 0.0 else np.array([0.0, 0.0, -1.0])
        flat = [i for i in range(2) if self.kinds[i].is_plane]
        if not self.relative:
            return None, [down, -down], 0.0
        if len(flat) == 1:
            upper = 1 - flat[0]
            down = -self._frame(flat[0])[0][:, 2]
            pressing = max(float(self.gravity @ down), 0.0)
            where = "at its point nearest to the plane, its weight presses along the plane's normal"
        else:
            heights = [-float(self._frame(i)[1] @ down) for i in range(2)]
            upper = self.moves.index(True) if sum(self.moves) == 1 else int(heights[1] > heights[0])
            pressing, where = g, "at its lowest point, on top of the other, with all its weight"
        upper_moves = self.moves[upper]
        side = "AB"[upper]
        self.assumptions.append(f"{side} touches {where}, in the model's initial pose")
        if not upper_moves:  # a plane on a moving body, above something fixed
            upper = 1 - upper
        self.assumptions.append("the load is at rest, is shared equally by the contacts, and nothing lies on top of it")
        directions = [down, -down] if side == "A" else [-down, down]
        return upper, directions, pressing

    def _weights(
        self, directions: list[np.ndarray], margins: list[float]
    ) -> tuple[list[tuple[float, float] | None], float | None, str]:
        """Return lever arm and share in w of each side that moves, w, and its mode."""
        mode = self.options.contact_weight_mode
        if not self.relative:
            return [None, None], None, mode
        if mode != "body_inertia":
            return (*self._mechanism_weights(directions, margins, mode), mode)
        arms: list[tuple[float, float] | None] = []
        W = np.zeros((3, 3))
        for i in range(2):
            if not self.moves[i]:
                arms.append(None)
                continue
            point = self._touching_point(i, directions[i], margins[i])
            body = self._carrier(self.bodies[i])
            if body < 0:
                own = self._mechanism_mobility(self.bodies[i])
                W += own
                arms.append((0.0, _size(own, mode)))
                continue
            R, com = _rotation(self.body_q[body, 3:]), self.model.body_com.numpy()[body].astype(np.float64)
            x = R.T @ (point - self.body_q[body, :3]) - com
            own = self._mobility(body, x)
            W += own
            arms.append((float(np.linalg.norm(x)), _size(own, mode)))
        w = _size(W, mode)
        if w < IMMOBILE_WEIGHT:
            self.notes.append("the bodies cannot move relative to each other here")
        return arms, max(w, WEIGHT_FLOOR), mode

    def _carrier(self, body: int) -> int:
        """Return the body, or the one that carries it for the solver if it is massless; -1 without one."""
        carrier = int(carriers(self.model)[body])
        if carrier not in (body, -1):
            names = (self.model.body_label[b].rsplit("/", 1)[-1] for b in (body, carrier))
            self.notes.append("the link {!r} has no mass: w is that of {!r}, which carries it".format(*names))
        return carrier

    def _mechanism_mobility(self, body: int) -> np.ndarray:
        """Estimate the mobility of a link that no mass carries, as if its mechanism moved as a whole."""
        mass = float(self.model.body_mass.numpy()[self._tree(body)[1]].astype(np.float64).sum())
        label = self.model.body_label[body].rsplit("/", 1)[-1]
        self.notes.append(f"nothing that has mass carries the link {label!r}: the solver takes w from the mass matrix")
        return np.eye(3) / mass if mass > 0.0 else np.zeros((3, 3))

    def _mechanism_weights(
        self, directions: list[np.ndarray], margins: list[float], mode: str
    ) -> tuple[list[tuple[float, float] | None], float]:
        """Return weights of the modes that know the joints: J A^-1 J^T of the mechanism in its initial pose."""
        mechanism = Mechanism(self.model, self.body_q, max(*self.worlds, 0), self.dt)
        exact = mode == "delassus"
        arms: list[tuple[float, float] | None] = [None, None]
        relative: Any = 0.0
        for i in range(2):
            if self.moves[i]:
                point, body = self._touching_point(i, directions[i], margins[i]), self.bodies[i]
                columns = mechanism.velocities(np.array([body]), point[None])[0]
                relative = relative + (columns if i else -columns)
                com = self.model.body_com.numpy()[body].astype(np.float64)
                centre = self.body_q[body, :3] + _rotation(self.body_q[body, 3:]) @ com
                own = _size(mechanism.mobility(columns, exact), mode)
                arms[i] = float(np.linalg.norm(point - centre)), own
        w = _size(mechanism.mobility(relative, exact), mode)
        if w < IMMOBILE_WEIGHT:
            self.notes.append("the bodies cannot move relative to each other here")
        return arms, max(w, WEIGHT_FLOOR)

    def _mobility(self, body: int, x: np.ndarray) -> np.ndarray:
        """Return the velocity per impulse at the point x from the centre of mass, body axes."""
        mass = float(self.model.body_mass.numpy()[body])
        inertia = self.model.body_inertia.numpy()[body].astype(np.float64)
        inverse = np.linalg.inv(inertia) if np.linalg.det(inertia) != 0.0 else np.zeros((3, 3))
        arm = _cross(x)
        return np.eye(3) / mass + arm @ inverse @ arm.T

    def _touching_point(self, i: int, direction: np.ndarray, margin: float) -> np.ndarray:
        """Return the world position of the shape's farthest surface point along ``direction``."""
        R, p = self._frame(i)
        if self.kinds[i].is_plane:
            body = self.bodies[i]
            com = self.body_q[body, :3] + _rotation(self.body_q[body, 3:]) @ self.model.body_com.numpy()[body]
            return com - R[:, 2] * (R[:, 2] @ (com - p))
        scale = self.model.shape_scale.numpy()[self.shapes[i]].astype(np.float64)
        point = self.kinds[i].farthest_point(scale, self.model.shape_source[self.shapes[i]], R.T @ direction)
        if point is None:
            self.notes.append(f"{'AB'[i]} is a {self.kinds[i].name}: its origin stands in for the contact point")
            point = np.zeros(3)
        return p + R @ point + margin * direction


def _size(W: np.ndarray, mode: str) -> float:
    """Return the contact weight of a 3 x 3 mobility."""
    return float(np.trace(W) if mode == "body_inertia" else np.linalg.norm(W)) / 3.0


def _cross(v: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def _rotation(q: np.ndarray) -> np.ndarray:
    return rotation_matrix(q / np.linalg.norm(q))
