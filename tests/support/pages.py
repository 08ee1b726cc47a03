"""What tests of the viewer look at: a small scene with something to drive and something to pull."""

from typing import Any


def arm_and_box() -> dict[str, Any]:
    """An arm of two joints, the first driven to a position and the second to a speed, beside a box of 8 kg."""
    return {
        "schema_version": 1,
        "name": "arm_and_box",
        "simulation": {"dt": 0.005, "max_rigid_contact": 16},
        "builder": {"defaults": {"shape": {"ke": 1.0e5, "tau": 0.01, "mu": 0.8}}},
        "bodies": [
            {
                "id": "upper",
                "transform": {"p": [0.6, 0.0, 0.8]},
                "density": 500.0,
                "shapes": [{"type": "capsule", "radius": 0.05, "half_height": 0.15, "color": [0.2, 0.4, 0.8]}],
            },
            {
                "id": "lower",
                "transform": {"p": [0.6, 0.0, 0.4]},
                "density": 500.0,
                "shapes": [{"type": "capsule", "radius": 0.04, "half_height": 0.12, "color": [0.2, 0.6, 0.8]}],
            },
            {
                "id": "box",
                "transform": {"p": [0.0, 0.0, 0.2]},
                "density": 125.0,
                "shapes": [{"type": "box", "hx": 0.2, "hy": 0.2, "hz": 0.2, "color": [0.85, 0.35, 0.2]}],
            },
        ],
        "joints": [
            {
                "id": "lift",
                "type": "revolute",
                "parent": "world",
                "child": "upper",
                "axis": [0, 1, 0],
                "parent_xform": {"p": [0.6, 0.0, 1.0]},
                "child_xform": {"p": [0.0, 0.0, 0.2]},
                "limit_lower": -1.5,
                "limit_upper": 1.0,
                "target_ke": 200.0,
                "target_kd": 10.0,
            },
            {
                "id": "swing",
                "type": "revolute",
                "parent": "upper",
                "child": "lower",
                "axis": [0, 1, 0],
                "parent_xform": {"p": [0.0, 0.0, -0.2]},
                "child_xform": {"p": [0.0, 0.0, 0.2]},
                "target_kd": 1.0,
            },
            {"id": "box_free", "type": "free", "parent": "world", "child": "box"},
        ],
        "articulations": [{"id": "arm", "joints": ["lift", "swing"]}, {"id": "box_tree", "joints": ["box_free"]}],
    }
