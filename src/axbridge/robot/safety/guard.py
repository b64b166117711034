"""The guard process: it switches all torque off when the controller has ended or hangs.

`axbridge.robot.safety.net` runs it as a script that inherits the ports' descriptors. It imports nothing of axbridge, so
it starts within milliseconds and stays small. It has no protocol: it receives whole frames and the replies that confirm
them. It cannot hold or park, because it has no model of the robot.

Usage: ``guard.py SILENCE PORTS SERVO…``. Standard input is the controller's pipe: ``.`` is a heartbeat; ``q`` ends the
guard; ``!PORT:ID,ID PORT:ID;`` makes it switch these servos off and end; ``=SERVO;`` sets a register write for after
the controller's end, replacing an earlier one; ``-SERVO;`` removes it. End-of-file without ``q`` or ``!`` means that
the controller has ended.
`SILENCE`: longest pause between heartbeats, s; 0 = no limit. `SERVO`: see `Guarded`, as JSON. `PORTS`: a JSON object
with name, baud rate and marks (`axbridge.bus.port_name.line_behind`) of each port, whose key is its descriptor, or a
negative number if it was lost before this guard started.

If ports have no descriptor that can be inherited, as on Windows: ``guard.py named PORTS SERVO…``. This guard opens the
ports after the controller's end, when they are free. It cannot act when the controller hangs, because a hanging
controller keeps its ports. The other guard starts it for a port that was lost before the controller's end.

Exit code: 0, or 1 when servos did not confirm that their torque is off; it names them when the controller has ended.
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

with contextlib.suppress(ImportError):  # Windows, whose ports have no descriptors
    import termios

_STDIN = 0
_REPEATS = 4  # the first may collide with a reply on the line or end a frame that was cut off
_GAP = 0.004  # s
_QUIET = 0.02  # s until all replies to the controller's last instruction have arrived
_PATIENCE = 0.02  # s; reply time-out of the first round, doubled in each further round
_CONFIRMATION_TIME = 1.5  # s in which servos are written to and read again
_TICK = 0.04  # s between checks of the parent
_OPENING, _RETRY_INTERVAL = 3.0, 0.05  # s; longest time to open a port that was just closed, and between attempts
_RETURN = 60.0  # s in which a lost port may come back
_EEPROM_WRITE_TIME = 0.1  # s: longest write of some EEPROM bytes, during which the servo does not reply
_TRIES = 3
_HEADER = b"\xff\xff"  # of every status packet


class Guarded(NamedTuple):
    """A servo with the frames that write a register and verify it."""

    port: Any  # descriptor of its port, or another key of a `Line`
    id: int  # on the bus
    write: bytes  # frame that writes the register
    question: bytes  # frame that reads it
    answers: tuple[bytes, ...]  # every reply that confirms the value
    limp: bytes = b""  # frame that switches off all servos of this protocol at once
    last: bytes = b""  # frame that disarms the Bus Watchdog, else the next program could not drive it; may be empty


def parse(text: str) -> Guarded:
    """Return a servo from JSON: port, id, and its frames in hexadecimal digits; the last two may be missing."""
    port, id_, write, question, answers, *others = json.loads(text)
    whole = tuple(bytes.fromhex(answer) for answer in answers)
    return Guarded(port, id_, bytes.fromhex(write), bytes.fromhex(question), whole, *map(bytes.fromhex, others))


class Line:
    """Sends and receives on ports that are open descriptors, and stores their settings."""

    def __init__(self, ports: Iterable[Any] = ()) -> None:
        self._other: dict[Any, Any] = {}
        for port in ports:
            with contextlib.suppress(OSError, termios.error):  # a socket has none
                self._other[port] = termios.tcgetattr(port)

    def swap_settings(self, ports: Iterable[Any]) -> bool:
        """Exchange the settings of ports with the stored ones; return whether they differ.

        A bridge sets the baud rate that its program asks for, and the servos may have the rate from the start.
        """
        differ = False
        for port in self._other.keys() & ports:
            with contextlib.suppress(OSError, termios.error):  # unplugged
                present = termios.tcgetattr(port)
                if present != self._other[port]:
                    termios.tcsetattr(port, termios.TCSADRAIN, self._other[port])
                    self._other[port], differ = present, True
        return differ

    def send(self, port: Any, data: bytes) -> None:
        """Write bytes to a port; a lost port raises no error, because the others must still be written."""
        with contextlib.suppress(OSError):
            os.write(port, data)

    def wait_for(self, port: Any, patience: float, answers: tuple[bytes, ...] = ()) -> bool:
        """Return whether one of these replies arrives within `patience` seconds."""
        end = time.monotonic() + patience
        received = b""
        while (left := end - time.monotonic()) > 0:
            received += self.receive(port, left)
            if any(answer in received for answer in answers):
                return True
        return False

    def receive(self, port: Any, patience: float) -> bytes:
        """Return the next bytes; empty after `patience` seconds."""
        poll = select.poll()
        poll.register(port, select.POLLIN)
        with contextlib.suppress(OSError):
            if not poll.poll(patience * 1e3):
                return b""
            if piece := os.read(port, 4096):
                return piece
        time.sleep(patience)  # lost
        return b""

    def lost(self, port: Any) -> bool:
        """Return whether the adapter of a port was unplugged."""
        poll = select.poll()
        poll.register(port, 0)  # only hang-ups
        return bool(poll.poll(0))


class _Opened(Line):
    """Sends and receives on ports that it opens by their names."""

    def __init__(self, ports: Iterable[Any]) -> None:
        super().__init__()
        self._ports = {port: _opened(*_PORTS[port]) for port in ports}

    def send(self, port: Any, data: bytes) -> None:
        if (opened := self._ports[port]) is not None:
            with contextlib.suppress(Exception):  # lost
                opened.send(data)

    def receive(self, port: Any, patience: float) -> bytes:
        if (opened := self._ports[port]) is not None:
            with contextlib.suppress(Exception):
                return bytes(opened.receive(time.monotonic() + patience))
        time.sleep(patience)
        return b""

    def lost(self, port: Any) -> bool:  # noqa: ARG002
        return False  # this guard has already waited for it


def _opened(name: str, baud: int, marks: list[str]) -> Any:
    """Return the opened port, or None if it does not come back, if another program has it, or if it is another one."""
    until = time.monotonic() + _RETURN
    while os.name == "posix" and "://" not in name and not os.path.exists(name) and time.monotonic() < until:  # noqa: PTH110
        time.sleep(_RETRY_INTERVAL)
    from axbridge.bus.port import Port  # only here: the other guard runs without packages
    from axbridge.errors import PortError

    until = time.monotonic() + _OPENING
    while True:
        try:
            return Port(name, baud, frozenset(marks))
        except PortError:
            if time.monotonic() > until:
                return None
            time.sleep(_RETRY_INTERVAL)


_LINE = Line()
_PORTS: dict[Any, tuple[str, int, list[str]]] = {}  # name, baud rate and marks


def limp(servos: list[Guarded], line: Line = _LINE) -> None:
    """Send the broadcast torque-off on every port several times, with its present and with its stored settings."""
    for _ in range(2):
        for _ in range(_REPEATS):
            for port, frame in dict.fromkeys((servo.port, servo.limp) for servo in servos):
                line.send(port, frame)
            time.sleep(_GAP)
        if not line.swap_settings({servo.port for servo in servos}):
            break


def end(
    servos: list[Guarded], line: Line = _LINE, restores: Iterable[Guarded] = (), lost: Iterable[Guarded] = ()
) -> int:
    """Switch all torque off and restore registers after the controller's end; return the exit code."""
    limp(servos, line)
    left = confirm(servos, line)
    if left and line.swap_settings({servo.port for servo in left}):
        left = confirm(left, line)
    _await([*lost, *(servo for servo in left if line.lost(servo.port))])
    powered = {servo.id for servo in left}
    for servo in sorted(restores, key=lambda servo: servo.question):  # EEPROM first
        if servo.port in {here.port for here in servos} and servo.id not in powered:
            _give_back(servo, line)
    if unconfirmed := powered | {servo.id for servo in lost}:
        names = ", ".join(map(str, sorted(unconfirmed)))
        text = (
            f"axbridge: the controller is dead, and these servos may still be powered: {names}\ncut the servo supply\n"
        )
        with contextlib.suppress(OSError):
            os.write(2, text.encode())
    return int(bool(unconfirmed))


