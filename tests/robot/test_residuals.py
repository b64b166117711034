"""Residuals of a twin: each cause is named within a second, and the right model raises no alarm."""

import math
import re
from dataclasses import replace

import pytest

import axbridge
from axbridge.bus.cycle import Cycle, CycleServo
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.config.model import PredictionParams
from axbridge.config.rig import Rig
from axbridge.errors import ErrorFlag, FeetechError, HardwareError
from axbridge.robot.backend import open_sim
from axbridge.robot.twin.residuals import REMEDIES, Residuals, Tolerance, tolerance
from axbridge.robot.twin.twin import PassiveTwin
from axbridge.state import ServoState
from tests.support.hand import led
from tests.support.waiting import run
from tests.support.warm import serving

POSES = 0.9, -0.4, 0.3, 1.2, -1.0
MOVING = {
    "bench_arm": ["shoulder"],
    "koch": ["shoulder_lift", "elbow_flex"],
    "head_gripper": ["pan", "tilt", "gripper"],
}


def alarms(real, seconds, model="bench_arm", seed=1):
    """Return the causes named while `real` moves beside a model, with their times, s."""
    events, moving = [], MOVING[model]
    with axbridge.open(real, seed=seed) as robot, axbridge.open(model, seed=2) as twin:
        residuals = Residuals({name: tolerance(spec, spec.model) for name, spec in twin.rig.specs.items()})
        while robot.time < seconds:
            for driven in (robot, twin):
                for name in moving:
                    driven[name].set_position(POSES[int(robot.time / 1.5) % len(POSES)])
            robot.step()
            twin.step()
            states, twins = ({name: driven[name].state for name in moving} for driven in (robot, twin))
            goals = {name: robot[name].target_position for name in moving}
            events += [(robot.time, cause) for cause, _ in residuals.update(robot.time, states, twins, goals)]
    return events


@pytest.fixture
def heavy(tmp_path):
    def made(factor, name="bench_arm"):
        rig = Rig.load(name)
        heavier = re.sub(r'mass value="([\d.]+)"', lambda m: f'mass value="{factor * float(m[1])}"', rig.urdf_text())
        (tmp_path / f"{name}.urdf").write_text(heavier)
        (tmp_path / f"{name}.toml").write_bytes(rig.path.read_bytes())
        return tmp_path / f"{name}.toml"

    return made


def weak():
    rig = Rig.load("bench_arm")
    return rig.with_buses(supply_voltage=rig.buses[0].supply_voltage - 2)


def walled():
    return Rig.load("bench_arm").with_servos(lambda _: {"min_stop": -1.2, "max_stop": 0.5})


@pytest.mark.parametrize(
    ("rig", "difference", "cause"),
    [
        ("bench_arm", 1.3, "extra load"),
        ("koch", 1.5, "extra load"),
        ("bench_arm", 0.7, "missing load"),
        ("bench_arm", weak, "weak supply"),
        ("bench_arm", walled, "blocked"),
    ],
)
def test_a_cause_is_reported_within_a_second(heavy, rig, difference, cause):
    events = alarms(difference() if callable(difference) else heavy(difference, rig), 1.2, rig)
    assert {name for _, name in events} == {cause}
    assert events[0][0] < 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("rig", "seconds"), [("bench_arm", 9.0), ("koch", 5.0), ("head_gripper", 3.0)])
def test_the_right_model_raises_no_alarm(rig, seconds):
    assert alarms(rig, seconds, rig, seed=7) == []


