"""Work for many processes: whatever happens to a worker, every job is done once."""

import os
import subprocess
import sys
import time
from pathlib import Path

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


def test_workers_end_with_the_program_that_is_killed(tmp_path):
    marks = [tmp_path / name for name in "ab"]
    work = f"list(results(last, {[str(mark) for mark in marks]}))"
    code = f"from axbridge.spread import results\nfrom tests.support.killed_once import last\nif __name__ == '__main__':\n    {work}\n"
    script = tmp_path / "work.py"
    script.write_text(code)
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, script], env=os.environ | {"PYTHONPATH": f"{root / 'src'}:{root}"}
    ) as program:
        until(lambda: all(mark.exists() and mark.read_text() for mark in marks))
        workers_ = [int(mark.read_text()) for mark in marks]
        program.kill()
    until(lambda: not any(Path(f"/proc/{pid}/stat").exists() for pid in workers_))


def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_what_nobody_asks_for_any_more_is_not_begun(tmp_path):
    jobs = [str(tmp_path / f"{number:02}") for number in range(20)]
    with workers(most=2) as pool:
        for found in pool(mark, jobs):
            assert found == jobs[0]
            break
        assert list(pool(mark, jobs[-1:])) == jobs[-1:]
    assert len(list(tmp_path.iterdir())) < 10
