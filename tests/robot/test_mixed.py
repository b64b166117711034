"""A bus with real servos (on a pseudo-terminal) and virtual ones: the replies that its user receives, and when."""

import signal
import time
from contextlib import closing, contextmanager

import pytest

import axbridge
from axbridge.bus.base import Reply
from axbridge.bus.protocols import v2
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.config.registers import Instruction
from axbridge.errors import BusError, RigWarning, SimulationDiverged, UnknownServo, UsageError
from axbridge.motion.gait import Gait
from axbridge.motion.walking import walk
from axbridge.recording.provenance import origin_in_words
from axbridge.robot.mixed import chosen, open_mixed
from axbridge.testing import check_bus
from axbridge.virtual.world import World
from tests.support.pty_line import PtyLine
from tests.support.robot_files import write_rig
from tests.support.virtual_rig import make_rig
from tests.support.waiting import until
from tests.support.warm import Warm, serving

IDS = (1, 2, 3, 4)
REAL = 2, 4
VIRTUAL = ["1", "s3"]
PROFILES = ["ax-12a", "xl330-m288", "sts3215", "scs0009"]


def rig_of(profile, ids=IDS):
    rig = make_rig(ids, profile, return_delay_time=0)
    volts = rig.specs[rig.servos[0].name].profile.electrics.nominal_voltage
    return rig.overridden({"bus": [{"name": "main", "supply_voltage": volts}]})


@contextmanager
def mixed(profile, **line):
    """Return the real servos, the bus of all servos, and the simulated world."""
    rig = rig_of(profile)
    with PtyLine(dict.fromkeys(REAL, profile), **line) as real:
        backend = open_mixed(rig, real.port, VIRTUAL)
        with closing(backend):
            (bus,) = backend.buses.values()
            for id_ in (*IDS, BROADCAST):
                bus.set_protocol(id_, PROTOCOLS[rig.specs[rig.servos[0].name].profile.protocol])
            yield real, bus, backend.world


def asked(protocol, code, ids, address, length):
    """Return the frame of a group read."""
    width, params = protocol.address_size, protocol.read_params(address, length)
    if code in {Instruction.BULK_READ, Instruction.FAST_BULK_READ}:
        entries = [bytes((length, id_, address)) if width == 1 else bytes((id_,)) + params for id_ in ids]
        return protocol.encode(BROADCAST, code, b"\0" * (width == 1) + b"".join(entries))
    return protocol.encode(BROADCAST, code, params + bytes(ids))


def heard(bus, frame, count=1, patience=1.0):
    """Return at most this number of replies, each with its time after the instruction, s."""
    began, decoder, answers = time.monotonic(), bus.protocol(1).decoder(), []
    bus.port.send(frame)
    while len(answers) < count and (data := bus.port.receive(began + patience)):
        answers += [(packet, time.monotonic() - began) for packet in decoder.feed(data)]
    assert all(packet.intact for packet, _ in answers)
    return answers


def read_all(bus, code, *, count=4, patience=1.0):
    """Return the replies to a read of Present Position of all servos in `ORDER`."""
    frame = asked(bus.protocol(1), code, ORDER, *bus.protocol(1).present_position)
    return heard(bus, frame, count, patience)


ORDER = (3, 2, 1, 4)
GROUP_READS = [
    ("mx-28", Instruction.BULK_READ),
    *(("xl330-m288", code) for code in (Instruction.SYNC_READ, Instruction.BULK_READ)),
    ("sts3215", Instruction.SYNC_READ),
]
FAST_READS = Instruction.FAST_SYNC_READ, Instruction.FAST_BULK_READ


@pytest.mark.real_time
@pytest.mark.parametrize(("profile", "code"), GROUP_READS)
def test_a_read_of_several_is_split_and_answered_in_the_order_asked(profile, code):
    with mixed(profile) as (real, bus, world):
        protocol, zero = bus.protocol(1), world.servos["s1"].zero
        for id_, count in ((2, 300), (4, 400)):
            real.set(id_, present_position=count)
        answers = read_all(bus, code)
        counts = [(packet.id, protocol.number(packet.params[:2])) for packet, _ in answers]
        assert counts == [(3, zero), (2, 300), (1, zero), (4, 400)]
        of_the_real = asked(protocol, code, (2, 4), *protocol.present_position)
        assert [packet.params for packet in protocol.decoder().feed(of_the_real)] == [real.received[-1][2]]


