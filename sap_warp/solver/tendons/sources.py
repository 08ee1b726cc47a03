"""Transmissions of a Newton model and what acts along them, in Newton's numbering: MuJoCo's tendons and actuators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import newton
import numpy as np
from newton.solvers import SolverMuJoCo

from ...model.joint_types import FREE, SCALAR_JOINTS
from ..equations import transmissions as kinds
from ..model.motors import actuator_targets, direct_actuators, plain_actuators, reader
from ..model.topology import tree_joints
from . import terms

TENDON = "mujoco:tendon"
EQUALITY = "sap:tendon_equality"
_IDENTITY = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
_GEOMS = {int(newton.GeoType.SPHERE): kinds.SPHERE, int(newton.GeoType.CYLINDER): kinds.CYLINDER}
_ON_JOINT = (int(SolverMuJoCo.TrnType.JOINT), int(SolverMuJoCo.TrnType.JOINT_IN_PARENT))


@dataclass(frozen=True)
class Part:
    """Part of a transmission, see `TransmissionPart`."""

    kind: int
    coord: int = -1
    dof: int = -1
    factor: float = 0.0
    ref: float = 0.0
    body: int = -1
    pose: tuple[float, ...] = _IDENTITY
    side: int = int(kinds.NO_SIDE)
    side_p: tuple[float, ...] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Transmission:
    """A tendon, or what an actuator acts along; see `TransmissionSource`."""

    kind: int
    parts: tuple[Part, ...]
    gear: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    axes: int = 0
    rod: float = 0.0

    @property
    def pattern(self) -> tuple[Any, ...]:
        """What decides which entries of J can be non-zero."""
        return (int(self.kind), tuple((int(part.kind), part.dof, part.body) for part in self.parts))


@dataclass
class Term:
    """An equation along a transmission, see `TransmissionTerm`; rest lengths of None are those of the model's pose."""

    kind: int
    transmission: int
    other: int = -1
    actuator: int = -1
    gear: float = 1.0
    rest: float | None = 0.0
    stiffness: float = 0.0
    damping: float = 0.0
    polynomial: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0)
    rest_other: float | None = 0.0
    enabled: bool = True

    @property
    def pattern(self) -> tuple[Any, ...]:
        """What decides which equations there are."""
        return (int(self.kind), self.transmission, self.other, self.actuator)


@dataclass
class TransmissionModel:
    """All transmissions, and everything that acts along them."""

    transmissions: list[Transmission] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    tendons: int = 0
    """The first transmissions are the tendons, so many, in Newton's order."""

    @property
    def pattern(self) -> tuple[Any, ...]:
        """What decides the tables."""
        return ([transmission.pattern for transmission in self.transmissions], [term.pattern for term in self.terms])


def read_transmissions(model: newton.Model) -> TransmissionModel:
    """Tendons and actuators of ``model`` that are not drives of joints."""
    out = TransmissionModel()
    if tendon_count(model):
        read = _Tendons(model)
        out.transmissions = [read.transmission(i) for i in range(read.count)]
        out.tendons = read.count
        for i in range(read.count):
            out.terms += read.terms(i)
        out.terms += _equalities(model)
    _add_actuators(model, out)
    return out


def tendon_count(model: newton.Model) -> int:
    """Number of tendons, over all worlds."""
    return int(model.custom_frequency_counts.get(TENDON, 0))


def row_actuators(model: newton.Model) -> np.ndarray:
    """Actuators that are equations of their own: those that no drive of a joint stands for."""
    return np.setdiff1d(direct_actuators(model), plain_actuators(model))


