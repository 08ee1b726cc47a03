"""What texts mean, which points come of them, and how these become tasks; nothing is simulated."""

import numpy as np
import pytest

from sap_warp.scale.sweeps import Definition, SweepError
from sap_warp.scale.sweeps.definition.conditions import parse_condition
from sap_warp.scale.sweeps.definition.definition import read_variations
from sap_warp.scale.sweeps.definition.points import make_points
from sap_warp.scale.sweeps.definition.targets import SceneTarget, WorldTarget, find_target
from sap_warp.scale.sweeps.definition.values import make_variation, parse_variation
from sap_warp.scale.sweeps.running.job import plan_tasks


@pytest.mark.parametrize(
    "text, values",
    [
        ("a=0.1:0.4:4", (0.1, 0.2, 0.30000000000000004, 0.4)),
        ("a=1:3:3", (1, 2, 3)),
        ("a=1:2:3", (1.0, 1.5, 2.0)),
        ("a=0.001:1:4:log", (0.001, 0.01, 0.1, 1.0)),
        ("a=2:1:2", (2, 1)),
        ("a=1e-4,1e-3", (1e-4, 1e-3)),
        ("a= 5 ", (5,)),
        ("a=approx32,drake", ("approx32", "drake")),
        ("a=true,false", (True, False)),
    ],
)
def test_values_of_a_text(text, values):
    """Numbers keep their kind: a solver option that counts takes no 3.0."""
    found = parse_variation(text)
    assert (found.path, len(found.values)) == ("a", len(values))
    assert [type(value) for value in found.values] == [type(value) for value in values]
    if not isinstance(values[0], str):
        np.testing.assert_allclose(found.values, values, rtol=1e-15)
    else:
        assert found.values == values


@pytest.mark.parametrize(
    "text, message",
    [
        ("a", "not PATH=VALUES"),
        ("=1", "not PATH=VALUES"),
        ("a=1,,2", "empty value"),
        ("a=1:2:x", "is no range"),
        ("a=1:2:3:4", "is no range"),
        ("a=1:2:0", "whole number from 1"),
        ("a=1:2:10000001", "from 1 to 10000000"),
        ("a=0:1:3:log", "positive bounds"),
        ("a=nan,1", "no finite number"),
        ("a=1:inf:3", "finite bounds"),
        ("a=2:1", "the smaller one"),
    ],
)
def test_other_texts_are_refused(text, message):
    """In one sentence."""
    with pytest.raises(SweepError, match=message):
        parse_variation(text)


@pytest.mark.parametrize(
    "path, target",
    [
        ("materials.ground.mu", WorldTarget("ground_mu")),
        ("ground.mu", WorldTarget("ground_mu")),
        ("materials.ground.ke", SceneTarget("ground.ke")),
        ("materials.*_foot.tau", WorldTarget("shape_tau", "*_foot")),
        ("body_mass:torso", WorldTarget("body_mass", "torso")),
        ("body_com:torso.x", WorldTarget("body_com", "torso", "x")),
        ("joint_q:root.z", WorldTarget("joint_q", "root.z")),
        ("gravity.z", WorldTarget("gravity", "", "z")),
        ("solver.contact_sigma", SceneTarget("simulation.solver.contact_sigma")),
        ("dt", SceneTarget("simulation.dt")),
        ("bodies.cube.shapes[0].hx", SceneTarget("bodies.cube.shapes[0].hx")),
    ],
)
def test_where_a_parameter_lives(path, target):
    """Numbers of worlds share a model; values of the scene do not."""
    assert find_target(path) == target


@pytest.mark.parametrize(
    "path", ["materials.foot.colour", "gravity.w", "gravity:x", "joint_q", "body_mass", "replicate.num_worlds"]
)
def test_what_cannot_be_varied(path):
    """Said at once."""
    with pytest.raises(SweepError):
        find_target(path)