@pytest.mark.real_time
@pytest.mark.parametrize("code", FAST_READS)
def test_a_fast_read_has_one_answer_of_all(code):
    with mixed("xl330-m288") as (real, bus, _):
        real.set(2, present_position=300)
        ((packet, _),) = read_all(bus, code, count=1)
        blocks = v2.fast_blocks(packet, [4] * 4)
        assert [(block.id, int.from_bytes(block.params, "little")) for block in blocks] == [
            (3, 2048), (2, 300), (1, 2048), (4, 2048),
        ]  # fmt: skip
        real.deaf.add(4)
        assert read_all(bus, code, count=1, patience=0.1) == []


@pytest.mark.real_time
@pytest.mark.parametrize(("profile", "code"), GROUP_READS[::3])
def test_in_a_group_read_a_late_real_servo_delays_later_ones_and_a_missing_one_ends_it(profile, code):
    with mixed(profile, mishap=lambda packet: 0.03 if packet.code == code else "ok") as (real, bus, _):
        answers = read_all(bus, code)
        assert [packet.id for packet, _ in answers] == list(ORDER)
        assert min(when for packet, when in answers if packet.id != 3) > 0.03
        real.deaf.add(2)
        assert [packet.id for packet, _ in read_all(bus, code, patience=0.1)] == [3]


@pytest.mark.real_time
@pytest.mark.parametrize("profile", ["xl330-m288", "sts3215"])
def test_a_broadcast_ping_is_answered_in_order_of_ids_without_waiting_for_a_missing_servo(profile):
    with mixed(profile) as (real, bus, _):
        ping = bus.protocol(1).encode(BROADCAST, Instruction.PING)
        assert [packet.id for packet, _ in heard(bus, ping, 4)] == [1, 2, 3, 4]
        real.deaf.add(2)
        assert [packet.id for packet, _ in heard(bus, ping, 3)] == [1, 3, 4]


@pytest.mark.real_time
def test_replies_take_the_time_of_their_bytes_and_return_delays():
    with mixed("mx-28") as (_, bus, world):
        for servo in world.servos.values():
            servo.table["return_delay_time"] = 250  # 0.5 ms
            servo.configure()
        bus.set_baud(57_600)
        for servo in world.servos.values():
            servo.table["baud_rate"] = 34
            servo.configure()
        frame = asked(bus.protocol(1), Instruction.BULK_READ, (3, 1), 36, 2)
        (_, first), (_, second) = heard(bus, frame, 2)
        byte = 10 / 57_600
        assert first > (len(frame) + 8) * byte + 0.5e-3
        assert second > (len(frame) + 16) * byte + 1e-3


@pytest.mark.real_time
@pytest.mark.parametrize("profile", PROFILES)
def test_writes_to_all_reach_both_kinds(profile):
    with mixed(profile) as (real, bus, _):
        place = bus.protocol(1).torque_enable + 1
        bus.write(BROADCAST, place, b"\1")
        bus.sync_write(place, {2: b"\0", 3: b"\0"})
        assert [bus.read(id_, place, 1).data[0] for id_ in IDS] == [1, 0, 0, 1]
        for id_ in IDS:
            bus.reg_write(id_, place, b"\1" if id_ in {2, 3} else b"\0")
        bus.action()
        assert [bus.read(id_, place, 1).data[0] for id_ in IDS] == [0, 1, 1, 0]
        assert [real[id_].table.data[place] for id_ in REAL] == [1, 0]


@pytest.mark.real_time
def test_packets_for_virtual_servos_stay_off_the_real_line():
    with mixed("ax-12a") as (real, bus, _):
        count = len(real.received)
        assert isinstance(bus.write(1, 25, b"\1"), Reply)
        assert [id_ for id_, *_ in real.received[count:]] == []


