"""Look at one servo, change its registers, and move it."""

from __future__ import annotations

import math
import sys
import warnings
from contextlib import suppress
from typing import Annotated

import typer

from axbridge import minimum_jerk
from axbridge.bus.commission import (
    UNLOCK,
    answers_ping,
    answers_reads,
    read_register,
    read_start,
    refuse_locked,
    try_protocol,
    unlocked,
    unmute,
    write_blindly,
    write_register,
)
from axbridge.bus.handshake import counting, is_shared, profile_for, who
from axbridge.bus.protocols import v2
from axbridge.bus.protocols.dynamixel import SECOND
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.scan import ping_all
from axbridge.bus.serial import SerialBus
from axbridge.cli.app import DONE, HARDWARE, app, emit_json
from axbridge.cli.exit import motors_after, stopping
from axbridge.cli.help import Verbs
from axbridge.cli.options import BaudOption, JsonOption, PortOption, RigOption, YesOption, servo_of, shared
from axbridge.cli.progress import progress
from axbridge.config.instructions import Instruction
from axbridge.config.profile import FirmwareProfile
from axbridge.config.register_units import in_units
from axbridge.config.registers import ADDRESSES, Address
from axbridge.config.rig import Rig
from axbridge.errors import BusError, BusTimeout, ControlWarning, CorruptPacket, HardwareError, UsageError
from axbridge.robot.open import open_robot
from axbridge.robot.servo import Servo
from axbridge.units import Calibration, baud_of, baud_register

servo = typer.Typer(cls=Verbs, no_args_is_help=True, help=__doc__)
app.add_typer(servo, name="servo")

_LAST_ID = 253
ServoArgument = Annotated[str, typer.Argument(metavar="ID|NAME", help="Its bus id, or its name in the rig.")]
OfRigOption = Annotated[str | None, shared("--rig", "Take the servo's id, port and baud rate from it.")]
_MOVERS = {"goal_position", "moving_speed", "torque_enable"}  # registers that may give the motor power
_MOVERS |= {"goal_velocity", "goal_pwm", "goal_current"}
_FEETECH_RATES = "1000000, 500000, 250000, 128000, 115200, 57600, 38400 or 19200"
_RATES = {
    1: "2000000/(n+1): 1000000, 500000, 200000, 115200, 57600, …", 2: "9600, 57600, 115200, or 1 to 4 million",
    "sts": _FEETECH_RATES, "scs": _FEETECH_RATES,
}  # fmt: skip
_SCOPES = {"": v2.Scope.ALL, "id": v2.Scope.KEEP_ID, "id+baud": v2.Scope.KEEP_ID_AND_BAUD}
_BOOT_LOOKS = 10
_USUAL_BAUD = 1_000_000


@servo.command()
def info(
    servo: ServoArgument,
    port: PortOption = None,
    baud: BaudOption = 1_000_000,
    rig: OfRigOption = None,
    json: JsonOption = False,
) -> None:
    """Print every register of a servo, in counts and in units."""
    number, port, baud, own = _address(servo, rig, port, baud)
    with _open(port, baud) as bus:
        profile = _readable(bus, number, own)
        values = {name: read_register(bus, number, register) for name, register in profile.registers.items()}
    if json:
        emit_json(
            "servo-info-1", {"id": number, "profile": profile.name, "protocol": profile.protocol, "registers": values}
        )
        return
    title = PROTOCOLS[profile.protocol].title
    print(f"servo {number}: {profile.name}, firmware {values['firmware_version']}, {title}")
    for name, value in values.items():
        register = profile.registers[name]
        row = f"{register.address:>4}  {register.area.value:<6} {register.access:<2}  {name:<24} {value:>6}"
        print(f"{row}  {in_units(profile, name, values)}".rstrip())


