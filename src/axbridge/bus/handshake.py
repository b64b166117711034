"""Checks before the first goal: presence, model and settings of each servo; all faults are reported together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from axbridge.bus.base import Bus, Reply
from axbridge.bus.commission import (
    MODEL_AND_FIRMWARE,
    answers_reads,
    read_register,
    read_start,
    restore_status_return_level,
)
from axbridge.bus.protocols.known import PROTOCOLS, SECOND
from axbridge.bus.protocols.packet import byte_seconds
from axbridge.bus.protocols.protocol import FIRST, Protocol
from axbridge.bus.serial import SerialBus
from axbridge.config import toml_tables
from axbridge.config.profile import FOLDER, FirmwareProfile
from axbridge.config.registers import FAMILIES, MOST_OFFSET, NOT_BESIDE_2, POSITION_MODES, DriveMode, OperatingMode
from axbridge.errors import BusError, BusTimeout, CorruptPacket, HardwareError, ProfileError, Remedy

UNREADABLE = frozenset({"missing", "collision", "status_level"})  # kinds of findings: the servo answers no READ
_UNKNOWN = "name a profile of this model in a rig; to switch its motor off, cut the servo supply"
_READS, _MORE_READS = 4, 16  # reads that distinguish noise from two servos with one id
_FIRST_FAMILIES = [FAMILIES[kind.name].addresses for kind in PROTOCOLS.values() if kind.version == 1]
_SETTINGS = 1 + max(place.SHUTDOWN for place in _FIRST_FAMILIES)  # bytes with model and settings of a servo
START = 1 + max(  # bytes that identify the family, the model and the firmware
    max(place.ID, place.MODEL_NUMBER + 1, place.FIRMWARE_VERSION) for place in _FIRST_FAMILIES
)


@dataclass(frozen=True)
class Expected:
    """A servo that is expected on a line."""

    name: str  # name for messages
    id: int
    profile: FirmwareProfile
    registers: Mapping[str, int] | None = None  # register values that opening the rig writes; None: there is no rig

    @property
    def protocol(self) -> Protocol:
        """Return the servo's protocol."""
        return PROTOCOLS[self.profile.protocol]


@dataclass(frozen=True)
class ExpectedBus:
    """A port and its servos; `servos` is empty if they are not known."""

    port: str
    baud: int
    servos: tuple[Expected, ...] = ()

    def open(self) -> SerialBus:
        """Open the port, and set the protocol of each servo."""
        bus = SerialBus(self.port, self.baud)
        for servo in self.servos:
            bus.set_protocol(servo.id, servo.protocol)
        return bus


@dataclass(frozen=True)
class Finding:
    """A fault of a servo or a port, and its repair."""

    subject: str
    problem: str
    fix: str  # command or action
    fatal: bool  # a robot must not start with this fault
    kind: str  # for programs: missing, model, firmware, collision, return_delay, status_level, …
    id: int | None = None  # id of the servo; None: a fault of the port


def handshake(bus: Bus, servos: Sequence[Expected], *, port: str = "") -> list[Finding]:
    """Identify every servo, note which ones acknowledge writes, and measure the latency; return findings."""
    findings: list[Finding] = []
    present = []
    for servo in servos:
        bus.set_protocol(servo.id, servo.protocol)
    for servo in servos:
        results = list(inspect(bus, servo, port))
        findings += results
        if not any(finding.kind in UNREADABLE for finding in results):
            present.append(servo.id)
    if isinstance(bus, SerialBus) and present:
        measure_latency(bus, present)
    return sorted(findings, key=lambda finding: not finding.fatal)


