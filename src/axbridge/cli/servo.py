"""Look at one servo, change its registers, and move it."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, NamedTuple

import typer

from axbridge import Rig, minimum_jerk
from axbridge.bus import commission
from axbridge.bus.commission import read_register, write_blindly, write_register
from axbridge.bus.handshake import checked_convention, identify_model, is_shared, is_unknown, profile_for, unknown_model
from axbridge.bus.protocols.known import PROTOCOLS, SECOND
from axbridge.bus.scan import ping_all
from axbridge.bus.serial import SerialBus
from axbridge.cli.app import DONE, HARDWARE, group, note
from axbridge.cli.exit import motors_after, stopping
from axbridge.cli.options import Result, RigOption, servo_of, verb
from axbridge.cli.progress import progress
from axbridge.config.profile import FirmwareProfile, in_units
from axbridge.config.registers import FAMILIES, SET_MIDDLE, Address, Instruction
from axbridge.errors import (
    BusError,
    BusTimeout,
    ControlWarning,
    CorruptPacket,
    HardwareError,
    Remedy,
    UsageError,
    plural,
)
from axbridge.units import nearest_baud

servo = group("servo", __doc__)

_LAST_ID, _USUAL_BAUD = 253, 1_000_000
_MOVERS = {  # registers whose write may switch the motor on
    "goal_position", "moving_speed", "torque_enable", "goal_velocity", "goal_pwm", "goal_current",
}  # fmt: skip
_NEGATIVE = {"ignore_unknown_options": True}  # an argument may be a negative number
_RADIANS = 3.2  # a smaller angle with several decimals may have been meant in radians
_SCOPES = {"": 0xFF, "id": 0x01, "id+baud": 0x02}


class _Target(NamedTuple):
    """A servo on an open line; `mute`: it answers PING only, and gets the AX-12A profile."""

    bus: SerialBus
    id: int
    profile: FirmwareProfile
    mute: bool
    line: dict[str, Any]  # options that name its line

    @property
    def silence(self) -> BusError:
        """Return the error for a servo that answers PING only, with the command that repairs it."""
        problem = f"servo {self.id} has status return level 0: it answers PING, but no read"
        return BusError(problem, commission.restore_status_return_level(self.id, "{} lets it answer", **self.line))


@dataclass(frozen=True)
class _At:
    """The options that name a servo and its line."""

    servo: Annotated[str, "Its bus id, or its name in the rig.", "ID|NAME"]
    _: KW_ONLY
    port: str | None = None
    baud: int = _USUAL_BAUD
    rig: Annotated[str | None, "Take the servo's id, port and baud rate from it."] = None

    @contextmanager
    def open(self, *, mute_too: bool = False) -> Iterator[_Target]:
        """Open the servo's line; `mute_too`: also if the servo answers no reads."""
        number, port, baud, own = self.address()
        with SerialBus(port or "auto", baud) as bus:
            line = {"port": bus.port_name, "baud": None if baud == _USUAL_BAUD else baud}
            target = _Target(bus, number, *_identify(bus, number, own), line)
            if target.mute and not mute_too:
                raise target.silence
            yield target

    def address(self) -> tuple[int, str | None, int, FirmwareProfile | None]:
        """Return the servo's id, port and baud rate, and its profile if the rig names it."""
        if self.rig is not None:
            alone = _one_of_rig(self.rig, self.servo)
            line = next(bus for bus in alone.buses if bus.name == alone.servos[0].bus)
            if alone.servos[0].id is not None:
                profile = alone.specs[alone.servos[0].name].profile
                return alone.servos[0].id, self.port or line.port, line.baud, profile
        if not (self.servo.isascii() and self.servo.isdigit() and int(self.servo) <= _LAST_ID):
            raise UsageError(f"{self.servo!r} is no bus id, and names are a rig's", "give an id, 0..253, or add --rig")
        return int(self.servo), self.port, self.baud, None


