"""A serial port as dynamixel-sdk's port handler; its reads wait in `poll`, and not in a busy loop."""

# ruff: noqa: N802  # dynamixel-sdk's method names

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import select
import socket
import textwrap
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import serial
from dynamixel_sdk import PortHandler

from axbridge.bus.port_name import (
    REMOTE_MARGIN,
    Adapter,
    BridgeAt,
    bridge_at,
    connected,
    identify_adapter,
    is_remote,
    line_behind,
    open_files,
)
from axbridge.bus.protocols.packet import byte_seconds
from axbridge.bus.protocols.v2 import HEADER
from axbridge.config.registers import QUESTIONS
from axbridge.errors import PortError, Remedy
from axbridge.files import fill_streams

_T = TypeVar("_T")
THERE = -math.inf  # deadline of `Port.receive` when bytes are known to be available
REPLY_DELAY = 0.0012  # s: return delay 254 at 3.16 µs a unit, and an interrupt that delays the reply
_WRITE_PATIENCE = 0.5  # s: a port that accepts no byte for this time is lost
_READ_SIZE = 4096  # bytes
_FINE = 0.003  # s: shorter waits need a finer resolution than the 1 ms of `poll`
_MOST_COMMAND = 60  # characters of a command line in a message
_FD_SETSIZE = 1024  # `select` supports only descriptors below this number


def check_sdk(port: str) -> None:
    """Refuse a dynamixel-sdk that was overwritten by another package's copy."""
    for file in metadata.distribution("dynamixel-sdk").files or ():
        if file.name == "port_handler.py" and file.size not in {None, Path(str(file.locate())).stat().st_size}:
            repair = 'run `pip install --force-reinstall "dynamixel-sdk>=4.0.5"`'
            raise PortError(port, "dynamixel-sdk was overwritten by another package (dynamixel-controller?)", repair)


