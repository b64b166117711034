"""A process that outlives the controller: it switches all torque off when the controller dies or falls silent.

Run as a script by `axbridge.robot.safety.net` with the port's descriptors inherited. It imports nothing of axbridge, so
it is there within milliseconds and stays small. It cannot hold or park: nobody is left who knows the robot.

Usage: ``guard.py PIPE SILENCE FD:ID,ID…  …``. An id with ``2.`` in front speaks Protocol 2.0. `PIPE`: read end of the
controller's pipe: ``.`` is a sign of life, ``q`` ends the watch, ``!FD:ID,ID FD:ID;`` asks to switch these servos off
and ends the watch, too, ``=FD:ID:ADDRESS:BYTES …;`` says what is to be written to servos of a dead controller, in place
of all that was said before; end-of-file without a farewell means death. `SILENCE`: longest pause between signs of life,
s; 0 = no limit.

Exit code: 0, or 1 when servos did not confirm that their torque is off; it names them when the controller is dead.
"""

import contextlib
import os
import select
import signal
import sys
import time

_BROADCAST, _READ, _WRITE, _TORQUE = 0xFE, 2, 3, 24
_TORQUE_2, _WATCHDOG = 64, 98
_REPEATS = 4  # the first may collide with a reply on the line or end a frame that was cut off
_GAP = 0.004  # s
_QUIET = 0.02  # s: by then the answers to the controller's last question are in
_PATIENCE = 0.02  # s to wait for an answer at first; twice as long in each further round
_LONGEST = 1.5  # s in which servos are written to and read again
_TICK = 0.04  # s: how often the parent is looked after

_BURNT = 0.1  # s: by then a servo hears again that was given some EEPROM bytes

SECOND = 1000  # added to the id of a servo that speaks Protocol 2.0
Ports = dict[int, list[int]]  # ids by descriptor
Owed = dict[tuple[int, int], tuple[int, bytes]]  # by descriptor and id: address and bytes


def frame(id: int, code: int, *params: int) -> bytes:
    """An instruction packet of Protocol 1.0."""
    body = bytes((id, len(params) + 2, code, *params))
    return b"\xff\xff" + body + bytes((~sum(body) & 0xFF,))


def frame_2(id: int, code: int, *params: int) -> bytes:
    """An instruction packet of Protocol 2.0; these parameters need no stuffing."""
    packet = bytes((0xFF, 0xFF, 0xFD, 0, id, len(params) + 3, 0, code, *params))
    return packet + crc(packet)


def crc(data: bytes) -> bytes:
    """The two bytes behind a packet of Protocol 2.0."""
    value = 0
    for byte in data:
        value ^= byte << 8
        for _ in range(8):
            value = (value << 1 ^ (0x8005 if value & 0x8000 else 0)) & 0xFFFF
    return value.to_bytes(2, "little")


TORQUE_OFF = frame(_BROADCAST, _WRITE, _TORQUE, 0)
TORQUE_OFF_2 = frame_2(_BROADCAST, _WRITE, _TORQUE_2, 0, 0)


def behind(header: bytes, size: int = 1) -> int:
    """Bytes of an answer behind this header: error, data of this size, and checksum."""
    return size + (3 if len(header) > 4 else 2)


class Descriptors:
    """How to speak on ports that are open descriptors."""

    def send(self, port: int, data: bytes) -> None:
        """Hand bytes to a port; one that is gone must not spare the others."""
        with contextlib.suppress(OSError):
            os.write(port, data)

    def hear(self, port: int, header: bytes, patience: float, size: int = 1) -> bytes:
        """What comes within `patience` seconds, or until `header` and `size` bytes of data behind it are complete."""
        end = time.monotonic() + patience
        poll = select.poll()
        poll.register(port, select.POLLIN)
        heard = b""
        while (left := end - time.monotonic()) > 0 and not (header and header in heard[: -behind(header, size)]):
            piece = b""
            with contextlib.suppress(OSError):
                if not poll.poll(left * 1e3):
                    break
                piece = os.read(port, 4096)
            if not piece:  # lost
                time.sleep(left)
            heard += piece
        return heard


_DESCRIPTORS = Descriptors()


def limp(ports: Ports, line: Descriptors = _DESCRIPTORS) -> None:
    """Send the broadcast torque-off on every port, several times."""
    for _ in range(_REPEATS):
        for port, ids in ports.items():
            if any(id_ >= SECOND for id_ in ids):
                line.send(port, TORQUE_OFF_2)
            if any(id_ < SECOND for id_ in ids):
                line.send(port, TORQUE_OFF)
        time.sleep(_GAP)


def confirm(ports: Ports, line: Descriptors = _DESCRIPTORS) -> list[int]:
    """Ask these servos whether their torque is off, and tell those that do not say so; returns the ids that never did.

    Only when the controller has ended or waits: it must not hear the answers.
    """
    until = time.monotonic() + _LONGEST
    left = [(port, id_) for port, ids in ports.items() for id_ in ids]
    patience = _PATIENCE
    for port in ports:
        line.hear(port, b"", _QUIET)
    while left and time.monotonic() < until:
        left = [(port, id_) for port, id_ in left if time.monotonic() > until or not _is_off(line, port, id_, patience)]
        for port, id_ in left:
            _write(line, port, id_, _TORQUE_2 if id_ >= SECOND else _TORQUE, b"\0")
            line.hear(port, b"", _GAP)  # its acknowledgement
        patience *= 2
    for port, ids in ports.items():
        for id_ in ids:
            if id_ >= SECOND and (port, id_) not in left:  # or it refuses the goals of whoever comes next
                _write(line, port, id_, _WATCHDOG, b"\0")
                line.hear(port, b"", _GAP)
    return sorted(id_ % SECOND for _, id_ in left)