@servo.command()
def read(
    servo: ServoArgument,
    registers: Annotated[list[str], typer.Argument(metavar="REGISTER…", help="Names, as `servo info` lists them.")],
    port: PortOption = None,
    baud: BaudOption = 1_000_000,
    rig: OfRigOption = None,
    json: JsonOption = False,
) -> None:
    """Print some registers of a servo."""
    number, port, baud, own = _address(servo, rig, port, baud)
    with _open(port, baud) as bus:
        profile = _readable(bus, number, own)
        values = {name: read_register(bus, number, profile.register(name)) for name in registers}
    if json:
        emit_json("servo-read-1", {"id": number, "registers": values})
        return
    for name, value in values.items():
        print(f"{name} {value}")


@servo.command(context_settings={"ignore_unknown_options": True})  # a value may be negative
def write(
    servo: ServoArgument,
    register: Annotated[str, typer.Argument(metavar="REGISTER", help="Its name, as `servo info` lists it.")],
    value: Annotated[int, typer.Argument(metavar="VALUE", help="In counts.")],
    port: PortOption = None,
    baud: BaudOption = 1_000_000,
    rig: OfRigOption = None,
    json: JsonOption = False,
) -> None:
    """Set one register and check it. A value that the register already has is not written again.

    A new goal position switches the motor on.
    """
    number, port, baud, own = _address(servo, rig, port, baud)
    if register in {"id", "baud_rate"}:
        other = "set-id" if register == "id" else "set-baud"
        raise UsageError(
            f"{register} is not changed by write", f"use `axbridge servo {other}`, which looks before it does"
        )
    with _open(port, baud) as bus:
        profile, mute = _identify(bus, number, own)
        if mute:
            write_blindly(bus, number, profile, register, value)
            if register == "status_return_level" and value:
                profile, mute = _identify(bus, number, own)
        if mute:
            note = "the motor may have power now, and keeps it\n" if register in _MOVERS else ""
            note += f"sent {register} = {value}; nothing is confirmed\n{_silence(bus, number, baud)}"
            _say("write", note, json, id=number, register=register, value=value, eeprom_bytes=None)
            return
        worn = write_register(bus, number, profile, register, value)
        powered = register in _MOVERS and read_register(bus, number, profile.register("torque_enable"))
        where = _where(bus, baud)
    if json:
        emit_json("servo-write-1", {"id": number, "register": register, "value": value, "eeprom_bytes": worn})
        return
    print(f"{register} is {value}" + (f" ({worn} EEPROM bytes written)" if worn else ""))
    if powered:
        print(f"the motor has power now and keeps it: `axbridge servo torque {number} off{where}` takes it away")
    if (register, value) == ("status_return_level", 0):
        print(f"it answers PING alone now: `{unmute(number, where)}` lets it answer again")
    if register == "lock" and profile.behaviour.lock_scope != "power_off":
        print(f"its EEPROM takes no more writes; {UNLOCK}")


@servo.command()
def set_id(
    servo: ServoArgument,
    new: Annotated[int, typer.Argument(metavar="NEW", min=0, max=253, help="Its id from now on.")],
    port: PortOption = None,
    baud: BaudOption = 1_000_000,
    rig: OfRigOption = None,
    json: JsonOption = False,
) -> None:
    """Give a servo another id; refused if the new id is taken, or if two servos have the old one."""
    number, port, baud, own = _address(servo, rig, port, baud)
    note = ""
    with _open(port, baud) as bus:
        profile, mute = _identify(bus, number, own)
        if not mute and is_shared(bus, number):
            raise BusError(
                f"id {number} answers with damaged packets: two servos with one id, or a bad cable",
                "connect one of them at a time; both would get the new id",
            )
        if number != new:
            _refuse_taken(bus, new)
            if new == _LAST_ID:
                _refuse_beside_second(bus)
            if mute:
                try:
                    write_blindly(bus, number, profile, "id", new)
                except BusTimeout as error:
                    raise BusTimeout(
                        new,
                        f"servo {number} should be servo {new}, but did not hear it or is locked: switch it off and on",
                    ) from error
                note = f": it answers PING there; nothing else is confirmed\n{_silence(bus, new, baud)}"
            else:
                write_register(bus, number, profile, "id", new)
    text = f"servo {number} is servo {new} now{note}"
    _say("set-id", text, json, id=new, before=number, confirmed=not note)


