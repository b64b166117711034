"""A relay that protects a rig's servos: rules for packets, and the exit policy when the program is gone."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable

from axbridge.bridge.black_box import PATIENCE, BlackBox
from axbridge.bridge.known import Known
from axbridge.bridge.protector import Protector
from axbridge.bridge.relay import SAME_BAUD, Packets, Relay
from axbridge.bridge.rules import Notice
from axbridge.bus.base import Reply
from axbridge.bus.cycle import CycleServo
from axbridge.bus.handshake import separate
from axbridge.bus.protocols.packet import Packet
from axbridge.bus.serial import SerialBus
from axbridge.bus.track import Retry
from axbridge.config.registers import QUESTIONS
from axbridge.config.rig import Rig
from axbridge.errors import BusError, PortError, UsageError
from axbridge.robot.backend import ports_of
from axbridge.robot.connection import Connection
from axbridge.robot.drives.bus_drive import BusDrive
from axbridge.robot.mixed import open_mixed
from axbridge.robot.torque_watch import standing_speed
from axbridge.virtual.channel import Channel

_TICK = 0.005  # s between checks for the program
_FEED_PERIOD = 0.02  # s between feeds of the guard process
_GRACE = 0.01  # s: dynamixel-sdk closes its port and opens it again when it sets a rate
_WRITE_WINDOW = 0.1  # s within which a program that drives the robot writes again
_FAR_GOAL = math.radians(15)  # rad between a goal and the joint: above it the goal is far
_BLOCK = 32  # bytes of one READ when the tables are first read


def only_bus(rig: Rig) -> None:
    """Raise `UsageError` for a rig with several buses."""
    if len(rig.buses) > 1:
        names = ", ".join(bus.name for bus in rig.buses)
        raise UsageError(f"a bridge has one line, and rig {rig.name!r} has {names}", "write a rig for each line")


class Bridge:
    """Relays between a channel and the line of a rig, after checking its servos and reading their control tables.

    `virtual` has patterns of the servos that are simulated (see `axbridge.robot.mixed.chosen`).

    Raises:
        UsageError: the rig has several buses.
        BusError: the port cannot be opened, a servo is missing, or it is of another model.
    """

    def __init__(
        self,
        rig: Rig,
        port: str | None,
        notify: Callable[[Notice], object],
        *,
        allow_service: bool = False,
        box: BlackBox | None = None,
        virtual: Iterable[str] = (),
    ) -> None:
        only_bus(rig)
        if (device := ports_of(rig, port)[0]).startswith("rfc2217:"):
            raise UsageError(f"{device} has no descriptor to wait on", "use a device, or socket://")
        self._say_notice, self._box = notify, box or BlackBox(rig)
        self._stale_time = None if rig.safety.stale_command_ms is None else rig.safety.stale_command_ms / 1000
        self._policy = rig.safety.on_exit
        self._connection = Connection(rig, open_mixed(rig, port, virtual))
        try:
            (bus,) = self._connection.backend.buses.values()
            assert isinstance(bus, SerialBus)  # of the real backend
            self._bus, self.turn = bus, bus.turn
            bus.port.refuse_bridge()
            self._box.watch(bus.port)
            self._connection.check_servos()
            self._drives = drives = {drive.config.name: drive for drive in self._connection.on_bus}
            self._arm()
            servos = {servo.name: servo for cycle in self._connection.cycles.values() for servo in cycle.servos}
            self._table = self._box.traffic.table
            for name, drive in drives.items():
                _set_limits(self._table.servos[drive.id], drive, servos[name], rig)
            bus.latency = max(bus.latency, PATIENCE)  # else the program gets late replies to the bridge's packets
            self._read_tables()
            rules = rig.bridge.model_copy(update={"allow_service": allow_service or rig.bridge.allow_service})
            # without service the servos keep their rate
            self._rig_baud = bus.port.baudrate
            self._baud = None if rules.allow_service else self._rig_baud
            self._protector = Protector(bus, self._box, rules, self._notify, self._connection.update_guard)
        except BaseException:
            self._connection.close()
            raise
        self._clients = 0  # highest number of clients of the port since the exit policy was applied
        self._left_at = math.inf  # time when a client closed the port
        self._id_retry = Retry()  # of servos that answer neither at a new id nor at the old one
        self._shared: dict[str, str] = {}  # texts about servos with the id of another one, by name
        self._relay: Relay | None = None

    def _arm(self) -> None:
        rig = self._connection.rig
        self._connection.arm(lambda name: self._drives[name].reachable(rig.specs[name].limits), lambda _: None)

    def run(
        self, channel: Channel, stopping: Callable[[], bool], beside: Callable[[Relay], None] | None = None
    ) -> None:
        """Relay until `stopping()`, checked every 5 ms; `beside` (`Gaps`) is called between two packets."""
        packets = Packets(self._box.traffic.versions, self._examine)
        relay = self._relay = Relay(channel, self._bus.port, packets, self._say, self._baud)
        self._box.watch(relay.port, relay)
        fed_at = -math.inf
        while not stopping():
            if (now := time.monotonic()) - fed_at > _FEED_PERIOD:
                fed_at = now
                self._connection.feed()
                self._protector.lend()
            relay.step(_TICK)
            try:
                self._check_program(relay)
                self._box.work(relay.bytes_wait)
                if beside is not None:
                    beside(relay)
                if relay.port.fd is not None and self._box.is_pause:
                    self._follow_ids()
                    self._protector.watch()
            except PortError as lost:
                relay.lose(lost)

    def close(self) -> None:
        """Apply the exit policy and release the port; may be called twice."""
        self._release()
        with contextlib.suppress(PortError):
            self._protector.close()
        self._connection.close()

    def _check_program(self, relay: Relay) -> None:
        """Apply the exit policy when the program is gone, or silent for longer than the rig allows.

        When one of several clients closes the port, the remaining client may be one that only reads. The policy is
        therefore applied unless that client writes soon. A client that has written may have opened and closed the port
        between two calls.
        """
        now, wrote_at = time.monotonic(), self._protector.wrote_at
        clients = relay.channel.clients
        if clients is None or clients >= max(self._clients, self._protector.has_written):
            self._clients, self._left_at = clients or 0, math.inf
        else:
            self._left_at = min(self._left_at, now)
        away = now - self._left_at
        if clients and wrote_at > self._left_at:
            self._clients, away = clients, -math.inf
        gone = away > (_WRITE_WINDOW if clients else _GRACE)
        silent = self._stale_time is not None and now - relay.sent_at > self._stale_time
        if not self._protector.has_written or relay.port.fd is None:
            return
        if gone and not clients:
            gone = relay.channel.is_abandoned()
        if gone or silent:
            reason = "client gone" if gone else f"client silent for {now - relay.sent_at:.2f} s"
            failed = self._release()
            self._clients = clients or 0
            count = len(self._table.servos)
            self._say(f"{reason}: {self._policy} ({count - len(failed)} of {count} confirmed)", "exit")
            for name, error in failed.items():
                self._notify(Notice(name, "exit", f"may still be powered: {self._shared.get(name, error.message)}"))
            self._protector.reset()

    def _follow_ids(self) -> None:
        """Use the new id of each servo to which the program has given one, if it answers there."""
        now, bus = time.monotonic(), self._bus
        if self._baud is not None or now < self._id_retry.at:
            return
        for servo in [*self._table.servos.values()]:
            place, before = servo.protocol.id_place, servo.id
            new = servo.held.get(place, before)
            if new == before or servo.name in self._shared or not bus.virtual_ids.isdisjoint({before, new}):
                continue
            other = self._table.servos.get(new)
            if other is None:
                bus.set_protocol(new, servo.protocol)
                (answer,) = bus.read_many([(new, place, 1)])
            if other or not isinstance(answer, Reply) or answer.data != bytes((new,)):
                (answer,) = bus.read_many([(before, place, 1)])
                if isinstance(answer, Reply) and answer.data:  # it has refused the new id
                    servo.note(place, answer.data)
                elif other is None:
                    self._id_retry.wait(now)
                else:
                    self._shared[servo.name] = f"it has id {new} now, as {other.name} has; both move and answer at once"
                    text = f"{self._shared[servo.name]}; {separate(bus.port_name)}"
                    self._notify(Notice(servo.name, "service", text))
                continue
            self._id_retry = Retry()
            self._box.move(servo, new)
            if before in bus.no_write_ack_ids:
                bus.no_write_ack_ids |= {new}
            drive = self._drives[servo.name]
            drive.id = new
            self._arm()
            again = " again" if drive.config.id == new else f" now, and the rig says {drive.config.id}"
            self._notify(Notice(servo.name, "service", f"its id is {new}{again}"))

    def _release(self) -> dict[str, BusError]:
        """Apply the exit policy at the rate of the latest answer, at the rig's, and at those of the servos.

        With service allowed, a program may have changed rates. See `Connection.release`.
        """
        self._box.work()
        rates: list[int] = []
        own = (servo.baud for servo in self._table.servos.values())
        for rate in (self._relay.answered_baud if self._relay else self._rig_baud, self._rig_baud, *own):
            if math.isfinite(rate) and all(abs(rate / other - 1) > SAME_BAUD for other in rates):
                rates.append(round(rate))
        failed: list[dict[str, BusError]] = []
        self._connection.confirmed = frozenset()
        for baud in rates:
            self._id_retry = Retry()
            with contextlib.suppress(PortError):  # a lost port; `release` reports it
                if not baud == self._bus.baud == self._bus.port.baudrate:
                    self._bus.set_baud(baud)
                self._follow_ids()
            failed.append(self._connection.release())
            if not failed[-1]:
                break
        left = {name: error for name, error in failed[0].items() if all(name in others for others in failed)}
        self._connection.confirmed = frozenset(failed[0].keys() - left.keys())
        if len(failed) > 1:
            with contextlib.suppress(PortError):
                self._bus.set_baud(rates[0])
        return left

    def _notify(self, notice: Notice, *, said: bool = True) -> None:
        self._box.note(notice, said=said)
        if said:
            self._say_notice(notice)

    def _say(self, text: str, rule: str = "port") -> None:
        self._notify(Notice("", rule, text))

    def _examine(self, version: int, packet: Packet, frame: bytes) -> bytes:
        if self._baud is None and packet.code not in QUESTIONS:
            self._box.work()
            self._follow_ids()
        replacement = self._protector.examine(version, packet, frame)
        if replacement is not frame:
            self._box.note_change(frame, replacement)
        return replacement

    def _read_tables(self) -> None:
        """Read all registers of all servos once; the black box stores them."""
        for servo in self._table.servos.values():
            for begin, end in _runs(servo):
                self._bus.read(servo.id, begin, end - begin)
        self._box.work()


def _runs(servo: Known) -> list[tuple[int, int]]:
    """Return begin and end of adjacent registers, in runs of at most `_BLOCK` bytes."""
    runs: list[tuple[int, int]] = []
    for register in sorted(servo.profile.registers.values(), key=lambda register: register.address):
        if runs and runs[-1][1] == register.address and register.end - runs[-1][0] <= _BLOCK:
            runs[-1] = runs[-1][0], register.end
        else:
            runs.append((register.address, register.end))
    return runs


def _set_limits(known: Known, drive: BusDrive, servo: CycleServo, rig: Rig) -> None:
    """Set the rig's limits of a servo in the table."""
    rules, calibration, units = rig.bridge, drive.calibration, drive.profile.units
    torque, current = drive.torque_limits
    stall = rules.stall or rig.safety.stall or drive.protocol.blocked_share
    if drive.profile.register(drive.protocol.names.torque).address < drive.profile.eeprom_end:
        stall = 1.0
    if rules.limits:
        known.positions = servo.goal_range if math.isfinite(rig.specs[servo.name].limits[0]) else None
        known.top_speed, known.top_torque, known.top_current = servo.top_speed, torque, current
    known.top_temperature, known.voltages = servo.top_temperature, servo.voltage_range
    known.stall, known.still = stall, round(standing_speed(drive) / units.speed)
    known.slow, known.near = calibration.speed_limit(rules.far_goal_speed), round(_FAR_GOAL / units.position)
