"""The verbs for hardware on a simulated line: output, exit codes and errors on bad input."""

import json
import os
import re
import signal
from itertools import pairwise

import pytest

import axbridge
from axbridge import BusError
from axbridge.bus.cycle import CycleServo
from axbridge.bus.diagnose import diagnose
from axbridge.bus.port_name import Adapter
from axbridge.bus.scan import scan
from axbridge.bus.serial import SerialBus
from axbridge.cli.app import HARDWARE, MISUSE, run
from axbridge.cli.doctor import wrapped
from axbridge.cli.monitor import _Line
from axbridge.config.registers import Address, Instruction
from axbridge.config.rig import Rig
from axbridge.config.rig_edit import copy_rig
from axbridge.errors import ErrorFlag
from tests.support.hand import led
from tests.support.pty_line import READ, PtyLine
from tests.support.robot_files import write_comb
from tests.support.waiting import until
from tests.support.warm import run as typed
from tests.support.warm import serving, start

pytestmark = pytest.mark.slow

BUSY = {"loss", "rate"}  # kinds of findings that a busy machine causes


@pytest.fixture
def line(quick_doctor):
    with PtyLine((1, 2)) as made:
        yield made


@pytest.mark.parametrize("arguments", [("info", "1"), ("read", "1", "led"), ("set-id", "1", "5")])
def test_a_servo_that_refuses_every_read_is_reported_with_its_error(line, on_line, arguments):
    line.mishap = lambda _: ErrorFlag.RANGE
    assert "servo 1 reports range" in on_line("servo", *arguments, code=3)


def test_doctor_reports_no_fault_of_a_healthy_line_and_switches_no_motor_on(line, capsys):
    assert 0 in (run(["doctor", "--port", line.port]) for _ in range(5))  # a busy machine may reduce the rate
    assert capsys.readouterr().out.endswith("nothing to repair\n")
    assert not any(table[24] for table in line.tables.values())
    assert not any(code in {3, 4, 5, 0x83} for _, code, _, _ in line.received)


def diagnosed(said, port, *words):
    """Return the doctor's findings on a port, and the rest of its report."""
    (report,) = json.loads(said("doctor", "--json", "--port", port, *words, code=1))["lines"]
    return report.pop("findings"), report


@pytest.mark.parametrize(
    ("values", "kind", "words", "fix"),
    [
        ({5: b"\xfa"}, "return_delay", "waits 790 µs before each answer", "return_delay_time 0"),
        ({43: b"\x44"}, "temperature", "is 68 °C, close to its limit of 70 °C", ""),
        ({42: b"\x3c"}, "voltage", "has 6.0 V at its terminals", ""),
        ({16: b"\0"}, "status_level", "answers PING, but no read", "status_return_level 2"),
        ({16: b"\1"}, "status", "acknowledges no write", "status_return_level 2"),
        ({34: b"\0\0"}, "shutdown", "shut itself down", ""),
        ({2: b"\x17"}, "firmware", "has firmware 23", ""),
        ({34: b"\xc8\0"}, "torque", "at most 20% of its torque: torque_limit is 200", "torque_limit 1023"),
        ({14: b"\xc8\0", 34: b"\xc8\0"}, "torque", "at most 20% of its torque: max_torque is 200",
         "max_torque 1023 --port PORT && axbridge servo write 1 torque_limit 1023"),
        ({11: b"\x5a"}, "temperature_limit", "allows itself a temperature of 90 °C", "temperature_limit 70"),
        ({18: b"\4"}, "protection", "does not switch itself off", "shutdown 36"),
        ({8: b"\x20\3"}, "angle_limits", "goes from 0 to 800 by its own angle limits, and the rig sends it from",
         "ccw_angle_limit 1023"),
    ],
)  # fmt: skip
def test_doctor_prints_only_the_cause_and_its_repair(line, said, values, kind, words, fix):
    for address, data in values.items():
        line.tables[1][address : address + len(data)] = data
    findings, _ = diagnosed(said, line.port, "--rig", "pan_tilt")
    (finding,) = [finding for finding in findings if finding["kind"] not in BUSY]
    assert (finding["id"], finding["kind"]) == (1, kind)
    assert words in finding["problem"]
    assert fix in finding["fix"].replace(line.port, "PORT")


