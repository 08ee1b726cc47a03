"""`simulation.solver` and what users do with the options that the loader hands on."""

import pytest
import yaml

import sap_warp
from tests.support.scene_files import boxes, load, problem_of, problems_of


def scene(solver=None, **simulation):
    return boxes(simulation={**simulation, **({} if solver is None else {"solver": solver})})


def test_two_capacities_are_refused_with_both_lines(tmp_path):
    file = tmp_path / "scene.yaml"
    file.write_text(yaml.safe_dump(scene({"max_rigid_contact": 16}, max_rigid_contact=8)))
    lines = [1 + i for i, line in enumerate(file.read_text().splitlines()) if "max_rigid_contact" in line]
    first, second = problems_of(file)
    assert first == (
        f"{file}:{lines[0]}: simulation.max_rigid_contact: found 8, but simulation.solver.max_rigid_contact is 16; "
        "give one of them"
    )
    assert second == (
        f"{file}:{lines[1]}: simulation.solver.max_rigid_contact: found 16, but simulation.max_rigid_contact is 8; "
        "give one of them"
    )


@pytest.mark.parametrize(
    "settings",
    [{"max_rigid_contact": 16}, {"solver": {"max_rigid_contact": 16}}]
    + [{"max_rigid_contact": 16, "solver": {"max_rigid_contact": 16}}],
)
def test_the_capacity_may_stand_in_either_place(settings):
    loaded = load(scene(**settings), num_worlds=2)
    assert (loaded.max_rigid_contact, loaded.rigid_contact_max) == (16, 32)
    assert loaded.solver_options["max_rigid_contact"] == 16


def test_block_dim_reaches_the_solver(cpu_blocks):
    loaded = load(scene({"block_dim": "8 / 2"}))
    assert sap_warp.SolverSAP(loaded.sap_model, **loaded.solver_options).block_dim == 4
    for value in (0, 1.5, 1025, -1):
        expected = f"simulation.solver.block_dim: found {value!r}; expected a whole number from 1 to 1024"
        assert problem_of(scene({"block_dim": value})) == expected


def test_explain_takes_a_scene_with_all_that_a_solver_takes(tmp_path, capsys):
    from sap_warp.cli import main

    file = tmp_path / "scene.yaml"
    file.write_text(yaml.safe_dump(scene({"block_dim": 1, "strict_capacity": True})))
    assert main(["explain", str(file), "0", "1"]) == 0
    assert "DEFAULT_GROUND" in capsys.readouterr().out


def test_options_of_a_scene_beside_others():
    """As the documents have it: a union for the solver, keywords for a simulation; what is given later wins."""
    loaded = load(scene({"contact_preset_variant": "approx64", "max_iterations": 7}, max_rigid_contact=16))
    options = loaded.solver_options | {"contact_preset_variant": "drake", "max_rigid_contact": 4}
    solver = sap_warp.SolverSAP(loaded.sap_model, **options)
    drake = sap_warp.SolverSAP(loaded.sap_model, contact_preset_variant="drake", max_rigid_contact=4, max_iterations=7)
    assert solver.options == drake.options
    with sap_warp.Simulation(loaded.sap_model, dt=loaded.dt, **loaded.solver_options | {"max_iterations": 9}) as sim:
        assert (sim.solver.options.max_iterations, sim.solver.options.max_rigid_contact) == (9, 16)


def test_what_is_given_wins_over_all_that_a_loaded_scene_has():
    loaded = load(scene({"contact_preset_variant": "approx64", "max_iterations": 7}, max_rigid_contact=16, dt=0.002))
    state = loaded.sap_model.state()
    state.joint_q.fill_(0.5)
    given = {"contact_preset_variant": "drake", "max_rigid_contact": 4, "dt": 0.001, "name": "mine", "state": state}
    with sap_warp.Simulation.from_loaded(loaded, **given) as sim:
        assert (sim.preset, sim.dt, sim.name) == ("drake", 0.001, "mine")
        assert (sim.solver.options.max_rigid_contact, sim.solver.options.max_iterations) == (4, 7)
        assert sim.state.joint_q.numpy()[0] == 0.5
    with sap_warp.Simulation.from_loaded(loaded) as sim:
        assert (sim.preset, sim.dt, sim.solver.options.max_rigid_contact) == ("approx64", 0.002, 16)
    loaded.solver_options["max_rigid_contact"] = 5
    with sap_warp.Simulation.from_loaded(loaded) as sim:
        assert sim.solver.options.max_rigid_contact == 5
