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
NEEDS = {"sdk": "dynamixel_sdk", "pypot_client": "pypot", "rustypot_client": "rustypot"}


@pytest.fixture
def port():
    with serving("bioloid") as port:
        yield port


@pytest.mark.parametrize("client", NEEDS)
def test_client_scans_reads_moves_and_reconfigures(port, client):
    run(NEEDS[client], client, port)


@pytest.mark.parametrize(
    ("needs", "client", "profile"),
    [
        ("scservo_sdk", "feetech_sdk", "sts3215"),
        ("scservo_sdk", "feetech_sdk big", "scs0009"),
        ("rustypot", "rustypot_feetech", "sts3215"),
    ],
)
def test_clients_of_feetech_servos_make_all_their_calls(needs, client, profile, tmp_path):
    with serving(write_feetech_comb(tmp_path, 3, profile)) as port:
        run(needs, client, port)


def run(needs, client, port):
    if importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed (extra `clients`)")
    name, *more = client.split()
    done = subprocess.run(
        [sys.executable, CLIENTS / f"{name}.py", port, *more],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin"},  # no axbridge on the path of this process
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["ok"]), done.stderr  # OpenCV, of pypot, prints, too
