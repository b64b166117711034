"""A process that outlives the controller: it switches all torque off when the controller dies or falls silent.

Run as a script by `axbridge.robot.safety.net` with the port's descriptors inherited. It imports nothing of axbridge, so
it is there within milliseconds and stays small. It knows no protocol: it is given whole frames, and every answer that
says that a servo has what it should. It cannot hold or park: nobody is left who knows the robot.

Usage: ``guard.py SILENCE SERVO…``. Standard input is the controller's pipe: ``.`` is a sign of life, ``q`` ends the
watch, ``!PORT:ID,ID PORT:ID;`` asks to switch these servos off and ends the watch, too, ``=SERVO;`` says what is to be
written to a servo of a dead controller, in place of what was said of it before, ``-PORT:ID;`` that nothing is;
end-of-file without a farewell means death.
`SILENCE`: longest pause between signs of life, s; 0 = no limit. `SERVO`: see `Guarded`, as JSON.

Where ports have no descriptor to hand on, as on Windows: ``guard.py named SERVO…``; a port is ``BAUD:NAME`` then. A
dead controller's ports are free again, and this guard opens them. So it sees death alone: a controller that hangs keeps
its ports.

Exit code: 0, or 1 when servos did not confirm that their torque is off; it names them when the controller is dead.
"""

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

_STDIN = 0
_REPEATS = 4  # the first may collide with a reply on the line or end a frame that was cut off
_GAP = 0.004  # s
_QUIET = 0.02  # s: by then the answers to the controller's last question are in
_PATIENCE = 0.02  # s to wait for an answer at first; twice as long in each further round
_LONGEST = 1.5  # s in which servos are written to and read again
_TICK = 0.04  # s: how often the parent is looked after
_OPENING, _AGAIN = 3.0, 0.05  # s to try to open a port that its owner has just left, and between two tries
_BURNT = 0.1  # s: by then a servo hears again that was given some EEPROM bytes
_TRIES = 3


class Guarded(NamedTuple):
    """A servo, and what is to be written to it."""

    port: Any  # descriptor of its port, or what else a `Line` knows it by
    id: int  # its number on the line
    write: bytes  # frame that writes it
    question: bytes  # frame that asks for it
    answers: tuple[bytes, ...]  # every answer that says that it is there
    limp: bytes = b""  # frame that switches off all servos of its kind at once
    last: bytes = b""  # frame without which the next program could not drive it; may be empty


def parse(text: str) -> Guarded:
    """A servo from JSON: port, id, and the frames in hexadecimal digits, as far as they are given."""
    port, id_, write, question, answers, *others = json.loads(text)
    whole = tuple(bytes.fromhex(answer) for answer in answers)
    return Guarded(port, id_, bytes.fromhex(write), bytes.fromhex(question), whole, *map(bytes.fromhex, others))


class Line:
    """How to speak on ports that are open descriptors."""

    def send(self, port: Any, data: bytes) -> None:
        """Hand bytes to a port; one that is gone must not spare the others."""
        with contextlib.suppress(OSError):
            os.write(port, data)

    def wait_for(self, port: Any, patience: float, answers: tuple[bytes, ...] = ()) -> bool:
        """Whether one of these answers comes within `patience` seconds."""
        end = time.monotonic() + patience
        heard = b""
        while (left := end - time.monotonic()) > 0:
            heard += self.receive(port, left)
            if any(answer in heard for answer in answers):
                return True
        return False

    def receive(self, port: Any, patience: float) -> bytes:
        """What comes next within `patience` seconds."""
        poll = select.poll()
        poll.register(port, select.POLLIN)
        with contextlib.suppress(OSError):
            if not poll.poll(patience * 1e3):
                return b""
            if piece := os.read(port, 4096):
                return piece
        time.sleep(patience)  # lost
        return b""


class _Opened(Line):
    """How to speak on ports that pyserial opens."""

    def __init__(self, ports: set[str]) -> None:
        self._ports = {port: _opened(port) for port in ports}

    def send(self, port: str, data: bytes) -> None:
        if (one := self._ports[port]) is not None:
            with contextlib.suppress(OSError):  # a SerialException is one
                one.write(data)

    def receive(self, port: str, patience: float) -> bytes:
        if (one := self._ports[port]) is not None:
            with contextlib.suppress(OSError):
                one.timeout = patience
                return bytes(one.read(1) + one.read(one.in_waiting))
        time.sleep(patience)
        return b""


def _opened(port: str) -> Any:
    """The port, or None where it cannot be had."""
    import serial  # only here: the other guard must do without packages

    baud, _, name = port.partition(":")
    until = time.monotonic() + _OPENING
    while True:
        try:
            return serial.serial_for_url(name, baudrate=int(baud), timeout=0, write_timeout=1.0)
        except (OSError, ValueError):
            if time.monotonic() > until:
                return None
            time.sleep(_AGAIN)


_LINE = Line()


def limp(servos: list[Guarded], line: Line = _LINE) -> None:
    """Send the broadcast torque-off on every port, several times."""
    for _ in range(_REPEATS):
        for port, frame in dict.fromkeys((servo.port, servo.limp) for servo in servos):
            line.send(port, frame)
        time.sleep(_GAP)


