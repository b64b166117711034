"""A bench of ideal joints, as Webots has them."""

import pytest

from axbridge.webots import uninstall
from tests.support.ideal_world import Bench


@pytest.fixture
def bench(tmp_path):
    """A `Bench` whose robots are closed after the test."""
    made = Bench(tmp_path)
    yield made
    for robot in made.opened:
        robot.close()
    uninstall()
