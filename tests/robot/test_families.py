"""Functions of servos of every family, native or emulated by the host; most as scripts.

A script has steps between commas: ``position=1.0`` (`Servo.set_position`), ``restore`` (a method), ``wait 1.0`` (s),
``velocity~1.4..1.6`` (an attribute in a range, or ``~nan``), ``goal_pwm?-266`` (a register), ``wheel:native`` (a
capability), ``write operating_mode=1``, ``another mode`` and ``same mode`` (than at first, by the registers of `MODE`).
"""

import math
import re
from functools import partial
from operator import attrgetter

import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.errors import ControlWarning, FeetechError, HardwareError, RigError, ServoFault, UnsupportedOperation
from axbridge.errors import ErrorFlag as AxError
from axbridge.robot.backend import open_sim
from axbridge.robot.rig_check import check_rig
from axbridge.robot.robot import Robot
from axbridge.robot.safety.policies import hold
from tests.support.ideal_world import Bench
from tests.support.robot_files import write_comb, write_feetech_comb, write_horn
from tests.support.waiting import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*(turns in wheel mode|no current sensor):axbridge.errors.ControlWarning"),
]

FAMILIES = {"ax-12a": "pan", "xl330-m288": "wrist_roll", "sts3215": "s1", "scs0009": "s1"}  # light joints
MODE = {  # registers that make a wheel
    "ax-12a": ("cw_angle_limit", "ccw_angle_limit"),
    "xl330-m288": ("operating_mode",),
    "sts3215": ("operating_mode",),
    "scs0009": ("min_position_limit", "max_position_limit"),
}
FEETECH = ("sts3215", "scs0009")


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture
def robot(family, tmp_path):
    rigs = {"ax-12a": "pan_tilt", "xl330-m288": "koch"}
    with axbridge.open(rigs.get(family) or write_feetech_comb(tmp_path, profile=family)) as opened:
        yield opened


@pytest.fixture
def servo(robot, family):
    return robot[FAMILIES[family]]


def values(servo, *registers):
    return tuple(servo.read(register) for register in registers)


STEP = re.compile(r"(?:(wait|write) )?([\w.]+)(?:([=~?:])(\S+))?|(\w+) mode")


def play(robot, servo, script, mode=()):
    """Execute the steps of a script; `mode` are the registers that make a wheel."""
    numbers = {"inf": math.inf, "nan": math.nan, "fast": servo.max_velocity, "strong": servo.max_torque}
    before = values(servo, *mode)
    for step in script.split(","):
        verb, word, kind, text, other = STEP.fullmatch(step.strip()).groups()
        if other:
            assert (values(servo, *mode) == before) is (other == "same"), step
        elif verb == "wait":
            run(robot, float(word))
        elif verb == "write":
            servo.write(word, int(text))
        elif kind == "=":
            getattr(servo, f"set_{word}")(eval(text, numbers))
        elif kind == ":":
            assert servo.capabilities[word] == text, step
        elif kind:
            seen = servo.read(word) if kind == "?" else attrgetter(word)(servo)
            low, _, high = text.partition("..")
            assert float(low) <= seen <= float(high or low) or (text == "nan" and math.isnan(seen)), (step, seen)
        else:
            getattr(servo, word)()


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            "velocity=0.5, position=1.0, wait 1.0, position~0.3..0.6, velocity~0.3..0.7, velocity=0, wait 1.0,"
            " position~0.3..0.7, velocity=fast, wait 1.5, position~0.92..1.08",
            id="a joint reaches its goal at the commanded speed",
        ),
        pytest.param(
            "position=inf, velocity=1.5, wait 1.0, velocity~1.1..1.9, velocity=-1.0, wait 1.0, velocity~-1.4..-0.6,"
            " another mode, velocity=fast, position=0, wait 2.5, position~-0.1..0.1, same mode",
            id="a wheel turns both ways and is a joint again",
        ),
        pytest.param(
            "duty=0.4, wait 0.4, velocity~0.25..99, load~0.35..0.45, goals.position~nan, duty=-0.4, wait 0.4,"
            " velocity~-99..-0.25, load~-0.45..-0.35, goals.position~nan, another mode, position=0, wait 0.1,"
            " goals.duty~nan, duty=0.2, wait 0.1, restore, same mode, torque_enable?0, torque_enabled~0",
            id="a duty drives both ways until another command",
        ),
    ],
)
def test_a_servo_of_each_family_moves_as_commanded(robot, servo, family, script):
    play(robot, servo, script, MODE[family])


