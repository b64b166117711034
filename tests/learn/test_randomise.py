"""What is drawn is what was measured: spreads, correlations, losses, and a supply that sags."""

import json

import numpy as np
import pytest

from axbridge.bus.stats import CycleTimes, LineStats
from axbridge.config.rig import Rig
from axbridge.errors import UsageError
from axbridge.learn.randomise import LineQuality, Parameters, Randomisation, Supply

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


def test_draws_spread_and_hang_together_as_the_fit_says(fit):
    random = np.random.default_rng(0)
    drawn = [fit.drawn(random) for _ in range(2000)]
    efficiency, armature = (np.array([tables["motor"][key] for tables in drawn]) for key in ("efficiency", "armature"))
    coulomb = np.array([tables["friction"]["coulomb"] for tables in drawn])
    assert np.median(efficiency) == pytest.approx(0.6, abs=0.003)
    assert (efficiency.min(), efficiency.max()) == (0.5, 0.65)
    assert np.percentile(efficiency, (16, 84)) - 0.6 == pytest.approx([-0.1 / 1.96, 0.05 / 1.96], rel=0.1)
    assert np.corrcoef(efficiency, armature)[0, 1] == pytest.approx(0.89, abs=0.03)
    assert abs(np.corrcoef(efficiency, coulomb)[0, 1]) < 0.05
    assert np.histogram(coulomb, 4, (0.0, 0.2))[0] == pytest.approx(500, abs=80)  # what is not told is even


def test_every_servo_of_a_robot_is_another_one_and_the_seed_decides(fit):
    randomisation = Randomisation([fit], LineQuality(0.01, 0.002, 0.004), [Supply(11.0, 0.5, 0.05, 0.1)])
    rig = Rig.load("pan_tilt")
    first, again, other = (randomisation.drawn(rig, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == again != other
    pan, tilt = (first.model_of(servo) for servo in first.servos)
    assert pan.motor.efficiency != tilt.motor.efficiency
    assert 0 < pan.sensor.latency_ms - rig.model_of(rig.servos[0]).sensor.latency_ms < 4
    assert first.buses[0].supply_voltage != rig.buses[0].supply_voltage
    assert randomisation.faults() == "drop=0.01,late=0.002"


def test_what_a_bus_lost_is_counted(fit):
    stats, times = LineStats(), CycleTimes()
    counts = stats.of(1)
    counts.asked, counts.timeouts, counts.corrupt, counts.late = 1000, 15, 5, 4
    for index in range(200):
        times.add(index * 0.02, 0.001 if index % 20 else 0.004)
    line = LineQuality.measured({"main": {"cycle": times.as_dict(), "line": stats.as_dict()}})
    assert (line.loss, line.late, line.jitter) == (0.02, 0.004, pytest.approx(0.003))
    assert LineQuality.measured({"sim": {"cycle": times.as_dict(), "line": None}}).loss == 0.0


def test_no_result_of_a_fit_is_refused(tmp_path):
    (tmp_path / "no.json").write_text("{}")
    with pytest.raises(UsageError, match=r"has no 'parameters'\ngive what `axbridge identify"):
        Parameters.load(tmp_path / "no.json")
    with pytest.raises(UsageError, match="No such file"):
        Parameters.load(tmp_path / "none.json")