class Port(PortHandler):  # type: ignore[misc]  # the SDK is untyped
    """An open port: a device path or pyserial URL, at any baud rate of the driver, not only those of the SDK."""

    mixes = False  # whether servos reply whose bytes do not come at `fd`

    def __init__(self, name: str, baud: int, marks: frozenset[str] = frozenset()) -> None:
        super().__init__(name)
        check_sdk(name)
        self.adapter: Adapter = identify_adapter(name)
        self.low_latency = False
        self.latency = self.adapter.latency
        self.marks = marks  # of the line behind it; empty: those that the name has when it is first opened
        self.fd: int | None = None  # descriptor, also for a process that outlives this one; None: the port has none
        self.poller: Any = None  # a `select.poll` on `fd`
        self.ser: Any = None
        self.tap: Callable[[bytes, bool], object] | None = None  # gets all bytes; True: sent, False: received
        self.bridge: BridgeAt | None = None  # the bridge that has the port: reads go through it, writes are refused
        self.baudrate = baud
        self.setupPort(baud)

    # -- interface of axbridge ----------------------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """Send `frame` to the driver, without flushing earlier frames; only reads go through a bridge."""
        if self.bridge is not None and not _is_read(frame):
            raise PortError(self.port_name, *self._read_only(self.bridge))
        self._send(frame)
        if self.tap is not None:
            self.tap(frame, True)

    def _send(self, frame: bytes) -> None:
        if self.fd is None:
            self._slowly(lambda port: port.write(frame))
        sent = 0
        while self.fd is not None and sent < len(frame):
            try:
                sent += os.write(self.fd, frame[sent:])
            except BlockingIOError:
                if not select.select((), (self.fd,), (), _WRITE_PATIENCE)[1]:
                    raise self._lost("it takes no more bytes") from None
            except OSError as failure:
                raise self._lost(failure) from failure

    def receive(self, deadline: float) -> bytes:
        """Wait for bytes until `deadline` (`time.monotonic`); return the available bytes, or none after the deadline.

        With the deadline `THERE` it does not wait: the caller has tested that bytes are available at `fd`.
        """
        data = self._receive(deadline)
        if data and self.tap is not None:
            self.tap(data, False)
        return data

    def _receive(self, deadline: float) -> bytes:
        if self.fd is None:
            return self._slowly(lambda port: _read_by(port, deadline))
        left = deadline - time.monotonic()
        try:
            if left > THERE and not self._ready(max(left, 0.0)):
                return b""
            data = os.read(self.fd, _READ_SIZE)
        except BlockingIOError:
            return b""
        except OSError as failure:
            raise self._lost(failure) from failure
        if not data:
            raise self._lost("it was unplugged")
        return data

    def until_next(self, longest: float) -> float:
        """Return how long to wait for bytes on `fd` before `receive` is called anyway, s; at most `longest`."""
        return longest

    def listen(self, deadline: float) -> bytes:
        """Return all bytes that come until `deadline` (`time.monotonic`)."""
        received = b""
        while chunk := self.receive(deadline):
            received += chunk
        return received

    def drain(self, quiet: float) -> None:
        """Read and discard bytes until none has come for `quiet` seconds, at most for 0.2 s."""
        end = time.monotonic() + 0.2  # a line with constant traffic is never silent
        while time.monotonic() < end and self.receive(time.monotonic() + quiet):
            pass

    def returns(self, probe: bytes) -> bool:
        """Send `probe`, a packet without a reply, and return whether the adapter echoes it."""
        self.send(probe)
        return probe in self.listen(time.monotonic() + len(probe) * byte_seconds(self.baudrate) + self.latency)

    def refuse_bridge(self) -> None:
        """Refuse a port that a bridge has, if the caller must be its only user."""
        if self.bridge is not None:
            raise PortError(self.port_name, *self._read_only(self.bridge))

    def _read_only(self, bridge: BridgeAt) -> tuple[str, str]:
        why = f"`axbridge bridge` (process {bridge.process}) has this port: a second program may read, and not write"
        return why, f"let the program use the bridge's own port, or end the bridge; reads go to {bridge.address}"

    def _ready(self, wait: float) -> bool:
        if wait < _FINE and self.fd is not None and self.fd < _FD_SETSIZE:
            return bool(select.select((self.fd,), (), (), wait)[0])  # `poll` waits for whole milliseconds only
        return bool(self.poller.poll(wait * 1e3))

    def close(self) -> None:
        """Close the port; may be called twice."""
        self.fd = self.poller = None
        self.is_open = self.is_using = False
        if self.ser is not None:
            connection = getattr(self.ser, "_socket", None)  # pyserial leaves a broken connection open
            with contextlib.suppress(OSError):  # closing a lost port may raise, but frees it
                self.ser.close()
            if connection is not None:
                connection.close()
            self.ser = None

    def _slowly(self, use: Callable[[Any], _T]) -> _T:
        """Write or read by pyserial; for a port without a descriptor."""
        if self.ser is None:
            raise PortError(self.port_name, "the port is closed")
        try:
            return use(self.ser)
        except OSError as failure:
            raise self._lost(failure) from failure

    def _lost(self, why: OSError | str) -> PortError:
        self.close()
        text = why if isinstance(why, str) else (why.strerror or str(why))
        return PortError(self.port_name, f"the port was lost: {text}", "check the USB cable and the adapter's power")

    # -- interface of dynamixel-sdk -----------------------------------------------------------------------------------

    def setupPort(self, cflag_baud: int) -> bool:
        """Open and configure the port (SDK name); refuse a name that now leads to another line."""
        self.close()
        behind = line_behind(self.port_name)
        if self.marks and not self.marks & behind and Path(self.port_name).exists():
            hint = "open it again if that one is meant, or end the program"
            raise PortError(self.port_name, "another line has this name now", hint)
        fill_streams()  # descriptors 0 to 2 must be in use: the guard process replaces them with its own
        name = self.port_name
        try:
            # exclusive: two masters on one line corrupt each other's replies
            self.ser = serial.serial_for_url(name, baudrate=cflag_baud, timeout=0, exclusive=True)
        except (OSError, ValueError) as failure:
            self.bridge = bridge_at(name) if _is_busy(failure) else None
            if self.bridge is None:
                raise _explain(name, cflag_baud, failure) from failure
            self._attach(name := self.bridge.address, cflag_baud)
        self.baudrate = cflag_baud
        self.marks = self.marks or behind
        self.is_open = True
        self.tx_time_per_byte = byte_seconds(cflag_baud) * 1e3
        # A pty and many drivers have no low-latency mode; then the value of the latency timer remains.
        with contextlib.suppress(OSError, ValueError, AttributeError, NotImplementedError):
            self.ser.set_low_latency_mode(True)
            self.low_latency = True
            self.adapter = identify_adapter(self.port_name)
            self.latency = self.adapter.latency
        with contextlib.suppress(OSError, ValueError, AttributeError):  # rfc2217:// has no descriptor
            poll = select.poll()  # Windows has no `poll`: pyserial reads its ports
            self.fd, self.poller = self.ser.fileno(), poll
            self.poller.register(self.fd, select.POLLIN)
            if name.startswith("socket://"):
                with socket.socket(fileno=os.dup(self.fd)) as line:
                    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # send each frame immediately
        with contextlib.suppress(OSError):
            self.ser.reset_input_buffer()
        return True

    def _attach(self, address: str, baud: int) -> None:
        """Open the address at which a bridge accepts reads."""
        try:
            self.ser = serial.serial_for_url(address, baudrate=baud, timeout=0)
        except (OSError, ValueError) as failure:
            raise _explain(address, baud, failure) from failure
        self.latency = self.adapter.latency + REMOTE_MARGIN  # the bridge holds a read until the line is free

    def setBaudRate(self, baudrate: int) -> bool:
        """Change the rate of the open port, custom rates included (SDK name)."""
        if self.ser is None:
            return self.setupPort(baudrate)
        try:
            self.ser.baudrate = baudrate
        except (OSError, ValueError) as failure:
            raise _explain(self.port_name, baudrate, failure) from failure
        self.baudrate = baudrate
        self.tx_time_per_byte = byte_seconds(baudrate) * 1e3
        return True

    closePort = close  # noqa: N815


