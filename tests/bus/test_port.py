import contextlib
import socket
import threading
from types import SimpleNamespace

import pytest
import serial
import serial.rfc2217
from dynamixel_sdk import COMM_SUCCESS, PacketHandler

from axbridge.bus import port as port_module
from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.port import Port, check_sdk
from axbridge.bus.port_name import Adapter, find_port, identify_adapter
from axbridge.bus.scan import scan
from axbridge.bus.serial import SerialBus
from axbridge.errors import BusTimeout, PortError
from axbridge.robot.safety.net import Safety

PACKETS = PacketHandler(1.0)


@pytest.fixture
def port(line):
    made = Port(line.port, 1_000_000)
    yield made
    made.close()


def test_dynamixel_sdks_own_packet_handler_works_on_the_port(line, port):
    port.setPacketTimeout = lambda _: port.setPacketTimeoutMillis(500)  # a busy machine may keep the responder waiting
    assert PACKETS.ping(port, 1)[:2] == (12, COMM_SUCCESS)
    assert PACKETS.write1ByteTxRx(port, 1, 25, 1)[0] == COMM_SUCCESS
    assert PACKETS.read2ByteTxRx(port, 1, 36)[0] == 501
    assert line.tables[1][25] == 1


def test_an_overwritten_dynamixel_sdk_is_refused_with_its_repair(monkeypatch, tmp_path):
    copy = tmp_path / "port_handler.py"
    copy.write_text("# an old copy\n")
    files = [SimpleNamespace(name="port_handler.py", size=5000, locate=lambda: copy)]
    monkeypatch.setattr(port_module.metadata, "distribution", lambda _: SimpleNamespace(files=files))
    with pytest.raises(PortError, match=r"overwritten by another package.*\n.*pip install"):
        check_sdk("/dev/ttyUSB0")


def test_adapters_are_identified_and_the_latency_includes_the_timer_of_an_ftdi(tmp_path):
    file = tmp_path / "ttyUSB0" / "device" / "latency_timer"
    file.parent.mkdir(parents=True)
    file.write_text("16\n")
    adapter = identify_adapter("/dev/ttyUSB0", tmp_path)
    assert (adapter, adapter.latency) == (Adapter("ftdi", 16, file), pytest.approx(0.020))
    names = {"/dev/ttyACM0": "cdc", "/dev/ttyS4": "uart", "socket://robot:4000": "remote", "/dev/pts/3": "pty"}
    assert {name: identify_adapter(name, tmp_path).kind for name in names} == names


@pytest.mark.parametrize(
    "others", [[], [(0x1546, "/dev/ttyACM0")]], ids=["the only one", "the only one of a known kind"]
)
def test_auto_selects_the_only_adapter_of_a_known_kind(monkeypatch, others):
    ports = [SimpleNamespace(vid=vid, device=device) for vid, device in ((0x0403, "/dev/ttyUSB0"), *others)]
    monkeypatch.setattr("serial.tools.list_ports.comports", lambda: ports)
    assert find_port() == "/dev/ttyUSB0"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/dev/ttyUSB99", "no such port"),
        *((name, "no serial line") for name in ("/dev/null", __file__, "/tmp")),
        *((name, "no address of a port") for name in ("socket://robot", "socket://:40", "foo://robot:40")),
        ("socket://127.0.0.1:1", "cannot connect: Connection refused"),
    ],
)
def test_a_port_that_cannot_be_opened_gives_the_reason(name, words):
    with pytest.raises(PortError, match=words):
        Port(name, 1_000_000)


def test_a_port_in_use_is_reported(line, port):
    with pytest.raises(PortError, match="in use by this program itself"):
        Port(line.port, 1_000_000)


@pytest.mark.parametrize("baud", [57142, 200_000, 250_000, 400_000, 666_667, 2_000_000])
def test_any_baud_rate_of_the_driver_is_accepted(line, baud):
    line.tables[1][4] = round(2e6 / baud) - 1
    with SerialBus(line.port, baud) as bus:
        bus.latency = 0.1  # a busy machine may keep the responder waiting
        assert bus.read(1, 3, 1).data == b"\x01"


class Redirector:
    """A serial server for one client."""

    def __init__(self, port, rfc2217):
        self.serial = serial.Serial(port, 1_000_000, timeout=0.02)
        own = self.serial.get_settings() | dict.fromkeys(("reset_input_buffer", "reset_output_buffer"), lambda: None)
        self.settings = SimpleNamespace(cts=False, dsr=False, ri=False, cd=False, **own)  # a pty has no modem lines
        self.listener = socket.create_server(("127.0.0.1", 0))
        scheme = "rfc2217" if rfc2217 else "socket"
        self.url = f"{scheme}://127.0.0.1:{self.listener.getsockname()[1]}"
        self.rfc2217 = rfc2217
        self.manager = None
        self.client = None
        threading.Thread(target=self._serve, daemon=True).start()

    def write(self, data):  # the RFC 2217 manager sends its replies by this method
        self.client.sendall(data)

    def _serve(self):
        with contextlib.suppress(OSError):
            self.client, _ = self.listener.accept()
            self.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.rfc2217:
                self.manager = serial.rfc2217.PortManager(self.settings, self)
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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:set.* is deprecated:DeprecationWarning")  # pyserial calls Thread.setDaemon
@pytest.mark.parametrize("scheme", ["socket", pytest.param("rfc2217", marks=pytest.mark.ci)])
def test_a_remote_port_works_like_a_local_one_until_its_connection_breaks(line, scheme):
    with contextlib.closing(Redirector(line.port, scheme == "rfc2217")) as server, SerialBus(server.url) as bus:
        assert bus.port.adapter.kind == "remote"
        with pytest.raises(BusTimeout):
            bus.read(9, 36, 2)
        assert [servo.id for servo in scan(bus, range(4))] == [1, 2, 3]
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
