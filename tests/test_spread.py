"""Work for many processes: whatever happens to a worker, every job is done once."""

import pytest

from axbridge.spread import results
from tests.support.killed_once import kill_once

pytestmark = pytest.mark.slow


def test_a_killed_worker_costs_time_alone(tmp_path):
    jobs = [str(tmp_path / f"{number}") for number in range(3)]
    assert dict(results(kill_once, jobs)) == dict.fromkeys(range(3), "done")
