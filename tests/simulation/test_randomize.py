"""Randomization: distributions, streams that depend on nothing but their world, and when something is drawn."""

import numpy as np
import pytest
import warp as wp

from sap_warp import ActionLatency, ObservationNoise, Simulation
from sap_warp.randomization import (
    Choice,
    Every,
    LogUniform,
    Normal,
    Randomize,
    Uniform,
    from_description,
    to_description,
)
from sap_warp.simulation.random.streams import philox
from tests.simulation.test_parameters import assert_same_state, robots, simulate

SEED = 7


def make(worlds=4, threads=1, terms=(), seed=SEED):
    sim = simulate(robots(worlds), threads)
    sim.randomize(list(terms), seed=seed)
    return sim


TERMS = (
    Randomize("ground_mu", Uniform(0.2, 1.0)),
    Randomize("body_mass", Uniform(0.5, 2.0), how="scale"),
    Randomize("body_com", Uniform(-0.01, 0.01), how="offset"),
    Randomize("joint_target_ke", LogUniform(0.5, 2.0), how="scale"),
    Randomize("joint_damping", Choice((0.1, 0.2, 0.4)), when="start"),
    Randomize("joint_q", Normal(0.0, 0.01), how="offset", names=("root.x", "root.y")),
    Randomize("joint_qd", Uniform(-0.2, 0.2), how="offset", names="root.v[xy]", when=Every(0.04, None, 0.6, 2)),
)


def terms_of(sim):
    """`TERMS` with the names of this model."""
    root = sim.joint_q.names[0].rpartition(".")[0]
    change = {"root.x": f"{root}.x", "root.y": f"{root}.y", "root.v[xy]": f"{root}.v[xy]"}
    found = []
    for term in TERMS:
        names = term.names
        if isinstance(names, str):
            names = change[names]
        elif names is not None:
            names = tuple(change[name] for name in names)
        found.append(Randomize(**{**vars(term), "names": names}))
    return found


def episodes(sim, order=0):
    """A few resets and steps; all that was drawn, and the coordinates."""
    seen = []
    worlds = sim.world_count
    for i in range(4):
        sim.step(15)
        mask = np.arange(worlds) % 3 != i % 3
        if order:  # the same resets, one world after the other
            for world in np.flatnonzero(mask)[::-1]:
                sim.reset(np.arange(worlds) == world)
        else:
            sim.reset(mask)
        seen += [sim.body_mass.numpy().copy(), sim.ground_mu.numpy().copy(), sim.joint_target_ke.numpy().copy()]
    sim.step(10)
    seen += [sim.joint_q.numpy().copy(), sim.joint_qd.numpy().copy(), sim.body_inertia.numpy().copy()]
    return seen


@wp.kernel(module="unique", enable_backward=False)
def philox_block(counter: wp.array[wp.vec4ui], key: wp.array[wp.vec2ui], out: wp.array[wp.vec4ui]):
    """The generator alone."""
    i = wp.tid()
    c = counter[i]
    k = key[i]
    out[i] = philox(c[0], c[1], c[2], c[3], k[0], k[1])


