"""`axbridge record` in a shell: refused arguments, the result of Ctrl-C, and the clock of the file."""

import json
import signal

import numpy as np
import pytest

import axbridge
from axbridge.cli import app
from axbridge.recording.stored import open_recording
from axbridge.robot.open import attending
from tests.support.waiting import has_grown, until
from tests.support.warm import serving, start

pytestmark = pytest.mark.slow


SINE = ["record", "sine", "--rig", "bioloid", "--angle", "30", "--period", "1", "--duration", "2"]


def test_the_rigs_time_step_is_the_default_tick_and_the_motion_has_the_requested_time(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments = [*SINE, "--out", "deep/down/sine.mcap"]
    assert app.run(arguments) == app.DONE
    recording = open_recording("deep/down/sine.mcap")
    (track,) = recording.values()
    facts = recording.metadata
    assert (facts["tick_ms"], facts["rig"]["name"]) == (20.0, "bioloid")
    assert {"axbridge", "python", "numpy", "numba"} <= facts["versions"].keys()
    assert {"pybullet", "mujoco"} & facts["versions"].keys()
    assert np.median(np.diff(track.time)) == pytest.approx(0.020, abs=1e-4)
    assert track.time[-1] == pytest.approx(2.0, abs=0.03)
    assert app.run(arguments) == app.MISUSE
    capsys.readouterr()
    assert app.run([*arguments, "--force", "--json"]) == app.DONE
    done = json.loads(capsys.readouterr().out)
    (printed,) = done["recordings"]
    named = done["format"], printed["path"], printed["experiment"]
    assert named == ("axbridge-record-1", "deep/down/sine.mcap", "sine")
    assert printed["steps"] == len(open_recording("deep/down/sine.mcap").cycles["time"])


def test_a_slightly_late_tick_is_recorded_with_real_times_and_reported(tmp_path, capsys):
    path = tmp_path / "sine.mcap"
    assert app.run([*SINE, "--tick", "16ms", "--out", str(path)]) == app.DONE
    assert "steps were late" in capsys.readouterr().err
    recording = open_recording(path)
    (track,) = recording.values()
    assert np.median(np.diff(track.time)) == pytest.approx(0.019, abs=1e-3)  # the bus cycle
    assert track.time[-1] == pytest.approx(2.0, abs=0.04)
    assert np.median(recording.cycles["late_ms"]) == pytest.approx(3.0, abs=1.0)
    end = recording.cycles["time"][-1]
    assert np.abs(end - track.time[-1]) < 0.02  # one clock
    assert recording.events[-1].time == pytest.approx(end)
    crossings = track.time[1:][(track.command[:-1] < 0) & (track.command[1:] >= 0)]
    assert np.diff(crossings) == pytest.approx(1.0, abs=0.03)  # no slow motion


def test_the_way_to_the_start_counts_in_no_sample_of_the_result(tmp_path, capsys):
    path, real = tmp_path / "step.mcap", tmp_path / "real.mcap"
    arguments = ("record", "step", "--rig", "bench_arm", "--angle", "5", "--duration", "0.1")
    with serving("bench_arm", "--link", tmp_path / "arm", "--timing", "none"):
        assert app.run([*arguments, "--port", str(tmp_path / "arm"), "--out", str(real)]) == app.DONE
    assert f", {len(open_recording(real)['shoulder'])} samples of each servo\n" in capsys.readouterr().out
    assert app.run([*arguments, "--out", str(path)]) == app.DONE
    assert app.run(["compare", str(real), str(path)]) == app.DONE
    assert "bench_arm, simulated against bench_arm, virtual servos\n" in capsys.readouterr().out


def test_lost_replies_are_reported_when_the_file_is_written(tmp_path, capsys):
    path = tmp_path / "sine.mcap"
    with attending(lambda robot, _seed: robot.simulation.inject("drop=0.06")):
        assert app.run(["record", "sine", "--rig", "bench_arm", "--json", "--out", str(path)]) == app.DONE
    output = capsys.readouterr()
    (facts,) = json.loads(output.out)["recordings"]
    assert facts["unanswered"] == np.count_nonzero(open_recording(path).cycles["errors"]) > 0
    assert f"no answer in {facts['unanswered']} of {facts['steps']} steps: the recording has gaps" in output.err
    with attending(lambda robot, _seed: robot.simulation.inject("dead:1@0.5s")):
        assert app.run(["record", "sine", "--rig", "bench_arm", "--out", str(path), "--force"]) == app.HARDWARE
    assert capsys.readouterr().err.startswith(f"{path} is whole and holds ")


@pytest.mark.parametrize(
    ("experiment", "number", "status"),
    [
        (("sine",), signal.SIGINT, 130),
        (("sine",), signal.SIGHUP, 129),
        (("duty", "--duty", "0.1"), signal.SIGTERM, 143),
    ],
    ids=["sine", "terminal closed", "wheel"],
)
def test_an_interrupted_experiment_leaves_a_limp_joint_and_reports_the_recorded_part(
    tmp_path, experiment, number, status
):
    path = tmp_path / "ended.mcap"
    with serving("bench_arm") as port:
        on_bus = ("--rig", "bench_arm", "--backend", "real", "--port", port)
        process = start("record", *experiment, *on_bus, "--duration", "60", "--out", path)
        until(lambda: has_grown(path))
        process.send_signal(number)
        _, output = process.communicate(timeout=30)
        with axbridge.open("bench_arm", backend="real", port=port) as robot:
            held = map(robot["shoulder"].read, ("cw_angle_limit", "ccw_angle_limit", "torque_enable"))
            assert list(held) == [0, 1023, 0], output  # the servo is not in wheel mode
    assert process.returncode == status
    assert output.splitlines()[-1].startswith(f"stopped: motors are off; {path} is whole and holds ")
    recording = open_recording(path)
    assert (recording.complete, recording.events[-1].name) == (True, "aborted")
    assert len(recording["shoulder"]) > 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("step bench_arm --duty 0.1", "step makes no use of --duty"),
        ("sine bench_arm --speed 10", "sine makes no use of --speed"),
        ("protocol bench_arm --angle 20", "protocol makes no use of --angle"),
        ("sine bench_arm --period 0.01", "100 Hz is too fast for a control period of 20 ms"),
        ("chirp bench_arm --high 60 --tick 10ms", "60 Hz is too fast for a control period of 10 ms"),
        ("sin-time-square bench_arm --duration 60", "19.0986 Hz is too fast"),
        ("duty so101 --servo elbow_flex", "elbow_flex goes from -97° to 97°, and a wheel turns round"),
        ("torque-speed pan_tilt", "pan goes from -115° to 115°"),
        ("step bench_arm --tick 1000ms", "it is less than 1 s\n"),
    ],
)
def test_an_experiment_that_cannot_be_done_is_refused_first(tmp_path, said, arguments, message):
    path = tmp_path / "x.mcap"
    assert message in said("record", *arguments.split(), "--out", path, code=2)
    assert not path.exists()


def test_info_shows_range_rate_gaps_and_jumps_of_an_imported_log(tmp_path, capsys):
    log, path = tmp_path / "log.csv", tmp_path / "log.mcap"
    rows = [(tick * 20 + (400 if tick > 50 else 0), 170 if tick == 20 else tick) for tick in range(100)]
    log.write_text("t,angle\n" + "".join(f"{moment},{angle}\n" for moment, angle in rows))
    assert app.run(["import", str(log), str(path), "--column", "time=t:ms", "--column", "position=angle:deg"]) == 0
    assert open_recording(path).metadata["source"] == "log.csv"
    capsys.readouterr()
    assert app.run(["info", str(path)]) == app.DONE
    output = capsys.readouterr().out
    line = next(line for line in output.splitlines() if "samples" in line)
    assert "100 samples at 42 Hz, 0.000 to 2.380 s, 0.0 to 170.0°" in line
    assert "1 gap, the longest 0.420 s at 1.000 s" in line
    assert "the position jumps 2 times, by +151° at 0.400 s" in output