def test_doctor_accepts_registers_that_the_rig_sets(line, capsys, tmp_path):
    own = '[[servo]]\nname = "pan"\nregisters = { max_torque = 200 }\n'
    (tmp_path / "mine.toml").write_text(f'base = "pan_tilt"\n{own}')
    line.tables[1][14:16] = line.tables[1][34:36] = b"\xc8\0"
    run(["doctor", "--json", "--port", line.port, "--rig", str(tmp_path / "mine.toml")])
    (report,) = json.loads(capsys.readouterr().out)["lines"]
    assert {finding["kind"] for finding in report["findings"]} <= BUSY


def test_doctor_finds_the_latency_timer_of_an_adapter(line, tmp_path):
    with SerialBus(line.port) as bus:
        bus.port.adapter = Adapter("ftdi", 16, tmp_path / "latency_timer")
        (finding,) = [finding for finding in diagnose(bus, packets=10).findings if finding.kind not in BUSY]
    assert finding.fix.startswith(f"echo 1 | sudo tee {tmp_path / 'latency_timer'}")


@pytest.mark.ci
def test_doctor_finds_servos_at_another_baud_rate(tmp_path, said):
    rig = write_comb(tmp_path, count=1, extra="[[bus]]\nbaud = 57_600", world=False)
    with serving(rig) as port:
        (finding,), _ = diagnosed(said, port)
        assert finding["problem"] == "no servo answers at 1000000 baud, but ids 1 at 57143"
        said(*finding["fix"].split()[1:])
        said("scan", "--port", port, "--ids", "0-3")


def test_doctor_prints_the_udev_rule_without_a_port(said):
    assert 'ATTR{latency_timer}="1"' in said("doctor", "--udev-rule")


@pytest.mark.ci
def test_a_servo_that_answers_no_read_gets_a_hint_with_the_repair(line, said, on_line):
    line.tables[1][16] = 0  # status return level 0: it answers PING only
    line.burn = 0.006
    repair = f"`axbridge servo write 1 status_return_level 2 --port {line.port}"
    scanned = on_line("scan", "--ids", "1-2")
    assert "id   1  status return level 0: answers PING, but no read and no write\n" in scanned
    assert repair in scanned
    _, report = diagnosed(said, line.port)
    assert set(report["loss"]) == {"2"}  # only the other servo is measured
    for words in ("info", "set-id 7", "write return_delay_time 7", "torque on", "reset --yes"):
        verb, *more = words.split()
        assert f"{repair}`" in on_line("servo", verb, "1", *more, code=3)
    line.tables[1][24] = 1
    assert "nothing is confirmed" in on_line("servo", "torque", "1", "off")
    assert (line.tables[1][5], line.tables[1][24], line.writes) == (0, 0, 0)
    assert "status_return_level is 2" in on_line("servo", "write", "1", "status_return_level", "2")
    assert on_line("servo", "read", "1", "led", "present_position") == "led 0\npresent_position 501\n"
    silenced = on_line("servo", "write", "1", "status_return_level", "0")
    assert f"it answers PING alone now: {repair}" in silenced


def test_writing_a_goal_prints_that_the_motor_is_on_and_how_to_switch_it_off(line, on_line):
    powered = on_line("servo", "write", "1", "goal_position", "500")
    assert f"`axbridge servo torque 1 off --port {line.port}` takes it away" in powered
    assert "power" not in on_line("servo", "write", "1", "led", "1")


@pytest.mark.parametrize(
    "arguments", [("set-id", "1", "7"), ("set-baud", "1", "500000"), ("write", "1", "return_delay_time", "7")]
)
def test_a_locked_servo_is_reported_with_the_remedy_and_not_written(line, on_line, arguments):
    remedy = "switch the supply of the servo off and on"
    assert remedy in on_line("servo", "write", "1", "lock", "1")
    refused = on_line("servo", *arguments, code=3)
    assert "servo 1 is locked" in refused
    assert remedy in refused
    assert line.writes == 0


def test_a_command_of_a_hint_names_the_line_that_was_typed(line, on_line):
    assert f"`axbridge scan --port {line.port}` lists what answers" in on_line("servo", "read", "9", "led", code=3)
    refused = on_line("servo", "write", "1", "present_position", "7", "--baud=1000000", code=2)
    assert f"`axbridge servo info 1 --baud 1000000 --port {line.port}` lists the registers" in refused


