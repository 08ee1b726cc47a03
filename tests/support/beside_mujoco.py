"""A robot's file in MuJoCo and here: the same masses, joints, contact rules and motion.

States are put in by a keyframe that both read, so keyframes are part of what is compared.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path

import mujoco
import numpy as np

from sap_warp import Simulation
from sap_warp.scene import load_sap_scene
from sap_warp.simulation.checkpoint.keyframes import go_home

KEY = "compared"
NO_CONSTRAINTS = '<option><flag constraint="disable"/></option>'
SCALAR = (int(mujoco.mjtJoint.mjJNT_SLIDE), int(mujoco.mjtJoint.mjJNT_HINGE))


@dataclass
class Files:
    """An MJCF file, or a text, and what it refers to."""

    text: str
    folder: Path | None = None
    """Where the text lies, if it refers to others."""
    written: list[Path] = field(default_factory=list)

    @classmethod
    def at(cls, path: Path) -> Files:
        """A file."""
        return cls(path.read_text(), path.parent)

    def changed(self, extra: str) -> str | Path:
        """The text with more sections at its end, as a file if it refers to others."""
        text = self.text.replace("</mujoco>", extra + "</mujoco>")
        if self.folder is None:
            return text
        path = self.folder / f".compared_{len(self.written)}.xml"
        path.write_text(text)
        self.written.append(path)
        return path

    def clean(self) -> None:
        """Remove what was written."""
        for path in self.written:
            path.unlink(missing_ok=True)
        self.written.clear()


def compile_mujoco(source: str | Path) -> mujoco.MjModel:
    """MuJoCo's model."""
    if isinstance(source, Path):
        return mujoco.MjModel.from_xml_path(str(source))
    return mujoco.MjModel.from_xml_string(source)


def load(source: str | Path, dt: float, **asset):
    """Our scene."""
    entry = {"type": "mjcf", "source": str(source), **asset}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_sap_scene({"assets": [entry], "ground": False, "simulation": {"dt": dt}}, device="cpu")


def find(labels, name: str) -> int:
    """The entry of that name."""
    hits = [i for i, label in enumerate(labels) if label == name or label.endswith("/" + name)]
    return min(hits, key=lambda i: len(labels[i])) if hits else -1


def write_numbers(values) -> str:
    """Numbers of an attribute."""
    return " ".join(repr(float(value)) for value in values)


def random_key(
    model: mujoco.MjModel, rng: np.random.Generator, reach: float = 0.3, speed: float = 0.5, name: str = KEY
) -> str:
    """A keyframe near the first one, or near the pose of the file, within the ranges of joints and inputs."""
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_integratePos(model, data.qpos, rng.uniform(-reach, reach, model.nv), 1.0)
    qvel = rng.uniform(-speed, speed, model.nv)
    ctrl = rng.uniform(-1.0, 1.0, model.nu)
    low, high = model.actuator_ctrlrange.T
    part = rng.uniform(0.3, 0.7, len(low))
    ctrl = np.where(model.actuator_ctrllimited, low + part * (high - low), ctrl)
    given = {"qpos": data.qpos, "qvel": qvel, "ctrl": ctrl, "act": rng.uniform(0.0, 0.5, model.na)}
    numbers = " ".join(f'{what}="{write_numbers(values)}"' for what, values in given.items() if len(values))
    return f'<keyframe><key name="{name}" {numbers}/></keyframe>'


def structure(model: mujoco.MjModel, loaded) -> list[str]:
    """Differences of masses, inertias, joint parameters and contact rules."""
    found: list[str] = []
    ours, labels = loaded.sap_model, list(loaded.body_labels)
    articulated = np.flatnonzero(ours.joint_articulation.numpy() >= 0)  # others close loops
    dofs = int(np.diff(ours.joint_qd_start.numpy())[articulated].sum()) - 6 * model.nmocap
    if dofs != model.nv:
        found.append(f"{dofs} dofs, MuJoCo has {model.nv}")
    mass, com, inertia = (getattr(ours, f"body_{name}").numpy().astype(float) for name in ("mass", "com", "inertia"))
    for b in range(1, model.nbody):
        name = model.body(b).name
        i = find(labels, name) if name else -1
        if i < 0:
            found.append(f"body {name!r} is missing")
            continue
        if not np.isclose(mass[i], model.body_mass[b], rtol=1e-5, atol=1e-9):
            found.append(f"mass of {name!r} is {mass[i]:g}, MuJoCo's {model.body_mass[b]:g}")
        if not np.allclose(com[i], model.body_ipos[b], atol=1e-5) and model.body_mass[b] > 0:
            found.append(f"centre of mass of {name!r} is {com[i]}, MuJoCo's {model.body_ipos[b]}")
        R = np.zeros(9)
        mujoco.mju_quat2Mat(R, model.body_iquat[b])
        R = R.reshape(3, 3)
        expected = R @ np.diag(model.body_inertia[b]) @ R.T
        if not np.allclose(inertia[i], expected, rtol=1e-4, atol=2e-5 * max(np.abs(expected).max(), 1e-12)):
            found.append(f"inertia of {name!r} is\n{inertia[i]}, MuJoCo's\n{expected}")
    return found + joints(model, loaded)


