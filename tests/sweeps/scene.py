"""A flat box on the ground, pulled along it."""

BOX_MU, TAU, DT = 0.8, 0.005, 0.005

SCENE = {
    "simulation": {
        "dt": DT,
        "max_rigid_contact": 8,
        "solver": {"contact_preset_variant": "approx32", "line_search_variant": "monotone_decay"},
    },
    # contacts of fast slides act at a distance of mu v (h + tau): they have to be found there
    "builder": {"rigid_gap": 0.05, "defaults": {"shape": {"ke": 1.0e5, "tau": TAU, "mu": BOX_MU}}},
    "bodies": [
        {
            "id": "box",
            "transform": {"p": [0.0, 0.0, 0.02]},
            "shapes": [{"type": "box", "hx": 0.1, "hy": 0.1, "hz": 0.02, "density": 1000.0}],
        }
    ],
    "joints": [{"id": "free", "type": "free", "parent": "world", "child": "box"}],
}
PULL = 12.0
"""Gravity along x that overcomes every friction here [m/s^2]."""
