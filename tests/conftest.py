"""Options of the whole suite, and the tests that a system can run."""

import gc
import os
import signal
import sys
from importlib.util import find_spec

import hypothesis
import pytest

from tests.support.made_once import made_once
from tests.support.real_time import pytest_runtest_protocol  # noqa: F401 - a hook
from tests.support.waiting import extend_timeouts
from tests.support.warm import remember_parameters

extend_timeouts()
remember_parameters()
sys.setswitchinterval(0.0005)  # s; a PtyLine replies in a thread, which the own code of the test delays
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell begins without it

hypothesis.settings.register_profile("axbridge", deadline=None)  # a busy machine may be late
hypothesis.settings.load_profile("axbridge")

BULLET = ("import pybullet", "from axbridge.sim.engines.bullet.engine import")


def pytest_ignore_collect(collection_path):
    """Leave out the files that need PyBullet if it is not installed."""
    if find_spec("pybullet") is not None or collection_path.suffix != ".py":
        return None
    return any(line.startswith(BULLET) for line in collection_path.read_text(encoding="utf-8").splitlines()) or None


def pytest_collection_modifyitems(items):
    """Skip tests that need PyBullet, by their marker or their engine, if it is not installed."""
    if find_spec("pybullet") is not None:
        return
    for item in items:
        chosen = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if item.get_closest_marker("bullet") or any(isinstance(value, str) and value == "bullet" for value in chosen):
            item.add_marker(pytest.mark.skip(reason="needs PyBullet, which has no wheel for this Python"))


def pytest_collection_finish():
    """Exclude modules and tests, which are never freed, from garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser):
    parser.addoption("--port", help="serial port with real servos, for tests marked `hardware`")
    parser.addoption("--manual", action="store_true", help="also hardware tests that need a hand on the cable")


@pytest.fixture(autouse=True)
def as_it_was():
    """Restore what `axbridge run` changes in its own process: variables, arguments, signals, and Webots' module."""
    environment, arguments, path = dict(os.environ), list(sys.argv), list(sys.path)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    if os.environ != environment:
        os.environ.clear()
        os.environ.update(environment)
    sys.argv[:], sys.path[:] = arguments, path
    sys.modules.pop("controller", None)


@pytest.fixture(scope="session")
def walked(tmp_path_factory):
    """A recording of three steps of a simulated Bioloid, with the servo model `ax12` and what was measured of it."""
    from axbridge.config.rig import Rig
    from axbridge.motion.gait import Gait
    from axbridge.motion.walking import walk
    from axbridge.recording.provenance import describe
    from axbridge.recording.recorder import Recorder
    from axbridge.recording.stored import open_recording
    from axbridge.robot.open import open_robot

    rig, gait = Rig.load("bioloid").with_engine("mujoco"), Gait(steps=3)
    facts = describe(rig, backend="sim", seed=0, experiment="walk", gait=vars(gait))

    def record(folder):
        path = folder / "walk.mcap"
        with Recorder(path, facts) as recorder, open_robot(rig, "sim") as robot:
            assert not walk(robot, gait, recorder).fell
        return path

    return open_recording(made_once(tmp_path_factory, "walk", record))


@pytest.fixture
def said(capsys, tmp_path, monkeypatch):
    """Types a verb in a folder of the test that ends with `code`; what it says on both streams, one after the other."""
    from axbridge.cli.app import MISUSE, run

    monkeypatch.chdir(tmp_path)

    def typed(*words, code=0):
        capsys.readouterr()
        assert run([str(word) for word in words]) == code
        out, err = capsys.readouterr()
        assert code != MISUSE or not out  # a refusal is told on stderr alone
        return out + err

    return typed


@pytest.fixture(scope="session")
def hardware_port(request):
    port = request.config.getoption("--port")
    if not port:
        pytest.skip("needs real servos: give --port")
    return port
