"""Names of the shipped tasks for learning, their modules and summaries; imports nothing."""

from __future__ import annotations

TASKS = {
    "CartPoleSwingUp": ("cartpole", "swing a pole up with a cart and hold it there"),
    "Ant": ("ant", "an ant runs in the direction of x"),
    "HumanoidStandUp": ("humanoid", "a humanoid gets up from the ground"),
    "Go2Walk": ("go2", "a Unitree Go2 walks at a commanded velocity on flat ground"),
    "Go2WalkRough": ("go2_rough", "the same over rough ground"),
    "PandaReach": ("panda", "a Panda brings its hand to a point"),
    "PandaLiftCube": ("panda_lift", "a Panda lifts a cube"),
}
NAMESPACE, VERSION = "sap_warp", "v0"


def shipped_tasks() -> dict[str, str]:
    """Return the names and summaries of the shipped tasks."""
    return {name: about for name, (_, about) in TASKS.items()}
