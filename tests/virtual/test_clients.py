import importlib.util
import os
import re
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tests.support.hand import led
from tests.support.installed import installed
from tests.support.lerobot import borrowing, install, with_lerobot
from tests.support.robot_files import write_feetech_comb
from tests.support.warm import serving
from tests.test_docs import ROOT, save_files

pytestmark = pytest.mark.slow

CLIENTS = Path(__file__).parent / "clients"
RUNS = (  # rig, or profile of three Feetech servos; client; its package, or a version of it in a folder of its own
    *(
        ("bioloid", "sdk", "dynamixel_sdk"),
        ("bioloid", "pypot_client", "pypot"),
        ("bioloid", "rustypot_client", "rustypot"),
    ),
    *(("koch", "sdk2", "dynamixel_sdk"), ("koch", "ros2_control", "dynamixel_sdk"), ("koch", "rustypot_x", "rustypot")),
    *(("head_gripper", "both_protocols", "dynamixel_sdk"), ("sts3215", "feetech_sdk", "scservo_sdk")),
    *(("sts3215", "rustypot_feetech", "rustypot"), ("scs0009", "feetech_sdk big", "scservo_sdk")),
    *(("bioloid", "sdk", "dynamixel-sdk==4.0.5"), ("koch", "sdk2", "dynamixel-sdk==4.0.5")),
    *(("koch", "sdk2", "dynamixel-sdk==4.1.0"), ("sts3215", "ftservo", "ftservo-python-sdk==2.0.1")),
)
# `make test` runs one per servo family
QUICK = {"sdk", "sdk2", "rustypot_client", "feetech_sdk", "both_protocols"}