@pytest.mark.parametrize("factor", [1.0, 2.0])
@pytest.mark.parametrize(
    ("name", "servo", "address", "goal"),
    [("bench_arm", "shoulder", 30, b"\xc8\2"), ("koch", "shoulder_lift", 116, b"\xf4\x09\0\0")],
)
@pytest.mark.slow
def test_a_passive_twin_names_an_extra_load_of_another_programs_servos(heavy, name, servo, address, goal, factor):
    rig = Rig.load(name)
    sim = open_sim(Rig.load(heavy(factor, name)))
    bus = sim.buses["main"]
    known = [CycleServo(s.name, s.id, protocol=PROTOCOLS[rig.specs[s.name].profile.protocol]) for s in rig.servos]
    cycle, id_ = Cycle(bus, known), next(s.id for s in rig.servos if s.name == servo)
    bus.write(id_, cycle.servos_by_name[servo].protocol.torque_enable, b"\1")
    bus.write(id_, address, goal)
    twin, events = PassiveTwin(rig, {"main": bus}), []
    for _ in range(100):
        events += twin.update(bus.clock.now(), cycle.receive().states)
        bus.clock.sleep_until(bus.clock.now() + 0.02)
    assert bus.read(id_, address, len(goal)).data == goal  # nothing was written
    twin.close()
    sim.close()
    assert {cause for cause, _ in events} == ({"extra load"} if factor > 1 else set())
    assert {name for _, name in events} <= {servo}


def test_a_model_with_a_small_error_in_all_motion_is_reported_once_as_stale():
    worn = Rig.load("bench_arm").with_servos(lambda _: {"params": {"friction": {"viscous": 0.06}}})
    events = alarms(worn, 12.0)
    assert [name for _, name in events] == ["stale model"]
    assert events[0][0] < 8.0  # after three seconds of motion


def test_the_tolerance_follows_from_the_models_held_out_error():
    rig = Rig.load("bench_arm")
    spec = rig.specs[rig.servos[0].name]

    def tolerance_of(**prediction):
        return tolerance(spec, spec.model.model_copy(update={"prediction": PredictionParams(**prediction)}))

    assert tolerance_of() == Tolerance()
    rough, fine = tolerance_of(held_out_error=0.05, load_share=0.4), tolerance_of(held_out_error=0.01, load_share=0.16)
    assert (rough.off, rough.wrong, rough.share) == (0.2, 0.125, 0.4)
    assert (fine.off, fine.wrong, fine.share) == (0.04, 0.025, 0.16)
    assert tolerance_of(held_out_error=1e-6, load_share=0.0).off > math.radians(1)  # counts alone make such differences


def test_the_duty_of_one_count_is_within_the_tolerance_of_a_load():
    rig = Rig.load("bench_arm").with_model("ax12")
    spec = rig.specs[rig.servos[0].name]
    step = tolerance(spec, spec.model).step
    assert 0.031 < step < 0.041  # slope 32: a count of error is a 32nd of full duty


def state(time, position, load=0.0, temperature=30.0):
    return ServoState(time, position, 0.0, 0.0, load, 11.1, temperature, ErrorFlag(0))


def test_a_powered_joint_that_moves_away_from_its_goal_is_reported_once_as_slipping():
    for goal, expected in ((0.5, [(pytest.approx(0.4, abs=0.15), "slipping")]), (math.nan, [])):
        residuals, events = Residuals({"a": Tolerance()}), []
        for step in range(60):
            time = 0.02 * step
            here = {"a": state(time, 0.5 - 0.4 * time)}  # 23°/s
            named = residuals.update(time, here, {"a": state(time, 0.5)}, {"a": goal})
            events += [(time, cause) for cause, _ in named]
        assert events == expected


def test_overheating_is_reported_below_the_shutdown_limit_and_only_for_servos_that_answered():
    residuals = Residuals({"a": Tolerance(), "b": Tolerance()})
    assert residuals.update(0.0, {"a": state(0.0, 0.0, temperature=64)}, {}, {"a": 0.0}) == []
    assert residuals.update(1.0, {"a": state(1.0, 0.0, temperature=66)}, {}, {"a": 0.0}) == [("overheating", "a")]


