"""What a line loses, told of the servo that loses it, or of the line."""

import pytest

from axbridge.bus.diagnose import grouped, look_at_loss, ranges
from axbridge.bus.handshake import Finding
from axbridge.bus.serial import SerialBus
from axbridge.config.instructions import Instruction
from tests.support.pty_line import PtyLine

SERVOS = {id_: f"joint{id_} (id {id_})" for id_ in (1, 2, 3, 4)}


def losses(mishap, packets=120):
    """What is found on a line where this becomes of the answer to a read; and the facts."""
    facts = {}
    with PtyLine(tuple(SERVOS), mishap=mishap) as line, SerialBus(line.port) as bus:
        found = look_at_loss(bus, SERVOS, packets, facts)
        assert bus.port_name == line.port
    return found, facts


class Every:
    """Lets something become of every n-th answer of some servos."""

    def __init__(self, n, ids, fate="drop"):
        self.n, self.ids, self.fate, self.counts = n, ids, fate, dict.fromkeys(ids, 0)

    def __call__(self, packet):
        if packet.code != Instruction.READ or packet.id not in self.ids:
            return "ok"
        self.counts[packet.id] += 1
        return self.fate if self.counts[packet.id] % self.n == 0 else "ok"


@pytest.mark.slow
def test_a_line_that_loses_of_every_servo_is_one_finding():
    (found,), facts = losses(Every(10, SERVOS))
    assert found.id is None
    assert found.problem.startswith("lost 12 of 120 answers (10.0%), of 4 of 4 servos; most of joint")
    assert facts["wrong"] == 0


@pytest.mark.slow
def test_a_servo_that_loses_alone_is_named():
    (found,), facts = losses(Every(10, [3]))
    assert (found.subject, found.problem) == ("joint3 (id 3)", "lost 3 of 30 answers")
    assert facts["loss"][3] == pytest.approx(0.1)


@pytest.mark.slow
def test_one_answer_that_a_busy_computer_missed_is_no_finding():
    found, facts = losses(Every(20, [3]))
    assert found == []
    assert facts["loss"][3] > 0


@pytest.mark.slow
def test_an_intact_answer_that_says_something_else_than_before_is_fatal():
    with PtyLine(tuple(SERVOS)) as line, SerialBus(line.port) as bus:

        def change(packet):
            if packet.id == 2:
                line.tables[2][5] += 1
            return "ok"

        line.mishap = change
        found = look_at_loss(bus, SERVOS, 40, {})
    assert [one.kind for one in found] == ["wrong"]
    assert found[0].fatal


def test_what_servos_have_in_common_is_told_once():
    def slow(id_):
        return Finding(f"servo {id_}", "waits", f"axbridge servo write {id_} return_delay_time 0", False, "slow", id_)

    assert grouped([slow(1)]) == [("servo 1", "waits", "axbridge servo write 1 return_delay_time 0")]
    assert grouped([slow(id_) for id_ in (1, 2, 3, 4, 6)]) == [
        ("servos 1-4, 6", "waits", "for id in 1 2 3 4 6; do axbridge servo write $id return_delay_time 0; done")
    ]
    assert ranges([]) == ""
