"""When kernels are compiled, what is told meanwhile, and who finds them again."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from axbridge.jit import COMPILED

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not COMPILED, reason="numba is not in use")]

SOURCE = Path(__file__).parents[1] / "src"
CALL = """
import json, sys
from axbridge import jit
sys.executable = "{python}"
{before}
from axbridge.servo.motor import warmed
value = warmed(6.0, 0.004, 10.0)
print(json.dumps([value, "numba" in sys.modules, jit.kernels()[0], str(jit.cache_folder())]))
"""
LIGHT, HEAVY = (f"jit.start_work('swing', light={light})" for light in (True, False))


@pytest.fixture
def call(tmp_path):
    """Run a kernel in a process of its own: what came out, whether numba was needed, how many it compiled, where."""
    python = tmp_path / "python"  # in the place of the interpreter that would compile beside
    python.write_text(f'#!/bin/sh\necho "$PWD" >> {tmp_path / "beside"}\n')
    python.chmod(0o755)

    def run(before, source=SOURCE):
        env = {
            **os.environ,
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "PYTHONPATH": str(source),
            "NUMBA_CACHE_DIR": "",
        }
        code = CALL.format(python=python, before=before)
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return json.loads(done.stdout)

    return run


def test_light_work_begins_at_once_and_is_compiled_beside_once(call, tmp_path):
    first, second = call(LIGHT), call(LIGHT)
    assert first[1:3] == second[1:3] == [False, 0]
    assert first[0] == pytest.approx(6.24)
    beside, end = tmp_path / "beside", time.monotonic() + 60
    while not beside.exists():  # whoever compiles begins a process for that
        assert time.monotonic() < end
        time.sleep(0.01)
    assert len(beside.read_text().splitlines()) == 1  # the first is still at it


def test_light_work_is_done_by_kernels_once_they_are_compiled(call, tmp_path):
    assert call(f"jit.warmed('swing'); {HEAVY}")[1:3] == [True, 1]
    assert call(LIGHT)[1:3] == [True, 0]
    assert not (tmp_path / "beside").exists()


@pytest.mark.ci
def test_kernels_are_found_again_from_another_place_and_after_a_reinstall(call, tmp_path):
    before = call(HEAVY)
    shutil.copytree(SOURCE, tmp_path / "elsewhere", copy_function=shutil.copyfile)  # with times of its own
    after = call(HEAVY, tmp_path / "elsewhere")
    assert before[2] == 1
    assert after[2] == 0
    assert after[3] == before[3]


def test_other_kernels_have_a_folder_of_their_own(call, tmp_path):
    shutil.copytree(SOURCE, tmp_path / "changed")
    kernel = tmp_path / "changed" / "axbridge" / "servo" / "motor.py"
    kernel.write_text(kernel.read_text() + "# another")
    assert call(LIGHT, tmp_path / "changed")[3] != call(LIGHT)[3]


def test_work_begun_anew_changes_over_when_kernels_have_become_ready(call):
    twice = f"{LIGHT}\nfrom axbridge.servo.motor import warmed\nwarmed(1.0, 0.0, 0.0)\njit.warmed('swing')\n{LIGHT}"
    assert call(twice)[1:3] == [True, 1]


def test_whoever_waits_for_kernels_sees_it_on_a_terminal(tmp_path):
    code = CALL.format(python="", before=HEAVY)
    env = {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(SOURCE), "NUMBA_CACHE_DIR": ""}
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=theirs
    ):
        os.close(theirs)
        seen = os.read(ours, 4096).decode()
    os.close(ours)
    assert "compiling kernels, once for this machine (0 of " in seen


@pytest.mark.ci
def test_verbs_that_simulate_nothing_do_not_import_numba(tmp_path):
    code = "import sys\nfrom axbridge.cli import main\ntry:\n    main()\nfinally:\n    print('numba' in sys.modules)"
    for verb in (["--version"], ["scan", "--port", "/dev/nothing"], ["rig", "list"], ["info", "nothing.mcap"]):
        done = subprocess.run([sys.executable, "-c", code, *verb], cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout.splitlines()[-1] == "False", verb


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX")
@pytest.mark.parametrize("trap", ["open to all", "of another user", "a link", "a file", "none"])
def test_kernels_are_kept_in_no_folder_that_others_can_write(tmp_path, trap):
    shared, real = tmp_path / f"axbridge-{os.getuid()}", tmp_path / "real"
    real.mkdir(mode=0o700)
    if trap == "open to all":
        shared.mkdir()
        shared.chmod(0o777)
    elif trap == "of another user":
        shared.mkdir(mode=0o700)
        if os.getuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(shared, 65534, 65534)
    elif trap == "a link":
        shared.symlink_to(real)
    elif trap == "a file":
        shared.write_text("")
    blocked = tmp_path / "home"
    blocked.write_text("no folder can be made in here")
    env = {**os.environ, "TMPDIR": str(tmp_path), "XDG_CACHE_HOME": str(blocked), "NUMBA_CACHE_DIR": ""}
    code = "from axbridge.jit import cache_folder; print(cache_folder())"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    kept = Path(done.stdout.strip())
    assert (kept.parent == shared) is (trap == "none")
    assert kept.parent.is_relative_to(tmp_path)
    assert real not in kept.parents
    assert (kept if trap != "none" else shared).stat().st_mode & 0o077 == 0
