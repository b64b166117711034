"""Work for many processes: whatever happens to a worker, every job is done once."""

import pytest

from axbridge.errors import AxBridgeError
from axbridge.spread import results, workers
from tests.support.killed_once import kill_always, kill_once, mark

pytestmark = pytest.mark.slow


def test_a_killed_worker_costs_time_alone(tmp_path):
    jobs = [str(tmp_path / f"{number}") for number in range(3)]
    with workers(most=2) as pool:
        assert dict(pool.results(kill_once, jobs)) == dict.fromkeys(range(3), "done")
        assert list(pool(mark, jobs)) == jobs  # in their order, by processes that came after the killed ones


def test_a_task_that_kills_every_worker_is_given_up():
    with pytest.raises(AxBridgeError, match="killed 4 times"):
        list(results(kill_always, ["x"]))


def test_what_nobody_asks_for_any_more_is_not_begun(tmp_path):
    jobs = [str(tmp_path / f"{number:02}") for number in range(20)]
    with workers(most=2) as pool:
        for found in pool(mark, jobs):
            assert found == jobs[0]
            break
        assert list(pool(mark, jobs[-1:])) == jobs[-1:]
    assert len(list(tmp_path.iterdir())) < 10
