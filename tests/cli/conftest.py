"""How a test types a verb, and reads what it says."""

import pytest

from axbridge.cli.app import run


@pytest.fixture
def said(capsys, tmp_path, monkeypatch):
    """Types a verb in a folder of the test that ends with `code`; what it says on both streams, one after the other."""
    monkeypatch.chdir(tmp_path)

    def typed(*words, code=0):
        capsys.readouterr()
        assert run([str(word) for word in words]) == code
        return "".join(capsys.readouterr())

    return typed


@pytest.fixture
def on_line(said, line):
    """Types a verb for the test's line."""
    return lambda *words, code=0: said(*words, "--port", line.port, code=code)