def joint_labels(loaded) -> list[str]:
    """Names of joints; those that close loops, which Newton names by number, have none."""
    tree = loaded.sap_model.joint_articulation.numpy() >= 0
    return [label if own else "" for label, own in zip(loaded.joint_labels, tree, strict=True)]


def dof_of(loaded, model: mujoco.MjModel, joint: int) -> tuple[int, int]:
    """Our coordinate and dof of a scalar joint of MuJoCo's, by names."""
    ours, name = loaded.sap_model, model.joint(joint).name
    i = find(joint_labels(loaded), name)
    q, qd = ours.joint_q_start.numpy(), ours.joint_qd_start.numpy()
    if i >= 0 and qd[i + 1] - qd[i] == 1:
        return int(q[i]), int(qd[i])
    body = find(list(loaded.body_labels), model.body(int(model.jnt_bodyid[joint])).name)
    i = next((j for j, child in enumerate(ours.joint_child.numpy()) if child == body), -1)
    if i < 0:
        return -1, -1
    of_body = [j for j in range(model.njnt) if model.jnt_bodyid[j] == model.jnt_bodyid[joint]]
    of_body.sort(key=lambda j: model.jnt_type[j] != mujoco.mjtJoint.mjJNT_SLIDE)
    if qd[i + 1] - qd[i] != len(of_body):
        return -1, -1
    return int(q[i]) + of_body.index(joint), int(qd[i]) + of_body.index(joint)


def joints(model: mujoco.MjModel, loaded) -> list[str]:
    """Differences of limits, damping, armature and friction."""
    found, ours = [], loaded.sap_model
    lower, upper = ours.joint_limit_lower.numpy(), ours.joint_limit_upper.numpy()
    of = {
        "damping": ours.newton_model.joint_damping,
        "armature": ours.joint_armature,
        "frictionloss": ours.joint_friction,
    }
    for j in np.flatnonzero(np.isin(model.jnt_type, SCALAR)).tolist():
        name, (_, dof) = model.joint(j).name, dof_of(loaded, model, j)
        if dof < 0:
            continue
        expected = model.jnt_range[j] - model.qpos0[model.jnt_qposadr[j]] if model.jnt_limited[j] else None
        if expected is None:
            if lower[dof] > -1e3 or upper[dof] < 1e3:
                found.append(f"joint {name!r} has limits, not in MuJoCo")
        elif not np.allclose([lower[dof], upper[dof]], expected, atol=1e-5):
            found.append(f"limits of {name!r} are {lower[dof]:g} {upper[dof]:g}, MuJoCo's {expected}")
        for what, array in of.items():
            value = np.ravel(getattr(model, f"dof_{what}")[model.jnt_dofadr[j]])[0]
            if not np.isclose(array.numpy()[dof], value, rtol=1e-5, atol=1e-9):
                found.append(f"{what} of {name!r} is {array.numpy()[dof]:g}, MuJoCo's {value:g}")
    return found


def pairs_of_mujoco(model: mujoco.MjModel) -> set[frozenset[str]]:
    """Names of geoms that MuJoCo lets meet."""
    found = set()
    weld, parent = model.body_weldid, model.body_parentid
    excluded = {frozenset((int(s) >> 16, int(s) & 0xFFFF)) for s in model.exclude_signature}
    off = model.opt.disableflags
    if off & (mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT):
        return found
    filter_parent = not off & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT
    for a in range(model.ngeom):
        for b in range(a + 1, model.ngeom):
            one, two = (int(model.geom_bodyid[g]) for g in (a, b))
            masks = (model.geom_contype[a] & model.geom_conaffinity[b]) | (
                model.geom_contype[b] & model.geom_conaffinity[a]
            )
            if not masks or weld[one] == weld[two] or frozenset((one, two)) in excluded:
                continue
            above = [int(weld[parent[weld[x]]]) for x in (one, two)]
            if filter_parent and weld[one] and weld[two] and (weld[one] == above[1] or weld[two] == above[0]):
                continue
            found.add(frozenset((a, b)))
    for a, b in zip(model.pair_geom1, model.pair_geom2, strict=True):
        found.add(frozenset((int(a), int(b))))
    kinds = model.geom_type
    flat = (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD)
    return {frozenset(model.geom(g).name for g in pair) for pair in found if not all(kinds[g] in flat for g in pair)}


