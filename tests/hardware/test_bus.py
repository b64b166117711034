"""The bus on copper: `pytest tests/hardware --port /dev/ttyUSB0`, and `--manual` with a hand on the cable.

Nothing moves: torque comes on where a servo is. Changed registers get their value back.
"""

import contextlib
import time

import pytest

from axbridge.bus.commission import apply_registers, read_register
from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.diagnose import diagnose
from axbridge.bus.handshake import Expected, handshake, is_shared, profile_for
from axbridge.bus.protocols.protocol import FIRST
from axbridge.bus.scan import scan
from axbridge.bus.serial import SerialBus
from axbridge.bus.stats import percentile, wire_time
from axbridge.cli.app import run
from axbridge.robot.safety.net import Safety
from tests.support import ends

pytestmark = pytest.mark.hardware


@pytest.fixture
def bus(hardware_port):
    with SerialBus(hardware_port) as made:
        yield made


@pytest.fixture(scope="module")
def scanned(hardware_port):
    with SerialBus(hardware_port) as bus:
        servos = scan(bus)
    assert servos, "no servo answered at 1 Mbps"
    return servos


@pytest.fixture
def first(scanned):
    """A servo to try things on, and its profile."""
    return scanned[0].id, profile_for(scanned[0].model, scanned[0].firmware)


@pytest.fixture
def free(scanned):
    """An id that no servo has."""
    return next(id_ for id_ in range(253) if id_ not in {servo.id for servo in scanned})


# -- reading ---------------------------------------------------------------------------------------------------------


def test_every_servo_tells_its_model(scanned):
    assert all(servo.model is not None for servo in scanned)


def test_the_handshake_has_nothing_fatal_to_say(bus, scanned):
    expected = [Expected("", servo.id, profile_for(servo.model)) for servo in scanned]
    assert not [finding for finding in handshake(bus, expected) if finding.fatal]


def test_no_id_is_shared(bus, scanned):
    assert not [servo.id for servo in scanned if is_shared(bus, servo.id)]


def test_no_answer_is_lost_in_a_thousand_reads(bus):
    report = diagnose(bus, packets=1000)
    assert max(report.facts["loss"].values()) <= 0.001


def test_a_read_costs_the_processor_less_than_it_takes_the_wire(bus, first):
    requests = [(first[0], 36, 8)] * 100
    bus.read_many(requests)
    used = time.thread_time()
    bus.read_many(requests)
    assert (time.thread_time() - used) / len(requests) < (8 + 14) * 10e-6


def test_reading_keeps_half_of_the_wire_limit(bus, scanned):
    cycle = Cycle(bus, [CycleServo(str(servo.id), servo.id) for servo in scanned])
    spent = [cycle.receive().spent for _ in range(200)]
    delays = [bus.read(servo.id, 5, 1).data[0] * 3.16e-6 for servo in scanned]  # s; 0 is quicker
    assert (wire_time([FIRST] * len(scanned)) + sum(delays)) / percentile(spent, 0.5) > 0.5


# -- EEPROM ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def kept(bus, id, profile, *names):
    """Registers that get their value back."""
    before = {name: read_register(bus, id, profile.register(name)) for name in names}
    try:
        yield before
    finally:
        errors = apply_registers(bus, id, profile, before)
        assert not errors


def test_the_same_setup_twice_writes_no_eeprom_the_second_time(bus, first):
    id_, profile = first
    with kept(bus, id_, profile, "return_delay_time", "status_return_level", "temperature_limit") as before:
        setup = {**before, "return_delay_time": 2}
        apply_registers(bus, id_, profile, setup)
        written = bus.eeprom_writes
        assert apply_registers(bus, id_, profile, setup) == {}
        assert bus.eeprom_writes == written


def test_an_id_is_changed_and_given_back_and_none_is_given_twice(hardware_port, scanned, first, free, capsys):
    port = ["--port", hardware_port]
    assert run(["servo", "set-id", str(first[0]), str(free), *port]) == 0
    assert run(["servo", "set-id", str(free), str(first[0]), *port]) == 0
    if len(scanned) > 1:
        assert run(["servo", "set-id", str(first[0]), str(scanned[1].id), *port]) == 3
        assert "taken" in capsys.readouterr().err


# -- ends ------------------------------------------------------------------------------------------------------------

ONE = """
name = "one"
[[servo]]
name = "servo"
joint = "servo"
id = {}
"""


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "SIGINT", "exception"])
def test_every_end_of_a_program_leaves_the_torque_off(hardware_port, first, tmp_path, how):
    rig = tmp_path / "one.toml"
    rig.write_text(ONE.format(first[0]))
    ended = ends.end(ends.Line(str(rig), hardware_port), "robot that is stepped only", how, step_ms=8, moment=0.5)
    assert not ended.wrong


def test_an_adapter_that_is_pulled_and_put_back_does_not_end_the_loop(request, bus, first, capsys):
    if not request.config.getoption("--manual"):
        pytest.skip("needs a hand on the cable: give --manual")
    cycle = Cycle(bus, [CycleServo("servo", first[0])])
    here = cycle.receive().states["servo"].position

    seen = set()

    def run_until(kind, what_to_do):
        with capsys.disabled():
            print(f"\n{what_to_do} (within 30 s)")
        end = time.monotonic() + 30
        while time.monotonic() < end:
            watched.feed()
            result = cycle.exchange({"servo": Goal(here, 100)})
            seen.update(event.kind for event in result.events)
            if kind in seen:
                return
            time.sleep(0.02)
        raise AssertionError(f"no event {kind!r}")

    with Safety([cycle]) as watched:
        run_until("port lost", f"pull the adapter out of {bus.port_name}")
        run_until("port back", "put it back")
        run_until("returned", "wait")
    assert bus.read(first[0], 24, 1).data == b"\0"
