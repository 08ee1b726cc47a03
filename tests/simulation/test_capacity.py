"""Contacts that find no place are told by the simulation: once, by the worlds' own numbers, with what to set."""

import re
import warnings

import numpy as np
import pytest
import warp as wp

from sap_warp import ContactCapacityError, Simulation
from sap_warp.scene.shipped.scene_files import find_scene_file
from tests.support.simulations import new_builder

BOXES = 4
"""Boxes that lie on the ground in the one crowded world, 4 contacts each; one in the others."""


def crowd(worlds=5, crowded=3):
    """Worlds of a few boxes on the ground, far apart."""
    scene = new_builder()
    for world in range(worlds):
        one = new_builder()
        for i in range(BOXES if world == crowded else 1):
            one.add_shape_box(
                one.add_body(xform=wp.transform((i, 0.0, 0.1), wp.quat_identity())), hx=0.1, hy=0.1, hz=0.1
            )
        scene.add_world(one)
    scene.add_ground_plane()
    return scene.finalize(device="cpu")


def simulate(model, **options):
    return Simulation(model, dt=0.002, contact_tau_d=0.02, **options)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("statistics", [True, False])
def test_a_full_world_is_told_once(threads, statistics):
    """By its number among all worlds, with the option that was set and the number that would do."""
    sim = simulate(crowd(), max_rigid_contact=10, threads=threads, statistics=statistics)
    text = r"18 contacts found no place .* in world 3: .* Set max_rigid_contact to 16 or more \(it is 10\)\. \(see"

    def act():
        sim.step(3)
        sim.joint_q.flat()  # without statistics, steps do not look

    with pytest.warns(RuntimeWarning, match=text) as seen:
        act()
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.step(3)
        assert sim.contact_counts.tolist() == [4, 4, 4, 10, 4]
        sim.reset()
        sim.step(2)
        assert sim.status.tolist() == [0] * 5
    with simulate(crowd(), max_rigid_contact=16, threads=threads, strict=True) as enough:
        enough.step(3)


def test_the_warning_of_a_step_points_at_the_caller():
    sim = simulate(crowd(), max_rigid_contact=10)
    with pytest.warns(RuntimeWarning, match="max_rigid_contact") as seen:
        sim.step()
    assert seen[0].filename == __file__


def test_a_full_buffer_needs_room_for_the_whole_simulation():
    """With shares of the buffer by threads, the advice is what the user has to give, and it is enough."""
    model, buffer = crowd(), 20
    with pytest.warns(
        RuntimeWarning, match=r"in world 3: .* Set rigid_contact_max to (\d+) or more \(it is 20\)\. \(see"
    ) as seen:
        simulate(model, rigid_contact_max=buffer, threads=2).step()
    advised = int(str(seen[0].message).split("rigid_contact_max to ")[1].split()[0])
    assert 32 <= advised <= 5 * 16
    simulate(model, rigid_contact_max=advised, threads=2, strict=True).step()


def test_the_advice_for_one_world_holds_a_whole_stack():
    """A small buffer of one world drops in the pipeline, not in the solver; the option to set is still the world's."""
    model = crowd(worlds=1, crowded=0)
    with pytest.warns(RuntimeWarning, match=r"11 contacts .* Set max_rigid_contact to 16 or more \(it is 5\)"):
        simulate(model, max_rigid_contact=5).step()


@pytest.mark.parametrize(
    "how", [{"strict": True}, {"strict_capacity": True}, {"pipeline_options": {"strict_capacity": True}}]
)
def test_strict_raises_after_the_step_that_dropped(how):
    """Also if a later step of the same call dropped nothing; and again when it happens again."""
    sim = simulate(crowd(), max_rigid_contact=10, **how)
    sim.step(0)
    with pytest.raises(ContactCapacityError, match=r"in world 3: .* max_rigid_contact to 16"):
        sim.step(1)
    q = sim.joint_q.flat()
    q[2::7] += 3.0
    sim.update_bodies()
    sim.step(1)  # in the air
    sim.reset()
    with pytest.raises(ContactCapacityError, match=r"in world 3: .* max_rigid_contact to 16"):
        sim.step(1)


def test_what_a_solver_dropped_between_two_looks_is_not_forgotten():
    """The last step dropped nothing: the strict solver raises all the same, once."""
    sim = simulate(crowd(), max_rigid_contact=10)
    solver = sim.solver
    contacts, state = sim.contacts, sim.state
    sim.pipeline.collide(state, contacts)
    for found in (contacts, None):
        solver.step(state, state, None, found, 0.002)
    with pytest.warns(UserWarning, match="6 contacts were dropped in world 3; set max_rigid_contact to 16 or more"):
        assert solver.last_truncated_contact_count == 0


def test_a_scene_names_its_own_option(tmp_path):
    """`box_stack` with 8 contacts stood 16 cm too high without a word."""
    text, small = find_scene_file("box_stack").read_text(encoding="utf-8"), tmp_path / "small.yaml"
    small.write_text(re.sub(r"(max_rigid_contact:) \d+", r"\1 8", text), encoding="utf-8")
    with pytest.warns(RuntimeWarning, match=r"Set simulation\.max_rigid_contact to \d+ or more \(it is 8\)"):
        Simulation.from_scene(small).step(3)
    with pytest.warns(RuntimeWarning, match=r"Set max_rigid_contact to \d+ or more \(it is 6\)"):
        Simulation.from_scene(small, max_rigid_contact=6).step(3)


def test_inner_buffers_are_told_too():
    """Pairs of shapes that the broad phase had no room for."""
    model = crowd(worlds=1, crowded=0)
    options = {"broad_phase": "nxn", "shape_pairs_max": 2}
    sim = simulate(model, pipeline_options=options)
    sim.step()
    with pytest.warns(RuntimeWarning, match=r"Contacts are missing.* shape_pairs_max=4 or more.*pipeline_options"):
        sim.joint_q.flat()
    strict = simulate(model, pipeline_options=options, strict=True)
    strict.step()
    with pytest.raises(ContactCapacityError, match="shape_pairs_max=4"):
        strict.joint_q.flat()


def test_counts_survive_a_capture_between():
    """Setting the time step captures the graphs anew, which takes two steps that nobody asked for."""
    sim = simulate(crowd(), max_rigid_contact=10, statistics=False)
    sim.step(2)
    sim.dt = 0.001
    sim.prepare()
    with pytest.warns(RuntimeWarning, match="12 contacts found no place"):
        sim.joint_q.flat()
    assert np.isfinite(sim.joint_q.flat()).all()
