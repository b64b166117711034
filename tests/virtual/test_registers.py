"""Effects of the virtual servo's registers, by family (e-manual; SMS/STS memory table), one script per fact.

A script has steps between commas. The reply to a write or an instruction has no error unless the step names one:

- ``led=1``, ``led=2 RANGE`` (refused with it), ``led=1 -`` (no reply), ``goal_position=9 later`` (REG_WRITE);
- ``led?1``, ``moving_status?&8``: value of a register; ``GOAL~100*count``: command of the motor;
- ``ACTION``, ``PING OVERLOAD``, ``FACTORY_RESET:ff``: an instruction, its parameters, the error of its reply;
- ``wait 0.1`` (s), ``turn 300`` (the shaft, counts from the middle), ``sense temperature=75`` (the motor's state),
  ``stall`` and ``free`` (the shaft is held), ``volts 5.5``, ``power`` (off and on), ``fault deaf``.
"""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.bus.protocols.v1 import encode
from axbridge.bus.protocols.v2 import ALERT
from axbridge.config.profile import Area, FirmwareProfile
from axbridge.config.registers import Instruction
from axbridge.errors import ErrorFlag, FeetechError, HardwareError, StatusError
from axbridge.servo.columns import Command, Mode, State
from axbridge.units import RPM
from tests.support.virtual_rig import Host, Wire, make_world

X = ("xl330-m288", "xl330-m077", "xl430-w250", "mx-28-2.0")
ERRORS = {name: protocol.alarms.__members__ for name, protocol in PROTOCOLS.items()} | {
    2: {name: getattr(StatusError, name) for name in dir(StatusError) if name.isupper()} | {"ALERT": ALERT},
}
STEP = re.compile(r"(\w+)(?:([=?~:])(\S+))?(?: (\S+))?")


def play(host, script):
    """Execute the steps of a script."""
    profile, bank = host.servo.profile, host.world.bank
    names = {
        "count": profile.units.position,
        "speed": profile.units.speed,
        "RPM": RPM,
        **vars(math),
        **Mode.__members__,
    }
    errors = {"later": 0, "-": None, None: 0}
    for step in script.split(","):
        word, kind, text, more = STEP.fullmatch(step.strip()).groups()
        value = eval(text, names) if kind and kind in "=~" else text
        if kind == "?":
            seen = host.read(word)
            assert eval(f"{seen} {text}" if text[0] in "<>&" else f"{seen} == {text}"), (step, seen)
        elif kind == "~":
            assert host.command[Command[word]] == pytest.approx(value), step
        elif kind == "=" or word in Instruction.__members__:
            expected = errors[more] if more in errors else eval(more, {}, dict(ERRORS[profile.protocol]))
            if kind == "=":
                code = Instruction.REG_WRITE if more == "later" else Instruction.WRITE
                assert host.write(word, value, code=code) == expected, step
            else:
                answers = host.ask(Instruction[word], bytes.fromhex(text or ""))
                assert [answer.code for answer in answers] == [expected][: expected is not None], step
        elif word == "wait":
            host.wait(float(more))
        elif word == "turn":
            host.state(**dict.fromkeys(("angle", "reading"), int(more) * profile.units.position))
        elif word == "sense":
            name, _, number = more.partition("=")
            host.state(**{name: float(number)})
        elif word in {"stall", "free"}:
            bank.stall[:] = word == "stall"
        elif word == "volts":
            bank.supply[:] = float(more)
        elif word == "fault":
            host.world.inject(more)
        else:
            assert word == "power"
            host.world.inject("power-cycle")
            host.wait(0.6)


def host_of(profile, **options):
    """Return a servo of the profile, with optional registers of its rig."""
    name, *registers = profile.split()
    values = {key: int(value) for key, value in (each.split("=") for each in registers)}
    multi_turn = {key: values.pop(key) for key in [*values] if key.endswith("angle_limit") and values[key] == 4095}
    host = Host(make_world(profile=name, return_delay_time=0, **values, **options), patience=0.015)
    for key, value in multi_turn.items():  # a rig cannot set this mode
        host.write(key, value)
        host.wait(0.1)
    return host


