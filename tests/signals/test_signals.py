"""Signals against what the simulation itself shows, closed forms, and files read back."""

import csv

import numpy as np
import pytest

from sap_warp.cli import main
from sap_warp.look.signals import SignalError, find_signals, list_signals
from sap_warp.look.signals.recording import CHUNK
from tests.support.balls import make_balls
from tests.support.simulations import shared_simulation

MASS = 1000.0 * 4.0 / 3.0 * np.pi * 0.3**3


balls = shared_simulation(make_balls)


@pytest.fixture
def sim(balls):
    """At the start."""
    balls.reset()
    return balls


def test_samples_are_what_views_show(sim):
    """Every quantity of joints and bodies, at the steps that were asked for, in all worlds."""
    sim.joint_qd.assign(np.arange(12.0).reshape(2, 6) / 10.0)
    expected = []
    seen = sim.add_callback(lambda s: expected.append([np.array(s.joint_q), np.array(s.body_qd)[:, 0]]), every=3)
    with sim.record(["joint_q:*", "body_qd:ball", "body_q:ball.z"], every=3) as record:
        sim.step(10)
    seen()
    np.testing.assert_array_equal(record.step, [3, 6, 9])
    np.testing.assert_allclose(record.time, [0.03, 0.06, 0.09])
    coordinates = record.values[:, :7].transpose(0, 2, 1)
    np.testing.assert_array_equal(coordinates, [q for q, _ in expected])
    np.testing.assert_array_equal(record["body_qd:ball"], [v for _, v in expected])
    np.testing.assert_array_equal(record["body_q:ball.z"], coordinates[..., 2])
    sim.step(3)
    assert len(record) == 3  # it is stopped


def test_energy_of_a_fall_and_of_a_spin(sim):
    """Height and speed of free fall give the energies; a spinning ball has 1/2 I w^2 more."""
    with sim.record("energy,kinetic_energy,potential_energy,body_q:ball.z,body_qd:ball.vz") as record:
        sim.step(20)
    z, v = record["body_q:ball.z"], record["body_qd:ball.vz"]
    np.testing.assert_allclose(record["potential_energy"], MASS * 9.81 * z, rtol=1e-5)
    np.testing.assert_allclose(record["kinetic_energy"], 0.5 * MASS * v**2, rtol=1e-5)
    np.testing.assert_allclose(record["energy"], record["kinetic_energy"] + record["potential_energy"], rtol=1e-12)
    sim.reset(joint_qd=np.array([0.0, 0.0, 0.0, 0.0, 3.0, 4.0]))
    with sim.record("kinetic_energy") as spin:
        sim.step(1)
    expected = 0.5 * 0.4 * MASS * 0.3**2 * 25.0 + 0.5 * MASS * (9.81 * 0.01) ** 2
    np.testing.assert_allclose(spin["kinetic_energy"], expected, rtol=1e-4)


def test_contact_signals_of_a_ball_at_rest(sim):
    """The ground carries the weight; the overlap is weight over stiffness of the pair."""
    with sim.record("contact_force:ball,penetration,contacts,status,iterations", every=10) as record:
        sim.step(500)
    force = record["contact_force:ball"][-1, 0]
    np.testing.assert_allclose(force, [0.0, 0.0, MASS * 9.81, MASS * 9.81], rtol=2e-3, atol=0.5)
    assert record["contacts"][-1].tolist() == [1.0, 1.0] and record["contacts"][0].tolist() == [0.0, 0.0]
    stiffness = 0.5e5  # two surfaces of 1e5 N/m in a row
    np.testing.assert_allclose(record["penetration"][-1], MASS * 9.81 / stiffness, rtol=0.05)
    assert (record["status"] == 0.0).all()
    assert record["iterations"][-1, 0] == sim.iterations[0]


