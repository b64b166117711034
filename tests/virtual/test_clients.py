"""Other people's Dynamixel software, each in a process of its own, on the port that `axbridge serve` prints."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.warm import serving

pytestmark = pytest.mark.slow

CLIENTS = Path(__file__).parent / "clients"
NEEDS = {
    "sdk": "dynamixel_sdk",
    "toolbox": "dynamixel_sdk",
    "raw": "serial",
    "pypot_client": "pypot",
    "rustypot_client": "rustypot",
}


@pytest.fixture
def port():
    with serving("bioloid") as port:
        yield port


@pytest.mark.parametrize("client", NEEDS)
def test_client_scans_reads_moves_and_reconfigures(port, client):
    if importlib.util.find_spec(NEEDS[client]) is None:
        pytest.skip(f"{NEEDS[client]} is not installed (extra `clients`)")
    done = subprocess.run(
        [sys.executable, CLIENTS / f"{client}.py", port],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin"},  # no axbridge on the path of this process
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["ok"]), done.stderr  # OpenCV, of pypot, prints, too
