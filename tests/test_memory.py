"""Little memory: a library that does not fit is left out and said, and nothing waits for ever."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v is Linux's")]

LITTLE = 512_000  # KB: numba's threads cannot begin in it


@pytest.mark.parametrize("memory", [LITTLE, 350_000, 250_000])
def test_a_recording_with_little_memory_is_made_or_refused(tmp_path, memory):
    verb = [sys.executable, "-m", "axbridge", "record", "step", "--rig", "bench_arm", "--out", "x.mcap"]
    limited = ["sh", "-c", f'ulimit -v {memory}; exec "$@"', "sh", *verb]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, timeout=90)
    assert "Traceback" not in done.stderr
    if done.returncode:
        assert "memory" in done.stderr
        assert not (tmp_path / "x.mcap").exists()
    else:
        assert (tmp_path / "x.mcap").stat().st_size > 1000