def test_an_impossible_duty_is_refused_and_a_large_one_clipped(servo):
    with pytest.warns(ControlWarning, match="NaN"):
        servo.set_duty(math.nan)
    assert not servo.torque_enabled
    with pytest.warns(ControlWarning, match="requested duty 3 exceeds full duty, 1"):
        servo.set_duty(3.0)
    assert servo.goals.duty == 1.0


def test_an_ideal_joint_refuses_a_duty(tmp_path):
    with Bench(tmp_path).open({}) as robot, pytest.raises(UnsupportedOperation, match="not by duty"):
        next(iter(robot.values())).set_duty(0.5)


def test_an_overload_is_reported_and_recover_ends_it(robot, servo, family):
    servo.set_position(0.3)
    run(robot, 1.0)
    virtual = robot.simulation.world.servos[servo.name]
    if family in FEETECH:  # it goes on with a fifth of its torque
        virtual.overload(robot.time)
        run(robot, 0.2)
        assert servo.errors == FeetechError.OVERLOAD
        assert robot.causes == {servo.name: ["overload"]}
    else:
        robot.simulation.inject(f"overload:{servo.config.id}")
        message = f"{servo.name!r} has no torque, and stays limp until recover.*overload"
        with pytest.warns(ControlWarning, match=message):
            run(robot, 0.2)
        assert servo.errors == (AxError if family == "ax-12a" else HardwareError).OVERLOAD
        assert (robot.causes, robot.withheld) == ({servo.name: ["torque off", "overload"]}, {servo.name})
        assert not servo.torque_enabled
        servo.set_position(-0.3)
        servo.torque_on()  # nothing but `recover` wakes it
        run(robot, 0.5)
        assert servo.position == pytest.approx(0.3, abs=0.05)
    servo.recover()
    servo.set_position(-0.3)
    run(robot, 3.0)
    assert not servo.errors
    assert (robot.causes, robot.withheld) == ({}, frozenset())
    assert servo.position == pytest.approx(-0.3, abs=0.06)
    robot.stop()
    servo.recover()
    assert servo.read("torque_enable") == 0


def test_close_restores_the_mode_with_few_eeprom_writes(tmp_path):
    rig = write_feetech_comb(tmp_path)
    with axbridge.open(rig) as robot:
        servo, virtual = robot["s1"], robot.simulation.world.servos["s1"]
        servo.set_duty(0.2)
        run(robot, 0.1)
        assert values(servo, "operating_mode", "lock") == (2, 1)
        virtual.power_cycle(robot.time)
        assert virtual.table["operating_mode"] == 0
    assert (virtual.table["operating_mode"], virtual.table["torque_enable"]) == (0, 0)


def test_servos_of_two_makers_on_one_bus_are_refused(tmp_path):
    rig = write_comb(tmp_path, 2)
    rig.write_text(rig.read_text().replace('name = "s2"', 'name = "s2"\nprofile = "sts3215"\nzero = 2048'))
    with pytest.raises(RigError, match="a Feetech servo cannot be on the bus of 's1', which is a Dynamixel"):
        axbridge.open(rig)


@pytest.mark.parametrize("opener", [axbridge.open, lambda rig: check_rig(Rig.load(rig))])
def test_id_253_of_protocol_1_is_refused_beside_servos_of_protocol_2(tmp_path, opener):
    rig = tmp_path / "rig.toml"
    rig.write_text('base = "head_gripper"\nname = "rig"\n[[servo]]\nname = "pan"\nid = 253\n')
    with pytest.raises(RigError, match="253 cannot be the id of a servo of Protocol 1.0 on the bus of 'gripper'"):
        opener(rig)