@pytest.mark.parametrize(
    ("rig", "hot", "alarm"),
    [
        ("bench_arm", 65, ErrorFlag.OVERLOAD),
        ("koch", 67, HardwareError.ELECTRICAL_SHOCK),
        ("so101", 65, FeetechError.OVERCURRENT),
        ("bioloid", 65, ErrorFlag.OVERHEATING),
    ],
)
def test_temperature_limit_and_shutdown_alarms_are_those_of_the_rigs_servo(rig, hot, alarm):
    rig = Rig.load(rig)
    servo = rig.dynamixels[0]
    spec = rig.specs[servo.name]
    allowed = tolerance(spec, spec.model)
    assert (allowed.hot, allowed.shuts_down & alarm) == (hot, alarm)
    changed = servo.model_copy(update={"registers": {**servo.registers, "temperature_limit": 55}})
    assert tolerance(replace(spec, config=changed), spec.model).hot == 50


def test_no_cause_is_reported_in_late_steps_and_a_cause_is_present_until_it_ends():
    def look(steps, late, load=0.4):
        nonlocal time
        events = []
        for step in range(steps):
            time += 0.02
            real, twin = state(time, 0.3, load=load), state(time, 0.3, load=0.2)
            events += residuals.update(time, {"a": real}, {"a": twin}, {"a": 0.35}, late=late(step))
        return events

    time = 0.0
    residuals = Residuals({"a": Tolerance()})
    assert (look(100, lambda step: step % 2), residuals.present(time)) == ([], {})
    named = look(100, lambda step: step % 10 == 0)
    assert (named, residuals.present(time)) == ([("extra load", "a")], {"a": ["extra load"]})
    assert (look(100, lambda _: False, load=0.2), residuals.present(time)) == ([], {})


@pytest.mark.slow
def test_a_twin_reports_the_cause_in_its_step_without_packets_to_the_simulation(heavy):
    with (
        serving(str(heavy(1.5)), "--model", "lima2009") as port,
        axbridge.open("bench_arm", backend="twin", port=port) as twin,
    ):
        shoulder, events = twin["shoulder"], []
        shoulder.set_position(0.9)
        packets = twin.simulation.world.lines["main"].packets
        while "extra load" not in events:
            assert twin.time < 10.0, events
            twin.step()
            events += [event.kind for event in twin.last_step.events if event.name == "shoulder"]
        before = twin.simulation.world.lines["main"].packets
        twin.simulation.shadow()
        assert twin.simulation.world.lines["main"].packets == before > packets


@pytest.mark.slow
def test_a_twin_follows_a_limp_servo_that_a_hand_moves_without_an_alarm():
    def steps(count):
        events = run(robot, 0.02 * count, lambda: robot.last_step.events)
        return [event.kind for of_step in events for event in of_step if event.kind in REMEDIES]

    def twin():
        return robot.simulation.shadow()["shoulder"].position

    weightless = {"gravity": [0, 0, 0]}  # the hand's servos carry nothing
    with led("bench_arm") as (port, lead), axbridge.open("bench_arm", "twin", port=port, world=weightless) as robot:
        shoulder = robot["shoulder"]
        lead("0 1.2")
        assert steps(5) == []
        assert twin() == pytest.approx(1.2, abs=0.03)  # limp: it goes along
        shoulder.torque_on()
        assert steps(60) == []
        assert twin() == pytest.approx(1.2, abs=0.03)
        shoulder.torque_off()
        lead("0 -0.8")
        shoulder.torque_on()  # without a step in between
        assert steps(60) == []
        assert twin() == pytest.approx(-0.8, abs=0.03)
        shoulder.set_position(0.3)
        steps(100)  # a first goal is approached slowly
        assert twin() == pytest.approx(0.3, abs=0.03)  # and it goes on from there


@pytest.mark.ci
@pytest.mark.slow
def test_a_humanoid_that_is_held_at_the_start_causes_no_alarm_and_its_twin_stands():
    with serving("bioloid") as port, axbridge.open("bioloid", backend="twin", port=port) as robot:
        for servo in robot.values():
            servo.set_position(servo.config.position)
        events = run(robot, 4.0, lambda: robot.last_step.events)
        assert [event for of_step in events for event in of_step if event.kind in REMEDIES] == []
        assert robot.simulation.base[0][2] == pytest.approx(robot.simulation.base_start[0][2], abs=0.03)
