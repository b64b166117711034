"""Calibration by hand: which servo moves a joint, which way it turns, where 0 rad is, and how far the joint goes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from axbridge.bus.commission import read_register
from axbridge.bus.handshake import Finding, counting, profile_for
from axbridge.bus.scan import FoundServo, scan
from axbridge.bus.serial import SerialBus
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.config.rig_edit import Value
from axbridge.config.rig_tables import BusConfig, ServoConfig
from axbridge.errors import BusError, RigError, UsageError
from axbridge.robot.backend import ports_of
from axbridge.units import Calibration

ENOUGH = math.radians(10)  # less than this is no movement
STRAIGHT = math.radians(5)  # so near a hand brings a joint to where it should be
_ALONE = 0.5  # another servo may have moved by this share of the first one's way
_EDGE = 3  # counts: this near the end of what it can say, a servo may be beyond it
_DIGITS = 3  # of a limit in rad: 0.06°


@dataclass(frozen=True)
class Mounting:
    """How the servo of a joint turned out to be mounted."""

    bus: str  # line it is on
    id: int  # its number there
    profile: FirmwareProfile  # what it is
    zero: int  # count at 0 rad
    direction: int  # 1, or -1 when the joint turns against the servo
    reach: tuple[int, int] | None  # lowest and highest count the hand went to; None when it did not go
    # What in the servo says from where and which way it counts; empty in Protocol 1.0
    registers: Mapping[str, int] = field(default_factory=dict)


def rig_of_bus(rig: Rig, port: str | None = None) -> Rig:
    """A rig of all servos that answer on the buses of `rig`, whatever their ids are.

    They are named after their ids, in ascending order. Their angles are 0 at register count 0 and grow with the counts.
    """
    buses, servos = [], []
    for bus, device in zip(rig.buses, ports_of(rig, port), strict=True):
        with SerialBus(device, bus.baud) as line:
            servos += [_entry(rig, bus, one, line) for one in scan(line)]
        buses.append({**bus.model_dump(), "port": device})
    if not servos:
        raise BusError(f"no servo answers on {', '.join(bus['port'] for bus in buses)}", "run `axbridge doctor`")
    table = {"name": rig.name, "bus": buses, "servo": servos, "path": rig.path, "bases": rig.bases}
    return Rig.model_validate(table)


def rig_of_scan(name: str, port: str | None = None, baud: int = 1_000_000) -> Rig:
    """A rig of all servos that answer on a port: no body, and 0 rad is the middle of each servo's range.

    Models and supplies are those that the servos' profiles name; the line has the highest supply.
    """
    nobody = {"name": "nobody", "joint": "nobody", "id": 0}  # a rig has a servo; which ones answer is found out
    line = {"name": "main", "port": port or "auto", "baud": baud}
    there = rig_of_bus(Rig.model_validate({"name": name, "bus": [line], "servo": [nobody]}), port)
    servos = []
    supply = max(there.profile_of(servo).electrics.nominal_voltage for servo in there.servos)
    for servo in there.servos:
        own, profile = f"servo_{servo.id}", there.profile_of(servo)
        found = {"name": own, "joint": own, "zero": profile.units.middle, "model": profile.model}
        if profile.electrics.nominal_voltage < supply:
            found["supply_voltage"] = profile.electrics.nominal_voltage
        servos.append({**servo.model_dump(exclude_unset=True), **found})
    buses = [{**bus.model_dump(exclude_unset=True), "supply_voltage": supply} for bus in there.buses]
    return Rig.model_validate({"name": name, "bus": buses, "servo": servos})


def _entry(rig: Rig, bus: BusConfig, found: FoundServo, line: SerialBus) -> dict[str, object]:
    """What a rig says of a servo that was found: it is left as it is."""
    where = f" --port {line.port_name}"
    if found.mute:
        raise BusError(f"servo {found.id} answers PING alone", f"`axbridge scan{where}` says what repairs it")
    if found.model is None:
        raise BusError(
            f"servo {found.id} answers with damaged packets: two servos with one id, or a bad cable",
            f"connect them one at a time and give one another id: axbridge servo set-id OLD NEW{where}",
        )
    own = next((servo for servo in rig.dynamixels if rig.profile_of(servo).model_number == found.model), None)
    profile = profile_for(found.model, found.firmware) if own is None else rig.profile_of(own)
    if own is None and profile is not None and profile.maker == "Feetech":  # 7.4 V and 12 V have one model number
        limit = read_register(line, found.id, profile.register("max_voltage_limit"))
        profile = profile_for(found.model, found.firmware, limit)
    if profile is None:
        raise BusError(f"servo {found.id} is of model {found.model}, unknown here", "give the rig a profile of it")
    name = f"servo {found.id}" if len(rig.buses) == 1 else f"servo {found.id} on {bus.name}"
    return {
        "name": name,
        "joint": name,
        "bus": bus.name,
        "id": found.id,
        "profile": profile.name if own is None else own.profile,
        "zero": 0,
        "registers": counting(line, found.id, profile),
    }


def moved_most(before: Mapping[str, float], now: Mapping[str, float]) -> tuple[str, float]:
    """The one servo that a hand has turned."""
    ways = {name: now[name] - before[name] for name in before}
    name = max(ways, key=lambda name: abs(ways[name]))
    if abs(ways[name]) < ENOUGH:
        raise UsageError("no servo has moved by 10° or more", "turn the joint farther, hold it there, and press a key")
    others = [other for other in ways if other != name and abs(ways[other]) > _ALONE * abs(ways[name])]
    if others:
        moves = ", ".join(f"{one} by {math.degrees(ways[one]):+.0f}°" for one in (name, *others))
        raise UsageError(f"more than one servo has moved: {moves}", "hold the others still, and turn this joint alone")
    if abs(ways[name]) > math.pi:
        raise UsageError(
            f"{name} jumped from {math.degrees(before[name]):.0f}° to {math.degrees(now[name]):.0f}°",
            "it turned across the end of its count: mount its horn so that the joint stays off that end",
        )
    return name, ways[name]


def changes(rig: Rig, servo: ServoConfig, found: Mounting) -> tuple[dict[str, Value], list[str]]:
    """What has to change in a rig's entry for it to say what was found, and notes about it.

    Limits are rounded inwards, and end at the rig's hard stops.
    """
    notes: list[str] = []
    wanted: dict[str, Value] = {"bus": found.bus, "id": found.id}
    if rig.profile_of(servo).model_number != found.profile.model_number:
        wanted["profile"] = found.profile.name
        notes.append(f"{servo.name} is an {found.profile.name}; its model may have to change, too")
    wanted |= {"zero": found.zero, "direction": found.direction}
    if found.reach is not None:
        low, high = _limits(servo, found, notes)
        wanted |= {"min_position": low, "max_position": high}
        if not low <= servo.position <= high:
            notes.append(f"{servo.name} starts a simulation at {servo.position:g} rad, outside these limits")
    usual = {name: found.profile.register(name).initial for name in found.registers}
    other = {name: held for name, held in found.registers.items() if servo.registers.get(name, usual[name]) != held}
    if other:
        wanted["registers"] = {**servo.registers, **other}
        listed = ", ".join(f"{name} {held}" for name, held in other.items())
        notes.append(f"{servo.name} has {listed}: its zero and direction hold with that, so the rig says so")
    return {key: value for key, value in wanted.items() if getattr(servo, key) != value}, notes


def _limits(servo: ServoConfig, found: Mounting, notes: list[str]) -> tuple[float, float]:
    """Lowest and highest angle of the hand, rad."""
    assert found.reach is not None  # `changes` has asked
    units = found.profile.units
    mounted = Calibration(units, found.zero, found.direction)
    low, high = sorted(mounted.angle(count) for count in found.reach)
    for stop, beyond in ((servo.min_stop, servo.min_stop - low), (servo.max_stop, high - servo.max_stop)):
        if servo.min_stop < servo.max_stop and beyond > 0:
            far = f"{math.degrees(beyond):.1f}° beyond its stop at {stop:g} rad"
            notes.append(f"{servo.name} went {far}: the limit is there")
            low, high = max(low, servo.min_stop), min(high, servo.max_stop)
    if found.reach[0] < _EDGE or found.reach[1] > units.counts - _EDGE:
        notes.append(f"{servo.name} reached the end of its count: its horn may be mounted too near that end")
    scale = 10**_DIGITS
    return math.ceil(low * scale) / scale, math.floor(high * scale) / scale


def check_whole(rig: Rig, found: Mapping[str, Mounting]) -> None:
    """Refuse findings that give one id to two servos."""
    taken: dict[tuple[str, int | None], str] = {}
    for servo in rig.dynamixels:
        mounting = found.get(servo.name)
        place = (servo.bus, servo.id) if mounting is None else (mounting.bus, mounting.id)
        other = taken.setdefault(place, servo.name)
        if other != servo.name:
            old = servo.name if mounting is None else other
            raise RigError(
                rig.path,
                f"servo.{old}.id",
                f"{other!r} and {servo.name!r} would both be servo {place[1]}",
                f"calibrate {old!r}, too: it must be another servo",
            )


@dataclass(frozen=True)
class JointTurn:
    """What moved when a joint was turned the way that counts as positive."""

    joint: str  # name of the rig's servo whose joint was turned, or that was nudged
    moved: str  # name of the rig's servo that moved; "" when nobody could say
    way: Literal[1, -1]  # 1 when its angle grew, or the joint went the way that was said; -1 for the other way
    # A hand turned it and the servo reported, or the servo turned it and a person answered
    by: Literal["hand", "nudge"]


def zero_pose(rig: Rig) -> dict[str, float]:
    """The pose that every joint is led to, rad, by servo: 0, or as near to 0 as its limits let it."""
    limits = {servo.name: servo.soft_limits for servo in rig.servos}
    return {name: min(max(0.0, low), high) for name, (low, high) in limits.items()}


def judge_mounting(rig: Rig, off: Mapping[str, float], turns: Sequence[JointTurn], port: str) -> list[Finding]:
    """What ids, directions and zeros of a rig are wrong."""
    servos = {servo.name: servo for servo in rig.servos}
    went = {turn.joint: turn.moved for turn in turns}
    strayed = {joint: moved for joint, moved in went.items() if joint != moved}
    wrong: list[tuple[str, str, str]] = []  # servo, problem, kind
    concerned: set[str] = set()
    for turn in turns:
        joint, moved, swapped = turn.joint, turn.moved, went.get(turn.moved) == turn.joint
        if joint not in strayed and turn.way < 0:
            direction = -servos[joint].direction
            wrong.append((joint, f"turns the other way: its direction should be {direction}", "direction"))
        if joint not in strayed or (swapped and list(servos).index(joint) > list(servos).index(moved)):
            continue  # a swap is one fault of two servos
        problem = "moves another joint than the rig says: its id is another servo's"
        if moved:
            problem = f"is moved by servo {servos[moved].id}, which the rig gives to {moved}"
            concerned.add(moved)
        if swapped:
            problem = f"and {moved} (id {servos[moved].id}) have each other's id: each moves the other's joint"
        wrong.append((joint, problem, "id"))
    for name, angle in off.items():
        if abs(angle) > STRAIGHT and name not in {*strayed, *strayed.values()}:
            counts = round(angle / rig.profile_of(servos[name]).units.position) * servos[name].direction
            reads = f"reads {math.degrees(angle):+.1f}° too much where it should be straight"
            wrong.append((name, f"{reads}: its zero is off by {counts:+d} counts, or it was not held straight", "zero"))
    concerned.update(name for name, *_ in wrong)
    joints = ",".join(name for name in servos if name in concerned)
    own, copy = str(rig.path), ""
    if rig.comes_along:
        own, copy = f"my_{rig.name}", f"axbridge rig copy {rig.name} my_{rig.name} && "
    fix = f"{copy}axbridge calibrate --rig {own} --joints {joints} --port {port}"
    return [
        Finding(f"{name} (id {servos[name].id})", problem, fix, True, kind, servos[name].id)
        for name, problem, kind in wrong
    ]
