"""Compilation of kernels, its progress report, the cache, and the same simulation without numba."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from axbridge import jit

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not jit.COMPILED, reason="numba is not in use")]

SOURCE = Path(__file__).parents[1] / "src"
CALL = """
import json, sys
from axbridge import jit
from axbridge.servo.motor import warmed
jit.compile_first()
value = warmed(6.0, 0.004, 10.0)
print(json.dumps([value, "numba" in sys.modules, jit.kernels()[0], str(jit.cache_folder())]))
"""


def python(code, *arguments, **variables):
    """Run code in a new process with these environment variables."""
    env = os.environ | {"NUMBA_CACHE_DIR": ""} | {name: str(value) for name, value in variables.items()}
    return subprocess.run([sys.executable, "-c", code, *arguments], env=env, capture_output=True, text=True)


@pytest.fixture
def call(tmp_path):
    """Return a function that runs a kernel: result, whether numba was imported, compiled kernels, cache folder."""

    def run(source=SOURCE):
        done = python(CALL, XDG_CACHE_HOME=tmp_path / "cache", PYTHONPATH=source)
        assert done.stderr == ""
        return json.loads(done.stdout)

    return run


@pytest.mark.ci
def test_cached_kernels_are_used_from_another_folder_and_after_a_reinstall(call, tmp_path):
    before = call()
    shutil.copytree(SOURCE, tmp_path / "elsewhere", copy_function=shutil.copyfile)  # with new time stamps
    after = call(tmp_path / "elsewhere")
    assert before[2] == 1
    assert after[2] == 0
    assert after[3] == before[3]


def test_changed_kernels_have_their_own_cache_folder(tmp_path):
    shutil.copytree(SOURCE, tmp_path / "changed")
    kernel = tmp_path / "changed" / "axbridge" / "servo" / "motor.py"
    kernel.write_text(kernel.read_text() + "# another")
    here, there = (
        python("from axbridge.jit import cache_folder; print(cache_folder())", PYTHONPATH=source).stdout
        for source in (SOURCE, tmp_path / "changed")
    )
    assert len({here, there, ""}) == 3


def test_a_terminal_shows_the_progress_of_compiling(tmp_path):
    env = {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(SOURCE), "NUMBA_CACHE_DIR": ""}
    near_end, far_end = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", CALL], env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=far_end
    ):
        os.close(far_end)
        seen = os.read(near_end, 4096).decode()
    os.close(near_end)
    assert re.search(r"compiling part 0 of \d+, once per machine", seen)


TERMINATED = """
import ctypes, os, signal, sys
import axbridge
from axbridge import jit

def end(*_):
    sys.exit(9)

def kill():
    os.kill(os.getpid(), signal.SIGTERM)

def report(done, total):
    if not reports:
        reports.append(ctypes.CFUNCTYPE(None)(kill))
        reports[0]()  # as in a callback of LLVM, Python drops the handler's exception
    print(done, total, flush=True)

reports = []
signal.signal(signal.SIGTERM, end)
jit.compile_first()
with jit.reporting(report):
    with axbridge.open("bioloid") as robot:
        next(iter(robot.values())).set_position(0.1)  # switches it on; the block's end switches it off
"""


def test_a_signal_in_a_callback_of_the_compiler_ends_the_program_at_the_next_kernel(tmp_path):
    done = python(TERMINATED, NUMBA_CACHE_DIR=tmp_path, PYTHONPATH=SOURCE)
    assert "Exception ignored on calling ctypes callback" in done.stderr
    assert done.returncode == 9, done.stderr
    assert max(int(line.split()[0]) for line in done.stdout.splitlines()) < 5


RUN = """
import json, sys
import axbridge
from axbridge import jit
if sys.argv[1:]:
    jit.compile_first()
with axbridge.open("bench_arm", engine="mujoco") as robot:
    robot["shoulder"].set_position(1.0)
    for _ in range(25):
        robot.step(20)
    path = robot.simulation.truth("shoulder").position.hex(), robot["shoulder"].velocity.hex()
    print(json.dumps(["axbridge[fast]" in jit.LIGHTEN, jit.kernels()[0], *path]))
"""


@pytest.mark.ci
def test_a_short_simulation_compiles_nothing_and_gives_the_same_bits_as_a_compiled_one(tmp_path):
    cold, warm = (python(RUN, *arguments, XDG_CACHE_HOME=tmp_path / "cache") for arguments in ([], ["compiled"]))
    (_, none, *plain), (_, some, *compiled) = (json.loads(done.stdout) for done in (cold, warm))
    assert plain == compiled
    assert none == 0 < some
    assert cold.stderr == ""
    assert re.match(r"axbridge: compiling part \d+ of \d+(, about \d+ s left)?, once per machine\n", warm.stderr)


@pytest.mark.ci
def test_verbs_that_simulate_nothing_do_not_import_numba():
    code = "import sys\nfrom axbridge.cli import main\ntry:\n    main()\nfinally:\n    print('numba' in sys.modules)"
    for verb in (["--version"], ["scan", "--port", "/dev/nothing"], ["rig", "list"], ["info", "nothing.mcap"]):
        assert python(code, *verb).stdout.splitlines()[-1] == "False", verb


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX")
@pytest.mark.parametrize("trap", ["open to all", "of another user", "a link", "a file", "none"])
def test_the_cache_is_in_no_folder_that_another_user_can_write(tmp_path, trap):
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
    code = "from axbridge.jit import cache_folder; print(cache_folder())"
    folder = Path(python(code, TMPDIR=tmp_path, XDG_CACHE_HOME=blocked).stdout.strip())
    assert (folder.parent == shared) is (trap == "none")
    assert folder.parent.is_relative_to(tmp_path)
    assert real not in folder.parents
    assert (folder if trap != "none" else shared).stat().st_mode & 0o077 == 0


# ---- without numba


def test_kernels_run_as_plain_python_when_numba_is_missing():
    blocks = "import sys\nsys.modules['numba'] = None", ""
    runs = (python(f"{block}\n{RUN}").stdout for block in blocks)
    plain, usual = (json.loads(run.splitlines()[-1]) for run in runs)
    assert (plain[0], usual[0]) == (True, False)
    assert plain[2:] == usual[2:]


def test_a_numba_that_is_too_old_is_not_used_and_a_warning_says_so(tmp_path):
    """Without the extra `fast`, pip does not check the version of an installed numba."""
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    facts = tmp_path / "numba-0.67.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: numba\nVersion: 0.67.0\n")
    code = "from axbridge.servo.motor import warmed; from axbridge import jit; print(jit.COMPILED, round(warmed(6.0, 0.004, 10.0), 2))"
    done = python(code, PYTHONPATH=os.pathsep.join((str(tmp_path), str(SOURCE))))
    assert done.stdout == "False 6.24\n"
    assert "numba 0.67.0 is too old to compile the simulation" in done.stderr
    assert "axbridge[fast]" in done.stderr


def test_the_extra_requires_a_numba_that_can_compile_the_kernels():
    (oldest,) = re.findall(r'"numba>=([\d.]+)', (SOURCE.parent / "pyproject.toml").read_text())
    assert tuple(map(int, oldest.split("."))) == jit._OLDEST
