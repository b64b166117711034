"""The fixture of the conformance tests."""

import pytest

from axbridge.webots.module import uninstall
from tests.support.ideal_world import Bench


@pytest.fixture(params=["bullet", "mujoco"])
def bench(tmp_path, request, monkeypatch):
    """A `Bench` whose robots are closed after the test: Webots' rules hold whatever moves the joints."""
    monkeypatch.setenv("AXBRIDGE_ENGINE", request.param)
    made = Bench(tmp_path)
    yield made
    for robot in made.opened:
        robot.close()
    uninstall()