def _await(lost: list[Guarded]) -> None:
    """For each port of these servos start a guard that switches them off when the port is back."""
    import subprocess  # only here: a guard starts within milliseconds

    for port in {servo.port for servo in lost}:
        named = {servo[:2] for servo in lost if servo.port == port}  # ports and ids
        texts = [text for text in sys.argv[3:] if parse(text)[:2] in named]
        command = [sys.executable, __file__, "named", sys.argv[2], *texts]
        none = subprocess.DEVNULL  # the controller's caller may wait for the end of its output
        with contextlib.suppress(OSError):
            subprocess.Popen(command, stdin=none, stdout=none, stderr=none, start_new_session=True)


def confirm(servos: list[Guarded], line: Line = _LINE) -> list[Guarded]:
    """Read back whether torque is off, write again where it is not; return the servos that never confirmed.

    The controller must have ended or wait meanwhile, because it must not receive the replies.
    """
    until = time.monotonic() + _CONFIRMATION_TIME
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
    for _ in range(_TRIES):  # not read back, and may collide with an acknowledgement: sent several times
        for servo in servos:
            if servo.last and servo not in left:
                line.send(servo.port, servo.last)
                line.wait_for(servo.port, _GAP)
    return left


def _give_back(servo: Guarded, line: Line) -> None:
    """Restore registers that the controller has changed; the servo's torque is off."""
    for _ in range(_TRIES):
        if _holds(servo, line, _EEPROM_WRITE_TIME):
            break
        line.send(servo.port, servo.write)
        line.wait_for(servo.port, _EEPROM_WRITE_TIME, (_HEADER,))  # its acknowledgement


