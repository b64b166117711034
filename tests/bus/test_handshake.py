import pytest

from axbridge.bus.commission import apply_registers
from axbridge.bus.handshake import Expected, handshake, profile_for, require
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import BusError, UsageError

pytestmark = pytest.mark.slow

AX = FirmwareProfile.load("ax-12a")
SETUP = {"return_delay_time": 3, "status_return_level": 1, "ccw_angle_limit": 900, "punch": 40}


@pytest.fixture(autouse=True)
def patient(bus):
    bus.latency = bus.port.latency = 0.05


def expected(*ids):
    return [Expected(f"s{id_}", id_, AX) for id_ in ids]


def test_all_faults_are_listed_together_with_the_commands_that_repair_them(line, bus):
    line.tables[2][0] = 29
    line.tables[3][5] = 250
    findings = handshake(bus, expected(1, 2, 3, 8, 9), port="/dev/ttyX")
    fatal, costly = findings[:-1], findings[-1]
    assert [finding.kind for finding in fatal if finding.fatal] == ["model", "missing", "missing"]
    assert (costly.kind, costly.fatal) == ("return_delay", False)
    assert "axbridge servo write 3 return_delay_time 0 --port /dev/ttyX" in findings[-1].fix
    require(findings[-1:], "/dev/ttyX")  # a finding that only costs speed is not fatal
    with pytest.raises(BusError) as error:
        require(findings, "/dev/ttyX")
    assert "s8 (id 8), s9 (id 9) do not answer" in error.value.message
    assert "s2 (id 2) is model 29" in error.value.message
    assert "\n" not in error.value.message


@pytest.mark.parametrize(
    ("registers", "kinds"), [({}, ["multi_turn"]), ({"cw_angle_limit": 0}, []), (None, ["multi_turn"])]
)
def test_an_mx_in_multi_turn_mode_is_refused_unless_the_rig_ends_it(line, bus, registers, kinds):
    mx = FirmwareProfile.load("mx-28")
    line.tables[1][:10] = bytes((29, 0, mx.firmware_version, 1, 1, 0, 0xFF, 0x0F, 0xFF, 0x0F))
    findings = handshake(bus, [Expected("s1", 1, mx, registers)])
    assert [finding.kind for finding in findings] == kinds
    assert all("servo write 1 cw_angle_limit 0" in finding.fix and finding.fatal for finding in findings)


def test_two_servos_with_one_id_are_distinguished_from_noise_and_a_lost_packet(line, bus):
    fates = iter(["ok", "drop"])
    bus.latency = before = 0.06
    line.mishap = lambda _: next(fates, "ok")  # the second look is at the whole table
    assert handshake(bus, expected(1)) == []
    assert 0.003 <= bus.latency != before
    line.mishap = lambda packet: "corrupt" if packet.id == 2 else "ok"
    (finding,) = handshake(bus, expected(1, 2, 3))
    assert (finding.kind, finding.subject) == ("collision", "s2 (id 2)")


def test_writes_without_acknowledgement_are_verified_by_reading(line, bus):
    line.tables[1][16] = 1
    handshake(bus, expected(1))
    bus.latency, before = 0.05, bus.stats.of(1).timeouts
    bus.write(1, 25, b"\x01")
    assert line.tables[1][25] == 1
    assert bus.stats.of(1).timeouts == before


def test_the_same_setup_twice_writes_no_eeprom_the_second_time(line, bus):
    for _ in range(2):
        assert apply_registers(bus, 1, AX, SETUP) == {}
        assert line.writes == 4
        assert bus.eeprom_writes == 4


@pytest.mark.parametrize(("name", "value"), [("present_position", 3), ("led", 7)])
def test_impossible_writes_are_refused_before_anything_is_sent(line, bus, name, value):
    count = len(line.received)
    with pytest.raises(UsageError):
        apply_registers(bus, 1, AX, {"punch": 44, name: value})
    assert len(line.received) == count


def test_a_profile_is_selected_by_model_number_and_firmware():
    assert profile_for(12).name == "ax-12a"
    assert profile_for(12, 24).name == "ax-12a"
    assert profile_for(12, 17).firmware_version == 17
    assert profile_for(4711) is None
