"""The pytest plug-in: the fixture `servo_bus`, its marker and its option."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from threading import Timer
from typing import Any

import pytest

from axbridge.errors import UsageError
from axbridge.testing.servo_bus import ServoBus, Timing, serve

_MARKER = "servo_bus(rig, *, faults='', timing='none', seed=0): which virtual servos the fixture serves, and how"
_NOTICE_AFTER = 1.0  # s; a start takes up to a minute when the simulation has to be compiled


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the default rig."""
    group = parser.getgroup("axbridge")
    group.addoption("--servo-bus", metavar="RIG", default="bench_arm", help="Rig of the fixture servo_bus.")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture(scope="session")
def _servo_buses() -> Iterator[tuple[ExitStack, dict[str, ServoBus]]]:
    """Yield the servers of this process, one per rig; they run until the last test."""
    with ExitStack() as servers:
        yield servers, {}


@pytest.fixture
def servo_bus(
    request: pytest.FixtureRequest, _servo_buses: tuple[ExitStack, dict[str, ServoBus]]
) -> Iterator[ServoBus]:
    """Yield virtual servos on a serial port, reset for each test; see `axbridge.testing.ServoBus`."""
    marker = request.node.get_closest_marker("servo_bus")
    try:
        named, options = _marked(*marker.args, **marker.kwargs) if marker else _marked()
    except TypeError as mistake:
        why, usage = str(mistake).partition("() ")[2], _MARKER.partition(": ")[0]
        raise UsageError(f"the marker servo_bus {why}", f"it is {usage}") from None
    rig = str(named or request.config.getoption("--servo-bus"))
    servers, known = _servo_buses
    bus = known.get(rig)
    if bus is None or not bus.running:
        text = f"\naxbridge: starting the servos of {rig}; the first start takes up to a minute"
        capture = request.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            notice = Timer(_NOTICE_AFTER, print, [text], {"file": sys.stderr, "flush": True})
            notice.start()
            try:
                bus = known[rig] = servers.enter_context(serve(rig))
            finally:
                notice.cancel()
    bus.reset(**options)
    yield bus
    if not bus.running:
        pytest.fail(f"the server of {rig} ended in {request.node.nodeid}; the next test gets another", pytrace=False)


def _marked(
    rig: object = None, *, faults: str = "", timing: Timing = "none", seed: int = 0
) -> tuple[object, dict[str, Any]]:
    """Return the rig that a marker names, and the options of `ServoBus.reset`."""
    return rig, {"faults": faults, "timing": timing, "seed": seed}
