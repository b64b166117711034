import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axbridge.bus.base import Reply
from axbridge.errors import BusTimeout, CorruptPacket, ErrorFlag, PortError, UsageError
from axbridge.servo.columns import State
from axbridge.virtual.bus import VirtualBus
from axbridge.virtual.faults import FAULTS, Fault, parse_faults
from tests.support.virtual_rig import make_world


def test_the_spec_of_the_manual():
    spec = "drop=0.01,late=0.01:40ms,echo,brownout@2s,overload:3@4s, unplug:500ms@1.5, stuck:7:2s"
    assert parse_faults(spec) == (
        Fault("drop", 0.01),
        Fault("late", 0.01, duration=0.04),
        Fault("echo", 1.0),
        Fault("brownout", at=2.0),
        Fault("overload", id=3, at=4.0),
        Fault("unplug", duration=0.5, at=1.5),
        Fault("stuck", id=7, duration=2.0),
    )


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ("dorp=0.1", "drop"),
        ("drop", "SHARE"),
        ("drop=2", "0 to 1"),
        ("drop=0.1:5ms", "SHARE"),
        ("overload", "ID"),
        ("overload:900", "253"),
        ("overload:3:4", "overload"),
        ("brownout@soon", "soon"),
        ("unplug@", "unplug"),
        ("echo=2", "echo"),
        ("lightning", "choose"),
    ],
)
def test_an_error_names_the_wrong_item_and_the_remedy(spec, word):
    with pytest.raises(UsageError) as raised:
        parse_faults(f"drop=0.1,{spec}")
    assert repr(spec) in str(raised.value)
    assert word in str(raised.value)


@given(st.text(alphabet="dropechnlatui=:@.,0123456789ms", max_size=20))
def test_any_text_is_parsed_or_refused_with_a_message(text):
    try:
        faults = parse_faults(text)
    except UsageError:
        return
    assert all(fault.kind in {*FAULTS, "none"} for fault in faults)


@pytest.fixture
def world():
    return make_world()


@pytest.fixture
def bus(world):
    return VirtualBus(world)


def outcomes(spec, count=400):
    world = make_world(return_delay_time=0)
    bus = VirtualBus(world)
    world.inject(spec)
    answers = [bus.read_many([(1, 36, 2)])[0] for _ in range(count)]  # one READ each
    return [answer.data if isinstance(answer, Reply) else type(answer) for answer in answers]


@pytest.mark.parametrize("kind", ["drop", "corrupt", "truncate", "late", "duplicate", "noise", "echo"])
def test_a_fault_strikes_its_share_of_packets_and_gives_no_wrong_value(kind):
    seen = outcomes("echo" if kind == "echo" else f"{kind}=0.1")
    hurt = sum(outcome in {BusTimeout, CorruptPacket} for outcome in seen) / len(seen)
    assert 0.02 < hurt < 0.6 if kind in {"drop", "corrupt", "truncate", "late"} else hurt < 0.2
    assert {outcome for outcome in seen if isinstance(outcome, bytes)} == {b"\x00\x02"}


def test_the_same_seed_gives_the_same_mishaps():
    assert outcomes("drop=0.2,corrupt=0.2") == outcomes("drop=0.2,corrupt=0.2")


def test_a_late_reply_does_not_answer_the_next_packet(world, bus):
    world.inject("late=1:4ms")
    with pytest.raises(BusTimeout):
        bus.ping(1)
    world.inject("none")
    world.sleep_until(world.now() + 0.01)
    assert bus.write(1, 30, b"\xa0\x0f").error == ErrorFlag.RANGE  # the goal is refused


def test_unplug_and_replug(world, bus):
    world.inject("unplug:100ms#2")
    bus.ping(1)
    with pytest.raises(PortError):
        bus.ping(1)
    with pytest.raises(PortError):
        bus.reopen()
    world.sleep_until(0.2)
    bus.reopen()
    assert bus.ping(1).error == 0


@pytest.mark.parametrize("beyond", [-16, 16])
def test_a_stuck_servo_pushes_by_its_compliance_law(world, bus, beyond):
    world.inject("stuck:1")
    goal = 512 + beyond + (1 if beyond > 0 else -1)  # 16 counts beyond the margin of 1: half of the slope of 32
    bus.write(1, 30, goal.to_bytes(2, "little"))
    world.sleep_until(0.3)
    half_way = 32 / 1023 + (1 - 32 / 1023) * 16 / 32  # half-way from the punch to full duty
    assert world.bank.state[0, State.DUTY] == pytest.approx(math.copysign(half_way, beyond), abs=1e-9)


def test_a_stuck_potentiometer_reads_the_same_while_the_shaft_moves(world, bus):
    world.inject("stuck:1:1s")
    world.sleep_until(0.05)
    bus.write(1, 30, b"\xff\x03")
    world.sleep_until(0.5)
    assert bus.read(1, 36, 2).data == b"\x00\x02"
    assert world.bank.state[0, State.ANGLE] > 2.6  # its own loop never reaches the goal, and drives on
    world.sleep_until(1.5)
    assert bus.read(1, 36, 2).data != b"\x00\x02"


def test_every_fault_is_parsed_as_in_the_docs_and_ends():
    for name, kind in FAULTS.items():
        (fault,) = parse_faults(kind.example.replace(":3", ":1"))
        assert fault.kind == name
        world = make_world()
        world.inject(f"{name}{'=1' * (kind.form == 'rate')}{':1' * kind.of_servo}")
        world.sleep_until(0.05)
        world.inject("none")
        world.sleep_until(0.3)  # a servo that was without power restarts
        world.inject("none")
        alarms = ErrorFlag.OVERLOAD if name == "overload" else 0  # it lasts until the host writes a torque limit
        assert VirtualBus(world).ping(1).error == alarms, name


def test_the_table_of_the_docs_has_the_faults():
    page = (Path(__file__).parents[2] / "docs" / "virtual-bus.md").read_text(encoding="utf-8")
    assert all(f"| `{kind.example}` | {kind.says} |\n" in page for kind in FAULTS.values())