def inspect(bus: Bus, servo: Expected, port: str = "") -> Iterator[Finding]:
    """Yield the findings about one servo; see `handshake`."""
    label, id_ = name_of(servo), servo.id
    look = Remedy("servo info", id_, port=port)
    if id_ == NOT_BESIDE_2 and SECOND in bus.protocols.values() and servo.protocol is not SECOND:
        problem = "speaks Protocol 1.0, and each packet of 2.0 begins like one to this id"
        yield Finding(label, problem, Remedy("servo set-id", id_, "NEW", port=port), True, "id", id_)
    ping_has_model = servo.protocol.ping_length > 0
    try:
        data = bus.ping(id_).data if ping_has_model else read_start(bus, id_, _SETTINGS)
    except BusTimeout as timeout:
        fix = Remedy("scan", port=port, baud="all") if timeout.remedy else timeout.hint  # the hint names the cause
        yield Finding(label, "does not answer", fix, True, "missing", id_)
        return
    except CorruptPacket:
        yield _collision(servo, port)
        return
    if data is None or (ping_has_model and not answers_reads(bus, id_)):
        problem = "has status return level 0: it answers PING, but no read and no write"
        yield Finding(label, problem, restore_status_return_level(id_, port=port), True, "status_level", id_)
        return
    if ping_has_model:
        model, firmware = MODEL_AND_FIRMWARE.unpack(data)
        if is_unknown(servo.protocol, model, servo.profile):
            meant = f", not {servo.profile.model_number} ({servo.profile.name})" if servo.registers is not None else ""
            yield Finding(label, f"is model {model} (unknown){meant}", _UNKNOWN, True, "model", id_)
            return
        delay, level, alarms = (
            read_register(bus, id_, servo.profile.register(name))
            for name in ("return_delay_time", "status_return_level", "hardware_error_status")
        )
    elif len(data) < _SETTINGS:
        yield Finding(label, "refuses to be read", look, True, "model", id_)
        return
    else:
        _, model, firmware = identify_model(id_, data)
        place, alarms = FAMILIES[servo.profile.protocol].addresses, 0
        delay, level = data[place.RETURN_DELAY_TIME], data[place.STATUS_RETURN_LEVEL]
    if level < servo.protocol.full_level:
        bus.no_write_ack_ids |= {id_}
    if model != servo.profile.model_number:
        profile = profile_for(model, firmware)
        fix = f'set profile = "{profile.name}" in the rig' if profile else look
        problem = f"is model {model} ({profile.name if profile else 'unknown'}), not {servo.profile.model_number}"
        yield Finding(label, f"{problem} ({servo.profile.name})", fix, True, "model", id_)
    elif firmware < servo.profile.firmware_version:
        problem = f"has firmware {firmware}, older than the profile's {servo.profile.firmware_version}"
        fix = "update it with ROBOTIS' tools, or give the rig a profile of that firmware"
        yield Finding(label, problem, fix, False, "firmware", id_)
    set_up = servo.registers  # if the servo counts differently than the rig assumes, goals lead to wrong positions
    names, counts = servo.protocol.names, servo.profile.units.counts
    if servo.profile.behaviour.multi_turn and model == servo.profile.model_number:
        ends = [servo.profile.register(name) for name in (names.low, names.high)]
        limits = [end.decode(data[end.address : end.end]) for end in ends]
        if limits == [counts, counts] and not {names.low, names.high} & (set_up or {}).keys():
            problem = f"is in its multi-turn mode ({names.low} and {names.high} are {counts}), which cannot be driven"
            yield Finding(label, problem, Remedy("servo write", id_, names.low, 0, port=port), True, "multi_turn", id_)
    if alarms:
        problem = f"has shut itself down, or will: {HardwareError(alarms).describe()}"
        yield Finding(label, problem, Remedy("servo reboot", id_, port=port), False, "alarm", id_)
    compared = set_up is not None and model == servo.profile.model_number
    convention = position_convention(bus, id_, servo.profile) if compared else {}
    for name, usual, what in (
        ("homing_offset", 0, "counts from elsewhere"),
        ("drive_mode", convention.get("drive_mode", 0) & ~DriveMode.REVERSE, "counts the other way round"),
    ):
        if convention.get(name, usual) != usual and name not in (set_up or {}):
            mode = convention.get("operating_mode") if name == "homing_offset" else None
            lacks = {name: convention[name], **({} if mode is None else {"operating_mode": mode})}
            problem = f"its rig lacks registers = {toml_tables.written(lacks)}"
            fix = Remedy("servo write", id_, name, usual, port=port)
            if mode == OperatingMode.POSITION:
                problem = "which Position Control Mode ignores, and each other mode adds"
            else:
                fix = fix.within("add that to the rig to keep the calibration; to undo the calibration: {}")
            problem = f"{what}, by its {name} {convention[name]}; {problem}"
            yield Finding(label, problem, fix, True, name, id_)
    if delay:
        waits = delay * servo.profile.timing.return_delay_us_per_unit  # as measured: longer than the register says
        problem = f"waits {waits:.0f} µs before each answer, by its return_delay_time {delay}"
        fix = Remedy("servo write", id_, "return_delay_time", 0, port=port)
        yield Finding(label, problem, fix, False, "return_delay", id_)
    if is_shared(bus, id_):
        yield _collision(servo, port)


