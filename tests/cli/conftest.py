"""Fixture that runs a verb with the port of the test's line."""

import pytest


@pytest.fixture
def on_line(said, line):
    return lambda *words, code=0: said(*words, "--port", line.port, code=code)