def ran(*command, **options):
    """Run a program that must succeed; return its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(
    ("rig", "client", "package"),
    [pytest.param(*run, marks=() if run[1] in QUICK and "==" not in run[2] else pytest.mark.ci) for run in RUNS],
)
def test_clients_find_read_move_and_reconfigure_served_servos(rig, client, package, tmp_path):
    (name, *more), env = client.split(), {"PATH": "/usr/bin:/bin"}  # axbridge is not on the path of this process
    if "==" in package:
        env["PYTHONPATH"] = str(tmp_path / "sdk")
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", tmp_path / "sdk", package]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip(f"{package} cannot be installed")
    elif importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed (extra `clients`)")
    with serving(write_feetech_comb(tmp_path, 3, rig) if rig.startswith("s") else rig) as port:
        output = ran(sys.executable, CLIENTS / f"{name}.py", port, *more, timeout=60, env=env)
    assert output.splitlines()[-1] == "ok"  # OpenCV, which pypot imports, also prints


ENTER_FOR_FILE, MIDDLE, SWEEP = "Press ENTER to use provided", "to the middle of its range", "Press ENTER to stop"
ENDS = ((-2.6, 2.6), (-1.75, 1.75), (-1.6, 1.6), (-1.9, 1.9), (-2.9, 2.9), (-0.2, 1.8))  # rad, of the Koch's joints


@pytest.fixture(scope="module")
def lerobot(tmp_path_factory):
    """Return a Python with LeRobot and without this project."""
    return with_lerobot(tmp_path_factory)


def answer(client, prompt, act=lambda: None):
    """Wait until a process shows this prompt, which ends no line; act, and press ENTER."""
    output = ""
    while not output.endswith(prompt):
        output += (letter := client.stdout.read(1))
        assert letter, output[-3000:]
    act()
    client.stdin.write("\n")
    client.stdin.flush()


@pytest.mark.ci
def test_lerobots_feetech_bus_and_so101_arms_work_with_served_arms(lerobot, tmp_path):
    rig, calibrations = write_feetech_comb(tmp_path, 6), tmp_path / "calibrations"
    calibrations.mkdir()
    with serving(rig) as port, serving(rig) as leaders:
        env = {**os.environ, "PYTHONPATH": str(CLIENTS / "stubs"), "HOME": str(tmp_path)}
        command = (lerobot, CLIENTS / "lerobot_so101.py", port, leaders, calibrations)
        assert ran(*command, timeout=120, env=env, input="\n\n").endswith("ok\n")  # ENTER: the file's calibration


@pytest.mark.ci
def test_the_workflow_for_an_so101_runs_without_input(lerobot, tmp_path):
    yaml = pytest.importorskip("yaml")
    save_files(ROOT / "docs" / "so101.md", tmp_path)
    (job,) = yaml.safe_load((tmp_path / ".github/workflows/arm.yml").read_text())["jobs"].values()
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    given = {name: entry["default"] for name, entry in action["inputs"].items()}
    given |= next(step["with"] for step in job["steps"] if step.get("id") == "servos")
    values = {f"inputs.{name}": value for name, value in given.items()} | {"inputs.python": sys.executable}
    output = tmp_path / "output"
    env = {**os.environ, "GITHUB_OUTPUT": str(output), "RUNNER_TEMP": str(tmp_path), "HOME": str(tmp_path)}
    env |= {"PYTHONPATH": str(CLIENTS / "stubs")}

    def lines(steps):
        """Return the commands of the steps, without the installation of packages."""
        commands = [step["run"] for step in steps if "pip install" not in step.get("run", "pip install")]
        return [re.sub(r"\$\{\{ (.+?) \}\}", lambda match: values[match[1]], line) for line in commands]

    options = {"cwd": tmp_path, "stdin": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(
        ["bash", "-e", "-c", *lines(action["runs"]["steps"])], env=env, start_new_session=True, **options
    ) as server:
        try:
            assert server.wait(200) == 0
            values["steps.servos.outputs.port"] = output.read_text().strip().removeprefix("port=")
            env["PATH"] = f"{lerobot.parent}:{env['PATH']}"
            for line in lines(job["steps"]):
                ran("bash", "-e", "-c", line, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, timeout=120)
        finally:
            os.killpg(server.pid, signal.SIGTERM)


@pytest.mark.ci
def test_lerobots_bus_follower_and_leader_work_with_served_arms(lerobot, tmp_path):
    with led("koch", "none", "own") as (arm, tell), serving("koch_leader") as leader:

        def turn_all(*shares):
            """Turn each joint by these shares of the way from its middle to its end."""
            for share, (row, (low, high)) in product(shares, enumerate(ENDS)):
                tell(f"{row} {(low + high) / 2 + share * (high - low) / 2}")

        command = (lerobot, "-u", CLIENTS / "lerobot_client.py", arm, leader, tmp_path)
        turn_all(0.0)
        env = {**os.environ, "PYTHONPATH": str(CLIENTS / "stubs"), "HOME": str(tmp_path)}
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen(command, env=env, text=True, **streams) as client:
            answer(client, MIDDLE)
            answer(client, SWEEP, lambda: turn_all(0.9, -0.9, 0.0))
            answer(client, ENTER_FOR_FILE)  # for the leader
            output, _ = client.communicate(timeout=60)
            assert (client.returncode, output.endswith("ok\n")) == (0, True), output[-3000:]


DATASETS = ("datasets<5", "av<16", "pandas<3", "pillow")  # packages of LeRobot's recorder
PLUGIN = Path(__file__).parents[2] / "integrations" / "lerobot_robot_axbridge"


@pytest.mark.ci
@pytest.mark.real_time
def test_any_rig_is_a_robot_of_lerobot(tmp_path, tmp_path_factory):
    python = borrowing(with_lerobot(tmp_path_factory), tmp_path / "env")
    wheel, _ = installed(tmp_path_factory)
    install(python, f"{wheel}[sim]", "pytest", "pytest-timeout", *DATASETS)
    install(python, "--no-deps", PLUGIN)
    env = {"AXBRIDGE": f"{sys.executable} -m axbridge", "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    command = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider", PLUGIN / "tests")
    assert "skipped" not in ran(*command, timeout=400, env=env, cwd=tmp_path)
