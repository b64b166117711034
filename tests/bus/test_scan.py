import time
from collections import Counter

import pytest

from axbridge.bus.diagnose import check_loss
from axbridge.bus.scan import FoundServo, all_bauds, scan, scan_bauds
from axbridge.bus.serial import SerialBus
from axbridge.config.registers import UNITS, Instruction
from axbridge.errors import PortError
from axbridge.units import nearest_baud
from tests.support.pty_line import PtyLine


@pytest.mark.parametrize("echo", [False, True])
def test_a_scan_finds_exactly_the_servos_and_waits_less_for_absent_ones_than_the_sdk(echo):
    with PtyLine((0, 1, 18, 253), echo=echo) as line, SerialBus(line.port) as bus:
        started = time.monotonic()
        assert scan(bus) == [FoundServo(id_, 12, 24) for id_ in (0, 1, 18, 253)]
        assert time.monotonic() - started < 253 * 0.034 / 2  # the SDK: 34 ms an id; 1.2 s here, more on a busy machine


def lost_once():
    fates = iter(["drop"])
    return lambda _: next(fates, "ok")


@pytest.mark.parametrize(
    ("mishap", "expected"),
    [
        (None, [(1, 12), (2, 12)]),
        (lambda _: 0.003, [(1, 12), (2, 12)]),  # s: an adapter delays the reply
        (lambda packet: "ok" if packet.code == 1 else "corrupt", [(1, None), (2, None)]),
        (lambda packet: "corrupt" if packet.id == 1 else "ok", [(1, None), (2, 12)]),
        (lambda _: "junk", [(1, 12), (2, 12)]),
    ],
    ids=["one lost", "late", "reads damaged", "all of one damaged", "noise"],
)
def test_no_fault_hides_a_servo_adds_one_or_causes_more_pings_to_other_ids(mishap, expected):
    with PtyLine((1, 2), mishap=mishap or lost_once()) as line, SerialBus(line.port) as bus:
        bus.latency = 0.05  # a busy machine may keep the responder waiting
        assert [(servo.id, servo.model) for servo in scan(bus, range(5))] == expected
        assert Counter(packet[0] for packet in line.received if packet[1] == Instruction.PING)[4] == 2  # one a sweep


def test_an_alarm_of_a_servo_is_not_mistaken_for_an_echo():
    with PtyLine((1,), echo=True) as line, SerialBus(line.port) as bus:
        line.errors[1] = 1  # input voltage: the answer to a ping looks like the ping itself
        assert [servo.id for servo in scan(bus, range(4))] == [1]


SERVOS = {id_: f"joint{id_} (id {id_})" for id_ in (1, 2, 3, 4)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "ids", "expected"),
    [
        (10, SERVOS, [(None, "lost 12 of 120 answers (10.0%), of 4 of 4 servos; most of joint")]),
        (10, [3], [(3, "lost 3 of 30 answers")]),
        (20, [3], []),  # a busy computer may lose one reply
    ],
    ids=["of every servo", "of one", "one answer"],
)
def test_losses_are_reported_for_the_line_or_for_the_servo_with_the_losses(n, ids, expected):
    facts, reads = {}, Counter()

    def lose(packet):
        """Drop every n-th reply of these ids."""
        reads[packet.id] += packet.code == Instruction.READ and packet.id in ids
        return "ok" if reads[packet.id] % n or not reads[packet.id] else "drop"

    with PtyLine(tuple(SERVOS), mishap=lose) as line, SerialBus(line.port) as bus:
        findings = check_loss(bus, SERVOS, 120, facts)
    assert [finding.id for finding in findings] == [id_ for id_, _ in expected]
    assert all(finding.problem.startswith(words) for finding, (_, words) in zip(findings, expected, strict=True))
    assert (facts["wrong"], facts["loss"][3] > 0) == (0, True)


@pytest.mark.slow
def test_an_intact_reply_with_another_value_than_before_is_fatal():
    with PtyLine(tuple(SERVOS)) as line, SerialBus(line.port) as bus:

        def change(packet):
            line.tables[2][5] += packet.id == 2
            return "ok"

        line.mishap = change
        (finding,) = check_loss(bus, SERVOS, 40, {})
    assert (finding.kind, finding.fatal) == ("wrong", True)


def test_a_port_that_is_lost_during_the_check_does_not_change_the_latency():
    with PtyLine((1,)) as line, SerialBus(line.port) as bus:
        bus.latency = before = 0.003
        line.unplug()
        with pytest.raises(PortError):
            check_loss(bus, {1: "joint"}, 5, {})
        assert bus.latency == before


@pytest.mark.slow
@pytest.mark.parametrize("rate", [2_000_000, *(pytest.param(rate, marks=pytest.mark.ci) for rate in (153_846, 7_843))])
def test_servos_are_found_at_every_baud_rate_of_their_register(rate):
    with PtyLine((1, 2)) as line, SerialBus(line.port) as bus:
        for servo in line._line.servos:
            servo.baud = rate
        by_baud = scan_bauds(bus, all_bauds(), (1, 2))
    servos_by_baud = {baud: [servo.id for servo in servos] for baud, servos in by_baud.items() if servos}
    assert servos_by_baud
    assert all(abs(baud - rate) <= 0.03 * rate and ids == [1, 2] for baud, ids in servos_by_baud.items())


@pytest.mark.parametrize("profile", ["ax-12a", "sts3215"])
@pytest.mark.parametrize("rate", [115_200, 117_647])
@pytest.mark.parametrize("knows", [True, False])
def test_a_servo_that_answers_at_two_neighbouring_rates_is_listed_once(profile, rate, knows):
    with PtyLine({1: profile}) as line, SerialBus(line.port) as bus:
        servo = line[1]
        if knows:
            line.set(1, baud_rate=servo.profile.units.baud_register(rate))
        servo.baud = rate
        bauds, asked = [1_000_000, 117_647, 115_200], []
        found = scan_bauds(bus, bauds, (1,), asked.append)
        assert (asked, bus.baud) == (bauds, 1_000_000)
    listed = [baud for baud, servos in found.items() if servos]
    assert len(listed) == 1
    if knows:
        own = servo.profile.units.bauds[servo.table["baud_rate"]]
        assert listed == [nearest_baud(own, (117_647, 115_200))]


@pytest.mark.parametrize("units_name", UNITS)
def test_each_baud_rate_of_a_servo_is_near_a_scanned_one(units_name):
    bauds = all_bauds()
    assert all(abs(nearest_baud(rate, bauds) - rate) <= 0.02 * rate for rate in UNITS[units_name].bauds)
