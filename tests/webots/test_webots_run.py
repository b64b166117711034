"""`axbridge run`: Webots controllers, unmodified, on ideal joints, simulated servos and a served bus."""

import signal
import time
from pathlib import Path

import pytest

import axbridge
from axbridge.config.toml_tables import shipped
from tests.support import warm
from tests.support.warm import serving, start

pytestmark = pytest.mark.slow

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
        self.motor.setPosition(0.6)
        self.motor.setVelocity(3.0)
        while self.step(self.timestep) != -1:
            if self.getTime() == 1.0:
                print("position", self.sensor.getValue())
                break

if __name__ == "__main__":
    assert sys.argv[1:] == ["--speed", "2"], sys.argv
    Arm().run()
'''


def run(script, *options):
    return warm.run("run", script, *options)


@pytest.fixture
def ideal_rig(tmp_path):
    urdf = shipped("hil_rigs") / "bench_arm" / "bench_arm.urdf"
    (tmp_path / "arm.urdf").write_text(urdf.read_text())
    path = tmp_path / "ideal_arm.toml"
    path.write_text(
        'name = "ideal_arm"\n[world]\nurdf = "arm.urdf"\n'
        '[[servo]]\nname = "shoulder"\njoint = "shoulder"\ndrive = "ideal"\n'
    )
    return path


def position(done):
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split("position")[1])


def test_the_same_controller_runs_on_ideal_joints_simulated_servos_and_the_real_backend(tmp_path, ideal_rig):
    controller, arguments = tmp_path / "arm.py", ("--speed", "2")
    controller.write_text(CONTROLLER)
    assert position(run(controller, "--rig", str(ideal_rig), *arguments)) == pytest.approx(0.6, abs=1e-4)
    assert position(run(controller, "--rig", "bench_arm", *arguments)) == pytest.approx(0.6, abs=0.03)
    with serving("bench_arm") as port:
        real = run(controller, "--rig", "bench_arm", "--backend", "real", "--port", port, *arguments)
    assert position(real) == pytest.approx(0.6, abs=0.03)


def test_a_script_that_raises_shows_its_own_traceback_ends_with_1_and_leaves_a_real_robot_limp(tmp_path):
    script = tmp_path / "broken.py"
    script.write_text(
        "from controller import Robot\nrobot = Robot()\nmotor = robot.getDevice('shoulder')\nmotor.setPosition(0.4)\n"
        "for _ in range(20): robot.step(20)\nraise RuntimeError('my mistake')\n"
    )
    with serving("bench_arm") as port:
        done = run(script, "--rig", "bench_arm", "--backend", "real", "--port", port)
        assert done.returncode == 1
        assert "line 6" in done.stderr
        assert "RuntimeError: my mistake" in done.stderr
        assert "cli/run.py" not in done.stderr
        with axbridge.open("bench_arm", backend="real", port=port) as robot:
            assert robot["shoulder"].read("torque_enable") == 0


def test_ctrl_c_asks_the_controller_to_end(tmp_path):
    script = tmp_path / "forever.py"
    script.write_text(
        "from controller import Robot\nrobot = Robot()\nprint('running', flush=True)\n"
        "while robot.step(20) != -1: pass\nprint('left cleanly')\n"
    )
    with start("run", script, "--rig", "bench_arm") as running:
        assert running.stdout
        assert running.stdout.readline().strip() == "running"
        running.send_signal(signal.SIGINT)
        output, errors = running.communicate(timeout=30)
    assert (running.returncode, output.strip()) == (0, "left cleanly"), errors


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
def test_a_controller_that_never_steps_is_ended_by_sigterm_and_hears_of_ctrl_c(tmp_path, number):
    script = tmp_path / "stuck.py"
    script.write_text(NEVER_STEPS)
    with serving("bench_arm") as port:
        with start("run", script, "--rig", "bench_arm", "--backend", "real", "--port", port) as running:
            assert running.stdout
            assert running.stderr
            assert running.stdout.readline().strip() == "running"
            running.send_signal(number)
            if number == signal.SIGINT:
                assert running.stderr.readline().startswith("axbridge: heard Ctrl-C")
                running.send_signal(number)
            assert running.wait(10) == (-number if number == signal.SIGTERM else 130)
        with axbridge.open("bench_arm", backend="real", port=port) as robot:
            assert robot["shoulder"].read("torque_enable") == 0


def test_a_script_that_opens_a_simulation_is_paced_when_the_command_said_so(monkeypatch):
    monkeypatch.setenv("AXBRIDGE_REALTIME", "1")
    with axbridge.open("bench_arm") as robot:
        began = time.monotonic()
        for _ in range(10):
            robot.step(20)
        assert time.monotonic() - began > 0.15


def test_the_example_controller_waves():
    done = run(Path(__file__).parents[2] / "examples" / "webots_wave.py", "--rig", "bench_arm")
    assert done.returncode == 0, done.stderr
    assert "shoulder ends at" in done.stdout


def test_a_simulation_in_real_time_tells_how_late_the_controller_is():
    with axbridge.open("bench_arm", realtime=True) as robot:
        assert robot.step(20) < 20
        time.sleep(0.2)
        assert 50 < robot.step(20) < 2000  # of what is missed, 0.1 s is made good at most
        assert robot.time == 0.04


def test_the_step_after_the_end_ends_the_process(tmp_path):
    script = tmp_path / "forever.py"
    script.write_text(
        "from controller import Robot\nrobot = Robot()\nwhile robot.step(20) != -1: pass\nprint('ended', robot.getTime())\n"
        "while True: robot.step(20)\n"
    )
    done = run(script, "--rig", "bench_arm", "--duration", "0.5")
    assert (done.returncode, done.stdout.strip()) == (0, "ended 0.5")


def test_the_servo_of_old_releases_and_a_motion_file(tmp_path, ideal_rig):
    (tmp_path / "wave.motion").write_text("#WEBOTS_MOTION,V1.0,shoulder,nobody\n00:00:000,A,0,1\n00:00:400,B,0.4,1\n")
    script = tmp_path / "old.py"
    script.write_text(
        "from controller import *\n"
        "class Old(Robot):\n"
        "  def run(self):\n"
        "    servo = self.getServo('shoulder')\n"
        "    servo.enablePosition(20)\n"
        "    servo.setMotorForce(5.0); servo.setControlP(12.0); servo.setPosition(0.2)\n"
        "    for _ in range(60): self.step(20)\n"
        "    print('first', round(servo.getPosition(), 3))\n"
        "    motion = Motion('wave.motion')\n"
        "    assert motion.isValid() and motion.getDuration() == 400\n"
        "    motion.play()\n"
        "    while not motion.isOver(): self.step(20)\n"
        "    for _ in range(60): self.step(20)\n"
        "    print('second', round(servo.getPosition(), 3))\n"
        "Old().run()\n"
    )
    done = run(script, "--rig", str(ideal_rig))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["first", "0.2", "second", "0.4"]
    assert 'motor "nobody" not found' in done.stderr


def test_bad_input_is_two_lines_and_exit_code_2():
    for arguments, said in (("nowhere.py", "bench_arm"), "no such script"), ((__file__, "no_such"), "no such file or"):
        done = run(arguments[0], "--rig", arguments[1])
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.strip().splitlines()) <= 2