@pytest.mark.real_time
@pytest.mark.parametrize("profile", PROFILES)
def test_joints_of_real_servos_are_where_those_measure_in_the_simulated_world(profile):
    with mixed(profile) as (real, bus, world):
        units = real[2].profile.units
        real.set(2, present_position=units.counts // 4)
        bus.read_many([(id_, *bus.protocol(1).present_position) for id_ in IDS])
        (angle, _), *_ = world.truths(["s2"], [world.now()]).tolist()
        assert angle == pytest.approx((units.counts // 4 - world.servos["s2"].zero) * units.position, abs=0.02)


@pytest.mark.real_time
def test_a_late_reply_of_a_double_does_not_disturb_the_next_read():
    with mixed("ax-12a") as (_, bus, world):
        world.servos["s2"].table["return_delay_time"] = 250
        world.servos["s2"].configure()
        answers = bus.read_many([(2, 3, 1), (1, 3, 1)] * 10)
        assert [answer.data[0] for answer in answers] == [2, 1] * 10


@pytest.mark.real_time
def test_an_echoing_adapter_works():
    with mixed("ax-12a", echo=True) as (_, bus, _):
        bus.sync_write(25, {2: b"\1", 3: b"\1"})
        assert [answer.data[0] for answer in bus.read_many([(id_, 3, 1) for id_ in IDS])] == list(IDS)


@pytest.mark.ci
@pytest.mark.real_time
@pytest.mark.parametrize("id_", [1, 2])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_mixed_line_keeps_the_contract_of_a_bus(profile, id_):
    rig = rig_of(profile)

    def opened():
        (bus,) = open_mixed(rig, real.port, VIRTUAL).buses.values()
        bus.set_protocol(id_, real[2].protocol)
        return bus

    with PtyLine(dict.fromkeys(REAL, profile)) as real:
        assert len(check_bus(opened, id=id_)) >= 13


def test_an_id_that_answers_on_both_sides_is_refused():
    with PtyLine((1, 2)) as real, pytest.raises(BusError, match="a real servo has id 1 of s1, which is to be virtual"):
        open_mixed(rig_of("ax-12a"), real.port, VIRTUAL)


@pytest.mark.parametrize(
    ("patterns", "names"),
    [(["s*[13]"], "s1 s3"), (["2-3"], "s2 s3"), (["4", "s1"], "s1 s4"), ((), "")],
)
def test_virtual_servos_are_chosen_by_names_and_ids(patterns, names):
    assert [servo.name for servo in chosen(rig_of("ax-12a"), patterns)] == names.split()


@pytest.mark.parametrize(
    ("kind", "words", "options"),
    [
        (UnknownServo, r"no servo 'left_\*' that could be virtual.*s1 \(1\), s2", {"virtual": "left_*"}),
        (UsageError, "all servos of bus 'main' are virtual", {"virtual": ["1-2", "s?"]}),
        (UsageError, "need the real backend, not twin", {"virtual": ["s1"], "backend": "twin"}),
    ],
)
def test_an_impossible_choice_of_virtual_servos_is_refused(kind, words, options):
    with pytest.raises(kind) as refused:
        axbridge.open(rig_of("ax-12a"), **{"backend": "real", "port": "/dev/none", **options})
    assert refused.match(f"(?s){words}")


def test_without_numba_a_warning_says_why_virtual_servos_may_be_silent(monkeypatch):
    monkeypatch.setattr("axbridge.robot.mixed.COMPILED", False)
    monkeypatch.setattr("axbridge.robot.mixed._refuse_slow", lambda _: None)  # of a busy machine
    with pytest.warns(RigWarning, match=r"axbridge\[fast\]"), pytest.raises(BusError, match="no such port"):
        open_mixed(axbridge.Rig.load("pan_tilt"), "/dev/unheard_of", ["2"])


def test_without_numba_a_world_slower_than_real_time_is_refused_at_once(monkeypatch):
    monkeypatch.setattr("axbridge.robot.mixed.COMPILED", False)
    advance = World.sleep_until

    def late(world, until):
        time.sleep(1.5 * (until - world.now()))
        advance(world, until)

    monkeypatch.setattr(World, "sleep_until", late)
    with pytest.raises(UsageError, match="virtual servos would never answer") as caught:
        open_mixed(axbridge.Rig.load("pan_tilt"), "/dev/unheard_of", ["2"])
    assert "close other programs" in str(caught.value)


@pytest.fixture
def driven(tmp_path):
    """Return real servos and a robot whose servos all have a goal; the real motors must be off after the test."""
    with PtyLine(REAL, link=tmp_path / "line") as real:
        with axbridge.open(rig_of("ax-12a"), port=real.port, virtual=VIRTUAL) as robot:
            for servo in robot.values():
                servo.set_position(0.05)
            robot.step()
            yield real, robot
        assert real.powered == []


@pytest.mark.real_time
def test_the_origin_names_the_virtual_servos_and_all_servos_get_torque(driven):
    real, robot = driven
    assert robot.origin == {"backend": "real", "engine": "pendulums", "virtual": "s1, s3"}
    assert origin_in_words(robot.origin) == "real servos, and simulated ones (pendulums): s1, s3"
    assert real.powered == list(REAL)
    assert all(servo.torque_enabled for servo in robot.values())
    assert robot.last_step.errors == {}


@pytest.mark.real_time
def test_a_mixed_line_is_lost_with_its_port_and_comes_back_with_it(driven):
    real, robot = driven
    real.unplug()
    with pytest.warns(axbridge.ControlWarning, match="the port was lost"):
        robot.step()
    assert robot.last_step.errors.keys() == {"s1", "s2", "s3", "s4"}
    real.replug()
    until(lambda: robot.step() >= 0 and not robot.last_step.errors)
    assert real.powered == list(REAL)


@pytest.mark.real_time
def test_a_real_servo_without_replies_is_the_only_one_missing(driven):
    real, robot = driven
    real.deaf.add(2)
    robot.step()
    assert robot.last_step.errors.keys() == {"s2"}
    real.deaf.clear()
    until(lambda: robot.step() >= 0 and not robot.last_step.errors)


@pytest.mark.real_time
@pytest.mark.parametrize("fault", ["overload:2", "stuck:4:1s", "drop#1:read:2"])
def test_a_fault_of_a_real_servo_is_refused_and_one_of_a_virtual_servo_acts(driven, fault):
    _, robot = driven
    with pytest.raises(UsageError, match=r"that servo is real, and only virtual servos have faults\nthere are 1, 3"):
        robot.simulation.inject(f"overload:1,{fault}")
    robot.step()
    assert not robot.withheld
    robot.simulation.inject("overload:1")
    with pytest.warns(axbridge.ControlWarning, match="s1"):
        until(lambda: robot.step() >= 0 and robot.withheld == {"s1"})


_HOLDS = """
import sys, time, axbridge
robot = axbridge.open(sys.argv[1], port=sys.argv[2], virtual=["1", "s3"])
for servo in robot.values():
    servo.set_position(0.0)
robot.step()
print("on", flush=True)
time.sleep(600)
"""


@pytest.mark.real_time
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.ci)])
def test_real_motors_are_off_when_the_program_with_the_virtual_ones_is_gone(number, tmp_path):
    rig = write_rig(rig_of("ax-12a"), tmp_path / "rig.toml")
    with PtyLine(REAL) as real, Warm("-c", _HOLDS, rig, real.port) as program:
        assert program.stdout.readline() == "on\n", program.communicate()[1]
        assert real.powered == list(REAL)
        program.send_signal(number)
        until(lambda: not real.powered)
        assert "still be powered" not in program.communicate()[1]


@pytest.mark.real_time
def test_a_simulation_error_stops_only_the_virtual_servos(driven, monkeypatch):
    real, robot = driven

    def fail(_):
        raise SimulationDiverged("j1", 0.0)

    monkeypatch.setattr(robot.simulation.world, "sleep_until", fail)
    robot.step()
    assert robot.last_step.errors.keys() == {"s1", "s3"}
    assert real.powered == list(REAL)


@pytest.mark.ci
@pytest.mark.real_time
def test_a_bioloid_walks_with_one_real_servo(tmp_path):
    (tmp_path / "one.toml").write_text(
        'name = "one"\n[[bus]]\nname = "main"\n[[servo]]\nname = "left_elbow"\njoint = "left_elbow"\nid = 6\nzero = 512\n'
    )
    with (
        serving(tmp_path / "one.toml") as port,
        axbridge.open("bioloid", backend="real", port=port, virtual=["1-5", "7-18"]) as robot,
    ):
        outcome = walk(robot, Gait(steps=2))
        assert outcome.fell is False
        assert outcome.distance > 0.5 * outcome.planned
        truth = robot.simulation.truth("left_elbow").position
        assert abs(truth) == pytest.approx(abs(robot["left_elbow"].position), abs=0.03)
