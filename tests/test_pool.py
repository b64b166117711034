"""Jobs in parallel: each job gives one result, although workers or schedulers are killed."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from axbridge.errors import AxBridgeError, UsageError
from axbridge.pool import workers
from tests.support.killed_once import kill_always, kill_once, mark, mark_and_sleep
from tests.support.waiting import until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
OURS = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


@pytest.fixture
def address():
    """A free address for a dask scheduler."""
    pytest.importorskip("distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def test_a_job_runs_again_when_its_worker_is_killed_and_is_given_up_after_four_workers(tmp_path, recwarn):
    jobs = [str(tmp_path / f"{number}") for number in range(3)]
    with workers(most=2) as pool:
        assert list(pool(kill_once, jobs)) == ["done"] * 3
        assert list(pool(mark, jobs)) == jobs  # in the order of the jobs, by new processes
        assert [str(warning.message) for warning in recwarn] == ["late"]  # shown once, in this process
    with workers(most=1) as pool, pytest.raises(AxBridgeError, match="ended 4 times"):
        list(pool(kill_always, ["x"]))


def test_workers_do_not_run_the_script_again_and_end_with_the_program_that_is_killed(tmp_path):
    marks, script = [tmp_path / name for name in "ab"], tmp_path / "work.py"
    work = f"with workers() as pool: list(pool(last, {[str(mark) for mark in marks]}))"
    script.write_text(f"from axbridge.pool import workers\nfrom tests.support.killed_once import last\n{work}\n")
    with subprocess.Popen([sys.executable, script], env=OURS) as program:
        until(lambda: all(mark.exists() and mark.read_text() for mark in marks))
        workers_ = [int(mark.read_text()) for mark in marks]
        program.kill()
    until(lambda: not any(Path(f"/proc/{pid}/stat").exists() for pid in workers_))


def test_closing_the_iterator_cancels_the_other_jobs(tmp_path):
    jobs = [str(tmp_path / f"{number:02}") for number in range(20)]
    with workers(most=2) as pool:
        for result in pool(mark_and_sleep, jobs):
            assert result == jobs[0]
            break
        assert list(pool(mark, jobs[-1:])) == jobs[-1:]
    assert len(list(tmp_path.iterdir())) < 10


LOST = """
import os, subprocess, sys, time
from axbridge.errors import AxBridgeError
from axbridge.pool import workers
from tests.support.killed_once import mark

if __name__ == "__main__":
    folder, port = sys.argv[1:]
    module = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--no-dashboard"]
    with open(os.devnull, "w") as quiet:
        scheduler = subprocess.Popen([*module, "--port", port], stdout=quiet, stderr=quiet)
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1"]
        worker = subprocess.Popen([*worker, "--no-nanny", "--no-dashboard"], stdout=quiet, stderr=quiet)
    try:
        with workers(f"dask://127.0.0.1:{port}") as pool:
            for _ in pool(mark, [f"{folder}/{number}" for number in range(200)]):
                scheduler.kill()
                killed = time.monotonic()
    except AxBridgeError as error:
        print(error, "in time" if time.monotonic() - killed < 15 else "late", sep="\\n")
    finally:
        scheduler.kill()
        worker.kill()
"""


def test_the_error_names_a_scheduler_that_is_killed_and_nothing_else_is_printed(tmp_path, address):
    script = tmp_path / "lost.py"
    script.write_text(LOST)
    (tmp_path / "marks").mkdir()
    command = [sys.executable, script, tmp_path / "marks", address.partition(":")[2]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=OURS)
    cause, remedy, in_time = done.stdout.splitlines()
    assert cause.startswith(f"the dask scheduler at {address} was lost")
    assert remedy.startswith("start it and its workers again")
    assert in_time == "in time"
    assert done.stderr == ""


def test_a_scheduler_without_workers_is_an_error_after_a_time_limit(monkeypatch, address):
    monkeypatch.setattr("axbridge.pool._NO_WORKER_TIMEOUT", 1.0)
    module = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--no-dashboard"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*module, "--port", address.partition(":")[2]], **quiet) as scheduler:
        try:
            words = f"scheduler at {address} has had no worker for 1 s"
            with pytest.raises(UsageError, match=words) as said, workers(f"dask://{address}") as pool:
                list(pool(mark, ["x"]))
        finally:
            scheduler.terminate()
    assert said.value.hint == f"start some: dask worker {address} --nthreads 1; or leave --executor out"


@pytest.mark.parametrize("address", ["127.0.0.1:9", "nowhere.invalid:8786", "localhost", ""])
def test_the_error_names_an_address_without_scheduler(address, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("axbridge.pool._CONNECT_TIMEOUT", 1.0)
    with (
        pytest.raises(UsageError, match=f"no dask scheduler answers at {address}") as said,
        workers(f"dask://{address}"),
    ):
        pass
    assert said.value.hint == "start one (dask scheduler), or leave --executor out"


ENDED_AS_IT_BEGINS = """
import math, os, signal, sys
from multiprocessing import util

begin = util.spawnv_passfds

def begin_and_end(path, arguments, descriptors):
    pid = begin(path, arguments, descriptors)
    if b"spawn_main" in str(arguments).encode():
        os.kill(os.getpid(), signal.SIGTERM)
    return pid

util.spawnv_passfds = begin_and_end
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
from axbridge.pool import workers
with workers(most=1) as pool:
    list(pool(math.sqrt, [4.0]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="processes begin otherwise there")
def test_a_signal_during_the_start_of_a_process_prints_nothing():
    done = subprocess.run([sys.executable, "-c", ENDED_AS_IT_BEGINS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (5, "")
