"""Calibration by hand: the servo of a joint, its direction, its zero, and its range.

To show which servo is calibrated, its LED blinks and its motor moves a little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

from axbridge import minimum_jerk
from axbridge.bus.commission import read_register
from axbridge.bus.handshake import Finding, checked_convention, profile_for, separate
from axbridge.bus.scan import FoundServo, scan
from axbridge.bus.serial import SerialBus
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.config.rig_edit import Value
from axbridge.config.rig_tables import BusConfig, ServoConfig
from axbridge.errors import BusError, ProfileError, Remedy, RigError, UsageError
from axbridge.robot.backend import ports_of
from axbridge.robot.pose_check import calibrating
from axbridge.robot.robot import Robot
from axbridge.robot.servo import Servo
from axbridge.robot.trajectory_time import TrajectoryTime
from axbridge.units import Calibration, almost_a_turn

ENOUGH = math.radians(10)  # less than this is no movement
STRAIGHT = math.radians(5)  # accuracy with which a hand positions a joint
_OTHER_SHARE = 0.5  # share of the first servo's motion that another servo may have moved
_EDGE = 3  # counts from the end of the count: the servo may be beyond it
_DIGITS = 3  # of a limit in rad: 0.06°
NUDGE = math.radians(5)  # amplitude of the motion, forth and back
VISIBLE = math.radians(1.5)  # least motion in it: friction holds a loop without an integral back by 2° and more
TORQUE = 0.2  # of stall torque: enough to move a joint that a hand carries, and a finger stops it
_MOTION_TIME, _PAUSE = 0.4, 0.4  # s; motion each way, pause between them
_MOST_LAG = 0.6 * NUDGE  # a joint this far behind its goal is blocked, and the motion ends
_BLINK = 0.4  # s on, and the same off


@dataclass(frozen=True)
class Mounting:
    """How the servo of a joint is mounted."""

    bus: str  # name of its bus
    id: int  # on that bus
    profile: FirmwareProfile
    zero: int  # count at 0 rad
    direction: int  # 1, or -1 when the joint turns against the servo
    reach: tuple[int, int] | None  # lowest and highest count of the motion by hand, if any
    # Registers that set zero and direction of the servo's count; empty in Protocol 1.0
    registers: Mapping[str, int] = field(default_factory=dict)
    jumped: bool = False  # whether the count jumped by more than half a turn during the motion


def rig_of_bus(rig: Rig, port: str | None = None) -> Rig:
    """Return a rig of all servos that answer on the buses of `rig`, with any ids.

    Servos are named after their ids, in ascending order. Angles are 0 at register count 0 and grow with the counts.
    """
    buses, servos = [], []
    for bus, device in zip(rig.buses, ports_of(rig, port), strict=True):
        with SerialBus(device, bus.baud) as line:
            servos += [_entry(rig, bus, servo, line) for servo in scan(line)]
        buses.append({**bus.model_dump(), "port": device})
    if not servos:
        ports = ", ".join(bus["port"] for bus in buses)
        raise BusError(f"no servo answers on {ports}", Remedy("doctor", says="run {}"))
    table = {"name": rig.name, "bus": buses, "servo": servos, "path": rig.path, "bases": rig.bases}
    return Rig.model_validate(table)


def rig_of_scan(name: str, port: str | None = None, baud: int = 1_000_000) -> Rig:
    """Return a rig of all servos that answer on a port, without a body; 0 rad is the middle of each servo's range.

    Models and supplies are those of the servos' profiles; the bus has the highest supply.
    """
    placeholder = {"name": "none", "joint": "none", "id": 0}  # a rig needs a servo; the scan replaces it
    line = {"name": "main", "port": port or "auto", "baud": baud}
    there = rig_of_bus(Rig.model_validate({"name": name, "bus": [line], "servo": [placeholder]}), port)
    servos = []
    supply = max(spec.profile.electrics.nominal_voltage for spec in there.specs.values())
    for servo in there.servos:
        own, profile = f"servo_{servo.id}", there.specs[servo.name].profile
        facts = {"name": own, "joint": own, "zero": profile.units.middle, "model": profile.model}
        if profile.electrics.nominal_voltage < supply:
            facts["supply_voltage"] = profile.electrics.nominal_voltage
        servos.append({**servo.model_dump(exclude_unset=True), **facts})
    buses = [{**bus.model_dump(exclude_unset=True), "supply_voltage": supply} for bus in there.buses]
    return Rig.model_validate({"name": name, "bus": buses, "servo": servos})


def _entry(rig: Rig, bus: BusConfig, scanned: FoundServo, line: SerialBus) -> dict[str, object]:
    """Return the rig entry of a scanned servo; nothing is written to the servo."""
    if scanned.mute:
        look = Remedy("scan", port=line.port_name, says="{} says what repairs it")
        raise BusError(f"servo {scanned.id} answers PING alone", look)
    if scanned.model is None:
        why = "answers with damaged packets: two servos with one id, or a bad cable"
        raise BusError(f"servo {scanned.id} {why}", separate(line.port_name))
    own = next((servo for servo in rig.dynamixels if rig.specs[servo.name].profile.model_number == scanned.model), None)
    profile = profile_for(scanned.model, scanned.firmware) if own is None else rig.specs[own.name].profile
    if own is None and profile is not None and profile.maker == "Feetech":  # 7.4 V and 12 V have one model number
        limit = read_register(line, scanned.id, profile.register("max_voltage_limit"))
        profile = profile_for(scanned.model, scanned.firmware, limit)
    if profile is None:
        raise BusError(f"servo {scanned.id} is of model {scanned.model}, unknown here", "give the rig a profile of it")
    name = f"servo {scanned.id}" if len(rig.buses) == 1 else f"servo {scanned.id} on {bus.name}"
    place = {"name": name, "joint": name, "bus": bus.name, "id": scanned.id, "zero": 0}
    registers = checked_convention(line, scanned.id, profile, port=line.port_name)
    model = profile.name if own is None else own.profile
    return {**place, "profile": model, "registers": registers}


def moved_most(before: Mapping[str, float], now: Mapping[str, float]) -> tuple[str, float]:
    """Return the servo that a hand has turned, and its change, rad; UsageError if it is not exactly one."""
    changes = {name: now[name] - before[name] for name in before}
    name = max(changes, key=lambda name: abs(changes[name]))
    if abs(changes[name]) < ENOUGH:
        raise UsageError("no servo has moved by 10° or more", "turn the joint farther, hold it there, and press a key")
    others = [other for other in changes if other != name and abs(changes[other]) > _OTHER_SHARE * abs(changes[name])]
    if others:
        moves = ", ".join(f"{other} by {math.degrees(changes[other]):+.0f}°" for other in (name, *others))
        raise UsageError(f"more than one servo has moved: {moves}", "hold the others still, and turn this joint alone")
    if abs(changes[name]) > math.pi:
        why = f"{name} jumped from {math.degrees(before[name]):.0f}° to {math.degrees(now[name]):.0f}°"
        hint = "it turned across the end of its count: mount its horn so that the joint stays off that end"
        raise UsageError(why, hint)
    return name, changes[name]


def changes(rig: Rig, servo: ServoConfig, mounting: Mounting) -> tuple[dict[str, Value], list[str]]:
    """Return the changes of a servo's rig entry by its calibration, and notes about them.

    Limits are rounded inwards, and end at the rig's hard stops.
    """
    notes: list[str] = []
    wanted: dict[str, Value] = {"bus": mounting.bus, "id": mounting.id}
    if rig.specs[servo.name].profile.model_number != mounting.profile.model_number:
        wanted["profile"] = mounting.profile.name
        notes.append(f"{servo.name} is an {mounting.profile.name}; its model may have to change, too")
    wanted |= {"zero": mounting.zero, "direction": mounting.direction}
    if mounting.jumped:
        notes.append(
            f"{servo.name} jumped by more than half a turn: it was led across the end of its count, and its limits "
            "stay as they are; mount its horn so that the joint stays off that end"
        )
    elif mounting.reach is not None:
        low, high = _limits(servo, mounting, notes)
        wanted |= {"min_position": low, "max_position": high}
        if not low <= servo.position <= high:
            notes.append(f"{servo.name} starts a simulation at {servo.position:g} rad, outside these limits")
    usual = {name: mounting.profile.register(name).initial for name in mounting.registers}
    other = {name: held for name, held in mounting.registers.items() if servo.registers.get(name, usual[name]) != held}
    if other:
        wanted["registers"] = {**servo.registers, **other}
        listed = ", ".join(f"{name} {held}" for name, held in other.items())
        notes.append(f"{servo.name} has {listed}: its zero and direction hold with that, so the rig says so")
    return {key: value for key, value in wanted.items() if getattr(servo, key) != value}, notes


def _limits(servo: ServoConfig, mounting: Mounting, notes: list[str]) -> tuple[float, float]:
    """Return the lowest and highest angle of the motion by hand, rad."""
    assert mounting.reach is not None  # `changes` checks it
    units = mounting.profile.units
    mounted = Calibration(units, mounting.zero, mounting.direction)
    low, high = sorted(mounted.angle(count) for count in mounting.reach)
    for stop, beyond in ((servo.min_stop, servo.min_stop - low), (servo.max_stop, high - servo.max_stop)):
        if servo.min_stop < servo.max_stop and beyond > 0:
            far = f"{math.degrees(beyond):.1f}° beyond its stop at {stop:g} rad"
            notes.append(f"{servo.name} went {far}: the limit is there")
            low, high = max(low, servo.min_stop), min(high, servo.max_stop)
    if mounting.reach[0] < _EDGE or mounting.reach[1] > units.counts - _EDGE:
        notes.append(f"{servo.name} reached the end of its count: its horn may be mounted too near that end")
    elif odd := almost_a_turn((mounting.reach[1] - mounting.reach[0]) * units.position):
        notes.append(f"{servo.name} {odd}")
    scale = 10**_DIGITS
    return math.ceil(low * scale) / scale, math.floor(high * scale) / scale


def check_whole(rig: Rig, mountings: Mapping[str, Mounting]) -> None:
    """Raise RigError if calibration gives one id to two servos."""
    taken: dict[tuple[str, int | None], str] = {}
    for servo in rig.dynamixels:
        mounting = mountings.get(servo.name)
        place = (servo.bus, servo.id) if mounting is None else (mounting.bus, mounting.id)
        other = taken.setdefault(place, servo.name)
        if other != servo.name:
            old = servo.name if mounting is None else other
            why = f"{other!r} and {servo.name!r} would both be servo {place[1]}"
            hint = f"calibrate {old!r}, too: it must be another servo"
            raise RigError(rig.path, f"servo.{old}.id", why, hint)


@dataclass(frozen=True)
class JointTurn:
    """The servo that moved when a joint was turned in its positive direction."""

    joint: str  # name of the rig's servo whose joint was turned, or that was nudged
    moved: str  # name of the rig's servo that moved; "" if unknown
    way: Literal[1, -1]  # 1 when its angle grew, or the joint moved as the person expected; else -1
    # "hand": a hand turned the joint and the servo reported; "nudge": the servo turned it and a person answered
    by: Literal["hand", "nudge"]


def zero_pose(rig: Rig) -> dict[str, float]:
    """Return the zero pose, rad, by servo: 0, or the nearest angle within its limits."""
    limits = {servo.name: servo.soft_limits for servo in rig.servos}
    return {name: min(max(0.0, low), high) for name, (low, high) in limits.items()}


def judge_mounting(rig: Rig, off: Mapping[str, float], turns: Sequence[JointTurn], port: str) -> list[Finding]:
    """Return the wrong ids, directions and zeros of a rig as findings; `off` are the angles in the zero pose, rad."""
    servos = {servo.name: servo for servo in rig.servos}
    went = {turn.joint: turn.moved for turn in turns}
    swapped_names = {joint: moved for joint, moved in went.items() if joint != moved}
    wrong: list[tuple[str, str, str]] = []  # servo, problem, kind
    concerned: set[str] = set()
    for turn in turns:
        joint, moved, swapped = turn.joint, turn.moved, went.get(turn.moved) == turn.joint
        if joint not in swapped_names and turn.way < 0:
            direction = -servos[joint].direction
            wrong.append((joint, f"turns the other way: its direction should be {direction}", "direction"))
        if joint not in swapped_names or (swapped and list(servos).index(joint) > list(servos).index(moved)):
            continue  # a swap is one fault of two servos
        problem = "moves another joint than the rig says: its id is another servo's"
        if moved:
            problem = f"is moved by servo {servos[moved].id}, which the rig gives to {moved}"
            concerned.add(moved)
        if swapped:
            problem = f"and {moved} (id {servos[moved].id}) have each other's id: each moves the other's joint"
        wrong.append((joint, problem, "id"))
    for name, angle in off.items():
        if abs(angle) > STRAIGHT and name not in {*swapped_names, *swapped_names.values()}:
            counts = round(angle / rig.specs[name].profile.units.position) * servos[name].direction
            reads = f"reads {math.degrees(angle):+.1f}° too much where it should be straight"
            wrong.append((name, f"{reads}: its zero is off by {counts:+d} counts, or it was not held straight", "zero"))
    concerned.update(name for name, *_ in wrong)
    joints = ",".join(name for name in servos if name in concerned)
    fix = calibrating(rig, joints=joints, port=port)
    return [
        Finding(f"{name} (id {servos[name].id})", problem, fix, True, kind, servos[name].id)
        for name, problem, kind in wrong
    ]


@contextmanager
def blinking(robot: Robot, name: str) -> Iterator[Callable[[], None]]:
    """Blink a servo's LED in this block: call the yielded function after each step. The LED is restored afterwards.

    An LED that cannot be written is no error.
    """
    servo = robot[name]
    shown = before = 0
    with suppress(BusError, ProfileError):
        shown = before = servo.read("led")

    def blink() -> None:
        nonlocal shown
        wanted = int(robot.time / _BLINK) % 2
        if wanted != shown:
            shown = wanted
            with suppress(BusError, ProfileError):
                servo.write("led", wanted)

    try:
        yield blink
    finally:
        with suppress(BusError, ProfileError):
            servo.write("led", before)


def nudge(robot: Robot, name: str, after_step: Callable[[], None] = lambda: None) -> float:
    """Move a servo with little torque by `NUDGE` towards larger angles and back; return its largest motion, rad.

    The servo is limp afterwards, also after an error.
    """
    servo = robot.driven()[name]
    here = servo.position
    drive, profile = servo.dynamixel, servo.dynamixel.profile
    before = limits_of(robot, name)
    if drive.shut_down:
        remedy = drive.protocol.revival(drive.id)
        raise UsageError(f"{name} has shut itself down", remedy.within("when the cause is gone: {}"))
    low, high = reach_of(servo)
    if not low + NUDGE <= here <= high - NUDGE:
        ends = f"{math.degrees(low):.0f} to {math.degrees(high):.0f}°"
        why = f"{name} stands at {math.degrees(here):.0f}°, near the end of its range, {ends}"
        raise UsageError(why, "move the joint away from there by hand")
    farthest = 0.0
    held = _MOST_LAG if profile.protocol == 1 else NUDGE  # the loops of others have no integral
    try:
        servo.set_available_torque(TORQUE * servo.max_torque)
        servo.write(profile.names.torque, round(TORQUE * profile.units.full_scale))
        servo.torque_on()
        tick = robot.basic_time_step / 1000
        trajectory = TrajectoryTime()
        while (passed := trajectory.elapsed) < 2 * _MOTION_TIME + _PAUSE:
            there, back = passed / _MOTION_TIME, (passed - _MOTION_TIME - _PAUSE) / _MOTION_TIME
            wanted = here + NUDGE * (minimum_jerk.eased(there) - minimum_jerk.eased(back))
            servo.set_position(wanted)
            if robot.step() == -1:
                break
            after_step()
            error = robot.last_step.errors.get(name)
            trajectory.advance(tick, replied=error is None)
            if error is not None:
                if trajectory.expired:
                    raise error
                continue
            farthest = max(farthest, abs(servo.position - here))
            if abs(wanted - servo.position) > held:
                break
    finally:
        with suppress(BusError):  # must not replace the first error; closing the robot switches the motor off, too
            give_back(robot, name, before)
        servo.set_available_torque(servo.max_torque)
    return farthest


def limits_of(robot: Robot, name: str) -> dict[str, int]:
    """Return the present values of the speed and torque registers that `nudge` changes, by name."""
    servo = robot[name]
    names = servo.dynamixel.protocol.names
    return {register: servo.read(register) for register in (names.speed, names.torque)}


def give_back(robot: Robot, name: str, before: Mapping[str, int]) -> None:
    """Make a servo limp; write back the values of `limits_of`, unless it has shut itself down."""
    servo = robot[name]
    servo.torque_off()
    if not servo.dynamixel.shut_down:  # in Protocol 1.0, a write of Torque Limit ends the shutdown
        for register, value in before.items():
            servo.write(register, value)


def refuse_shut_down(robot: Robot, name: str) -> None:
    """Raise BusError, with the command that ends the shutdown, if a servo had shut itself down before the start."""
    if name in robot.withheld:
        drive = robot[name].dynamixel
        hint = drive.protocol.revival(drive.id).within("see why; then {} lets it move again")
        raise BusError(f"{name} has shut itself down", hint)


def reach_of(servo: Servo) -> tuple[float, float]:
    """Return the range of a servo by the rig's limits and its own, if these apply, rad; UsageError for a wheel."""
    names = servo.dynamixel.protocol.names
    if not servo.dynamixel.has_own_limits:  # an X servo that counts turns
        return servo.min_position, servo.max_position
    limits = servo.read(names.low), servo.read(names.high)
    if limits[0] >= limits[1]:
        problem = f"{servo.name} is set up as a wheel: its angle limits are {limits[0]} and {limits[1]}"
        raise UsageError(problem, Remedy("doctor", says="{} says which command makes it a joint"))
    low, high = sorted(map(servo.dynamixel.calibration.angle, limits))
    return max(low, servo.min_position), min(high, servo.max_position)