def position_convention(bus: Bus, id: int, profile: FirmwareProfile) -> dict[str, int]:
    """Return Homing Offset and Drive Mode, the zero and the direction of Present Position, if the servo has them.

    The result has the Operating Mode if the offset is large, because Position Control Mode ignores a large offset.
    A mode without position control counts as Extended Position Control Mode does.
    """
    names = ("homing_offset", "drive_mode")
    convention = {name: read_register(bus, id, profile.registers[name]) for name in names if name in profile.registers}
    if profile.protocol == 2 and abs(convention["homing_offset"]) > MOST_OFFSET:
        mode = read_register(bus, id, profile.registers["operating_mode"])
        convention["operating_mode"] = mode if mode in POSITION_MODES else int(OperatingMode.EXTENDED_POSITION)
    return convention


def checked_convention(bus: Bus, id: int, profile: FirmwareProfile, **line: Any) -> dict[str, int]:
    """Return `position_convention` for a new rig; raise `BusError` if the position jumps with the mode."""
    convention = position_convention(bus, id, profile)
    if convention.get("operating_mode") == OperatingMode.POSITION:
        why = f"servo {id} has homing_offset {convention['homing_offset']}, which its Position Control Mode (3) ignores"
        fix = Remedy("servo write", id, "homing_offset", 0, says="run {}", **line)
        raise BusError(f"{why}, and each other mode adds", fix)
    return convention


def is_shared(bus: Bus, id: int) -> bool:
    """Return whether two servos have this id. They answer at the same time, with different calibration and position."""
    whole, differing = bus.protocol(id).whole, bus.protocol(id).span_that_differs_between_units
    for _ in range(_READS):
        if isinstance(bus.read_many([(id, *whole)])[0], CorruptPacket):
            break  # a time-out proves nothing: a busy host may cause it
    else:
        return False
    # Noise, or two servos so similar that some replies are intact? Read only the registers that differ, more often.
    replies = bus.read_many([(id, *differing)] * _MORE_READS)
    return sum(isinstance(answer, CorruptPacket) for answer in replies) >= _MORE_READS // 4


def _collision(servo: Expected, port: str) -> Finding:
    problem = "answers with damaged packets: two servos with one id, or a bad cable"
    return Finding(name_of(servo), problem, separate(port), True, "collision", servo.id)


def separate(port: str) -> Remedy:
    """Return the remedy for two servos with one id: give one of them another id."""
    says = "connect them one at a time and give one another id: {}"
    return Remedy("servo set-id", "OLD", "NEW", port=port, says=says)


def measure_latency(bus: SerialBus, ids: Sequence[int], rounds: int = 20) -> float:
    """Measure the delay of adapter and host; set and return the bus's latency, s. The bus adds the return delay."""
    overhead = []
    for number in range(rounds):
        started, id_ = bus.clock.now(), ids[number % len(ids)]
        protocol = bus.protocol(id_)
        reply = bus.read_many([(id_, protocol.id_place, 1)])[0]
        if isinstance(reply, Reply):
            question = protocol.read_frame(id_, protocol.id_place, 1)
            bare = (len(question) + protocol.longest(1)) * byte_seconds(bus.baud)
            overhead.append(bus.clock.now() - started - bare)
    if overhead:
        usual = sorted(overhead)[int(0.95 * (len(overhead) - 1))]
        bus.latency = min(max(3 * usual, 0.003), max(bus.port.latency, 2 * max(overhead)))
    return bus.latency