def _holds(servo: Guarded, line: Line, patience: float) -> bool:
    """Return whether the servo's reply confirms the written value."""
    line.send(servo.port, servo.question)
    return line.wait_for(servo.port, patience, servo.answers)


def watch(silence: float, servos: list[Guarded]) -> int:
    """Wait for the controller's end, silence or ``q``; return the exit code."""
    lost = [servo for servo in servos if servo.port < 0]  # before this guard was started
    servos = [servo for servo in servos if servo.port >= 0]
    line = Line({servo.port for servo in servos})
    parent = os.getppid()
    image = _image(parent)
    poll = select.poll()
    poll.register(_STDIN, select.POLLIN)
    for port in {servo.port for servo in servos}:
        poll.register(port, 0)  # only hang-ups
    heartbeat_at: float | None = None
    pending = b""  # incomplete message
    restores: dict[tuple[Any, bytes], Guarded] = {}  # by port and question
    while True:
        for descriptor, _ in poll.poll(_TICK * 1000):
            if descriptor != _STDIN:  # unplugged: close it, else the device cannot return under its name
                poll.unregister(descriptor)
                lost += [servo for servo in servos if servo.port == descriptor]
                servos = [servo for servo in servos if servo.port != descriptor]
                os.close(descriptor)
                continue
            signs = os.read(_STDIN, 4096)
            *messages, pending = (pending + signs).split(b";")
            for message in (part.lstrip(b".").decode() for part in messages):
                if message.startswith("="):
                    servo = parse(message[1:])
                    restores[servo.port, servo.question] = servo
                elif message.startswith("-"):
                    servo = parse(message[1:])
                    restores.pop((servo.port, servo.question), None)
                else:
                    requested = _named(message[1:])
                    away = [servo for servo in lost if (servo.port, servo.id) in requested]
                    here = [servo for servo in servos if (servo.port, servo.id) in requested]
                    left = confirm(here)
                    _await([*away, *(servo for servo in left if line.lost(servo.port))])
                    return int(bool(left) or len(here) < len(requested))
            pending = pending.lstrip(b".")
            if b"q" in pending:
                return 0
            if not signs:
                return end(servos, line, restores.values(), lost)
            heartbeat_at = time.monotonic()
        replaced = image and _image(parent) not in {image, b""}  # by `exec`, which may inherit the pipe
        if os.getppid() != parent or replaced:  # a child of the controller may keep the pipe open
            return end(servos, line, restores.values(), lost)
        if silence and heartbeat_at is not None and time.monotonic() - heartbeat_at > silence:
            limp(servos, line)
            heartbeat_at = None  # until the next heartbeat


def _image(process: int) -> bytes:
    """Return a process's address data, which changes when it executes another program; empty if unknown."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/auxv", "rb") as file:  # noqa: PTH123 - no import
        return file.read()
    return b""


def watch_named(servos: list[Guarded]) -> int:
    """Wait for the controller's ``q`` or end; return the exit code."""
    while signs := os.read(_STDIN, 4096):
        if b"q" in signs:
            return 0
    return end(servos, _Opened({servo.port for servo in servos}))


def _named(text: str) -> set[tuple[int, int]]:
    """Return ports and ids from ``PORT:ID,ID PORT:ID``."""
    parts = [part.partition(":") for part in text.split()]
    return {(int(port), int(id_)) for port, _, ids in parts for id_ in ids.split(",")}


if __name__ == "__main__":
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):  # the controller decides when the watch ends
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    kind, ports, *texts = sys.argv[1:]
    guarded = [parse(text) for text in texts]
    _PORTS.update((int(port), facts) for port, facts in json.loads(ports).items())
    sys.exit(watch_named(guarded) if kind == "named" else watch(float(kind), guarded))