def _say(verb: str, text: str, json: bool, **facts: object) -> None:
    """Print what a verb has done, for people or for programs."""
    if json:
        emit_json(f"servo-{verb}-1", facts)
    else:
        print(text)


def _refuse_beside_second(bus: SerialBus) -> None:
    if ping_all(bus):
        raise BusError(
            f"id {_LAST_ID} is no id beside servos of Protocol 2.0, whose packets all begin like one to it",
            "choose another id",
        )


def _refuse_taken(bus: SerialBus, new: int) -> None:
    try:
        bus.ping(new)
    except BusTimeout:
        if bus.protocol(new) is SECOND or try_protocol(bus, new, SECOND) is None:
            return
    except CorruptPacket as error:
        raise BusError(f"id {new} is taken, by more than one servo: {error.message}", "choose another id") from error
    raise BusError(f"id {new} is taken: a servo answers to it", "choose another id, or unplug that servo first")


@servo.command()
def set_baud(
    servo: ServoArgument,
    new: Annotated[int, typer.Argument(metavar="NEW_BAUD", help="Bits per second from now on.")],
    port: PortOption = None,
    baud: BaudOption = 1_000_000,
    rig: OfRigOption = None,
    json: JsonOption = False,
) -> None:
    """Change the baud rate of a servo, and check that it answers at the new one."""
    number, port, baud, own = _address(servo, rig, port, baud)
    with _open(port, baud) as bus:
        profile, mute = _identify(bus, number, own)
        register = profile.register("baud_rate")
        code = baud_register(new, profile.units_name)
        if code is None:
            raise UsageError(
                f"an {profile.name} cannot make {new} baud",
                f"choose {_RATES[profile.protocol]}",
            )
        if mute or read_register(bus, number, register) != code:
            if mute:
                write_blindly(bus, number, profile, "baud_rate", code)
            else:
                refuse_locked(bus, number, profile, "baud_rate")
                with suppress(BusTimeout, CorruptPacket), unlocked(bus, number, register, number):
                    bus.write(number, register.address, bytes((code,)), deaf=profile.timing.eeprom_wait(1))
                    bus.set_baud(new)
            bus.set_baud(new)  # which shows whether it was written
            try:
                bus.ping(number)
            except BusTimeout as error:
                raise BusTimeout(
                    number, f"it does not answer at {new} baud; `axbridge scan --baud all` finds it"
                ) from error
    made = round(baud_of(code, profile.units_name))
    text = f"servo {number} talks at {new} baud now" + (f" ({made}, to be exact)" if made != new else "")
    _say("set-baud", text, json, id=number, baud=new, exactly=made)