def test_doctor_names_an_alarm_and_a_servo_left_as_a_wheel_and_its_command_repairs_it(line, said):
    line.tables[1][6:10], line.tables[2][43] = bytes(4), 80
    line.errors[2] = 0x20
    findings, _ = diagnosed(said, line.port)
    problems = {(finding["id"], finding["problem"]) for finding in findings}
    assert problems >= {(2, "reports overheating, overload"), (2, "is 80 °C, beyond its limit of 70 °C")}
    (finding,) = [finding for finding in findings if finding["kind"] == "wheel"]
    said(*finding["fix"].split()[1:])
    assert line.tables[1][6:10] == bytes((0, 0, 255, 3))


def test_a_reset_servo_is_verified_at_its_new_id_and_rate(tmp_path, said):
    with serving(write_comb(tmp_path, count=3), "--faults", "deaf") as port:
        where = ("--port", port)
        said("servo", "reset", "2", "--yes", *where, code=3)  # id 1 is in use
        said("servo", "set-id", "1", "9", *where)
        said("servo", "write", "2", "status_return_level", "1", *where)
        reset = said("servo", "reset", "2", "--yes", *where)
        assert "servo 2 is reset: it has id 1 and talks at 1000000 baud now" in reset
        with SerialBus(port) as bus:
            assert bus.read(1, 16, 1).data == b"\x02"


def test_two_servos_with_one_id_are_found_before_a_robot_starts_and_not_renamed_together(said, quick_doctor):
    with serving("pan_tilt", "--faults", "collision:1") as port:  # replies overlap
        why = r"pan \(id 1\) answers with damaged packets: two servos with one id.*\n.*axbridge servo set-id"
        with pytest.raises(BusError, match=why):
            axbridge.open("pan_tilt", backend="real", port=port)
        findings, _ = diagnosed(said, port)
        assert [finding["id"] for finding in findings if finding["kind"] == "collision"] == [1]
        assert "two servos" in said("servo", "set-id", "1", "9", "--port", port, code=3)
        with SerialBus(port) as bus:
            assert [servo.id for servo in scan(bus, range(12))] == [1, 2]
    with PtyLine(mishap=lambda packet: "corrupt" if packet.code == Instruction.READ else "ok") as line:
        assert "not confirmed: servo 1 (damaged answers: two servos" in said("off", "--port", line.port, code=3)


def test_torque_on_holds_the_present_position_and_stops_a_wheel(line, on_line):
    line.tables[1][30:32] = b"\0\0"
    on_line("servo", "torque", "1", "on")
    assert line.tables[1][24] == 1
    assert line.tables[1][30:32] == line.tables[1][36:38]
    on_line("servo", "torque", "1", "off")
    assert line.tables[1][24] == 0
    line.tables[1][6:10], line.tables[1][32:34] = bytes(4), b"\xff\1"
    assert on_line("servo", "torque", "1", "on").endswith("follows no position: its moving_speed is 0\n")
    assert line.tables[1][32:34] == b"\0\0"


def test_off_continues_with_the_next_line_after_a_lost_one(line, tmp_path, capsys):
    lines = f'[[bus]]\nname = "left"\nport = "{tmp_path / "gone"}"\n[[bus]]\nname = "right"\nport = "{line.port}"\n'
    servos = "".join(
        f'[[servo]]\nname = "{bus}"\njoint = "{bus}"\nid = 1\nbus = "{bus}"\n' for bus in ("left", "right")
    )
    (tmp_path / "two.toml").write_text(f'name = "two"\n{lines}{servos}')
    line.tables[1][24] = 1
    assert run(["off", "--rig", str(tmp_path / "two.toml")]) == HARDWARE
    assert not line.powered
    out, err = capsys.readouterr()
    assert "off and confirmed: right" in out
    assert "gone: no such port" in err


def test_monitor_of_a_rig_shows_degrees_of_its_joints(line, on_line, tmp_path):
    line.tables[1][36:38] = (512 + 300).to_bytes(2, "little")
    shown = on_line("monitor", "--rig", write_comb(tmp_path, 2), "--duration", "0.2")
    header, first, *_ = [row.split("\t") for row in shown.splitlines()]
    assert header[2:5] == ["position °", "speed °/s", "load %"]
    assert first[:3] == ["s1", "1", "88.0"]  # 300 of 1023 counts of 300°


