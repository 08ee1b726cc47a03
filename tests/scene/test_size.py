"""What a scene takes: said before long work, refused where it cannot fit, and linear in bodies and worlds."""

import io
import sys
import threading

import newton
import pytest

from sap_warp import SapSceneError
from sap_warp.core import long_work
from sap_warp.scene import size
from sap_warp.scene.edits import worlds
from tests.support.costs import count_calls, peak_bytes
from tests.support.scene_files import boxes, free, load


def spheres(count):
    """Balls in a row, apart from each other."""
    bodies = [
        {"id": f"ball{i}", "transform": {"p": [i, 0, 1]}, "shapes": [{"type": "sphere", "radius": 0.1}]}
        for i in range(count)
    ]
    return {"bodies": bodies, "joints": [free(body["id"]) for body in bodies]}


@pytest.fixture
def lines(monkeypatch):
    """What is said, with an event for each line."""
    said = []
    monkeypatch.setattr(long_work, "say", said.append)
    return said


# Before long work.


def test_long_work_is_announced(lines, monkeypatch):
    """Memory and time of many worlds, time of many bodies; nothing about small scenes."""
    load(boxes(), num_worlds=3)
    assert lines == []
    monkeypatch.setattr(long_work, "LONG", 0.0)
    load(boxes(), num_worlds=3)
    assert lines == ["adding 1 bodies, about 0 s", "building 3 worlds: about 0 MB and 0 s"]


def test_a_million_worlds_are_announced_in_gigabytes_and_minutes():
    """As the line has to read for the size that was once built for five minutes without a word."""
    world = newton.ModelBuilder()
    world.add_shape_sphere(world.add_body())
    cost = size.cost_of_copies(world, 1_000_000)
    assert str(cost) == "about 6.0 GB and 2 minutes"
    assert cost.seconds > long_work.LONG


def test_lines_go_on_where_there_is_no_terminal(lines, monkeypatch):
    """The work goes on until a line about the time that has passed is there."""
    second = threading.Event()
    monkeypatch.setattr(long_work, "INTERVAL", 0.01)
    monkeypatch.setattr(long_work, "say", lambda line: (lines.append(line), "passed" in line and second.set()))
    with long_work.long_work("working", 60.0):
        assert second.wait(30.0)
    assert lines[0] == "working" and lines[1] == "working; 0 s have passed"


def test_bar_on_a_terminal(lines, monkeypatch):
    """There a bar with the time that has passed takes the place of lines."""
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    with long_work.long_work("working", 60.0):
        pass
    assert "working" in terminal.getvalue() and lines == []


def test_interrupt_ends_long_work(lines):
    """Ctrl-C goes through, and no thread is left behind."""
    with pytest.raises(KeyboardInterrupt), long_work.long_work("working", 60.0):
        raise KeyboardInterrupt
    assert "sap-warp-progress" not in [thread.name for thread in threading.enumerate()]


# What cannot fit.


def test_worlds_that_do_not_fit_are_refused_with_the_number_that_does(monkeypatch):
    """The message names what it takes, what there is and how many worlds fit; those load."""
    monkeypatch.setattr(size, "host_memory", lambda: 1e6)
    with pytest.raises(
        SapSceneError, match=r"takes about 3 MB, and 1 MB are available; at most 166 worlds fit"
    ) as error:
        load(boxes(simulation={"num_worlds": 500}))
    assert error.value.problems[0].path == ("simulation", "num_worlds")
    assert load(boxes(), num_worlds=166).num_worlds == 166


def test_large_simulation_is_noted(monkeypatch):
    """The matrices of a world with many dofs are what counts."""
    assert size.describe_simulation(60, 64, 10) == ""
    assert size.describe_simulation(60_000, 1000, 1).startswith(
        "a simulation takes about 7.2 GB, 7.2 GB of it for matrices of 60000 dofs, and "
    )
    assert size.describe_simulation(6, 1000, 10_000).endswith("fewer worlds or a smaller max_rigid_contact take less")
    monkeypatch.setattr(size, "LARGE", 1)
    assert [note.id for note in load(spheres(1)).notes] == ["large-simulation"]


# Linear cost.


def test_cost_of_bodies_is_linear(monkeypatch):
    """Twice as many bodies take twice as many calls and twice the memory, if pairs are not listed."""
    monkeypatch.setattr(worlds, "MAX_LISTED_PAIRS", 0)
    scenes = [spheres(count) for count in (100, 200, 400)]
    load(scenes[0])  # what is loaded on first use
    calls = [count_calls(lambda scene=scene: load(scene)) for scene in scenes]
    assert calls[2] - calls[1] < 2.1 * (calls[1] - calls[0])
    memory = [peak_bytes(lambda scene=scene: load(scene)) for scene in scenes]
    assert memory[2] - memory[1] < 2.5 * (memory[1] - memory[0])


def test_many_pairs_are_searched_for_and_not_listed(monkeypatch):
    """A note says so; few pairs are listed as before."""
    scene = load(spheres(20))
    assert scene.sap_model.shape_contact_pair_count == 20 * 19 // 2 + 20  # with the ground
    assert scene.notes == []
    monkeypatch.setattr(worlds, "MAX_LISTED_PAIRS", 189)
    scene = load(spheres(20))
    assert scene.sap_model.shape_contact_pairs is None
    assert [note.id for note in scene.notes] == ["many-pairs"]
    assert "190 pairs" in scene.notes[0].message


def test_pairs_are_counted_as_newton_lists_them(rng):
    """With groups of both signs, shapes that do not collide and shapes at rest."""
    for _ in range(5):
        builder = newton.ModelBuilder()
        for group in rng.integers(-2, 3, 30):
            config = newton.ModelBuilder.ShapeConfig(
                collision_group=int(group), has_shape_collision=bool(rng.random() < 0.8)
            )
            body = builder.add_body(mass=1.0) if rng.random() < 0.7 else -1
            builder.add_shape_sphere(body, cfg=config)
        listed = builder.finalize(device="cpu").shape_contact_pairs
        assert worlds.count_pairs(builder) == len(listed) > 0


def test_unlisted_pairs_give_the_same_contacts(monkeypatch):
    """Two balls that touch each other and one that touches the ground, found either way."""
    from sap_warp import SapCollisionPipeline

    places = {"ball0": [0, 0, 1], "ball1": [0.19, 0, 1], "ball2": [5, 0, 0.099]}
    scene = spheres(3)
    for body in scene["bodies"]:
        body["transform"] = {"p": places[body["id"]]}
    counts = []
    for limit in (100, 0):
        monkeypatch.setattr(worlds, "MAX_LISTED_PAIRS", limit)
        loaded = load(scene)
        pipeline = SapCollisionPipeline(loaded.collision_model)
        pipeline.collide(loaded.collision_state, pipeline.contacts())
        counts.append(pipeline.last_contact_count)
    assert counts == [2, 2]