@verb("1 --port /dev/ttyUSB0", of=servo)
def info(at: _At) -> Result:
    """Print every register of a servo, in counts and in units."""
    with at.open() as (bus, number, profile, *_):
        values = {name: read_register(bus, number, register) for name, register in profile.registers.items()}
    firmware, title = values["firmware_version"], PROTOCOLS[profile.protocol].title
    rows = [f"servo {number}: {profile.name}, firmware {firmware}, {title}"]
    for name, described in profile.registers.items():
        row = f"{described.address:>4}  {described.area.value:<6} {described.access:<2}  {name:<24} {values[name]:>6}"
        rows.append(f"{row}  {in_units(profile, name, values)}".rstrip())
    facts = {"id": number, "profile": profile.name, "protocol": profile.protocol, "registers": values}
    return Result(facts, rows)


@verb("1 present_position present_voltage --port /dev/ttyUSB0", of=servo)
def read(
    at: _At, registers: Annotated[list[str], "Names or addresses, as `servo info` lists them.", "REGISTER…"]
) -> Result:
    """Print some registers of a servo."""
    with at.open() as (bus, number, profile, *_):
        names = [profile.register_name(word, "present_") for word in registers]
        values = {name: read_register(bus, number, profile.register(name)) for name in names}
    return Result({"id": number, "registers": values}, (f"{name} {value}" for name, value in values.items()))


@verb("1 led 1 --port /dev/ttyUSB0", of=servo, context_settings=_NEGATIVE)
def write(
    at: _At,
    register: Annotated[str, "Its name or address, as `servo info` lists it.", "REGISTER"],
    value: Annotated[int, "In counts.", "VALUE"],
) -> Result:
    """Set one register and check it. A value that the register already has is not written again.

    A new goal position switches the motor on.
    """
    with at.open(mute_too=True) as target:
        register = target.profile.register_name(register)
        if register in {"id", "baud_rate"}:
            other = "set-id" if register == "id" else "set-baud"
            hint = f"use `axbridge servo {other}`, which also checks that the change is possible"
            raise UsageError(f"{register} is not changed by write", hint)
        bus, number, profile, mute, line = target
        if mute:
            if register != "status_return_level" or not value:
                raise target.silence
            write_blindly(bus, number, profile, register, value)
            profile, _ = _identify(bus, number)
        worn = write_register(bus, number, profile, register, value)
        lines = [f"{register} is {value}" + (f" ({plural(worn, 'EEPROM byte')} written)" if worn else "")]
        if register in _MOVERS and read_register(bus, number, profile.register("torque_enable")):
            says = "the motor has power now and keeps it: {} takes it away"
            lines.append(Remedy("servo torque", number, "off", says=says, **line))
    if (register, value) == ("torque_enable", SET_MIDDLE):
        lines = [f"the present position of servo {number} is the middle of its turn now"]
    if (register, value) == ("status_return_level", 0):
        says = "it answers PING alone now: {} lets it answer again"
        lines.append(commission.restore_status_return_level(number, says, **line))
    if register == "lock" and profile.behaviour.lock_scope != "power_off":
        lines.append(f"its EEPROM takes no more writes; {commission.UNLOCK}")
    return Result({"id": number, "register": register, "value": value, "eeprom_bytes": worn}, lines)


@verb("1 7 --port /dev/ttyUSB0", of=servo)
def set_id(at: _At, new: Annotated[int, "Its id from now on.", "NEW", {"min": 0, "max": _LAST_ID}]) -> Result:
    """Give a servo another id; refused if the new id is taken, or if two servos have the old one."""
    with at.open() as (bus, number, profile, *_):
        if is_shared(bus, number):
            problem = f"id {number} answers with damaged packets: two servos with one id, or a bad cable"
            raise BusError(problem, "connect one of them at a time; both would get the new id")
        if number != new:
            _refuse_taken(bus, new)
            if new == _LAST_ID and ping_all(bus):
                problem = f"id {new} is impossible beside servos of Protocol 2.0"
                raise BusError(f"{problem}: their packets begin like one to id {new}", "choose another id")
            write_register(bus, number, profile, "id", new)
    return Result({"id": new, "before": number}, [f"servo {number} is servo {new} now"])


def _refuse_taken(bus: SerialBus, new: int) -> None:
    try:
        bus.ping(new)
    except BusTimeout:
        if bus.protocol(new) is SECOND or commission.try_protocol(bus, new, SECOND) is None:
            return
    except CorruptPacket as error:
        raise BusError(f"id {new} is taken, by more than one servo: {error.message}", "choose another id") from error
    raise BusError(f"id {new} is taken: a servo answers to it", "choose another id, or unplug that servo first")


