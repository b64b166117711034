"""Options of the whole suite, and what of it a system can run."""

from importlib.util import find_spec

import pytest

BULLET = ("import pybullet", "from axbridge.physics.engines.bullet import", "from tests.support.humanoid import")


def pytest_ignore_collect(collection_path):
    """Leave out what is about PyBullet alone where there is none."""
    if find_spec("pybullet") is not None or collection_path.suffix != ".py":
        return None
    return any(line.startswith(BULLET) for line in collection_path.read_text(encoding="utf-8").splitlines()) or None


def pytest_collection_modifyitems(items):
    """Skip what a test asks of PyBullet where there is none: by its marker, or by the engine it is run with."""
    if find_spec("pybullet") is not None:
        return
    for item in items:
        chosen = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if item.get_closest_marker("bullet") or any(isinstance(one, str) and one == "bullet" for one in chosen):
            item.add_marker(pytest.mark.skip(reason="needs PyBullet, which has no wheel for this Python"))


def pytest_addoption(parser):
    parser.addoption("--port", help="serial port with real servos, for tests marked `hardware`")
    parser.addoption("--manual", action="store_true", help="also hardware tests that need a hand on the cable")


@pytest.fixture
def hardware_port(request):
    port = request.config.getoption("--port")
    if not port:
        pytest.skip("needs real servos: give --port")
    return port
