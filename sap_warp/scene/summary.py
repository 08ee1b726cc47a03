"""Numbers about a loaded scene, for `sap-warp check`."""

from __future__ import annotations

from collections import Counter

import newton
import numpy as np

from ..collision.paths import choose_path
from ..judge.advice.joints import driven_dofs
from ..model.shapes import shape_type
from .loader import SapLoadedScene
from .objects.control import ControlSequence


def summarize_scene(scene: SapLoadedScene) -> list[tuple[str, str]]:
    """Return rows of name and value; bodies, joints and shapes are those of the first world."""
    model = scene.sap_model.newton_model
    worlds = scene.num_worlds
    own = model.shape_world.numpy() == 0
    kinds = model.shape_type.numpy()
    collides = (model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0
    shapes = Counter(shape_type(kind).name for kind in kinds[own & collides])
    joints = Counter(
        newton.JointType(int(kind)).name.lower() for kind in model.joint_type.numpy()[: model.joint_count // worlds]
    )
    driven = driven_dofs(model)[: model.joint_dof_count // worlds]
    mass = model.body_mass.numpy()[: model.body_count // worlds]
    pairs = model.shape_contact_pairs
    gravity = model.gravity.numpy().reshape(-1, 3)[0]
    sequence = scene.control_sequence
    rows = [
        ("scene", scene.name + (f": {scene.description}" if scene.description else "")),
        ("worlds", str(worlds)),
        ("bodies", f"{model.body_count // worlds} per world"),
        ("joints", _count(joints)),
        ("dofs", f"{model.joint_dof_count // worlds} per world, {np.count_nonzero(driven)} driven"),
        ("coordinates", f"{model.joint_coord_count // worlds} per world"),
        ("mass", f"{mass.sum():.6g} kg per world, bodies {mass.min():.3g} to {mass.max():.3g} kg"),
        ("colliding shapes", _count(shapes)),
        ("other shapes", f"{np.count_nonzero(own & ~collides)} (visual, sites)"),
        (
            "shared shapes",
            ", ".join(label for label, w in zip(scene.shape_labels, model.shape_world.numpy(), strict=True) if w < 0)
            or "none",
        ),
        ("pairs that may collide", "found at run time" if pairs is None else f"{len(pairs) // worlds} per world"),
        ("collision path", str(choose_path(model, None if pairs is None else pairs.numpy().reshape(-1, 2)))),
        ("contact capacity", f"{scene.max_rigid_contact} per world, {scene.rigid_contact_max} in all"),
        ("gravity", "[" + ", ".join(f"{value + 0.0:g}" for value in gravity) + "] m/s^2"),
        ("keyframes", ", ".join(scene.keyframes) or "none"),
        ("time step", f"{1e3 * scene.dt:g} ms"),
        ("solver", ", ".join(f"{name}={value}" for name, value in scene.solver_options.items())),
        (
            "control sequence",
            "none" if sequence is None else _show_sequence(sequence),
        ),
    ]
    return rows


def _count(names: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in names.most_common()) or "none"


def _show_sequence(sequence: ControlSequence) -> str:
    counts = {"joints": len(sequence.joint_labels), "actuators": len(sequence.actuator_labels)}
    return f"{sequence.duration:g} s for " + " and ".join(f"{n} {what}" for what, n in counts.items() if n)
