"""Fixtures that run a verb with the port of the test's line, and shorten the doctor's work."""

from functools import partial

import pytest

from axbridge.bus.scan import scan


@pytest.fixture
def on_line(said, line):
    return lambda *words, code=0: said(*words, "--port", line.port, code=code)


@pytest.fixture
def quick_doctor(monkeypatch):
    """Let the doctor read less and ask few ids, because `test_scan` and served lines cover all ids."""
    monkeypatch.setattr("axbridge.cli.doctor.PACKETS", 50)
    monkeypatch.setattr("axbridge.bus.diagnose.scan", partial(scan, ids=[*range(8), 253]))