def test_the_generator_is_philox():
    """Known answers of the authors' own tests."""
    full, zero = [0xFFFFFFFF] * 4, [0] * 4
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
    counters, keys = [zero, full, pi], [[0, 0], [0xFFFFFFFF] * 2, [0xA4093822, 0x299F31D0]]
    expected = [
        [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8],
        [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ]
    out = wp.zeros(3, dtype=wp.vec4ui, device="cpu")
    inputs = [
        wp.array(np.array(c, np.uint32), dtype=d, device="cpu") for c, d in ((counters, wp.vec4ui), (keys, wp.vec2ui))
    ]
    wp.launch(philox_block, dim=3, inputs=inputs, outputs=[out], device="cpu")
    np.testing.assert_array_equal(out.numpy(), np.array(expected, np.uint32))


@pytest.mark.parametrize(
    ("distribution", "cdf"),
    [
        (Uniform(0.5, 2.0), lambda x: (x - 0.5) / 1.5),
        (LogUniform(0.1, 10.0), lambda x: np.log(x / 0.1) / np.log(100.0)),
        (Normal(1.0, 0.2, 0.01, 5.0), None),
        (Choice((0.25, 0.5, 1.0)), None),
    ],
)
def test_numbers_have_their_distribution(distribution, cdf):
    """Kolmogorov's distance of 4 x 600 x 3 numbers; at 1.95 / sqrt(n) one seed in a thousand would fail."""
    from scipy import stats

    worlds = 600
    sim = simulate(robots(worlds))
    found = []
    for seed in range(3):
        sim.randomize([Randomize("body_mass", distribution)], seed=seed)
        found.append(sim.body_mass.numpy().copy())
    assert len(np.unique([each.mean() for each in found])) == 3
    x = np.concatenate(found).ravel().astype(float)
    if isinstance(distribution, Choice):
        values, counts = np.unique(x, return_counts=True)
        np.testing.assert_array_equal(values, distribution.values)
        assert stats.chisquare(counts).pvalue > 1e-3
        return
    assert (x.min() >= np.float32(distribution.bounds[0])) and (x.max() <= np.float32(distribution.bounds[1]))
    distance = stats.kstest(x, cdf or stats.norm(distribution.mean, distribution.std).cdf).statistic
    assert distance < 1.95 / np.sqrt(len(x))
    columns = np.concatenate(found).astype(float)
    correlation = np.corrcoef(columns.T) - np.eye(columns.shape[1])
    assert np.abs(correlation).max() < 4.0 / np.sqrt(len(columns)), "columns depend on each other"
    assert abs(np.corrcoef(columns[1:, 0], columns[:-1, 0])[0, 1]) < 4.0 / np.sqrt(len(columns)), "so do worlds"


def test_a_world_depends_on_seed_world_and_episode_alone():
    """Not on threads, on the number of worlds, on the order of resets, or on the order of terms."""
    sims = [simulate(robots(6)), simulate(robots(6), threads=2), simulate(robots(9)), simulate(robots(6))]
    terms = terms_of(sims[0])
    for sim, given in zip(sims, (terms, terms, terms, terms[::-1]), strict=True):
        sim.randomize(given, seed=SEED)
    usual = episodes(sims[0])
    for i, other in enumerate((episodes(sims[1]), episodes(sims[2]), episodes(sims[3], order=1))):
        for one, two in zip(usual, other, strict=True):
            np.testing.assert_array_equal(one, two[:6], err_msg=f"case {i}")
    assert sims[0].body_mass.numpy().std(axis=0).min() > 0.0, "worlds differ"
    other = simulate(robots(6))
    other.randomize(terms, seed=SEED + 1)
    assert (other.body_mass.numpy() != usual[0]).all()


def test_worlds_can_be_counted_from_another_one_and_terms_begun_again():
    """Worlds 3 to 8 of 9, simulated alone, draw what they draw among all; also after another seed in between."""
    whole, part = simulate(robots(9)), simulate(robots(6))
    terms = terms_of(whole)
    part.randomize(terms, seed=SEED + 1)
    part.reset()
    part.randomize(None, seed=SEED, first_world=3)
    whole.randomize(terms, seed=SEED)
    for sim in (whole, part):
        sim.reset()
    np.testing.assert_array_equal(whole.joint_damping.numpy()[3:], part.joint_damping.numpy())
    for one, two in zip(episodes(whole), episodes(part), strict=True):
        np.testing.assert_array_equal(one[3:], two)
    with pytest.raises(ValueError, match="has none"):
        simulate(robots(2)).randomize(None)


def test_a_draw_is_what_an_assignment_of_the_same_numbers_is():
    """Packed masses, inertias in proportion, ground friction and gains act as in a simulation that has them."""
    sizes = Randomize("shape_scale", Uniform(0.9, 1.1), how="scale", shared=True)
    sim, other = make(terms=[*TERMS[:5], sizes]), simulate(robots())
    mass = other.body_mass.numpy().copy()
    sim.reset([True, False, True, True])
    for name in (
        "body_mass",
        "body_com",
        "body_inertia",
        "ground_mu",
        "shape_scale",
        "joint_target_ke",
        "joint_damping",
    ):
        getattr(other, name)[...] = getattr(sim, name).numpy()
    factor = (other.body_mass.numpy() / mass)[..., None, None]
    np.testing.assert_allclose(sim.body_inertia.numpy(), simulate(robots()).body_inertia.numpy() * factor, rtol=1e-6)
    for each in (sim, other):
        each.step(60)
    assert_same_state(sim, other)


def test_nominal_values_do_not_drift():
    """Factors are for the values when it was called, however often a world was reset."""
    sim = simulate(robots())
    nominal = sim.body_mass.numpy().copy()
    sim.randomize([Randomize("body_mass", Uniform(0.9, 1.1), how="scale", shared=True)])
    seen = []
    for _ in range(30):
        sim.reset()
        seen.append(sim.body_mass.numpy() / nominal)
    seen = np.array(seen)
    assert seen.min() >= 0.9 - 1e-6 and seen.max() <= 1.1 + 1e-6
    assert np.ptp(seen[:, :, 0]) > 0.1
    np.testing.assert_allclose(seen, seen[..., :1] * np.ones(seen.shape[-1]), rtol=1e-6)
    assert len(np.unique(seen[:, 0, 0])) == 30, "each episode has its own"


def test_pushes_come_at_their_time_and_end():
    """A force of 0.02 s every 0.1 s; half of the worlds take part each time, never the same ones."""
    sim = make(worlds=64, terms=[Randomize("body_f", Uniform(1.0, 2.0), components=(1,), names="*", shared=True,
                                           when=Every(0.1, hold=0.02, probability=0.5))])  # fmt: skip
    hit = []
    for step in range(1, 101):
        sim.step()
        force = sim.body_f.numpy()[:, 0, 1]
        if step % 25 < 5 and step >= 25:
            hit.append(force > 0.0)
            assert ((force == 0.0) | ((force >= 1.0) & (force <= 2.0))).all()
            assert 15 < hit[-1].sum() < 49
        else:
            assert not force.any(), step
    assert len({each.tobytes() for each in hit}) == 4
    one, many = make(terms=[PUSH]), make(terms=[PUSH])
    one.step(60)
    for _ in range(60):
        many.step()
    assert_same_state(one, many)


def test_groups_of_worlds_take_turns():
    """Eight worlds in four groups: each is pushed once in 0.1 s for 0.02 s, a group every fifth of 0.1 s or later."""
    when = Every(0.08, hold=0.02, phases=4)
    sim = make(worlds=8, terms=[Randomize("body_f", Uniform(1.0, 2.0), components=(1,), names="*", when=when)])
    pushed = []
    for _ in range(60):
        sim.step()
        pushed.append(sim.body_f.numpy()[:, 0, 1] > 0.0)
    # steps of 4 ms: a slot is five steps, a period four slots; group i % 4 has slot i
    step = np.arange(1, 61)
    expected = (step[:, None] >= 5) & (step[:, None] // 5 % 4 == np.arange(8) % 4)
    np.testing.assert_array_equal(np.array(pushed), expected)
    kick = Randomize("joint_qd", Uniform(-0.2, 0.2), how="offset", when=Every(0.03, phases=3))
    seen = []
    for sim in (make(worlds=7, terms=[kick]), make(worlds=7, terms=[kick], threads=2)):
        for _ in range(3):
            sim.step(7)
            seen.append(sim.joint_qd.numpy().copy())
    for one, two in zip(seen[:3], seen[3:], strict=True):
        np.testing.assert_array_equal(one, two)
    assert len(np.unique(seen[2][:, 0])) == 7


PUSH = Randomize("body_f", Uniform(-5.0, 5.0), when=Every(0.03))


def test_resume_goes_on_with_the_streams(tmp_path):
    """Saved in the middle of an episode, loaded with other threads: later draws are those of the other run."""
    sim = make(worlds=6)
    sim.randomize(terms_of(sim), seed=SEED)
    sim.step(12)
    sim.reset(np.arange(6) < 2)
    sim.step(9)
    sim.save(tmp_path / "r.npz")
    other = Simulation.load(tmp_path / "r.npz", model=robots(6), threads=2)
    for one, two in zip(episodes(sim), episodes(other), strict=True):
        np.testing.assert_array_equal(one, two)
    assert_same_state(sim, other)
    plain = simulate(robots(6)).get_state()
    other.set_state(plain)
    other.reset()
    np.testing.assert_array_equal(other.body_mass.numpy(), simulate(robots(6)).body_mass.numpy())


def test_terms_can_be_taken_away_and_time_steps_changed():
    sim = make(terms=[Randomize("body_mass", Uniform(1.0, 2.0)), PUSH])
    sim.randomize([])
    before = sim.body_mass.numpy().copy()
    sim.reset()
    sim.step(20)
    np.testing.assert_array_equal(sim.body_mass.numpy(), before)
    assert not sim.body_f.numpy().any()
    sim.randomize([PUSH])
    sim.dt = 0.01
    sim.reset()
    sim.step(2)
    assert not sim.body_f.numpy().any()
    sim.step(1)
    assert sim.body_f.numpy().any(), "0.03 s are three steps now"


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (Randomize("body_q", Uniform(0, 1)), "'body_q' cannot be randomized; there are shape_mu"),
        (Randomize("body_mass", Uniform(-0.5, 1.0)), "body_mass has to be positive.*could make it -0.5"),
        (Randomize("body_mass", Uniform(0.0, 1.0), how="scale"), "body_mass has to be positive"),
        (Randomize("joint_damping", Normal(0.1, 0.1)), "could make it -inf. Give low and high"),
        (Randomize("joint_q", Normal(0.0, 0.1), how="offset"), "rotations"),
        (Randomize("joint_qd", Uniform(0, 1), when=Every(1.0, hold=0.1)), "no nominal value"),
        (Randomize("body_inertia", Uniform(1, 2)), 'how="scale"'),
        (Randomize("shape_scale", Uniform(1, 2)), 'how="scale"'),
        (Randomize("body_mass", Uniform(1, 2), names="nobody"), "nobody"),
        (Randomize("body_com", Uniform(1, 2), components=(3,)), "components of body_com are 0 to 2"),
        ({"what": "body_mass"}, "needs one of uniform, log_uniform, normal, choice"),
        ({"what": "body_mass", "uniform": [2, 1]}, r"randomize\[0\]: Uniform.* low <= high"),
        ({"what": "body_mass", "uniform": [1, 2], "wat": 3}, "wat"),
    ],
)
def test_a_term_that_cannot_be_is_refused(term, message):
    sim = simulate(robots(2))
    before = sim.get_state()
    with pytest.raises((ValueError, KeyError), match=message):
        sim.randomize([term])
    after = sim.get_state()
    for name, array in before.arrays.items():
        np.testing.assert_array_equal(array, after.arrays[name], err_msg=name)


