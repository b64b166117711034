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


def test_a_script_that_opens_a_simulation_is_paced_when_the_command_said_so_and_hears_how_late_it_is(monkeypatch):
    monkeypatch.setenv("AXBRIDGE_REALTIME", "1")
    with axbridge.open("bench_arm") as robot:
        began = time.monotonic()
        for _ in range(10):
            robot.step(20)
        assert time.monotonic() - began > 0.15
        time.sleep(0.2)
        assert 50 < robot.step(20) < 2000  # of what is missed, 0.1 s is made good at most
        assert robot.time == pytest.approx(0.22)


def test_the_example_controller_waves():
    done = run(Path(__file__).parents[2] / "examples" / "webots_wave.py", "--rig", "bench_arm")
    assert done.returncode == 0, done.stderr
    assert "shoulder ends at" in done.stdout


def test_the_step_after_the_end_ends_the_process(tmp_path):
    script = tmp_path / "forever.py"
    script.write_text(
        "from controller import Robot\nrobot = Robot()\nwhile robot.step(20) != -1: pass\nprint('ended', robot.getTime())\n"
        "while True: robot.step(20)\n"
    )
    done = run(script, "--rig", "bench_arm", "--duration", "0.5")
    assert (done.returncode, done.stdout.strip()) == (0, "ended 0.5")


def test_bad_input_is_two_lines_and_exit_code_2():
    for arguments, said in (("nowhere.py", "bench_arm"), "no such script"), ((__file__, "no_such"), "no such file or"):
        done = run(arguments[0], "--rig", arguments[1])
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.strip().splitlines()) <= 2
