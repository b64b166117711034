"""`axbridge run --record`: what a script did, in a recording, also where the script opened the robot."""

import signal
from contextlib import nullcontext

import numpy as np
import pytest

import axbridge
from axbridge.recording.stored import open_recording
from tests.support import warm
from tests.support.waiting import has_grown, until
from tests.support.warm import serving, start

pytestmark = pytest.mark.slow

WEBOTS = """
from controller import Robot
robot = Robot()
motor = robot.getDevice("shoulder")
motor.setVelocity(2.0)
motor.setPosition(0.6)
for _ in range(30): robot.step(20)
motor.setVelocity(motor.getMaxVelocity())
motor.setPosition(-0.3)
for _ in range(30): robot.step(20)
motor.setTorque(0.1)
for _ in range(5): robot.step(20)
"""
OWN = """
import axbridge
with axbridge.open("bench_arm") as robot:
    robot["shoulder"].set_position(0.6)
    for _ in range(50): robot.step(20)
"""
FOREVER = {
    "webots": "from controller import Robot\nrobot = Robot()\nmotor = robot.getDevice('shoulder')\n"
    "motor.setPosition(0.4)\nwhile robot.step(20) != -1: pass\n",
    "own": "import axbridge\nwith axbridge.open('bench_arm') as robot:\n    robot['shoulder'].set_position(0.4)\n"
    "    while True: robot.step(20)\n",
}


def run(folder, text, *options):
    script = folder / "script.py"
    script.write_text(text)
    return warm.run("run", script, "--rig", "bench_arm", *options, cwd=folder), folder / "run.mcap"


def check_goals(found):
    """Goals stand beside the sample from which on they act, and were sent after it."""
    track = found["shoulder"]
    assert (track.commanded[:-1] > track.time[:-1]).all()
    second = np.flatnonzero(np.isclose(track.command, -0.3))[0]
    assert track.command[0] == pytest.approx(0.6)
    assert track.position[second] == pytest.approx(0.6, abs=0.05)  # it has not begun to move
    assert track.speed_limit[0] == pytest.approx(2.0)
    assert track.speed_limit[second] == pytest.approx(axbridge.Rig.load("bench_arm").servos[0].max_velocity or 6.2, 0.1)
    assert np.isnan(track.command[-1])  # torque control has no goal
    assert track.enabled.all()
    assert track.power.max() > 0.1


@pytest.mark.parametrize("backend", ["sim", "real"])
def test_a_webots_controller_is_recorded(tmp_path, backend):
    with serving("bench_arm") if backend == "real" else nullcontext("/dev/null") as port:
        options = "--backend", backend, "--port", port, "--slow"
        done, path = run(tmp_path, WEBOTS, "--record", "run.mcap", *options)
    assert done.returncode == 0, done.stderr
    found = open_recording(path)
    assert found.complete
    check_goals(found)
    track = found["shoulder"]
    assert len(track) == 66
    assert len(found.cycles["late_ms"]) == 65
    off = np.abs(track.true_position - track.position)
    assert np.nanmax(off) < 0.02 if backend == "sim" else np.isnan(off).all()
    facts = found.metadata
    assert (facts["backend"], facts["experiment"], facts["arguments"]) == (backend, "script", ["--slow"])
    assert facts["rig"]["name"] == "bench_arm"


def test_a_script_of_ones_own_is_recorded_and_its_second_robot_is_not(tmp_path):
    done, path = run(tmp_path, OWN + OWN.replace("0.6", "-0.5"), "--record", "run.mcap")
    assert done.returncode == 0, done.stderr
    note = f"note: {path} holds the first robot that the script opened, not this one"
    assert done.stderr == f"{note}\nwrote {path}\n"
    track = open_recording(path)["shoulder"]
    assert track.position[-1] == pytest.approx(0.6, abs=0.05)
    assert len(track) == 51


def test_a_script_without_a_robot_leaves_no_file_and_says_so(tmp_path):
    done, path = run(tmp_path, "print('hello')", "--record", "run.mcap")
    assert (done.returncode, done.stdout, path.exists()) == (0, "hello\n", False)
    assert "nothing was recorded: the script opened no robot" in done.stderr


def test_a_file_that_is_there_is_refused_before_the_script_begins(tmp_path):
    (tmp_path / "run.mcap").write_text("precious")
    done, path = run(tmp_path, "print('begun')", "--record", "run.mcap")
    assert (done.returncode, done.stdout, path.read_text()) == (2, "", "precious")
    assert "is already there" in done.stderr
    done, path = run(tmp_path, OWN, "--record", "run.mcap", "--force")
    assert done.returncode == 0, done.stderr
    assert open_recording(path).complete
    done, _ = run(tmp_path, "print('begun')", "--record", "script.py", "--force")
    assert (done.returncode, done.stdout) == (2, "")  # not over the script itself


def test_a_script_that_raises_shows_its_own_traceback_and_leaves_a_whole_recording_and_a_real_robot_limp(tmp_path):
    with serving("bench_arm") as port:
        options = "--backend", "real", "--port", port, "--record", "run.mcap"
        done, path = run(tmp_path, WEBOTS + "raise RuntimeError('my mistake')\n", *options)
        with axbridge.open("bench_arm", backend="real", port=port) as robot:
            assert robot["shoulder"].read("torque_enable") == 0
    assert done.returncode == 1
    assert "line 13" in done.stderr
    assert "RuntimeError: my mistake" in done.stderr
    assert "cli/run.py" not in done.stderr
    found = open_recording(path)
    assert found.complete
    assert found.events[-1].name == "aborted"
    assert len(found["shoulder"]) == 66


@pytest.mark.parametrize("kind", FOREVER)
def test_ctrl_c_leaves_the_motor_off_and_says_what_is_kept(tmp_path, kind):
    script, path = tmp_path / "forever.py", tmp_path / "run.mcap"
    script.write_text(FOREVER[kind])
    with serving("bench_arm") as port:
        options = "--backend", "real", "--port", port, "--record", str(path)
        process = start("run", script, "--rig", "bench_arm", *options)
        until(lambda: has_grown(path))
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        with axbridge.open("bench_arm", backend="real", port=port) as robot:
            assert robot["shoulder"].read("torque_enable") == 0
    assert process.returncode == (0 if kind == "webots" else 130), said
    assert said.startswith(f"stopped: motors are off; {path} is whole and holds ")
    assert open_recording(path).complete