def require(findings: Sequence[Finding], port: str) -> None:
    """Raise a `BusError` if a finding is fatal; a `BusTimeout` for a single missing servo."""
    fatal = [finding for finding in findings if finding.fatal]
    if not fatal:
        return
    missing = [finding.subject for finding in fatal if finding.kind == "missing"]
    parts = [f"{', '.join(missing)} {'does' if len(missing) == 1 else 'do'} not answer"] if missing else []
    parts += [f"{finding.subject} {finding.problem}" for finding in fatal if finding.kind != "missing"]
    first, says = fatal[0], "check power, wiring, id and baud rate: {} lists what answers" if missing else "run {}"
    fix, problem = first.fix, f"{port}: {'; '.join(parts)}"
    hint = fix.within(fix.says or says) if isinstance(fix, Remedy) else fix
    if len(fatal) == 1 and missing and first.id is not None:
        raise BusTimeout(first.id, hint, problem)
    raise BusError(problem, hint)


def identify_model(id: int, start: bytes) -> tuple[Protocol, int, int]:
    """Return protocol, model and firmware of a servo with packets of Protocol 1.0, by the first bytes of its table."""
    kinds = [kind for kind in PROTOCOLS.values() if kind.version == 1 and start[kind.id_place] == id] or [FIRST]
    candidates = [(kind, kind.number(start[kind.model_place :][:2]), start[kind.firmware_place]) for kind in kinds]
    known = (c for c in candidates if (profile := profile_for(*c[1:])) and profile.protocol == c[0].name)
    return next(known, candidates[0])


@lru_cache(maxsize=1)
def _shipped() -> list[FirmwareProfile]:
    return [FirmwareProfile.load(name) for name in toml_tables.shipped_names(FOLDER)]


def _own() -> list[FirmwareProfile]:
    """Load the user's own profiles; skip faulty ones, because a rig that uses such a profile reports its error."""
    profiles = []
    for name in toml_tables.own_names(FOLDER):
        with suppress(ProfileError):
            profiles.append(FirmwareProfile.load(name))
    return profiles


def profile_for(model: int | None, firmware: int | None = None, limit: int | None = None) -> FirmwareProfile | None:
    """Return the shipped or the user's own profile of a model number, or None.

    Among several, it has the newest firmware that is not newer than `firmware`. Models may share a number (AX-12,
    AX-12A): then the one whose factory value of the highest supply is `limit`, 0.1 V, is preferred, then the usual one.
    """

    def order(profile: FirmwareProfile) -> tuple[int, bool, bool, str]:
        fits = profile.register("max_voltage_limit").initial == limit
        usual = profile.name == PROTOCOLS[profile.protocol].usual_profile
        return profile.firmware_version, fits, usual, profile.name

    known = [profile for profile in (*_shipped(), *_own()) if profile.model_number == model]
    old_enough = [profile for profile in known if firmware is None or profile.firmware_version <= firmware]
    return max(old_enough or known, key=order, default=None)


def is_unknown(protocol: Protocol, model: int | None, *own: FirmwareProfile | None) -> bool:
    """Return whether the register addresses of a model number are unknown; `own`: profiles of a rig.

    Such a servo gets no write: the address of Torque Enable in one model is a limit or an indirect address in another.
    A servo whose model is not read (None) counts as known.
    """
    known = {profile.model_number for profile in (*_shipped(), *_own(), *own) if profile is not None}
    return not protocol.common_registers and model is not None and model not in known


def unknown_model(id: int, model: int) -> BusError:
    """Return the error for a servo of an unknown model (`is_unknown`)."""
    return BusError(f"servo {id} is model {model}, unknown here: nothing was written to it", _UNKNOWN)


def name_of(servo: Expected) -> str:
    """Return name and id of a servo for messages."""
    return f"servo {servo.id}" if servo.name in {"", str(servo.id)} else f"{servo.name} (id {servo.id})"
