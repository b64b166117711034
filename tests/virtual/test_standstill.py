"""A virtual bus on a busy machine: its motors' process is stopped for a moment, as a busy machine does."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

import axbridge
from axbridge.bus.standstill import notes_of
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.robot_recorder import RobotRecorder
from axbridge.recording.stored import open_recording
from axbridge.virtual.background import serving

pytestmark = pytest.mark.skipif(not Path("/dev/pts").is_dir(), reason="needs pseudo-terminals")


def children(process):
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def motors():
    """The process that moves the served motors: a child of the server, with its command line."""
    serving_here = [child for child in children(os.getpid()) if b"serve" in Path(f"/proc/{child}/cmdline").read_bytes()]
    (server,) = serving_here
    return next(child for child in children(server) if b"serve" in Path(f"/proc/{child}/cmdline").read_bytes())


@pytest.mark.slow
@pytest.mark.real_time
def test_a_recording_of_a_virtual_bus_marks_where_its_motors_stood_still(tmp_path):
    with serving("bench_arm") as port, axbridge.open("bench_arm", backend="real", port=port) as robot:
        notes, stopped = notes_of(port), motors()
        assert notes.stat().st_mode & 0o777 == 0o600
        with Recorder(tmp_path / "a.mcap", describe(robot.rig)) as recorder, RobotRecorder(robot, recorder):
            robot.step()
            os.kill(stopped, signal.SIGSTOP)
            threading.Timer(0.2, os.kill, (stopped, signal.SIGCONT)).start()
            until = time.monotonic() + 20.0
            while robot.last_step.stood_still < 0.2:
                assert time.monotonic() < until
                robot.step()
    assert not notes.exists()
    recording = open_recording(tmp_path / "a.mcap")
    (event,) = [event for event in recording.events if event.data.get("seconds", 0.0) >= 0.2]
    assert event.name == "stood still"
    spoilt = recording["shoulder"].time[recording.within_standstill(recording["shoulder"].time)]
    assert spoilt.min() < event.time - 0.1


def test_a_bus_whose_motors_keep_up_marks_nothing(tmp_path):
    with (
        axbridge.open("bench_arm", backend="sim") as robot,
        Recorder(tmp_path / "a.mcap", describe(robot.rig)) as recorder,
        RobotRecorder(robot, recorder),
    ):
        for _ in range(20):
            robot.step()
    assert open_recording(tmp_path / "a.mcap").stood_still == ()