SLOPES = ((0, 2), (3, 2), (4, 4), (15, 8), (16, 16), (63, 32), (64, 64), (128, 128), (254, 128))
FORGOTTEN = (
    "p_gain=7, p_gain?7, P_GAIN~7, power, p_gain?>8, lock=0, p_gain=8, lock=1, p_gain=9, power, p_gain?8, lock?1"
)
MULTI_TURN = "cw_angle_limit=4095, ccw_angle_limit=4095"
SCRIPTS = {
    "ax-12a": {
        "a goal waits for ACTION": "goal_position=500 later, registered_instruction?1, goal_position?512, ACTION,"
        " registered_instruction?0, goal_position?500",
        "Lock protects the EEPROM until power-off": "lock=0 RANGE, lock=1, min_voltage_limit=70 RANGE, led=1,"
        " lock=0 RANGE, power, lock?0",
        "a factory reset": "temperature_limit=50, FACTORY_RESET, wait 0.5, temperature_limit?70",
        "Max Torque takes effect at the next start": "max_torque=512, torque_limit?1023, power, torque_limit?512",
        "a goal switches the torque on, and the shaft arrives": "torque_enable?0, goal_position=700, torque_enable?1,"
        " moving?1, wait 2, present_position?700, moving?0",
        "torque on holds the present position": "turn 98, torque_enable=1, goal_position?610, present_position?610",
        "speed and load have a direction bit": "goal_position=0, wait 0.05, present_speed?&0x400, present_load?&0x400,"
        " goal_position=1023, wait 0.05, present_speed?<0x400",
        "compliance slopes are rounded to steps": ", ".join(
            f"cw_compliance_slope={written}, cw_compliance_slope?{written}, SLOPE_CW~{effective}*count"
            for written, effective in SLOPES
        ),
        "Torque Limit ends the shutdown of a stall": "stall, goal_position=900, wait 1, PING, wait 1, PING OVERLOAD,"
        " torque_limit?0, torque_enable?1, TORQUE~0, free, torque_limit=1023 OVERLOAD, wait 0.5, PING, TORQUE~1",
        "a servo without torque does not drive": "goal_position=900, wait 0.01, moving?1, fault overload:1,"
        " wait 0.03, torque_limit?0, torque_enable?1, moving?0",
        "Torque Enable ends the shutdown of a stall": "fault overload:1, wait 0.05, torque_limit?0, torque_enable=1 OVERLOAD, torque_limit?1023,"
        " wait 0.05, PING",
        "an overload outside Shutdown is only reported": "shutdown=0, wait 0.05, stall, goal_position=900, wait 2, PING OVERLOAD,"
        " torque_limit?1023, free, wait 0.5, PING",
        "alarms are bits of each reply": "volts 5.5, wait 0.1, PING INPUT_VOLTAGE, present_voltage?55,"
        " goal_position=4000 INPUT_VOLTAGE|RANGE, volts 11.1, wait 0.1, PING, fault overload:1, fault overheat:1, wait 0.1,"
        " PING OVERLOAD|OVERHEATING",
        "a dead servo does not reply until it is revived": "fault dead:1, wait 0.05, PING -, fault none, wait 0.3, PING",
        "overheating shuts down": "goal_position=600, sense temperature=70.4, wait 0.05, PING,"
        " sense temperature=75, wait 0.05, PING OVERHEATING, TORQUE~0",
    },
    "ax-12a cw_angle_limit=0 ccw_angle_limit=0": {
        "wheel mode sets a duty and ignores goals and Torque Enable": "goal_position=100 ANGLE_LIMIT,"
        " moving_speed=1536, torque_enable?0, wait 0.05, DUTY~-512/1023, present_speed?&0x400, torque_enable=0, TORQUE~0",
    },
    "ax-12": {
        "voltage limits go up to 25 V": "min_voltage_limit=100, max_voltage_limit=250",
        "Lock of 2006 leaves only 24 to 35": "lock=1, lock=1, punch=64 RANGE, torque_limit=500",
        "a shutdown of 2006 clears Torque Enable, which ends it": "shutdown=0x24, goal_position=600,"
        " fault overload:1, wait 0.05, PING OVERLOAD, torque_enable?0, goal_position=500 OVERLOAD, torque_limit=1000 OVERLOAD,"
        " torque_enable?0, torque_enable=1 OVERLOAD, wait 0.05, PING, TORQUE~1",
    },
    "ax-12 cw_angle_limit=0 ccw_angle_limit=0 shutdown=36": {
        "a speed starts no wheel after a shutdown of 2006, and it shuts down again": "moving_speed=512, TORQUE~1,"
        " fault overload:1, wait 0.05, moving_speed=512 OVERLOAD, TORQUE~0, torque_enable=1 OVERLOAD, TORQUE~1,"
        " moving_speed=1023, stall, wait 2, PING OVERLOAD, TORQUE~0, moving_speed=500 OVERLOAD, TORQUE~0",
    },
    "mx-28": {
        "Lock stays until power-off": "lock=0, lock=1, lock=0 RANGE, id=2 RANGE, lock=1, power, lock=0, max_torque=9",
        "wheel mode sets a speed": "cw_angle_limit=0, ccw_angle_limit=0, torque_enable=1, moving_speed=0x400|100, wait 0.1,"
        " SPEED~-100*speed, present_speed?0x400|100",
        "multi-turn goals exceed a turn": f"goal_position=5000 RANGE, {MULTI_TURN}, goal_position=-3000, wait 3,"
        " present_position?-3000, goal_position=28673 RANGE",
        "divider and offset act in multi-turn mode": f"{MULTI_TURN}, present_position?2048, multi_turn_offset=100,"
        " resolution_divider=2, present_position?1124",
        "an overload stays until power-off": "fault overload:1, wait 0.05, torque_limit=1023 OVERLOAD, torque_limit?0,"
        " wait 0.1, PING OVERLOAD, power, PING",
        "registers of the loop": "d_gain=3, i_gain=2, p_gain=40, goal_acceleration=10, D_GAIN~3, I_GAIN~2, P_GAIN~40,"
        " ACCELERATION~10*radians(8.583)",
        "the tick counts milliseconds and wraps": "wait 33, realtime_tick?<500",
    },
    "xl330-m288": {
        "unknown instructions": "PING, ACTION INSTRUCTION, CLEAR:0244584c22 RANGE",
        "a goal waits for ACTION": "torque_enable=1, goal_position=3000 later, registered_instruction?1, goal_position?2048,"
        " ACTION, registered_instruction?0, goal_position?3000",
        "the EEPROM is locked while torque is on": "torque_enable=1, moving_threshold=9 ACCESS, torque_enable=0,"
        " moving_threshold=9",
        "limits are registers": "min_position_limit=1000, max_position_limit=3000, velocity_limit=100,"
        " goal_position=999 LIMIT, goal_position=3001 LIMIT, goal_velocity=-101 LIMIT, goal_position=1000, goal_velocity=-100",
        "a change of mode resets gains, profiles and goals": "position_p_gain=1, profile_velocity=5, profile_acceleration=5,"
        " goal_pwm=3, goal_current=3, operating_mode=4, position_p_gain?400, profile_velocity?0, profile_acceleration?0,"
        " goal_pwm?885, goal_current?1750",
        "Goal PWM caps the duty": "torque_enable=1, goal_pwm=200, TORQUE_LIMIT~200/885",
        "a profile is a speed and an acceleration": "torque_enable=1, profile_velocity=100, profile_acceleration=20,"
        " goal_position=3072, SPEED~22.9*RPM, ACCELERATION~20*214.577*RPM/60",
        "a time-based profile has a duration": "drive_mode=4, torque_enable=1, profile_velocity=1000, profile_acceleration=200,"
        " goal_position=3072, SPEED~1024*count/0.8, ACCELERATION~1024*count/0.8/0.2",
        "a goal switches torque on if Drive Mode allows": "goal_position=2100, torque_enable?0, drive_mode=8,"
        " goal_position=2100, torque_enable?1, goal_position?2100",
        "torque on in position mode resets the turns": "turn 8500, present_position?2048+8500,"
        " torque_enable=1, present_position?2048+308, goal_position?2048+308, GOAL~8500*count",
        "CLEAR resets turns unless the servo moves": "operating_mode=4, turn -12288, present_position?2048-12288, CLEAR:0144584c22,"
        " present_position?2048, torque_enable=1, goal_position=9000, CLEAR:0144584c22 RESULT",
        "the homing offset is added, a large one not in position mode": "homing_offset=-1000, present_position?1048,"
        " homing_offset=1025, present_position?2048, operating_mode=4, present_position?3073",
        "reverse mode reverses positions": "turn 100, drive_mode=1, present_position?4095-2148",
        "Moving Status follows the profile": "torque_enable=1, moving?0, moving_status?1, profile_velocity=50, stall,"
        " goal_position=3000, wait 0.01, moving_status?&0x39==0x18",
        "a radio protocol without a receiver leaves it 2.0": "protocol_type=1 RANGE, protocol_type=20, PING",
        "the tick counts milliseconds": "realtime_tick?<100, wait 1, realtime_tick?>1000, realtime_tick?<1150",
        "the Bus Watchdog stops a servo without packets": "operating_mode=1, torque_enable=1, goal_velocity=100,"
        " bus_watchdog=10, " + 5 * "wait 0.15, bus_watchdog?10, " + "SPEED~100*speed, wait 0.25, SPEED~0, bus_watchdog?-1,"
        " torque_enable?1, goal_velocity=100 RANGE, bus_watchdog=0, goal_velocity=100",
        "the Bus Watchdog waits while torque is off": "bus_watchdog=1, wait 1, bus_watchdog?1",
        "Bus Watchdog expiry ends the current": "operating_mode=0, torque_enable=1, bus_watchdog=1, CURRENT~1.75, wait 0.1, CURRENT~0",
        "Bus Watchdog expiry ends the duty": "operating_mode=16, torque_enable=1, bus_watchdog=1, DUTY~1, wait 0.1, DUTY~0",
        # a real one held its load at full duty for 3.1 s (docs/servos.md)
        "an overload ends the torque until a reboot": "torque_enable=1, stall, goal_position=4000, wait 3.1,"
        " hardware_error_status?0, wait 2.5, hardware_error_status?0x20, torque_enable?0, TORQUE~0, led=1 ALERT,"
        " torque_enable=1 ALERT|RESULT, free, REBOOT ALERT, PING -, wait 0.5, hardware_error_status?0, torque_enable=1",
        "temperature and voltage have their own errors": "fault overheat:1, wait 0.1, hardware_error_status?4,"
        " present_temperature?80, fault none, wait 0.1, hardware_error_status?4, REBOOT ALERT, volts 7.4, wait 0.6, hardware_error_status?1,"
        " present_input_voltage?74",
        "an error outside Shutdown only sets Alert": "shutdown=0, torque_enable=1, volts 7.4, wait 0.1, hardware_error_status?1,"
        " torque_enable?1, volts 5, wait 0.1, hardware_error_status?0",
        "a backup is restored at start-up if enabled": "position_p_gain=777, startup_configuration=3,"
        " BACKUP:014354524c, backup_ready?1, position_p_gain=100, REBOOT, wait 1, position_p_gain?777, torque_enable?1",
    },
    "xl430-w250": {
        "current modes need current control": "operating_mode=0 RANGE, operating_mode=1, operating_mode=3,"
        " operating_mode=4, operating_mode=5 RANGE, operating_mode=16",
    },
    "sts3250": {"a write to a locked EEPROM acts until power-off": FORGOTTEN},
    "scs0009": {"a write to a locked EEPROM acts until power-off": FORGOTTEN},
    "sts3215": {
        "a write to a locked EEPROM acts until power-off": FORGOTTEN,
        "a factory reset lasts": "lock=0, p_gain=8, FACTORY_RESET, wait 1, power, p_gain?32",
        "the homing offset shifts positions and goals": "homing_offset=100, present_position?1948,"
        " goal_position=1948, GOAL~0",
        "an endless mode ignores the homing offset": "homing_offset=85, present_position?1963, operating_mode=1,"
        " present_position?2048, operating_mode=2, present_position?2048, operating_mode=0, present_position?1963",
        "bit 10 of a duty is its direction, and the maximum is 1000": "operating_mode=2, torque_enable=1, goal_time=300,"
        " DUTY~0.3, goal_time=300|0x400, DUTY~-0.3, goal_time=300|0x800, DUTY~1, goal_time=300|0xC00, DUTY~-1",
        "positions stay within a turn": "turn 2100, present_position?2100-2048, goal_position=60, GOAL~2108*count",
        "Phase lets positions exceed a turn": "phase=0x10, turn 2100, present_position?2048+2100",
        "128 in Torque Enable sets the middle permanently": "turn -700, torque_enable=128,"
        " present_position?2048, homing_offset?-700, torque_enable?0, power, present_position?2048",
        "a goal outside the limits is clipped without error": "max_position_limit=3000, goal_position=4000, goal_position?3000",
        "its goal moves at most 3400 counts a second": "goal_position=3000, SPEED~3400*count, goal_velocity=500,"
        " SPEED~500*count",
        "Goal Time is the duration of the motion": "goal_time=2000, goal_position=2548, SPEED~250*count",
        "registers of the loop": "acceleration=3, cw_dead_zone=4, ccw_dead_zone=5, minimum_startup_force=50,"
        " ACCELERATION~300*count, MARGIN_CW~4*count, MARGIN_CCW~5*count, PUNCH~0.05, TORQUE_LIMIT~0.97, torque_limit=300,"
        " TORQUE_LIMIT~0.3",
        "velocity, duty and step modes": "operating_mode=1, goal_velocity=-500, MODE~WHEEL_SPEED, SPEED~-500*count,"
        " operating_mode=2, goal_time=300|0x400, MODE~WHEEL_DUTY, DUTY~-0.3, torque_enable=0, turn 300, operating_mode=3,"
        " torque_enable=1, MODE~JOINT, GOAL~300*count, goal_position=-100, GOAL~200*count",
        "an overload leaves Protective Torque until the goal is on the other side": "stall, protection_time=20,"
        " goal_position=3000, wait 0.1, PING, wait 0.2, PING OVERLOAD, status?0x20, TORQUE_LIMIT~0.2, goal_position=2900"
        " OVERLOAD, TORQUE_LIMIT~0.2, torque_enable?1, goal_position=1000 OVERLOAD, TORQUE_LIMIT~0.97, wait 0.1, PING",
        "an overload of a velocity ends with a velocity on the other side": "stall, protection_time=20,"
        " goal_position=1000, operating_mode=1, goal_velocity=500, wait 0.3, PING OVERLOAD, TORQUE_LIMIT~0.2,"
        " goal_velocity=600 OVERLOAD, goal_position=1000 OVERLOAD, goal_position=3000 OVERLOAD, goal_velocity=0 OVERLOAD,"
        " TORQUE_LIMIT~0.2, goal_velocity=-1 OVERLOAD, TORQUE_LIMIT~0.97",
        "an overload of a duty ends with a duty on the other side": "stall, protection_time=20, operating_mode=2,"
        " goal_time=900|0x400, wait 0.3, PING OVERLOAD, TORQUE_LIMIT~0.2, goal_time=0x401 OVERLOAD, goal_position=3000 OVERLOAD,"
        " goal_position=1000 OVERLOAD, TORQUE_LIMIT~0.2, goal_time=1 OVERLOAD, TORQUE_LIMIT~0.97",
        "a turning motor is not overloaded": "operating_mode=2, goal_time=1000, wait 3, PING, present_velocity?>3000, stall,"
        " wait 1.5, PING, wait 1, PING OVERLOAD",
        "a fault's overload ends likewise": "torque_enable=1, stall, goal_position=3000, wait 0.1, fault overload:1, wait 0.1,"
        " goal_position=2900 OVERLOAD, TORQUE_LIMIT~0.2, goal_position=1000 OVERLOAD, TORQUE_LIMIT~0.97",
        "switching the torque ends an overload": "torque_enable=1, fault overload:1, wait 0.05, PING OVERLOAD,"
        " torque_enable=0 OVERLOAD, torque_enable=1, TORQUE_LIMIT~0.97",
        "overcurrent ends the torque until it is switched": "overcurrent_time=20, goal_position=3000,"
        " sense current=2.115, wait 0.3, torque_enable?0, status?8, sense current=0, wait 0.1, PING OVERCURRENT, status?8,"
        " goal_position=1000 OVERCURRENT, torque_enable?0, torque_enable=1 OVERCURRENT, torque_enable?1, wait 0.1, PING",
        "measured values": "goal_position=1048, sense current=-0.65, sense temperature=41, wait 0.05, present_load?-970,"
        " present_current?100, present_velocity?-3400, present_voltage?74, present_temperature?41, moving?1",
    },
    "scs0009 min_position_limit=0 max_position_limit=0": {
        "an overload of a wheel ends with a duty on the other side": "stall, goal_time=900, wait 1, PING OVERLOAD,"
        " TORQUE_LIMIT~0.4, goal_time=800 OVERLOAD, goal_position=100 OVERLOAD, goal_position=900 OVERLOAD, TORQUE_LIMIT~0.4,"
        " goal_time=100|0x400 OVERLOAD, TORQUE_LIMIT~0.97, free, goal_time=1000, wait 3, PING",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("profile", "script"),
    [pytest.param(profile, script, id=name) for profile, all_ in SCRIPTS.items() for name, script in all_.items()],
)
def test_registers_behave_as_in_the_manuals(profile, script):
    play(host_of(profile), script)


TURNS = {  # by profile: registers for positions beyond a turn, and its counts
    "mx-28 cw_angle_limit=4095 ccw_angle_limit=4095 multi_turn_offset=-2000": 4096,
    "xl330-m288 operating_mode=4": 4096,
    "xl430-w250 operating_mode=4 homing_offset=900": 4096,
    "mx-28-2.0 operating_mode=4 drive_mode=1": 4096,
    "sts3215 phase=16": 4096,
}
RESTARTS = "power", "REBOOT", "fault brownout:50ms"


def restart(host, event):
    """Switch the power off and on, or restart the servo by a packet."""
    if event == "REBOOT":
        host.ask(Instruction.REBOOT)
    else:
        play(host, event)
    host.wait(1.0)


@pytest.mark.parametrize("event", RESTARTS)
@pytest.mark.parametrize("profile", TURNS)
def test_turns_are_forgotten_without_power(profile, event):
    host, turn = host_of(profile), TURNS[profile]
    at_first = host.read("present_position")
    play(host, f"turn {2 * turn + 100}")
    travelled = host.read("present_position") - at_first
    assert abs(travelled) == 2 * turn + 100
    restart(host, event)
    position = host.read("present_position")
    assert position - at_first == travelled - math.copysign(2 * turn, travelled)
    assert host.read("goal_position") == position
    assert host.command[Command.GOAL] == pytest.approx((2 * turn + 100) * host.servo.profile.units.position)


@pytest.mark.parametrize(
    ("profile", "event"),
    [
        (profile, event)
        for profile in ("ax-12", "ax-12a cw_angle_limit=0 ccw_angle_limit=0", "scs0009", *TURNS)
        for event in RESTARTS
        if event != "REBOOT" or event in FirmwareProfile.load(profile.split()[0]).instructions
    ],
)
def test_power_off_resets_all_but_the_eeprom(profile, event):
    host, clean = host_of(profile), host_of(profile)
    registers = host.servo.profile.registers
    written = [register for name, register in registers.items() if register.writable and register.area is Area.RAM]
    for value in ("minimum", "maximum"):
        for name, register in registers.items():
            if register in written and name not in OTHERS:
                host.write(name, 1 if name == "torque_enable" else getattr(register, value))
    registered = "led" if "led" in registers else "acceleration"
    host.write(registered, 1, code=Instruction.REG_WRITE)
    if "bus_watchdog" in registers:
        play(host, "bus_watchdog=0, torque_enable=1, bus_watchdog=1, wait 0.1, bus_watchdog?-1")
    host.servo._shut_down(int(FeetechError.OVERLOAD), host.world.now())  # the same bit in all families
    host.write("torque_enable", 0)
    for each in host, clean:
        play(each, "turn 9000")
        restart(each, event)
    for each in host, clean:
        each.servo.peek(0, host.servo.table.size, each.world.now())
    tick = registers.get("realtime_tick")
    differing = [
        name for name in registers if registers[name] is not tick and host.servo.table[name] != clean.servo.table[name]
    ]
    assert differing == []
    assert host.command.tolist() == clean.command.tolist()
    assert host.servo.alarms.tripped == 0
    assert tick is None or host.read("realtime_tick") < 2000
    host.ask(Instruction.ACTION)
    assert host.read(registered) == clean.read(registered) == 0


SHUT_DOWN = {  # by profile: its alarm, and the registers that restore the torque
    "ax-12 shutdown=36": (ErrorFlag.OVERLOAD, {"torque_enable"}),
    "ax-12a shutdown=36": (ErrorFlag.OVERLOAD, {"torque_enable", "torque_limit"}),
    "mx-28 shutdown=36": (ErrorFlag.OVERLOAD, set()),
    "xl330-m288": (HardwareError.OVERLOAD, set()),
    "xl430-w250": (HardwareError.OVERLOAD, set()),
    "sts3215": (FeetechError.OVERCURRENT, {"torque_enable"}),
    "scs0009": (FeetechError.OVERHEATING, {"torque_enable"}),
}
OTHERS = {
    "id", "baud_rate", "protocol_type", "secondary_shadow_id", "return_delay_time", "status_return_level", "lock",
}  # fmt: skip


@pytest.mark.parametrize("profile", SHUT_DOWN)
def test_after_a_shutdown_no_other_write_starts_the_motor(profile):
    host, (alarm, recovering) = host_of(profile), SHUT_DOWN[profile]
    registers = host.servo.profile.registers
    at_first = {name: host.servo.table[name] for name in registers}
    play(host, "goal_position=600, torque_enable=1, TORQUE~1")
    host.servo._shut_down(int(alarm), host.world.now())
    modes = ("operating_mode", "cw_angle_limit", "ccw_angle_limit", "min_position_limit", "max_position_limit")
    names = [name for name, register in registers.items() if register.writable and name not in OTHERS | recovering]
    names.sort(key=lambda name: name not in modes)
    for value in ("minimum", "maximum", "at first"):
        for name in names:
            host.write(name, at_first[name] if value == "at first" else getattr(registers[name], value))
            assert host.command[Command.TORQUE] == 0, name
    for name in recovering:
        host.write(name, 1)
        assert host.command[Command.TORQUE] == 1, name


# -- forbidden writes -------------------------------------------------------------------------------------------------

JOINT = "ax-12a cw_angle_limit=200 ccw_angle_limit=800"


@pytest.mark.parametrize(
    ("profile", "address", "data", "error"),
    [
        pytest.param(JOINT, 30, "a0 0f", "RANGE", id="a value out of range"),
        pytest.param(JOINT, 30, "64 00", "ANGLE_LIMIT", id="a goal outside the angle limits"),
        pytest.param(JOINT, 24, "01 05", "RANGE", id="one bad value of two"),
        pytest.param(JOINT, 30, "00", "RANGE", id="the first half of a word"),
        pytest.param(JOINT, 31, "01", "RANGE", id="the second half of a word"),
        pytest.param(JOINT, 36, "00 01", "RANGE", id="read-only registers"),
        pytest.param(JOINT, 0, "0d 00", "RANGE", id="the model number"),
        pytest.param(JOINT, 32, "dc 05", "RANGE", id="the speed of a wheel for a joint"),
        *(pytest.param(JOINT, at, "01 02 03", "RANGE", id=f"past the table at {at}") for at in (48, 49, 50, 200, 255)),
        pytest.param("xl330-m288", 65, "02", "RANGE", id="X: beyond the table's range"),
        pytest.param("xl330-m288", 116, "64 00", "LENGTH", id="X: half a register"),
        pytest.param("xl330-m288", 132, "00 00 00 00", "ACCESS", id="X: a read-only register"),
        pytest.param("xl330-m288", 14, "00", "ACCESS", id="X: no register"),
        pytest.param("xl330-m288", 11, "02", "RANGE", id="X: no operating mode"),
        pytest.param("xl330-m288", 104, "be 01 00 00", "LIMIT", id="X: faster than Velocity Limit"),
        pytest.param("xl330-m288", 116, "00 10 00 00", "LIMIT", id="X: a goal beyond the limits"),
        pytest.param("mx-28-2.0 acceleration_limit=9", 108, "0a 00 00 00", "LIMIT", id="X: a profile beyond its limit"),
        pytest.param("xl330-m288", 20, "00 10 f0 ff", "RANGE", id="X: a number with a sign"),
    ],
)
def test_a_write_that_is_refused_changes_nothing(profile, address, data, error):
    host = host_of(profile)
    before, protocol = bytes(host.servo.table.data), host.servo.protocol
    (answer,) = host.ask(Instruction.WRITE, protocol.write_params(address, bytes.fromhex(data)))
    assert answer.code == eval(error, {}, dict(ERRORS[host.servo.profile.protocol]))
    assert host.servo.table.data == before


SIDE_EFFECTS = {24, 30, 31, 34, 35, 44, *range(36, 47)}  # of AX and MX: torque, goal, torque limit, present registers


@given(
    profile=st.sampled_from((*X, "ax-12", "ax-12a", "mx-28")),
    writes=st.lists(st.tuples(st.integers(0, 700), st.binary(max_size=60)), max_size=12),
)
@pytest.mark.slow
def test_no_write_puts_a_register_outside_its_range_or_changes_others(profile, writes):
    world = make_world(profile=profile, timing="none")
    servo = world.servos["s1"]
    table, registers = servo.table, servo.profile.registers
    for address, data in writes:
        before, locked = bytes(table.data), profile in X and table["torque_enable"]
        refused = servo.write(address, data, world.now())
        changed = {place for place in range(table.size) if table.data[place] != before[place]}
        assert len(table.data) == len(before)
        if profile not in X:
            assert changed <= SIDE_EFFECTS | set(range(address, address + len(data)))
        assert not (refused and changed)
        for name, register in registers.items():
            if not changed.isdisjoint(range(register.address, register.end)):
                assert not register.writable or register.minimum <= table[name] <= register.maximum, name
                assert register.area is Area.RAM or (register.writable and not locked), name


# -- indirect and broadcast access ------------------------------------------------------------------------------------


def test_indirect_data_reads_and_writes_other_registers():
    host, protocol = host_of("xl330-m288"), PROTOCOLS[2]
    for number, address in enumerate((116, 117, 118, 119, 65), start=2):
        assert host.write(f"indirect_address_{number}", address) == 0
    host.write("torque_enable", 1)
    assert host.ask(Instruction.WRITE, protocol.write_params(209, bytes((0, 4, 0, 0, 1))))[0].code == 0
    assert (host.read("goal_position"), host.read("led")) == (1024, 1)
    assert host.ask(Instruction.READ, protocol.read_params(209, 5))[0].params == bytes((0, 4, 0, 0, 1))
    half = host.ask(Instruction.WRITE, protocol.write_params(209, bytes((0, 4))))
    assert half[0].code == StatusError.LENGTH
    assert host.write("indirect_address_1", 20) == StatusError.RANGE  # EEPROM


def test_writes_to_the_secondary_id_have_no_reply_and_do_not_reach_the_eeprom():
    host = Host(make_world((1, 5), "xl330-m288", return_delay_time=0))
    other = Host(host.world, id=5)
    assert host.write("secondary_shadow_id", 5) == other.write("secondary_shadow_id", 5) == 0
    assert [packet.id for packet in host.ask(Instruction.WRITE, PROTOCOLS[2].write_params(65, b"\1"), id=5)] == [5]
    assert host.read("led") == other.read("led") == 1
    for code in (Instruction.WRITE, Instruction.REG_WRITE):
        assert other.write("moving_threshold", 20, code=code) == 0
    other.ask(Instruction.ACTION, id=BROADCAST)
    assert (host.read("moving_threshold"), other.read("moving_threshold")) == (10, 20)


@pytest.mark.parametrize(("scope", "id", "baud"), [("ff", 1, 1), ("01", 7, 1), ("02", 7, 3)])
def test_a_factory_reset_keeps_the_registers_of_its_scope(scope, id, baud):
    host = host_of("xl330-m288")
    play(host, "moving_threshold=99, FACTORY_RESET:07 RANGE")
    host.ask(Instruction.FACTORY_RESET, b"\xff", id=BROADCAST)  # a broadcast does not reset the id
    play(host, "wait 1, moving_threshold?99, id=7")
    host.id = 7
    play(host, f"FACTORY_RESET:{scope}")
    table = host.servo.table
    assert (table["id"], table["baud_rate"], table["moving_threshold"]) == (id, baud, 10)


BURNT, KEPT = [(12, "3d 8b", 0)], [(8, "ff 03", 0)]
JOINT_MODE, WHEEL_MODE = (  # written by ROBOTIS' dynamixel_workbench for each mode
    [(24, "00", 0), (6, "00 00", 0), (8, limit, 0), (24, "01", 0)] for limit in ("ff 03", "00 00")
)


@pytest.mark.parametrize(
    ("fault", "writes", "limits"),
    [
        pytest.param("none", [*BURNT, (25, "01", None), (25, "01", 0)], 0x3FF, id="busy for 12 ms after two bytes"),
        pytest.param("none", [*KEPT, (8, "fe 03", 0), (25, "01", 0)], 0x3FE, id="unchanged bytes are not rewritten"),
        pytest.param("deaf", [*KEPT, (25, "01", None)], 0x3FF, id="a strict servo rewrites unchanged bytes"),
        pytest.param("deaf,deaf=0", [*KEPT, (25, "01", 0)], 0x3FF, id="until the fault ends"),
        pytest.param("none", JOINT_MODE, 0x3FF, id="joint mode in four writes"),
        pytest.param("none", [*WHEEL_MODE[:3], (24, "01", None)], 0, id="busy after the third write of wheel mode"),
        pytest.param(
            "deaf", [*WHEEL_MODE[:2], (8, "00 00", None), (24, "01", 0)], 0x3FF, id="a strict servo rewrites each byte"
        ),
    ],
)
def test_a_servo_receives_nothing_while_it_writes_its_eeprom(fault, writes, limits):
    wire = Wire(make_world(return_delay_time=0), patience=0.01)
    wire.world.inject(fault)
    assert [wire.write(address, *bytes.fromhex(data)) for address, data, _ in writes] == [write[2] for write in writes]
    wire.wait(0.02)
    assert wire.read(6, 4) == limits << 16
    untimed = Wire(make_world(timing="none"))
    assert untimed.write(12, 0x3D, 0x8B) == untimed.write(25, 1) == 0


# -- modes and sensors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "goal", "value", "column", "expected", "loop"),
    [
        (3, "goal_position", 3072, "GOAL", "1024*count", "JOINT"),
        (4, "goal_position", 2048 + 3 * 4096, "GOAL", "6*pi", "JOINT"),
        (1, "goal_velocity", -100, "SPEED", "-100*0.229*RPM", "SPEED"),
        (16, "goal_pwm", 443, "DUTY", "443/885", "WHEEL_DUTY"),
        (0, "goal_current", -500, "CURRENT", "-0.5", "CURRENT"),
        (5, "goal_current", 300, "CURRENT", "0.3", "JOINT_CURRENT"),
    ],
)
@pytest.mark.parametrize("reverse", [0, 1])
def test_goals_of_each_mode_of_the_x_series_reach_the_motor(mode, goal, value, column, expected, loop, reverse):
    if reverse and column == "GOAL":
        value = 4095 - value
    elif reverse and mode != 5:
        expected = f"-({expected})"
    script = f"drive_mode={reverse}, operating_mode={mode}, torque_enable=1, {goal}={value}, MODE~{loop}, {column}~{expected}"
    play(host_of("xl330-m288"), script)


