"""A twin's judgement: each cause is named within a second, and the right model raises no alarm."""

import math
import re

import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.errors import ErrorFlag
from axbridge.robot.residuals import Allowance, Residuals, allowance
from axbridge.robot.state import ServoState
from axbridge.serve.background import serving

POSES = 0.9, -0.4, 0.3, 1.2, -1.0


def alarms(real, seconds, seed=1):
    """What is named when `real` moves beside a bench arm, with the time, s."""
    found = []
    with axbridge.open(real, seed=seed) as robot, axbridge.open("bench_arm", seed=2) as twin:
        residuals = Residuals({name: allowance(robot.rig.model_of(servo.config)) for name, servo in robot.items()})
        while robot.time < seconds:
            for one in (robot, twin):
                one["shoulder"].set_position(POSES[int(robot.time / 1.5) % len(POSES)])
            robot.step()
            twin.step()
            states, twins = ({"shoulder": one["shoulder"].state} for one in (robot, twin))
            goals = {"shoulder": robot["shoulder"].target_position}
            found += [(robot.time, cause) for cause, _ in residuals.look(robot.time, states, twins, goals)]
    return found


@pytest.fixture
def heavy(tmp_path):
    def made(factor):
        rig = Rig.load("bench_arm")
        heavier = re.sub(r'mass value="([\d.]+)"', lambda m: f'mass value="{factor * float(m[1])}"', rig.urdf_text())
        (tmp_path / "bench_arm.urdf").write_text(heavier)
        (tmp_path / "bench_arm.toml").write_bytes(rig.path.read_bytes())
        return tmp_path / "bench_arm.toml"

    return made


def weak():
    rig = Rig.load("bench_arm")
    return rig.overridden({"bus": [{**rig.buses[0].model_dump(), "supply_voltage": rig.buses[0].supply_voltage - 2}]})


def walled():
    rig = Rig.load("bench_arm")
    servos = tuple(servo.model_copy(update={"min_stop": -1.2, "max_stop": 0.5}) for servo in rig.servos)
    return rig.model_copy(update={"servos": servos})


@pytest.mark.parametrize(
    ("difference", "cause"),
    [(1.3, "extra load"), (0.7, "missing load"), (weak, "weak supply"), (walled, "blocked")],
    ids=["load +30 %", "load -30 %", "supply -2 V", "hard stop"],
)
def test_a_cause_is_named_within_a_second(heavy, difference, cause):
    found = alarms(difference() if callable(difference) else heavy(difference), 1.2)
    assert {name for _, name in found} == {cause}
    assert found[0][0] < 1.0


def state(time, position, load=0.0, temperature=30.0):
    return ServoState(time, position, 0.0, 0.0, load, 11.1, temperature, ErrorFlag(0))


def test_a_joint_that_moves_away_from_a_goal_that_stands_slips_once_and_a_limp_one_never_does():
    for goal, expected in ((0.5, [(pytest.approx(0.4, abs=0.15), "slipping")]), (math.nan, [])):
        residuals, found = Residuals({"a": Allowance()}), []
        for step in range(60):
            time = 0.02 * step
            here = {"a": state(time, 0.5 - 0.4 * time)}  # 23°/s
            named = residuals.look(time, here, {"a": state(time, 0.5)}, {"a": goal})
            found += [(time, cause) for cause, _ in named]
        assert found == expected


def test_a_hot_servo_is_named_before_it_switches_itself_off():
    residuals = Residuals({"a": Allowance()})
    assert residuals.look(0.0, {"a": state(0.0, 0.0, temperature=64)}, {}, {"a": 0.0}) == []
    assert residuals.look(1.0, {"a": state(1.0, 0.0, temperature=66)}, {}, {"a": 0.0}) == [("overheating", "a")]


def test_the_right_model_raises_no_alarm():
    assert alarms("bench_arm", 30.0, seed=7) == []


@pytest.mark.slow
def test_a_twin_names_the_cause_in_its_step_and_asks_the_simulation_by_no_packet(heavy):
    with (
        serving(str(heavy(1.5)), "--model", "lima2009") as port,
        axbridge.open("bench_arm", backend="twin", port=port) as twin,
    ):
        shoulder, events = twin["shoulder"], []
        shoulder.set_position(0.9)
        packets = twin.simulation.world.lines["main"].counters.packets
        while twin.time < 2.0 and not events:
            twin.step()
            events += [event.kind for event in twin.last_step.events if event.name == "shoulder"]
        assert "extra load" in events
        before = twin.simulation.world.lines["main"].counters.packets
        twin.simulation.shadow()
        assert twin.simulation.world.lines["main"].counters.packets == before > packets