def _read_by(port: Any, deadline: float) -> bytes:
    port.timeout = max(deadline - time.monotonic(), 0)
    first = port.read(1)
    return bytes(first + port.read(port.in_waiting)) if first else b""


def _in_use(port: str) -> tuple[str, str]:
    """Return problem and hint that name the lock's holder: a child process that inherits it may outlive its parent."""
    holders = _holders(port)
    if os.getpid() in holders:
        hint = 'close the robot or bus that has it first; a robot goes from real to twin by way of switch("sim")'
        return "the port is in use by this program itself", hint
    if not holders:
        return "the port is in use by another program", f"close it: `sudo fuser -v {port}` names it"
    named = ", ".join(f"process {pid}: {command}" for pid, command in holders.items())
    return f"the port is in use by {named}", "end it where it was started, by Ctrl-C, so that it leaves its motors safe"


def _holders(port: str) -> dict[int, str]:
    """Return process ids and commands of the processes with a lock on the port, without their children (guards)."""
    holders, parents, device = {}, {}, os.path.realpath(port)
    for file in open_files():
        with contextlib.suppress(OSError):
            if file.path == device and "FLOCK" in file.info():
                process = Path("/proc", file.process)
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").split()
                words[:2] = (Path(word).name for word in words[:2])  # interpreter and script
                parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                holders[int(process.name)] = textwrap.shorten(" ".join(words), _MOST_COMMAND, placeholder=" …")
    return {pid: command for pid, command in holders.items() if parents[pid] not in holders}


def _is_read(frame: bytes) -> bool:
    """Return whether a packet only reads: it changes nothing in any servo."""
    return frame[7 if frame.startswith(HEADER + b"\0") else 4] in QUESTIONS


def _is_busy(failure: Exception) -> bool:
    busy = {errno.EBUSY, errno.EAGAIN, errno.EWOULDBLOCK}
    return getattr(failure, "errno", None) in busy or "exclusively lock" in str(failure)


def _explain(port: str, baud: int, failure: Exception) -> PortError:
    code, text = getattr(failure, "errno", None), str(failure)
    if code in {errno.ENOENT, errno.ENXIO, errno.ENODEV} or "[Errno 2]" in text:
        others = f"there is {', '.join(ports)}" if (ports := connected()) else "no USB serial adapter is connected"
        problem, hint = "no such port", f"{others}; check the name and the cable"
    elif code in {errno.EACCES, errno.EPERM}:
        problem = "no permission to open the port"
        says = "run `sudo usermod -aG dialout $USER` and log in again, or use the rule of {}"
        hint = Remedy("doctor", udev_rule=True, says=says)
    elif _is_busy(failure):
        problem, hint = _in_use(port)
    elif code in {errno.ENOTTY, errno.EINVAL, errno.EISDIR, errno.ENOTDIR} or "Inappropriate ioctl" in text:
        problem = "this is no serial line"
        hint = "give a serial device (/dev/ttyUSB0, /dev/ttyACM0) or a URL (socket://host:port)"
    elif isinstance(failure, ValueError) and "baud" in text.lower():
        problem = f"the driver cannot make {baud} baud"
        hint = "choose a rate near 2000000/(n+1) that the adapter supports"
    elif not is_remote(port):
        problem, hint = f"cannot be opened: {text}", "check the path and the adapter"
    elif re.match(r"(socket|rfc2217)://[^/]+:\d+", port):
        problem = f"cannot connect: {text.rpartition('] ')[2]}"
        hint = "check host, port and that the remote serial server runs"
    else:
        problem, hint = "this is no address of a port", "write socket://HOST:PORT or rfc2217://HOST:PORT"
    return PortError(port, problem, hint)
