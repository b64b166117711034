"""The bus on copper: reads only, nothing moves. `pytest tests/hardware --port /dev/ttyUSB0`."""

import pytest

from axbridge.bus.cycle import Cycle, CycleServo
from axbridge.bus.diagnose import diagnose
from axbridge.bus.handshake import Expected, handshake, profile_for
from axbridge.bus.scan import scan
from axbridge.bus.serial import SerialBus
from axbridge.bus.stats import percentile, wire_time

pytestmark = pytest.mark.hardware


@pytest.fixture(scope="module")
def bus(request):
    port = request.config.getoption("--port")
    if not port:
        pytest.skip("needs real servos: give --port")
    with SerialBus(port) as made:
        yield made


@pytest.fixture(scope="module")
def found(bus):
    servos = scan(bus)
    assert servos, "no servo answered at 1 Mbps"
    return servos


def test_every_servo_tells_its_model(found):
    assert all(servo.model is not None for servo in found)


def test_the_handshake_has_nothing_fatal_to_say(bus, found):
    expected = [Expected("", servo.id, profile_for(servo.model)) for servo in found]
    assert not [finding for finding in handshake(bus, expected) if finding.fatal]


def test_no_answer_is_lost_in_a_thousand_reads(bus, found):
    report = diagnose(bus, packets=1000)
    assert max(report.facts["loss"].values()) <= 0.001


def test_reading_keeps_half_of_the_wire_limit(bus, found):
    cycle = Cycle(bus, [CycleServo(str(servo.id), servo.id) for servo in found])
    spent = [cycle.receive().spent for _ in range(200)]
    assert wire_time(len(found)) / percentile(spent, 0.5) > 0.5


def test_a_missing_servo_does_not_disturb_the_others(bus, found):
    absent = next(id_ for id_ in range(253) if id_ not in {servo.id for servo in found})
    servos = [CycleServo(str(servo.id), servo.id) for servo in found]
    cycle = Cycle(bus, [CycleServo("absent", absent), *servos])
    for _ in range(20):
        result = cycle.receive()
    assert set(result.states) == {servo.name for servo in servos}
    assert set(result.faults) == {"absent"}
