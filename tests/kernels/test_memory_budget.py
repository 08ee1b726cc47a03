"""Contact buffers that do not fit into memory are refused before they are allocated, with the number that would fit."""

import re

import pytest

from sap_warp import SapCollisionPipeline, SapSceneError, Simulation, SolverSAP, load_sap_scene
from sap_warp.core.runtime import memory_budget
from sap_warp.scene.shipped.scene_files import find_scene_file
from sap_warp.simulation.run.memory import count_bytes
from tests.support.scenes import add_ball, builder, material

WORLDS, HUGE = 4, 10**9


@pytest.fixture(scope="module")
def model():
    """Balls above the ground."""
    one, scene = builder(), builder()
    add_ball(one, (0.0, 0.0, 0.1))
    scene.replicate(one, WORLDS)
    scene.add_ground_plane(cfg=material())
    return scene.finalize(device="cpu")


@pytest.fixture
def small(monkeypatch):
    """A machine with 10 MB."""
    monkeypatch.setattr(memory_budget, "available_memory", lambda device: 10_000_000)


def advised(error):
    """The number that would fit, by the message."""
    return int(re.search(r"at most (\d+) fit", str(error.value)).group(1))


@pytest.mark.parametrize("preset", ["approx32", "drake"])
def test_a_contact_of_a_world_takes_what_is_said(model, preset):
    sizes = [count_bytes([SolverSAP(model, max_rigid_contact=n, contact_preset_variant=preset)]) for n in (1000, 2000)]
    assert (sizes[1] - sizes[0]) / (1000 * WORLDS) == pytest.approx(memory_budget.WORLD_BYTES, rel=0.02)


@pytest.mark.parametrize(
    ("options", "unit"), [({}, memory_budget.BUFFER_BYTES), ({"deterministic": True}, memory_budget.SORTED_BYTES)]
)
def test_a_contact_of_a_buffer_takes_what_is_said(model, options, unit):
    sizes = []
    for n in (1000, 2000):
        pipeline = SapCollisionPipeline(model, rigid_contact_max=n, **options)
        sizes.append(count_bytes([pipeline, pipeline.contacts()]))
    assert (sizes[1] - sizes[0]) / 1000 == pytest.approx(unit, rel=0.02)


@pytest.mark.usefixtures("small")
def test_what_does_not_fit_is_refused_and_what_is_advised_fits(model):
    """By solver, pipeline and simulation, each in terms of its own option; nothing of that size is allocated."""
    what = (
        r" is 1000000000; buffers for that many contacts take [\d,.]+ GB, and 10.0 MB of memory are available on cpu:"
    )
    with pytest.raises(ValueError, match="max_rigid_contact" + what) as error:
        SolverSAP(model, max_rigid_contact=HUGE)
    SolverSAP(model, max_rigid_contact=advised(error))
    with pytest.raises(ValueError, match="rigid_contact_max" + what) as error:
        SapCollisionPipeline(model, rigid_contact_max=HUGE)
    SapCollisionPipeline(model, rigid_contact_max=advised(error))
    for options in ({}, {"rigid_contact_max": 64}):
        with pytest.raises(ValueError, match="max_rigid_contact" + what) as error:
            Simulation(model, dt=0.005, threads=2, max_rigid_contact=HUGE, **options)
        Simulation(model, dt=0.005, threads=2, max_rigid_contact=advised(error), **options).close()
    with pytest.raises(ValueError, match="rigid_contact_max" + what):
        Simulation(model, dt=0.005, threads=2, max_rigid_contact=8, rigid_contact_max=HUGE)


@pytest.mark.usefixtures("small")
def test_a_scene_is_refused_at_its_line(tmp_path):
    text, scene = find_scene_file("cube").read_text(encoding="utf-8"), tmp_path / "huge.yaml"
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "max_rigid_contact:" in row)
    scene.write_text(re.sub(r"(max_rigid_contact:) \d+", r"\1 100000000", text), encoding="utf-8")
    where = rf"huge.yaml:{line}: simulation.max_rigid_contact: found 100000000; buffers .* take 33.8 GB, .* fit"
    with pytest.raises(SapSceneError, match=where):
        load_sap_scene(scene, num_worlds=1)


def test_memory_of_the_host_is_known():
    """More than nothing, less than a machine can have."""
    assert 1e6 < memory_budget.host_memory() < 1e15