@verb("1 500000 --port /dev/ttyUSB0", of=servo)
def set_baud(at: _At, new: Annotated[int, "Bits per second from now on.", "NEW_BAUD"]) -> Result:
    """Change the baud rate of a servo, and check that it answers at the new one."""
    with at.open() as (bus, number, profile, *_):
        register = profile.register("baud_rate")
        code = profile.units.baud_register(new)
        if code is None:
            near = round(nearest_baud(new, profile.units.bauds))
            why = f"an {profile.name} cannot make {new} baud; the nearest is {near}"
            raise UsageError(why, f"choose from {profile.units.rates}")
        if read_register(bus, number, register) != code:
            commission.refuse_locked(bus, number, profile, "baud_rate")
            commission.refuse_powered(bus, number, profile, "baud_rate")
            with suppress(BusTimeout, CorruptPacket), commission.unlocked(bus, number, register, number):
                bus.write(number, register.address, bytes((code,)))
                bus.set_baud(new)
            bus.set_baud(new)  # an answer at the new rate proves the write
            try:
                bus.ping(number)
            except BusTimeout as error:
                says = f"it does not answer at {new} baud; {{}} finds it"
                raise BusTimeout(number, Remedy("scan", port=bus.port_name, baud="all", says=says)) from error
    made = round(profile.units.baud(code))
    text = f"servo {number} talks at {new} baud now" + (f" ({made}, to be exact)" if made != new else "")
    return Result({"id": number, "baud": new, "exactly": made}, [text])


@verb("1 --port /dev/ttyUSB0", of=servo)
def reset(
    at: _At,
    *,
    keep: Annotated[str, "Keep these registers; Protocol 2.0 only.", "id|id+baud"] = "",
    yes: Annotated[bool, "Do not ask first."] = False,
) -> Result:
    """Factory reset: every EEPROM register gets its default, the id becomes 1."""
    if keep not in _SCOPES:
        raise UsageError(f"--keep {keep} is neither id nor id+baud", "leave it out to reset everything")
    if not yes:  # before the port is opened, because `axbridge off` must be able to open it meanwhile
        what = f"Reset servo {at.address()[0]} to factory settings? The id {'stays' if keep else 'becomes 1'}."
        typer.confirm(what, abort=True, err=True)
    with at.open() as (bus, number, profile, *_):
        new = number if keep else 1
        scoped = bus.protocol(number).ping_length > 0
        if keep and not scoped:
            raise UsageError(f"an {profile.name} can only reset everything", "leave --keep out")
        if number != new:
            _refuse_taken(bus, new)
        scope = bytes((_SCOPES[keep],)) if scoped else b""
        with suppress(BusTimeout, CorruptPacket):  # a ping of the new id shows below whether it was reset
            bus.instruct(number, Instruction.FACTORY_RESET, scope)
        bus.set_protocol(new, bus.protocol(number))
        timing, code = profile.timing, profile.register("baud_rate").initial
        bus.clock.sleep_until(bus.clock.now() + timing.eeprom_wait(profile.eeprom_end) + 1e-3 * timing.boot_ms)
        default = bus.baud if keep == "id+baud" else round(profile.units.baud(int(code)))
        bus.set_baud(default)
        if not commission.answers_ping(bus, new):
            problem = f"servo {number} was asked to reset, and should have id {new} at {default} baud now"
            raise BusTimeout(new, Remedy("scan", port=bus.port_name, baud="all", says=f"{problem}: {{}} finds it"))
    text = f"servo {number} is reset: it has id {new} and talks at {default} baud now"
    return Result({"id": new, "before": number, "baud": default}, [text])


@verb("1 --port /dev/ttyUSB0", of=servo)
def reboot(at: _At) -> Result:
    """Restart a servo: its torque goes off, and a shut-down after an overload or a fault is cleared."""
    with at.open() as (bus, number, profile, *_):
        if "REBOOT" not in profile.instructions:
            raise UsageError(f"an {profile.name} cannot be rebooted", "switch its supply off and on")
        status = profile.registers.get("hardware_error_status")
        before = 0 if status is None else read_register(bus, number, status)
        if not commission.reboot(bus, number, profile):
            raise BusTimeout(number, f"servo {number} was asked to reboot, and has not answered since")
        after = 0 if status is None else read_register(bus, number, status)
    had, has = (HardwareError(value).describe() if value else "" for value in (before, after))
    text = f"servo {number} has restarted" + (f"; it had: {had}" if had else "")
    still = BusError(f"servo {number} still reports: {has}", "remove the cause, then reboot it again")
    return Result({"id": number, "had": had, "has": has}, [text], error=still if after else None)


