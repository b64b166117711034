"""Options of the whole suite."""

import pytest


def pytest_addoption(parser):
    parser.addoption("--port", help="serial port with real servos, for tests marked `hardware`")
    parser.addoption("--manual", action="store_true", help="also hardware tests that need a hand on the cable")


@pytest.fixture
def hardware_port(request):
    port = request.config.getoption("--port")
    if not port:
        pytest.skip("needs real servos: give --port")
    return port