def test_the_load_of_a_simulation_is_the_one_that_a_cycle_reads():
    host = host_of("xl330-m288")
    host.write("torque_enable", 1)
    host.state(duty=0.5, current=0.3)
    assert host.world.sample("s1").load == round(0.5 * 885)  # Present PWM, not Present Current


def quirky(tmp_path, behaviour, **registers):
    """Return an AX-12A whose profile has another behaviour flag."""
    path = tmp_path / f"{hash(behaviour)}.toml"  # a process reads a profile once
    path.write_text(f'base = "ax-12a"\nname = "quirky"\n[behaviour]\n{behaviour}', encoding="utf-8")
    return Wire(make_world(profile=str(path), **registers))


@pytest.mark.parametrize(
    ("flag", "request_", "reply", "goal"),
    [
        ('out_of_table = "silent"', encode(1, 2, b"\x31\x04"), b"", 512),
        ('out_of_table = "zeros"', encode(1, 2, b"\x31\x04"), encode(1, 0, bytes(4)), 512),
        ('read_only_write = "ignore"', encode(1, 3, b"\x24\x01\x01"), encode(1, 0), 512),
        ('bad_checksum = "silent"', b"\xff\xff\x01\x02\x01\x00", b"", 512),
        ('broadcast_ping = "ignore"', encode(0xFE, 1), b"", 512),
        ('reset_0x06 = "ignore"', encode(1, 6), b"", 512),
        ('short_instruction = "reply_0x08"', encode(1, 2, b"\x01"), encode(1, 0x08), 512),
        ('goal_outside_limits = "clamp"', encode(1, 3, b"\x1e\x00\x00"), encode(1, 0x02), 100),
        ('split_word_write = "accept"', encode(1, 3, b"\x1f\x01"), encode(1, 0), 256),
        ('split_word_write = "accept"', encode(1, 3, b"\x1e\x01"), encode(1, 0), 513),
    ],
)
def test_flags_of_a_profile(tmp_path, flag, request_, reply, goal):
    wire = quirky(tmp_path, flag, cw_angle_limit=100)
    assert wire(request_) == reply
    assert wire.read(30, 2) == goal


