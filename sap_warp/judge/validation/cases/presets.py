"""Differences Delta_precision and Delta_model of the presets over the shipped scenes."""

from __future__ import annotations

from ....scene.shipped.scene_files import runs_offline, shipped_scenes
from ...compare import compare_presets
from ..result import Outcome, case

PRECISION_BOUND = 1e-4
"""Largest mean of Delta_precision [m/s and rad/s together]."""

RANDOM_START = ("free_cube", "double_pendulum", "humanoid", "spheres", "box_stack")


@case("presets/deltas", "what precision and contact model change in one step of every shipped scene", slow=True)
def deltas(quick: bool) -> Outcome:
    """Measure norms over the dofs of a world, of single steps from equal states along a run with approx64."""
    outcome, lines = Outcome(), []
    shipped = [name for name, file in shipped_scenes().items() if runs_offline(file)]
    for scene in ("free_cube", "double_pendulum") if quick else shipped:
        # Robots that stand or hold something start as their scene says, all others from random poses.
        seed = 0 if scene in RANDOM_START else None
        worlds = 1 if seed is None else 2 if quick else 4
        found = compare_presets(scene, steps=100 if quick else 200, num_worlds=worlds, seed=seed, device="cpu")
        precision, model = found.precision, found.model
        lines.append([scene, f"{precision.mean:.1e}", f"{precision.max:.1e}", f"{precision.relative:.1e}",
                      f"{model.mean:.1e}", f"{model.max:.1e}", f"{model.relative:.1e}",
                      f"{found.samples_with_contact} of {found.samples}"])  # fmt: skip
        outcome.check(
            f"mean Delta_precision, {scene}",
            precision.mean,
            PRECISION_BOUND,
            "fp32 dynamics and linear algebra: eps times condition, amplified where contacts switch mode",
            "m/s, rad/s",
        )
        outcome.check(f"steps that did not converge, {scene}", found.not_converged, 0, "tight tolerances must be met")
        outcome.note(
            f"mean Delta_model, {scene}", model.mean, "weights and contact points differ on purpose", "m/s, rad/s"
        )
    header = ["scene", "precision mean", "max", "relative", "model mean", "max", "relative", "with contact"]
    outcome.tables["Delta_precision and Delta_model [m/s and rad/s together]"] = (header, lines)
    return outcome
