"""Other people's Dynamixel software, each in a process of its own, on the port that `axbridge serve` prints."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.robot_files import write_feetech_comb
from tests.support.warm import serving

pytestmark = pytest.mark.slow

CLIENTS = Path(__file__).parent / "clients"
SERVED = {  # a rig, or the profile of three Feetech servos: which client, and what it needs
    "bioloid": [("sdk", "dynamixel_sdk"), ("pypot_client", "pypot"), ("rustypot_client", "rustypot")],
    "koch": [("sdk2", "dynamixel_sdk"), ("ros2_control", "dynamixel_sdk")],
    "head_gripper": [("both_protocols", "dynamixel_sdk")],
    "sts3215": [("feetech_sdk", "scservo_sdk"), ("rustypot_feetech", "rustypot")],
    "scs0009": [("feetech_sdk big", "scservo_sdk")],
}


@pytest.mark.parametrize(
    ("rig", "client", "needs"), [(rig, *one) for rig, clients in SERVED.items() for one in clients]
)
def test_clients_find_read_move_and_reconfigure_served_servos(rig, client, needs, tmp_path):
    if importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed (extra `clients`)")
    name, *more = client.split()
    with serving(write_feetech_comb(tmp_path, 3, rig) if rig.startswith("s") else rig) as port:
        done = subprocess.run(
            [sys.executable, CLIENTS / f"{name}.py", port, *more],
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": "/usr/bin:/bin"},  # no axbridge on the path of this process
            check=False,
        )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["ok"]), done.stderr  # OpenCV, of pypot, prints, too
