"""`axbridge run`: Webots controllers, unmodified, on ideal joints, simulated servos and a served bus; and recorded."""

import signal
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.recording.stored import open_recording
from tests.support import warm
from tests.support.waiting import has_grown, run, until
from tests.support.warm import serving, start

pytestmark = pytest.mark.slow

ON_BUS = "--backend", "real", "--port"
CONTROLLER = '''
"""A plain Webots controller."""
import sys
from controller import Robot, Motor, PositionSensor, Camera, Keyboard, Supervisor, DistanceSensor
from controller.device import Device
from controller import *

class Arm(Robot):
    def __init__(self):
        super().__init__()
        self.timestep = int(self.getBasicTimeStep())
        self.motor = self.getDevice("shoulder")
        self.sensor = self.motor.getPositionSensor()
        self.sensor.enable(self.timestep)
        assert isinstance(self.motor, Motor) and isinstance(self.sensor, PositionSensor)

    def run(self):
        assert self.sensor.getValue() != self.sensor.getValue()  # NaN before the first step
        self.motor.setPosition(self.motor.getTargetPosition() + 0.6)  # at first it is where the joint is
        self.motor.setVelocity(3.0)
        while self.step(self.timestep) != -1:
            if self.getTime() == 1.0:
                print("position", self.sensor.getValue())
                break

if __name__ == "__main__":
    assert sys.argv[1:] == ["--speed", "2"], sys.argv
    Arm().run()
'''
WEBOTS = """
from controller import Robot
robot = Robot()
motor = robot.getDevice("shoulder")
motor.setVelocity(2.0)
motor.setPosition(0.6)
for _ in range(50): robot.step(20)
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


def ended(folder, text, *options, rig="bench_arm"):
    """Return how a script ends, and the path of its recording."""
    script = folder / "script.py"
    script.write_text(text)
    return warm.run("run", script, "--rig", rig, *options, cwd=folder), folder / "run.mcap"


def test_the_same_controller_runs_on_ideal_joints_simulated_servos_and_the_real_backend(tmp_path):
    arm, ideal = Rig.load("bench_arm"), tmp_path / "ideal.toml"
    (tmp_path / "bench_arm.urdf").write_text(arm.urdf_text())
    ideal.write_text(arm.path.read_text().replace("id = 1\n", 'drive = "ideal"\n'))
    with serving("bench_arm") as port:
        for rig, options, off in ((ideal, (), 1e-4), ("bench_arm", (), 0.03), ("bench_arm", (*ON_BUS, port), 0.03)):
            done, _ = ended(tmp_path, CONTROLLER, *options, "--speed", "2", rig=rig)
            assert done.returncode == 0, done.stderr
            assert float(done.stdout.split("position")[1]) == pytest.approx(0.6, abs=off)


NEVER_STEPS = """
from controller import Robot
robot = Robot()
robot.getDevice("shoulder").setPosition(0.4)
robot.step(20)
print("running", flush=True)
while True:
    pass
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_or_a_second_ctrl_c_ends_a_controller_that_never_steps(tmp_path, number):
    script = tmp_path / "stuck.py"
    script.write_text(NEVER_STEPS)
    with serving("bench_arm") as port:
        with start("run", script, "--rig", "bench_arm", *ON_BUS, port) as running:
            assert running.stdout.readline().strip() == "running"
            running.send_signal(number)
            if number == signal.SIGINT:
                assert running.stderr.readline().strip() == "note: bench_arm: real servos"
                assert running.stderr.readline().startswith("axbridge: Ctrl-C: the controller ends at its next step")
                running.send_signal(number)
            assert running.wait(10) == (-number if number == signal.SIGTERM else 130)
        with axbridge.open("bench_arm", backend="real", port=port) as robot:
            assert robot["shoulder"].read("torque_enable") == 0


def test_a_simulation_is_paced_with_axbridge_realtime_and_step_returns_its_lateness(monkeypatch):
    monkeypatch.setenv("AXBRIDGE_REALTIME", "1")
    with axbridge.open("bench_arm") as robot:
        began = time.monotonic()
        run(robot, 0.2)
        assert time.monotonic() - began > 0.15
        time.sleep(0.2)
        assert 50 < robot.step(20) < 2000  # of what is missed, 0.1 s is made good at most
        assert robot.time == pytest.approx(0.22)


def test_the_example_controller_waves_with_the_rig_of_the_environment(monkeypatch):
    monkeypatch.setenv("AXBRIDGE_RIG", "bench_arm")
    done = warm.run("run", Path(__file__).parents[2] / "examples" / "webots_wave.py", "--duration", "60")
    assert done.returncode == 0, done.stderr
    assert "shoulder ends at" in done.stdout


def test_the_step_after_the_end_ends_the_process(tmp_path):
    script = FOREVER["webots"] + "print('ended', robot.getTime())\nwhile True: robot.step(20)\n"
    done, _ = ended(tmp_path, script, "--duration", "0.5")
    assert (done.returncode, done.stdout.strip()) == (0, "ended 0.5")


