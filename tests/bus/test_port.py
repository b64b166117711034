from types import SimpleNamespace

import pytest
from dynamixel_sdk import COMM_SUCCESS, PacketHandler

from axbridge.bus import port as port_module
from axbridge.bus.port import Port, check_sdk
from axbridge.bus.port_name import Adapter, find_port, identify_adapter
from axbridge.errors import PortError
from tests.support.pty_line import PtyLine

PACKETS = PacketHandler(1.0)


@pytest.fixture
def line():
    with PtyLine((1,)) as made:
        yield made


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


def test_the_low_latency_mode_that_a_pty_refuses_does_not_matter(port):
    assert not port.low_latency
    assert port.adapter.kind == "pty"


def test_an_old_dynamixel_sdk_is_refused_with_the_command_that_repairs_it(monkeypatch):
    monkeypatch.setattr(
        port_module, "metadata", SimpleNamespace(distribution=lambda _: SimpleNamespace(version="3.7.31", files=()))
    )
    with pytest.raises(PortError, match="too old.*\n.*pip install"):
        check_sdk("/dev/ttyUSB0")


def test_an_overwritten_dynamixel_sdk_is_refused(monkeypatch, tmp_path):
    copy = tmp_path / "port_handler.py"
    copy.write_text("# an old copy\n")
    file = SimpleNamespace(name="port_handler.py", size=5000, locate=lambda: copy)
    fake = SimpleNamespace(version="4.1.0", files=(file,))
    monkeypatch.setattr(port_module, "metadata", SimpleNamespace(distribution=lambda _: fake))
    with pytest.raises(PortError, match="overwritten by another package"):
        check_sdk("/dev/ttyUSB0")


def test_the_latency_timer_of_an_ftdi_adapter_is_found_and_allowed_for(tmp_path):
    file = tmp_path / "ttyUSB0" / "device" / "latency_timer"
    file.parent.mkdir(parents=True)
    file.write_text("16\n")
    adapter = identify_adapter("/dev/ttyUSB0", tmp_path)
    assert adapter == Adapter("/dev/ttyUSB0", "ftdi", 16, file)
    assert adapter.latency == pytest.approx(0.020)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("/dev/ttyACM0", "cdc"), ("/dev/ttyS4", "uart"), ("socket://robot:4000", "remote"), ("/dev/pts/3", "pty")],
)
def test_adapters_are_told_apart(tmp_path, name, kind):
    assert identify_adapter(name, tmp_path).kind == kind


@pytest.mark.parametrize(
    ("connected", "chosen"),
    [
        ([(0x0403, "/dev/ttyUSB0"), (0x1546, "/dev/ttyACM0")], "/dev/ttyUSB0"),
        ([(0x1546, "/dev/ttyACM0")], "/dev/ttyACM0"),
    ],
)
def test_auto_takes_the_only_adapter_and_prefers_known_ones(monkeypatch, connected, chosen):
    ports = [SimpleNamespace(vid=vid, device=device) for vid, device in connected]
    monkeypatch.setattr("serial.tools.list_ports.comports", lambda: ports)
    assert find_port() == chosen


@pytest.mark.parametrize("connected", [[], [(0x0403, "/dev/ttyUSB0"), (0x0403, "/dev/ttyUSB1")]])
def test_auto_is_refused_when_it_is_not_clear(monkeypatch, connected):
    ports = [SimpleNamespace(vid=vid, device=device) for vid, device in connected]
    monkeypatch.setattr("serial.tools.list_ports.comports", lambda: ports)
    with pytest.raises(PortError, match="--port"):
        find_port()