def opened(rig, name, **registers):
    return axbridge.open(
        Rig.load(rig).with_servos(lambda s: {"registers": s.registers | registers} if s.name == name else {})
    )


@pytest.fixture
def koch():
    with axbridge.open("koch") as made:
        yield made


SCRIPTS = {  # by rig, servo and its registers
    "koch elbow_flex operating_mode=1 drive_mode=4 position_p_gain=700": {
        # its loop has no integral; a change of mode resets gains, but for those of the rig
        "mode and profile registers are changed for a goal and restored": "position=0.3, wait 2.0, operating_mode?3,"
        " drive_mode?0, position~0.15..0.45, position_p_gain?700, restore, operating_mode?1, drive_mode?4, torque_enable?0",
    },
    **{
        f"koch shoulder_pan {registers}": {
            f"zero and direction are correct with {registers}": "position=0.5, wait 0.2, velocity~0.4..9, wait 0.8,"
            f" {registers.replace('=', '?').replace(' ', ', ')}, position~0.47..0.53, present_position?2354..2394,"
            " truth.position~0.47..0.53",
        }
        for registers in ("homing_offset=300", "drive_mode=1", "drive_mode=1 homing_offset=-90")
    },
    "horn horn": {  # of 0.05 kg·m²
        **{
            f"a wheel with {speed} rad/s becomes a joint in its turn": f"position=inf, velocity={speed},"
            f" wait 5.0, truth.position~{turned}, velocity={again}, position=0.4, wait 5.0,"
            f" position~0.35..0.45, truth.position~{goal}"
            for speed, turned, again, goal in (
                (4.0, "20..21", "fast", "19.2..19.3"),
                (-4.0, "-21..-20", 1.0, "-18.5..-18.4"),
            )
        },
        "a wheel that is off in the dead zone has velocity 0": "position=inf, velocity=1.0, wait 3.5,"
        " turned~3.2..3.5, velocity~0.95..1.05, torque_off, wait 0.1, velocity~0, load~0,"
        " turned~3.3..3.6",
        "a wheel that is switched off and on stands": "position=inf, velocity=2.0, wait 0.2,"
        " torque_off, wait 0.02, torque_on, moving_speed?0, wait 4.0, velocity~-0.05..0.05",
    },
    "horn horn cw_angle_limit=0 ccw_angle_limit=0": {
        "a wheel that is found becomes a joint": "position=0.3, wait 2.0, position~0.25..0.35",
    },
    "koch shoulder_pan": {
        "speed and acceleration use the profile registers": "acceleration:native, velocity:native,"
        " velocity=1.0, acceleration=2.0, position=1.0, wait 0.4, velocity~0.6..0.9, wait 0.3,"
        " velocity~0.95..1.05, profile_acceleration?5, profile_velocity?42, acceleration=-1,"
        " velocity=fast, wait 0.04, profile_acceleration?0, profile_velocity?0",
        "without a current mode, a torque uses PWM mode": "torque:emulated, torque=0.2, wait 0.2,"
        " operating_mode?16, velocity~0.1..9",
    },
    "koch wrist_roll": {  # light, and free for 5.8 rad
        "a speed uses the velocity mode, which counts turns": "wheel:native, position=-2.5, wait 1.5,"
        " position=inf, velocity=1.5, wait 1.5, operating_mode?1, goal_velocity?63,"
        " velocity~1.45..1.55, turned~-0.6..-0.2, wait 1.0, turned~0.9..1.3, acceleration=2.0,"
        " velocity=0.0, wait 0.4, velocity~0.5..1.0",
    },
    "xl330_pendulum pendulum": {
        "a duty uses PWM mode and keeps the torque cap, which is one of the duty": "duty:native,"
        " available_torque=strong/2, duty=-0.3, wait 0.4, operating_mode?16, goal_pwm?-266, load~-0.302..-0.298,"
        " position=0, wait 0.4, operating_mode?3, goal_pwm?442",
        # friction hangs on to where it stopped swinging
        "a torque uses the current mode": "torque:native, torque=0.1, wait 2.0, operating_mode?0, truth.torque~0.08..0.12,"
        " goal_current?1..1750",
        "a negative torque uses the current mode": "torque=-0.2, wait 2.0, operating_mode?0, truth.torque~-0.22..-0.18,"
        " goal_current?-1750..-1",
        # its supply is above its limit, and its Shutdown says that this does not matter
        "an error outside Shutdown does not keep the torque off": "wait 0.5, hardware_error_status?1, position=0.3,"
        " wait 0.5, torque_enable?1",
    },
    "xl330_pendulum pendulum operating_mode=4": {  # its loop has no integral, and it swings 0.49 kg
        "extended position mode reaches a goal beyond a turn": "extended_position:native, position=10.0, wait 4.0,"
        " operating_mode?4, position~9.2..10.8",
    },
    "xl330_pendulum pendulum operating_mode=5": {  # what it lifts, or holds with its friction
        "current-based position mode limits the torque by the current": "available_torque:native, position=1.5, wait 0.1,"
        " goal_current?1750, available_torque=0.1, wait 2.5, goal_current?1..499, truth.torque~0.07..0.13, goal_pwm?885",
    },
    "feetech s1": {
        "a far first goal is approached slowly": "position=1.2, wait 0.5, velocity~0.3..1.5, wait 1.5,"
        " position~1.1..1.3, position=0, wait 0.2, velocity~-99..-2.0, wait 1.8, position~-0.1..0.1",
        **{
            f"mode {mode} of another program is changed": f"write operating_mode={mode}, torque_on,"
            " wait 0.5, operating_mode?0, position~-0.02..0.02"
            for mode in (1, 2, 3)
        },
    },
}