def give_back(owed: Owed, powered: list[int], line: Descriptors = _DESCRIPTORS) -> None:
    """Write what the dead controller has borrowed of the servos' EEPROM, where their torque is off."""
    for (port, id_), (address, data) in owed.items():
        for _ in range(0 if id_ % SECOND in powered else 3):
            _write(line, port, id_, address, data)
            line.hear(port, b"", _BURNT)
            if _holds(line, port, id_, address, data, _BURNT):
                break


def _write(line: Descriptors, port: int, id: int, address: int, data: bytes) -> None:
    second = id >= SECOND
    line.send(port, frame_2(id - SECOND, _WRITE, address, 0, *data) if second else frame(id, _WRITE, address, *data))


def _is_off(line: Descriptors, port: int, id: int, patience: float) -> bool:
    """Whether the servo says that its torque is off."""
    return _holds(line, port, id, _TORQUE_2 if id >= SECOND else _TORQUE, b"\0", patience)


def _holds(line: Descriptors, port: int, id: int, address: int, data: bytes, patience: float) -> bool:
    """Whether the servo says that it has these bytes there."""
    size = len(data)
    if id >= SECOND:
        own = id - SECOND
        line.send(port, frame_2(own, _READ, address, 0, size, 0))
        header = bytes((0xFF, 0xFF, 0xFD, 0, own, size + 4, 0, 0x55))  # the error byte, the data and the CRC follow
        heard = line.hear(port, header, patience, size)
        answer = heard[heard.find(header) :][: size + 11]
        intact = len(answer) == size + 11 and crc(answer[:-2]) == answer[-2:]
        return header in heard and intact and answer[9:-2] == data
    line.send(port, frame(id, _READ, address, size))
    header = b"\xff\xff" + bytes((id, size + 2))  # the error byte, the data and the checksum follow
    heard = line.hear(port, header, patience, size)
    answer = heard[heard.find(header) :][: size + 6]
    intact = len(answer) == size + 6 and sum(answer[2:]) & 0xFF == 0xFF
    return header in heard and intact and answer[5:-1] == data


def end(ports: Ports, line: Descriptors = _DESCRIPTORS, *, alone: bool, owed: Owed | None = None) -> int:
    """Make sure that the torque is off, and say which servos did not confirm it; the exit code."""
    left = confirm(ports, line)
    give_back({place: what for place, what in (owed or {}).items() if place[0] in ports}, left, line)
    if left and alone:
        names = ", ".join(map(str, left))
        text = (
            f"axbridge: the controller is dead, and these servos may still be powered: {names}\ncut the servo supply\n"
        )
        with contextlib.suppress(OSError):
            os.write(2, text.encode())
    return 1 if left else 0


def watch(pipe: int, silence: float, ports: Ports) -> int:
    """Wait for the controller's death, silence or farewell; the exit code."""
    parent = os.getppid()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    for port in ports:
        poll.register(port, 0)  # only hang-ups
    alive_at: float | None = None
    said = b""
    owed: Owed = {}
    while True:
        for descriptor, _ in poll.poll(_TICK * 1000):
            if descriptor != pipe:  # unplugged: let go, or the device cannot come back under its name
                poll.unregister(descriptor)
                del ports[descriptor]
                os.close(descriptor)
                continue
            signs = os.read(pipe, 4096)
            *messages, said = (said + signs).split(b";")
            for message in (part.lstrip(b".").decode() for part in messages):
                if message.startswith("="):
                    owed = _parse_owed(message[1:].split())
                    continue
                asked = _parse(message.strip("!").split())
                held = {port: ids for port, ids in asked.items() if port in ports}
                return end(held, alone=False) or int(held != asked)
            said = said.lstrip(b".")
            if b"q" in said:
                return 0
            if not signs:
                limp(ports)
                return end(ports, alone=True, owed=owed)
            alive_at = time.monotonic()
        if os.getppid() != parent:  # a child of the dead controller may keep the pipe open
            limp(ports)
            return end(ports, alone=True, owed=owed)
        if silence and alive_at is not None and time.monotonic() - alive_at > silence:
            limp(ports)
            alive_at = None  # until it moves again


def ignore_signals() -> None:
    """The controller decides when the watch ends."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def _parse(arguments: list[str]) -> Ports:
    """Ports and their servos, from ``FD:ID,ID`` each."""
    parts = [argument.partition(":") for argument in arguments]
    return {int(port): parse_ids(ids) for port, _, ids in parts}


def _parse_owed(arguments: list[str]) -> Owed:
    """From ``FD:ID:ADDRESS:BYTES`` each."""
    parts = [argument.split(":") for argument in arguments]
    return {(int(port), parse_ids(id_)[0]): (int(address), bytes.fromhex(data)) for port, id_, address, data in parts}


def parse_ids(text: str) -> list[int]:
    """Ids of ``ID,2.ID``, those of Protocol 2.0 as `SECOND` more."""
    return [int(id_.removeprefix("2.")) + SECOND * id_.startswith("2.") for id_ in text.split(",")]


if __name__ == "__main__":
    ignore_signals()
    sys.exit(watch(int(sys.argv[1]), float(sys.argv[2]), _parse(sys.argv[3:])))