def end(servos: list[Guarded], line: Line = _LINE, owed: Iterable[Guarded] = ()) -> int:
    """The controller is dead: switch all torque off, and give back what was borrowed of EEPROM; the exit code."""
    limp(servos, line)
    left = confirm(servos, line)
    powered = {servo.id for servo in left}
    for servo in owed:
        if servo.port in {here.port for here in servos} and servo.id not in powered:
            _give_back(servo, line)
    if left:
        names = ", ".join(map(str, sorted(powered)))
        text = (
            f"axbridge: the controller is dead, and these servos may still be powered: {names}\ncut the servo supply\n"
        )
        with contextlib.suppress(OSError):
            os.write(2, text.encode())
    return int(bool(left))


def confirm(servos: list[Guarded], line: Line = _LINE) -> list[Guarded]:
    """Ask these servos whether their torque is off, and tell those that do not say so; returns those that never did.

    Only when the controller has ended or waits: it must not hear the answers.
    """
    until = time.monotonic() + _LONGEST
    patience = _PATIENCE
    for port in dict.fromkeys(servo.port for servo in servos):
        line.wait_for(port, _QUIET)
    left = servos
    while left and time.monotonic() < until:
        left = [servo for servo in left if time.monotonic() > until or not _holds(servo, line, patience)]
        for servo in left:
            line.send(servo.port, servo.write)
            line.wait_for(servo.port, _GAP)  # its acknowledgement
        patience *= 2
    for _ in range(_TRIES):  # nobody asks whether it came in: it may collide with an acknowledgement
        for servo in servos:
            if servo.last and servo not in left:
                line.send(servo.port, servo.last)
                line.wait_for(servo.port, _GAP)
    return left


def _give_back(servo: Guarded, line: Line) -> None:
    """Write what the dead controller has borrowed of a servo's EEPROM; its torque is off."""
    for _ in range(_TRIES):
        line.send(servo.port, servo.write)
        line.wait_for(servo.port, _BURNT)
        if _holds(servo, line, _BURNT):
            break


def _holds(servo: Guarded, line: Line, patience: float) -> bool:
    """Whether the servo says that it has what it should."""
    line.send(servo.port, servo.question)
    return line.wait_for(servo.port, patience, servo.answers)


def watch(silence: float, servos: list[Guarded]) -> int:
    """Wait for the controller's death, silence or farewell; the exit code."""
    parent = os.getppid()
    image = _image(parent)
    poll = select.poll()
    poll.register(_STDIN, select.POLLIN)
    for port in {servo.port for servo in servos}:
        poll.register(port, 0)  # only hang-ups
    alive_at: float | None = None
    said = b""
    owed: dict[tuple[Any, int], Guarded] = {}  # what is to be written to EEPROM, by port and id
    while True:
        for descriptor, _ in poll.poll(_TICK * 1000):
            if descriptor != _STDIN:  # unplugged: let go, or the device cannot come back under its name
                poll.unregister(descriptor)
                servos = [servo for servo in servos if servo.port != descriptor]
                os.close(descriptor)
                continue
            signs = os.read(_STDIN, 4096)
            *messages, said = (said + signs).split(b";")
            for message in (part.lstrip(b".").decode() for part in messages):
                if message.startswith("="):
                    servo = parse(message[1:])
                    owed[servo.port, servo.id] = servo
                elif message.startswith("-"):
                    for place in _named(message[1:]):
                        owed.pop(place, None)
                else:
                    asked = _named(message[1:])
                    here = [servo for servo in servos if (servo.port, servo.id) in asked]
                    return int(bool(confirm(here)) or len(here) < len(asked))
            said = said.lstrip(b".")
            if b"q" in said:
                return 0
            if not signs:
                return end(servos, owed=owed.values())
            alive_at = time.monotonic()
        replaced = image and _image(parent) not in {image, b""}  # the new program may have inherited the channel
        if os.getppid() != parent or replaced:  # a child of the dead controller may keep the channel open
            return end(servos, owed=owed.values())
        if silence and alive_at is not None and time.monotonic() - alive_at > silence:
            limp(servos)
            alive_at = None  # until it moves again


def _image(process: int) -> bytes:
    """What changes when a process executes another program: its addresses. Empty where the system does not say."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/auxv", "rb") as file:  # noqa: PTH123 - no import
        return file.read()
    return b""


def watch_named(servos: list[Guarded]) -> int:
    """Wait for the controller's farewell or death; the exit code."""
    while signs := os.read(_STDIN, 4096):
        if b"q" in signs:
            return 0
    return end(servos, _Opened({servo.port for servo in servos}))


def _named(text: str) -> set[tuple[int, int]]:
    """Ports and ids, from ``PORT:ID,ID PORT:ID``."""
    parts = [part.partition(":") for part in text.split()]
    return {(int(port), int(id_)) for port, _, ids in parts for id_ in ids.split(",")}


if __name__ == "__main__":
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):  # the controller decides when the watch ends
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    kind, *texts = sys.argv[1:]
    guarded = [parse(text) for text in texts]
    sys.exit(watch_named(guarded) if kind == "named" else watch(float(kind), guarded))
