"""Ports for clients of a virtual bus: a pseudo-terminal, or a TCP port for ``socket://`` and other systems."""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

try:
    import fcntl
    import pty
    import termios
    import tty
except ImportError as failure:  # as on Windows
    _MISSING = f"this system has none ({failure})"
else:
    _MISSING = ""

from axbridge.bus.port_name import lock_of, open_files
from axbridge.errors import PortError, UsageError
from axbridge.virtual.wake_latency import Awake, wake_on_time

# struct termios2 of Linux: four flag words, line discipline, 19 control characters, input and output speed.
_TERMIOS2 = struct.Struct("=4IB19s2I")
_TCGETS2 = 0x802C542A
_CHUNK = 4096  # bytes per read, and of all unread arrivals: the kernel buffers as many for a real adapter
_FULL_PAUSE = 1e-3  # s between checks while the arrivals fill the buffer
_MOST_HELD = 65536  # bytes of a TCP client that are held for the line, 0.7 s at 1 Mbit/s; more are lost
_MOST_READS = 16  # reads per call of `hold`
_TCSETS2 = 0x402C542B
_CBAUD, _BOTHER = 0o010017, 0o010000
_TIOCGEXCL = 0x80045440  # Linux
_CLOSED, _OPENED = 0x08 | 0x10, 0x20  # inotify: IN_CLOSE_WRITE and IN_CLOSE_NOWRITE, IN_OPEN
_EVENT = struct.Struct("=iIII")  # struct inotify_event: watch, mask, cookie, length of the name
_MOST_UNREAD = 2048  # bytes
_TRIALS = 200
_LOCK_ATTEMPTS, _LOCK_PAUSE = 5, 0.02  # attempts to lock a link, and the pause between them, s
_TCP_HINT = "serve on TCP: --tcp 127.0.0.1:7000"
_OCCUPIED_NOTICE = b"axbridge: this bus has a client already; it takes another one when that has left\n"


class Arrival(NamedTuple):
    """Bytes from a client: send time in s on the monotonic clock, and the bits per second it set, if any."""

    data: bytes
    time: float
    baud: float | None


class Listener:
    """A thread that blocks in a read of one end of the terminal.

    It does not receive bytes that a client discards: a TCOFLUSH right after a write (pypot flushes before every packet)
    removes bytes that the kernel has not yet moved to this end.
    """

    def __init__(self, end: int) -> None:
        self.ready_fd, self._waker = os.pipe()  # readable when there are arrivals
        self._end = end
        self._arrivals: deque[Arrival] = deque()
        self._stopping = False
        self._thread = threading.Thread(target=self._listen, name="pty listener", daemon=True)
        self._thread.start()

    def arrivals(self) -> list[Arrival]:
        """Return the arrivals since the last call; call it when `ready_fd` is readable."""
        os.read(self.ready_fd, _CHUNK)
        return [self._arrivals.popleft() for _ in range(len(self._arrivals))]

    def close(self, other: int) -> None:
        """Stop the thread; a byte written to `other`, the other end of the terminal, ends its read."""
        self._stopping = True
        os.set_blocking(other, False)
        with contextlib.suppress(BlockingIOError):  # the buffer is full, so the read does not block
            os.write(other, b"\0")
        os.set_blocking(other, True)
        self._thread.join()
        os.close(self.ready_fd)
        os.close(self._waker)

    def _listen(self) -> None:
        wake_on_time()
        _block_signals()
        while True:
            while sum(len(arrival.data) for arrival in list(self._arrivals)) >= _CHUNK and not self._stopping:
                time.sleep(_FULL_PAUSE)
            data = os.read(self._end, _CHUNK)
            now = time.monotonic()
            if self._stopping:
                return
            self._arrivals.append(Arrival(data, now, baud(self._end) or None))
            os.write(self._waker, b"!")


class DirectReader:
    """Reads one end of the terminal in the calling thread, for a relay that must pass bytes on without delay."""

    def __init__(self, end: int) -> None:
        self.ready_fd = end

    def arrivals(self) -> list[Arrival]:
        """Return the bytes that have arrived; call it when `ready_fd` is readable."""
        data = os.read(self.ready_fd, _CHUNK)
        return [Arrival(data, time.monotonic(), baud(self.ready_fd) or None)]

    def close(self, other: int) -> None:
        """Do nothing: there is no thread to stop."""