class _Parts:
    """Sites, geoms and joints of a model as parts of transmissions."""

    def __init__(self, model: newton.Model):
        """Read the tables of shapes and joints."""
        self.body = model.shape_body.numpy()
        self.pose = model.shape_transform.numpy().astype(float)
        self.kind, self.scale = model.shape_type.numpy(), model.shape_scale.numpy().astype(float)
        self.q, self.qd = model.joint_q_start.numpy(), model.joint_qd_start.numpy()
        ref = getattr(getattr(model, "mujoco", None), "dof_ref", None)
        self.ref = np.zeros(model.joint_dof_count) if ref is None else ref.numpy().astype(float)
        self.joint_of_dof = np.repeat(np.arange(model.joint_count), np.diff(self.qd))

    def joint(self, joint: int, axis: int, factor: float) -> Part:
        """A coordinate of a joint with scalar ones."""
        dof = int(self.qd[joint] + axis)
        return Part(kinds.JOINT, int(self.q[joint] + axis), dof, factor, float(self.ref[dof]))

    def site(self, shape: int) -> Part:
        """A site."""
        return Part(kinds.SITE, body=int(self.body[shape]), pose=tuple(self.pose[shape]))

    def geom(self, shape: int, side: int) -> Part:
        """A sphere or cylinder to wrap around, and the site that says on which side."""
        kind = _GEOMS.get(int(self.kind[shape]), kinds.SPHERE)
        part = Part(kind, factor=float(self.scale[shape, 0]), body=int(self.body[shape]), pose=tuple(self.pose[shape]))
        return part if side < 0 else replace(part, side=int(self.body[side]), side_p=tuple(self.pose[side, :3]))


class _Tendons:
    """Tendons of a model, by Newton's attributes."""

    def __init__(self, model: newton.Model):
        """Read all of them; tables that are missing are empty."""
        self.count, self.of_model = tendon_count(model), _Parts(model)
        names = "type joint_adr joint_num wrap_adr wrap_num stiffness damping frictionloss armature springlength range "
        names += "limited joint coef wrap_type wrap_shape wrap_sidesite wrap_prm"
        found = {name: getattr(model.mujoco, f"tendon_{name}", None) for name in names.split()}  # none if all are empty
        self.of = {name: np.zeros(0, int) if array is None else array.numpy() for name, array in found.items()}
        axis = getattr(getattr(model, "sap", None), "tendon_joint_axis", None)
        self.axis = np.zeros(len(self.of["joint"]), int) if axis is None else axis.numpy()

    def transmission(self, i: int) -> Transmission:
        """Parts of one tendon, in its order."""
        of, of_model = self.of, self.of_model
        if of["type"][i] == 0:
            first = of["joint_adr"][i]
            entries = range(first, first + of["joint_num"][i])
            parts = [of_model.joint(int(of["joint"][k]), int(self.axis[k]), float(of["coef"][k])) for k in entries]
            return Transmission(kinds.SUM, tuple(parts))
        parts = []
        for k in range(of["wrap_adr"][i], of["wrap_adr"][i] + of["wrap_num"][i]):
            if of["wrap_type"][k] == 0:
                parts.append(of_model.site(int(of["wrap_shape"][k])))
            elif of["wrap_type"][k] == 1:
                parts.append(of_model.geom(int(of["wrap_shape"][k]), int(of["wrap_sidesite"][k])))
            else:
                parts.append(Part(kinds.PULLEY, factor=float(of["wrap_prm"][k])))
        return Transmission(kinds.PATH, tuple(parts))

    def terms(self, i: int) -> Iterator[Term]:
        """Equations of one tendon; values may change later as long as those that are zero remain so."""
        of = {name: float(self.of[name][i]) for name in ("stiffness", "damping", "frictionloss", "armature")}
        low, high = map(float, self.of["springlength"][i])
        if of["stiffness"] > 0.0 and low < high and low >= 0.0:
            yield Term(terms.PUSH, i, rest=low, stiffness=of["stiffness"])
            yield Term(terms.PULL, i, rest=high, stiffness=of["stiffness"])
            if of["damping"] > 0.0:
                yield Term(terms.SPRING, i, damping=of["damping"])
        elif of["stiffness"] > 0.0 or of["damping"] > 0.0:
            rest = None if low < 0.0 else low
            rest = rest if of["stiffness"] > 0.0 else 0.0
            yield Term(terms.SPRING, i, rest=rest, stiffness=of["stiffness"], damping=of["damping"])
        if of["frictionloss"] > 0.0:
            yield Term(terms.FRICTION, i, damping=of["frictionloss"])
        if of["armature"] > 0.0:
            yield Term(terms.ARMATURE, i, damping=of["armature"])
        low, high = map(float, self.of["range"][i])
        limited = int(self.of["limited"][i])
        if limited == 1 or (limited == 2 and low < high):
            yield Term(terms.LOWER, i, rest=low)
            yield Term(terms.UPPER, i, rest=high)