@verb("1 off --port /dev/ttyUSB0", of=servo)
def torque(at: _At, state: Annotated[str, "The new state of the motor.", "on|off"]) -> Result:
    """Switch torque on or off. When on, the servo holds its position, also after this program has ended."""
    if state not in {"on", "off"}:
        raise UsageError(f"torque is on or off, not {state!r}")
    with at.open(mute_too=True) as target:
        (bus, number, profile, mute, _), endless = target, None
        if state == "on":
            if mute:
                raise target.silence
            endless = bus.protocol(number).endless_goal(bus.read(number, *bus.protocol(number).mode).data)
            names = {register.address: name for name, register in profile.registers.items()}
            goal = names[endless[0]] if endless else "goal_position"  # a wheel would turn at its last goal
            present = 0 if endless else _position_with_torque(target)
            write_register(bus, number, profile, goal, present)
        (write_blindly if mute else write_register)(bus, number, profile, "torque_enable", int(state == "on"))
    text = f"torque of servo {number} is {state}" + (f"; it follows no position: its {goal} is 0" if endless else "")
    if mute:
        text = f"sent torque off to servo {number}; nothing is confirmed\n{target.silence}"
    return Result({"id": number, "torque": state, "confirmed": not mute}, [text])


def _position_with_torque(target: _Target) -> int:
    """Return the Present Position that the servo will have once torque is on, counts; see `FirmwareProfile.turn`."""
    names = "present_position", "torque_enable", "operating_mode", "homing_offset"
    registers = target.profile.registers
    held = {name: read_register(target.bus, target.id, registers[name]) for name in names if name in registers}
    present = held["present_position"]
    return present if held["torque_enable"] else target.profile.put_back(present, held)


@verb("1 30 --port /dev/ttyUSB0", of=servo, context_settings=_NEGATIVE)
def goto(
    servo: Annotated[str, "Its bus id, or its name in the rig.", "ID|NAME"],
    angle: Annotated[float, "0 is the middle of its range, or the rig's zero.", "DEGREES"],
    *,
    rig: RigOption = "",
    port: str | None = None,
    baud: int = _USUAL_BAUD,
    duration: Annotated[float | None, "Default: at 60°/s or slower."] = None,
) -> Result:
    """Move one servo softly to an angle, then switch its motor off.

    Without a rig, an id is enough: 0° is the middle of the servo's range. With one (--rig or AXBRIDGE_RIG), its zero,
    direction and limits are used. Ctrl-C stops it, and the motor goes off.
    """
    if not math.isfinite(angle):
        raise UsageError(f"{angle} is no angle", "give degrees: 30, or -12.5")
    if 0 < abs(angle) < _RADIANS and angle != round(angle, 1):
        note(f"{angle:g} is taken for degrees; {angle:g} rad are {math.degrees(angle):.1f}°")
    if duration is not None and not 0 < duration < math.inf:
        raise UsageError(f"a duration of {duration:g} s is not positive and finite", "give seconds")
    alone = _one_of_rig(rig, servo) if rig else _rig_of_id(servo, port, baud)
    there = f"{alone.servos[0].name} is where it was"
    from axbridge.robot.calibration import reach_of, refuse_shut_down
    from axbridge.robot.open import open_robot  # slow to import, and no other verb of `servo` needs it

    with (
        stopping(alone, lambda: there),
        progress(f"{alone.servos[0].name} goes to {angle:g}°") as show,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ControlWarning)  # each is raised as an error below
        with open_robot(alone, "real", port=port) as robot:
            joint = robot[0]
            refuse_shut_down(robot, joint.name)
            low, high = map(math.degrees, reach_of(joint))
            if not low <= angle <= high:
                problem = f"{angle:g}° is out of the limits of {joint.name}: {low:.1f}° to {high:.1f}°"
                raise UsageError(problem, "give an angle between them")

            def follow(*_: object) -> None:
                nonlocal there
                there = f"{joint.name} is at {math.degrees(joint.position):.1f}°"
                show(f"{there} on its way to {angle:g}°")

            robot.observe(follow)
            goal = math.radians(angle)
            quickest = minimum_jerk.shortest(goal - joint.position, joint.max_velocity)
            if duration is not None and duration < quickest:
                problem = f"{duration:g} s are too short for {joint.name}: it needs {quickest:.2f} s at least"
                raise UsageError(problem, "give a longer --duration, or leave it out")
            arrived = joint.goto(goal, duration or minimum_jerk.gentle(goal - joint.position, joint.max_velocity))
            lost, end = robot.last_step.errors.get(joint.name), joint.position
    if lost is not None:
        raise lost
    text = f"{there}; {motors_after(alone)}"
    facts = {"id": alone.servos[0].id, "servo": joint.name, "position_rad": end, "arrived": arrived}
    if not arrived:
        far = abs(math.degrees(end) - angle)
        why = "something holds it, or its load is too heavy for its torque and gain"
        print(f"it did not get to {angle:g}°, {far:.1f}° are left: {why}", file=sys.stderr)
    return Result(facts, [text], DONE if arrived else HARDWARE)