def test_a_grid_has_every_combination_with_every_seed():
    """The last parameter changes fastest, seeds faster still."""
    points = make_points(read_variations(["a=1,2", "b=x,y"]), seeds=[7, 8])
    assert [point.number for point in points] == list(range(8))
    assert [point.values for point in points[::2]] == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]
    assert [point.seed for point in points] == [7, 8] * 4
    with pytest.raises(SweepError, match="range without a count"):
        make_points(read_variations(["a=1:2"]))


def test_a_latin_hypercube_has_one_sample_in_each_slice():
    """Of each parameter, by its logarithm where that is asked for; a list is taken evenly."""
    variations = read_variations(["a=0:1", "b=1e-4:1:log", "c=x,y,z,w"])
    points = make_points(variations, samples=40, seed=3)
    columns = [np.array(column) for column in zip(*(point.values for point in points), strict=True)]
    assert sorted(np.floor(40 * columns[0])) == list(range(40))
    assert sorted(np.floor(10 * (np.log10(columns[1]) + 4.0))) == list(range(40))
    assert [np.count_nonzero(columns[2] == name) for name in "xyzw"] == [10] * 4
    assert points == make_points(variations, samples=40, seed=3) != make_points(variations, samples=40, seed=4)
    random = np.array([p.values[0] for p in make_points(variations, samples=40, sampling="random", seed=3)])
    assert len(set(np.floor(40 * random))) < 40 and ((random >= 0.0) & (random < 1.0)).all()


def test_points_that_share_a_model_share_a_task():
    """Whatever their order, up to the size of a batch; 1 and 1.0 are two values."""
    vary = ("materials.ground.mu=0.1:1.0:5", "solver.max_iterations=1,2")
    definition = Definition("cube", read_variations(vary))
    tasks = plan_tasks(definition, definition.points(), batch=3)
    assert [len(task.points) for task in tasks] == [3, 2, 3, 2]
    assert [dict(task.overrides)["simulation.solver.max_iterations"] for task in tasks] == [1, 1, 2, 2]
    numbers = [point.number for task in tasks for point in task.points]
    assert sorted(numbers) == list(range(10))
    mixed = Definition("cube", (make_variation("dt", [1, 1.0, True]),))
    assert len(plan_tasks(mixed, mixed.points(), 8)) == 3


def test_a_definition_survives_its_file():
    """Also numbers that have no short form."""
    vary = {"materials.ground.mu": "0.1:1.0:7", "dt": "0.001:0.01:log", "solver.contact_preset_variant": ["drake"]}
    definition = Definition("cube", read_variations(vary), samples=5, until="energy < 1", record=("energy",))
    again = Definition.from_json(definition.to_json())
    assert again == definition and again.points() == definition.points()
    other = Definition.from_json({**definition.to_json(), "seconds": 3.0})
    assert definition.differences(other) == ["seconds"]


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "Nothing varies"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seeds": 1, "seconds": -1.0}, "seconds is -1.0"),
        ({"seeds": 1, "every": 0}, "every is 0"),
        ({"seeds": 1, "sampling": "sobol"}, "one of lhs, random"),
        ({"seeds": 1, "until": "energy"}, "is no condition"),
        ({"seeds": 1, "samples": 3}, "no parameter to draw"),
    ],
)
def test_definitions_that_cannot_be(options, message):
    """Checked before anything is loaded."""
    with pytest.raises(SweepError, match=message):
        Definition("cube", **options)


def test_conditions():
    """All parts have to hold, where each signal is an array over samples."""
    condition = parse_condition("body_q:cube.z <= 0.1 and contacts>=4")
    assert condition.signals == ["body_q:cube.z", "contacts"]
    samples = {"body_q:cube.z": np.array([0.3, 0.1, 0.05]), "contacts": np.array([4.0, 3.0, 4.0])}
    assert condition.holds(samples).tolist() == [False, False, True]
    for text in ("", "a <", "< 3", "a ~ 3", "a < b", "a < 1 or b < 2"):
        with pytest.raises(SweepError, match="is no condition"):
            parse_condition(text)