def _equalities(model: newton.Model) -> Iterator[Term]:
    """Couplings of tendons, which Newton's importer leaves out and this package's own attributes hold."""
    if not model.custom_frequency_counts.get(EQUALITY, 0):
        return
    names = ("tendon1", "tendon2", "polycoef", "enabled")
    of = {name: getattr(model.sap, f"tendon_equality_{name}").numpy() for name in names}
    for i, first in enumerate(of["tendon1"]):
        second = int(of["tendon2"][i])
        polynomial = tuple(map(float, of["polycoef"][i]))
        yield Term(
            terms.EQUAL,
            int(first),
            second,
            rest=None,
            rest_other=None if second >= 0 else 0.0,
            polynomial=polynomial,
            enabled=bool(of["enabled"][i]),
        )


def tendon_starts(model: newton.Model) -> np.ndarray:
    """First tendon of each world and behind the last one."""
    worlds = model.mujoco.tendon_world.numpy() if tendon_count(model) else np.zeros(0, int)
    return np.searchsorted(worlds, np.arange(max(int(model.world_count), 1) + 1))


def actuator_objects(model: newton.Model, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each of the ``chosen`` actuators acts on: dof, tendon or shape, and a second shape; -1 stands for none."""
    starts = {
        "dof": model.joint_dof_world_start.numpy(),
        "tendon": tendon_starts(model),
        "shape": model.shape_world_start.numpy(),
    }
    kind = SolverMuJoCo.TrnType
    of_kind = {
        int(kind.JOINT): "dof",
        int(kind.JOINT_IN_PARENT): "dof",
        int(kind.TENDON): "tendon",
        int(kind.SITE): "shape",
        int(kind.SLIDERCRANK): "shape",
    }
    target, second = np.full(len(chosen), -1, np.int64), np.full(len(chosen), -1, np.int64)
    types = reader(model, chosen)("trntype")
    for unit in ("dof", "tendon", "shape"):
        mine = np.isin(types, [number for number, name in of_kind.items() if name == unit])
        if mine.any():
            target[mine] = actuator_targets(model, chosen[mine], starts[unit])
    pairs = model.mujoco.actuator_trnid.numpy()[chosen]
    two = np.isin(types, (int(kind.SITE), int(kind.SLIDERCRANK))) & (pairs[:, 1] >= 0)
    second[two] = pairs[two, 1] + (target[two] - pairs[two, 0])  # both are counted from the same start
    return target, second


def _add_actuators(model: newton.Model, out: TransmissionModel) -> None:
    chosen = row_actuators(model)
    if not len(chosen):
        return
    read, kind, of_model = reader(model, chosen), SolverMuJoCo.TrnType, _Parts(model)
    target, second = actuator_objects(model, chosen)
    gears, rods, types = read("gear").astype(float), read("cranklength").astype(float), read("trntype")
    joint_types, child = model.joint_type.numpy(), model.joint_child.numpy()
    for i, actuator in enumerate(map(int, chosen)):
        gear = tuple(gears[i])
        term = Term(terms.ACTUATOR, len(out.transmissions), actuator=actuator)
        where = int(target[i])
        if types[i] == int(kind.TENDON):
            term.transmission, term.gear = where, gear[0]
        elif types[i] in _ON_JOINT:
            joint = int(of_model.joint_of_dof[where])
            if joint_types[joint] in SCALAR_JOINTS:
                out.transmissions.append(
                    Transmission(kinds.SUM, (of_model.joint(joint, int(where - of_model.qd[joint]), 1.0),))
                )
                term.gear = gear[0]
            else:  # a free joint: MuJoCo's forces are along the world's axes, torques along the body's
                axes = int(kinds.FORCE_IN_WORLD)
                if types[i] == int(kind.JOINT_IN_PARENT):
                    axes |= int(kinds.TORQUE_IN_WORLD)
                site = Part(kinds.SITE, body=int(child[joint]))
                out.transmissions.append(Transmission(kinds.WRENCH, (site,), gear, axes))
        elif types[i] == int(kind.SITE):
            sites = tuple(of_model.site(int(shape)) for shape in (where, second[i]) if shape >= 0)
            out.transmissions.append(Transmission(kinds.BETWEEN if len(sites) == 2 else kinds.WRENCH, sites, gear))
        else:
            sites = (of_model.site(where), of_model.site(int(second[i])))
            out.transmissions.append(Transmission(kinds.CRANK, sites, gear, rod=float(rods[i])))
        out.terms.append(term)


def transmission_problems(model: newton.Model) -> list[tuple[str, str, np.ndarray]]:
    """What cannot be simulated: what it is, whose labels name it (``tendon`` or ``actuator``), and which."""
    problems = []
    if tendon_count(model):
        problems += _tendon_problems(model)
    chosen = row_actuators(model)
    if len(chosen):
        problems += _actuator_problems(model, chosen)
    return problems


def _tendon_problems(model: newton.Model) -> list[tuple[str, str, np.ndarray]]:
    read = _Tendons(model)
    of, of_model, tree = read.of, read.of_model, tree_joints(model)
    scalar = np.isin(model.joint_type.numpy(), SCALAR_JOINTS) & tree
    joints, shapes, ends = [], [], []
    for i in range(read.count):
        if of["type"][i] == 0:
            entries = of["joint"][of["joint_adr"][i] : of["joint_adr"][i] + of["joint_num"][i]]
            joints.append(not scalar[entries].all())
            shapes.append(False)
            ends.append(False)
            continue
        wraps = range(of["wrap_adr"][i], of["wrap_adr"][i] + of["wrap_num"][i])
        kind = [int(of["wrap_type"][k]) for k in wraps]
        geoms = [int(of_model.kind[of["wrap_shape"][k]]) for k in wraps if of["wrap_type"][k] == 1]
        joints.append(False)
        shapes.append(any(geom not in _GEOMS for geom in geoms))
        # a geom lies between two sites, and a pulley has a positive divisor
        lonely = any(
            a != 0 for k, b in enumerate(kind) if b == 1 for a in (*kind[k - 1 : k or None], *kind[k + 1 : k + 2])
        )
        ends.append(
            lonely
            or kind[0] == 1
            or kind[-1] == 1
            or any(of["wrap_prm"][k] <= 0 for k in wraps if of["wrap_type"][k] == 2)
        )
    checks = (
        (joints, "tendons over joints without scalar coordinates or over loop joints"),
        (shapes, "tendons that wrap around other geoms than spheres and cylinders"),
        (ends, "tendons with a geom that is not between two sites, or a pulley without a positive divisor"),
    )
    return [(what, "tendon", np.flatnonzero(hits)) for hits, what in checks if any(hits)]


def _actuator_problems(model: newton.Model, chosen: np.ndarray) -> list[tuple[str, str, np.ndarray]]:
    read, kind = reader(model, chosen), SolverMuJoCo.TrnType
    types = read("trntype")
    target, _ = actuator_objects(model, chosen)
    body = types == int(kind.BODY)
    told = (target >= 0) | body
    joint_of_dof = np.repeat(np.arange(model.joint_count), np.diff(model.joint_qd_start.numpy()))
    on_joint = np.isin(types, _ON_JOINT) & (target >= 0)
    owner = joint_of_dof[np.where(on_joint, target, 0)] if len(joint_of_dof) else np.zeros(len(chosen), np.int64)
    joint_types = model.joint_type.numpy()[owner] if len(owner) else owner
    fits = np.isin(joint_types, (*SCALAR_JOINTS, int(FREE))) & tree_joints(model)[owner]
    muscle = (read("gaintype") == 2) | (read("biastype") == 2)
    span = read("lengthrange")
    known = (read("dyntype") <= 4) & (read("gaintype") <= 2) & (read("biastype") <= 2)
    ratio = (
        (read("biastype") == 1)
        & (read("biasprm")[:, 2] > 0.0)
        & np.isclose(read("gainprm")[:, 0], -read("biasprm")[:, 1])
    )
    checks = (
        (told, "MuJoCo actuators of a copied world whose target cannot be told; put the largest world first"),
        (~body, "MuJoCo actuators on bodies (adhesion)"),
        (~on_joint | fits, "MuJoCo actuators on ball joints or on joints that close a loop"),
        (
            known & (read("actdim") <= 1),
            "MuJoCo actuators with gains or dynamics of a user, a plugin, a DC motor or a PID",
        ),
        (~muscle | (span[:, 0] < span[:, 1]), "MuJoCo muscles without a lengthrange; write it into the file"),
        (
            ~(ratio & ~on_joint & (read("gaintype") == 0)),
            "MuJoCo actuators with a damping ratio that do not act on a joint; give them kv",
        ),
    )
    return [(what, "actuator", chosen[~fine]) for fine, what in checks if not fine.all()]