def test_only_faults_are_red_in_the_monitor(tmp_path):
    with PtyLine((1, 2)) as line, SerialBus(line.port) as bus:
        line.tables[1][43] = 70  # °C
        line.deaf = {2}
        (hot, wrong), (deaf, silent) = _Line(bus, [CycleServo(f"s{id_}", id_) for id_ in (1, 2)], {}).rows()
    assert [hot[place] for place in wrong if place < 9] == ["70"]
    assert deaf[8] == "no answer"
    assert len(silent) == len(deaf)


@pytest.mark.parametrize(("mass", "causes"), [(1.0, False), (1.6, True)])
def test_monitor_reports_why_a_servo_held_by_another_program_differs_from_its_model(tmp_path, capsys, mass, causes):
    rig = axbridge.Rig.load("bench_arm")
    heavier = re.sub(r'mass value="([\d.]+)"', lambda match: f'mass value="{mass * float(match[1])}"', rig.urdf_text())
    (tmp_path / "bench_arm.urdf").write_text(heavier)
    (tmp_path / "arm.toml").write_bytes(rig.path.read_bytes())
    with serving(str(tmp_path / "arm.toml"), "--model", "lima2009") as port:
        with SerialBus(port) as bus:
            bus.write(1, 30, (512 + 200).to_bytes(2, "little"))  # Goal Position, which switches the torque on
        watch = ["monitor", "--rig", "bench_arm", "--model", "lima2009", "--port", port, "--duration", "4"]
        run(watch if causes else [*watch, "--json"])
        shown = capsys.readouterr().out
        if causes:
            assert re.match(r" +\d\.\d s  shoulder: extra load \(look what it carries", shown)
        else:
            assert json.loads(shown)["causes"] == []
        with SerialBus(port) as bus:
            assert bus.read(1, 24, 12).data[:1] == b"\1"
            assert bus.read(1, 30, 2).data == (712).to_bytes(2, "little")  # the goal is unchanged


@pytest.mark.parametrize(("width", "lines"), [(30, 3), (80, 1)])
def test_lines_are_wrapped_between_words(monkeypatch, width, lines):
    text = "! servo 1: waits 790 µs before each answer, which takes its time"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    wrapped_lines = wrapped(text, "  ").split("\n")
    assert len(wrapped_lines) == lines
    assert max(map(len, wrapped_lines)) <= width
    assert " ".join(line.strip() for line in wrapped_lines) == text


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("servo info 9", 3, "servo 9 did not answer"),
        ("servo read 1 colour", 2, ""),
        ("servo write 1 led 9", 2, ""),
        ("servo write 1 id 9", 2, ""),
        ("servo set-baud 1 123456789", 2, ""),
        ("servo torque 1 maybe", 2, ""),
        ("servo set-id 1 2", 3, "id 2 is taken"),
        ("servo goto pan 20", 2, "'pan' is no bus id, and names are a rig's\ngive an id, 0..253, or add --rig"),
        ("servo goto 254 20", 2, "'254' is no bus id"),
        ("servo goto 1 nan", 2, "nan is no angle"),
        ("servo goto 1 30 --duration 0", 2, "not positive and finite"),
        ("servo goto 1 30 --faster", 2, "--faster"),
        ("servo goto neck 30 --rig pan_tilt", 2, "rig pan_tilt has no servo 'neck'\nit has: pan (1), tilt (2)"),
        ("servo goto 9 30", 3, "servo 9 did not answer"),
        ("servo set-baud 1 7534", 2, "an ax-12a cannot make 7534 baud; the nearest is 7843"),
        ("scan --baud 9999", 2, "no servo can be set to 9999 baud\nthe nearest is 10000; `--baud all` asks at each"),
        ("scan --baud 1700000", 2, "the nearest is 2000000"),
        ("scan --baud 6000000", 2, "the nearest is 4500000"),
        ("scan --ids 9-1", 2, ""),
        ("scan --baud fast", 2, ""),
        ("scan --ids 3-9", 3, "run `axbridge scan --port PORT --baud all`\n"),  # no servo answers
        ("monitor --model lima2009", 2, ""),  # needs a rig
    ],
)
def test_a_wrong_command_is_refused_in_two_lines_and_moves_nothing(line, on_line, arguments, code, words):
    message = on_line(*arguments.split(), code=code)
    assert "axbridge" in message
    assert words in message.replace(line.port, "PORT")
    assert message.count("\n") <= 2
    assert goals(line) == []