def _one_of_rig(name: str, servo: str) -> Rig:
    """Return a rig with only this servo, by name or bus id, and the servos coupled to it."""
    rig = Rig.load(name)
    chosen = servo_of(rig, servo)
    base, coupled, _ = chosen.name.partition("::")
    others = [other for other in rig.servos if coupled and other.name.startswith(f"{base}::") and other != chosen]
    lines = tuple(bus for bus in rig.buses if bus.name in {other.bus for other in (chosen, *others)})
    limp = rig.safety.model_copy(update={"on_exit": "limp", "park": {}})
    alone = {"servos": (chosen, *others), "buses": lines, "safety": limp, "world": None, "sensors": ()}
    return rig.model_copy(update=alone)


def _rig_of_id(servo: str, port: str | None, baud: int) -> Rig:
    """Return a rig of the servo with this bus id, whose zero is the middle of its range."""
    with _At(servo, port=port, baud=baud).open() as target:
        profile, line = target.profile, {"port": target.bus.port_name, "baud": baud}
        held = checked_convention(target.bus, target.id, profile, **target.line)
    name = f"servo {target.id}"
    entry = {"name": name, "joint": name, "id": target.id, "profile": profile.name}
    entry |= {"zero": profile.units.middle, "registers": held}
    return Rig.model_validate({"name": name, "bus": [line], "servo": [entry]})


def _identify(bus: SerialBus, id: int, own: FirmwareProfile | None = None) -> tuple[FirmwareProfile, bool]:
    """Return the profile for the servo's model number, and whether it answers PING only; set the bus's protocol for it.

    An unknown model gets the `own` profile of its rig, or the usual one of a protocol whose servos share registers.

    Raises:
        BusError: the registers of the servo's model are not known.
    """
    length = Address.STATUS_RETURN_LEVEL + 1
    try:
        data = commission.read_start(bus, id, length)
    except BusTimeout:
        named = commission.try_protocol(bus, id, SECOND)
        if named is None:
            raise
        if is_unknown(SECOND, named[0], own):
            raise unknown_model(id, named[0]) from None
        profile = profile_for(*named) or own
        assert profile is not None  # `is_unknown` has excluded the other case
        mute = not commission.answers_reads(bus, id)
        full = not mute and read_register(bus, id, profile.register("status_return_level")) == SECOND.full_level
    else:
        if data is None or len(data) < length:  # it answers PING only, or refused the read
            bus.no_write_ack_ids |= {id} if data is None else set()
            return FirmwareProfile.load("ax-12a"), data is None
        protocol, model, firmware = identify_model(id, data)
        bus.set_protocol(id, protocol)
        profile = profile_for(model, firmware) or own or FirmwareProfile.load(protocol.usual_profile)
        mute, full = False, data[FAMILIES[protocol.name].addresses.STATUS_RETURN_LEVEL] >= protocol.full_level
    bus.no_write_ack_ids = bus.no_write_ack_ids - {id} if full else bus.no_write_ack_ids | {id}
    return profile, mute