# ---- with --record


def check_goals(track, backend):
    """Goals stand beside the sample from which on they act, and were sent after it."""
    assert (track.commanded[:-1] > track.time[:-1]).all()
    second = np.flatnonzero(np.isclose(track.command, -0.3))[0]
    assert track.command[0] == pytest.approx(0.6)
    assert track.position[second] == pytest.approx(0.6, abs=0.05)  # it has not begun to move
    assert track.speed_limit[0] == pytest.approx(2.0 if backend == "sim" else np.radians(45))  # its first goal is slow
    assert track.speed_limit[second] == pytest.approx(Rig.load("bench_arm").servos[0].max_velocity or 6.2, 0.1)
    assert np.isnan(track.command[-1])  # torque control has no goal
    assert track.enabled.all()
    assert track.power.max() > 0.1


@pytest.mark.parametrize("backend", ["sim", "real"])
def test_a_webots_controller_is_recorded(tmp_path, backend):
    with serving("bench_arm") if backend == "real" else nullcontext() as port:
        options = *((*ON_BUS, port) if port else ("--backend", "sim")), "--slow"
        done, path = ended(tmp_path, WEBOTS, "--record", "run.mcap", *options)
    assert done.returncode == 0, done.stderr
    recording = open_recording(path)
    assert recording.complete
    track = recording["shoulder"]
    check_goals(track, backend)
    assert (len(track), len(recording.cycles["late_ms"])) == (86, 85)
    off = np.abs(track.true_position - track.position)
    assert np.nanmax(off) < 0.02 if backend == "sim" else np.isnan(off).all()
    facts = recording.metadata
    assert (facts["backend"], facts["experiment"], facts["arguments"]) == (backend, "script", ["--slow"])
    assert facts["rig"]["name"] == "bench_arm"


def test_the_first_robot_of_a_script_is_recorded_and_the_second_is_not(tmp_path):
    done, path = ended(tmp_path, OWN + OWN.replace("0.6", "-0.5"), "--record", "run.mcap")
    assert done.returncode == 0, done.stderr
    note = f"note: {path} holds the first robot that the script opened, not this one"
    origin = "note: bench_arm: simulated (bullet)"
    assert done.stderr.splitlines() == [origin, origin, note, f"wrote {path}"]
    track = open_recording(path)["shoulder"]
    assert track.position[-1] == pytest.approx(0.6, abs=0.05)
    assert len(track) == 51


def test_a_script_without_a_robot_leaves_no_file_and_a_message(tmp_path):
    done, path = ended(tmp_path, "print('hello')", "--record", "run.mcap")
    assert (done.returncode, done.stdout, path.exists()) == (0, "hello\n", False)
    assert "nothing was recorded: the script opened no robot" in done.stderr


def test_a_file_that_is_there_is_refused_before_the_script_begins(tmp_path):
    (tmp_path / "run.mcap").write_text("precious")
    done, path = ended(tmp_path, "print('begun')", "--record", "run.mcap")
    assert (done.returncode, done.stdout, path.read_text()) == (2, "", "precious")
    assert "is already there" in done.stderr
    done, path = ended(tmp_path, OWN, "--record", "run.mcap", "--force")
    assert done.returncode == 0, done.stderr
    assert open_recording(path).complete
    done, _ = ended(tmp_path, "print('begun')", "--record", "script.py", "--force")
    assert (done.returncode, done.stdout) == (2, "")  # not over the script itself


def test_a_script_that_raises_shows_its_own_traceback_and_leaves_a_whole_recording_and_a_real_robot_limp(tmp_path):
    with serving("bench_arm") as port:
        script = WEBOTS + "raise RuntimeError('my mistake')\n"
        done, path = ended(tmp_path, script, *ON_BUS, port, "--record", "run.mcap")
        with axbridge.open("bench_arm", backend="real", port=port) as robot:
            assert robot["shoulder"].read("torque_enable") == 0
    assert done.returncode == 1
    assert "line 13" in done.stderr
    assert "RuntimeError: my mistake" in done.stderr
    assert "cli/run.py" not in done.stderr
    recording = open_recording(path)
    assert (recording.complete, recording.events[-1].name, len(recording["shoulder"])) == (True, "aborted", 86)


@pytest.mark.parametrize("kind", FOREVER)
def test_ctrl_c_leaves_the_motor_off_and_a_complete_recording(tmp_path, kind):
    script, path = tmp_path / "forever.py", tmp_path / "run.mcap"
    script.write_text(FOREVER[kind])
    with serving("bench_arm") as port:
        process = start("run", script, "--rig", "bench_arm", *ON_BUS, port, "--record", path)
        until(lambda: has_grown(path))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        with axbridge.open("bench_arm", backend="real", port=port) as robot:
            assert robot["shoulder"].read("torque_enable") == 0
    assert process.returncode == (0 if kind == "webots" else 130), errors
    assert f"\nstopped: motors are off; {path} is whole and holds " in errors
    assert open_recording(path).complete