@pytest.mark.parametrize(
    "port",
    ["/dev/ttyUSB99", "/dev/null", __file__, "socket://127.0.0.1:1", "socket://", "http://robot:80", "socket://a:b"],
)
def test_wrong_ports_end_with_code_three(said, port):
    assert said("scan", "--port", port, code=3).count("\n") <= 2


def test_a_fault_of_many_servos_is_printed_once_with_one_command(said, quick_doctor):
    with PtyLine(range(1, 7)) as line:
        for id_ in (1, 2, 3, 4, 6):
            line.tables[id_][5] = 250
        report = said("doctor", "--port", line.port, code=1)
    assert "servos: 1-6\n" in report
    assert "! servos 1-4, 6: each waits 790 µs before each answer, by its return_delay_time 250\n" in report
    assert f"for id in 1 2 3 4 6; do axbridge servo write $id return_delay_time 0 --port {line.port}; done" in report


def test_monitor_counts_lost_packets_and_lists_missing_servos(line, on_line):
    line.mishap = lambda packet: "drop" if packet.id == 2 and packet.code == 2 else "ok"
    rows = [row.split("\t") for row in on_line("monitor", "--duration", "0.2", code=3).splitlines()]
    assert rows[2][-2] == "no answer"
    assert float(rows[2][-1].rstrip("%")) > 10
    assert re.search(r"\d+ asked, [1-9]\d* lost, 0 damaged, \d+ late, ", rows[4][0])


def test_monitor_gives_no_rate_of_reading_while_every_servo_is_silent():
    with PtyLine((1, 2)) as pty_line, SerialBus(pty_line.port) as bus:
        bus.latency = 0.1  # a busy machine may keep the responder waiting
        watched = _Line(bus, [CycleServo(f"s{id_}", id_) for id_ in (1, 2)], {})
        assert "Hz, reading takes" in watched.caption()
        cycles = watched.document()["cycle"]["count"]
        pty_line.deaf = {1, 2}
        for _ in range(9):  # most of them wait before they ask again
            watched.read()
        assert watched.caption().startswith(f"{bus.port_name}: no servo answers\n")
        assert (watched.document()["cycle"]["count"], watched.wire_share()) == (cycles, 0.0)