def pairs_here(model: mujoco.MjModel, loaded) -> set[frozenset[str]]:
    """The same of ours, by MuJoCo's names."""
    labels = list(loaded.shape_labels)
    name_of = {find(labels, model.geom(g).name): model.geom(g).name for g in range(model.ngeom) if model.geom(g).name}
    pairs = loaded.sap_model.shape_contact_pairs.numpy().reshape(-1, 2).tolist()
    return {frozenset(name_of.get(s, labels[s]) for s in pair) for pair in pairs}


def pair_differences(model: mujoco.MjModel, loaded) -> list[str]:
    """Geoms that meet in one of both; only those with names."""
    expected, got = pairs_of_mujoco(model), pairs_here(model, loaded)
    expected = {pair for pair in expected if "" not in pair}
    lost, more = expected - got, got - expected
    return [f"do not meet: {sorted(map(sorted, lost))[:6]}"] * bool(lost) + [
        f"meet, not in MuJoCo: {sorted(map(sorted, more))[:6]}"
    ] * bool(more)


def poses(model: mujoco.MjModel, data, found: np.ndarray, loaded) -> tuple[float, str]:
    """Largest difference of body positions and orientations [m, rad], and where."""
    worst, where = 0.0, ""
    for b in range(1, model.nbody):
        i = find(list(loaded.body_labels), model.body(b).name)
        if i < 0:
            continue
        q = np.roll(data.xquat[b], -1)
        off = max(
            np.abs(found[i][:3] - data.xpos[b]).max(), 2.0 * np.abs(found[i][3:] * np.sign(found[i][3:] @ q) - q).max()
        )
        if off > worst or not np.isfinite(off):
            worst, where = float(off), model.body(b).name
    return worst, where


def simulate_mujoco(model: mujoco.MjModel, dt: float, steps: int, key: str | None = KEY, fine: bool = False):
    """MuJoCo's data after some steps from a keyframe."""
    model.opt.timestep = dt
    if fine:
        model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    data = mujoco.MjData(model)
    if key is not None and model.nkey:
        names = [model.key(i).name for i in range(model.nkey)]
        mujoco.mj_resetDataKeyframe(model, data, names.index(key))
    mujoco.mj_forward(model, data)
    mujoco.mj_step(model, data, steps)
    mujoco.mj_kinematics(model, data)
    return data


def home_of(model: mujoco.MjModel) -> str | None:
    """The keyframe that a robot starts from."""
    names = [model.key(i).name for i in range(model.nkey)]
    homes = [name for name in names if name.lower() in ("home", "stand", "standing", "default")]
    return (homes or names or [None])[0]


def motion(files: Files, rng, dt: float = 2e-4, steps: int = 100) -> tuple[tuple[float, str], tuple[float, str]]:
    """Differences of body poses in a random state, and of the motion from there without constraints.

    Our first order of the step is taken out.
    """
    base = compile_mujoco(files.changed(""))
    source = files.changed(NO_CONSTRAINTS + random_key(base, rng))
    reference, loaded = compile_mujoco(source), load(source, dt)
    start, found = (0.0, ""), []
    for part in (1, 2):
        sim = Simulation.from_loaded(loaded, dt=dt / part)
        sim.reset(keyframe=KEY)
        if part == 1:
            start = poses(reference, simulate_mujoco(reference, dt, 0), np.array(sim.body_q)[0].astype(float), loaded)
        sim.step(part * steps)
        found.append(np.array(sim.body_q)[0].astype(float))
    data = simulate_mujoco(reference, dt / 5, 5 * steps, fine=True)
    return start, poses(reference, data, 2.0 * found[1] - found[0], loaded)


def held(reference: mujoco.MjModel, loaded, duration: float = 2.0) -> tuple[float, str, int]:
    """Largest difference of a scalar joint after some time from home at the same step, its name, unconverged steps."""
    dt, steps = float(reference.opt.timestep), round(duration / float(reference.opt.timestep))
    data = simulate_mujoco(reference, dt, steps, key=home_of(reference))
    sim = Simulation.from_loaded(loaded, dt=dt)
    go_home(sim)
    sim.step(steps)
    q, worst, where = np.array(sim.joint_q)[0], 0.0, ""
    for j in np.flatnonzero(np.isin(reference.jnt_type, SCALAR)).tolist():
        c = sim.find_coords(reference.joint(j).name).indices
        address = reference.jnt_qposadr[j]
        off = abs(float(data.qpos[address] - reference.qpos0[address]) - float(q[c].item()))
        if off > worst or not np.isfinite(off):
            worst, where = off, reference.joint(j).name
    return worst, where, int(sim.statistics.not_converged)