class Unlocker:
    """A thread that ends a client's exclusive use of the terminal (TIOCEXCL) after that client has closed it.

    The kernel keeps the flag while any process has the slave open, and the server always has. Without this thread only
    root could open the terminal after a client was killed. Only Linux reports when a file is closed; elsewhere there is
    no thread.
    """

    def __init__(self, slave: int) -> None:
        self._slave = slave
        self.clients: int | None = None  # number of opens besides the server's; None: the system does not report it
        self._events = -1
        if sys.platform != "linux":
            return
        self._libc = ctypes.CDLL(None)
        self._events = self._libc.inotify_init1(os.O_CLOEXEC)
        self._watched = self._libc.inotify_add_watch(self._events, os.ttyname(slave).encode(), _CLOSED | _OPENED)
        self.clients = 0 if self._watched >= 0 else None
        self._stopping = False
        self._thread = threading.Thread(target=self._watch, name="pty unlocker", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching; call it before the slave is closed."""
        if self._events >= 0:
            self._stopping = True
            self._libc.inotify_rm_watch(self._events, self._watched)  # this causes an event that ends the read
            self._thread.join()
            os.close(self._events)

    def _watch(self) -> None:
        _block_signals()
        while True:
            masks: list[int] = []
            with contextlib.suppress(OSError):  # the system has no inotify
                data = os.read(self._events, _CHUNK)
                masks = [mask for _, mask, _, _ in _EVENT.iter_unpack(data[: len(data) // _EVENT.size * _EVENT.size])]
            if self._stopping or self._watched < 0:
                return
            self.clients = (self.clients or 0) + sum(bool(mask & _OPENED) - bool(mask & _CLOSED) for mask in masks)
            if not any(mask & _CLOSED for mask in masks):
                continue
            with contextlib.suppress(OSError):
                if any(fcntl.ioctl(self._slave, _TIOCGEXCL, bytes(4))):
                    fcntl.ioctl(self._slave, termios.TIOCNXCL)  # first, because the search takes about 10 ms
                    if self.has_client():  # another client has closed it
                        fcntl.ioctl(self._slave, termios.TIOCEXCL)

    def has_client(self) -> bool:
        """Return whether another process has the terminal open, as far as this user may know; it takes about 10 ms."""
        name, own = os.ttyname(self._slave), str(os.getpid())
        return any(file.process != own and file.path == name for file in open_files())


def _block_signals() -> None:
    """Block all signals in this thread, so that the main thread handles them."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def _settings(descriptor: int) -> tuple[Any, ...] | None:
    """Return the fields of `_TERMIOS2`; None if the system does not report them."""
    try:
        return _TERMIOS2.unpack(fcntl.ioctl(descriptor, _TCGETS2, bytes(_TERMIOS2.size)))
    except OSError:
        return None


def baud(descriptor: int) -> int:
    """Return the bits per second that the client has set; 0 if the system does not report them."""
    fields = _settings(descriptor)
    return int(fields[7]) if fields else 0


class _Ends(NamedTuple):
    """Both ends of a pseudo-terminal, the listener of its master and the unlocker of its slave."""

    master: int
    slave: int
    listener: Listener | DirectReader
    unlocker: Unlocker


class PtyChannel:
    """One pseudo-terminal; clients open its slave end like a serial port.

    It keeps the slave open, so that clients can connect and disconnect. The client's speed sets that of the line.
    `baud` is the rate for a client that sets none. `link` is a symbolic link to the slave, renewed at each `plug`.
    """

    def __init__(
        self, baud: float, link: Path | None = None, listen: Callable[[int], Listener | DirectReader] = Listener
    ) -> None:
        self._listen = listen
        if _MISSING:
            raise PortError("pty", f"no pseudo-terminal: {_MISSING}", _TCP_HINT)
        self._initial_baud = int(baud)
        self._link = link
        self._lock = -1
        self._ends: _Ends | None = None
        self.address = ""
        self.transit = self._delay = 0.0  # s, from `write` to the client and from the client to here
        if link is not None:
            self._lock_link(link)
        self.plug()

    @property
    def port(self) -> str:
        """The port for clients: the permanent link, or the terminal."""
        return str(self._link or self.address)

    def descriptors(self) -> tuple[int, ...]:
        """File descriptors to wait on; none while it is unplugged."""
        return (self._ends.listener.ready_fd,) if self._ends else ()

    def plug(self) -> None:
        """Open a pseudo-terminal and point the link at it."""
        try:
            master, slave = pty.openpty()
        except OSError as failure:
            raise PortError("pty", f"no pseudo-terminal: {failure}", _TCP_HINT) from failure
        tty.setraw(slave)
        _set_baud(slave, self._initial_baud)
        first = not self.transit  # the transit times depend on the machine only: measure them once
        if first:
            client = self._listen(slave)
            self.transit = _transit(master, client)
            client.close(master)
        listener = self._listen(master)
        if first:
            self._delay = _transit(slave, listener)
        self._ends = _Ends(master, slave, listener, Unlocker(slave))
        self.address = os.ttyname(slave)
        if self._link is not None:
            temporary = self._link.with_name(f".{self._link.name}.{os.getpid()}")
            temporary.symlink_to(self.address)
            temporary.replace(self._link)

    def unplug(self) -> None:
        """Unplug the adapter: clients see the port hang up."""
        ends, self._ends = self._ends, None
        if ends is not None:
            if self._link is not None:
                self._link.unlink(missing_ok=True)  # another program may get this terminal number next
            ends.unlocker.close()
            ends.listener.close(ends.slave)
            os.close(ends.master)
            os.close(ends.slave)

    def receive(self) -> list[Arrival]:
        """Return the bytes from the client since the last call."""
        if self._ends is None:
            return []
        return [Arrival(data, time - self._delay, baud) for data, time, baud in self._ends.listener.arrivals()]

    @property
    def clients(self) -> int | None:
        """Number of times that clients have it open; None if the system does not report it."""
        return self._ends.unlocker.clients if self._ends else 0

    def is_abandoned(self) -> bool:
        """Return whether no client has it open. It searches all processes: the kernel may report two opens as one."""
        if self._ends is None or not self._ends.unlocker.has_client():
            return True
        self._ends.unlocker.clients = 1
        return False

    waits = False  # the kernel buffers bytes, and blocks the client when its buffer is full
    left = False  # a hang-up is not visible while the server has the slave open

    def hold(self) -> None:
        """Do nothing: the kernel buffers bytes and blocks the client."""

    def write(self, data: bytes) -> None:
        """Send bytes to the client; as in a real adapter, bytes that an idle client leaves unread are lost."""
        if self._ends is not None and _unread(self._ends.slave) < _MOST_UNREAD:
            with contextlib.suppress(OSError):
                os.write(self._ends.master, data)

    def close(self) -> None:
        """Close the pseudo-terminal and remove the link; may be called twice."""
        self.unplug()
        if self._lock >= 0 and self._link is not None:
            lock_of(self._link).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1

    def _lock_link(self, link: Path) -> None:
        if link.exists() and not link.is_symlink():
            raise UsageError(f"{link} is in the way of the link", "give another --link")
        try:
            self._lock = os.open(lock_of(link), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            _lock_now(self._lock)
            link.unlink(missing_ok=True)  # left by a server that was killed
        except BlockingIOError:
            os.close(self._lock)
            self._lock = -1
            raise UsageError(
                f"another `axbridge serve` or `bridge` keeps the link {link}", "stop it, or give another --link"
            ) from None
        except OSError as failure:
            raise UsageError(f"cannot make the link {link}: {failure.strerror}", "give a writable folder") from failure


def _lock_now(file: int) -> None:
    """Lock the file; retry, because clients lock it briefly to find out whether the server runs."""
    for attempt in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt == _LOCK_ATTEMPTS - 1:
                raise
            time.sleep(_LOCK_PAUSE)
        else:
            return


def _unread(slave: int) -> int:
    """Return the number of bytes that the client has not read; a write beyond the kernel's 4096 would block."""
    return int.from_bytes(fcntl.ioctl(slave, termios.FIONREAD, bytes(4)), sys.byteorder)


def _transit(end: int, listener: Listener | DirectReader) -> float:
    """Return the machine's shortest time, s, from a write to `end` until the listener of the other end sees it."""
    awake = Awake()
    awake.hold()
    delays = []
    for _ in range(_TRIALS):
        sent_at = time.monotonic()
        os.write(end, b"\0")
        delays += [arrival.time - sent_at for arrival in listener.arrivals()]
    awake.release()
    return min(delays)


def _set_baud(descriptor: int, baud: int) -> None:
    if fields := _settings(descriptor):
        control = (fields[2] & ~_CBAUD) | _BOTHER
        packed = _TERMIOS2.pack(*fields[:2], control, *fields[3:6], baud, baud)
        with contextlib.suppress(OSError):
            fcntl.ioctl(descriptor, _TCSETS2, packed)


def parse_address(text: str) -> tuple[str, int]:
    """Split ``HOST:PORT`` into its parts; an IPv6 host is in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{text!r} is no TCP address", "write HOST:PORT, as in 127.0.0.1:7000")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class TcpChannel:
    """A TCP port for clients; port 0 takes any free one. A socket has no baud rate, so the line keeps its own.

    One client at a time: bytes of a second client are discarded, so that they do not move the robot when the first one
    leaves. When a client leaves, its bytes that wait for the line are discarded.
    """

    def __init__(self, host: str, port: int) -> None:
        self._bind_address = (host, port)
        self._listener: socket.socket | None = None
        self._client: socket.socket | None = None
        self._held = bytearray()  # bytes from the client that wait for the line
        self.address = ""
        self.transit = 0.0  # s: the network delay is unknown
        self.plug()

    @property
    def port(self) -> str:
        """Address for clients."""
        return self.address

    def descriptors(self) -> tuple[int, ...]:
        """File descriptors to wait on; none while it is unplugged."""
        return tuple(end.fileno() for end in (self._listener, self._client) if end is not None)

    def plug(self) -> None:
        """Listen for clients."""
        host, port = self._bind_address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(4)
            listener.setblocking(False)
        except OSError as failure:
            listener.close()
            raise PortError(
                f"{host}:{port}", f"cannot listen: {failure.strerror or failure}", "take another address or port"
            ) from failure
        self._listener = listener
        bound = listener.getsockname()[1]
        self._bind_address = (host, bound)
        self.address = f"socket://{f'[{host}]' if ':' in host else host}:{bound}"

    def unplug(self) -> None:
        """Disconnect the client and stop listening."""
        self._hang_up()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    close = unplug

    def hold(self) -> None:
        """Hold arriving bytes while the line is busy; detect that the client has left, or that another one connects."""
        for _ in range(_MOST_READS):
            if not self._read():
                break
        self._accept()  # after the reads, so that a client that has left does not block the next one

    def receive(self) -> list[Arrival]:
        """Return bytes from the client, oldest first, at most 4096; accept a client, or refuse a second one."""
        if not self._held:
            self._read()
        data = bytes(self._held[:_CHUNK])
        del self._held[:_CHUNK]
        self.hold()
        return [Arrival(data, time.monotonic(), None)] if data else []

    def _read(self) -> bool:
        """Read from the client once; return whether bytes came. Bytes beyond `_MOST_HELD` are lost."""
        if self._client is None:
            return False
        try:
            data = self._client.recv(_MOST_HELD)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self._held += data[: _MOST_HELD - len(self._held)]
        if not data:
            self._hang_up()
        return bool(data)

    def _accept(self) -> None:
        if self._listener is None:
            return
        try:
            client, _ = self._listener.accept()
        except OSError:  # no client waits, or it has disconnected
            return
        client.setblocking(False)
        if self._client is None:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._client = client
            return
        with contextlib.suppress(OSError), client:
            client.send(_OCCUPIED_NOTICE)
            client.recv(_CHUNK)  # unread bytes would make close() discard the message

    left = False  # whether a client has left since the server last reset this flag

    @property
    def clients(self) -> int | None:
        """Number of connected clients."""
        return int(self._client is not None)

    def is_abandoned(self) -> bool:
        """Return whether no client is connected."""
        return self._client is None

    @property
    def waits(self) -> bool:
        """Whether bytes wait for the line."""
        return bool(self._held)

    def write(self, data: bytes) -> None:
        """Send bytes to the client; they are lost without a client, or when it does not read."""
        if self._client is not None:
            with contextlib.suppress(OSError):
                self._client.send(data)

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
            self._held.clear()  # these bytes must not move the robot after the client has left
            self.left = True


Channel = PtyChannel | TcpChannel
"""A port for clients at `address`; `transit` is the delay, s, from `write` to the client, without the wire's time."""
