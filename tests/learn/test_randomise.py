"""Draws have the measured spreads, correlations, packet losses and supply sag."""

import json
import math

import numpy as np
import pytest

from axbridge.bus.stats import CycleTimes, LineStats
from axbridge.config.rig import Rig
from axbridge.errors import UsageError
from axbridge.learn.randomise import LineQuality, Parameters, Randomisation, Supply
from axbridge.robot.open import open_robot

FIT = {
    "parameters": {
        "motor.efficiency": {"value": 0.6, "low": 0.5, "high": 0.65},
        "motor.armature": {"value": 0.008, "low": 0.007, "high": 0.009},
        "friction.coulomb": {"value": 0.05, "low": 0.0, "high": 0.2},
    },
    "correlations": {
        "motor.efficiency": {"motor.efficiency": 1.0, "motor.armature": 0.9, "friction.coulomb": 0.0},
        "motor.armature": {"motor.efficiency": 0.9, "motor.armature": 1.0, "friction.coulomb": 0.0},
        "friction.coulomb": {"motor.efficiency": 0.0, "motor.armature": 0.0, "friction.coulomb": 1.0},
    },
    "cannot_tell": ["friction.coulomb"],
}


@pytest.fixture
def fit(tmp_path):
    path = tmp_path / "fit.json"
    path.write_text(json.dumps(FIT))
    return Parameters.load(path)


def test_draws_have_the_spread_and_correlation_of_the_fit(fit):
    random = np.random.default_rng(0)
    drawn = [fit.drawn(random) for _ in range(2000)]
    efficiency, armature = (np.array([tables["motor"][key] for tables in drawn]) for key in ("efficiency", "armature"))
    coulomb = np.array([tables["friction"]["coulomb"] for tables in drawn])
    assert np.median(efficiency) == pytest.approx(0.6, abs=0.003)
    assert (efficiency.min(), efficiency.max()) == (0.5, 0.65)
    assert np.percentile(efficiency, (16, 84)) - 0.6 == pytest.approx([-0.1 / 1.96, 0.05 / 1.96], rel=0.1)
    assert np.corrcoef(efficiency, armature)[0, 1] == pytest.approx(0.89, abs=0.03)
    assert abs(np.corrcoef(efficiency, coulomb)[0, 1]) < 0.05
    assert np.histogram(coulomb, 4, (0.0, 0.2))[0] == pytest.approx(500, abs=80)  # not identified: even


def test_every_servo_draws_its_own_values_by_the_seed(fit):
    randomisation = Randomisation([fit], LineQuality(0.01, 0.002, 0.004), [Supply(11.0, 0.5, 0.05, 0.1)])
    rig = Rig.load("pan_tilt")
    first, again, other = (randomisation.drawn(rig, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == again != other
    pan, tilt = (first.specs[servo.name].model for servo in first.servos)
    assert pan.motor.efficiency != tilt.motor.efficiency
    assert 0 < pan.sensor.latency_ms - rig.specs[rig.servos[0].name].model.sensor.latency_ms < 4
    assert first.buses[0].supply_voltage != rig.buses[0].supply_voltage
    assert randomisation.faults() == "drop=0.01,late=0.002"


def test_packet_loss_is_taken_from_the_bus_statistics(fit):
    stats, times = LineStats(), CycleTimes()
    counts = stats.of(1)
    counts.asked, counts.timeouts, counts.corrupt, counts.late = 1000, 15, 5, 4
    for index in range(200):
        times.add(index * 0.02, 0.001 if index % 20 else 0.004)
    line = LineQuality.measured({"main": {"cycle": times.as_dict(), "line": stats.as_dict()}})
    assert (line.loss, line.late, line.jitter) == (0.02, 0.004, pytest.approx(0.003))
    assert LineQuality.measured({"sim": {"cycle": times.as_dict(), "line": None}}).loss == 0.0


def test_ranges_draw_each_servo_and_each_link_by_itself_and_the_seed_decides():
    randomisation = Randomisation(
        ranges={"friction": (0.02, 0.06), "motor.dead_duty": (0.0, 0.1), "supply": (10.0, 12.0), "mass": (0.5, 2.0),
                "floor": (0.3, 0.9)},
    )  # fmt: skip
    rig = Rig.load("bioloid")
    first, again, other = (randomisation.drawn(rig, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == again != other
    models = [first.specs[servo.name].model for servo in first.servos]
    dry = [model.friction.coulomb + model.friction.output for model in models]
    assert 0.02 <= min(dry) < max(dry) <= 0.06
    assert len(set(dry)) == len(dry)
    assert len({model.motor.dead_duty for model in models}) == len(models)
    assert 10.0 <= first.buses[0].supply_voltage <= 12.0
    drawn, plain = first.tree(), rig.tree()
    factors = drawn.mass / plain.mass
    assert 0.5 <= factors.min() < factors.max() <= 2.0
    np.testing.assert_allclose(drawn.inertia, plain.inertia * factors[:, None, None], rtol=1e-12)
    (floor,) = {shape.friction for shape in first.shapes("collision")}
    assert 0.3 <= floor <= 0.9


def test_a_link_of_twice_the_mass_needs_twice_the_torque():
    rig = Rig.load("bench_arm").with_servos(lambda _: {"position": 1.0})
    loads = []
    for factor in (1.0, 2.0):
        drawn = Randomisation(ranges={"mass": (factor, factor)}).drawn(rig, np.random.default_rng(0))
        with open_robot(drawn, "sim") as robot:
            loads.append(float(robot.simulation.world.engine.load()[0]))
    assert loads[1] == pytest.approx(2 * loads[0], rel=1e-3)  # it has sunk a little
    assert abs(loads[0]) > 0.01


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (Randomisation, {"ranges": {"fricton": (0.0, 0.1)}}, "did you mean 'friction'"),
        (Randomisation, {"ranges": {"friction": (0.1, 0.0)}}, "0.1 to 0 is no range"),
        (Randomisation, {"ranges": {"friction": 0.1}}, "no lowest and highest value"),
        (Randomisation, {"ranges": {"mass": (0.0, 1.0)}}, "mass: 0 is too little"),
        (Randomisation, {"ranges": [0.1]}, "ranges is a dict"),
        (Randomisation, {"ranges": {"friction": (-0.1, 0.1)}}, "friction: -0.1 is negative"),
        (Randomisation, {"supplies": Supply(11.1, 0.3)}, "supplies is a list of Supply"),
        (Randomisation, {"parameters": [1]}, "parameters is a list of Parameters"),
        (Randomisation, {"line": 0.1}, "line is a LineQuality"),
        (LineQuality, {"loss": 2}, "loss = 2 of a LineQuality\ngive a number from 0 to 1"),
        (LineQuality, {"jitter": math.nan}, "jitter = nan of a LineQuality"),
        (Supply, {"voltage": -3, "resistance": 0.1}, "voltage = -3 of a Supply"),
        (Supply, {"voltage": "12", "resistance": 0.1}, "voltage = '12' of a Supply"),
    ],
)
def test_wrong_values_of_a_randomisation_a_line_or_a_supply_are_refused(kind, options, message):
    with pytest.raises(UsageError, match=message):
        kind(**options)


def test_no_result_of_a_fit_is_refused(tmp_path):
    (tmp_path / "no.json").write_text("{}")
    with pytest.raises(UsageError, match=r"has no 'parameters'\ngive what `axbridge identify"):
        Parameters.load(tmp_path / "no.json")
    with pytest.raises(UsageError, match="No such file"):
        Parameters.load(tmp_path / "none.json")