def test_slip_of_a_ball_that_is_thrown_along_the_ground(sim):
    """The lowest point of the ball moves by v - R w until it rolls; in the air nothing slips."""
    start = np.array([0.0, 0.0, 0.3 - MASS * 9.81 / 0.5e5, 0.0, 0.0, 0.0, 1.0])  # at rest on the ground
    sim.reset(joint_q=start, joint_qd=np.array([3.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    with sim.record("slip_speed,body_qd:ball.vx,body_qd:ball.wy") as record:
        sim.step(60)
    expected = np.abs(record["body_qd:ball.vx"] - 0.3 * record["body_qd:ball.wy"])
    np.testing.assert_allclose(record["slip_speed"], expected, atol=5e-3)
    assert record["slip_speed"][0, 0] > 1.5 and record["slip_speed"][-1, 0] < 0.01
    sim.reset(joint_qd=np.array([3.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    with sim.record("slip_speed") as record:
        sim.step(3)
    assert (record["slip_speed"] == 0.0).all()


def test_threads_and_precision_make_no_difference(sim):
    """Signals of shards are put together; fp64 is read as well."""
    names = "joint_q:*,energy,contact_force:ball.z,penetration,slip_speed,iterations"
    with sim.record(names) as record:
        sim.step(60)
    for options, tolerance in (({"threads": 2}, 0.0), ({"precision": "fp64"}, 1e-4)):
        with make_balls(**options) as other:
            with other.record(names) as again:
                other.step(60)
            np.testing.assert_allclose(again.values, record.values, rtol=tolerance, atol=tolerance)


def test_many_samples_and_chosen_worlds(sim):
    """More than wait on the device; a world by its number."""
    with sim.record("body_q:ball.z", worlds=1) as record:
        sim.step(CHUNK + 10)
    assert record.values.shape == (CHUNK + 10, 1, 1)
    assert record.values[-1, 0, 0] == sim.body_q.numpy()[1, 0, 2]
    assert record.time[-1] == pytest.approx(0.01 * (CHUNK + 10))


def test_files_say_the_same(sim, tmp_path):
    """CSV, NPZ and Parquet read back; a drawing is drawn."""
    with sim.record("body_q:ball.z,energy", every=2) as record:
        sim.step(10)
    with record.to_csv(tmp_path / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5 * 2 and set(rows[0]) == {"time", "step", "world", "body_q:ball.z", "energy"}
    values = np.array([float(row["energy"]) for row in rows]).reshape(5, 2)
    np.testing.assert_allclose(values, record["energy"], rtol=1e-8)
    arrays = np.load(record.save(tmp_path / "a.npz"))
    np.testing.assert_array_equal(arrays["values"], record.values)
    assert arrays["names"].tolist() == record.names
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    table = parquet.read_table(record.to_parquet(tmp_path / "a.parquet"))
    np.testing.assert_array_equal(np.array(table["energy"]).reshape(5, 2), record["energy"])
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    assert record.plot(tmp_path / "a.png").stat().st_size > 5000


def test_wrong_names_are_explained(sim):
    """With what there is."""
    for name, words in (
        ("joint_angle:knee", "'joint_angle:knee' is not known. There is: joint_q:NAME"),
        ("body_q:bal", "did you mean 'ball'"),
        ("body_q", "needs the name of a body"),
        ("energy:ball", "belongs to whole worlds"),
        ("ctrl:motor", "no actuators"),
        (" , ", "No signal is named"),
    ):
        with pytest.raises(SignalError, match=words):
            sim.record(name)
    with pytest.raises(ValueError, match="there are worlds 0 to 1"):
        sim.record("energy", worlds=[2])
    with pytest.raises(KeyError, match="'power' was not recorded"):
        sim.record("energy")["power"]
    assert {"energy", "body_q:ball"} <= set(list_signals(sim))
    assert len(find_signals(sim, "energy,energy")) == 1


def test_command(tmp_path, capsys):
    """`sap-warp plot` writes what was asked for, lists names, and complains in one line."""
    target = tmp_path / "a.csv"
    assert main(["plot", "cube", "--signals", "body_q:*.z,energy", "--duration", "0.1", "-o", str(target)]) == 0
    assert target.read_text().splitlines()[0] == "time,step,world,body_q:cube.z,energy"
    assert "samples of 2 signals" in capsys.readouterr().out
    assert main(["plot", "cube", "--list"]) == 0
    assert "joint_q:" in capsys.readouterr().out
    assert main(["plot", "cube", "--signals", "nothing", "-o", str(target)]) == 2
    assert main(["plot", "cube", "-o", str(tmp_path / "a.xls")]) == 2
    errors = capsys.readouterr().err
    assert "'nothing' is not known" in errors and "one of .csv" in errors
