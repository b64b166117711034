"""Recorder of a bridge: packets, notices, samples decoded from the packets, and a summary."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

import numpy as np

from axbridge.arrays import BoolArray, FloatArray
from axbridge.bridge.known import Known, Table
from axbridge.bridge.relay import Relay
from axbridge.bridge.rules import Notice
from axbridge.bridge.traffic import Traffic
from axbridge.bus.base import Bus
from axbridge.bus.port import Port
from axbridge.bus.protocols.packet import byte_seconds
from axbridge.bus.protocols.protocol import Protocol, Span
from axbridge.bus.rows import UNREAD, RawState, Rows
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError, plural
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import COMMANDS
from axbridge.recording.step_format import Source
from axbridge.robot.drives.bus_drive import BusDrive
from axbridge.robot.drives.known import drive_of
from axbridge.robot.samples import Samples, Scales
from axbridge.units import bits_to_signed

_SPACING = 0.005  # s: minimum time between two rows of the table
_GAP = 0.003  # s without a byte: the program has no packet in progress
_BATCH = 8  # chunks of bytes that wait for a pause; with more the bridge decodes while servos reply
_MOST_UNDECODED = 64  # chunks; with more it decodes at once
_GIVEN_UP = 0.1  # s after which no program waits for a reply any more
PATIENCE = 0.03  # s that the bridge waits for replies to its own packets: adapters delay a reply by up to 16 ms
_PAUSE = 0.2  # s without new values after which an open row is written
_SAMPLED = 1.0  # s after the program's own sample in which other samples of the servo start no row
_CYCLE = 0.1  # s: longest cycle of a program, from its sample to its goal
_MODELLED = ("temperature", "load", "voltage", "speed")  # inputs of the torque and power model
_LOSSES = {"timeouts": "without an answer", "corrupt": "damaged", "late": "late or repeated"}
_DUTIES = {"moving_speed", "goal_pwm", "goal_time"}  # registers of a wheel's duty in some mode


class BlackBox:
    """Decodes and records the bytes of a line.

    A new row of the table starts with the first sample or goal of a servo that is already in the present row. A program
    that works in cycles so gets one row per cycle. A row has the samples, and the goals written until the next sample.
    Without a recorder there is only a summary.
    """

    def __init__(self, rig: Rig, recorder: Recorder | None = None) -> None:
        self._recorder = recorder
        no_bus = cast(Bus, None)  # the drives only convert counts
        self._drives = [drive_of(rig.specs[servo.name], no_bus) for servo in rig.dynamixels]
        self._scales = Scales(self._drives)
        self._names = tuple(self._scales.servos)
        self._servos = [Known(drive.config.name, drive.id, drive.profile, drive.protocol) for drive in self._drives]
        self.traffic = Traffic(Table(self._servos), self._note_registers)
        self._notice_counts: Counter[str] = Counter()  # number of notices by rule
        self._undecoded: deque[tuple[float, Source, bytes]] = deque()
        self._start, self._start_ns = time.monotonic(), time.time_ns()
        self._port: Port | None = None
        self._relay: Relay | None = None
        self.failure: RecordingError | None = None  # the error that ended recording
        self._program = 0  # packets of the program
        self.rows = 0  # so far
        self._written_at = -math.inf
        self._changed_at = math.inf
        self._changes: set[tuple[int, str]] = set()  # id, and kind of change since the previous row
        self._sampled_at: dict[int, float] = {}  # s, time of the sample, by id, since the last row
        self._commanded_at: dict[int, float] = {}  # s, time of the goal; likewise
        self._read: dict[int, set[int]] = {servo.id: set() for servo in self._servos}  # addresses; likewise
        self._sender = Source.BRIDGE  # sender of the latest instruction packet
        self._program_sampled_at: dict[int, float] = {}  # s, the program's last sample, by id
        self._all_read_at: dict[int, float] = {}  # s, last read of all usual registers, by id
        self._limited: set[tuple[str, str]] = set()  # servo and limit; later a removed limit is recorded as its maximum

    @property
    def time(self) -> float:
        """Time of the recording, s."""
        return time.monotonic() - self._start

    def watch(self, port: Port, relay: Relay | None = None) -> None:
        """Record all bytes of this port from now on; bytes that `relay` passes to it are the program's."""
        self._port, self._relay = port, relay
        port.tap = self._record_bytes

    @property
    def is_pause(self) -> bool:
        """Whether the bridge may send a packet: the program's packet is answered, or its reply is overdue."""
        assert self._relay is not None  # `watch` was called before
        return self._relay.idle > (_GIVEN_UP if self.pending else _GAP)

    @property
    def pending(self) -> bool:
        """Whether a reply to the latest packet may still come."""
        return bool(self._undecoded) or self.traffic.pending

    def move(self, servo: Known, id: int) -> None:
        """Note that a servo has another id now, also in the counters of its line."""
        if self._changes:
            self._write_row(self.time)
        traffic, before = self.traffic, servo.id
        traffic.table.move(servo, id)
        by_id: tuple[dict[int, Any], ...] = (self._read, self._program_sampled_at, self._all_read_at)
        for values in (*by_id, traffic.stats.servos, traffic.alarms, traffic.errors):
            if before in values:
                values[id] = values.pop(before)

    def note_change(self, packet: bytes, instead: bytes) -> None:
        """Record a packet that a rule has changed."""
        self._record(lambda recorder: recorder.packet(self.time, Source.CHANGED, packet + instead))

    def note(self, notice: Notice, *, said: bool = True) -> None:
        """Count a notice; record it if it was `said`."""
        self._notice_counts[notice.rule] += 1
        if said:
            self._record(lambda recorder: recorder.event(self.time, "notice", **notice._asdict()))

    def work(self, until: Callable[[], bool] = lambda: False) -> None:
        """Decode the bytes that have passed, `until()` there are others to pass on."""
        byte = 0.0 if self._port is None else byte_seconds(self._port.baudrate)
        while self._undecoded:
            passed, source, data = self._undecoded.popleft()
            if source is Source.SERVOS:
                self.traffic.decode_received(data, passed)
            else:
                before, self._sender = self.traffic.questions, source
                self.traffic.decode_sent(data, passed, byte)
                self._program += (self.traffic.questions - before) * (source is Source.PROGRAM)
            if len(self._undecoded) < _MOST_UNDECODED and until():
                return
        if self._relay is not None:
            self._relay.behind = False
        if self._changes and self.time - self._changed_at > _PAUSE:
            self._write_row(self.time)

    def overdue(self, period: float, polled: Mapping[int, float]) -> tuple[Protocol, int] | None:
        """Return protocol and id of the servo with the oldest sample, if it is older than `period`, s.

        `polled` has the time of the last poll, s, by id: a servo may not have answered it.
        """

        def last_read(servo: Known) -> float:
            return max(self._all_read_at.get(servo.id, -math.inf), polled.get(servo.id, -math.inf))

        servo = min(self._servos, key=last_read)
        return (servo.protocol, servo.id) if self.time - last_read(servo) > period else None

    def close(self) -> None:
        """Decode and write the rest."""
        self.work()
        self.traffic.count_lost()
        if self._changes:
            self._write_row(self.time)

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the whole run."""
        seconds = self.time
        return {
            "seconds": seconds,
            "packets": self._program,
            "rate": self._program / seconds,
            "reply_ms": self.traffic.reply_times(),
            "servos": self.traffic.servos(),
            "rules": dict(self._notice_counts),
            "rows": self.rows,
        }

    def _record(self, write: Callable[[Recorder], None]) -> None:
        """Write to the recording until a write has failed; the bridge works without a recording."""
        if self._recorder is not None and self.failure is None:
            try:
                write(self._recorder)
            except RecordingError as failure:
                self.failure = failure

    def _record_bytes(self, data: bytes, sent: bool) -> None:
        passed = self.time
        program = self._relay is not None and self._relay.passing
        source = (Source.PROGRAM if program else Source.BRIDGE) if sent else Source.SERVOS
        if self._recorder is not None:
            self._record(lambda recorder: recorder.packet(passed, source, data))
        self._undecoded.append((passed, source, data))
        if self._relay is not None:
            self._relay.behind = len(self._undecoded) >= _BATCH

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _note_registers(self, servo: Known, place: range, written: bool, when: float) -> None:
        """Update the row before registers of a servo change; first write it if it is complete."""
        if self._recorder is None:
            return
        protocol, id_ = servo.protocol, servo.id
        goal = _covers(place, protocol.goal_position)
        read: Collection[int] = place
        beside = False  # a read of the bridge between a sample of the program and the goal that follows from it
        if not written:
            kind = "sample" if _covers(place, protocol.present_position) else "reading"
            if kind == "sample" and self._sender is Source.PROGRAM:
                self._program_sampled_at[id_] = when
            elif kind == "sample" and (age := when - self._program_sampled_at.get(id_, -math.inf)) < _SAMPLED:
                kind, read = "reading", set(place).difference(_places(protocol.present_position))
                beside = age < _CYCLE
        elif goal or servo.endless_goal in place:
            kind = "goal"
        else:
            return
        again, kinds = (id_, kind) in self._changes and not beside, {kind for _, kind in self._changes}
        late = kind == "sample" and "goal" in kinds and kind not in kinds  # a goal belongs to the sample before it
        if (again or late) and when - self._written_at >= _SPACING:
            self._write_row(when)
        self._changes.add((id_, kind))
        self._changed_at = when
        if kind == "goal":
            self._commanded_at[id_] = when
        else:
            self._read[id_].update(read)
            if _covers(place, protocol.usual):
                self._all_read_at[id_] = when
        if kind == "sample" or id_ not in self._sampled_at:
            self._sampled_at[id_] = when

    def _write_row(self, end: float) -> None:
        """Write the open row; goals without a time since the previous row get `end`, s."""
        times = np.array([self._sampled_at.get(servo.id, math.nan) for servo in self._servos])
        raw, fresh = self._raw(times)
        enabled = [servo.value("torque_enable") for servo in self._servos]
        rows = Samples(self._scales, self._scales.counted(raw), times, [bool(on) for on in enabled]).rows()
        for column, names in _SOURCES.items():
            known = np.logical_and.reduce([fresh[name] for name in names])
            rows[column] = np.where(known, rows[column], math.nan)
        commands = [self._commands(*pair) for pair in zip(self._drives, self._servos, strict=True)]
        for column, values in zip(COMMANDS, zip(*commands, strict=True), strict=True):
            rows[column] = values
        rows["commanded"] = [self._commanded_at.get(servo.id, end) for servo in self._servos]
        first = float(np.fmin.reduce(times))
        logged = self._start_ns + round(first * 1e9)
        self._record(lambda recorder: recorder.step(self._names, rows, logged=logged))
        self.rows += 1
        self._written_at = max(self._sampled_at.values())
        self._changes.clear()
        self._sampled_at.clear()
        self._commanded_at.clear()
        for addresses in self._read.values():
            addresses.clear()

    def _raw(self, times: FloatArray) -> tuple[Rows, dict[str, BoolArray]]:
        """Return the latest counts of all servos, and by name which were read since the previous row."""
        servos, samples = self._servos, dict[Protocol, tuple[list[int], bytes]]()
        fresh = {name: np.zeros(len(servos), bool) for name in RawState._fields}
        for protocol in {servo.protocol for servo in servos}:
            places = [place for place, servo in enumerate(servos) if servo.protocol is protocol]
            held = (servos[place].held.get(at, 0) for place in places for at in _places(protocol.usual))
            samples[protocol] = places, bytes(held)
            for name, form, offset in protocol.sample:
                span = _places((protocol.usual[0] + offset, np.dtype(form).itemsize))
                fresh[name][places] = [self._read[servos[place].id].issuperset(span) for place in places]
        fresh["error"] = np.array([bool(self._read[servo.id]) for servo in servos])
        errors = np.array([self.traffic.errors.get(servo.id, 0) for servo in servos])
        known = {"time": times, "error": errors, "torque_limit": np.full(len(servos), UNREAD)}
        return Rows(known, samples), fresh

    def _commands(self, drive: BusDrive, servo: Known) -> tuple[float, ...]:
        """Return the columns of `COMMANDS`; NaN for unknown values."""
        units, protocol = drive.profile.units, drive.protocol
        on = servo.value("torque_enable")
        enabled = math.nan if on is None else float(on == 1)
        torque = self._limit(drive, "torque", _scaled(servo.value(protocol.names.torque), 1 / units.full_scale), 1.0)
        if servo.endless_goal is not None:
            return math.nan, enabled, _duty(drive, servo), math.nan, torque
        goal = servo.value("goal_position")
        command = math.nan if goal is None else drive.calibration.angle(goal)
        counts = None if servo.is_time_based else servo.value(protocol.names.speed)
        most = drive.limits.velocity
        speed = most if counts == 0 else _scaled(counts, units.speed)  # 0: no speed limit
        return command, enabled, math.nan, self._limit(drive, "speed", speed, most), torque

    def _limit(self, drive: BusDrive, what: str, value: float, most: float) -> float:
        key = drive.config.name, what
        if value < most:
            self._limited.add(key)
        return min(value, most) if key in self._limited else math.nan


_SOURCES = {  # by column, the counts that it is computed from
    "position": ("position",), "velocity": ("speed",), "load": ("load",), "voltage": ("voltage",),
    "temperature": ("temperature",), "errors": ("error",), "torque": _MODELLED, "power": _MODELLED,
}  # fmt: skip


def _places(span: Span) -> range:
    return range(span[0], sum(span))


def _covers(place: range, span: Span) -> bool:
    """Return whether a range of addresses covers a whole span of registers."""
    return span[0] in place and sum(span) - 1 in place


def _scaled(counts: int | None, unit: float) -> float:
    return math.nan if counts is None else counts * unit


def _duty(drive: BusDrive, servo: Known) -> float:
    """Return the duty goal of a wheel; NaN if its goal is a speed or unknown."""
    name = next((name for name, at in servo.profile.registers.items() if at.address == servo.endless_goal), "")
    value, by_speed = servo.value(name), servo.profile.behaviour.wheel_mode == "speed"
    if value is None or name not in _DUTIES or (name == "moving_speed" and by_speed):
        return math.nan
    signed = value if servo.profile.register(name).signed else bits_to_signed(value)
    return drive.config.direction * signed / drive.profile.units.full_scale


def in_words(summary: dict[str, Any]) -> list[str]:
    """Return a `BlackBox.summary` as lines of text, without servos that have nothing to report."""
    seconds, reply = summary["seconds"], summary["reply_ms"]
    lines = [f"passed {plural(summary['packets'], 'packet')} in {seconds:.1f} s: {summary['rate']:.0f} a second"]
    if reply["p50"] is not None:
        lines.append(f"answers: median {reply['p50']:.2f} ms, 99 % within {reply['p99']:.2f} ms")
    for name, counts in summary["servos"].items():
        parts = [f"{counts[key]} {word}" for key, word in _LOSSES.items() if counts[key]]
        parts += [f"{alarm} in {plural(count, 'answer')}" for alarm, count in counts["alarms"].items()]
        if parts:
            lines.append(f"  {name}: of {plural(counts['asked'], 'question')}: {', '.join(parts)}")
    if summary["rules"]:
        lines.append("rules: " + ", ".join(f"{rule} {count}" for rule, count in summary["rules"].items()))
    return lines
