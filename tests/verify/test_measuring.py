"""What `axbridge verify` measures on a line with behaviour: deaf servos, motors that are on, levels as they are."""

import itertools
import time

import pytest

from axbridge.bus.handshake import Expected, ExpectedBus
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.bus.serial import SerialBus
from axbridge.config.instructions import Instruction
from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import Address
from axbridge.config.rig import Rig
from axbridge.errors import ServoFault
from axbridge.verify.deafness import WRITES, look_at_deafness
from axbridge.verify.first_drive import calm, powered, silence, torque_limits_kept
from axbridge.verify.levels import look_at_servos
from tests.support.pty_line import PtyLine

pytestmark = pytest.mark.slow

AX = FirmwareProfile.load("ax-12a")


@pytest.fixture
def line():
    with PtyLine((1, 2)) as line:
        yield line


def expected(line):
    return ExpectedBus(line.port, 1_000_000, tuple(Expected(f"joint{id_}", id_, AX) for id_ in line.tables))


def until_it_has_heard_the_broadcast(line):
    patience = time.monotonic() + 10
    while not line.heard or line.heard[-1][0] != BROADCAST:
        assert time.monotonic() < patience
        time.sleep(0.002)
    line.heard.clear()
    time.sleep(0.05)  # and has obeyed it


def test_how_long_a_servo_is_deaf_is_measured_and_its_byte_is_as_before(line):
    line.burn = 0.03
    before = bytes(line.tables[1])
    found = look_at_deafness(expected(line))
    assert 15 < found.facts["deaf_ms"] < 30.5
    assert found.facts["deaf_ms"] <= found.facts["heard_ms"] < 60
    assert [finding.kind for finding in found.findings] == ["deaf"]
    assert found.facts["spared"]
    assert line.writes == WRITES
    assert bytes(line.tables[1]) == before


def test_a_locked_servo_is_not_written_to(line):
    line.tables[1][47] = 1
    with pytest.raises(ServoFault, match="is locked"):
        look_at_deafness(expected(line))
    assert line.writes == 0


def test_motors_that_are_on_are_named_and_switched_off_and_so_is_who_does_not_answer(line):
    lines = [expected(line)]
    assert powered(lines) == []
    until_it_has_heard_the_broadcast(line)
    line.tables[2][24] = 1
    assert powered(lines) == ["joint2"]
    until_it_has_heard_the_broadcast(line)
    assert line.tables[2][24] == 0
    line.tables[1][24] = 1
    line.deaf = {1}
    assert powered(lines) == ["joint1"]
    until_it_has_heard_the_broadcast(line)
    assert line.tables[1][24] == 1
    line.deaf = set()
    silence(lines)
    until_it_has_heard_the_broadcast(line)
    assert line.tables[1][24] == 0


def test_torque_limits_are_given_back_whatever_ends_the_block(line):
    line.tables[1][34:36] = (700).to_bytes(2, "little")

    def end():
        with SerialBus(line.port) as bus:
            bus.sync_write(Address.TORQUE_LIMIT, {1: b"\1\0", 2: b"\2\0"})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), torque_limits_kept([expected(line)]):
        end()
    with SerialBus(line.port) as bus:
        assert [int.from_bytes(bus.read(id_, 34, 2).data, "little") for id_ in (1, 2)] == [700, 1023]


def test_a_line_that_loses_every_second_answer_is_no_reason_to_give_up(line):
    fates = itertools.cycle(["drop", "ok"])
    line.mishap = lambda packet: next(fates) if packet.code == Instruction.READ else "ok"
    with torque_limits_kept([expected(line)]), SerialBus(line.port) as bus:
        bus.sync_write(Address.TORQUE_LIMIT, {1: b"\1\0", 2: b"\2\0"})
    assert powered([expected(line)]) == []
    with SerialBus(line.port) as bus:
        line.mishap = lambda _: "ok"
        assert [int.from_bytes(bus.read(id_, 34, 2).data, "little") for id_ in (1, 2)] == [1023, 1023]


def test_a_rig_that_parks_or_holds_is_limp_at_the_end_of_its_first_hour():
    table = {"name": "one", "servo": [{"name": "a", "joint": "a", "id": 1}],
             "safety": {"on_exit": "park", "park": {"a": 0.1}, "stale_command_ms": 200}}  # fmt: skip
    safety = calm(Rig.model_validate(table)).safety
    assert (safety.on_exit, safety.stale_command_ms) == ("limp", 200)


def test_a_servo_that_is_missing_and_one_that_is_weak_are_found_together(line):
    line.tables[1][14:16] = line.tables[1][34:36] = (200).to_bytes(2, "little")
    servos = [{"name": f"joint{id_}", "joint": f"j{id_}", "id": id_} for id_ in (1, 2, 7)]
    rig = Rig.model_validate({"name": "three", "servo": servos})
    lines = [ExpectedBus(line.port, 1_000_000, tuple(Expected(servo.name, servo.id, AX) for servo in rig.servos))]
    found = look_at_servos(rig, lines)
    kinds = {(finding.id, finding.kind) for finding in found.findings}
    assert {(1, "torque"), (7, "missing")} <= kinds
    assert found.lines[0] == "2 of 3 servos of the rig are there"
