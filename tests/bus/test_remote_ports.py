"""Ports behind the network: raw TCP and RFC 2217, as `ser2net` and serial device servers speak them."""

import contextlib
import socket
import threading

import pytest
import serial
import serial.rfc2217

from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.scan import scan
from axbridge.bus.serial import SerialBus
from axbridge.errors import BusTimeout, PortError
from axbridge.robot.safety.net import Safety
from tests.support.pty_line import PtyLine

# pyserial's client and server call Thread.setDaemon
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:set.* is deprecated:DeprecationWarning")]


class ThreeWire(serial.Serial):
    """A pty has no modem lines; an RFC 2217 server asks for them."""

    cts = dsr = ri = cd = False

    def _update_rts_state(self):
        pass

    def _update_dtr_state(self):
        pass

    def _update_break_state(self):
        pass


class Redirector:
    """A serial server for one client."""

    def __init__(self, port, rfc2217):
        self.serial = ThreeWire(port, 1_000_000, timeout=0.02)
        self.listener = socket.create_server(("127.0.0.1", 0))
        scheme = "rfc2217" if rfc2217 else "socket"
        self.url = f"{scheme}://127.0.0.1:{self.listener.getsockname()[1]}"
        self.rfc2217 = rfc2217
        self.manager = None
        self.client = None
        threading.Thread(target=self._serve, daemon=True).start()

    def write(self, data):  # the manager's way to answer
        self.client.sendall(data)

    def _serve(self):
        with contextlib.suppress(OSError):
            self.client, _ = self.listener.accept()
            self.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.rfc2217:
                self.manager = serial.rfc2217.PortManager(self.serial, self)
            threading.Thread(target=self._upstream, daemon=True).start()
            while data := self.client.recv(1024):
                self.serial.write(b"".join(self.manager.filter(data)) if self.manager else data)

    def _upstream(self):
        with contextlib.suppress(OSError, TypeError, serial.SerialException):
            while True:
                data = self.serial.read(1)
                data += self.serial.read(self.serial.in_waiting)
                if data:
                    self.write(b"".join(self.manager.escape(data)) if self.manager else data)

    def close(self):
        if self.client:
            with contextlib.suppress(OSError):
                self.client.shutdown(socket.SHUT_RDWR)
            self.client.close()
        self.listener.close()
        self.serial.close()


@pytest.fixture
def line():
    with PtyLine((1, 2)) as made:
        yield made


@pytest.mark.parametrize("scheme", ["socket", "rfc2217"])
def test_a_remote_port_is_a_bus_like_any_other_until_its_connection_breaks(line, scheme):
    with contextlib.closing(Redirector(line.port, scheme == "rfc2217")) as server, SerialBus(server.url) as bus:
        assert bus.remote
        with pytest.raises(BusTimeout):
            bus.read(9, 36, 2)
        assert [found.id for found in scan(bus, range(4))] == [1, 2]
        cycle = Cycle(bus, [CycleServo("hip", 1), CycleServo("knee", 2)])
        with Safety([cycle]) as watched:
            for _ in range(5):
                watched.feed()
                result = cycle.exchange({"hip": Goal(400, 100)})
            assert (result.faults, result.states["knee"].position) == ({}, 501)
            assert line.tables[1][24] == 1
        assert line.tables[1][24] == 0
        server.close()
        with pytest.raises(PortError):
            bus.read_many([(1, 36, 2)] * 20)
