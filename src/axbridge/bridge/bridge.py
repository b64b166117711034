"""A relay that protects a rig's servos: rules for what passes, and the exit policy when the program is gone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from axbridge.bridge.black_box import BlackBox
from axbridge.bridge.known import Known, Table
from axbridge.bridge.relay import Packets, Relay
from axbridge.bridge.rules import Notice, checked, powered, wanted
from axbridge.bus.base import Reply
from axbridge.bus.protocols.packet import Packet
from axbridge.bus.protocols.protocol import Protocol
from axbridge.bus.serial import SerialBus
from axbridge.config.registers import QUESTIONS
from axbridge.config.rig import Rig
from axbridge.errors import BusError, UsageError
from axbridge.robot.backend import open_real, ports_of
from axbridge.robot.connection import Connection
from axbridge.robot.drives.bus_drive import BusDrive
from axbridge.virtual.channel import Channel
from axbridge.virtual.framing import Framing

_TICK = 0.005  # s between two looks whether the program is there
_FEED = 0.02  # s between two signs of life to the guard process
_GRACE = 0.02  # s: dynamixel-sdk closes its port and opens it again when it sets a rate
_SLOW = math.radians(45)  # rad/s, until a goal that was far away is reached
_FAR, _THERE = math.radians(15), math.radians(3)  # rad between a goal and the joint
_PAUSE = 5.0  # s without a goal, after which the next one is looked at like the first
_POLL = 0.05  # s between two looks whether a slow joint has arrived
_GAP = 0.003  # s: the program asks nothing that could be answered yet
_REPEAT = 1.0  # s: what goes on without such a pause is one notice
_BLOCK = 32  # registers of one READ when the tables are read first


def only_bus(rig: Rig) -> None:
    """Refuse a rig with several lines."""
    if len(rig.buses) > 1:
        names = ", ".join(bus.name for bus in rig.buses)
        raise UsageError(f"a bridge has one line, and rig {rig.name!r} has {names}", "write a rig for each line")


class Bridge:
    """Relays between a channel and the line of a rig, whose servos it has found and whose tables it has read.

    Raises:
        UsageError: the rig has several buses.
        BusError: the port cannot be opened, a servo is missing, or another one.
    """

    def __init__(
        self,
        rig: Rig,
        port: str | None,
        notify: Callable[[Notice], object],
        *,
        allow_service: bool = False,
        box: BlackBox | None = None,
    ) -> None:
        only_bus(rig)
        if (device := ports_of(rig, port)[0]).startswith("rfc2217:"):
            raise UsageError(f"{device} has no descriptor to wait on", "use a device, or socket://")
        self._say_notice, self._service = notify, allow_service
        self._box = box or BlackBox(rig)
        self._said: dict[tuple[str, str], float] = {}  # when a rule acted last, by servo and rule
        self._commanded: dict[int, float] = {}  # when each servo got its last goal, s
        self._polled = 0.0
        self._stale = None if rig.safety.stale_command_ms is None else rig.safety.stale_command_ms / 1000
        self._policy = rig.safety.on_exit
        self._connection = Connection(rig, open_real(rig, port))
        try:
            (bus,) = self._connection.backend.buses.values()
            assert isinstance(bus, SerialBus)  # of the real backend
            self._bus, self.turn = bus, bus.turn
            bus.port.refuse_bridge()
            self._box.watch(bus.port)
            self._connection.check_servos()
            drives = {drive.config.name: drive for drive in self._connection.on_bus}
            self._connection.arm(lambda name: _reach(drives[name]), lambda _: None)
            self._table = Table([_known(drive) for drive in drives.values()])
            self._read_tables()
        except BaseException:
            self._connection.close()
            raise
        self._versions = sorted({drive.protocol.version for drive in drives.values()})
        self._replies = Framing(self._versions)
        self._wrote = False  # whether the program wrote to a servo since the exit policy was applied
        self._gone_since = math.inf

    def run(
        self, channel: Channel, stopping: Callable[[], bool], beside: Callable[[Relay], None] = lambda _: None
    ) -> None:
        """Relay until `stopping()`, asked every 5 ms; `beside` is called between two packets."""
        packets = Packets(self._versions, self._examine)
        relay = Relay(channel, self._bus.port, packets, replied=self._note_replies, say=self._say)
        self._box.watch(relay.port, relay)
        fed = -math.inf
        while not stopping():
            if (now := time.monotonic()) - fed > _FEED:
                fed = now
                self._connection.feed()
            relay.step(_TICK)
            self._look_after(relay)
            beside(relay)
            if time.monotonic() - relay.sent_at > _GAP and relay.port.fd is not None:
                self._follow_slow_joints()

    def close(self) -> None:
        """Apply the exit policy and release the port; may be called twice."""
        try:
            self._connection.release()
            self._give_speeds_back([one for one in self._table.servos.values() if one.far_goal is not None])
        except BusError:  # the port is lost
            pass
        self._connection.close()

    def _look_after(self, relay: Relay) -> None:
        """Apply the exit policy when the program is gone, or silent for longer than the rig allows."""
        now = time.monotonic()
        if relay.channel.occupied is False:
            self._gone_since = min(self._gone_since, now)
        else:
            self._gone_since = math.inf
        gone = now - self._gone_since > _GRACE
        silent = self._stale is not None and now - relay.sent_at > self._stale
        if self._wrote and relay.port.fd is not None and (gone or silent):
            why = "client gone" if gone else f"client silent for {now - relay.sent_at:.2f} s"
            failed = self._connection.release()
            self._wrote = False
            self._table.forget()
            self._commanded.clear()
            self._give_speeds_back([one for one in self._table.servos.values() if one.far_goal is not None])
            all_ = len(self._table.servos)
            self._say(f"{why}: {self._policy} ({all_ - len(failed)} of {all_} confirmed)", "exit")
            for name, error in failed.items():
                self._notify(Notice(name, "exit", f"may still be powered: {error.message}"))

    def _notify(self, notice: Notice) -> None:
        key, now = (notice.servo, notice.rule), time.monotonic()
        before, self._said[key] = self._said.get(key, -math.inf), now
        said = notice.rule in {"port", "exit"} or now - before > _REPEAT
        self._box.note(notice, said=said)
        if said:
            self._say_notice(notice)

    def _say(self, text: str, rule: str = "port") -> None:
        self._notify(Notice("", rule, text))

    def _examine(self, version: int, packet: Packet, frame: bytes) -> bytes:
        protocol = self._table.protocol(version, packet.id)
        if protocol is None:
            return frame
        goals = wanted(protocol, packet, self._table, "goal_position")
        if first := [id_ for id_ in goals if time.monotonic() - self._commanded.get(id_, -math.inf) > _PAUSE]:
            self._slow_down(protocol, first, goals)
        self._commanded |= dict.fromkeys(goals, time.monotonic())
        for id_, goal in goals.items():
            if (servo := self._table.servos[id_]).far_goal is not None:
                servo.far_goal = goal
        for id_, speed in wanted(protocol, packet, self._table, protocol.names.speed).items():
            self._table.servos[id_].wanted_speed = speed
        passed, notices = checked(protocol, packet, self._table, service=self._service)
        for notice in notices:
            self._notify(notice)
        if ids := powered(protocol, passed, self._table):
            self._hold_before_torque(protocol, ids)
            for id_ in ids - goals.keys():
                self._commanded.pop(id_, None)
        self._wrote = self._wrote or passed.code not in QUESTIONS
        self._table.sent(protocol, passed)
        if passed is packet:
            return frame
        instead = protocol.encode(passed.id, passed.code, passed.params)
        self._box.note_change(frame, instead)
        return instead

    def _slow_down(self, protocol: Protocol, ids: list[int], goals: dict[int, int]) -> None:
        """Limit the speed of servos whose goals are far from where they are, until they arrive."""
        servos = [one for id_ in ids if not ((one := self._table.servos[id_]).endless or one.timed)]
        place, size = protocol.present_position
        answers = self._bus.read_many([(servo.id, place, size) for servo in servos])
        speeds = {}
        for servo, answer in zip(servos, answers, strict=True):
            data = answer.data if isinstance(answer, Reply) else b""
            here = servo.profile.register("present_position").decode(data) if data else None
            if servo.far_goal is not None or (here is not None and abs(goals[servo.id] - here) <= servo.near):
                continue
            limit = servo.profile.register(protocol.names.speed)
            servo.far_goal, servo.wanted_speed = goals[servo.id], servo.value(protocol.names.speed) or 0
            speeds[servo.id] = limit.encode(min(servo.slow, servo.wanted_speed or servo.slow))
            away = "is far away" if here is None else f"is {_degrees(servo, goals[servo.id] - here)}° away"
            text = f"its first goal {away}: at most {math.degrees(_SLOW):.0f}°/s until it is there"
            self._notify(Notice(servo.name, "far goal", text))
        self._write_speeds(protocol, speeds)

    def _write_speeds(self, protocol: Protocol, speeds: dict[int, bytes]) -> None:
        if speeds:
            for id_, data in speeds.items():
                address = self._table.servos[id_].profile.register(protocol.names.speed).address
                self._bus.sync_write(address, {id_: data})
                self._table.servos[id_].note(address, data)

    def _follow_slow_joints(self) -> None:
        """Give servos that have arrived the speed limit that their program has set."""
        if time.monotonic() - self._polled < _POLL:
            return
        self._polled = time.monotonic()
        for servo in self._table.servos.values():
            if servo.far_goal is None:
                continue
            (answer,) = self._bus.read_many([(servo.id, *servo.protocol.present_position)])
            if not isinstance(answer, Reply) or not answer.data:
                continue
            here = servo.profile.register("present_position").decode(answer.data)
            goal = (
                servo.far_goal
                if servo.positions is None
                else min(max(servo.far_goal, servo.positions[0]), servo.positions[1])
            )
            if abs(here - goal) * servo.profile.units.position <= _THERE:
                self._give_speeds_back([servo])

    def _give_speeds_back(self, servos: Iterable[Known]) -> None:
        """Give these servos the speed limit that their program has set."""
        for servo in servos:
            servo.far_goal = None
            speed, top = servo.wanted_speed, servo.top_speed
            speed = speed if top is None else min(speed or top, top)
            self._write_speeds(
                servo.protocol, {servo.id: servo.profile.register(servo.protocol.names.speed).encode(speed)}
            )

    def _hold_before_torque(self, protocol: Protocol, ids: set[int]) -> None:
        """Make the present position the goal of servos whose torque comes on next, where it is another one."""
        place, size = protocol.present_position
        goal = protocol.goal_position[0]
        servos = [self._table.servos[id_] for id_ in ids if not self._table.servos[id_].endless]
        asked = [(servo.id, address, size) for servo in servos for address in (place, goal)]
        answers = self._bus.read_many(asked)
        goals = {}
        for servo, present, before in zip(servos, answers[::2], answers[1::2], strict=True):
            if not isinstance(present, Reply) or not isinstance(before, Reply) or not present.data:
                self._notify(Notice(servo.name, "torque on", "its position is not known: it did not answer"))
                continue
            register = servo.profile.register("goal_position")
            here, there = register.decode(present.data), register.decode(before.data)
            if abs(here - there) > protocol.park_near:
                goals[servo.id] = register.encode(here)
                self._notify(Notice(servo.name, "torque on", f"goal {there} is not where it is: set to {here}"))
        if goals:
            self._bus.sync_write(goal, goals)

    def _note_replies(self, data: bytes) -> None:
        for reply in self._replies.feed(data):
            if reply.packet.intact:
                self._table.answered(reply.packet)

    def _read_tables(self) -> None:
        """Read all registers of all servos, once."""
        for servo in self._table.servos.values():
            for begin, end in _runs(servo):
                reply = self._bus.read(servo.id, begin, end - begin)
                servo.note(begin, reply.data)


def _runs(servo: Known) -> list[tuple[int, int]]:
    """Begin and end of registers that follow each other, at most `_BLOCK` bytes."""
    runs: list[tuple[int, int]] = []
    for register in sorted(servo.profile.registers.values(), key=lambda one: one.address):
        if runs and runs[-1][1] == register.address and register.end - runs[-1][0] <= _BLOCK:
            runs[-1] = runs[-1][0], register.end
        else:
            runs.append((register.address, register.end))
    return runs


def _degrees(servo: Known, counts: int) -> str:
    return f"{math.degrees(abs(counts) * servo.profile.units.position):.0f}"


def _reach(drive: BusDrive) -> tuple[float, float]:
    low, high = drive.config.soft_limits
    return max(low, drive.limits.low), min(high, drive.limits.high)


def _known(drive: BusDrive) -> Known:
    servo = drive.cycle_servo(*_reach(drive))
    limited = math.isfinite(drive.config.soft_limits[0])
    return Known(
        drive.config.name, drive.id, drive.profile, drive.protocol, servo.goal_range if limited else None,
        servo.top_speed, servo.top_torque,
        drive.calibration.speed_limit(_SLOW), round(_FAR / drive.profile.units.position),
    )  # fmt: skip