def turned(tmp_path, degrees, quirk="none"):
    """Return a wheel whose shaft stands at an angle on the scale of Present Position, degrees."""
    wire = quirky(tmp_path, f'speed_quirk = "{quirk}"', cw_angle_limit=0, ccw_angle_limit=0)
    wire.write(32, 300 & 0xFF, 300 >> 8)
    wire.wait(0.05)
    wire.world.bank.advance = lambda _: None
    wire.world.bank.state[0, State.READING] = math.radians(degrees - 512 * 300 / 1023)
    return wire


@pytest.mark.parametrize(("degrees", "count"), [(0, 0), (150, 512), (300, 1023), (310, 1023), (350, 0), (510, 512)])
def test_the_dead_zone_reads_as_its_nearer_end(tmp_path, degrees, count):
    assert turned(tmp_path, degrees).read(36, 2) == pytest.approx(count, abs=1)


@pytest.mark.parametrize(
    ("degrees", "speed", "load"),
    [
        (295, 157, 300),
        (305, 116, 382),
        (325, 0, 614),
        (335, 0x400 | 2371, 234),
        (358, 0, 614),
        (365, 39, 536),
        (385, 157, 300),
    ],
)
def test_the_dead_zone_gives_wrong_speed_and_load(tmp_path, degrees, speed, load):
    """From answers.ros.org 211471: 0, then -27.7 rad/s, then 0, with loads of 0.17, 0.82 and 0.17."""
    wire = turned(tmp_path, degrees)
    assert (wire.read(38, 2), wire.read(40, 2)) == (pytest.approx(speed, abs=5), pytest.approx(load, abs=10))


def test_some_firmwares_report_a_wrong_speed(tmp_path):
    assert turned(tmp_path, 100).read(38, 2) < 0x800
    assert turned(tmp_path, 100, "garbage_high_bits").read(38, 2) >= 0x800
    wire = turned(tmp_path, 100, "stale")
    moving = wire.read(38, 2)
    wire.world.bank.state[0, State.SPEED] = 0.0
    assert wire.read(38, 2) == moving > 0  # the shaft has stopped
    wire.world.bank.state[0, State.READING] += 0.1
    assert wire.read(38, 2) == 0
