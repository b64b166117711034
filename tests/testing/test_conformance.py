"""Judgement of a driver's behaviour under faults."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from axbridge.errors import UsageError
from axbridge.testing.conformance import CASES, Finding, Ran, _filled, _judged, check_driver, write_junit
from axbridge.testing.servo_bus import LoggedPacket
from axbridge.virtual.faults import parse_faults

DRIVER = Path(__file__).parents[1] / "virtual" / "clients" / "sdk_driver.py"
PACKETS = tuple(LoggedPacket(0.1 * n, 2, kind, b"") for n, kind in enumerate(["write", "status", "read", "status"] * 5))
CASE, UNPLUGGED = CASES[0], next(case for case in CASES if case.spec == "unplug#{packet}")


def ran(code=0, numbers=(2200.0, 0.31), powered=(), packets=PACKETS):
    return Ran(code, numbers, "the last line", 1.0, powered, packets)


CLEAN = [ran(), ran(numbers=(2201.0, 0.31))]


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (ran(), "goes on"),
        (ran(numbers=(2202.0, 0.3)), "goes on"),  # within 2 %
        (ran(numbers=(2000.0, 0.31)), "wrong value"),
        (ran(numbers=(2200.0, 0.5)), "wrong value"),
        (ran(numbers=(2200.0,)), "wrong value"),
        (ran(code=1, numbers=()), "reports"),
        (ran(code=-11), "reports"),
        (ran(code=1, powered=(2,)), "motor left on"),
        (ran(powered=(1, 2)), "motor left on"),
        (ran(code=None, powered=(2,)), "hangs"),
    ],
)
def test_a_run_is_judged_by_exit_status_numbers_and_torque(found, outcome):
    assert _judged(CASE, found, CLEAN).outcome == outcome
    assert _judged(UNPLUGGED, found, CLEAN).outcome != "motor left on"


def test_the_first_packet_with_a_fault_is_reported():
    struck = (*PACKETS[:5], PACKETS[5]._replace(fault="drop"), *PACKETS[6:])
    assert _judged(CASE, ran(packets=struck), CLEAN).packet == "6: status of 2"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_case_is_a_spec_in_the_middle_of_the_run(case):
    faults = parse_faults(_filled(case.spec, PACKETS))
    assert bool(faults) != bool(case.before)
    assert all(fault.turn is None or 2 <= fault.turn.number <= 6 for fault in faults)


def test_harmful_outcomes_are_failures_of_the_junit_file(tmp_path):
    findings = [Finding("one", "goes on", "", "", 0.5), Finding("two", "wrong value", "6: read of 1", "\x1b[1m7", 1.0)]
    path = tmp_path / "new" / "out.xml"
    write_junit(findings, path, "driver")
    suite = ET.parse(path).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.find("failure") is not None for case in suite] == [False, True]


SLEEPS = (sys.executable, "-c", "import time; time.sleep(60)", "{port}")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["driver"], r"write \{port\} in its place"),
        (["./driver", "{port}"], "No such file or directory\ngive a program that can be run"),
        (SLEEPS, "without a fault it does not end in 0 s\nlet it work first on what `axbridge serve bench_arm` shows"),
    ],
)
def test_a_program_that_does_not_drive_servos_and_end_is_refused(command, why, monkeypatch):
    monkeypatch.setattr("axbridge.testing.conformance._LONGEST", 0.2)
    with pytest.raises(UsageError, match=why):
        next(check_driver(command, "bench_arm"))


@pytest.mark.ci
def test_the_verb_prints_a_table_and_writes_a_junit_file(said, tmp_path):
    command = ("conformance", "--rig", "koch", "--json", "--junit", "out.xml", "--", sys.executable, DRIVER, "{port}")
    outcomes = {finding["case"]: finding["outcome"] for finding in json.loads(said(*command, code=1))["findings"]}
    assert outcomes["no fault"] == "goes on"
    assert outcomes["an answer is lost"] == "motor left on"  # it ends by sys.exit
    assert outcomes["a servo is dead from the start"] == "reports"
    assert int(ET.parse(tmp_path / "out.xml").getroot().get("tests")) == len(outcomes) >= 26