@servo.command()
def reset(
    servo: ServoArgument,
    port: PortOption = None,
    baud: BaudOption = 1_000_000,
    rig: OfRigOption = None,
    keep: Annotated[
        str, typer.Option("--keep", metavar="id|id+baud", help="Keep these registers; Protocol 2.0 only.")
    ] = "",
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Factory reset: every EEPROM register gets its default, the id becomes 1."""
    number, port, baud, own = _address(servo, rig, port, baud)
    if keep not in _SCOPES:
        raise UsageError(f"--keep {keep} is neither id nor id+baud", "leave it out to reset everything")
    new = number if keep else 1
    if not yes:
        typer.confirm(
            f"Reset servo {number} to factory settings? The id {'stays' if keep else 'becomes 1'}.",
            abort=True,
            err=True,
        )
    with _open(port, baud) as bus:
        profile, mute = _identify(bus, number, own)
        scoped = bus.protocol(number).ping_length > 0
        if keep and not scoped:
            raise UsageError(f"an {profile.name} can only reset everything", "leave --keep out")
        if number != new:
            _refuse_taken(bus, new)
        scope = bytes((_SCOPES[keep],)) if scoped else b""
        with suppress(BusTimeout, CorruptPacket):  # its new id shows whether it has done it
            bus.instruct(number, Instruction.FACTORY_RESET, scope, answered=not mute)
        bus.speak(new, bus.protocol(number))
        timing, code = profile.timing, profile.register("baud_rate").initial
        bus.clock.sleep_until(bus.clock.now() + timing.eeprom_wait(profile.eeprom_end) + 1e-3 * timing.boot_ms)
        default = baud if keep == "id+baud" else round(baud_of(int(code), profile.units_name))
        bus.set_baud(default)
        if not answers_ping(bus, new):
            raise BusTimeout(
                new,
                f"servo {number} was asked to reset, and should have id {new} at {default} baud now: "
                "`axbridge scan --baud all` finds it",
            )
    text = f"servo {number} is reset: it has id {new} and talks at {default} baud now"
    _say("reset", text, json, id=new, before=number, baud=default)


@servo.command()
def reboot(
    servo: ServoArgument,
    port: PortOption = None,
    baud: BaudOption = 1_000_000,
    rig: OfRigOption = None,
    json: JsonOption = False,
) -> None:
    """Restart a servo: its torque goes off, and a shut-down after an overload or a fault is cleared."""
    number, port, baud, own = _address(servo, rig, port, baud)
    with _open(port, baud) as bus:
        profile, mute = _identify(bus, number, own)
        if "REBOOT" not in profile.instructions:
            raise UsageError(f"an {profile.name} cannot be rebooted", "switch its supply off and on")
        status = None if mute else profile.registers.get("hardware_error_status")
        before = 0 if status is None else read_register(bus, number, status)
        bus.instruct(number, Instruction.REBOOT, answered=not mute)
        for _ in range(_BOOT_LOOKS):
            bus.clock.sleep_until(bus.clock.now() + 1e-3 * profile.timing.boot_ms)
            if answers_ping(bus, number):
                break
        else:
            raise BusTimeout(number, f"servo {number} was asked to reboot, and has not answered since")
        after = 0 if status is None else read_register(bus, number, status)
    had, has = (HardwareError(value).describe() if value else "" for value in (before, after))
    _say(
        "reboot",
        f"servo {number} has restarted" + (f"; it had: {had}" if had else ""),
        json,
        id=number,
        had=had,
        has=has,
    )
    if after:
        raise BusError(f"servo {number} still reports: {has}", "remove the cause, then reboot it again")


@servo.command()
def torque(
    servo: ServoArgument,
    state: Annotated[str, typer.Argument(metavar="on|off", help="What the motor shall be.")],
    port: PortOption = None,
    baud: BaudOption = 1_000_000,
    rig: OfRigOption = None,
    json: JsonOption = False,
) -> None:
    """Switch torque on or off. When on, the servo holds its position, also after this program has ended."""
    number, port, baud, own = _address(servo, rig, port, baud)
    if state not in {"on", "off"}:
        raise UsageError(f"torque is on or off, not {state!r}")
    with _open(port, baud) as bus:
        profile, mute = _identify(bus, number, own)
        if mute:
            write_blindly(bus, number, profile, "torque_enable", int(state == "on"))
            text = f"sent torque {state} to servo {number}; nothing is confirmed\n{_silence(bus, number, baud)}"
            _say("torque", text, json, id=number, torque=state, confirmed=False)
            return
        if state == "on":
            present = read_register(bus, number, profile.register("present_position"))
            write_register(bus, number, profile, "goal_position", present)
        write_register(bus, number, profile, "torque_enable", int(state == "on"))
    _say("torque", f"torque of servo {number} is {state}", json, id=number, torque=state, confirmed=True)


@servo.command(context_settings={"ignore_unknown_options": True})  # an angle may be negative
def goto(
    servo: Annotated[str, typer.Argument(metavar="ID|NAME", help="Its bus id, or its name in the rig.")],
    angle: Annotated[float, typer.Argument(metavar="DEGREES", help="0 is the middle of its range, or the rig's zero.")],
    rig: RigOption = "",
    port: PortOption = None,
    baud: BaudOption = _USUAL_BAUD,
    duration: Annotated[float | None, shared("--duration", "Default: at 60°/s or slower.")] = None,
    json: JsonOption = False,
) -> int:
    """Move one servo softly to an angle, then switch its motor off.

    Without a rig, an id is enough: 0° is the middle of the servo's range. With one (--rig or AXBRIDGE_RIG), its zero,
    direction and limits are used. Ctrl-C stops it, and the motor goes off.
    """
    if not math.isfinite(angle):
        raise UsageError(f"{angle} is no angle", "give degrees: 30, or -12.5")
    if duration is not None and not 0 < duration < math.inf:
        raise UsageError(f"a way of {duration:g} s is not positive and finite", "give seconds")
    alone = _one_of_rig(rig, servo) if rig else _rig_of_id(servo, port, baud)
    there = f"{alone.servos[0].name} is where it was"
    with (
        stopping(alone, lambda: there),
        progress(f"{alone.servos[0].name} goes to {angle:g}°", quiet=json) as show,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ControlWarning)  # all of it is an error here
        with open_robot(alone, "real", port=port) as robot:
            one = robot[0]
            if one.name in robot.withheld:
                where = f" --port {port}" if port else ""
                revival = PROTOCOLS[alone.profile_of(one.config).protocol].revival.format(id=one.config.id)
                command = f"axbridge servo {revival}{where}"
                raise BusError(f"{one.name} has shut itself down", f"see why; then `{command}` lets it move again")
            _refuse_beyond(one, alone.profile_of(one.config), angle)

            def follow(*_: object) -> None:
                nonlocal there
                there = f"{one.name} is at {math.degrees(one.position):.1f}°"
                show(f"{there} on its way to {angle:g}°")

            robot.observe(follow)
            goal = math.radians(angle)
            quickest = minimum_jerk.shortest(goal - one.position, one.max_velocity)
            if duration is not None and duration < quickest:
                raise UsageError(
                    f"{duration:g} s are too short for {one.name}: it needs {quickest:.2f} s at least",
                    "give a longer --duration, or leave it out",
                )
            arrived = one.goto(goal, duration or minimum_jerk.gentle(goal - one.position, one.max_velocity))
            lost, end = robot.last_step.errors.get(one.name), one.position
    if lost is not None:
        raise lost
    text = f"{there}; {motors_after(alone)}"
    _say("goto", text, json, id=alone.servos[0].id, servo=one.name, position_rad=end, arrived=arrived)
    if arrived:
        return DONE
    print(f"it did not get to {angle:g}°: something holds it, or its load is too heavy", file=sys.stderr)
    return HARDWARE


def _one_of_rig(name: str, servo: str) -> Rig:
    """A rig with nothing but this servo of it, by name or bus id, and what is coupled with it."""
    rig = Rig.load(name)
    chosen = servo_of(rig, servo)
    base, coupled, _ = chosen.name.partition("::")
    others = [one for one in rig.servos if coupled and one.name.startswith(f"{base}::") and one != chosen]
    lines = tuple(bus for bus in rig.buses if bus.name in {one.bus for one in (chosen, *others)})
    limp = rig.safety.model_copy(update={"on_exit": "limp", "park": {}})
    alone = {"servos": (chosen, *others), "buses": lines, "safety": limp, "world": None, "sensors": ()}
    return rig.model_copy(update=alone)


def _rig_of_id(servo: str, port: str | None, baud: int) -> Rig:
    """A rig of the servo with this bus id, whose angles count from the middle of its range."""
    if not (servo.isascii() and servo.isdigit() and int(servo) <= _LAST_ID):
        raise UsageError(f"{servo!r} is no bus id, and names are a rig's", "give an id, 0..253, or add --rig")
    with _open(port, baud) as bus:
        profile = _readable(bus, int(servo))
        line = {"port": bus.port_name, "baud": baud}
        held = counting(bus, int(servo), profile)
    name = f"servo {int(servo)}"
    one = {
        "name": name,
        "joint": name,
        "id": int(servo),
        "profile": profile.name,
        "zero": profile.units.middle,
        "registers": held,
    }
    return Rig.model_validate({"name": name, "bus": [line], "servo": [one]})


def _refuse_beyond(servo: Servo, profile: FirmwareProfile, angle: float) -> None:
    """Refuse an angle that the rig or the servo's own angle limits do not let it go to."""
    names = profile.names
    limits = servo.read(names.low), servo.read(names.high)
    if limits == (0, 0) and "operating_mode" not in profile.registers:
        raise UsageError(
            f"{servo.name} is set up as a wheel: both its angle limits are 0",
            "`axbridge doctor` says which command makes it a joint",
        )
    mounted = Calibration(profile.units, servo.config.zero, servo.config.direction)
    ends = sorted(mounted.angle(count) for count in limits)
    lowest, highest = max(ends[0], servo.min_position), min(ends[1], servo.max_position)
    if not lowest <= math.radians(angle) <= highest:
        reach = f"{math.degrees(lowest):.1f}° to {math.degrees(highest):.1f}°"
        raise UsageError(
            f"{angle:g}° is out of the limits of {servo.name}: {reach}",
            "give an angle between them",
        )


def _address(
    servo: str, rig: str | None, port: str | None, baud: int
) -> tuple[int, str | None, int, FirmwareProfile | None]:
    """Id, port and baud rate of a servo that is meant by its id, or by its name in a rig, whose profile it is then."""
    if rig is not None:
        alone = _one_of_rig(rig, servo)
        line = next(bus for bus in alone.buses if bus.name == alone.servos[0].bus)
        if alone.servos[0].id is not None:
            return alone.servos[0].id, port or line.port, line.baud, alone.profile_of(alone.servos[0])
    if not (servo.isascii() and servo.isdigit() and int(servo) <= _LAST_ID):
        raise UsageError(f"{servo!r} is no bus id, and names are a rig's", "give an id, 0..253, or add --rig")
    return int(servo), port, baud, None


def _open(port: str | None, baud: int) -> SerialBus:
    return SerialBus(port or "auto", baud)


def _where(bus: SerialBus, baud: int) -> str:
    """How a command names this line."""
    return f" --port {bus.port_name}" + (f" --baud {baud}" if baud != _USUAL_BAUD else "")


def _silence(bus: SerialBus, id: int, baud: int) -> str:
    """What is wrong with a servo that answers PING alone, and what repairs it."""
    return (
        f"servo {id} has status return level 0 and was taken for an AX-12A: "
        f"`{unmute(id, _where(bus, baud))}` lets it answer"
    )


def _identify(bus: SerialBus, id: int, own: FirmwareProfile | None = None) -> tuple[FirmwareProfile, bool]:
    """Profile by the servo's model number, and whether it answers PING alone (status return level 0).

    The bus learns which protocol it speaks. For an unknown model the profile is its `own`, as a rig has it, or else one
    whose common registers all share: the AX-12A's, or the XL430's.
    """
    length = Address.STATUS_RETURN_LEVEL + 1
    try:
        data = read_start(bus, id, length)
    except BusTimeout:
        named = try_protocol(bus, id, SECOND)
        if named is None:
            raise
        profile = profile_for(*named) or own or FirmwareProfile.load(SECOND.usual_profile)
        mute = not answers_reads(bus, id)
        level = 0 if mute else read_register(bus, id, profile.register("status_return_level"))
        bus.silent = bus.silent | {id} if level < 2 else bus.silent - {id}
        return profile, mute
    if data is None:
        bus.silent |= {id}
        return FirmwareProfile.load("ax-12a"), True
    if len(data) < length:  # it refused
        return FirmwareProfile.load("ax-12a"), False
    protocol, model, firmware = who(id, data)
    bus.speak(id, protocol)
    full = data[ADDRESSES[protocol.name].STATUS_RETURN_LEVEL] >= protocol.full_level
    bus.silent = bus.silent - {id} if full else bus.silent | {id}
    return profile_for(model, firmware) or own or FirmwareProfile.load(protocol.usual_profile), False


def _readable(bus: SerialBus, id: int, own: FirmwareProfile | None = None) -> FirmwareProfile:
    profile, mute = _identify(bus, id, own)
    if mute:
        raise BusError(
            f"servo {id} has status return level 0: it answers PING, but no read",
            f"`{unmute(id, _where(bus, bus.baud))}` lets it answer",
        )
    return profile