def test_a_closed_pipe_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    done = typed("--help", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


# ---- servo goto: soft motion to an angle in degrees; the motor is always off at the end


COUNTS = 1023 / 300  # counts per degree
MIDDLE = 512
GOAL = bytes((Address.GOAL_POSITION,))


def goals(line):
    """Return the goals sent by SYNC_WRITE, in order."""
    parameters = [data for _, code, data, _ in line.received if code == Instruction.SYNC_WRITE and data[:1] == GOAL]
    return [int.from_bytes(values[3:5], "little") for values in parameters]


def test_goto_moves_nothing_beyond_limits_in_wheel_mode_or_after_a_shutdown(line, on_line, tmp_path):
    beyond = on_line("servo", "goto", "tilt", "70", "--rig", "pan_tilt", code=MISUSE)
    assert "70° is out of the limits of tilt: -68.8° to 68.8°" in beyond
    limits = slice(Address.CW_ANGLE_LIMIT, Address.CW_ANGLE_LIMIT + 4)
    line.tables[1][limits] = bytes((0, 1, 0, 3))  # 256..768
    assert "90° is out of the limits of servo 1: -75.1° to 75.1°" in on_line("servo", "goto", "1", "90", code=MISUSE)
    line.tables[1][limits] = bytes(4)
    assert "servo 1 is set up as a wheel" in on_line("servo", "goto", "1", "10", code=MISUSE)
    torque = slice(Address.TORQUE_LIMIT, Address.TORQUE_LIMIT + 2)
    line.tables[2][torque] = bytes(2)
    shut_down = on_line("servo", "goto", "2", "30", code=HARDWARE)
    assert "servo 2 has shut itself down\nsee why; then `axbridge servo write 2 torque_limit 1023" in shut_down
    experiment = (*["record", "step", "pan_tilt", "--servo", "tilt", "--angle", "20", "--out"], tmp_path / "a.mcap")
    with pytest.warns(axbridge.ControlWarning, match="had shut itself down"):
        assert "tilt has shut itself down\nsee why; then `axbridge servo write 2" in on_line(*experiment, code=HARDWARE)
    assert not (tmp_path / "a.mcap").exists()
    assert line.tables[2][torque] == bytes(2)
    assert goals(line) == []
    assert not line.tables[1][Address.TORQUE_ENABLE]


def test_a_blocked_servo_is_moved_softly_and_reported_away_from_its_goal(line, on_line):
    output = on_line("servo", "goto", "1", "60", code=HARDWARE)
    assert output.startswith("servo 1 is at -3.2°; motors are off\n")
    assert re.search(r"it did not get to 60°, \d+\.\d° are left: something holds it", output)
    way = goals(line)
    steps = [after - before for before, after in pairwise((READ, *way))]
    assert way[-1] == pytest.approx(MIDDLE + 60 * COUNTS, abs=0.51)
    assert min(steps) >= 0
    assert max(steps) <= 60 * COUNTS * 0.02 + 1  # 60°/s, in a step of 20 ms
    assert max(steps[:5]) <= 1  # from rest
    assert not line.tables[1][Address.TORQUE_ENABLE]


def test_a_goto_takes_its_duration_or_is_refused(line, on_line):
    on_line("servo", "goto", "1", "30", "--duration", "0.6", code=HARDWARE)
    way = goals(line)
    assert way.index(way[-1]) == pytest.approx(30, abs=5)  # steps of 20 ms; the last ones are smaller than a count
    short = on_line("servo", "goto", "1", "30", "--duration", "0.01", code=MISUSE)
    assert "0.01 s are too short for servo 1: it needs 0.18 s at least" in short


def test_a_servo_that_stops_answering_during_a_goto_is_reported():
    with led("pan_tilt") as (port, tell), start("servo", "goto", "1", "30", "--duration", "2", "--port", port) as mover:
        until(lambda: tell("register torque_enable")[0])
        tell("stop")
        _, err = mover.communicate(timeout=60)
    assert mover.returncode == HARDWARE
    assert "servo 1" in err
    assert "may still be powered" in err


# ---- tests with a served bus come last, because it uses 5 % of a core while it runs


@pytest.fixture(scope="module")
def arm():
    with led("pan_tilt") as served:
        yield served


@pytest.mark.parametrize(("degrees", "count"), [("30", MIDDLE + 30 * COUNTS), ("-12.5", MIDDLE - 12.5 * COUNTS)])
def test_goto_by_id_starts_from_the_middle_and_switches_the_motor_off(arm, said, degrees, count):
    port, tell = arm
    gone = said("servo", "goto", "2", degrees, "--port", port)
    assert tell("register goal_position")[1] == pytest.approx(count, abs=0.51)
    assert tell("register present_position")[1] == pytest.approx(count, abs=2 * COUNTS)
    assert tell("register torque_enable") == [0, 0]
    where, end = re.fullmatch(r"servo 2 is at (.*)°; (.*)\n", gone).groups()
    assert float(where) == pytest.approx(float(degrees), abs=2)
    assert end == "motors are off"


def test_goto_by_name_uses_the_zero_and_direction_of_the_rig(arm, tmp_path, monkeypatch, said):
    port, tell = arm
    path, _ = copy_rig(Rig.load("pan_tilt"), tmp_path / "mine")
    path.write_text(path.read_text().replace("id = 2", "id = 2\nzero = 400\ndirection = -1"))
    monkeypatch.setenv("AXBRIDGE_RIG", str(path))
    for servo in ("tilt", "2"):
        assert said("servo", "goto", servo, "20", "--port", port).startswith("tilt is at ")
        assert tell("register goal_position")[1] == pytest.approx(400 - 20 * COUNTS, abs=0.51)
        assert tell("register torque_enable") == [0, 0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_a_goto_leaves_the_motor_off_and_prints_the_position(arm, number):
    port, tell = arm
    run(["servo", "goto", "1", "0", "--port", port])
    with start("servo", "goto", "1", "40", "--duration", "30", "--port", port) as mover:
        until(lambda: tell("register present_position")[0] > MIDDLE + 5)
        mover.send_signal(number)
        _, err = mover.communicate(timeout=60)
    assert mover.returncode == 128 + number
    assert err.startswith("stopped: motors are off; servo 1 is at ")
    assert tell("register torque_enable") == [0, 0]