@pytest.mark.parametrize(
    ("given", "script"),
    [pytest.param(key, text, id=name) for key, all_ in SCRIPTS.items() for name, text in all_.items()],
)
def test_a_servo_uses_its_own_modes(given, script, tmp_path):
    rig, name, *registers = given.split()
    horn = partial(write_horn, profile="ax-12a", inertia=0.05)
    write = {"feetech": write_feetech_comb, "horn": horn}.get(rig)
    rig = write(tmp_path) if write else rig
    with opened(rig, name, **{key: int(value) for key, value in (each.split("=") for each in registers)}) as robot:
        play(robot, robot[name], script)


def test_hold_stops_servos_that_turn(koch):
    koch["wrist_roll"].set_position(math.inf)
    koch["wrist_roll"].set_velocity(1.0)
    koch["wrist_flex"].set_torque(0.05)
    koch["shoulder_pan"].set_duty(0.2)
    koch["gripper"].set_position(0.2)
    run(koch, 0.3)
    (cycle,) = koch._connection.cycles.values()
    assert hold(cycle) == {}
    read = {"wrist_roll": "goal_velocity", "wrist_flex": "goal_current", "shoulder_pan": "goal_pwm"}
    assert [koch[name].read(register) for name, register in read.items()] == [0, 0, 0]
    assert koch["gripper"].read("torque_enable") == 1


def test_a_refused_write_names_the_hardware_error():
    servo = {"name": "horn", "joint": "horn", "id": 1, "profile": "xl330-m288", "zero": 2048}
    rig = Rig.load("bare_horn").overridden({"servo": [servo]})  # at 12 V
    with Robot(rig, open_sim(rig)) as robot:
        for _ in range(20):
            robot.step(100)
        words = r"reports instruction failed, a hardware error: input voltage \(0x81\)"
        with pytest.raises(ServoFault, match=words):
            robot["horn"].write("torque_enable", 1)
