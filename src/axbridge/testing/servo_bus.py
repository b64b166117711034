"""Virtual servos in a separate process, for tests of a servo driver."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple

from axbridge.errors import PortError, UsageError

Timing = Literal["wire", "none"]
_PATIENCE = 30.0  # s; time limit for a reply of the server
_END = 10.0  # s; time limit for its end, after which it is killed


class LoggedPacket(NamedTuple):
    """A packet that went over the line, from the program (an instruction) or from a servo (a status)."""

    time: float  # end of the packet, s of simulated time
    id: int
    kind: str  # the instruction in lower case, or `status`
    data: bytes  # parameters; without the address of a read or write
    address: int | None = None  # of a read or write to one servo
    error: int | None = None  # the error byte of a status
    fault: str = ""  # the fault applied to it, such as `drop`


class ServoBus:
    """Virtual servos on a serial port; a test can set faults and registers, and read their state without packets.

    Ids are those of the rig. Angles are the rig's joint angles, rad.
    """

    def __init__(self, server: subprocess.Popen[str], command: str) -> None:
        self._server, self._command = server, command
        self._asking = Lock()
        first = self._answer(None)  # slow once per machine, because kernels are compiled
        if "ready" not in first:
            raise PortError("virtual bus", f"it did not start: {first}", f"see why: {command}")
        self.ports: dict[str, str] = first["ports"]  # by name of the bus

    @property
    def port(self) -> str:
        """Serial port of the first bus."""
        return next(iter(self.ports.values()))

    @property
    def running(self) -> bool:
        """Whether the server's process is running."""
        return self._server.poll() is None

    def inject(self, spec: str) -> None:
        """Set faults from now on, as ``axbridge serve --faults``: ``dead:3``, ``drop=0.01``, ``corrupt#3:read:5``.

        Raises:
            UsageError: the spec has a mistake, or names an unknown id.
        """
        self._do("inject", spec=spec)

    def clear(self) -> None:
        """End all faults."""
        self._do("clear")

    def registers(self, id: int) -> dict[str, int]:
        """Return all registers of a servo, by name, without sending a packet."""
        return dict(self._do("registers", id=id))

    def write(self, id: int, name: str, value: int) -> None:
        """Write a register with the effects of a WRITE, without sending a packet.

        Raises:
            UsageError: there is no such servo or register, or the servo refuses the value.
        """
        self._do("write", id=id, name=name, value=value)

    @property
    def powered(self) -> list[int]:
        """Ids of the servos whose torque is on."""
        return list(self._do("powered"))

    @property
    def positions(self) -> dict[str, float]:
        """Position of each joint, rad, by the servo's name."""
        return dict(self._do("positions"))

    def place(self, name: str, position: float) -> None:
        """Put a joint at this position, rad, at rest; the position is clipped to its stops.

        Raises:
            UsageError: no servo has that name.
        """
        self._do("place", name=name, position=position)

    @property
    def packets(self) -> list[LoggedPacket]:
        """Return the packets since the start of the test, in order, at most 20,000."""
        return [LoggedPacket(**{**packet, "data": bytes.fromhex(packet["data"])}) for packet in self._do("packets")]

    def reboot(self) -> None:
        """Switch every servo's power off and on: EEPROM is kept, RAM is reset, torque is off."""
        self._do("reboot")

    def unplug(self) -> None:
        """Unplug the adapter: the port hangs up and its name vanishes; servos keep their power."""
        self._do("unplug")

    def plug(self) -> None:
        """Plug the adapter in again, under the same name."""
        self.ports = self._do("plug")

    def reset(self, *, faults: str = "", timing: Timing | None = None, seed: int = 0) -> None:
        """Start again with new servos, limp at the rig's start position, and these faults; the port hangs up once.

        Raises:
            UsageError: the spec of the faults has a mistake.
        """
        self.ports = self._do("reset", faults=faults, timing=timing, seed=seed)

    def _do(self, command: str, **arguments: Any) -> Any:
        stdin = self._server.stdin
        assert stdin is not None
        document = {"command": command, **arguments}
        # a number of numpy becomes a plain one; other values become text, which the server refuses
        line = json.dumps(document, default=lambda value: getattr(value, "item", value.__repr__)())
        with self._asking:
            if stdin.closed:
                raise PortError("virtual bus", "it has ended", "use it inside its `with` block")
            with contextlib.suppress(BrokenPipeError):  # `_answer` reports the cause
                stdin.write(line + "\n")
                stdin.flush()
            answer = self._answer()
        if not answer["ok"]:
            raise UsageError(answer["error"], answer["hint"])
        return answer["result"]

    def _answer(self, patience: float | None = _PATIENCE) -> dict[str, Any]:
        out = self._server.stdout
        assert out is not None
        line = out.readline() if select.select([out], [], [], patience)[0] else ""
        if not line:
            self._server.kill()
            text = self._server.communicate()[1].strip().removeprefix("axbridge: ")
            why, _, hint = (text or f"no answer for {_PATIENCE:.0f} s").partition("\n")
            raise PortError("virtual bus", why, hint or f"see why: {self._command}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def serve(
    rig: str | Path = "bench_arm",
    *,
    faults: str = "",
    timing: Timing = "none",
    seed: int = 0,
    engine: str | None = "none",
    model: str | None = None,
) -> Iterator[ServoBus]:
    """Serve the virtual servos of a rig to any program, until the block ends.

    Args:
        rig: A name in `hil_rigs/`, or the path of a rig file.
        faults: Faults from the start, see `ServoBus.inject`.
        timing: ``none``: replies are immediate, for tests on a busy machine; ``wire``: as on a real line.
        seed: Seed of random faults.
        engine: ``none``: each joint alone; or an engine of the extra `sim`; None: the rig's.
        model: Servo model; default: the one identified from a real servo.

    Raises:
        PortError: the server does not start; the message has the cause.
    """
    options = [
        *("--timing", timing, "--seed", str(seed)),
        *(["--faults", faults] if faults else []),
        *(["--engine", engine] if engine else []),
        *(["--model", model] if model else []),
    ]
    with tempfile.TemporaryDirectory(prefix="axbridge-") as folder:
        link = ["--link", str(Path(folder, "bus"))] if os.name != "nt" else ["--tcp", "127.0.0.1:0"]
        command = [sys.executable, "-m", "axbridge", "serve", str(rig), "--json", *options, *link]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace", start_new_session=True
        ) as server:
            try:
                yield ServoBus(server, " ".join(command[2:]))
            finally:
                server.terminate()
                try:
                    _, text = server.communicate(timeout=_END)
                except subprocess.TimeoutExpired:
                    server.kill()
                    _, text = server.communicate()
                for line in (text or "").splitlines():
                    if line.startswith("warning: "):
                        print(line, file=sys.stderr)
