"""Small scenes as mappings, for the tests of the loader."""

from __future__ import annotations

import copy

import pytest

import sap_warp

BOX = {"type": "box", "hx": 0.1, "hy": 0.2, "hz": 0.3}

ALL_JOINT_FIELDS = {
    "target_pos": 0.25,
    "target_vel": 0.5,
    "target_ke": 100.0,
    "target_kd": 10.0,
    "limit_lower": -1.5,
    "limit_upper": 1.5,
    "limit_ke": 2000.0,
    "limit_kd": 20.0,
    "armature": 0.125,
    "effort_limit": 50.0,
    "velocity_limit": 5.0,
    "friction": 0.0625,
    "damping": 0.75,
    "actuator_mode": 2,
    "axis": [0.0, 1.0, 0.0],
}
"""A value for each field of a joint dof, none of them a default."""

SINGLE_BOX = """\
schema_version: 1
name: single_box

simulation:
  dt: 0.003
  num_worlds: 1
  max_rigid_contact: 64
  solver:
    contact_preset_variant: approx32
    line_search_variant: monotone_decay

builder:
  rigid_gap: 0.002
  defaults:
    shape:
      density: 1000.0
      ke: 1000000.0
      tau: 0.01
      mu: 0.5

ground:
  enabled: true
  label: DEFAULT_GROUND

bodies:
  - id: box
    mass: 1.0
    transform:
      p: [0.0, 0.0, 1.0]
      q: identity
    shapes:
      - type: box
        hx: 0.5
        hy: 0.5
        hz: 0.5

joints:
  - id: box_free
    type: free
    parent: world
    child: box

articulations:
  - id: box_articulation
    joints: [box_free]
"""
"""The first example of the documentation."""


def load(scene, **options):
    """Load a scene on the CPU."""
    return sap_warp.load_sap_scene(scene, device="cpu", **options)


def free(child):
    return {"id": f"{child}_free", "type": "free", "parent": "world", "child": child}


def boxes(*ids, **sections):
    """Free boxes, and more sections."""
    bodies = [{"id": name, "shapes": [copy.deepcopy(BOX)]} for name in ids or ("box",)]
    return {"bodies": bodies, "joints": [free(body["id"]) for body in bodies], **sections}


def with_shape(shape, **sections):
    """One free body with one shape."""
    return {"bodies": [{"id": "body", "shapes": [shape]}], "joints": [free("body")], **sections}


def with_joint(kind, /, parent="world", **fields):
    """One box on one joint called hinge."""
    return {
        "bodies": [{"id": "link", "shapes": [copy.deepcopy(BOX)]}],
        "joints": [{"id": "hinge", "type": kind, "parent": parent, "child": "link", **fields}],
    }


def chain(**sections):
    """A free base, a hinge and a slider: coordinates 0 to 6, 7 and 8; dofs 0 to 5, 6 and 7."""
    return {
        "bodies": [{"id": name, "shapes": [copy.deepcopy(BOX)]} for name in ("base", "arm", "hand")],
        "joints": [
            free("base"),
            {"id": "hinge", "label": "robot/left/hinge", "type": "revolute", "parent": "base", "child": "arm"},
            {"id": "slider", "label": "robot/right/slider", "type": "prismatic", "parent": "arm", "child": "hand"},
        ],
        **sections,
    }


def package(path):
    """A file that newton ships."""
    return {"package": {"name": "newton", "path": f"examples/assets/{path}"}}


def problems_of(scene, **options):
    """Messages of all problems of a scene that does not load."""
    with pytest.raises(sap_warp.SapSceneError) as caught:
        load(scene, **options)
    return str(caught.value).splitlines()


def problem_of(scene, **options):
    """The message of a scene with exactly one problem, without the word in front that stands for the file."""
    lines = problems_of(scene, **options)
    assert len(lines) == 1, "\n".join(lines)
    return lines[0].removeprefix("scene: ")
