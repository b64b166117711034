"""Server that replays a recorded run: it gives the recorded replies while the program sends the recorded packets.

After the first difference, virtual servos continue from the recorded state.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from axbridge.bridge.known import Known, Table
from axbridge.bridge.traffic import Traffic
from axbridge.bus.protocols.packet import Packet, byte_seconds
from axbridge.config.profile import Area
from axbridge.config.registers import Instruction
from axbridge.errors import RecordingError, Remedy, UsageError
from axbridge.recording.step_format import Source
from axbridge.recording.stored import recorded_packets
from axbridge.virtual.framing import Framing, ReceivedPacket
from axbridge.virtual.servo import VirtualServo
from axbridge.virtual.world import World

_MOTION_REGISTERS = ("torque_enable", "goal_position")  # written last, because they move the servo


@dataclass
class _RecordedPacket:
    """A packet of the recorded program, with the bytes received until the next one."""

    packet: Packet
    begin: int  # index of the entry after the packet
    answers: list[tuple[float, bytes]] = field(default_factory=list)  # s after the packet


class Replay:
    """Answers the packets of a line from a recording.

    Packets are compared by content, and in their order for each id; their times do not matter. The world has one line
    and the servos of the recording. `say` receives the text that names the first difference.

    Raises:
        RecordingError: the file cannot be read, or has no packets.
        UsageError: the rig has several lines.
    """

    def __init__(self, path: Path, world: World, say: Callable[[str], object]) -> None:
        if len(world.lines) != 1:
            raise UsageError("a recording has the packets of one line, and this rig has several")
        self._passed = recorded_packets(path)
        if not any(entry.source is Source.PROGRAM for entry in self._passed):
            hint = Remedy("bridge", "RIG", port="PORT", record="FILE.mcap", says="record one: {}")
            raise RecordingError(path, "holds no packets of a program", hint)
        self._world, self._say = world, say
        (self._line,) = world.lines.values()
        self._configs = {servo.id: servo for servo in world.servos.values()}
        self._known = Table(
            [Known(name, servo.id, servo.profile, servo.protocol) for name, servo in world.servos.items()]
        )
        self._traffic = Traffic(self._known, lambda *_: None)
        self._recorded = self._script()
        self._decoded = 0  # index of the first entry that `_traffic` has not decoded
        self._count = 0  # packets of the present program
        self._line.script = self.answer

    def answer(self, received: ReceivedPacket) -> list[tuple[float, bytes]] | None:
        """Return the recorded replies with their delays from the start of the packet, s; None after a difference."""
        self._count += 1
        version, packet = received.protocol, received.packet
        waiting = self._recorded[version, packet.id]
        if not waiting or waiting[0].packet != packet:
            self._simulate(packet, waiting[0].packet if waiting else None)
            return None
        question = waiting.popleft()
        self._decode_until(question.begin)
        return question.answers

    def _script(self) -> defaultdict[tuple[int, int], deque[_RecordedPacket]]:
        """Return the program's packets, by version and id."""
        script: defaultdict[tuple[int, int], deque[_RecordedPacket]] = defaultdict(deque)
        framing, changes = Framing(self._traffic.versions), Framing(self._traffic.versions)
        changed: list[tuple[Packet, Packet]] = []  # packet of the program, and packet on the line instead
        latest: _RecordedPacket | None = None
        sent = 0.0
        for number, (time, source, data) in enumerate(self._passed):
            if source is Source.CHANGED:
                original, replacement = (received.packet for received in changes.feed(data))
                changed.append((original, replacement))
            elif source is Source.BRIDGE:
                latest = None
            elif source is Source.PROGRAM:
                for received in framing.feed(data):
                    packet = received.packet
                    if changed and changed[0][1] == packet:
                        packet = changed.pop(0)[0]
                    latest, sent = _RecordedPacket(packet, number + 1), time
                    script[received.protocol, packet.id].append(latest)
            elif latest is not None:
                latest.answers.append((time - sent, data))
        return script

    def _decode_until(self, begin: int) -> None:
        """Decode all entries up to a packet, and the replies to it."""
        byte = byte_seconds(self._line.baud)
        end = next(
            (at for at in range(begin, len(self._passed)) if self._passed[at].source is not Source.SERVOS),
            len(self._passed),
        )
        for time, source, data in self._passed[self._decoded : end]:
            if source is Source.SERVOS:
                self._traffic.decode_received(data, time)
            elif source is not Source.CHANGED:
                self._traffic.decode_sent(data, time, byte)
        self._decoded = max(self._decoded, end)

    def _simulate(self, got: Packet, expected: Packet | None) -> None:
        """Let the virtual servos answer from now on."""
        self._line.script = None
        wanted = "nothing more to this id" if expected is None else _describe(expected)
        self._say(f"packet {self._count} differs: expected {wanted}, got {_describe(got)}; simulated from here on")
        for known in self._known.servos.values():
            self._restore(known, self._configs[known.id])

    def _restore(self, known: Known, servo: VirtualServo) -> None:
        """Set a virtual servo to the recorded state: registers, position, supply, and an overload."""
        now, registers, table = self._world.now(), servo.profile.registers, servo.table
        volts = known.value(servo.protocol.names.voltage)
        if volts is not None:
            supply = self._world.bank.supply  # of each motor, or one for all
            supply[servo.row % len(supply)] = volts * servo.profile.units.voltage
        for name, register in registers.items():
            value = known.value(name)
            if value is not None and register.writable and register.area is Area.EEPROM:
                table[name] = value
        servo.alarms.reset()
        servo.configure()
        count = known.value("present_position")
        for name in (*(name for name in registers if name not in _MOTION_REGISTERS), *_MOTION_REGISTERS):
            if name == _MOTION_REGISTERS[0] and count is not None:
                self._place(known.name, servo, count)
            register, value = registers[name], known.value(name)
            if value is None or not register.writable or register.area is Area.EEPROM:
                continue
            if name == _MOTION_REGISTERS[-1] and not table["torque_enable"]:
                table[name] = value  # a written goal would switch an AX-12 on
            else:
                servo.write(register.address, register.encode(value), now)
        if self._traffic.errors.get(known.id, 0) & servo.protocol.alarms.OVERLOAD:
            servo.overload(now)
        servo.push(now)

    def _place(self, name: str, servo: VirtualServo, count: int) -> None:
        """Turn the shaft until its sensor reads `count`."""
        register, unit = servo.profile.register("present_position"), servo.profile.units.position
        angle = (count - servo.zero) * unit
        self._world.place(name, angle)
        read = register.decode(servo.peek(register.address, register.size, self._world.now()))
        if read != count:  # an offset register shifts the reading
            self._world.place(name, angle + (count - read) * unit)


def _describe(packet: Packet) -> str:
    known = packet.code in set(Instruction)
    name = Instruction(packet.code).name if known else f"instruction 0x{packet.code:02x}"
    data = packet.params.hex(" ") or "no parameters"
    return f"{name} to id {packet.id} ({data})" + ("" if packet.intact else ", damaged")