def test_descriptions_say_the_same():
    text = [
        {"what": "ground_mu", "uniform": [0.4, 1.2]},
        {"what": "body_mass", "names": "torso", "how": "scale", "normal": {"mean": 1.0, "std": 0.1, "low": 0.5}},
        {"what": "joint_qd", "names": ["a", "b"], "choice": [1.0, 2.0], "when": {"seconds": 4.0, "probability": 0.5}},
    ]
    terms = from_description(text)
    assert terms == [
        Randomize("ground_mu", Uniform(0.4, 1.2)),
        Randomize("body_mass", Normal(1.0, 0.1, 0.5), how="scale", names="torso"),
        Randomize("joint_qd", Choice((1.0, 2.0)), names=("a", "b"), when=Every(4.0, probability=0.5)),
    ]
    assert from_description(to_description(terms)) == terms


def test_noise_is_added_in_place_and_depends_on_the_world_alone():
    """As NumPy, torch or Warp; of any number of worlds; and goes on where it was."""
    torch = pytest.importorskip("torch")
    values = np.zeros((300, 5), np.float32)
    noise = ObservationNoise(Normal(1.0, 0.1), seed=3)
    assert noise(values) is values
    assert abs(values.mean() - 1.0) < 5 * 0.1 / np.sqrt(values.size) and 0.09 < values.std() < 0.11
    tensor = ObservationNoise(Normal(1.0, 0.1), seed=3)(torch.zeros(7, 5))
    np.testing.assert_array_equal(tensor.numpy(), values[:7])
    other = ObservationNoise(Normal(1.0, 0.1), seed=3)
    other.count = noise.count
    np.testing.assert_array_equal(noise(np.zeros((4, 5), np.float32)), other(wp.zeros((4, 5), device="cpu")).numpy())
    assert (noise(np.zeros((4, 5), np.float32)) != values[:4]).all()
    with pytest.raises(TypeError, match="float32"):
        noise(np.zeros((4, 5)))


def test_actions_arrive_late_by_each_worlds_own_latency(rng):
    """Restated with lists; resets of some worlds begin with the next action, and draw again."""
    worlds, latency = 6, ActionLatency(6, 2, Choice((0, 1, 3)), seed=1, device="cpu")
    assert set(latency.steps) <= {0, 1, 3} and len(set(latency.steps)) > 1
    history = [[] for _ in range(worlds)]
    for call in range(40):
        actions = rng.normal(size=(worlds, 2)).astype(np.float32)
        for world in range(worlds):
            history[world].append(actions[world])
        expected = [history[w][-1 - min(int(latency.steps[w]), len(history[w]) - 1)] for w in range(worlds)]
        np.testing.assert_array_equal(latency(actions), expected)
        if call % 7 == 6:
            mask = rng.random(worlds) < 0.5
            latency.reset(mask)
            history = [[] if mask[w] else history[w] for w in range(worlds)]
    with pytest.raises(ValueError, match="between 0 and a finite"):
        ActionLatency(2, 1, Normal(1.0, 1.0), device="cpu")
    with pytest.raises(ValueError, match=r"expected \(6, 2\)"):
        latency(np.zeros((6, 3), np.float32))
