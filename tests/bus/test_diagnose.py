"""What a line loses, told of the servo that loses it, or of the line."""

import pytest

from axbridge.bus.diagnose import look_at_loss
from axbridge.bus.serial import SerialBus
from axbridge.config.registers import Instruction
from tests.support.pty_line import PtyLine

SERVOS = {id_: f"joint{id_} (id {id_})" for id_ in (1, 2, 3, 4)}


class Every:
    """Lets every n-th answer of some servos be lost."""

    def __init__(self, n, ids):
        self.n, self.counts = n, dict.fromkeys(ids, 0)

    def __call__(self, packet):
        if packet.code != Instruction.READ or packet.id not in self.counts:
            return "ok"
        self.counts[packet.id] += 1
        return "drop" if self.counts[packet.id] % self.n == 0 else "ok"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "ids", "found"),
    [
        (10, SERVOS, [(None, "lost 12 of 120 answers (10.0%), of 4 of 4 servos; most of joint")]),
        (10, [3], [(3, "lost 3 of 30 answers")]),
        (20, [3], []),  # one that a busy computer missed
    ],
    ids=["of every servo", "of one", "one answer"],
)
def test_what_a_line_loses_is_said_of_the_line_or_of_the_servo_that_loses_it(n, ids, found):
    facts = {}
    with PtyLine(tuple(SERVOS), mishap=Every(n, ids)) as line, SerialBus(line.port) as bus:
        findings = look_at_loss(bus, SERVOS, 120, facts)
    assert [one.id for one in findings] == [id_ for id_, _ in found]
    assert all(one.problem.startswith(words) for one, (_, words) in zip(findings, found, strict=True))
    assert (facts["wrong"], facts["loss"][3] > 0) == (0, True)


@pytest.mark.slow
def test_an_intact_answer_that_says_something_else_than_before_is_fatal():
    with PtyLine(tuple(SERVOS)) as line, SerialBus(line.port) as bus:

        def change(packet):
            line.tables[2][5] += packet.id == 2
            return "ok"

        line.mishap = change
        (found,) = look_at_loss(bus, SERVOS, 40, {})
    assert (found.kind, found.fatal) == ("wrong", True)
