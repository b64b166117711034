"""Arms for the tests, and a stand-in for torch where it is not installed: LeRobot imports 2 GB to move no motor."""

import abc
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import shlex
import subprocess
import sys
import time
import types
from typing import Union

import numpy as np
import pytest
from dynamixel_sdk import PacketHandler, PortHandler

_NOT_NEEDED = ("torch", "torchvision", "safetensors", "einops", "gymnasium", "requests")
_SERVE = shlex.split(
    os.environ.get("AXBRIDGE", f"{sys.executable} -m axbridge")
)  # where numba is, it moves in real time


class _Anything(abc.ABCMeta):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _anything(name)

    def __getitem__(cls, _):
        return cls

    def __or__(cls, other):
        return Union[cls, other]  # noqa: UP007 - other may be a name

    __ror__ = __or__


class _Thing(metaclass=_Anything):
    def __init__(self, *_, **__):
        pass

    def __call__(self, decorated=None, *_, **__):
        return decorated

    def __class_getitem__(cls, _):
        return cls


def _anything(name):
    return _Anything(name, (_Thing,), {})


class _Module(types.ModuleType):
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _anything(name)


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, _path, _target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in _MISSING else None

    def create_module(self, spec):
        module = _Module(spec.name)
        if spec.name == "torch":
            module.tensor = np.array  # all that reading an episode's numbers needs of it
        return module

    def exec_module(self, module):
        pass


_MISSING = {name for name in _NOT_NEEDED if importlib.util.find_spec(name) is None}
sys.meta_path.insert(0, _StandIns())


class Arm:
    """`axbridge serve RIG`: servos from id 1 on, on a pseudo-terminal; served until the block ends."""

    def __init__(self, rig="pan_tilt", torque_enable=24):
        pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        self.process = subprocess.Popen([*_SERVE, "serve", rig], text=True, **pipes)
        self.port = self.process.stdout.readline().split()[1]
        self.torque_enable = torque_enable

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()

    def fault(self, spec):
        self.process.stdin.write(f"{spec}\n")
        self.process.stdin.flush()

    def torque(self, id_):
        """Whether a motor has torque, by another program; tried until it answers."""
        port, packets = PortHandler(self.port), PacketHandler(1.0)
        assert port.openPort()
        assert port.setBaudRate(1_000_000)
        try:
            return until(lambda: _asked(packets, port, id_, self.torque_enable))[0] != 0
        finally:
            port.closePort()


def _asked(packets, port, id_, address):
    value, result, _ = packets.read1ByteTxRx(port, id_, address)
    return (value,) if result == 0 else None


def until(happens, patience=30.0):
    """What `happens` gives, as soon as that is true."""
    end = time.monotonic() + patience
    while not (found := happens()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


@pytest.fixture
def arm():
    with Arm() as served:
        yield served


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """LeRobot makes folders for calibrations there."""
    monkeypatch.setattr("lerobot.robots.robot.HF_LEROBOT_CALIBRATION", tmp_path)
    monkeypatch.setattr("lerobot.teleoperators.teleoperator.HF_LEROBOT_CALIBRATION", tmp_path)
